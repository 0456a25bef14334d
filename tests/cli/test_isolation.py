"""Required isolation: refused before anything is done, raised by an option, lowered by a person."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, command, environment
from tests.cli.test_doctor import needs_root, without_bubblewrap
from tests.cli.test_trust import on_a_terminal

Run = Callable[..., Done]
LOWER = ("isolation", "lower", "none", "--for", "2h", "--because", "no namespaces in CI")


@pytest.fixture
def own(tmp_path: Path, known_isolation: Callable[[Path], None]) -> dict[str, str]:
    """Folders of a person of whom nothing is known yet, but what this machine enforces."""
    known_isolation(tmp_path / "data")
    return {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def run(quick: Run, own: dict[str, str], here: Path) -> Run:
    return lambda *arguments, **options: quick(*arguments, **{"cwd": here, **own, **options})


@pytest.fixture
def write_plan(here: Path) -> Callable[..., Path]:
    """Write a plan: an action for each tool with its parameters, one after the other."""

    def write(*calls: tuple[str, dict[str, Any]]) -> Path:
        actions = [
            {"id": f"a{n}", "tool": tool, "parameters": given, "dependencies": [f"a{n - 1}"] if n else []}
            for n, (tool, given) in enumerate(calls)
        ]
        path = here / "plan.json"
        path.write_text(json.dumps({"actions": actions}))
        return path

    return write


@pytest.fixture
def plan(write_plan: Callable[..., Path]) -> Path:
    return write_plan(("write_file", {"path": "made", "text": "x"}))


@pytest.fixture
def settings(own: dict[str, str]) -> Path:
    """The person's own settings, which require `process`."""
    path = Path(own["XDG_CONFIG_HOME"]) / "placet" / "settings.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[isolation]\nrequire = "process"\n')
    return path


def kept(own: dict[str, str]) -> list[str]:
    """What there is in the person's data folder, but for what the self-test found."""
    folder = Path(own["XDG_DATA_HOME"]) / "placet"
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    return [name for name in names if name != "isolation.json"]


# Missing


@needs_root
@pytest.mark.parametrize("by", ["option", "settings", "project"])
def test_what_is_required_and_missing_stops_everything_before_it_begins(
    by: str, plan: Path, here: Path, own: dict[str, str], request: pytest.FixtureRequest
) -> None:
    if by == "settings":
        request.getfixturevalue("settings")
    if by == "project":
        (here / ".placet").mkdir()
        (here / ".placet" / "settings.toml").write_text('[isolation]\nrequire = "process"\n')
    option = ["--isolation", "process"] if by == "option" else []

    done = without_bubblewrap("run", plan, *option, "--json", cwd=here, **own)

    assert done.code == 2
    assert done.json["error"]["code"] == "isolation"
    message = done.json["error"]["message"]
    assert "Isolation 'process' is required, and this machine enforces 'none'." in message
    assert "Install bubblewrap" in message
    assert not (here / "made").exists()
    assert kept(own) == []
    assert not (here / ".placet" / "data").exists()


@needs_root
def test_for_people_it_is_one_message(plan: Path, here: Path, own: dict[str, str]) -> None:
    done = without_bubblewrap("run", plan, "--isolation", "process", cwd=here, **own)

    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("Error: Isolation 'process' is required")
    assert "Traceback" not in done.err


@needs_root
def test_a_call_of_one_tool_needs_it_too(here: Path, own: dict[str, str], settings: Path) -> None:
    done = without_bubblewrap("tools", "call", "write_file", "path=made", "text=x", cwd=here, **own)

    assert done.code == 2
    assert not (here / "made").exists()


@needs_root
def test_what_runs_nothing_needs_nothing(plan: Path, here: Path, own: dict[str, str], settings: Path) -> None:
    assert without_bubblewrap("verify", plan, cwd=here, **own).code == 0
    assert without_bubblewrap("tools", "list", cwd=here, **own).code == 0


def test_where_it_is_there_the_run_goes_on(run: Run, write_plan: Callable[..., Path], settings: Path) -> None:
    plan = write_plan(("shell", {"command": "echo hello"}))

    done = run("run", plan, "--json")

    assert done.code == 0, done.err
    output = done.json["results"][0]["output"]
    assert (output["isolation"], output["stdout"]) == ("process", "hello\n")
    assert "lowered" not in done.err


