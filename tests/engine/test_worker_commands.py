"""`placet submit`, `placet worker` and `placet workers`: what they refuse, and what they print."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from placet.cli.worker import format_report
from placet.engine import sql
from placet.engine.sql import SqlSubmissions
from placet.engine.submission import WorkerInfo
from placet.storage.lease import holder
from placet.storage.location import open_database
from tests.warm import Warm
from tests.worktree.repositories import make_repository

Placet = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "work")


@pytest.fixture
def placet(warm: Warm, folder: Path) -> Placet:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*warm.command, *arguments],
            cwd=folder,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    return run


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.json"], "nowhere.json"),
        (["no_plan.json"], "actions"),
        (["agent", "nobody", "hi"], "'nobody'"),
        (["loop", "nightly"], "'nightly'"),
        (["do", "hi", "--model", "nobody:big"], "nobody"),
        (["do", "hi", "--model", "scripted:nowhere.json"], "nowhere.json"),
        (["do", "hi", "--tools", "nowhere.py"], "nowhere.py"),
    ],
)
def test_name_that_does_not_exist_is_refused(
    placet: Placet, folder: Path, arguments: Sequence[str], named: str
) -> None:
    (folder / "no_plan.json").write_text('{"actions": 3}')

    done = placet("submit", *arguments, "--db", "x.db")

    assert done.returncode == 2
    assert done.stdout == ""
    assert named in done.stderr
    assert not (folder / "x.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["agent", "nobody", "hi", "--anywhere"],
        ["loop", "nightly", "--anywhere"],
        ["do", "hi", "--model", "nobody:big", "--anywhere"],
        ["do", "hi", "--model", "anthropic:claude-sonnet-5-5"],
    ],
)
def test_name_that_a_worker_may_have_is_submitted(placet: Placet, arguments: Sequence[str]) -> None:
    assert placet("submit", *arguments, "--db", "x.db").returncode == 0


def test_worker_that_has_long_gone_is_not_listed(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_database(database_url, create=True) as database:
        table = SqlSubmissions(database)
        for name, state in (("here", "up"), ("ended", "gone")):
            made = WorkerInfo(id=name, holder=holder(""), queue="q", concurrency=1, version="1", state=state)
            table.heartbeat(made)
        listed = {each.id: each.state for each in table.workers()}
        monkeypatch.setattr(sql, "SHOW_GONE_S", 0.0)

        assert listed == {"here": "up", "ended": "gone"}
        assert [each.id for each in table.workers()] == ["here"]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("released", {"run_id": "r", "state": "ended"}),
        ("released", {"run_id": "r", "state": None, "has_other_policies": True}),
        ("left", {"run_id": "r", "needs": ["tool mail"]}),
        ("deferred", {"run_id": "r", "limit": "tenant_tokens", "until": 60.0}),
        ("problem", {"run_id": "r", "tenant": None, "message": "it broke", "is_answered": False}),
        ("problem", {"message": "the database is away"}),
        ("handed_over", {"runs": 2}),
        ("taken_over", {}),
        ("renewed", {"runs": 1}),
        ("draining", {"runs": ["r"]}),
        ("ended", {}),
    ],
)
def test_worker_report_is_a_sentence_without_names_of_fields(kind: str, data: dict[str, object]) -> None:
    line = format_report(kind, {"worker": "w", **data})

    assert line
    assert not re.search(r"None|True|False|_|\[", line)
