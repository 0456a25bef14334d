"""The means of confining a command on this machine, from the strongest: which of them work, and how far.

Keep true:
1. What is remembered is only believed on the same boot of the same kernel, by the same user, with the same
   programs: anything else is tried again.
2. A weaker means is taken only where the stronger ones were tried and the reason is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import get_args

import msgspec

from placet.sandbox.isolation import NOTHING, By, Facts, is_at_least
from placet.sandbox.sandbox import find_bubblewrap
from placet.sandbox.self_test import Tested, self_test

MEANS: tuple[By, ...] = get_args(By)
"""From the strongest."""

_FILE = "isolation.json"
_KNOWN: dict[tuple[str, ...], Ladder] = {}
"""What this process has found out."""


class Ladder(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried, from the strongest means on."""

    tested: tuple[Tested, ...]

    @property
    def best(self) -> Tested:
        """The means to use: the first that holds everything, else what holds most."""
        works = (each for each in self.tested if each.is_whole)
        return max(works, key=_strength)

    @property
    def facts(self) -> Facts:
        """What holds with the best means."""
        return self.best.facts


async def climb(
    *, environment: Mapping[str, str], memory: Path | None = None, is_whole: bool = False
) -> Ladder:
    """Try the means from the strongest until one holds everything; with `is_whole` try all of them.

    `memory` is a folder in which the answer is kept, for as long as it is good.
    """
    state = _state_of_machine(environment)
    if not is_whole:
        known = _KNOWN.get(tuple(state)) or (memory and _remembered(memory / _FILE, state))
        if known:
            return known
    tested: list[Tested] = []
    for by in MEANS:
        if by == "nothing":
            tested.append(Tested(by=by, facts=NOTHING))
        elif not (tested and is_at_least(tested[-1].facts.isolation, "process")) or is_whole:
            tested.append(await self_test(by, environment=environment))
    ladder = Ladder(tested=tuple(tested))
    if not all(each.is_whole for each in tested):
        return ladder  # What went wrong may not go wrong again.
    _KNOWN[tuple(state)] = ladder
    if memory is not None:
        _remember(memory / _FILE, state, ladder)
    return ladder


def _strength(tested: Tested) -> tuple[bool, int, int]:
    enforced = msgspec.structs.astuple(tested.facts.enforced)
    is_whole = is_at_least(tested.facts.isolation, "process")
    return is_whole, sum(how != "no" for how in enforced), -MEANS.index(tested.by)


class _Memory(msgspec.Struct, frozen=True):
    state: list[str]
    ladder: Ladder


def _remembered(path: Path, state: list[str]) -> Ladder | None:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Memory)
    except (OSError, msgspec.MsgspecError):
        return None
    return found.ladder if found.state == state else None


def _remember(path: Path, state: list[str], ladder: Ladder) -> None:
    # It is only tried again if it cannot be kept.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_bytes(msgspec.json.encode(_Memory(state, ladder)))
        fresh.replace(path)


def _state_of_machine(environment: Mapping[str, str]) -> list[str]:
    """Everything on which the answer depends, as far as it can change."""
    program = find_bubblewrap(environment) or ""
    return [
        "1",  # Of the self-test itself: counted up when it tries more.
        _text("/proc/sys/kernel/random/boot_id"),
        " ".join(os.uname()),
        f"{os.geteuid()} {os.getegid()}",
        _text("/proc/self/cgroup"),
        _text("/proc/self/uid_map"),
        _text("/proc/sys/user/max_user_namespaces"),
        _text("/proc/sys/kernel/unprivileged_userns_clone"),
        _text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        _file(program),
        _file(os.path.realpath(sys.executable)),
        *(_file(str(path)) for path in sorted(Path(__file__).parent.glob("*.py"))),
    ]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _file(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return path
    return f"{path} {status.st_size} {status.st_mtime_ns}"
