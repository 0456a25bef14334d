"""Assumptions: what the planner believed about a key, by value or by version."""

from __future__ import annotations

from typing import Any

import pytest

from placet import Runtime
from tests.runtime.plans import claim, plan, write


async def run_with(rt: Runtime, assumption: dict[str, Any]) -> Any:
    return (await rt.execute(plan(write("a", "ran", True, assumptions=[{"key": "k", **assumption}]))))["a"]


@pytest.mark.parametrize(
    ("state", "expected", "status"),
    [
        ({"k": 5}, 5.0, "succeeded"),
        ({"k": 5}, 6, "rejected"),
        ({"k": True}, 1, "rejected"),
        ({"k": None}, None, "succeeded"),
        ({}, None, "rejected"),
        ({"k": {"a": [1]}}, {"a": [1]}, "succeeded"),
    ],
)
async def test_an_expected_value_is_compared_as_json_and_null_is_a_value(
    state: dict[str, Any], expected: Any, status: str
) -> None:
    result = await run_with(Runtime(state=state), {"expected_value": expected})

    assert result.status == status


async def test_an_absent_expected_value_claims_nothing() -> None:
    assert (await run_with(Runtime(), {})).status == "succeeded"


async def test_a_key_that_changed_since_it_was_read_breaks_the_assumption() -> None:
    rt = Runtime(state={"k": 1})
    looked_at = rt.state.version

    unchanged = await run_with(rt, {"read_version": looked_at})
    rt.state.set("k", 1)
    changed = await run_with(rt, {"read_version": looked_at})

    assert unchanged.status == "succeeded"
    assert changed.status == "rejected"
    assert changed.error == f"assumption broken: 'k' has changed since version {looked_at}"


async def test_changes_of_other_keys_break_nothing() -> None:
    rt = Runtime(state={"k": 1})
    looked_at = rt.state.version
    rt.state.set("other", 2)

    assert (await run_with(rt, {"read_version": looked_at})).status == "succeeded"


async def test_a_key_that_was_deleted_has_changed() -> None:
    rt = Runtime(state={"k": 1})
    looked_at = rt.state.version
    rt.state.delete("k")

    assert (await run_with(rt, {"read_version": looked_at})).status == "rejected"


async def test_a_key_that_never_existed_has_not_changed() -> None:
    rt = Runtime(state={"other": 1})

    assert (await run_with(rt, {"read_version": 0})).status == "succeeded"


async def test_a_write_that_was_undone_has_changed_the_key_all_the_same() -> None:
    """Somebody may have acted on it meanwhile: versions only go up."""
    rt = Runtime(state={"k": 1})
    looked_at = rt.state.version
    await rt.execute(plan(write("w", "k", 2), claim("x", "k", "never")))

    assert rt.state.get("k") == 1
    assert (await run_with(rt, {"read_version": looked_at})).status == "rejected"


async def test_value_and_version_must_both_hold() -> None:
    rt = Runtime(state={"k": 1})

    both = {"expected_value": 1, "read_version": rt.state.version}
    assert (await run_with(rt, both)).status == "succeeded"
    assert (await run_with(rt, {**both, "expected_value": 2})).status == "rejected"


async def test_an_assumption_looks_at_the_state_when_its_action_starts() -> None:
    rt = Runtime(state={"k": 1})

    result = await rt.execute(
        plan(
            write("w", "k", 2),
            write("a", "ran", True, assumptions=[{"key": "k", "expected_value": 1}], failure_behavior="skip"),
        )
    )

    assert result["a"].status == "rejected"