def test_in_a_project_commands_run_and_do_not_see_its_records(
    run: Run, write_plan: Callable[..., Path], here: Path, settings: Path
) -> None:
    (here / ".placet").mkdir()
    plan = write_plan(("shell", {"command": "ls .placet; cat .placet/data/*"}))

    done = run("run", plan, "--json")

    # What this very run is kept in was there when the command started.
    assert (here / ".placet" / "data" / "placet.db").exists()
    assert done.json["results"][0]["output"]["stdout"] == "", done


def test_where_commands_have_no_network_http_get_has_none(
    run: Run, write_plan: Callable[..., Path], settings: Path
) -> None:
    plan = write_plan(("http_get", {"url": "http://example.org/"}))

    done = run("run", plan, "--json")

    assert done.code == 1
    assert "'example.org:80' is none of the allowed ones" in done.json["results"][0]["error"]


# Raising by an option, and what is refused


def test_an_option_goes_below_nothing(run: Run, plan: Path, here: Path, settings: Path, own: Any) -> None:
    done = run("run", plan, "--isolation", "none")

    assert done.code == 2
    assert f"--isolation none is less than 'process', which {settings} requires" in done.err
    assert "placet isolation lower none --for 2h" in done.err
    assert not (here / "made").exists()
    assert kept(own) == []


def test_a_project_takes_nothing_away(run: Run, plan: Path, here: Path, settings: Path) -> None:
    (here / ".placet").mkdir()
    (here / ".placet" / "settings.toml").write_text('[isolation]\nrequire = "none"\n')

    assert run("run", plan, "--isolation", "changes").code == 2
    assert run("run", plan).code == 0


@pytest.mark.parametrize("level", ["proces", "", "kernel"])
def test_an_unknown_level_is_refused(level: str, run: Run, plan: Path) -> None:
    done = run("run", plan, "--isolation", level)

    assert done.code == 2
    assert "none" in done.err


# Lowering


def test_lowering_takes_a_yes_a_reason_and_an_end(run: Run, own: dict[str, str], settings: Path) -> None:
    without_yes = run(*LOWER)
    too_long = run("isolation", "lower", "none", "--for", "8d", "--because", "x", "--yes")
    no_reason = run("isolation", "lower", "none", "--for", "1h", "--yes")
    empty_reason = run("isolation", "lower", "none", "--for", "1h", "--because", " ", "--yes")
    no_end = run("isolation", "lower", "none", "--because", "x", "--yes")
    nothing_lower = run("isolation", "lower", "process", "--for", "1h", "--because", "x", "--yes")

    for done in (without_yes, too_long, no_reason, empty_reason, no_end, nothing_lower):
        assert done.code == 2, done
    assert "takes a person's yes" in without_yes.err
    assert "7 days at most" in too_long.err
    assert kept(own) == []


def test_what_was_lowered_is_listed_and_raised_again(run: Run, here: Path, settings: Path) -> None:
    assert run("isolation").err == "Nothing is lowered.\n"

    made = run(*LOWER, "--yes", "--json").json
    listed = run("isolation", "list", "--json").json["lowered"]
    table = run("isolation", "list").out
    raised = run("isolation", "raise", "--json").json

    assert listed == [made]
    assert (made["folder"], made["level"], made["because"]) == (str(here), "none", "no namespaces in CI")
    assert made["until"] > made["time"]
    assert "no namespaces in CI" in table
    assert raised == {"folder": str(here), "raised": True}
    assert run("isolation", "list", "--json").json == {"lowered": []}
    assert "Nothing was lowered." in run("isolation", "raise").err


def test_it_is_for_the_project_around_the_folder(run: Run, here: Path) -> None:
    (here / ".placet").mkdir()
    (here / "sub").mkdir()

    made = run(*LOWER, "--yes", "--json", cwd=here / "sub").json
    other = run(*LOWER, "--yes", "--json", "--folder", here.parent).json

    assert (made["folder"], other["folder"]) == (str(here), str(here.parent))
    assert run(*LOWER, "--yes", "--folder", here / "missing").code == 2


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_on_a_terminal_a_person_is_asked(
    answer: bytes, code: int, here: Path, own: dict[str, str], settings: Path
) -> None:
    ended, seen = on_a_terminal(*LOWER, cwd=here, answer=answer, **own)

    assert ended == code, seen
    assert f"{settings} requires 'process'" in seen.replace("\r\n", "\n")
    assert "Because: no namespaces in CI" in seen
    assert kept(own) == ([] if code else ["lowered.json", "lowered.lock"])


