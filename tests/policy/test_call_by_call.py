"""What is answered to single calls, before anybody looks at tiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from placet import DenyTool, Posture, Proposal, Runtime, Stance
from placet.policy.permission import CallByCall
from placet.runtime.journal import LED_BY
from placet.testing import RecordingTool
from placet.testing.plan import action, proposal

ABOUT = Proposal(id="about", context={LED_BY: "test"})


async def answered(by_call: CallByCall, *, risk: str = "destructive", **runtime: Any) -> tuple[str, str]:
    tool = RecordingTool("send", risk=risk)
    rt = Runtime(tools=[tool], **runtime)
    async with rt.open_run(ABOUT, by_call=by_call) as run:
        acted = await run.act(proposal(action("a", "send", parameters={"to": "ada"})), 1, keep=False)
        await run.end("succeeded")
    result = acted.result["a"]
    assert bool(tool.calls) == (result.status == "succeeded")
    return result.status, result.error or ""


def policy(answer: Any) -> Any:
    def answers(tool: str, parameters: Mapping[str, Any]) -> Any:
        assert (tool, parameters) == ("send", {"to": "ada"})
        if isinstance(answer, Exception):
            raise answer
        return answer

    return answers


ASKS = Posture.named("read_only")


async def test_the_policy_is_asked_first_then_the_list_then_the_tier() -> None:
    gated = CallByCall(policy("allow"), ["send"], otherwise=ASKS)
    assert (await answered(gated))[0] == "succeeded"

    status, error = await answered(CallByCall(policy(None), ["send"], otherwise=Posture.named("trusting")))
    assert (status, "gated tool" in error) == ("rejected", True)

    status, error = await answered(CallByCall(policy(None), otherwise=ASKS))
    assert (status, "needs full_access" in error) == ("rejected", True)

    assert (await answered(CallByCall(otherwise=ASKS), risk="read_only"))[0] == "succeeded"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("deny", "the approval policy says so"),
        (Stance("deny", "not on a Sunday"), "not on a Sunday"),
        (ValueError("boom"), "the approval policy failed: ValueError: boom"),
        ("perhaps", "which is no answer"),
        (7, "which is no answer"),
    ],
)
async def test_a_policy_denies_with_its_reason_and_one_that_fails_denies(answer: Any, words: str) -> None:
    status, error = await answered(CallByCall(policy(answer)))

    assert status == "rejected"
    assert words in error


async def test_a_rule_of_the_runtime_beats_a_policy_that_allows() -> None:
    status, error = await answered(CallByCall(policy("allow")), policies=[("no", DenyTool(tool="send"))])

    assert status == "rejected"
    assert "policy 'no'" in error


async def test_the_runtimes_permissions_hold_unless_they_are_overruled() -> None:
    trusting = Posture.named("trusting")

    assert (await answered(CallByCall(otherwise=ASKS), permissions=trusting))[0] == "succeeded"
    assert (await answered(CallByCall(otherwise=ASKS, overrules=True), permissions=trusting))[0] == "rejected"


async def test_with_nobody_to_ask_the_words_are_the_leaders() -> None:
    _, error = await answered(CallByCall(gated=["send"], nobody="ask your captain"))

    assert error.endswith("; ask your captain")
