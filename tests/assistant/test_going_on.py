"""A run that goes on, perhaps with another assistant: what it was begun with holds, and nothing gets wider
unless somebody says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placet import Assistant, Posture, Reply, Runtime, Scope, Stance, tool
from placet.approvals.approval import Approval
from placet.assistant.consent import Consent
from placet.assistant.kept import Kept as Begun
from placet.errors import UsageError
from placet.inference import Scripted
from placet.policy.permission import Permissions
from placet.turns.limits import TurnLimits
from tests.turns.workroom import Kept, asked_of, call, kept_in, results

EVERYTHING_DENIED = Posture(read_only="deny", sandbox_edit="deny", full_access="deny")


@dataclass
class Count:
    """How many."""

    files: int


class Post:
    """A letter box, and whoever is asked about letters: says yes to each."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.sent: list[str] = []
        self.asked: list[str] = []

    def assistant(self, *turns: Any, permissions: Any = None, **options: Any) -> Assistant:
        """Another process, as it were."""

        @tool(risk="network")
        async def send(to: str) -> str:
            """Send a letter."""
            self.sent.append(to)
            return "sent"

        async def person(approval: Approval) -> Reply:
            self.asked.append(approval.tool or "")
            return Reply("once")

        runtime = Runtime(tools=[send], person=person, permissions=permissions, **self.kept.parts())
        return Assistant(runtime, Scripted(turns), **options)

    async def begun(self, **options: Any) -> None:
        """A run "r" that broke off before it had done anything."""
        scope = options.pop("scope", None)
        ending = await self.assistant(ConnectionError("down"), **options).run("x", run_id="r", scope=scope)
        assert ending.status == "error"

    async def gone_on(self, *, widen: bool = False, **options: Any) -> Assistant:
        """The same run, that now sends a letter."""
        assistant = self.assistant(call("send", to="bob"), "Done.", **options)
        assert (await assistant.resume("r", widen=widen)).succeeded
        return assistant


def allow(tool: str, parameters: Any) -> Any:
    """A policy that lets everything pass."""
    return "allow"


# Who is asked

STRICTER = [
    ("the list of gated tools", {"posture": "full_access", "gated_tools": ["send"]}, {}, "asked"),
    ("the posture: ask", {"posture": "balanced"}, {}, "asked"),
    ("the posture: deny", {"posture": "cautious"}, {}, "denied"),
    ("no posture at all", {}, {}, "asked"),
    ("the runtime's permissions", {"permissions": "cautious"}, {"permissions": "cautious"}, "denied"),
    ("no posture, then wide permissions", {}, {"permissions": "trusting", "posture": None}, "asked"),
    ("a posture, then none", {"posture": "cautious"}, {"permissions": "trusting", "posture": None}, "denied"),
    ("the new list", {"posture": "full_access"}, {"gated_tools": ["send"]}, "asked"),
    ("the new posture", {"posture": "full_access"}, {"posture": "cautious"}, "denied"),
    ("a new policy allows", {"posture": "full_access", "gated_tools": ["send"]}, {"policy": allow}, "asked"),
    ("a new policy allows it", {"posture": "cautious"}, {"policy": allow}, "denied"),
    ("a new policy denies", {"posture": "full_access"}, {"policy": lambda *_: "deny"}, "denied"),
    (
        "a new policy allows, with a reason",
        {"posture": "balanced"},
        {"policy": lambda *_: Stance("allow", "why not")},
        "asked",
    ),
    ("a new policy fails", {"posture": "full_access"}, {"policy": lambda: "x"}, "denied"),
    ("as it was", {"posture": "full_access"}, {}, "runs"),
    (
        "the policy of both",
        {"posture": "cautious", "approval_policy": allow},
        {"policy": allow},
        "runs",
    ),
]


@pytest.mark.parametrize(("shows", "first", "then", "becomes"), STRICTER, ids=[row[0] for row in STRICTER])
async def test_the_stricter_of_both_holds(
    tmp_path: Path, shows: str, first: dict[str, Any], then: dict[str, Any], becomes: str
) -> None:
    options = {"posture": "full_access", **then}
    if "policy" in options:
        options["approval_policy"] = options.pop("policy")
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        await post.begun(**first)

        assistant = await post.gone_on(**options)

    assert len(post.asked) == (becomes == "asked"), shows
    assert post.sent == ([] if becomes == "denied" else ["bob"]), shows
    (told,) = results(asked_of(assistant)[-1].messages)
    assert told.is_error == (becomes == "denied")


async def test_the_permissions_of_the_caller_are_those_that_count(tmp_path: Path) -> None:
    permissions = Permissions(standing=Posture.named("trusting"), agents={"ann": Posture.named("cautious")})
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        await post.begun(permissions=permissions, scope=Scope(caller_id="ann"))

        await post.gone_on(permissions=permissions, posture="full_access")

    assert post.sent == []


@pytest.mark.parametrize(
    "first",
    [
        {"posture": "full_access", "gated_tools": ["send"]},
        {"posture": "cautious"},
        {"approval_policy": lambda *_: "deny"},
    ],
    ids=["list", "posture", "policy"],
)
async def test_it_gets_wider_when_somebody_says_so(tmp_path: Path, first: dict[str, Any]) -> None:
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        await post.begun(**first)

        await post.gone_on(posture="full_access", widen=True)

    assert (post.sent, post.asked) == (["bob"], [])


