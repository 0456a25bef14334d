"""A model is given by its name wherever one is taken; it is opened when it is first needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from placet import AgentRunner, AgentSpec, Assistant, Coder, LoopEngine, LoopSpec, MemoryApprovals, Runtime
from placet.durable.memory import MemoryJournal
from placet.errors import KeyMissing, UnknownModel, UsageError
from placet.inference import Scripted

SPEC = AgentSpec(id="greeter", identity="You greet people.")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "turns.json"
    path.write_text(json.dumps({"turns": ["Hello.", "Again."]}))
    return f"scripted:{path}"


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_an_assistant_takes_a_name(script: str) -> None:
    assert Assistant(Runtime(), script).run_sync("Greet me.").summary == "Hello."


async def test_a_stream_and_a_chat_take_a_name(script: str) -> None:
    events = [event async for event in Assistant(Runtime(), script).stream("Greet me.")]
    async with Assistant(Runtime(), script).chat() as chat:
        await chat.say("Greet me.")
        chat.use(script)
        second = await chat.say("Again.")

    assert events[-1].ending.summary == "Hello."  # type: ignore[union-attr]
    assert second.summary == "Hello.", "the other model begins its own script"


def test_an_agent_takes_a_name(script: str) -> None:
    assert AgentRunner(Runtime(), script, SPEC).run_sync("I am Ada.").output == "Hello."


def test_a_runtime_takes_a_name(script: str) -> None:
    runtime = Runtime(model=script)

    result = runtime.execute_sync({"actions": [{"id": "a", "tool": "infer", "parameters": {"prompt": "Hi"}}]})

    assert result["a"].status == "succeeded", result["a"].error
    assert "Hello." in str(result["a"].output)


def test_vectors_are_offered_by_name_without_opening(no_key: None) -> None:
    assert "embed" in Runtime(model="openai:text-embedding-3-small").tools
    assert "embed" not in Runtime(model="anthropic:claude-x").tools


@pytest.mark.usefixtures("no_key")
async def test_without_a_key_objects_are_built_and_nothing_runs(tmp_path: Path) -> None:
    runtime = Runtime(journal=(journal := MemoryJournal()), approvals=MemoryApprovals())
    assistant = Assistant(runtime, "openai:gpt-5")
    agent = AgentRunner(runtime, "openai:gpt-5", SPEC)
    coder = Coder(runtime, "openai:gpt-5", tmp_path)
    LoopEngine(runtime, "openai:gpt-5", LoopSpec(name="x", intent="y"), tmp_path)

    for running in (
        assistant.run("Greet me."),
        agent.run("I am Ada."),
        coder.run("Mend it.", ["true"]),
        anext(assistant.stream("Greet me.")),
    ):
        with pytest.raises(KeyMissing):
            await running
    assert not journal._runs
    assert [event.kind for event in runtime.events] == []


@pytest.mark.usefixtures("no_key")
def test_a_key_that_is_set_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assistant = Assistant(Runtime(), "openai:gpt-5")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-one")

    assistant.model.open()  # type: ignore[attr-defined]

    assert assistant.model.name == "openai:gpt-5"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make",
    [
        lambda name: Assistant(Runtime(), name),
        lambda name: AgentRunner(Runtime(), name, SPEC),
        lambda name: Coder(Runtime(), name),
        lambda name: Runtime(model=name),
    ],
)
def test_an_unknown_provider_is_refused_where_it_is_written(make: Any) -> None:
    with pytest.raises(UnknownModel) as raised:
        make("openia:gpt-5")

    assert "openai:gpt-5" in str(raised.value)


def test_what_is_neither_a_model_nor_a_name_is_misuse() -> None:
    with pytest.raises(UsageError):
        Assistant(Runtime(), 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        Assistant(Runtime(), Scripted)  # type: ignore[arg-type]


READS = """
import os
class Told(dict):
    def get(self, key, default=None):
        if "KEY" in key: raise SystemExit(f"read {key}")
        return super().get(key, default)
    __getitem__ = get
os.environ = Told()
from placet import Assistant, Runtime
Assistant(Runtime(), "openai:gpt-5")
import sys
print([name for name in ("httpx2",) if name in sys.modules])
"""


def test_no_key_is_looked_for_and_no_client_imported_before_it_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READS], capture_output=True, text=True, check=False, env=dict(os.environ)
    )

    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
