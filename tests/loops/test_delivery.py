"""Reports of rounds: where they go, what is in them, and that nothing about them ends a round."""

from __future__ import annotations

import asyncio
import json
import plistlib
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from placet.errors import ToolError, UsageError
from placet.loops.budget import Spend
from placet.loops.delivery import deliver, report_text, round_data
from placet.loops.posting import post
from placet.loops.round import Round
from placet.loops.spec import Delivery, LoopSpec
from placet.loops.units import unit_text
from placet.redaction import Redactor


def ended(outcome: str = "reported", **more: Any) -> Round:
    """A round that came to something."""
    spec = LoopSpec(name="tidy", intent="keep it tidy")
    return Round(
        id="round-1",
        loop="tidy",
        repository="/x",
        spec=spec,
        number=4,
        outcome=outcome,  # type: ignore[arg-type]
        summary=more.pop("summary", "Two files are left over."),
        started_at=1_790_000_000.0,
        ended_at=1_790_000_060.0,
        spend=Spend(input_tokens=10, output_tokens=2),
        **more,
    )


class Got(NamedTuple):
    """A request that a server got."""

    head: str
    body: bytes


class Server:
    """A real server on loopback, which answers as it is told."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        self.port = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1])
            for line in head.split("\r\n")
            if line.lower().startswith("content-length")
        )
        self.got.append(Got(head, await reader.readexactly(length)))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    yield made
    listening.close()
    await listening.wait_closed()


async def delivered(round: Round, *deliveries: Delivery, folder: Path, **more: Any) -> tuple[Any, list[str]]:
    said: list[str] = []
    return await deliver(round, deliveries, folder=folder, say=said.append, **more), said


async def test_a_webhook_gets_the_report_once_with_a_key(server: Server, tmp_path: Path) -> None:
    hook = Delivery(to="webhook", url=f"http://127.0.0.1:{server.port}/hook?x=1", hosts=("127.0.0.1",))

    done, _ = await delivered(ended(), hook, folder=tmp_path)

    [got] = server.got
    assert [(each.to, each.problem) for each in done] == [("webhook", "")]
    assert got.head.startswith("POST /hook?x=1 HTTP/1.1")
    assert "idempotency-key: round-1-report" in got.head.lower()
    sent = json.loads(got.body)
    assert (sent["outcome"], sent["loop"], sent["spend"]["total_tokens"]) == ("reported", "tidy", 12)


@pytest.mark.parametrize(
    ("hosts", "answer", "problem"),
    [
        (("example.org",), b"", "is none of the allowed ones"),
        (("127.0.0.1",), b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "status 500"),
        (("127.0.0.1",), b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n\r\n", "status 302"),
        (("127.0.0.1",), b"nonsense\r\n\r\n", "gave no answer"),
        (("127.0.0.1",), b"", "gave no answer"),
    ],
)
async def test_a_webhook_that_fails_is_told_of_and_the_others_go_on(
    server: Server, tmp_path: Path, hosts: tuple[str, ...], answer: bytes, problem: str
) -> None:
    server.answer = answer
    hook = Delivery(to="webhook", url=f"http://127.0.0.1:{server.port}/", hosts=hosts)

    done, said = await delivered(ended(), hook, Delivery(to="terminal"), folder=tmp_path)

    assert problem in done[0].problem
    assert done[1] == ("terminal", "")
    assert said[0].startswith("tidy, round 4: reported")


async def test_nobody_listens(tmp_path: Path) -> None:
    hook = Delivery(to="webhook", url="http://127.0.0.1:1/", hosts=("127.0.0.1",))

    [done], _ = await delivered(ended(), hook, folder=tmp_path)

    assert "gave no answer" in done.problem


async def test_a_round_that_proceeded_is_quiet_but_where_it_is_asked_for(tmp_path: Path) -> None:
    deliveries = [Delivery(to="terminal"), Delivery(to="file", path="all.md", always=True)]

    done, said = await delivered(ended("proceeded"), *deliveries, folder=tmp_path)

    assert (said, [each.to for each in done]) == ([], ["file"])
    assert "proceeded" in (tmp_path / "all.md").read_text()


async def test_a_file_is_added_to_and_is_the_persons_own(tmp_path: Path) -> None:
    to_file = Delivery(to="file", path="deep/er/report.md")

    await delivered(ended(), to_file, folder=tmp_path)
    await delivered(ended("failed", reason="no"), to_file, folder=tmp_path)

    path = tmp_path / "deep" / "er" / "report.md"
    assert path.read_text().count("tidy, round 4") == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_command_gets_the_report_on_stdin(tmp_path: Path) -> None:
    [good, bad], _ = await delivered(
        ended(),
        Delivery(to="command", command="cat > got.json"),
        Delivery(to="command", command="echo broken >&2; exit 7"),
        folder=tmp_path,
    )

    assert json.loads((tmp_path / "got.json").read_text())["summary"] == "Two files are left over."
    assert good.problem == ""
    assert "exit code 7" in bad.problem
    assert "broken" in bad.problem


async def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    [done], _ = await delivered(
        ended(), Delivery(to="command", command="sleep 600"), folder=tmp_path, timeout_s=0.2
    )

    assert done.problem


async def test_no_secret_and_nothing_that_steers_a_terminal_is_delivered(tmp_path: Path) -> None:
    round = ended(summary="key hunter2hunter2 \x1b[31mred\x1b[0m\u202e")

    done, [text] = await delivered(
        round,
        Delivery(to="terminal"),
        Delivery(to="command", command="cat > got.json"),
        folder=tmp_path,
        redactor=Redactor(["hunter2hunter2"]),
    )

    kept = (tmp_path / "got.json").read_text()
    assert not any(each.problem for each in done)
    for shown in (text, kept):
        assert "hunter2" not in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


async def test_a_folder_where_the_file_should_be_fails_that_delivery_alone(tmp_path: Path) -> None:
    (tmp_path / "report.md").mkdir()

    [bad, good], said = await delivered(
        ended(), Delivery(to="file", path="report.md"), Delivery(to="terminal"), folder=tmp_path
    )

    assert bad.problem
    assert good.problem == ""
    assert said


def test_the_report_says_what_it_came_to_and_what_to_do() -> None:
    text = report_text(round_data(ended("escalated", approval="ap-1", reason="L2 asks", changed=["a", "b"])))

    assert text.splitlines()[0] == "tidy, round 4: escalated (2026-09-21 14:14 UTC)"
    assert "Why: L2 asks" in text
    assert "Changes: a, b" in text
    assert "Decide: placet approvals show ap-1" in text


async def test_posting_refuses_another_host_before_anything_is_sent(server: Server) -> None:
    with pytest.raises(ToolError, match="none of the allowed ones"):
        await post(f"http://localhost:{server.port}/", b"{}", hosts=["127.0.0.1"])

    assert server.got == []


def test_whatever_a_path_holds_it_is_one_argument_of_a_unit() -> None:
    argv = ["/opt/an placet", "loop", "start", 'a"b', "50%", "$HOME", "back\\slash", "<x>&"]

    systemd = unit_text("systemd", argv, Path("/home/ann/My Project 100%"))
    launchd = plistlib.loads(unit_text("launchd", argv, Path("/home/ann/<P>")).encode())

    [line] = [line for line in systemd.splitlines() if line.startswith("ExecStart=")]
    assert line == ('ExecStart="/opt/an placet" loop start "a\\"b" "50%%" "$$HOME" "back\\\\slash" "<x>&"')
    assert "WorkingDirectory=/home/ann/My Project 100%%" in systemd
    assert launchd["ProgramArguments"] == argv
    assert launchd["WorkingDirectory"] == "/home/ann/<P>"


def test_a_path_with_a_line_break_is_no_unit() -> None:
    with pytest.raises(UsageError, match="no unit file can hold"):
        unit_text("systemd", ["x"], Path("/a\nExecStart=/bin/evil"))