async def test_without_its_approval_policy_a_run_does_not_go_on(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        await post.begun(approval_policy=lambda *_: "deny", posture="full_access")
        other = post.assistant("Done.", posture="full_access")

        with pytest.raises(UsageError, match=r"approval_policy=.*widen=True"):
            await other.resume("r")

        assert asked_of(other) == []
        await post.gone_on(approval_policy=lambda *_: "deny", posture="full_access")
    assert post.sent == []


async def test_a_conversation_does_not_get_wider_either(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        async with post.assistant("Hello.", posture="cautious").chat("c") as chat:
            await chat.say("Hello.")
        turns = (call("send", to="bob"), "Done.")

        async with post.assistant(*turns, posture="full_access").chat("c", resume=True) as chat:
            await chat.say("Send it.")
        assert post.sent == []
        async with post.assistant(*turns, posture="full_access").chat("c", resume=True, widen=True) as chat:
            await chat.say("Send it.")
    assert post.sent == ["bob"]


async def test_what_was_asked_before_needs_no_second_question(tmp_path: Path) -> None:
    """An approval is good under the same rules; those of a run that goes on are the same."""
    with kept_in(tmp_path) as kept:

        def assistant(*turns: Any) -> Assistant:
            @tool(risk="network")
            async def send(to: str) -> str:
                """Send a letter."""
                return "sent"

            runtime = Runtime(tools=[send], approvals=kept.approvals, patience_s=0, **kept.parts())
            return Assistant(runtime, Scripted(turns), gated_tools=["send"])

        assert (await assistant(call("send", to="bob")).run("x", run_id="r")).status == "waiting"
        (asked,) = kept.approvals.pending()
        kept.approvals.decide(asked.id, "once", by="ann")

        ending = await assistant("Done.").resume("r")

    assert (ending.status, list(ending.tools)) == ("success", ["send"])


async def test_a_refusal_changes_nothing(tmp_path: Path) -> None:
    """Also a decision that was brought along is made only when the run really goes on."""
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        await post.begun(approval_policy=allow)
        before = [event.kind for event in kept.records.query(run="r")]

        with pytest.raises(UsageError, match="approval_policy"):
            await post.assistant("Done.").resume("r")

        assert [event.kind for event in kept.records.query(run="r")] == before


def test_policies_that_come_later_are_told_apart_as_others_are() -> None:
    kept = Begun(system="", tools=(), limits=TurnLimits())
    policies = [lambda *_: "ask", lambda *_: "deny"]

    spelled = [
        [
            consent.by_call.spelled_out()
            for consent in (Consent(each), Consent(each).no_wider_than(kept, "r", None))
        ]
        for each in policies
    ]

    assert spelled[0][0] == spelled[0][1]
    assert spelled[0] != spelled[1]


# What it answers with


async def test_a_run_that_has_ended_tells_its_output_again(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        assistant = post.assistant('Here: {"files": 3}')
        first = await assistant.run("How many?", run_id="r", output_type=Count)

        again = await assistant.resume("r", output_type=Count)

        assert again.output == first.output == Count(3)
        assert (await assistant.resume("r")).output is None
        with pytest.raises(UsageError, match=r"'r' has ended.*does not fit output_type"):
            await assistant.resume("r", output_type=list[int])


async def test_a_run_that_ended_without_an_answer_has_no_output(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        first = post.assistant(*[call("send", to=str(n)) for n in range(60)], posture=EVERYTHING_DENIED)
        assert not (await first.run("x", run_id="r", output_type=Count)).succeeded

        ending = await first.resume("r", output_type=Count)

    assert (ending.succeeded, ending.output) == (False, None)


async def test_a_run_with_an_output_type_does_not_go_on_without(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        first = post.assistant(ConnectionError("down"))
        await first.run("How many?", run_id="r", output_type=Count)
        second = post.assistant("Three, I think.", '{"files": 3}')

        with pytest.raises(UsageError, match=r"'r' was begun with an output type \(Count\).*output_type="):
            await second.resume("r")
        assert asked_of(second) == []

        assert (await second.resume("r", output_type=Count)).output == Count(3)


@pytest.mark.parametrize(("later", "asked"), [("full_access", 0), ("read_only", 1)])
async def test_what_a_person_allows_in_a_conversation_holds_when_it_goes_on(
    tmp_path: Path, later: str, asked: int
) -> None:
    """As if it had begun so: an assistant that asks about more still does."""
    turns = (call("send", to="bob"), "Done.")
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        async with post.assistant(*turns, posture="read_only").chat("c") as chat:
            await chat.set_posture("full_access")
            assert chat.posture == Posture.named("full_access")
            await chat.say("Send it.")
        assert (post.sent, post.asked) == (["bob"], [])

        async with post.assistant(*turns, posture=later).chat("c", resume=True) as chat:
            await chat.say("Send it again.")

    assert post.sent == ["bob", "bob"]
    assert len(post.asked) == asked


async def test_a_tool_that_is_always_asked_about_is_asked_about_under_any_posture(tmp_path: Path) -> None:
    with kept_in(tmp_path) as kept:
        post = Post(kept)
        assistant = post.assistant(call("send", to="bob"), "Done.", gated_tools=["send"])
        async with assistant.chat("c") as chat:
            await chat.set_posture("full_access")
            await chat.say("Send it.")

    assert (post.sent, post.asked) == (["bob"], ["send"])


async def test_what_is_no_posture_is_refused_and_a_conversation_that_was_left_has_none(
    tmp_path: Path,
) -> None:
    with kept_in(tmp_path) as kept:
        async with Post(kept).assistant("Hello.", posture="read_only").chat("c") as chat:
            with pytest.raises(UsageError, match="no posture"):
                await chat.set_posture("everything")
            assert chat.posture == Posture.named("read_only")
        with pytest.raises(UsageError, match="was left"):
            await chat.set_posture("full_access")
