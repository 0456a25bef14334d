"""The assistant in a real terminal: asked right there, stopped with Ctrl-C, taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cli.conftest import environment, warm_command

Placet = Callable[..., Any]
Spawn = Callable[..., "pexpect.spawn[str]"]

LIMIT_S = 60
"""Far more than anything here takes."""
ALLOW = r"Allow it\? .*: "

HOLD = '''
import asyncio
from pathlib import Path

from placet import tool


@tool(risk="read_only")
async def hold(until: str) -> str:
    """Wait until a file is there."""
    while not Path(until).exists():
        await asyncio.sleep(0.02)
    return "it is there"
'''


def write(path: str, text: str) -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"path": path, "text": text}}


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """A scripted model that answers with these turns."""

    def make(*turns: Any, name: str = "script.json") -> str:
        (tmp_path / name).write_text(json.dumps({"turns": turns}))
        return f"scripted:{name}"

    return make


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Start a command on a terminal that obeys nothing, so that whatever steers one is seen."""
    started: list[pexpect.spawn[str]] = []

    def start(*arguments: str | Path, columns: int = 200, **more: str) -> pexpect.spawn[str]:
        words = warm_command(*arguments)
        child = pexpect.spawn(
            words[0],
            words[1:],
            cwd=str(tmp_path),
            env=environment(TERM="dumb", **more),
            timeout=LIMIT_S,
            encoding="utf-8",
            echo=False,
            dimensions=(60, columns),
        )
        child.seen = Seen()
        child.logfile_read = child.seen
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


