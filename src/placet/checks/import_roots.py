"""Where Python finds a project that its own environment has installed in place (`pip install -e`), and what
else it has.

Such an installation names the person's folder. Checks run on an export somewhere else: without more, Python
would find nothing there, or worse, the person's files in the place of the change.

Keep true: only files of the environment are read, as text; nothing of them is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from placet.checks.command_line import simple_commands

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


def installed_modules(commands: Iterable[str], environment: Mapping[str, str]) -> frozenset[str]:
    """The modules that are installed where checks load theirs from: in the Python of PATH, in the active
    environment, and in any other whose programs a check names by their path."""
    found: set[str] = set()
    named = [
        os.path.dirname(os.path.dirname(simple.words[0]))
        for command in commands
        for simple in simple_commands(command)
        if os.path.isabs(simple.words[0])
    ]
    for folder in _packages(environment, named):
        with suppress(OSError):
            found |= {
                name for entry in os.listdir(folder) if (name := entry.partition(".")[0]).isidentifier()
            }
    return frozenset(found)


def python_path(folder: str, roots: list[str]) -> dict[str, str]:
    """What lets Python find the same in another folder; nothing where there is nothing to find."""
    if not roots:
        return {}
    entries = [os.path.normpath(os.path.join(folder, root)) for root in roots]
    return {"PYTHONPATH": os.pathsep.join(entries)}


def _packages(environment: Mapping[str, str], more: Sequence[str] = ()) -> Iterator[Path]:
    """Where the packages of the first Python in PATH are, and those of the active environment; and of `more`
    prefixes, with those of the Python that they were made from."""
    prefixes = [environment.get("VIRTUAL_ENV", ""), *more]
    prefixes += [
        os.path.dirname(os.path.dirname(os.path.realpath(os.path.join(each, "bin", "python3"))))
        for each in more
    ]
    for entry in environment.get("PATH", "").split(os.pathsep):
        if entry and any(os.access(os.path.join(entry, name), os.X_OK) for name in ("python", "python3")):
            prefixes.append(os.path.dirname(os.path.abspath(entry)))
            break
    for prefix in dict.fromkeys(filter(None, prefixes)):
        yield from sorted(Path(prefix).glob("lib/python3*/site-packages"))
        yield from sorted(Path(prefix).glob("lib/python3*/dist-packages"))


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
