"""`placet run`: results on stdout, talk on stderr, an exit code for every outcome."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import msgspec
import pytest

from placet.cli.execution import exit_code
from placet.ir.result import Outcome, ProposalResult

Placet = Callable[..., Any]
Plan = Callable[..., Path]
Start = Callable[..., subprocess.Popen[bytes]]


def test_a_plan_that_succeeds_exits_0_and_shows_tree_cost_and_state(
    fresh: Placet, plan: Plan, tools: Path
) -> None:
    path = plan(
        {"id": "a", "tool": "look", "parameters": {"what": "gold"}},
        {"id": "b", "type": "state_write", "parameters": {"key": "k", "value": "$a.output"}},
    )

    done = fresh("run", path, "--tools", tools)

    assert done.code == 0
    assert "✓ a  look" in done.out
    assert '→ "found gold"' in done.out
    assert "✓ succeeded\n  cost: 1 tool call" in done.out
    assert 'state: k = "found gold"' in done.out
    assert "▸ a started" in done.err
    assert "\x1b" not in done.out + done.err, "no colour where nobody sees it"


def test_json_is_the_whole_result_and_the_final_state_and_nothing_else(
    fresh: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    (tmp_path / "state.json").write_text('{"big": 123456789012345678901234567890, "k": 1}')
    path = plan(
        {"id": "a", "tool": "loud"},
        {"id": "b", "type": "state_write", "parameters": {"key": "k", "value": 2}},
    )

    done = fresh("run", path, "--tools", tools, "--state", "state.json", "--json")

    assert done.code == 0
    document = done.json
    # `loop` is of runs that a loop of turns led.
    assert set(document) == {*ProposalResult.__struct_fields__, "state", "warnings"} - {"loop", "stop_cause"}
    assert document["state"] == {"big": 123456789012345678901234567890, "k": 2}
    result = msgspec.convert(document, ProposalResult)
    assert result.outcome == "succeeded"
    assert [r.action_id for r in result.results] == ["a", "b"]
    for words in ("loading the tools", "python speaks", "the descriptor speaks", "a child speaks"):
        assert words in done.err


def test_standard_input_is_a_plan_too(placet: Placet) -> None:
    done = placet(
        "run", "-", "--json", stdin='{"actions": [{"type": "state_write", "parameters": {"key": "k"}}]}'
    )

    assert done.code == 0
    assert done.json["state"] == {"k": None}


@pytest.mark.parametrize(
    ("action", "code", "outcome"),
    [
        ({"tool": "fail"}, 1, "aborted"),
        ({"tool": "fail", "failure_behavior": "skip"}, 1, "partial"),
        ({"tool": "nowhere"}, 1, "aborted"),
        ({"tool": "look", "dependencies": ["zzz"]}, 3, "refused"),
        ({"tool": "look", "dependencies": ["a"]}, 3, "refused"),
    ],
)
def test_every_outcome_has_its_exit_code(
    placet: Placet, plan: Plan, tools: Path, action: dict[str, Any], code: int, outcome: str
) -> None:
    path = plan({"id": "a", **action}, {"id": "ok", "tool": "look"})

    plain = placet("run", path, "--tools", tools)
    as_json = placet("run", path, "--tools", tools, "--json")

    assert (plain.code, as_json.code) == (code, code)
    assert as_json.json["outcome"] == outcome
    assert outcome in plain.out
    assert "Traceback" not in plain.err


def test_every_outcome_there_is_has_an_exit_code() -> None:
    codes = {outcome: exit_code(outcome) for outcome in get_args(Outcome)}

    assert codes == {
        "succeeded": 0,
        "partial": 1,
        "aborted": 1,
        "refused": 3,
        "canceled": 1,
        "budget": 1,
        "waiting": 4,
    }


def test_a_log_that_cannot_keep_up_is_said_and_the_result_stands(
    placet: Placet, plan: Plan, tools: Path
) -> None:
    done = placet("run", plan({"id": "a", "tool": "look"}), "--tools", tools, "--log", "/dev/full", "--json")

    assert done.code == 0
    assert done.json["outcome"] == "succeeded"
    assert "Warning: not everything could be recorded: OSError: [Errno 28] No space" in done.err


def test_a_refused_plan_names_the_ids(placet: Placet, plan: Plan, tools: Path) -> None:
    twice = placet(
        "run", plan({"id": "twin", "tool": "look"}, {"id": "twin", "tool": "look"}), "--tools", tools
    )
    cycle = placet(
        "run",
        plan(
            {"id": "hen", "tool": "look", "dependencies": ["egg"]},
            {"id": "egg", "tool": "look", "dependencies": ["hen"]},
        ),
        "--tools",
        tools,
    )

    assert twice.code == cycle.code == 3
    assert "'twin'" in twice.out
    assert "hen" in cycle.out
    assert "egg" in cycle.out


def test_an_abort_shows_what_was_undone_and_leaves_the_state(placet: Placet, plan: Plan, tools: Path) -> None:
    path = plan(
        {"id": "w", "type": "state_write", "parameters": {"key": "k", "value": 1}},
        {"id": "f", "tool": "fail", "dependencies": ["w"]},
    )

    done = placet("run", path, "--tools", tools, "--json")

    assert done.code == 1
    assert done.json["state"] == {}
    assert done.json["results"][0]["rolled_back"] is True


def test_policies_decide(placet: Placet, plan: Plan, tools: Path, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.toml").write_text(
        '[[rule]]\nname = "no-look"\nkind = "deny_tool"\ntool = "look"\n'
    )

    done = placet("run", plan({"id": "a", "tool": "look"}), "--tools", tools, "--policies", "rules", "--json")

    assert done.code == 1
    assert done.json["results"][0]["error"] == "policy 'no-look': tool 'look' is denied"


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_both_schedules_run(placet: Placet, plan: Plan, tools: Path, schedule: str) -> None:
    done = placet("run", plan({"id": "a", "tool": "look"}), "--tools", tools, "--schedule", schedule)

    assert done.code == 0


def test_a_log_and_a_picture_are_written(placet: Placet, plan: Plan, tools: Path, tmp_path: Path) -> None:
    arguments = (
        "run",
        plan({"id": "a", "tool": "look"}),
        "--tools",
        tools,
        "--log",
        "log.jsonl",
        "--svg",
        "p.svg",
    )

    first, second = placet(*arguments), placet(*arguments)

    assert first.code == second.code == 0
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [e["kind"] for e in events].count("proposal_ended") == 2, "a log is appended to"
    assert "succeeded" in ElementTree.tostring(ElementTree.parse(tmp_path / "p.svg").getroot()).decode()
    assert "picture: p.svg" in first.out
    run = re.search(r"^Run (\w+)$", first.err, re.MULTILINE)
    assert run is not None
    assert f"story: placet explain {run[1]}" in first.out
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("option", ["--log", "--svg"])
def test_what_cannot_be_written_is_found_out_before_anything_runs(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path, option: str
) -> None:
    path = plan({"id": "a", "tool": "mark", "parameters": {"file": "trace"}})
    (tmp_path / "folder").mkdir()

    for target in ("missing/file", "folder", "plan.json/file"):
        done = placet("run", path, "--tools", tools, option, target)

        assert done.code == 2
        assert target in done.err
        assert "Traceback" not in done.err
    assert not (tmp_path / "trace").exists()


TRACE = {"id": "a", "tool": "mark", "parameters": {"file": "trace"}}


@pytest.mark.parametrize("option", ["--log", "--svg"])
@pytest.mark.parametrize(
    "target",
    [
        "plan.json",
        "./plan.json",
        "state.json",
        "tools.py",
        "rules/a.toml",
        "soft",
        "hard",
        "soft_folder/plan.json",
    ],
)
def test_nothing_is_written_over_what_is_read(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path, option: str, target: str
) -> None:
    path = plan(TRACE)
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.toml").write_text('[[rule]]\nname = "n"\nkind = "deny_tool"\ntool = "x"\n')
    (tmp_path / "soft").symlink_to(path)
    (tmp_path / "hard").hardlink_to(path)
    (tmp_path / "soft_folder").symlink_to(tmp_path)
    before = (tmp_path / target).read_bytes()

    done = placet(
        *(
            "run",
            "plan.json",
            "--tools",
            tools,
            "--state",
            "state.json",
            "--policies",
            "rules",
            option,
            target,
        )
    )

    assert done.code == 2
    assert "would write over" in done.err
    assert ("run.jsonl" if option == "--log" else "run.svg") in done.err
    assert (tmp_path / target).read_bytes() == before
    assert not (tmp_path / "trace").exists()
    assert "loading the tools" not in done.err


def test_log_and_picture_are_two_files(placet: Placet, plan: Plan, tools: Path, tmp_path: Path) -> None:
    done = placet("run", plan(TRACE), "--tools", tools, "--log", "one", "--svg", "one")

    assert done.code == 2
    assert "would write over the log" in done.err
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("text", ["Dear Ada,\n", '{"actions": []}', '{"a": 1}\n{"b": 2}\n', "\n\nno newline"])
def test_a_log_is_not_appended_to_something_else(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / "notes").write_text(text)

    done = placet("run", plan(TRACE), "--tools", tools, "--log", "notes")

    assert done.code == 2
    assert "holds something else than events" in done.err
    assert "--log run.jsonl" in done.err
    assert (tmp_path / "notes").read_text() == text
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("text", ["", "\n", '{"seq": 1, "ki\n{"seq": 2, "kind": "x", "time": 1.0}\n{"seq"'])
def test_a_log_is_appended_to_an_empty_or_a_damaged_one(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / "log").write_text(text)

    assert placet("run", plan(TRACE), "--tools", tools, "--log", "log").code == 0
    assert "proposal_ended" in (tmp_path / "log").read_text()


def test_what_cannot_be_undone_stays_done_in_tree_picture_and_story(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    path = plan(
        TRACE,
        {"id": "look", "tool": "look"},
        {"id": "f", "tool": "fail", "dependencies": ["a", "look"]},
    )

    done = placet("run", path, "--tools", tools, "--log", "log.jsonl", "--svg", "p.svg")

    assert done.code == 1
    assert re.search(r"! a +mark +stays done +\S+ ms  the abort does not undo it", done.out)
    assert re.search(r"↶ look +look +rolled back", done.out)
    assert "'a' stays done, and the abort does not undo it" in done.out
    texts = "".join(ElementTree.parse(tmp_path / "p.svg").getroot().itertext())
    assert "! stays done" in texts
    assert "! a (mark) stays done" in placet("explain", "log.jsonl").out


def test_actions_are_counted_the_same_everywhere(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    path = plan(
        {"id": "a", "tool": "look", "compensation": {"type": "action_ref", "action_id": "undo"}},
        {"id": "undo", "tool": "look"},
        {"id": "b", "tool": "look"},
    )
    words = "2 actions, 1 more only to take back"

    assert words in placet("run", path, "--tools", tools, "--log", "log.jsonl", "--svg", "p.svg").out
    assert words in placet("verify", path, "--tools", tools).out
    assert words in placet("explain", "log.jsonl").out
    assert words in (tmp_path / "p.svg").read_text()


def test_at_80_columns_a_reason_is_whole(placet: Placet, plan: Plan, tools: Path) -> None:
    words = "the service said that it will not be there before the end of the week, and that it is sorry"
    path = plan({"id": "a", "tool": "fail", "parameters": {"text": words}})

    done = placet("run", path, "--tools", tools, COLUMNS="80")

    tree = done.out.split("\n\n")[0]
    assert words in " ".join(tree.split())
    assert all(len(line) <= 80 for line in tree.splitlines())


def test_hostile_names_and_errors_are_shown_not_obeyed(placet: Placet, plan: Plan, tools: Path) -> None:
    evil = "\x1b]0;owned\x07[red]x[/red]\u202e\x9b2J"
    path = plan({"id": evil, "tool": "fail", "parameters": {"text": f"bad {evil}"}})

    for arguments in (("run", path, "--tools", tools), ("verify", path, "--tools", tools)):
        done = placet(*arguments)

        for character in ("\x1b", "\x07", "\x9b", "\u202e"):
            assert character not in done.out + done.err
        assert "\\e]0;owned" in done.out
        assert "[red]x[/red]" in done.out
        as_json = placet(*arguments, "--json")
        assert "\u202e" not in as_json.out
        assert evil in json.dumps(as_json.json, ensure_ascii=False).replace("\\u001b", "\x1b").replace(
            "\\u0007", "\x07"
        )


def test_ten_thousand_actions_are_summed_up(placet: Placet, plan: Plan, tools: Path) -> None:
    path = plan(
        *(
            {"id": f"a{i}", "type": "state_write", "parameters": {"key": "k", "value": i}}
            for i in range(10_000)
        )
    )

    done = placet("run", path)

    assert done.code == 0
    assert len(done.out.splitlines()) < 400
    assert len(done.err.splitlines()) < 30
    assert "10,000 actions" in done.out
    assert "100 % (10,000 of 10,000 actions ended)" in done.err


def _interrupted(process: subprocess.Popen[bytes], by: signal.Signals) -> tuple[int, str, str]:
    """Wait until something runs, send the signal, and wait for the end."""
    assert process.stderr is not None
    said = b""
    while b"started" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(by)
    out, err = process.communicate(timeout=30)
    return process.returncode, out.decode(), (said + err).decode()


@pytest.mark.parametrize("tool", ["wait", "block"])
def test_ctrl_c_stops_the_run_shows_what_happened_and_exits_130(
    start: Start, plan: Plan, tools: Path, tool: str
) -> None:
    path = plan(
        {"id": "long", "tool": tool, "parameters": {"seconds": 50}},
        {"id": "later", "tool": "look", "dependencies": ["long"]},
    )

    code, out, err = _interrupted(start("run", path, "--tools", tools), signal.SIGINT)

    assert code == 130
    assert "■ canceled: stopped by SIGINT" in out
    assert "later" in out
    assert "Stopping" in err
    assert "Traceback" not in err


def test_a_stopped_run_still_prints_its_json_and_its_log(
    start: Start, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    path = plan({"id": "long", "tool": "wait", "parameters": {"seconds": 50}})

    code, out, _ = _interrupted(
        start("run", path, "--tools", tools, "--json", "--log", "log.jsonl"), signal.SIGTERM
    )

    assert code == 143
    assert json.loads(out)["outcome"] == "canceled"
    assert '"proposal_ended"' in (tmp_path / "log.jsonl").read_text()
