"""The options of a run: stored with it as they are, read back whole, also from rows of earlier releases."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from placet.app.app import open_app, open_records
from placet.app.governance import gather
from placet.app.options import RunOptions, options_of, resume_options
from placet.app.work import Place, Stored
from placet.cli.inputs import _COLLECTED
from placet.durable.sql import RunSummary
from placet.engine import kinds
from placet.errors import UsageError
from placet.tools.context import Cancel

TOOLS = """
from placet import tool

@tool(risk="destructive")
def note(file: str) -> str:
    \"\"\"Write a file.\"\"\"
    with open(file, "a") as target:
        target.write("noted ")
    return "done"
"""
SUMMARY = RunSummary(
    run_id="r1",
    proposal_id="p",
    source="",
    actions=1,
    status="waiting",
    begun=0.0,
    tenant=None,
    ended=None,
    holder=None,
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of a person whose settings and records are their own."""
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("PLACET_DB", raising=False)
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(folder)
    return folder


def _old_context(here: Path) -> dict[str, Any]:
    """The JSON that the release before `RunOptions` stored."""
    tools = here / "tools.py"
    return {
        "schedule": "dataflow",
        "folder": str(here),
        "isolation": "none",
        "asked_isolation": "none",
        "state": str(here / "state.json"),
        "plan": str(here / "plan.json"),
        "model": f"scripted:{here}/answers.json",
        "workspace": str(here / "work"),
        "permissions": "balanced",
        "expire": 3600.0,
        "tools": str(tools),
        "tools_sha256": sha256(tools.read_bytes()).hexdigest(),
        "policies": str(here / "rules.toml"),
        "yes_to": "sandbox_edit",
        "record": str(here / "answers.jsonl"),
    }


def _summary(context: dict[str, Any]) -> RunSummary:
    return replace(SUMMARY, context=context)


def _waiting_run(here: Path) -> str:
    """A run that waits for an approval; its id."""
    options = RunOptions(tools="tools.py", permissions="balanced", expires_s=600.0)
    with open_app(options, db="runs.db") as app:
        plan = {"actions": [{"id": "n", "tool": "note", "parameters": {"file": str(here / "trace")}}]}
        result = app.runtime.execute_sync(plan)
        assert result.outcome == "waiting"
        return result.run_id


def _store(context: dict[str, Any]) -> None:
    with sqlite3.connect("runs.db") as connection:
        connection.execute("UPDATE runs SET context = ?", (json.dumps(context),))


def _approve_and_resume(run_id: str) -> None:
    with open_records("runs.db", writes=True) as records:
        (asked,) = records.approvals.pending(run=run_id)
        records.approvals.decide(asked.id, "once", by="a person")
        run = Stored(records.journal.find(run_id), records.journal.record(run_id))
    asyncio.run(kinds.resume(run, Place("runs.db"), Cancel()))


@given(
    st.builds(
        RunOptions,
        folder=st.just("/there"),
        tools=st.none() | st.text(),
        permissions=st.none() | st.text(),
        isolation=st.sampled_from([None, "none", "process"]),
        required=st.sampled_from([None, "changes", "process"]),
        schedule=st.sampled_from(["levels", "dataflow"]),
        expires_s=st.none() | st.floats(min_value=1, max_value=1e9),
        turns=st.none() | st.integers(1, 99),
        cost_usd=st.none() | st.floats(min_value=0, max_value=1e3),
        policies_sha256=st.none() | st.text(),
    )
)
def test_what_is_stored_is_read_back_whole(options: RunOptions) -> None:
    stored = json.loads(json.dumps(msgspec.to_builtins(options)))

    assert options_of(_summary(stored)) == options


def test_options_of_an_earlier_release_are_read(here: Path) -> None:
    context = _old_context(here)

    found = options_of(_summary(context))

    assert found == RunOptions(
        folder=str(here),
        tools=context["tools"],
        policies=context["policies"],
        permissions="balanced",
        yes_to="sandbox_edit",
        model=context["model"],
        isolation="none",
        required="none",
        workspace=context["workspace"],
        schedule="dataflow",
        state=context["state"],
        plan=context["plan"],
        expires_s=3600.0,
        record=context["record"],
        tools_sha256=context["tools_sha256"],
    )
    # What a later release adds is of no concern to this one.
    assert options_of(_summary({**context, "colour": "green"})) == found


def test_a_run_that_an_earlier_release_began_is_resumed(here: Path) -> None:
    run_id = _waiting_run(here)
    old = _old_context(here)
    _store(
        {name: old[name] for name in ("schedule", "folder", "permissions", "expire", "tools", "tools_sha256")}
    )

    _approve_and_resume(run_id)

    assert (here / "trace").read_text() == "noted "
    with open_records("runs.db") as records:
        assert records.journal.find(run_id).status == "succeeded"


def test_a_run_is_resumed_from_anywhere_with_the_options_it_began_with(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = _waiting_run(here)
    with open_records("runs.db") as records:
        stored = options_of(records.journal.find(run_id))
    assert stored is not None
    assert (stored.folder, stored.tools) == (str(here), str(here / "tools.py"))
    assert (stored.permissions, stored.expires_s) == ("balanced", 600.0)
    assert stored.tools_sha256 == sha256(TOOLS.encode()).hexdigest()
    assert stored.policies_sha256 == gather(here, {}).policies_sha256
    database = here / "runs.db"
    database.rename(here.parent / "runs.db")
    monkeypatch.chdir(here.parent)

    _approve_and_resume(run_id)

    assert (here / "trace").read_text() == "noted "


def test_a_changed_file_of_tools_is_loaded_only_if_it_is_named_anew(here: Path) -> None:
    run_id = _waiting_run(here)
    (here / "tools.py").write_text(TOOLS.replace("noted", "changed"))
    with open_records("runs.db") as records:
        summary = records.journal.find(run_id)

    with pytest.raises(UsageError, match=r"placet resume .* --tools"):
        resume_options(summary, db=None)

    named = resume_options(summary, RunOptions(tools="other.py", model="local", isolation="process"), db=None)
    assert (named.tools, named.model, named.isolation) == ("other.py", "local", "process")
    assert named.permissions == "balanced"


def test_what_is_gone_by_the_time_of_a_resume_is_told(here: Path) -> None:
    said: list[str] = []
    context = {**_old_context(here), "folder": str(here / "gone")}

    found = resume_options(_summary(context), say=said.append, db=None)

    assert (found.folder, found.record) == (None, None)
    assert len(said) == 2
    # A run that is resumed has its state and its plan.
    assert (found.state, found.plan) == (None, None)


def test_options_that_mean_nothing_are_refused(here: Path) -> None:
    with pytest.raises(UsageError, match="r1"):
        options_of(_summary({**_old_context(here), "schedule": "whenever"}))
    assert options_of(_summary({"schedule": "whenever"})) is None  # A program keeps what it likes.


def test_the_digest_of_policies_is_of_what_they_say_wherever_they_are(tmp_path: Path) -> None:
    rule = '[[rule]]\nname = "quiet"\nkind = "deny_tool"\ntool = "{}"\n'
    places = {}
    for name, tool in (("a", "shell"), ("b", "shell"), ("c", "grep")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rules.toml").write_text(rule.format(tool))
        found = gather(tmp_path / name, {}, policies=str(tmp_path / name / "rules.toml"))
        places[name] = found.policies_sha256

    assert places["a"] == places["b"] != places["c"]


def test_the_command_line_collects_only_options_of_a_run() -> None:
    assert set(_COLLECTED) <= set(RunOptions.__struct_fields__)