class Seen:
    """All that came."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def ended(child: pexpect.spawn[str]) -> int:
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus is not None
    return int(child.exitstatus)


def test_a_no_with_a_reason_is_told_and_an_always_is_not_asked_again(
    spawn: Spawn, script: Callable[..., str], tmp_path: Path
) -> None:
    model = script(
        {"text": "First \x1b]0;mine\x07\x1b[31mthis.", "calls": [write("no.txt", "\x1b[2Jno")]},
        {"calls": [write("yes.txt", "yes")]},
        {"text": "And again.", "calls": [write("yes.txt", "yes")]},
        "Both are done.",
    )
    child = spawn("do", "write", "--model", model, "--db", "kept.db", "--run-id", "r1")

    child.expect("write_file wants to run: it needs sandbox_edit")
    child.expect("sandbox_edit: may change files in this folder")
    child.expect("no.txt")
    child.expect(ALLOW)
    assert not (tmp_path / "no.txt").exists()
    child.sendline("n")
    child.expect("Why not")
    child.sendline("not this file")
    child.expect("refused: .*not this file")
    child.expect(ALLOW)
    child.sendline("what?")
    child.expect("Write y, e, a, n or l: ")
    child.sendline("a")
    child.expect("And again.")
    child.expect("Both are done.")
    child.expect(r"done; 1 call was refused \(write_file\) .*turns")

    assert ended(child) == 0
    assert not (tmp_path / "no.txt").exists()
    assert (tmp_path / "yes.txt").read_text() == "yes"
    assert child.seen.text.count("Allow it?") == 2
    assert "\x1b" not in child.seen.text
    assert "First \\e]0;mine\\x07\\e[31mthis." in child.seen.text


def test_once_is_asked_again_and_later_leaves_it_open(
    spawn: Spawn, script: Callable[..., str], placet: Placet, tmp_path: Path
) -> None:
    model = script({"calls": [write("a.txt", "1")]}, {"calls": [write("a.txt", "1")]}, "Not reached.")
    child = spawn("do", "write", "--model", model, "--db", "kept.db", "--run-id", "r1")

    child.expect(ALLOW)
    child.sendline("y")
    child.expect("✓ write_file")
    child.expect(ALLOW)
    child.sendline("l")
    child.expect("placet approvals approve")

    assert ended(child) == 4
    assert "Not reached" not in child.seen.text
    assert len(placet("approvals", "--db", "kept.db", "--json").json["approvals"]) == 1

    child = spawn("resume", "r1", "--db", "kept.db", "--model", script("Now it is done.", name="more.json"))
    child.expect(ALLOW)
    child.sendline("y")
    child.expect("Now it is done.")
    assert ended(child) == 0


def test_ctrl_c_stops_cleanly_and_the_run_goes_on_later(
    spawn: Spawn, script: Callable[..., str], placet: Placet, tmp_path: Path
) -> None:
    (tmp_path / "hold.py").write_text(HOLD)
    calls = [{"name": "hold", "arguments": {"until": "go"}}]
    model = script({"text": "I wait for it.", "calls": calls}, "Not reached.")
    child = spawn("do", "wait", "--model", model, "--tools", "hold.py", "--db", "kept.db", "--run-id", "r1")

    child.expect("I wait for it.")  # Shown while the call still runs.
    child.expect("→ hold until=go")
    child.sendintr()
    child.expect("Stopping")
    child.expect("placet resume r1 --db kept.db")

    assert ended(child) == 130
    assert "Not reached" not in child.seen.text

    (tmp_path / "go").touch()
    more = script("It came.", name="more.json")
    done = placet("resume", "r1", "--db", "kept.db", "--model", more, cwd=tmp_path)
    assert (done.code, done.out) == (0, "It came.\n")
    assert "it is there" in done.err


def test_what_was_typed_before_answers_nothing_and_ctrl_c_at_a_question_stops_the_run(
    spawn: Spawn, script: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "hold.py").write_text(HOLD)
    waiting = {"calls": [{"name": "hold", "arguments": {"until": "go"}}]}
    model = script(waiting, {"calls": [write("a.txt", "1")]}, "Not reached.")
    child = spawn("do", "write", "--model", model, "--tools", "hold.py", "--db", "kept.db", "--run-id", "r1")

    child.expect("→ hold")
    child.sendline("y")
    (tmp_path / "go").touch()
    child.expect(ALLOW)
    child.sendline("what?")
    child.expect("Write y, e, a, n or l: ")
    child.sendintr()
    child.expect("placet resume r1")

    assert ended(child) == 130
    assert not (tmp_path / "a.txt").exists()


def test_somebody_else_may_answer_meanwhile(
    spawn: Spawn, script: Callable[..., str], placet: Placet, tmp_path: Path
) -> None:
    model = script({"calls": [write("a.txt", "1")]}, "It was allowed.")
    child = spawn("do", "write", "--model", model, "--db", "kept.db", "--run-id", "r1")

    child.expect(ALLOW)
    [asked] = placet("approvals", "--db", "kept.db", "--json").json["approvals"]
    placet("approvals", "approve", asked["id"], "--db", "kept.db")
    child.expect("✓ write_file")
    child.expect("It was allowed.")

    assert ended(child) == 0
    assert (tmp_path / "a.txt").read_text() == "1"


def test_a_chat_goes_on_after_an_answer_was_stopped_and_takes_changes_back(
    spawn: Spawn, script: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "hold.py").write_text(HOLD)
    (tmp_path / "a.txt").write_text("as it was")
    calls = [{"name": "hold", "arguments": {"until": "go"}}]
    model = script(
        {"text": "I wait.", "calls": calls}, {"calls": [write("a.txt", "changed")]}, "Changed.", "Last."
    )
    child = spawn("chat", "--model", model, "--tools", "hold.py", "--db", "kept.db", "--run-id", "c1")

    child.expect("/help lists commands")
    child.expect("> ")
    child.sendline("wait for it")
    child.expect("→ hold")
    child.sendintr()
    child.expect("Stopping")
    child.expect("> ")
    child.sendline("change it")
    child.expect(ALLOW)
    child.sendline("y")
    child.expect("Changed.")
    child.expect("> ")
    assert (tmp_path / "a.txt").read_text() == "changed"
    child.sendline("/undo")
    child.expect("Taken back: a.txt")
    assert (tmp_path / "a.txt").read_text() == "as it was"
    child.sendline("/undo")
    child.expect("As before it was taken back: a.txt")
    assert (tmp_path / "a.txt").read_text() == "changed"
    child.sendline("and now")
    child.expect("Last.")
    child.expect("> ")
    child.sendeof()
    child.expect("placet chat --resume c1 --db kept.db")

    assert ended(child) == 0


def test_a_change_to_a_file_is_shown_as_a_difference_before_it_is_allowed(
    spawn: Spawn, script: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "crlf.txt").write_bytes(b"here\r\nthere\r\n")
    model = script(
        {"calls": [write("notes.txt", "one\n\x1b[2Jtwice\nthree\n")]},
        {"calls": [{"name": "edit_file", "arguments": {"path": "crlf.txt", "old": "here\nt", "new": "T"}}]},
        {"calls": [write("new.txt", "first\nsecond \x1b]0;x\x07\n")]},
        "Done.",
    )
    child = spawn("do", "write", "--model", model, "--db", "kept.db", "--run-id", "r1")

    child.expect(r"what would change in notes.txt \(\+1 -1\), as it is now:")
    child.expect(r"│  one\r\n  │ -two\r\n  │ \+\\e\[2Jtwice\r\n  │  three\r\n")
    child.expect(ALLOW)
    child.sendline("y")
    child.expect("what would change in crlf.txt")
    child.expect(r"│ -here\r\n  │ -there\r\n  │ \+There\r\n")
    child.expect(ALLOW)
    child.sendline("y")
    child.expect(r"│ \+first\r\n  │ \+second \\e\]0;x\\x07\r\n")
    child.expect(ALLOW)
    child.sendline("y")
    child.expect("Done.")

    assert ended(child) == 0
    assert "\x1b" not in child.seen.text
    assert (tmp_path / "crlf.txt").read_bytes() == b"There\r\n"


def test_what_does_not_fit_on_the_screen_is_shown_at_a_key(
    spawn: Spawn, script: Callable[..., str], tmp_path: Path
) -> None:
    text = "".join(f"line {n}\n" for n in range(200))
    child = spawn(
        "do", "write", "--model", script({"calls": [write("a.txt", text)]}, "Done."), "--db", "kept.db"
    )

    child.expect("lines are left out here: s shows all")
    child.expect("s = show all, l = later: ")
    assert "line 100\r\n" not in child.seen.text
    child.sendline("s")
    child.expect(r"\+line 100\r\n")
    child.expect(ALLOW)
    assert not (tmp_path / "a.txt").exists()
    child.sendline("what?")
    child.expect("Write y, e, a, n, s or l: ")
    child.sendline("y")
    child.expect("Done.")

    assert ended(child) == 0
    assert (tmp_path / "a.txt").read_text() == text


def test_one_key_allows_all_edits_of_the_run_and_a_resume_keeps_that(
    spawn: Spawn, script: Callable[..., str], placet: Placet, tmp_path: Path
) -> None:
    shell = {"name": "shell", "arguments": {"command": "true"}}
    edit = {"name": "edit_file", "arguments": {"path": "a.txt", "old": "1", "new": "2"}}
    model = script({"calls": [write("a.txt", "1")]}, {"calls": [edit]}, {"calls": [shell]}, "Not reached.")
    child = spawn("do", "write", "--model", model, "--db", "kept.db", "--run-id", "r1")

    child.expect("e = all edits in this run")
    child.sendline("e")
    child.expect(r"placet approvals revoke \w+ --db kept.db")
    child.expect("✓ edit_file")
    child.expect("shell wants to run")
    child.expect(ALLOW)
    assert "e = all edits" not in child.match.group()
    child.sendline("e")
    child.expect("Write y, a, n or l: ")
    child.sendline("l")
    assert ended(child) == 4
    assert child.seen.text.count("Allow it?") == 2
    assert (tmp_path / "a.txt").read_text() == "2"

    more = script({"calls": [write("b.txt", "1")]}, "Now it is done.", name="more.json")
    child = spawn("resume", "r1", "--db", "kept.db", "--model", more)
    child.expect("shell wants to run")
    child.expect(ALLOW)
    child.sendline("y")
    child.expect("✓ write_file")
    child.expect("Now it is done.")
    assert ended(child) == 0
    assert child.seen.text.count("Allow it?") == 1

    log = placet(
        "log", "query", "--run", "r1", "--kind", "approval_recorded", "--db", "kept.db", "--json"
    ).json
    said = [(event["data"]["decision"], event["data"]["approval"]) for event in log["events"]]
    assert [decision for decision, _ in said] == ["edits", "edits", "once", "edits"]
    assert len({approval for decision, approval in said if decision == "edits"}) == 1
    story = placet("explain", "r1", "--db", "kept.db").out
    assert story.count("approved with all further edits of files in this run") == 3


def test_a_question_fits_a_narrow_terminal_and_breaks_lines_between_words(
    script: Callable[..., str], tmp_path: Path
) -> None:
    """Whatever a terminal of 80 columns would break by itself is longer than that here."""
    folder = tmp_path / ("a-folder-with-a-name-that-is-long-" * 2)
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\n")
    edit = {"name": "edit_file", "arguments": {"path": "notes.txt", "old": "two", "new": "word " * 60}}
    model = script({"calls": [edit]}, "Not reached.")
    for width in (80, 100):
        words = warm_command(
            "do", "write", "--model", model.replace(":", f":{tmp_path}/", 1), "--db", tmp_path / f"{width}.db"
        )
        child = pexpect.spawn(
            words[0], words[1:], cwd=str(folder), env=environment(TERM="dumb"), timeout=LIMIT_S,
            encoding="utf-8", echo=False, dimensions=(50, width),
        )  # fmt: skip
        child.expect_exact("? edit_file")
        child.expect("l = later: ")
        lines = (child.before + child.after).replace("\r\n", "\n").split("\n")
        child.close(force=True)

        assert max(map(len, lines)) <= width
        assert any(line.startswith("  confined to the folder") for line in lines)
        broken = [line for line in lines if line.startswith("  ┊ ")]
        assert broken
        assert all(line.startswith("  ┊ word") for line in broken)
        assert not [line for line in lines if line.startswith(("= ", "this run"))]


def test_the_line_of_a_call_fits_the_terminal_and_cuts_no_secret(
    spawn: Spawn, script: Callable[..., str], tmp_path: Path
) -> None:
    secret = "QZXJKVWYQZKXVJWY"
    name = "the_text_of_the_message_to_be_sent"
    (tmp_path / "tools.py").write_text(
        f"from placet import tool\n@tool\ndef send({name}: str) -> str:\n    'Send.'\n    return 'sent'\n"
    )
    text = f"{'a' * 30}{secret}{'b' * 200}"
    model = script({"calls": [{"name": "send", "arguments": {name: text}}]}, "Not done.")
    arguments = ("do", "Send it", "--model", model, "--db", "kept.db", "--tools", "tools.py")

    child = spawn(*arguments, columns=80, FOO_API_KEY=secret)
    child.expect(ALLOW)
    child.sendline("l")

    assert ended(child) == 4
    lines = [line.rstrip("\r") for line in child.seen.text.split("\n")]
    (at,) = [at for at, line in enumerate(lines) if line.startswith("→ send")]
    assert max(map(len, lines[at : at + 2])) <= 80
    assert not any(secret[at : at + 6] in child.seen.text for at in range(len(secret) - 5))
