"""Modules of others that the page ships, made from their npm packages.

    python -m tests.servers.vendored      # fetch the pinned packages and write src/placet/server/page/vendor/

Keep true:
1. A vendored file is its package's file with two changes: a bare import becomes a relative path (an import
   map would be an inline script, which the page's Content-Security-Policy forbids), and the link to a source
   map goes.
2. `SHA256SUMS` lists every file of the folder; a test compares. Each package's licence lies beside it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "src" / "placet" / "server" / "page" / "vendor"
SUMS = "SHA256SUMS"

PACKAGES: dict[str, tuple[str, dict[str, str]]] = {
    "preact": ("11.2.0", {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"}),
    "htm": ("3.1.1", {"dist/htm.module.js": "htm.js"}),
    "@preact/signals-core": ("1.14.5", {"dist/signals-core.module.js": "signals-core.js"}),
    "@preact/signals": ("2.11.4", {"dist/signals.module.js": "signals.js"}),
    "uplot": ("1.6.32", {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"}),
}
"""Package: version, and which of its files becomes which of ours."""

IMPORTS = {"preact": "./preact.js", "preact/hooks": "./hooks.js", "@preact/signals-core": "./signals-core.js"}

EXPORTS = {"uplot.js": "\nexport default uPlot;\n"}
"""uPlot's small build is a classic script that declares one variable; the module it becomes exports it."""


def translated(name: str, source: str) -> str:
    """The file as the page serves it."""
    without_map = re.sub(r"\n?//# sourceMappingURL=\S+\s*$", "\n", source)
    return re.sub(r'(from|import)"([^"./][^"]*)"', _relative, without_map) + EXPORTS.get(name, "")


def _relative(found: re.Match[str]) -> str:
    return f'{found[1]}"{IMPORTS[found[2]]}"'


def sums(folder: Path = VENDOR) -> str:
    """The digest of every file of the folder, as `sha256sum` writes them."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def write(folder: Path = VENDOR) -> None:
    """Fetch the pinned packages with npm and write all files anew."""
    folder.mkdir(parents=True, exist_ok=True)
    for package, (version, files) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as scratch:
            command = ["npm", "pack", "--silent", f"{package}@{version}", "--pack-destination", scratch]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
            (archive,) = Path(scratch).glob("*.tgz")
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            inside = Path(scratch) / "package"
            assert json.loads((inside / "package.json").read_text())["version"] == version
            for source, name in files.items():
                (folder / name).write_text(translated(name, (inside / source).read_text("utf-8")), "utf-8")
            plain = package.removeprefix("@").replace("/", "-")
            (folder / f"{plain}.LICENSE").write_bytes((inside / "LICENSE").read_bytes())
    (folder / SUMS).write_text(sums(folder))


if __name__ == "__main__":
    write()
    print(f"{sum(path.stat().st_size for path in VENDOR.glob('*.js'))} bytes of modules", file=sys.stderr)
