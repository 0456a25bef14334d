"""The MCP conformance tests of the protocol's authors, for our server and our client.

    done = run_suite("server", "--url", url, "--scenario", "ping")

`python -m tests.servers.conformance` makes sure they are there and prints their version.

They are an npm package, and it needs a newer Node than many machines have; so that comes as a package too.
`tests/conformance/package.json` names the versions of both, and its lock those of all the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.servers.npm import ROOT, NpmPackages, PackagesMissing

PACKAGE = "@modelcontextprotocol/conformance"
PACKAGES = NpmPackages(
    "the MCP conformance tests",
    pins=ROOT / "tests" / "conformance",
    cache=ROOT / ".venv" / "conformance",
    command="python -m tests.servers.conformance",
)
RUN_LIMIT_S = 60


def programs(cache: Path = PACKAGES.cache, npm: str | None = None) -> list[str]:
    """The command that runs them; installs them first where they are missing or of other versions.

    Raises:
        PackagesMissing: still not there; the message says what to do.
    """
    modules = replace(PACKAGES, cache=cache).modules(npm)
    return [str(modules / ".bin" / "node"), str(modules / PACKAGE / "dist" / "index.js")]


def version() -> str:
    """The version that is pinned."""
    return PACKAGES.version(PACKAGE)


def run_suite(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run them in a folder of their own, to the end; whether they passed is in the exit code."""
    node, script = programs()
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        [node, script, *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=RUN_LIMIT_S,
        check=False,
    )


def main() -> int:
    try:
        node, _ = programs()
    except PackagesMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    asked = subprocess.run([node, "--version"], check=True, capture_output=True, text=True)
    print(f"MCP conformance tests {version()} on Node {asked.stdout.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
