"""Events as JSON lines, and what a crash in the middle of one does."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from placet import EventLog, JsonlSink, Runtime
from placet.events.jsonl import read_jsonl
from placet.events.span import spans_of
from tests.runtime.plans import claim, plan, write


async def record(path: Path, *values: int) -> EventLog:
    sink = JsonlSink(path)
    rt = Runtime(events=EventLog(sinks=[sink]))
    await rt.execute(plan(*(write(f"w{value}", "k", value) for value in values)))
    sink.close()
    return rt.events


async def test_each_event_is_one_line_of_json(tmp_path: Path) -> None:
    log = await record(tmp_path / "log", 1, 2)

    lines = (tmp_path / "log").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == [e.kind for e in log]


async def test_what_was_written_is_read_back_equal(tmp_path: Path) -> None:
    log = await record(tmp_path / "log", 1, 12345678901234567890123)

    recording = read_jsonl(tmp_path / "log")

    assert recording.events == list(log)
    assert recording.damaged == []


async def test_a_crash_in_the_middle_of_a_line_is_tolerated_on_reading(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = await record(path, 1, 2)
    whole = path.read_bytes()

    for cut in range(1, len(whole.splitlines()[-1])):
        path.write_bytes(whole[:-cut])
        recording = read_jsonl(path)
        left = list(log) if cut == 1 else list(log)[:-1]
        assert recording.events == left
        assert recording.damaged == ([] if cut == 1 else [len(log)])


async def test_a_file_that_ends_in_half_a_line_is_closed_off_before_anything_is_appended(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    first = await record(path, 1)
    path.write_bytes(path.read_bytes() + b'{"seq": 7, "kind": "action_exec')

    second = await record(path, 2)

    recording = read_jsonl(path)
    assert recording.events == [*first, *second]
    assert recording.damaged == [len(first) + 1]


@pytest.mark.parametrize(
    "junk",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"seq": "one", "kind": "x", "time": 0}',
        b"\xff\xfe\x00",
        b'{"seq": 1',
        b"null",
    ],
)
async def test_a_damaged_line_is_counted_and_the_rest_is_read(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "log"
    log = await record(path, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], junk + b"\n", b"\n", *lines[2:]]))

    recording = read_jsonl(path)

    assert recording.events == list(log)
    assert recording.damaged == [3]


async def test_appending_goes_on_where_the_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"

    first, second = await record(path, 1), await record(path, 2)

    assert read_jsonl(path).events == [*first, *second]


async def test_two_logs_may_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    runtimes = [Runtime(events=EventLog(sinks=[JsonlSink(path)])) for _ in range(2)]

    for n in range(10):
        await runtimes[n % 2].execute(plan(write("a", "k", n)))

    recording = read_jsonl(path)
    assert recording.damaged == []
    assert len(recording.events) == sum(len(rt.events) for rt in runtimes)


def test_a_path_that_cannot_be_written_fails_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        JsonlSink(tmp_path / "no such folder" / "log")


async def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    await record(tmp_path / "log", 1)

    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


async def test_a_sink_that_was_closed_fails_like_any_other(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "log")
    rt = Runtime(events=EventLog(sinks=[sink]))
    sink.close()
    sink.close()

    result = await rt.execute(plan(write("a", "k", 1)))

    assert result.outcome == "succeeded"
    assert len(rt.events.query(kind="sink_failed")) == 1


async def test_spans_can_be_read_off_a_file(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "log")
    rt = Runtime(events=EventLog(sinks=[sink]))
    await rt.execute(plan(write("a", "k", 1), claim("b", "k", 2)))

    assert spans_of(read_jsonl(tmp_path / "log").events) == rt.events.spans()
