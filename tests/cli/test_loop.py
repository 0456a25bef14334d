"""`placet loop` with a scripted model, real git, the real sandbox and a real database, nobody being asked."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.loops.ready_made import template_names
from placet.loops.round import Round
from placet.loops.spec import read_loop
from placet.loops.sql import SqlRounds
from placet.storage.location import open_database
from tests.cli.conftest import environment, warm_command
from tests.coder.nursery import running
from tests.coder.workbench import git, make_repository

FILES = {"a.txt": "wrong\n", "b.txt": "TODO\n", "server/requirements.txt": "unpinned-package\n"}
USAGE = {"input": 100, "output": 20}
REPORTED = (
    {"text": "Nothing needs a person today.", "usage": USAGE},
    {
        "calls": [{"name": "give_verdict", "arguments": {"verdict": "done", "summary": "It is so."}}],
        "usage": USAGE,
    },
    {"text": "Checked.", "usage": USAGE},
)
FOUND = {"dependency-sweeper": "== server/requirements.txt\nunpinned-package\n"}
"""What the hook of a ready-made loop gives of these files."""
PLAIN = """
intent = "keep a.txt right"
{more}
[maker]
prompt = "Look at a.txt."
"""


class Desk:
    """A person in their repository, with a database and state of their own."""

    def __init__(self, folder: Path, placet: Callable[..., Any]) -> None:
        self.folder = folder
        self.repository = make_repository(folder / "repository", FILES)
        self.db = str(folder / "kept.db")
        self.state = {
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self._placet = placet
        self.started: list[subprocess.Popen[bytes]] = []

    def script(self, *turns: Any) -> str:
        """A scripted model that answers with these turns, anew in each round."""
        path = self.folder / "script.json"
        path.write_text(json.dumps({"turns": turns or REPORTED}))
        return f"scripted:{path}"

    def put(self, name: str, text: str = PLAIN, more: str = "") -> None:
        """A loop that the person trusts."""
        path = self.repository / ".placet" / "loops" / f"{name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(more=more))
        assert self.run("trust", "--yes", ".").code == 0

    def loop(self, *arguments: str, **options: Any) -> Any:
        """Run `placet loop`."""
        db = () if arguments and arguments[0] == "new" else ("--db", self.db)
        return self.run("loop", *arguments, *db, **options)

    def run(self, *arguments: str, cwd: Path | None = None) -> Any:
        """Run `placet`."""
        return self._placet(*arguments, cwd=cwd or self.repository, **self.state)

    def data(self, *arguments: str) -> Any:
        """What it prints as JSON."""
        done = self.loop(*arguments, "--json")
        assert done.code in (0, 1, 4), done.err
        return json.loads(done.out)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `placet loop` and leave it running."""
        process = subprocess.Popen(
            warm_command("loop", *arguments, "--db", self.db),
            cwd=self.repository,
            env=environment(**self.state),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process


@pytest.fixture
def desk(
    placet: Callable[..., Any], tmp_path: Path, known_isolation: Callable[[Path], None]
) -> Iterator[Desk]:
    known_isolation(tmp_path / "data")
    made = Desk(tmp_path, placet)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def until(happened: Callable[[], Any]) -> Any:
    """What happened, once it has."""
    end = time.monotonic() + 60
    while not (found := happened()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("name", template_names())
def test_every_ready_made_loop_runs_in_a_plain_repository(desk: Desk, name: str) -> None:
    made = desk.loop("new", name)
    before = git(desk.repository, "status", "--porcelain")
    model = desk.script()

    ran = desk.loop("run", name, "--model", model, "--json")

    assert made.code == 0, made.err
    assert ran.code == 0, ran.err
    round = json.loads(ran.out)
    assert (round["outcome"], round["level"], round["number"]) == ("reported", "L1", 1)
    with open_database(desk.db) as database:
        kept = SqlRounds(database).find(round["id"])
    # Confined, its hook finds what there is to find.
    assert kept.spec.isolation == "process"
    assert FOUND.get(name, "") in kept.context
    assert kept.context != ""
    assert round["summary"] == "It is so."
    assert round["spend"]["total_tokens"] == 360
    # It was given what git, or the files, know; and it leaves nothing behind but what a delivery writes.
    after = git(desk.repository, "status", "--porcelain")
    assert after == before
    assert git(desk.repository, "branch", "--list", "placet/*") == ""


def test_new_lists_what_there_is_and_makes_a_loop_under_another_name(desk: Desk) -> None:
    listed = desk.loop("new")
    made = desk.loop("new", "ci-sweeper", "--name", "night", "--json")

    assert [line.split()[0] for line in listed.out.splitlines()] == template_names()
    assert json.loads(made.out)["trusted"] is True
    assert desk.data("list")["loops"][0]["name"] == "night"
    again = desk.loop("new", "ci-sweeper", "--name", "night")
    assert again.code == 2
    assert "There is a loop 'night' already" in again.err


def test_a_loop_made_beside_what_nobody_trusts_waits_for_trust(desk: Desk) -> None:
    (desk.repository / ".placet").mkdir()
    (desk.repository / ".placet" / "contract.toml").write_text('[[checks]]\ncommand = "true"\n')

    made = desk.loop("new", "daily-triage", "--json")
    ran = desk.loop("run", "daily-triage", "--model", desk.script())

    assert json.loads(made.out)["trusted"] is False
    assert ran.code == 2
    assert "runs the loops of .placet/loops" in ran.err


def test_a_run_is_shown_listed_and_drawn(desk: Desk) -> None:
    desk.put("tidy")
    model = desk.script()
    for _ in range(3):
        assert desk.loop("run", "tidy", "--model", model).code == 0

    shown, log, listed = desk.loop("show", "tidy"), desk.loop("log", "tidy"), desk.loop("list")

    assert "outcome  ···" in shown.out
    assert "tokens   ███  at most 360 tokens, 1,080 tokens in all" in shown.out
    assert "· 3 reported" in shown.out
    assert log.out.count("· reported") == 3
    assert "when asked" in listed.out
    newest = desk.data("log", "--limit", "1")["rounds"][0]
    one = desk.loop("show", newest["id"])
    assert "tidy, round 3" in one.out
    assert "verdict: done" in one.out
    assert "maker (scripted:" in one.out
    told = desk.run("explain", newest["id"], "--db", desk.db)
    assert told.code == 0, told.err


def test_a_record_without_failures_speaks_for_the_next_level(desk: Desk) -> None:
    desk.put("tidy")
    spec = read_loop(PLAIN.format(more=""), "tidy.toml", name="tidy")
    with open_database(desk.db, create=True) as database:
        rounds = SqlRounds(database)
        for number in range(10):
            round = Round(id=f"round-{number}", loop="tidy", repository=str(desk.repository), spec=spec)
            round.outcome, round.phase, round.started_at = "reported", "ended", 1e9 + number
            rounds.begin(round)
            rounds.put(round)

    shown = desk.data("show", "tidy")

    assert shown["suggestion"].startswith("You could raise it to L2: 10 rounds in a row were reported")
    assert shown["level"] == "L1"
    assert shown["evidence"]["rounds"] == 10


def test_an_escalated_round_waits_for_a_person(desk: Desk) -> None:
    more = 'level = "L2"\nkind = "fix"\n[[checks]]\ncommand = "grep -q right a.txt"\n'
    desk.put("mend", more=more + '[executor]\nuse = "commit"\n')
    write = {
        "calls": [{"name": "write_file", "arguments": {"path": "a.txt", "text": "right\n"}}],
        "usage": USAGE,
    }

    ran = desk.loop("run", "mend", "--model", desk.script(write, *REPORTED))

    assert ran.code == 4, ran.err + ran.out
    assert "? escalated" in ran.out
    assert "Decide: placet approvals show" in ran.out
    assert "? 1 round to decide" in desk.loop("list").out
    before = desk.data("log")["rounds"][0]
    approved = desk.run("approvals", "approve", before["approval"], "--db", desk.db)
    after = desk.data("log")["rounds"][0]
    assert approved.code == 0, approved.err
    assert after["later"][-1]["what"] == "approved"
    assert after["spend"]["total_tokens"] == before["spend"]["total_tokens"] == 480
    assert "? escalated, approved" in desk.loop("log").out
    assert "right" in git(desk.repository, "show", f"{after['receipt']['data']['branch']}:a.txt")


def test_three_failures_pause_the_loop_and_say_so(desk: Desk) -> None:
    desk.put("tidy")
    model = desk.script({"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]})

    codes = [desk.loop("run", "tidy", "--model", model) for _ in range(3)]

    assert [each.code for each in codes] == [1, 1, 1]
    assert "tidy is paused: 3 rounds in a row failed" in codes[-1].err
    assert "placet loop resume tidy" in codes[-1].err
    paused = desk.data("list")["loops"][0]
    assert paused["failures"] == 3
    assert "3 rounds in a row failed" in paused["pause"]["reason"]
    assert desk.loop("resume", "tidy").code == 0
    assert desk.data("list")["loops"][0]["pause"] is None


def test_start_runs_what_is_due_and_ends_when_asked(desk: Desk) -> None:
    desk.put("tidy", more='cadence = "every 1h"')
    process = desk.start("start", "--model", desk.script(), "--json")

    assert process.stdout is not None
    notices = [json.loads(process.stdout.readline()) for _ in range(2)]
    # Not as soon as the round stands in the log: until the scheduler has let go of it, it waits for it.
    process.terminate()
    out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert out == b""
    assert [each["what"] for each in notices] == ["began", "ended"]
    assert notices[1]["how"] == "reported"
    assert b"Stopped." in err
    assert b"Waiting for" not in err
    assert desk.data("log")["rounds"][0]["due_at"] is not None
    assert desk.data("list")["loops"][0]["due"] > time.time() + 3000


def test_start_that_is_asked_to_end_says_which_round_it_waits_for(desk: Desk) -> None:
    mark = f"waiter-{desk.folder.name}"
    text = PLAIN + f'[hooks]\nbefore = ": {mark}; sleep 600"\ntimeout_s = 900\n'
    desk.put("tidy", text, more='cadence = "every 1h"')
    process = desk.start("start", "--model", desk.script(), "--json")
    until(lambda: running(mark))

    process.terminate()
    assert process.stderr is not None
    said = next(line for line in process.stderr if b"no new round begins" in line).decode()
    assert desk.loop("stop", "--all").code == 0
    out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert f"Waiting for round {json.loads(out.splitlines()[0])['round']} of tidy" in said


def test_stop_all_ends_a_round_that_sleeps_elsewhere(desk: Desk) -> None:
    mark = f"sleeper-{desk.folder.name}"
    text = PLAIN + f'[hooks]\nbefore = ": {mark}; sleep 600"\ntimeout_s = 900\n'
    desk.put("slow", text)
    process = desk.start("run", "slow", "--model", desk.script(), "--json")
    until(lambda: running(mark))

    stopped = desk.loop("stop", "--all", "--reason", "enough")
    out, _ = process.communicate(timeout=60)

    assert stopped.code == 0
    assert "These rounds end now: slow" in stopped.err
    assert process.returncode == 1
    assert json.loads(out)["ended"] == "stopped"
    assert "enough" in json.loads(out)["reason"]
    assert not running(mark)
    refused = desk.loop("run", "slow", "--model", desk.script())
    assert refused.code == 2
    assert "placet loop resume --all" in refused.err
    assert desk.data("list")["loops"][0]["failures"] == 0
    assert desk.loop("resume", "--all").code == 0
    assert desk.data("list")["loops"][0]["all_stopped"] is None


def test_what_a_person_says_of_a_loop_is_in_the_log(desk: Desk) -> None:
    desk.put("tidy")
    for words in (("pause", "tidy", "--reason", "holiday"), ("stop", "tidy"), ("resume", "tidy")):
        assert desk.loop(*words).code == 0
    assert desk.loop("stop", "--all", "--reason", "\x1b[31menough").code == 0
    assert desk.loop("resume", "--all").code == 0

    log = desk.run("log", "export", "--db", desk.db)

    told = [json.loads(line) for line in log.out.splitlines()]
    kinds = [each["kind"] for each in told if each["kind"].startswith("loop")]
    assert kinds == [
        *("loop_paused", "loop_stopped", "loop_resumed"),
        *("loops_stopped", "loop_resumed", "loops_resumed"),
    ]
    paused = next(each for each in told if each["kind"] == "loop_paused")
    assert paused["data"]["loop"] == "tidy"
    assert paused["data"]["reason"] == "holiday"
    assert paused["data"]["by"]
    assert "\x1b" not in desk.run("log", "query", "--db", desk.db).out


def test_a_report_goes_to_a_file_and_a_hook_even_if_another_delivery_fails(desk: Desk) -> None:
    text = (
        'isolation = "none"\n'
        + PLAIN
        + '[hooks]\nafter = "cat > after.json"\n'
        + '[[delivery]]\nto = "command"\ncommand = "echo no >&2; exit 3"\n'
        + '[[delivery]]\nto = "file"\npath = "reports/tidy.md"\n'
    )
    desk.put("tidy", text)

    ran = desk.loop("run", "tidy", "--model", desk.script())

    assert ran.code == 0
    assert "the report did not get to its command" in ran.err
    assert "tidy, round 1: reported" in (desk.repository / "reports" / "tidy.md").read_text()
    assert json.loads((desk.repository / "after.json").read_text())["outcome"] == "reported"


def test_units_name_this_program_and_this_repository(desk: Desk) -> None:
    desk.put("tidy")

    systemd, launchd = desk.loop("unit", "tidy", "--for", "systemd"), desk.loop("unit", "--for", "launchd")

    assert f"WorkingDirectory={desk.repository}" in systemd.out
    assert "loop start tidy --db" in systemd.out
    assert "<string>start</string>" in launchd.out
    desk.state["PLACET_DB"] = "kept.db"
    here = desk.run("loop", "unit", "tidy", "--for", "systemd").out
    assert f"Environment=PLACET_DB={desk.repository}/kept.db" in here.replace('"', "")
    assert "PLACET_DB" not in desk.loop("unit", "tidy", "--for", "systemd").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("new", "no-such"), "There is no ready-made loop 'no-such'"),
        (("new", "ci-sweeper", "--name", "Not A Name"), "it is not 1 to 64 small letters"),
        (("new", "ci-sweeper", "--name", "../../x"), "it is not 1 to 64 small letters"),
        (("new", "--name", "x"), "--name goes with a TEMPLATE"),
        (("new", "ci-sweeper", "--repo", "/"), "/ is in no git repository"),
        (("run", "tidi"), "Did you mean 'tidy'?"),
        (("run",), "Missing argument"),
        (("run", "tidy", "--db", "none"), "keeps nothing"),
        (("run", "tidy", "--model", "no-such:model"), "no-such"),
        (("start", "tidi"), "Did you mean 'tidy'?"),
        (("start",), "None of these loops has a cadence"),
        (("start", "--jitter", "soon"), "is no duration"),
        (("start", "--at-once", "0"), "at-once"),
        (("pause",), "Name the loop to pause, or give --all"),
        (("pause", "tidy", "--all"), "not both"),
        (("pause", "nope"), "There is no loop 'nope' here"),
        (("resume", "nope"), "There is no loop 'nope' here"),
        (("stop",), "Name the loop to stop, or give --all"),
        (("stop", "nope"), "There is no loop 'nope' here"),
        (("log", "nope"), "There is no loop 'nope' here"),
        (("log", "--limit", "0"), "limit"),
        (("show", "nope"), "There is no loop 'nope' here"),
        (("show", "round-nope"), "does not exist. Nothing has been recorded there yet"),
        (("unit", "nope"), "There is no loop 'nope' here"),
        (("unit", "--for", "initd"), "initd"),
        (("list", "--repo", "/no/such/folder"), "There is no folder /no/such/folder"),
        (("frobnicate",), "No such command"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(desk: Desk, arguments: tuple[str, ...], words: str) -> None:
    desk.put("tidy")
    db = () if "--db" in arguments or arguments[0] in ("new", "frobnicate") else ("--db", desk.db)

    done = desk.run("loop", *arguments, *db)

    assert done.code == 2, done.out + done.err
    assert words in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("intent = 1", "loops/tidy.toml"),
        ("", "key 'intent'"),
        ('intent = "x"\nlevle = "L1"', "Did you mean 'level'?"),
        ('intent = "x"\ncadence = "hourly"', "key 'cadence'"),
        ('intent = "x"\ntimezone = "Mars/Base"', "There is no time zone 'Mars/Base'"),
        ("intent = ", "loops/tidy.toml"),
    ],
)
def test_a_loop_file_that_means_nothing_is_named_with_its_key(desk: Desk, text: str, words: str) -> None:
    path = desk.repository / ".placet" / "loops" / "tidy.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)

    done = desk.loop("list")

    assert done.code == 2
    assert words in done.err