@needs_root
def test_a_run_that_uses_it_says_so_and_has_it_in_its_log(
    run: Run, plan: Path, here: Path, own: dict[str, str], settings: Path
) -> None:
    until = run(*LOWER, "--yes", "--json").json["until"]

    done = without_bubblewrap("run", plan, "--run-id", "r1", cwd=here, **own)

    assert done.code == 0, done.err
    assert (here / "made").read_text() == "x"
    said = f"isolation 'process' is required here, and was lowered to 'none' until {until}: no namespaces"
    assert said in done.err
    events = run("log", "show", "r1", "--json").json["events"]
    assert (events[0]["kind"], events[0]["data"]) == (
        "isolation_lowered",
        {"required": "process", "lowered_to": "none", "until": until, "because": "no namespaces in CI"},
    )
    assert run("explain", "r1").code == 0
    assert run("log", "verify").code == 0


def test_where_more_is_there_than_must_be_it_is_used(
    run: Run, write_plan: Callable[..., Path], settings: Path
) -> None:
    run(*LOWER, "--yes")
    plan = write_plan(("shell", {"command": "true"}))

    lowered, off = run("run", plan, "--json"), run("run", plan, "--isolation", "none", "--json")

    assert lowered.json["results"][0]["output"]["isolation"] == "process"
    assert off.json["results"][0]["output"]["isolation"] == "none"
    assert "was lowered to 'none'" in lowered.err
    assert "was lowered to 'none'" in off.err


@needs_root
def test_when_it_has_ended_what_is_required_is_required(
    run: Run, plan: Path, here: Path, own: dict[str, str], settings: Path
) -> None:
    run(*LOWER, "--yes")
    record = Path(own["XDG_DATA_HOME"]) / "placet" / "lowered.json"
    known = json.loads(record.read_text())
    known["folders"][str(here)]["until"] = "2026-01-01T00:00:00+00:00"
    record.write_text(json.dumps(known))

    assert without_bubblewrap("run", plan, cwd=here, **own).code == 2
    assert run("isolation").err == "Nothing is lowered.\n"


@needs_root
def test_it_lowers_nothing_for_a_folder_beside(
    run: Run, plan: Path, here: Path, own: dict[str, str], settings: Path
) -> None:
    run(*LOWER, "--yes", "--folder", here.parent)

    assert without_bubblewrap("run", plan, cwd=here, **own).code == 2


def test_inside_a_sandbox_nobody_sees_or_writes_the_record(
    run: Run, write_plan: Callable[..., Path], here: Path, own: dict[str, str], settings: Path
) -> None:
    record = Path(own["XDG_DATA_HOME"]) / "placet" / "lowered.json"
    attempt = f"mkdir -p {record.parent}; echo '{{}}' > {record}; cat {record.parent}/*.db"

    done = run("run", write_plan(("shell", {"command": attempt})), "--json")

    assert done.code == 0, done
    assert not record.exists()
    assert run("isolation").err == "Nothing is lowered.\n"


# Resuming


def broken_off(run: Run, write_plan: Callable[..., Path], *options: str) -> None:
    """Have a run that waits for a person, about a command."""
    plan = write_plan(("shell", {"command": "echo x > made"}))
    done = run("run", plan, "--run-id", "r1", "--permissions", "balanced", *options)
    assert done.code == 4, done.err
    approval = run("approvals", "list", "--json").json["approvals"][0]["id"]
    assert run("approvals", "approve", approval).code == 0


@needs_root
def test_a_run_goes_on_with_what_it_began_with(
    run: Run, write_plan: Callable[..., Path], here: Path, own: dict[str, str]
) -> None:
    broken_off(run, write_plan, "--isolation", "process")

    missing = without_bubblewrap("resume", "r1", cwd=here, **own)
    below = run("resume", "r1", "--isolation", "none")

    assert (missing.code, below.code) == (2, 2)
    assert "Isolation 'process' is required" in missing.err
    assert "less than 'process', which the run when it began requires" in below.err
    assert not (here / "made").exists()
    assert run("resume", "r1").code == 0
    assert (here / "made").exists()


