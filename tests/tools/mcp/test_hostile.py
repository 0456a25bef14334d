"""Servers that misbehave: the call fails in clear words, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from placet.errors import ToolError
from placet.tools.context import ToolContext
from placet.tools.mcp.connections import Connections
from placet.tools.mcp.link import Unreachable
from placet.tools.mcp.server import McpServer, switch_on
from tests.tools.mcp.conftest import HOSTILE, Served, servers_in, wait_until


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("crash", r"ended \(exit code 7\), so 'do' has no answer"),
        ("signal", r"ended \(SIGKILL\), so 'do' has no answer"),
        ("junk", r"writes what is no message on its standard output, such as 'this is no JSON \\e\]0;owned"),
        ("flood", "sent more than 10,000 messages without an answer"),
        ("long", "sent a message of more than 4 MiB"),
        ("other-answers", "sent more than 10,000 messages without an answer"),
        ("blank", "sent more than 10,000 messages without an answer"),
        ("bytes", "sent more than 64 MiB without an answer"),
        ("pieces", "answered with more than 1,000 pieces"),
        ("parts", "answered with more than 250,000 lists and objects"),
        ("strange", "answered with a kind of result that is not known here"),
        ("no-result", "answered with what is no result"),
    ],
)
async def test_a_call_without_an_answer_says_why(
    hostile: Callable[..., Served], way: str, words: str
) -> None:
    served = hostile(way)

    with pytest.raises(ToolError, match=words) as caught:
        await served.call("do")

    assert caught.value.unknown
    assert "Whether the call had an effect is not known" in str(caught.value)


@pytest.mark.parametrize("what", ["half", "deep", "long"])
async def test_an_answer_that_cannot_be_read_is_not_waited_for(
    hostile: Callable[..., Served], what: str
) -> None:
    """The time limit is a minute: whoever waited for it would fail for another reason."""
    served = hostile("unreadable", what)

    with pytest.raises(ToolError, match="'s' answered with what cannot be read, so 'do' has no") as caught:
        await served.call("do")

    assert (caught.value.retry, caught.value.unknown) == (False, True)


async def test_a_result_that_asks_back_is_no_success(hostile: Callable[..., Served]) -> None:
    with pytest.raises(ToolError, match="asks for more input from a person") as caught:
        await hostile("asks").call("do")

    assert (caught.value.retry, caught.value.unknown) == (False, False)


async def test_a_server_that_floods_when_nobody_waits_is_ended(
    hostile: Callable[..., Served], tmp_path: Path
) -> None:
    served = hostile("later", timeout_s=0.3)
    with pytest.raises(ToolError, match="did not answer within"):
        await served.call("do")
    assert servers_in(tmp_path)

    assert await asyncio.to_thread(wait_until, lambda: servers_in(tmp_path) == [])


async def test_a_server_that_does_not_read_keeps_nobody_beyond_the_limit(
    hostile: Callable[..., Served], tmp_path: Path
) -> None:
    """Telling it that the call was given up would wait behind all that it has not read."""
    served = hostile("does-not-read", timeout_s=1.0)

    with pytest.raises(ToolError, match=r"did not answer within 1 s"):
        async with asyncio.timeout(4.0):
            await served.call("do")

    assert await asyncio.to_thread(wait_until, lambda: servers_in(tmp_path) == [])


async def test_junk_between_answers_is_forgiven_for_ever(hostile: Callable[..., Served]) -> None:
    served = hostile("some-junk")

    answers = [await served.call("do", context="x") for _ in range(60)]

    assert answers == ['{"context": "x"}'] * 60


@pytest.mark.parametrize("way", ["silent", "wrong-id"])
async def test_a_call_that_is_not_answered_in_time_is_given_up(
    hostile: Callable[..., Served], way: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    served = hostile(way, str(log), timeout_s=1.0)

    with pytest.raises(ToolError, match=r"did not answer within 1 s, so 'do' has no answer") as caught:
        await served.call("do")
    await asyncio.to_thread(wait_until, lambda: "notifications/cancelled" in log.read_text())
    served.connections.close()

    assert (caught.value.retry, caught.value.unknown) == (True, True)
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    [call] = [message for message in sent if message["method"] == "tools/call"]
    [cancelled] = [message for message in sent if message["method"] == "notifications/cancelled"]
    assert cancelled["params"]["requestId"] == call["id"]


async def test_what_only_reads_has_no_effect_to_be_unsure_of(hostile: Callable[..., Served]) -> None:
    with pytest.raises(ToolError, match="ended") as caught:
        await hostile("crash", read_only=True).call("do")

    assert (caught.value.retry, caught.value.unknown) == (True, False)


@pytest.mark.parametrize("code", ["-32099", "-32000"])
async def test_a_refusal_is_told_in_the_words_of_the_server(
    hostile: Callable[..., Served], code: str
) -> None:
    """Whatever its code: the SDK has one of its own for a connection that is closed."""
    with pytest.raises(ToolError, match=r"refused 'do': answered with an error: no, \\e\]0;owned") as caught:
        await hostile("refuses", code).call("do")

    assert (caught.value.retry, caught.value.unknown) == (False, False)


async def test_a_few_lines_of_junk_are_forgiven(hostile: Callable[..., Served]) -> None:
    assert await hostile("some-junk").call("do", context="x") == '{"context": "x"}'


async def test_a_server_that_knows_no_handshake_is_spoken_to_without(hostile: Callable[..., Served]) -> None:
    assert await hostile("modern").call("do", context="x") == '{"context": "x"}'


async def test_progress_that_means_nothing_is_dropped(hostile: Callable[..., Served]) -> None:
    served = hostile("progress")

    await served.call("do")

    assert {done for _, done, _ in served.progress} <= {None, 0.5}
    assert {message for message, _, _ in served.progress} == {"\\e]0;owned\\x07"}


async def test_one_bad_server_does_not_hold_up_another(hostile: Callable[..., Served]) -> None:
    good, bad = hostile("ok", name="good"), hostile("flood", name="bad")

    answer, failure = await asyncio.gather(good.call("do"), bad.call("do"), return_exceptions=True)

    assert answer == "{}"
    assert isinstance(failure, ToolError)
    assert await good.call("do") == "{}"


async def test_a_tool_that_changed_after_it_was_switched_on_is_refused(
    hostile: Callable[..., Served], connections: Connections, tmp_path: Path
) -> None:
    served = hostile("changes", str(tmp_path / "changed"))
    assert await served.call("do") == "{}"

    (tmp_path / "changed").touch()
    again = Connections({})
    try:
        [tool] = again.tools("s", served.server)
        with pytest.raises(ToolError, match="'do' of MCP server 's' has changed") as caught:
            await tool({}, context=ToolContext(action_id="a", run_id="r"))
    finally:
        again.close()

    assert not caught.value.retry
    assert "`placet mcp show s`, then `placet mcp enable s do`" in str(caught.value)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("dies-at-once", r"ended \(exit code 3\)"),
        ("mute", r"did not answer within 0\.5 s and writes what is no message .*'hello \\e\]0;owned"),
        ("endless", "does not come to an end"),
        ("many", "lists more than 1,000 tools"),
        ("old", "speaks no version of the protocol that is known here"),
    ],
)
def test_a_server_that_cannot_be_listed_says_why(
    connections: Connections, way: str, words: str, tmp_path: Path
) -> None:
    limit = 0.5 if way == "mute" else 30.0
    server = McpServer(command=(*HOSTILE, way), folder=str(tmp_path), connect_timeout_s=limit)

    with pytest.raises(Unreachable, match=words) as caught:
        connections.offers("s", server)

    if way == "dies-at-once":
        assert caught.value.errors == "cannot open the database \\e]0;owned\\x07\nsecond line"


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (McpServer(command=("no-such-program",), folder="/"), "there is no program 'no-such-program'"),
        (McpServer(command=("./sh",), folder="/"), "there is no program './sh'"),
        (McpServer(command=("sh",), folder="/no/such"), "its folder /no/such is not there"),
        (McpServer(command=("sh",), folder="/", environment=("UNSET",)), "the environment variable UNSET"),
        (McpServer(command=("true",), folder="/"), r"ended \(exit code 0\)"),
        (McpServer(command=("cat",), folder="/"), "answered with"),
    ],
)
def test_a_command_that_is_no_server_says_so(connections: Connections, server: McpServer, words: str) -> None:
    with pytest.raises(Unreachable, match=words):
        connections.offers("s", server)


def test_what_cannot_be_offered_to_a_model_is_told(connections: Connections, tmp_path: Path) -> None:
    offers = connections.offers("s", McpServer(command=(*HOSTILE, "odd"), folder=str(tmp_path)))

    problems = {offer.name: offer.problem for offer in offers}
    assert problems.pop("do") == ""
    assert "its name has other characters" in problems.pop("bad name")
    assert "does not compile at $.properties.a.type" in problems.pop("broken")
    assert "schemas are never fetched" in problems.pop("far")
    assert problems == {}


@pytest.mark.parametrize(
    ("way", "problems"),
    [
        ("deep", {"do": "", "deep": "nested more than 64 deep"}),
        ("endless-number", {"do": "", "endless": "does not compile at $.properties.a.maximum"}),
        (
            "misshapen",
            {
                "do": "",
                "no-schema": "it is not listed as the protocol has it: look at its 'inputSchema'",
                "(entry 2)": "look at its 'name'",
                "(entry 3)": "look at its 'name'",
                "(entry 4)": "not listed as the protocol has it",
                "wordy": "look at its 'description'",
            },
        ),
        ("twice", {"do": "two tools are listed under this name"}),
    ],
)
def test_a_bad_entry_of_a_listing_costs_one_tool(
    connections: Connections, way: str, problems: dict[str, str], tmp_path: Path
) -> None:
    offers = connections.offers("s", McpServer(command=(*HOSTILE, way), folder=str(tmp_path)))

    found = {offer.name: offer.problem for offer in offers}
    assert found.keys() == problems.keys()
    assert all(words in found[name] for name, words in problems.items())
    assert [name for name, problem in found.items() if not problem] == ["do"] * (way != "twice")


async def test_a_tool_that_cannot_be_used_any_more_is_not_called(
    connections: Connections, tmp_path: Path
) -> None:
    good = connections.offers("g", McpServer(command=(*HOSTILE, "ok"), folder=str(tmp_path)))
    on = {"do": switch_on(good[0], read_only=False)}
    [tool] = connections.tools("s", McpServer(command=(*HOSTILE, "twice"), folder=str(tmp_path), tools=on))

    with pytest.raises(ToolError, match="cannot be used: two tools are listed under this name"):
        await tool({}, context=ToolContext(action_id="a", run_id="r"))


def test_the_log_of_the_sdk_stays_off_the_terminal(
    hostile: Callable[..., Served], capfd: pytest.CaptureFixture[str]
) -> None:
    """It holds words of servers; without a handler Python would print it."""
    hostile("ok")

    logging.getLogger("mcp.client.session").warning("from a server: \x1b[31m")

    assert logging.getLogger("mcp").handlers
    assert capfd.readouterr().err == ""
