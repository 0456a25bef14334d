"""The loops that a repository keeps: read, made from a ready-made one, and trusted before they run.

Keep true:
1. Looking at loops needs no trust; running one does, and what was trusted is what runs.
2. A file that means nothing is an error that names it, also if another one is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from placet.app.governance import LOOPS, RUNS_LOOPS, granted
from placet.app.trust import Snapshot, how_trusted, snapshot, trust
from placet.errors import TrustError, UsageError
from placet.loops.file_rules import repository_problems
from placet.loops.spec import LoopSpec, read_loop
from placet.loops.timetable import unknown_loop
from placet.policy.toml_file import TomlFile
from placet.storage.location import PROJECT_FOLDER
from placet.truncation import truncate

if TYPE_CHECKING:
    from placet.app.governance import Question

_SUFFIX = ".toml"


def loops_of(top: Path, home: Path | None = None) -> dict[str, LoopSpec]:
    """The loops of a repository, by name, from the `.placet` folder in `home`, else at its top. Nobody has
    agreed to them yet.

    Raises:
        PolicyFileError: a file means nothing as it stands; says where.
        TrustError: the folder cannot be read safely.
    """
    home = home or top
    return _read(_seen(home), home, top)


def trusted_loops(
    top: Path, home: Path, environment: Mapping[str, str], confirm: Callable[[Question], bool] | None
) -> dict[str, LoopSpec]:
    """The loops of a repository, by name, once a person trusts what the `.placet` folder in `home` brings.

    Raises:
        PolicyFileError: a file means nothing as it stands.
        TrustError: it is not trusted, or cannot be read safely.
    """
    # Read once: what was looked at is what is used.
    seen = _seen(home)
    found = _read(seen, home, top)
    if seen is not None and found and not granted(seen, (RUNS_LOOPS,), environment, confirm):
        raise TrustError(str(seen.folder), f"is not trusted, and it {RUNS_LOOPS}", "Nothing was run.")
    return found


def loop_named(loops: Mapping[str, LoopSpec], name: str) -> LoopSpec:
    """The loop of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in loops:
        if not loops:
            raise UsageError(
                f"There is no loop '{truncate(name, 80)}': this repository has none in "
                f"{PROJECT_FOLDER}/{LOOPS}. Make "
                "one with: placet loop new"
            )
        raise unknown_loop(name, list(loops))
    return loops[name]


def make_loop(home: Path, text: str, name: str, environment: Mapping[str, str]) -> tuple[Path, bool]:
    """Put a loop into the project in `home`; where it is now, and whether it may run. It may if all that the
    folder brings besides was trusted, or there is nothing else: the text is ours.

    Raises:
        PolicyFileError: it would mean nothing under that name.
        TrustError: the folder cannot be read safely.
        UsageError: there is one of that name, or it cannot be written.
    """
    path = home / PROJECT_FOLDER / LOOPS / f"{name}{_SUFFIX}"
    read_loop(text, str(path), name=name)
    before = _seen(home)
    was_fine = before is None or not before.files or how_trusted(before, environment) == "trusted"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"There is a loop '{name}' already: {path}. Change that one, or give another name with --name."
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    if was_fine:
        trust(snapshot(home), environment)
    return path, was_fine


def _seen(home: Path) -> Snapshot | None:
    folder = home / PROJECT_FOLDER
    return snapshot(home) if folder.is_symlink() or folder.exists() else None


def _read(seen: Snapshot | None, home: Path, top: Path) -> dict[str, LoopSpec]:
    found: dict[str, LoopSpec] = {}
    for name, data in (seen.files if seen is not None else {}).items():
        path = Path(name)
        if path.parts[0] != LOOPS or len(path.parts) < 2:
            continue
        where = home / PROJECT_FOLDER / name
        file = TomlFile(str(where), what="Loop file")
        if path.suffix != _SUFFIX or len(path.parts) > 2:
            file.fail("it would not be read", fix=f"Loops are files {PROJECT_FOLDER}/{LOOPS}/NAME{_SUFFIX}.")
        spec = read_loop(data.decode(errors="replace"), str(where), name=path.stem)
        if spec.name != path.stem:
            # It is asked for, logged and held by one name; another one in the file would mislead.
            file.fail(f"it is not the name of the file, {path.stem}", "name", "Leave it out, or rename it.")
        for place, words, fix in repository_problems(spec, top):
            file.fail(words, place, fix)
        found[spec.name] = spec
    return dict(sorted(found.items()))
