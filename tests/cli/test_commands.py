"""`placet verify`, `graph`, `explain`, `tools`, and the group itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

from placet import __version__
from placet.cli.inputs import Subject
from placet.cli.main import cli

Placet = Callable[..., Any]
Plan = Callable[..., Path]


def test_help_and_version_are_for_everyone(placet: Placet, fresh: Placet) -> None:
    top = fresh("--help")

    assert top.code == 0
    assert "Exit codes: 0 done as asked" in top.out
    for command in ("run", "verify", "graph", "explain", "trust"):
        assert command in top.out
        told = placet(command, "--help")
        assert told.code == 0
        assert "Exit codes:" in told.out
    assert fresh("--version").out == f"placet {__version__}\n"


def test_no_command_shows_the_help(placet: Placet) -> None:
    done = placet()

    assert done.code == 0
    assert done.out == placet("--help").out
    assert done.err == ""


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(name, id=name)
        for name, command in cli.commands.items()
        if isinstance(command, click.Group) and not isinstance(command, Subject)
    ],
)
def test_a_group_without_a_command_shows_its_help(placet: Placet, group: str) -> None:
    done = placet(group)

    assert (done.code, done.err) == (0, "")
    assert done.out == placet(group, "--help").out


def test_help_imports_nothing_heavy() -> None:
    probe = (
        "import sys; from placet.cli.main import main; main(['--help']);"
        "heavy = ('rich', 'msgspec', 'jsonschema_rs', 'asyncio', 'placet.runtime', 'placet.app');"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stderr.strip() == "[]"


def test_verify_says_valid_and_exits_0_without_calling_a_tool(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    path = plan({"id": "a", "tool": "mark", "parameters": {"file": "trace"}})

    done = placet("verify", path, "--tools", tools)

    assert done.code == 0
    assert "✓ valid" in done.out
    assert not (tmp_path / "trace").exists()


def test_verify_says_invalid_and_exits_3_with_every_finding(placet: Placet, plan: Plan, tools: Path) -> None:
    path = plan({"id": "a", "tool": "lok"}, {"id": "b", "tool": "mark", "parameters": {"wrong": 1}})

    plain = placet("verify", path, "--tools", tools)
    as_json = placet("verify", path, "--tools", tools, "--json")

    assert plain.code == as_json.code == 3
    assert "did you mean 'look'?" in plain.out
    assert "b: parameter" in plain.out
    report = as_json.json
    assert report["valid"] is False
    assert {issue["action_id"] for issue in report["issues"]} >= {"a", "b"}
    assert {"simulated_state", "execution_order", "execution_levels", "conflicts"} <= set(report)


def test_verify_sees_the_same_policies_and_state_as_run(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nname = "consent"\nkind = "require_state"\ntool = "look"\nkey = "consent"\nvalue = true\n'
    )
    (tmp_path / "yes.json").write_text('{"consent": true}')
    arguments = (plan({"id": "a", "tool": "look"}), "--tools", tools, "--policies", "rules.toml")

    for command, denied in (("verify", 3), ("run", 1)):
        assert placet(command, *arguments).code == denied
        assert placet(command, *arguments, "--state", "yes.json").code == 0


def test_a_cycle_is_invalid_and_cannot_be_drawn(placet: Placet, plan: Plan) -> None:
    path = plan(
        {"id": "hen", "tool": "t", "dependencies": ["egg"]},
        {"id": "egg", "tool": "t", "dependencies": ["hen"]},
    )

    verified, drawn = placet("verify", path), placet("graph", path, "-o", "-")

    assert verified.code == drawn.code == 3
    assert "hen -> egg" in verified.out or "egg -> hen" in verified.out
    assert "cycle" in drawn.err
    assert drawn.out == ""
    assert "2 actions, " in verified.out.splitlines()[0]


def test_without_tools_an_unknown_one_leads_to_the_option(placet: Placet, plan: Plan, tools: Path) -> None:
    path = plan({"id": "a", "tool": "look"})
    says = "unknown tool 'look': it is not built in; add --tools FILE"

    for command in ("verify", "run"):
        plain, as_json = placet(command, path), placet(command, path, "--json")
        assert says in plain.out
        assert says in as_json.out
        assert "placet tools" not in plain.out + plain.err + as_json.out
    assert "not built in" not in placet("verify", plan({"id": "a", "tool": "zz"}), "--tools", tools).out


@pytest.mark.parametrize("command", [("verify",), ("run",), ("policy", "check")])
def test_where_git_commit_is_not_offered_the_folder_that_it_needs_is_named(
    command: tuple[str, ...], placet: Placet, plan: Plan, tmp_path: Path
) -> None:
    path = plan({"id": "a", "tool": "git_commit", "parameters": {"paths": ["x"], "message": "x"}})
    top = tmp_path / "top"
    sub = top / "sub"
    sub.mkdir(parents=True)

    outside = placet(*command, path, cwd=sub)
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    inside = placet(*command, path, cwd=sub)

    assert outside.code == inside.code != 0
    for done in (outside, inside):
        assert "not built in" not in done.out
        assert "the top of a git repository" in done.out
    assert f"{sub} is in no git repository" in outside.out
    assert f"{sub} lies inside the repository {top}" in inside.out


def test_verify_says_which_layers_run_one_at_a_time(placet: Placet, plan: Plan, tools: Path) -> None:
    path = plan(
        {"id": "a", "tool": "look"},
        {"id": "b", "tool": "loud"},
        {"id": "c", "tool": "look", "dependencies": ["a", "b"]},
        {"id": "d", "tool": "wait", "parameters": {"seconds": 0}, "dependencies": ["a", "b"]},
    )

    levels = placet("verify", path, "--tools", tools)
    dataflow = placet("verify", path, "--tools", tools, "--schedule", "dataflow")

    assert "Layers\n    1. a, b  (one at a time)\n    2. c, d\n" in levels.out
    assert "Counts as run in this order\n  a, b, c, d\n" in levels.out
    assert "one at a time" not in dataflow.out


@pytest.mark.parametrize("target", ["plan.json", "result.json", "./link.json"])
def test_a_picture_is_not_drawn_over_what_is_read(
    placet: Placet, plan: Plan, tools: Path, tmp_path: Path, target: str
) -> None:
    path = plan({"id": "a", "tool": "look"})
    (tmp_path / "result.json").write_text(placet("run", path, "--tools", tools, "--json").out)
    (tmp_path / "link.json").symlink_to(path)
    before = (tmp_path / target).read_bytes()

    done = placet("graph", "plan.json", "--result", "result.json", "-o", target)

    assert done.code == 2
    assert "would write over" in done.err
    assert "plan.svg" in done.err
    assert (tmp_path / target).read_bytes() == before


def test_thousands_of_faults_are_cut_and_counted(placet: Placet, plan: Plan) -> None:
    path = plan(*({"id": f"a{i}", "tool": "t", "dependencies": [f"none{i}"]} for i in range(3000)))

    for command in (("run", path), ("verify", path), ("graph", path, "-o", "-")):
        done = placet(*command)

        assert done.code == 3
        assert len(done.out.splitlines()) < 40
        assert len(done.err.splitlines()) < 40
        assert " more" in done.out + done.err
    refused = placet("run", path)
    assert "the plan has 3,000 faults" in refused.out
    assert "… and 2,980 more\n" in refused.out
    assert "… and 2,980 more" in refused.err


def test_graph_draws_a_plan_and_a_result(placet: Placet, plan: Plan, tools: Path, tmp_path: Path) -> None:
    path = plan({"id": "a", "tool": "look"}, {"id": "<b>", "tool": "fail", "dependencies": ["a"]})
    (tmp_path / "result.json").write_text(placet("run", path, "--tools", tools, "--json").out)

    alone = placet("graph", path, "-o", "-")
    with_result = placet("graph", path, "-o", "out.svg", "--result", "result.json")

    assert alone.code == with_result.code == 0
    ElementTree.fromstring(alone.out)
    assert "Wrote out.svg" in with_result.err
    drawing = (tmp_path / "out.svg").read_text()
    texts = [
        element.text for element in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "<b>" in texts
    assert "✗ <b> failed: it broke" in texts


def test_a_picture_can_go_to_a_device(placet: Placet, plan: Plan) -> None:
    assert placet("graph", plan({"id": "a", "tool": "t"}), "-o", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


@pytest.fixture
def log(placet: Placet, plan: Plan, tools: Path, tmp_path: Path) -> Path:
    """A log of two runs, the second aborted."""
    placet("run", plan({"id": "first", "tool": "look"}), "--tools", tools, "--log", "log.jsonl")
    placet("run", plan({"id": "second", "tool": "fail"}), "--tools", tools, "--log", "log.jsonl")
    return tmp_path / "log.jsonl"


def _runs(log: Path) -> list[str]:
    return list(dict.fromkeys(json.loads(line)["run_id"] for line in log.read_text().splitlines()))


def test_explain_tells_the_newest_run_and_how_to_choose(placet: Placet, log: Path) -> None:
    done = placet("explain", "log.jsonl")

    assert done.code == 0
    assert "second (fail) failed" in done.out
    assert "first" not in done.out
    assert (
        "placet run PLAN.json --tools TOOLS.py --policies POLICIES --state STATE.json --log log.jsonl"
        in done.out
    )
    assert "2 runs in this file; this is the newest. Choose with --run ID" in done.err
    assert _runs(log)[0] in done.err


def test_explain_tells_the_run_that_is_asked_for(placet: Placet, log: Path) -> None:
    first = _runs(log)[0]

    for name in (first, first[:6]):
        done = placet("explain", log, "--run", name)
        assert done.code == 0
        assert "first (look) succeeded" in done.out
    wrong = placet("explain", log, "--run", "nobody")
    assert wrong.code == 2
    assert first in wrong.err


def test_explain_passes_over_damaged_lines_and_says_so(placet: Placet, log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"\xff\xfe garbage\n", *lines[2:], b'{"seq": 99, "kind": "prop']))

    done = placet("explain", log)

    assert done.code == 0
    assert "second (fail) failed" in done.out
    assert f"2 damaged lines passed over (line 3, {len(lines) + 2})" in done.err


def test_explain_as_json_has_steps_story_and_advice(placet: Placet, log: Path) -> None:
    document = placet("explain", log, "--json").json

    assert document["runs"] == _runs(log)
    assert document["run_id"] == document["runs"][-1]
    (part,) = document["proposals"]
    assert part["outcome"] == "aborted"
    assert part["steps"][0]["id"] == "second"
    assert part["steps"][0]["status"] == "failed"
    assert any("second" in line for line in document["story"])
    assert document["next"][0]["sentence"]
    assert document["damaged_lines"] == []


def test_tools_are_listed(placet: Placet, tools: Path) -> None:
    plain = placet("tools", "--tools", tools)
    as_json = placet("tools", "--tools", tools, "--json")

    assert plain.code == as_json.code == 0
    assert 'look(what: string = "x")' in plain.out
    assert "risk read_only, reversible" in plain.out
    assert "loading the tools" not in plain.out
    assert [tool["name"] for tool in as_json.json["tools"] if tool["source"] != "built in"] == [
        "look",
        "mark",
        "loud",
        "fail",
        "wait",
        "block",
    ]


def test_a_tools_file_may_import_its_neighbours(placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "neighbour.py").write_text("GREETING = 'hi'\n")
    (tmp_path / "kit" / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom placet import tool\nfrom neighbour import GREETING\n\n"
        "@dataclass\nclass Who:\n    name: str\n\n"
        "@tool\ndef greet(who: Who) -> str:\n    return GREETING + who.name\n"
    )

    done = placet("tools", "--tools", "kit/mine.py", "--json")

    assert done.code == 0, done.err
    assert done.json["tools"][0]["name"] == "greet"
    assert not list(tmp_path.rglob("mine*.pyc"))


def test_a_parameter_called_password_keeps_its_schema(placet: Placet, tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(
        "from placet import tool\n"
        '@tool\ndef log_in(user: str, password: str) -> str:\n    """Log in."""\n    return user\n'
    )

    done = placet("tools", "--tools", tmp_path / "kit.py", "--json")

    assert json.loads(done.out)["tools"][0]["parameters"]["properties"]["password"] == {"type": "string"}
