"""Policies that are functions: what they get, what they may answer, and what happens when they break."""

from __future__ import annotations

import asyncio
import functools
import sys
from typing import Any

import pytest

from placet import Action, Runtime
from tests.runtime.plans import Recorder, call, kinds, plan, statuses, write


async def say(policy: Any, **state: Any) -> str | None:
    rt = Runtime(policies=[("p", policy)], state=state)

    result = await rt.execute(plan(write("a", "written", 1)))

    assert rt.state.exists("written") is (result["a"].status == "succeeded")
    return result["a"].error


async def test_none_lets_the_action_pass() -> None:
    assert await say(lambda action, state: None) is None


async def test_a_reason_denies() -> None:
    assert await say(lambda action, state: "because I say so") == "policy 'p': because I say so"


async def test_an_empty_reason_denies_too() -> None:
    assert await say(lambda action, state: "") == "policy 'p': denied"


async def test_a_reason_can_always_be_logged_and_sent() -> None:
    assert await say(lambda action: "no \udcff") == "policy 'p': no ?"


async def test_a_policy_may_look_at_the_action_alone() -> None:
    assert await say(lambda action: f"no {action.type}") == "policy 'p': no state_write"


async def test_a_policy_may_look_at_the_state() -> None:
    def frozen(action: Action, state: Any) -> str | None:
        listed = state.keys()
        return "frozen" if state.exists("freeze") and state.get("freeze") and "freeze" in listed else None

    assert await say(frozen, freeze=True) == "policy 'p': frozen"
    assert await say(frozen, freeze=False) is None
    assert await say(frozen) is None


async def test_a_policy_cannot_change_the_state() -> None:
    def meddle(action: Action, state: Any) -> str | None:
        state.get("items").append("mine")
        state.snapshot()["items"].append("mine")
        state.set("k", 1)
        return None

    rt = Runtime(policies=[meddle], state={"items": []})

    result = await rt.execute(plan(write("a", "w", 1)))

    assert result["a"].status == "rejected"
    assert rt.state.snapshot() == {"items": []}


async def test_a_policy_cannot_reach_the_store_through_what_it_may_look_at() -> None:
    found: list[Any] = []

    def meddle(action: Action, state: Any) -> str | None:
        for name in ("get", "exists", "keys", "version_of", "snapshot"):
            owner = getattr(getattr(state, name), "__self__", None)
            found.append([hasattr(owner, change) for change in ("set", "delete", "replace_all", "scoped")])
        found.append((state.get("k"), state.exists("k"), state.keys(), state.snapshot()))
        found.append((state.version_of("k"), state.get("none", "default")))
        return None

    rt = Runtime(policies=[meddle], state={"k": 1})

    assert (await rt.execute(plan(write("a", "w", 1)))).outcome == "succeeded"
    assert found == [[False] * 4] * 5 + [(1, True, ["k"], {"k": 1}), (1, "default")]


async def test_a_policy_cannot_change_the_action_that_it_judges(recorder: Recorder) -> None:
    def meddle(action: Action) -> str | None:
        action.parameters["to"] = "me"
        action.parameters["lines"].append("mine")
        action.expected_effects["sent"] = "mine"
        return None

    rt = Runtime(tools=[recorder.tool("mail")], policies=[meddle, lambda action: None])

    result = await rt.execute(
        plan(call("a", "mail", {"to": "you", "lines": ["yours"]}, expected_effects={"sent": "yours"}))
    )

    assert result.outcome == "succeeded"
    assert recorder.calls[0][1] == {"to": "you", "lines": ["yours"]}
    assert rt.state.snapshot() == {"sent": "yours"}


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), RecursionError(), SystemExit(1), AssertionError()]
)
async def test_a_policy_that_raises_denies_and_keeps_its_words_to_itself(error: BaseException) -> None:
    def broken(action: Action) -> None:
        raise error

    assert await say(broken) == f"policy 'p': it raised {type(error).__name__}, so the action is denied"


async def test_a_policy_that_exits_the_process_denies() -> None:
    def leave(action: Action) -> None:
        sys.exit(1)

    assert "SystemExit" in (await say(leave) or "")


@pytest.mark.parametrize("junk", [True, False, 0, 1, [], {}, ["reason"], b"reason", object(), 1.5])
async def test_a_policy_that_answers_with_junk_denies(junk: Any) -> None:
    words = await say(lambda action: junk) or ""

    assert words.startswith(f"policy 'p': it returned a {type(junk).__name__}")


async def test_an_async_policy_denies_and_leaves_nothing_to_await() -> None:
    async def slow(action: Action) -> None:
        await asyncio.sleep(0)

    assert "coroutine" in (await say(slow) or "")


async def test_a_policy_that_cannot_be_called_that_way_denies() -> None:
    assert "TypeError" in (await say(lambda: None) or "")
    assert "TypeError" in (await say(lambda a, b, c: None) or "")


async def test_methods_partials_and_objects_are_policies_too() -> None:
    class Limit:
        def __call__(self, action: Action, state: Any) -> str | None:
            return "from an object"

        def method(self, action: Action) -> str | None:
            return "from a method"

    def two(words: str, action: Action) -> str:
        return words

    assert await say(Limit()) == "policy 'p': from an object"
    assert await say(Limit().method) == "policy 'p': from a method"
    assert await say(functools.partial(two, "from a partial")) == "policy 'p': from a partial"


async def test_a_policy_judges_the_state_at_the_moment_its_action_starts(recorder: Recorder) -> None:
    """A function may read any key, so it sees what every earlier action in serial order wrote."""

    def after_tests(action: Action, state: Any) -> str | None:
        return "not tested" if action.tool == "deploy" and not state.get("tested") else None

    for schedule in ("levels", "dataflow"):
        rt = Runtime(tools=[recorder.tool("deploy")], policies=[after_tests], schedule=schedule)
        result = await rt.execute(
            plan(write("w", "tested", True), call("d", "deploy"), write("x", "tested", False))
        )
        assert statuses(result) == {"w": "succeeded", "d": "succeeded", "x": "succeeded"}


async def test_a_policy_that_names_what_it_reads_leaves_the_rest_concurrent() -> None:
    barrier = asyncio.Barrier(2)
    recorder = Recorder()

    async def meet(_: Any) -> None:
        await barrier.wait()

    rt = Runtime(tools=[recorder.tool("meet", meet)])
    rt.add_policy("p", lambda action, state: None, reads=["mode"])

    result = await rt.execute(
        plan(
            call("a", "meet", expected_effects={"x": 1}, failure_behavior="skip"),
            call("b", "meet", expected_effects={"y": 1}, failure_behavior="skip"),
        )
    )

    assert result.outcome == "succeeded"


async def test_a_policy_can_be_removed(recorder: Recorder) -> None:
    rt = Runtime(tools=[recorder.tool("mail")])
    rt.add_policy("p", lambda action: "no")

    assert (await rt.execute(plan(call("a", "mail"))))["a"].status == "rejected"
    assert rt.policies.remove("p") is True
    assert rt.policies.remove("p") is False
    assert (await rt.execute(plan(call("a", "mail"))))["a"].status == "succeeded"


async def test_an_admitted_action_is_not_told_of_its_policies() -> None:
    rt = Runtime(policies=[lambda action: None])

    await rt.execute(plan(write("a", "k", 1)))

    assert "policy_violation" not in kinds(rt)
