"""What each part of the sandbox is for: without it, something happens that does not happen with it.

Of each part and of each group of system calls the table names a case that fails when the part is left out:
an attack that then has an effect, or an everyday command that then does not work. Where two parts hold the
same thing, both are left out, and the case has to hold with either of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from placet.sandbox.bubblewrap import PARTS
from placet.sandbox.isolation import By
from placet.sandbox.seccomp import GROUPS, UNSHARED
from tests.attacks.all_cases import CASES, ORDINARY
from tests.attacks.hosts import AS_USER, HERE, Host, ask_each_once, can_be
from tests.attacks.run import Asked, Outcome

USER = HERE if HERE.is_user else AS_USER
ROOT = Host(name="root", is_user=False)


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Which case fails without a part."""

    case: str
    fails: Literal["attack", "ordinary", "start"] = "attack"
    """An attack works; an everyday command does not; or nothing starts at all."""
    also: tuple[str, ...] = ()
    """Other parts that hold the same thing."""
    by: By = "bubblewrap"
    host: Host = USER


TABLE: dict[str, Proof] = {
    "user": Proof(case="git blame and grep", fails="start"),
    "nested": Proof(case="user namespace", also=("seccomp:namespaces",)),
    "pid": Proof(case="kill"),
    "net": Proof(case="tcp"),
    "ipc": Proof(case="shared memory"),
    "uts": Proof(case="name of the host"),
    "cgroup": Proof(case="place among the cgroups"),
    "parent": Proof(case="orphan"),
    "system": Proof(case="a program of perl", fails="start"),
    "root": Proof(case="beside what is shown"),
    "dev": Proof(case="devices that programs use", fails="ordinary"),
    "proc": Proof(case="processes seen from inside", fails="ordinary"),
    "tmp": Proof(case="temporary files", fails="ordinary"),
    "shm": Proof(case="shared memory of Python", fails="ordinary"),
    "run": Proof(case="a folder for what runs", fails="ordinary"),
    "home": Proof(case="a home of its own", fails="ordinary"),
    "toolchains": Proof(case="a Python of pyenv", fails="ordinary"),
    "kept": Proof(case="own records"),
    "seccomp": Proof(case="set user id"),
    "seccomp:setuid": Proof(case="set group id"),
    "seccomp:keys": Proof(case="key of the session"),
    "seccomp:families": Proof(case="messages of the kernel"),
    "seccomp:namespaces": Proof(case="user namespace", also=("nested",)),
    "seccomp:kernel": Proof(case="io_uring"),
    "seccomp:shared": Proof(case="memory in segments", also=("cgroups",)),
    "seccomp:terminal": Proof(case="typing into a terminal of one's own"),
    # Where there are no namespaces.
    "seccomp:internet": Proof(case="udp", by="landlock"),
    "seccomp:unix": Proof(case="unix datagram", by="landlock"),
    "seccomp:ipc": Proof(case="shared memory", by="landlock"),
    "seccomp:others": Proof(case="limits of others", by="landlock"),
    # Limits
    "watch": Proof(case="many children", also=("cgroups",)),
    "cgroups": Proof(case="memory in files without a name", also=("watch",), host=ROOT),
}


def test_every_part_and_every_group_has_a_case() -> None:
    groups = [f"seccomp:{name}" for name in (*GROUPS, *UNSHARED)]

    assert set(TABLE) == {*PARTS, *groups, "watch", "cgroups"}
    assert CASES.keys().isdisjoint(ORDINARY)
    assert {proof.case for proof in TABLE.values()} <= {*CASES, *ORDINARY, "orphan"}


def _is_alone(proof: Proof) -> bool:
    """Whether test_attacks.py does not show that the case holds with the part."""
    return bool(proof.also) or proof.by == "landlock" or proof.case == "orphan"


@pytest.fixture
def outcome_of(request: pytest.FixtureRequest, shared: Path) -> Callable[[str], Outcome]:
    """What came of the case of a part. Those of the parts that the same test asks for are run with it."""
    test = request.node.originalname
    items = [item for item in request.session.items if getattr(item, "originalname", "") == test]
    parts = list(dict.fromkeys(item.callspec.params["part"] for item in items))  # type: ignore[attr-defined]

    def find(part: str) -> Outcome:
        host = TABLE[part].host
        can_be(host)
        together = [each for each in parts if TABLE[each].host == host]
        left_out = test == test_without_a_part_its_case_fails.__name__
        asked = [_asked(each, left_out=left_out) for each in together]
        outcomes = dict(zip(together, ask_each_once(host, asked, shared), strict=True))
        if outcomes[part].missing:
            pytest.skip(f"this machine has nothing to attack there: {outcomes[part].missing}")
        return outcomes[part]

    return find


def _asked(part: str, *, left_out: bool) -> Asked:
    proof = TABLE[part]
    what = {"orphan": "orphan"}.get(proof.case, "attacks" if proof.case in CASES else "ordinary")
    without = {*proof.also, part} if left_out else proof.also
    return Asked(what=what, names=[proof.case], by=proof.by, without=sorted(without))  # type: ignore[arg-type]


@pytest.mark.parametrize("part", TABLE)
def test_without_a_part_its_case_fails(part: str, outcome_of: Callable[[str], Outcome]) -> None:
    without = outcome_of(part)

    match TABLE[part].fails:
        case "attack":
            assert without.has_begun, without.said
            assert without.effects, without.said
        case "ordinary":
            assert without.effects, without.said
        case "start":
            assert not without.has_begun
            assert "not run" in without.effects[0]


@pytest.mark.parametrize("part", [part for part in TABLE if _is_alone(TABLE[part])])
def test_with_the_part_alone_its_case_holds(part: str, outcome_of: Callable[[str], Outcome]) -> None:
    held = outcome_of(part)

    assert held.has_begun, held.said
    assert held.effects == [], held.said