def test_what_is_required_by_now_is_required_when_it_goes_on(
    run: Run, write_plan: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    broken_off(run, write_plan, "--isolation", "none")
    request.getfixturevalue("settings")

    done = run("resume", "r1", "--json")

    assert done.json["results"][0]["output"]["isolation"] == "process"


def test_what_was_approved_as_confined_for_always_is_asked_about_without(
    run: Run, write_plan: Callable[..., Path]
) -> None:
    plan = write_plan(("shell", {"command": "echo x"}))
    again = ("run", plan, "--permissions", "balanced", "--json")
    waits = run(*again, "--isolation", "process")
    approval = waits.json["waiting"][0]["approval"]
    assert run("approvals", "approve", approval, "--always").code == 0

    codes = [run(*again, "--isolation", level).code for level in ("process", "none", "process")]

    assert codes == [0, 4, 0]


# A workspace of one's own


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "old").write_text("as it was")
    return folder


STEPS = (("write_file", {"path": "made", "text": "x"}), ("shell", {"command": "pwd; rm old"}))


def test_tools_work_in_the_workspace(
    run: Run, write_plan: Callable[..., Path], here: Path, work: Path
) -> None:
    done = run("run", write_plan(*STEPS), "--workspace", work, "--json")

    assert done.code == 0, done
    assert done.json["results"][1]["output"]["stdout"] == f"{work}\n"
    assert sorted(path.name for path in work.iterdir()) == ["made"]
    assert [path.name for path in here.iterdir()] == ["plan.json"]


def test_an_aborted_plan_leaves_the_workspace_as_it_was(
    run: Run, write_plan: Callable[..., Path], work: Path, own: dict[str, str]
) -> None:
    plan = write_plan(*STEPS, ("read_file", {"path": "nowhere"}))

    done = run("run", plan, "--workspace", work, "--json")

    assert done.code == 1
    assert done.json["outcome"] == "aborted"
    assert [each["status"] for each in done.json["results"]] == ["succeeded", "succeeded", "failed"]
    assert [(path.name, path.read_text()) for path in work.iterdir()] == [("old", "as it was")]
    assert (Path(own["XDG_DATA_HOME"]) / "placet" / "snapshots").is_dir()


def test_rules_are_those_of_where_the_person_is(
    run: Run, write_plan: Callable[..., Path], here: Path, work: Path
) -> None:
    rules = here / ".placet" / "policies"
    rules.mkdir(parents=True)
    (rules / "a.toml").write_text('[[rule]]\nname = "no"\nkind = "deny_tool"\ntool = "shell"\n')

    done = run("run", write_plan(*STEPS), "--workspace", work)

    assert done.code == 1
    assert "policy 'no'" in done.out
    assert (work / "old").exists()
    assert (here / ".placet" / "data" / "placet.db").exists()
    assert not (work / ".placet").exists()


def test_the_rules_are_not_changed_from_a_workspace_around_them(
    run: Run, write_plan: Callable[..., Path], here: Path, tmp_path: Path
) -> None:
    rules = here / ".placet" / "policies" / "a.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text(text := '[[rule]]\nname = "no"\nkind = "deny_tool"\ntool = "never"\n')
    write = ("write_file", {"path": "here/.placet/policies/a.toml", "text": "evil"})
    attempt = "echo evil > here/.placet/policies/a.toml; rm -rf here/.placet; echo tried"

    written = run("run", write_plan(write), "--workspace", tmp_path, "--json")
    tried = run("run", write_plan(("shell", {"command": attempt})), "--workspace", tmp_path, "--json")

    assert written.json["results"][0]["status"] == "failed"
    assert tried.json["results"][0]["output"]["stdout"] == "tried\n"
    assert rules.read_text() == text


@pytest.mark.parametrize("place", ["beside", "same"])
def test_long_output_can_be_read_from_a_workspace(
    place: str, run: Run, write_plan: Callable[..., Path], here: Path, work: Path
) -> None:
    (here / ".placet").mkdir()
    folder = {"beside": work, "same": here}[place]
    run("tools", "call", "shell", "command=seq 10000")
    spilled = [path for path in (here / ".placet" / "data" / "spill").rglob("*") if path.is_file()]
    file = max(spilled, key=lambda path: path.stat().st_size)
    plan = write_plan(("read_file", {"path": str(file), "lines": 1}))

    done = run("run", plan, "--workspace", folder, "--json")

    assert done.json["results"][0]["status"] == "succeeded", done


