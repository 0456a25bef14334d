"""A person at a terminal: only a whole line that was typed at the question answers it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from placet.approvals.approval import Approval
from placet.cli.asker import Asker, allow_words, read_line
from placet.cli.output import Output

LIMIT_S = 30
QUESTION = Approval(
    id="a1",
    run_id="r1",
    action_id="t1c1",
    tool="write_file",
    risk="destructive",
    reversibility="irreversible",
    fingerprint="f",
    requested_at=0.0,
)
END = b"\x04"
"""Ctrl-D."""


@pytest.fixture
def keyboard() -> Iterator[int]:
    """What is written here is typed on a terminal that is our standard input."""
    kept = os.dup(0)
    ours, terminal = pty.openpty()
    os.dup2(terminal, 0)
    yield ours
    os.dup2(kept, 0)
    for each in (kept, ours, terminal):
        os.close(each)


def asker(*, is_kept: bool) -> Asker:
    return Asker(Output(), nullcontext, db=None, is_kept=is_kept)


async def typed(keyboard: int, keys: bytes) -> None:
    """Type, and wait until all of it can be read."""
    os.write(keyboard, keys)
    # A terminal tells nobody when it has taken keys in.
    while struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, b"\0" * 4))[0] < len(keys.replace(END, b"")):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def shown(capsys: pytest.CaptureFixture[str], words: str) -> None:
    """Wait until something was said."""
    said = ""
    async with asyncio.timeout(LIMIT_S):
        while words not in said:
            await asyncio.sleep(0.001)
            said += capsys.readouterr().err


async def test_the_end_of_a_long_line_answers_nothing(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    await typed(keyboard, b"x" * 4_000 + b"y\n")
    asked = asyncio.create_task(asker(is_kept=True)._decision(None))

    await shown(capsys, "Write y, a, n or l: ")
    os.write(keyboard, b"n\n")

    assert await asyncio.wait_for(asked, LIMIT_S) == "deny"


async def test_a_long_line_is_told_to_be_cut(keyboard: int) -> None:
    await typed(keyboard, b"y" + b" " * 4_050 + b"\n")

    line = await asyncio.wait_for(read_line("? "), LIMIT_S)

    assert line is not None
    assert line.endswith(" …")
    assert len(line) == 4_001


async def test_what_was_typed_before_the_question_came_again_is_forgotten(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    await typed(keyboard, b"what?\ny\n")
    asked = asyncio.create_task(asker(is_kept=True)._decision(None))
    await shown(capsys, "Write y, a, n or l: ")
    os.write(keyboard, b"n\n")

    assert await asyncio.wait_for(asked, LIMIT_S) == "deny"


@pytest.mark.parametrize("before", [b"", b"y"])
@pytest.mark.parametrize("is_kept", [True, False])
async def test_the_end_of_the_input_is_no_yes(
    keyboard: int, capsys: pytest.CaptureFixture[str], before: bytes, is_kept: bool
) -> None:
    asked = asyncio.create_task(asker(is_kept=is_kept)(QUESTION))
    await shown(capsys, "Allow it?")
    # In the middle of a line, the first one only hands over what was typed.
    os.write(keyboard, before + END * (2 if before else 1))

    reply = await asyncio.wait_for(asked, LIMIT_S)

    if is_kept:
        assert reply is None
    else:
        assert reply is not None
        assert (reply.decision, reply.reason) == ("deny", None)


@pytest.mark.parametrize("width", [12, 16, 20, 40, 76])
def test_what_can_be_answered_is_never_broken_inside_a_word(width: int) -> None:
    keys = {"y": "this once", "e": "all edits in this run", "a": "always exactly this", "l": "later"}

    lines = allow_words(keys, width).splitlines()

    said = "Allow it? y = this once, e = all edits in this run, a = always exactly this, l = later:"
    assert " ".join(lines).strip() == said
    assert all(len(line.rstrip()) <= width for line in lines)
