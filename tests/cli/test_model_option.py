"""`--model`, PLACET_MODEL and `[models]`: who answers on the command line, and how that is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Placet = Callable[..., Any]
Plan = Callable[..., Path]

ASK = {"id": "a", "tool": "infer", "parameters": {"prompt": "Where is it?"}}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"turns": ["In the attic.", "In the cellar."]}))
    return path


def test_a_plan_asks_the_model_that_is_named(placet: Placet, plan: Plan, script: Path) -> None:
    done = placet("run", plan(ASK), "--model", f"scripted:{script}", "--json")

    assert done.code == 0
    [result] = json.loads(done.out)["results"]
    assert result["output"]["text"] == "In the attic."


def test_the_variable_names_it_too(placet: Placet, plan: Plan, script: Path) -> None:
    done = placet("run", plan(ASK), PLACET_MODEL=f"scripted:{script}")

    assert done.code == 0
    assert "In the attic." in done.out


def test_one_tool_is_called_with_it(placet: Placet, script: Path) -> None:
    done = placet("tools", "call", "infer", "prompt=Where?", "--model", f"scripted:{script}")

    assert done.code == 0
    assert "In the attic." in done.out


def test_without_a_model_verify_says_how_to_get_one(placet: Placet, plan: Plan) -> None:
    done = placet("verify", plan(ASK))

    assert done.code == 3
    assert "no model is chosen" in done.out
    assert "placet model pull local" in done.out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nonsense", "Write provider:name"),
        ("opnai:gpt", "Did you mean 'openai:gpt'?"),
        ("openai:", "names a provider and no model"),
        ("openai:gpt-x", "OPENAI_API_KEY is not set"),
        ("scripted:/nowhere.json", "/nowhere.json"),
        ("replay:/nowhere.jsonl", "/nowhere.jsonl"),
        ("replay:", "needs a file"),
        ("local:other", "Write local"),
    ],
)
def test_a_name_that_means_nothing_is_told_before_anything_runs(
    placet: Placet, plan: Plan, name: str, says: str
) -> None:
    done = placet("run", plan(ASK), "--model", name)

    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_the_log_says_who_answered(placet: Placet, plan: Plan, script: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"

    placet("run", plan(ASK), "--model", f"scripted:{script}", "--log", log)

    events = [json.loads(line) for line in log.read_text().splitlines()]
    [answered] = [event for event in events if event["kind"] == "model_answered"]
    assert answered["data"]["chosen"] == f"scripted:{script}"
    assert answered["data"]["because"] == "--model names it"
