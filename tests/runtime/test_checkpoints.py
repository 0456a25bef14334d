"""Saving what a runtime remembers, and taking it up again."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import DenyTool, Runtime, Scope, ToolContext, ToolSchema, tool
from placet.errors import CheckpointError, UsageError
from placet.ir.tool_spec import RateLimit
from placet.runtime import checkpoint as checkpoints
from tests.runtime.plans import Recorder, call, claim, kinds, plan, write


async def test_state_comes_back_as_it_was(tmp_path: Path) -> None:
    first = Runtime(state={"k": {"n": [1, None, 12345678901234567890]}})
    await first.execute(plan(write("a", "t", 1)), scope=Scope(tenant="t1"))
    first.checkpoint(tmp_path / "c")
    second = Runtime(state={"other": 1})
    second.state.scoped("t2").set("left", "over")

    second.restore(tmp_path / "c")

    assert second.state.snapshot() == {"k": {"n": [1, None, 12345678901234567890]}}
    assert second.state.scoped("t1").snapshot() == {"t": 1}
    assert second.state.scoped("t2").snapshot() == {}


async def test_events_come_back_and_go_on_counting(tmp_path: Path) -> None:
    first = Runtime()
    await first.execute(plan(write("a", "k", 1)))
    before = list(first.events)
    first.checkpoint(tmp_path / "c")
    second = Runtime()

    second.restore(tmp_path / "c")
    await second.execute(plan(write("b", "k", 2)))

    assert list(second.events)[: len(before)] == before
    seqs = [e.seq for e in second.events]
    assert seqs == sorted(set(seqs))


async def test_tool_schemas_come_back_in_full(recorder: Recorder, tmp_path: Path) -> None:
    schema = ToolSchema(
        name="ask",
        description="Ask.",
        parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        returns={"type": "string"},
        idempotent=True,
        cache_ttl_secs=5,
        rate_limit=RateLimit(max_calls=2, interval_secs=3),
        risk="network",
        reversibility="reversible",
        labels=("x", "y"),
    )
    first = Runtime()
    first.register(schema, lambda q: q)
    first.checkpoint(tmp_path / "c")
    second = Runtime(tools=[recorder.tool("other")])

    second.restore(tmp_path / "c")

    assert second.tools.names() == ["ask"]
    restored = second.tools.schemas()[0]
    assert (restored.parameters, restored.returns) == (schema.parameters, schema.returns)
    assert (restored.idempotent, restored.cache_ttl_secs) == (True, 5)
    assert (restored.rate_limit, restored.risk) == (schema.rate_limit, "network")
    assert (restored.reversibility, list(restored.labels)) == ("reversible", ["x", "y"])


async def test_a_tool_known_by_name_keeps_its_function_and_any_other_has_none(
    recorder: Recorder, tmp_path: Path
) -> None:
    Runtime(tools=[recorder.tool("here"), recorder.tool("elsewhere")]).checkpoint(tmp_path / "c")
    second = Runtime(tools=[recorder.tool("here", "mine")])

    second.restore(tmp_path / "c")
    result = await second.execute(plan(call("a", "here"), call("b", "elsewhere", failure_behavior="skip")))

    assert result["a"].output == "mine"
    assert result["b"].error == "no handler for tool 'elsewhere'"


async def test_a_tool_known_by_name_stays_as_it_is_declared_here(tmp_path: Path) -> None:
    """A file may be old or forged: it must not make a tool laxer, nor take its arguments apart."""

    @tool(name="ask", risk="destructive", max_retries=0, timeout_ms=5000)
    async def mine(day: dt.date, ctx: ToolContext) -> list[str]:
        return [type(day).__name__, ctx.action_id]

    elsewhere = Runtime()
    elsewhere.register(ToolSchema(name="new", risk="read_only"), None)
    elsewhere.register(
        ToolSchema(name="ask", risk="read_only", idempotent=True, reversibility="reversible"), None
    )
    elsewhere.checkpoint(tmp_path / "c")
    rt = Runtime(tools=[mine])

    rt.restore(tmp_path / "c")
    result = await rt.execute(plan(call("a", "ask", {"day": "2024-05-06"})))

    assert rt.tools.get("ask") is mine
    assert result["a"].output == ["date", "a"]
    assert sorted(rt.tools.names()) == ["ask", "new"]
    assert rt.tools.require("new").fn is None


def test_policies_are_kept_by_name_and_must_be_there(tmp_path: Path) -> None:
    first = Runtime(policies=[("no shell", DenyTool(tool="shell"))], state={"k": 1})
    first.checkpoint(tmp_path / "c")
    bare = Runtime(state={"k": 2})
    fitting = Runtime(policies=[("no shell", DenyTool(tool="shell"))], state={"k": 2})

    with pytest.raises(CheckpointError, match="'no shell'"):
        bare.restore(tmp_path / "c")
    fitting.restore(tmp_path / "c")

    assert bare.state.snapshot() == {"k": 2}
    assert fitting.state.snapshot() == {"k": 1}


def test_metadata_comes_back(tmp_path: Path) -> None:
    rt = Runtime()
    made = rt.checkpoint(tmp_path / "c", metadata={"why": "before lunch"})

    loaded = rt.restore(tmp_path / "c")

    assert loaded.metadata == {"why": "before lunch"}
    assert (loaded.id, loaded.created) == (made.id, made.created)


def test_saving_is_an_event(tmp_path: Path) -> None:
    rt = Runtime()

    made = rt.checkpoint(tmp_path / "c")

    assert [e.data for e in rt.events.query(kind="checkpoint_saved")] == [{"id": made.id}]


def test_a_checkpoint_needs_no_file() -> None:
    rt = Runtime(state={"k": 1})
    made = rt.checkpoint()
    rt.state.set("k", 2)
    rt.state.set("j", 2)

    rt.restore(made)

    assert rt.state.snapshot() == {"k": 1}


def _flip(data: bytes) -> bytes:
    at = data.index(b'"k":') + 5
    return data[:at] + b"7" + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: _flip(data),
        lambda data: b"\xff" + data,
        lambda data: data.replace(b'"format":1', b'"format":99'),
        lambda data: b'{"format": 1}',
        lambda data: b"[]",
    ],
    ids=["half", "empty", "one digit", "no text", "another format", "parts missing", "no object"],
)
def test_a_damaged_file_is_refused_and_the_running_state_is_untouched(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "c"
    Runtime(state={"k": 123}).checkpoint(path)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    rt = Runtime(state={"k": "running"})
    events = kinds(rt)

    with pytest.raises(CheckpointError, match=str(path)):
        rt.restore(path)

    assert rt.state.snapshot() == {"k": "running"}
    assert kinds(rt) == events


def _deep() -> Any:
    value: Any = 1
    for _ in range(150):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": {"k": 1, "bad": _deep()}}, "state['bad']"),
        ({"tenants": {"t1": {"bad": _deep()}}}, "tenants['t1']['bad']"),
        ({"tools": [ToolSchema(name="fine"), ToolSchema(name="odd", parameters={"type": 5})]}, "'odd'"),
    ],
    ids=["state", "a tenant's state", "a tool"],
)
@pytest.mark.parametrize("in_a_file", [True, False])
def test_what_cannot_be_restored_whole_is_not_restored_at_all(
    recorder: Recorder, tmp_path: Path, changes: dict[str, Any], says: str, in_a_file: bool
) -> None:
    elsewhere = Runtime(state={"k": 1}, tools=[recorder.tool("theirs")]).checkpoint()
    made = msgspec.structs.replace(elsewhere, **changes)
    checkpoints.save(made, tmp_path / "c")
    rt = Runtime(state={"k": "running"}, tools=[recorder.tool("mine")])
    rt.state.scoped("t1").set("k", "mine")
    before = (rt.state.version, kinds(rt), rt.tools.names())

    with pytest.raises(CheckpointError) as caught:
        rt.restore(tmp_path / "c" if in_a_file else made)

    assert says in str(caught.value)
    assert (str(tmp_path / "c") in str(caught.value)) is in_a_file
    assert (rt.state.version, kinds(rt), rt.tools.names()) == before
    assert rt.state.snapshot() == {"k": "running"}


def test_an_integer_too_long_to_read_is_damage(tmp_path: Path) -> None:
    body = b'{"id":"x","created":"2024-01-01T00:00:00Z","state":{"k":' + b"9" * 5000 + b"}}"
    digest = hashlib.sha256(body).hexdigest().encode()
    (tmp_path / "c").write_bytes(b'{"format":1,"sha256":"' + digest + b'","checkpoint":' + body + b"}")

    with pytest.raises(CheckpointError, match="damaged"):
        Runtime().restore(tmp_path / "c")


@pytest.mark.parametrize("name", ["nowhere/c", "folder", "odd\0name"])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    rt = Runtime()

    with pytest.raises(CheckpointError) as caught:
        rt.checkpoint(f"{tmp_path}/{name}")

    assert f"{tmp_path}/{name} cannot be written" in str(caught.value)
    assert ".part" not in str(caught.value)
    assert kinds(rt) == []
    assert os.listdir(tmp_path) == ["folder"]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere"):
        Runtime().restore(tmp_path / "nowhere")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    Runtime(state={"k": "good"}).checkpoint(path)

    def fail(*_: object) -> None:
        raise OSError("the power went")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(CheckpointError, match="the power went"):
        Runtime(state={"k": "never"}).checkpoint(path)

    assert json.loads(path.read_text())["checkpoint"]["state"] == {"k": "good"}
    assert os.listdir(tmp_path) == ["c"]


async def test_restoring_forgets_earlier_answers(recorder: Recorder, tmp_path: Path) -> None:
    rt = Runtime(
        tools=[
            recorder.tool("ask", 1, risk="idempotent"),
            recorder.tool("look", 1, risk="read_only", cache_ttl_secs=600),
        ]
    )
    proposal = plan(call("a", "ask", idempotent=True), call("b", "look"))
    await rt.execute(proposal)
    rt.checkpoint(tmp_path / "c")

    rt.restore(tmp_path / "c")
    await rt.execute(proposal)

    assert recorder.names == ["ask", "look", "ask", "look"]


async def test_nothing_is_restored_under_a_running_proposal(recorder: Recorder) -> None:
    refused: list[str] = []

    def restore(_: object) -> None:
        try:
            rt.restore(made)
        except UsageError as error:
            refused.append(str(error))

    rt = Runtime(tools=[recorder.tool("restore", restore)], state={"k": 1})
    made = rt.checkpoint()

    result = await rt.execute(plan(write("w", "k", 2), call("a", "restore", dependencies=["w"])))

    assert result.outcome == "succeeded"
    assert len(refused) == 1
    assert rt.state.get("k") == 2


async def test_a_restored_state_can_be_written_and_undone(tmp_path: Path) -> None:
    first = Runtime(state={"k": 1})
    first.checkpoint(tmp_path / "c")
    second = Runtime(state={"k": 5})
    second.restore(tmp_path / "c")

    await second.execute(plan(write("a", "k", 9), claim("b", "k", "never")))

    assert second.state.snapshot() == {"k": 1}
