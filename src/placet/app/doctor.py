"""What this machine enforces and what is set up, found out and put together for whoever asks.

Keep true:
1. What is told is what runs would get here: the same self-test, the same record of it, the same folder.
2. A part that cannot be looked at is told as such. It takes nothing away from the others.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from placet.app.readiness import (
    DatabaseReport,
    Extra,
    ModelReport,
    ProjectReport,
    database_report,
    extra_report,
    model_report,
    project_report,
)
from placet.errors import PlacetError
from placet.sandbox.isolation import By, Enforced, Facts, Level, is_at_least
from placet.storage.location import user_folder
from placet.truncation import truncate

if TYPE_CHECKING:
    from placet.sandbox.ladder import Ladder

_PATIENCE_S = 5
_MEMORY = "isolation.json"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that Placet uses."""

    path: str = ""
    """Empty if there is none."""
    version: str = ""
    """As it says itself; empty if it does not."""


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """One way to confine commands."""

    by: By
    used: bool
    tried: bool
    isolation: Level = "none"
    enforced: Enforced = Enforced()
    why: str = ""
    """Why it is not used, or what it does not hold."""


class Demanded(msgspec.Struct, frozen=True, kw_only=True):
    """What is required in the folder."""

    level: Level = "none"
    source: str = ""
    lowered_to: Level | None = None
    until: str = ""
    problem: str = ""
    """Why nobody can tell."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What is enforced here, by what, and how that is known."""

    placet: str
    python: str
    platform: str
    user: str
    """With what rights: root, or an ordinary user."""
    git: Program
    bubblewrap: Program
    folder: str
    isolation: Level
    by: By
    enforced: Enforced
    """For commands in `folder`."""
    found: str
    """`tried` just now, or `remembered` from the last time that anything relevant changed."""
    found_at: str
    """UTC, ISO 8601."""
    took_ms: float | None
    """How long it took to try; None where it is remembered."""
    means: tuple[Means, ...]
    remedies: tuple[str, ...]
    """What to do to get more."""
    required: Demanded
    node: Program
    npx: Program
    """Many MCP servers are started with it. Its version is not asked for, which takes npm half a second."""
    models: ModelReport
    extras: tuple[Extra, ...]
    database: DatabaseReport
    project: ProjectReport


async def diagnose(folder: Path, environment: Mapping[str, str], *, again: bool = False) -> Diagnosis:
    """Find out what is enforced for commands in `folder`, with `again` by trying everything now; and what is
    set up there."""
    from placet import __version__
    from placet.sandbox import cgroup
    from placet.sandbox.ladder import climb
    from placet.sandbox.remedies import remedies, remedies_of_folder
    from placet.sandbox.sandbox import find_bubblewrap

    kept = user_folder(environment)
    before = _stamp(kept / _MEMORY)
    began = perf_counter()
    ladder = await climb(environment=environment, memory=kept, is_whole=again)
    took_ms = (perf_counter() - began) * 1000
    is_remembered = before is not None and not again and _stamp(kept / _MEMORY) == before
    # What went wrong while it was tried is not kept.
    is_remembered = is_remembered and all(each.is_whole for each in ladder.tested)
    now = datetime.now(UTC)
    at = datetime.fromtimestamp(before / 1e9, UTC) if is_remembered and before is not None else now
    here = await _facts_of(folder, ladder)
    wrapper = find_bubblewrap(environment)
    needed = _demanded(folder, environment)
    more = [*remedies(ladder, environment)]
    if not more and not is_at_least(here.isolation, "process"):
        more += remedies_of_folder(str(folder), environment)
    if here.enforced.memory != "kernel" or here.enforced.pids != "kernel":
        more += [words] if (words := cgroup.why_not()) else []
    if needed.lowered_to is None and not is_at_least(here.isolation, needed.level):
        more.append(
            f"'{needed.level}' is required here, so nothing runs. If that is yours to decide, let less do: "
            f'placet isolation lower {here.isolation} --for 2h --because "..."'
        )
    return Diagnosis(
        placet=__version__,
        python=f"{platform.python_version()} ({sys.executable})",
        platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
        user="root" if os.geteuid() == 0 else "an ordinary user",
        git=_ask(shutil.which("git", path=environment.get("PATH")), "--version"),
        bubblewrap=_ask(wrapper, "--version"),
        folder=str(folder),
        isolation=here.isolation,
        by=here.by,
        enforced=here.enforced,
        found="remembered" if is_remembered else "tried",
        found_at=at.isoformat(timespec="seconds"),
        took_ms=None if is_remembered else round(took_ms, 1),
        means=_means(ladder, here),
        remedies=tuple(more),
        required=needed,
        node=_ask(shutil.which("node", path=environment.get("PATH")), "--version"),
        npx=Program(path=shutil.which("npx", path=environment.get("PATH")) or ""),
        models=model_report(environment),
        extras=extra_report(),
        database=database_report(folder, environment),
        project=project_report(folder, environment),
    )


async def _facts_of(folder: Path, ladder: Ladder) -> Facts:
    """What holds for this folder: its file system may not be one that lets another user in."""
    from placet.sandbox.opening import open_sandbox
    from placet.sandbox.workspace import Workspace

    try:
        workspace = Workspace(folder)
    except PlacetError:
        return ladder.facts
    try:
        return (await open_sandbox(workspace, ladder)).facts
    finally:
        workspace.close()


def _means(ladder: Ladder, here: Facts) -> tuple[Means, ...]:
    from placet.sandbox.ladder import MEANS
    from placet.sandbox.remedies import cause_of

    tested = {each.by: each for each in ladder.tested}
    best = ladder.best
    found: list[Means] = []
    for by in MEANS:
        each = tested.get(by)
        is_used = by == here.by
        if each is None:
            why = f"not tried: {best.by} holds everything (--again tries all)"
            found.append(Means(by=by, used=is_used, tried=False, why=why))
            continue
        why = cause_of(each.why)
        if not why and not is_used and by != "nothing":
            why = f"not needed: {here.by} is stronger"
        found.append(
            Means(
                by=by,
                used=is_used,
                tried=by != "nothing",
                isolation=each.facts.isolation,
                enforced=each.facts.enforced,
                why=why,
            )
        )
    return tuple(found)


def _demanded(folder: Path, environment: Mapping[str, str]) -> Demanded:
    from placet.app.governance import demanded
    from placet.app.isolation import required

    try:
        place, demand = demanded(folder, environment)
        needed = required(place, demand, environment)
    except PlacetError as error:
        return Demanded(problem=str(error))
    lowering = needed.lowering
    return Demanded(
        level=demand.level,
        source=demand.source,
        lowered_to=None if lowering is None else lowering.level,
        until="" if lowering is None else lowering.until,
    )


def _ask(path: str | None, option: str) -> Program:
    import subprocess

    if path is None:
        return Program()
    try:
        done = subprocess.run(
            [path, option], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return Program(path=path)
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return Program(path=path, version=truncate(lines[0], 200) if lines else "")


def _stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
