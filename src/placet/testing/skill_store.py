"""What every store of skills promises, as checks that any of them can be put through.

Keep true: a check uses the protocol alone, on a store of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placet.memory.skills.skill import Skill
from placet.memory.skills.store import SkillRun, SkillStore
from placet.memory.skills.trial import Counts, Trial

MakeStore = Callable[[], SkillStore]
Check = Callable[[MakeStore], None]


def make_skill(name: str = "deploy", **more: Any) -> Skill:
    """A skill for tests.

    Args:
        name: Its name.
        more: Other fields.
    """
    text = f"---\nname: {name}\ndescription: How to {name}.\n---\nDo it.\n"
    files = {"SKILL.md": text.encode()}
    given: dict[str, Any] = {"files": files, "source": "test", "description": f"How to {name}.", **more}
    return Skill(name=name, **given)


def make_run(run: str, name: str = "deploy", **more: Any) -> SkillRun:
    """A run for tests that was offered a skill.

    Args:
        run: Id of the run.
        name: Name of the skill.
        more: Other fields.
    """
    given: dict[str, Any] = {"version": 1, "arm": "with", "at": 1.0, **more}
    return SkillRun(run=run, name=name, **given)


def a_version_is_stored_once(make: MakeStore) -> None:
    store = make()
    assert store.put(make_skill(files={"SKILL.md": b"\0\xff", "scripts/a": b"#!"}))
    assert not store.put(make_skill(description="another"))

    (found,) = store.listed(None)
    assert found.files == {"SKILL.md": b"\0\xff", "scripts/a": b"#!"}
    assert found.description == "How to deploy."


def the_newest_version_is_listed(make: MakeStore) -> None:
    store = make()
    for skill in (make_skill(version=2), make_skill(), make_skill("build")):
        store.put(skill)

    assert [(each.name, each.version) for each in store.listed(None)] == [("build", 1), ("deploy", 2)]
    assert [each.version for each in store.listed(None, "deploy")] == [2, 1]
    assert store.listed(None, "other") == []


def tenants_do_not_meet(make: MakeStore) -> None:
    store = make()
    store.put(make_skill(tenant="a"))
    store.note_runs("a", [make_run("r")])
    store.set_outcome("b", "r", True, "person")

    assert store.listed(None) == store.listed("b") == []
    assert store.runs("b") == []
    assert [each.succeeded for each in store.runs("a")] == [None]
    assert not store.change("b", "deploy", 1, state="kept")


def state_and_label_change(make: MakeStore) -> None:
    store = make()
    store.put(make_skill(labels=("untrusted",)))

    assert store.change(None, "deploy", 1, state="kept")
    assert not store.change(None, "deploy", 1, state="kept")
    assert store.listed(None)[0].labels == ("untrusted",)
    assert store.change(None, "deploy", 1, trust=True)
    assert (store.listed(None)[0].labels, store.listed(None)[0].state) == ((), "kept")
    assert not store.change(None, "deploy", 2, trust=True)
    assert store.change(None, "deploy", 1, state="retired")
    assert not store.change(None, "deploy", 1, state="kept")
    assert store.listed(None)[0].state == "retired"


def a_run_counts_once_in_its_first_arm(make: MakeStore) -> None:
    store = make()
    store.note_runs(None, [make_run("r"), make_run("q", arm="without", at=2.0)])
    store.note_runs(None, [make_run("r", arm="without", version=2)])
    assert store.trials(None) == {}

    assert [each.arm for each in store.set_outcome(None, "r", True, "check")] == ["with"]
    store.set_outcome(None, "q", False, "check")
    assert store.set_outcome(None, "unknown", False, "check") == []

    assert store.trials(None) == {
        ("deploy", 1): Trial(offered=Counts(successes=1), withheld=Counts(failures=1))
    }
    assert [each.run for each in store.runs(None)] == ["q", "r"]
    assert [each.run for each in store.runs(None, name="deploy", limit=1)] == ["q"]
    assert store.runs(None, name="other") == []


def a_weaker_source_replaces_nothing(make: MakeStore) -> None:
    store = make()
    store.note_runs(None, [make_run("r")])
    for succeeded, by in ((True, "check"), (False, "scenario"), (True, "person")):
        store.set_outcome(None, "r", succeeded, by)  # type: ignore[arg-type]
        (found,) = store.runs(None, run="r")
        assert (found.succeeded, found.by) == (succeeded, by)
    store.set_outcome(None, "r", False, "undo")

    (found,) = store.set_outcome(None, "r", True, "check")

    assert (found.succeeded, found.by) == (False, "undo")
    assert store.trials(None) == {("deploy", 1): Trial(offered=Counts(failures=1))}


skill_store_suite: tuple[Check, ...] = (
    a_version_is_stored_once,
    the_newest_version_is_listed,
    tenants_do_not_meet,
    state_and_label_change,
    a_run_counts_once_in_its_first_arm,
    a_weaker_source_replaces_nothing,
)
"""All checks."""