def test_a_run_goes_on_in_its_workspace(
    run: Run, write_plan: Callable[..., Path], here: Path, work: Path
) -> None:
    broken_off(run, write_plan, "--workspace", str(work))

    done = run("resume", "r1", cwd=here.parent)

    assert done.code == 0, done.err
    assert (work / "made").exists()
    assert not (here / "made").exists()


def test_a_workspace_that_is_none_is_refused(run: Run, plan: Path, here: Path, own: dict[str, str]) -> None:
    for name in ("missing", "plan.json", ""):
        done = run("run", plan, "--workspace", name)
        assert done.code == 2, done
    assert "The workspace" in run("run", plan, "--workspace", "missing").err
    assert kept(own) == []


def test_a_repository_is_as_it_was_after_an_abort(
    run: Run, write_plan: Callable[..., Path], work: Path
) -> None:
    def git(*arguments: str) -> str:
        given = ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments]
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        return subprocess.run(
            given, cwd=work, env=env, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    git("init", "-q")
    git("config", "user.name", "n")
    git("config", "user.email", "e")
    git("add", "old")
    git("commit", "-qm", "first")
    (work / "untracked").write_text("mine")
    before = git("status", "--porcelain"), git("log", "--format=%H")
    commit = {"paths": ["old", "new"], "message": "second"}
    plan = write_plan(
        ("shell", {"command": "rm old untracked; echo x > new"}),
        ("git_commit", commit),
        ("read_file", {"path": "nowhere"}),
    )

    done = run("run", plan, "--workspace", work, "--json")

    assert done.json["outcome"] == "aborted"
    assert done.json["results"][1]["output"]["paths"] == ["new", "old"], done.json
    assert (git("status", "--porcelain"), git("log", "--format=%H")) == before
    assert (work / "untracked").read_text() == "mine"


# Python tools


def test_a_python_tool_is_offered_under_process_only_if_the_person_trusts_it(
    run: Run, write_plan: Callable[..., Path], here: Path, settings: Path, tools: Path
) -> None:
    plan = write_plan(("look", {"what": "x"}))
    given = ("--tools", tools, "--json")

    refused, judged = run("run", plan, *given), run("verify", plan, *given)
    settings.write_text('[isolation]\nrequire = "process"\ntrusted_tools = ["look"]\n')
    trusted = run("run", plan, *given)

    assert (refused.code, judged.code, trusted.code) == (1, 3, 0)
    assert "not offered under isolation 'process'" in refused.json["results"][0]["error"]
    assert trusted.json["results"][0]["output"] == "found x"


# What a person sees of all that


def test_an_aborted_run_says_that_the_folder_was_restored_and_how_to_repeat_it(
    run: Run, write_plan: Callable[..., Path], here: Path
) -> None:
    work = here / "my work"
    work.mkdir()
    (work / "old").write_text("as it was")
    plan = write_plan(
        ("shell", {"command": "echo x > old; echo y > new"}), ("read_file", {"path": "nowhere"})
    )

    done = run("run", plan, "--workspace", work, "--run-id", "r1")
    as_json = run("run", plan, "--workspace", work, "--json").json
    told, shown = run("explain", "r1").out, run("runs", "show", "r1").out
    logged = run("log", "query", "--run", "r1").out

    assert done.code == 1
    assert (work / "old").read_text() == "as it was"
    assert not (work / "new").exists()
    assert f"folder: {work} was restored: 1 changed, 1 removed" in done.out
    for text in (done.out, told, shown):
        assert "cannot be undone" not in text
        assert "cannot be taken back" not in text
    assert (as_json["restored"]["changed"], as_json["restored"]["removed"]) == (1, 1)
    for text in (told, shown):
        assert "placet run plan.json --workspace 'my work'\n" in text
        assert "PLAN.json" not in text
        assert "TOOLS.py" not in text
    assert f"{work}: 1 changed, 1 removed" in logged


def test_a_run_is_repeated_with_all_that_it_was_given(
    run: Run, write_plan: Callable[..., Path], here: Path, tools: Path
) -> None:
    (here / "state.json").write_text('{"k": 1}')
    (here / "rules.toml").write_text('[[rule]]\nname = "r"\nkind = "deny_tool"\ntool = "other"\n')
    plan = write_plan(("fail", {}))
    given = ("--tools", tools, "--policies", "rules.toml", "--state", "state.json", "--isolation", "none")
    run("run", plan, *given, "--permissions", "trusting", "--as", "bo", "--expire", "2h", "--run-id", "r1")

    shown = run("runs", "show", "r1", "--json").json["next"]

    [command] = [each["command"] for each in shown if each["command"].startswith("placet run")]
    assert command == (
        f"placet run plan.json --tools {tools} --policies rules.toml --state state.json "
        "--permissions trusting --isolation none --as bo --expire 7200s"
    )


def test_the_isolation_of_commands_is_told_where_it_is_less_than_all(
    run: Run, write_plan: Callable[..., Path]
) -> None:
    plan = write_plan(("shell", {"command": "true"}), ("shell", {"command": "false"}))

    whole, less = run("run", plan, "--isolation", "process"), run("run", plan, "--isolation", "none")

    assert "isolation:" not in whole.out
    assert "isolation: none for the commands of 'a0', 'a1'" in less.out


OUTER = """
[[tool]]
name = "outer"
command = ["echo", "1"]
sandbox = false

[[tool]]
name = "inner"
command = ["echo", "1"]
risk = "read_only"
hosts = ["a.example"]
"""


def test_a_tool_that_is_not_offered_is_not_called_unknown(run: Run, here: Path, settings: Path) -> None:
    (here / "t.toml").write_text(OUTER)
    settings.write_text('[isolation]\nrequire = "process"\ntrusted_tools = ["outr"]\n')

    called = run("tools", "call", "outer", "--tools", "t.toml")
    shown = run("tools", "show", "outer", "--tools", "t.toml")
    listed = run("tools", "--tools", "t.toml")
    as_json = run("tools", "--tools", "t.toml", "--json").json

    for done in (called, shown):
        assert done.code == 2
        assert "unknown" not in done.err.lower()
        assert "Tool 'outer' is not offered under isolation 'process'" in done.err
        assert "sandbox = false" in done.err
        assert "own process" not in done.err
    assert "Not offered:\n  tool 'outer' is not offered" in listed.out
    assert "in a sandbox, may speak to a.example, t.toml" in listed.out
    assert "names 'outr', and no tool here has that name. Did you mean 'outer'?" in listed.err
    assert [each["name"] for each in as_json["withheld"]] == ["outer"]
    [inner] = [each for each in as_json["tools"] if each["name"] == "inner"]
    assert (inner["runs_in"], inner["hosts"]) == ("sandbox", ["a.example"])


def test_a_listing_can_ask_what_would_be_offered(run: Run, here: Path) -> None:
    (here / "t.toml").write_text(OUTER)

    now = run("tools", "--tools", "t.toml")
    then = run("tools", "--tools", "t.toml", "--isolation", "process")
    page = run("tools", "show", "outer", "--tools", "t.toml")

    assert "outer(...)" in now.out
    assert "Not offered" not in now.out
    assert "tool 'outer' is not offered" in then.out
    assert "runs outside of every sandbox (`sandbox = false`), with all your rights" in page.out


def test_whoever_lowers_is_told_what_is_offered_then(
    run: Run, plan: Path, settings: Path, here: Path, own: dict[str, str]
) -> None:
    _, told = on_a_terminal(*LOWER, cwd=here, answer=b"n\n", **own)
    assert run(*LOWER, "--yes").code == 0
    ran = run("run", plan)

    for words in (told, ran.err):
        flat = " ".join(words.split())
        assert "Python tools, programs with `sandbox = false` and tools of MCP servers are offered" in flat
        assert "http_get speaks to all hosts that [http] in your settings lets it" in flat
    assert "commands are confined as far as this machine can" in " ".join(told.split())


def test_a_run_that_waits_says_whole_commands_however_often_it_is_asked(
    run: Run, here: Path, own: dict[str, str]
) -> None:
    (here / "t.py").write_text(DIES)
    (here / "plan.json").write_text(json.dumps({"actions": [{"id": "two", "tool": "die"}]}))
    subprocess.run(
        command("run", "plan.json", "--tools", "t.py", "--run-id", "k1"),
        cwd=here,
        env=environment(**own),
        capture_output=True,
        timeout=60,
        check=False,
    )

    for _ in range(2):
        done = run("resume", "k1")

        assert done.code == 4, done
        assert "placet resume k1 --decide two=CHOICE" in done.out


DIES = """
import os
from placet import tool

@tool
def die() -> None:
    os._exit(9)
"""
