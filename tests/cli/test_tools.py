"""`placet tools`: what plans can call, one tool looked at closely, and one called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Placet = Callable[..., Any]
Plan = Callable[..., Path]

BUILT_IN = [
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "find_files",
    "grep",
    "shell",
    "http_get",
    "calculate",
    "now",
    "sleep",
]


def test_the_tools_that_come_with_placet_are_always_there(quick: Placet) -> None:
    plain, as_json = quick("tools"), quick("tools", "list", "--json")

    assert plain.code == as_json.code == 0
    assert [tool["name"] for tool in as_json.json["tools"]] == BUILT_IN
    assert {tool["source"] for tool in as_json.json["tools"]} == {"built in"}
    assert all(f"  {name} " in plain.out for name in BUILT_IN)


def test_a_tool_of_your_own_hides_one_that_is_built_in(quick: Placet, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        'from placet import tool\n\n@tool(risk="read_only")\ndef now() -> str:\n    return "mine"\n'
    )

    listed = quick("tools", "--tools", "mine.py", "--json").json["tools"]
    called = quick("tools", "call", "now", "--tools", "mine.py")

    assert [tool["source"] for tool in listed if tool["name"] == "now"] == ["mine.py"]
    assert len(listed) == len(BUILT_IN)
    assert called.out == "mine\n"


def test_one_tool_is_shown_with_its_parameters(quick: Placet) -> None:
    plain, as_json = quick("tools", "show", "edit_file"), quick("tools", "show", "edit_file", "--json")

    assert "    replace_all: boolean = false\n" in plain.out
    assert "risk destructive" in plain.out
    assert as_json.json["name"] == "edit_file"
    assert as_json.json["parameters"]["required"] == ["path", "old", "new"]


@pytest.mark.parametrize("command", ["show", "call"])
def test_an_unknown_tool_leads_to_the_nearest(quick: Placet, command: str) -> None:
    done = quick("tools", command, "read_fil")

    assert done.code == 2
    assert "read_file" in done.err


def test_a_call_is_a_run_and_shows_what_came_of_it(quick: Placet, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    done = quick("tools", "call", "read_file", "path=a.txt", "start_line=2")
    whole = quick("tools", "call", "read_file", "--params", '{"path": "a.txt"}', "--json")

    assert done.code == 0
    assert json.loads(done.out)["text"] == "two\n"
    assert whole.json["outcome"] == "succeeded"
    assert whole.json["results"][0]["output"]["text"] == "one\ntwo\n"
    assert quick("runs", "show", whole.json["run_id"]).code == 0


def test_a_value_is_text_where_the_tool_wants_text(quick: Placet, tmp_path: Path) -> None:
    quick("tools", "call", "write_file", "path=n.txt", "text=1")
    wrong = quick("tools", "call", "read_file", "path=n.txt", "lines=many")

    assert (tmp_path / "n.txt").read_text() == "1"
    assert wrong.code == 2
    assert "lines" in wrong.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["path"], "names no parameter"),
        (["path=a", "path=b"], "given twice"),
        (["--params", "[]"], "no JSON object"),
        (["--params", "{"], "--params"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(quick: Placet, arguments: list[str], says: str) -> None:
    done = quick("tools", "call", "read_file", *arguments)

    assert done.code == 2
    assert says in done.err


def test_a_tool_that_is_misspelt_is_answered_in_whole_sentences(quick: Placet) -> None:
    done = quick("tools", "call", "calculat")

    assert done.code == 2
    assert "did you mean 'calculate'? See the known ones" in done.err


def test_a_call_goes_through_the_rules(quick: Placet, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('[[rule]]\nname = "none"\nkind = "deny_tool"\ntool = "write_file"\n')

    denied = quick("tools", "call", "write_file", "path=a.txt", "text=x", "--policies", "rules.toml")
    asked = quick("tools", "call", "shell", "command=touch made", "--permissions", "balanced", "--json")

    assert denied.code == 1
    assert "none" in denied.out
    assert asked.code == 4
    assert asked.json["waiting"][0]["kind"] == "approval"
    assert not (tmp_path / "a.txt").exists()
    assert not (tmp_path / "made").exists()


def test_files_outside_the_folder_are_out_of_reach(quick: Placet, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.txt").write_text("canary")
    (tmp_path / "inside" / "link").symlink_to("../secret.txt")

    for path in ("../secret.txt", "link", str(tmp_path / "secret.txt")):
        done = quick("tools", "call", "read_file", f"path={path}", cwd=tmp_path / "inside")
        assert done.code == 1
        assert "outside the workspace" in done.out
        assert "canary" not in done.out + done.err


def test_long_output_is_cut_and_can_be_read_where_the_marker_says(quick: Placet, tmp_path: Path) -> None:
    (tmp_path / ".placet").mkdir()
    (tmp_path / "long.txt").write_text("".join(f"line {n}\n" for n in range(4000)))

    done = quick("tools", "call", "shell", "command=cat long.txt")

    assert len(done.out.encode()) <= 16 * 1024 + 1
    kept = done.out.partition("all of it is in ")[2].partition(" …]")[0]
    assert Path(kept).is_relative_to(tmp_path / ".placet" / "data" / "spill")
    again = quick("tools", "call", "read_file", f"path={kept}", "start_line=2000", "lines=1")
    assert json.loads(again.out)["text"].startswith("line 199")


def test_long_output_can_be_searched_where_there_is_no_project(quick: Placet, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "long.txt").write_text("".join(f"line {n}\n" for n in range(4000)))
    own = {"XDG_DATA_HOME": str(tmp_path / "data")}

    done = quick("tools", "call", "shell", "command=cat long.txt", cwd=tmp_path / "work", **own)
    kept = done.out.partition("all of it is in ")[2].partition(" …]")[0]
    found = quick("tools", "call", "grep", "pattern=line 2000$", f"path={kept}", cwd=tmp_path / "work", **own)
    listed = quick(
        "tools", "call", "find_files", "pattern=*", f"path={Path(kept).parent}", cwd=tmp_path / "work", **own
    )

    assert Path(kept).is_relative_to(tmp_path / "data" / "placet" / "spill")
    assert [match["path"] for match in json.loads(found.out)["matches"]] == [kept]
    assert json.loads(listed.out)["files"] == [kept]


def test_steering_characters_of_a_tool_do_not_reach_the_terminal(quick: Placet) -> None:
    done = quick("tools", "call", "shell", r"command=printf '\033[2J\302\233 \342\200\256 x\ny\n'")

    assert "\\e[2J" in done.out
    assert not any(c in done.out for c in "\x1b\x9b\u202e")


def test_what_placet_keeps_is_out_of_reach_also_in_ones_own_home(quick: Placet, tmp_path: Path) -> None:
    own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}
    (tmp_path / "config" / "placet").mkdir(parents=True)
    (tmp_path / "config" / "placet" / "settings.toml").write_text('[permissions]\nposture = "trusting"\n')
    quick("tools", "call", "now", "--db", "runs.db", **own)

    for path in ("config/placet/settings.toml", "runs.db", "data/placet/anchors"):
        for arguments in (("read_file",), ("write_file", "text=x")):
            name, *more = arguments
            done = quick("tools", "call", name, f"path={path}", *more, "--db", "runs.db", **own)
            assert done.code == 1
            assert "keeps its records" in done.out


def test_a_plan_cannot_change_the_rules_tools_log_or_records_it_runs_with(
    quick: Placet, plan: Plan, tmp_path: Path
) -> None:
    (tmp_path / "rules.toml").write_text('[[rule]]\nname = "no"\nkind = "deny_tool"\ntool = "edit_file"\n')
    (tmp_path / "mine.py").write_text("from placet import tool\n\n@tool\ndef f() -> int:\n    return 1\n")
    paths = ["rules.toml", "mine.py", "run.jsonl", "plan.json", "own.db", "own.db-journal", "runs.db"]
    path = plan(
        *(
            {
                "id": name,
                "tool": "write_file",
                "parameters": {"path": name, "text": "nothing happened"},
                "failure_behavior": "skip",
            }
            for name in paths
        )
    )
    before = {name: (tmp_path / name).read_bytes() for name in ("rules.toml", "mine.py", "plan.json")}

    done = quick(
        *("run", path, "--policies", "rules.toml", "--tools", "mine.py", "--log", "run.jsonl", "--json"),
        *("--db", "runs.db"),
        PLACET_DB="own.db",
    )

    errors = {result["action_id"]: result["error"] for result in done.json["results"]}
    assert all("was started with" in errors[name] or "keeps its records" in errors[name] for name in paths)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    log = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert (log[0]["kind"], log[-1]["kind"]) == ("proposal_received", "run_ended")


def test_an_option_that_is_given_twice_is_refused(quick: Placet) -> None:
    for option, value in (("--policies", "a.toml"), ("--tools", "a.py"), ("--permissions", "cautious")):
        done = quick("tools", "call", "now", option, value, option, value)
        assert done.code == 2
        assert "Give it once" in done.err
