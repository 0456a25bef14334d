"""Where Python finds a project that its own environment has installed in place (`pip install -e`).

Such an installation names the person's folder. Checks run on an export somewhere else: without more, Python
would find nothing there, or worse, the person's files in the place of the change.

Keep true: only files of the environment are read, as text; nothing of them is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_MOST_BYTES = 1 << 20
_NAMED_IN_FINDER = re.compile(r"""['"](/[^'"\n]+)['"]""")


def import_roots(top: Path, environment: Mapping[str, str]) -> list[str]:
    """Folders of the repository `top`, relative to it, from which the Python of PATH imports."""
    found: list[str] = []
    for folder in _packages(environment):
        for path in sorted(folder.glob("*.pth")):
            found += _beneath(top, (line.strip() for line in _text(path).splitlines()))
        for path in sorted(folder.glob("__editable__*.py")):
            # It maps packages to their folders; Python looks for a package in the folder above.
            named = (match[1] for match in _NAMED_IN_FINDER.finditer(_text(path)))
            found += _beneath(top, (os.path.dirname(each) for each in named))
    return list(dict.fromkeys(found))


def python_path(folder: str, roots: list[str], before: str = "") -> dict[str, str]:
    """What lets Python find the same in another folder; nothing where there is nothing to find."""
    if not roots:
        return {}
    entries = [os.path.normpath(os.path.join(folder, root)) for root in roots]
    return {"PYTHONPATH": os.pathsep.join([*entries, *filter(None, [before])])}


def _packages(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where the packages of the first Python in PATH are, and those of the active environment."""
    prefixes = [environment.get("VIRTUAL_ENV", "")]
    for entry in environment.get("PATH", "").split(os.pathsep):
        if entry and any(os.access(os.path.join(entry, name), os.X_OK) for name in ("python", "python3")):
            prefixes.append(os.path.dirname(os.path.abspath(entry)))
            break
    for prefix in dict.fromkeys(filter(None, prefixes)):
        yield from sorted(Path(prefix).glob("lib/python3*/site-packages"))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _beneath(top: Path, paths: Iterator[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isabs(path):
            relative = os.path.relpath(os.path.realpath(path), os.path.realpath(top))
            if relative.split(os.sep)[0] != os.pardir:
                yield relative
