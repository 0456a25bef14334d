"""Live updates: in order, none missing, encoded once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest_asyncio

from placet.events.event import Event
from placet.events.run_view import RunDelta, RunFold
from placet.server import stream as streaming
from placet.server.stream import Stream, Watcher
from placet.server.tokens import Token
from tests.events.test_run_view import merged, plain
from tests.server.web import Web, opened

OWNER = Token(name="owner", digest="", created_at=0.0, rights=("see",))


@pytest_asyncio.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with opened(tmp_path) as made:
        yield made


def write(web: Web, count: int, *, run: str = "r", tenant: str | None = None, kind: str = "note") -> None:
    made = [Event(0, kind, 1.0, run, tenant=tenant, data={"n": n}) for n in range(count)]
    web.records.events.write(made).result()


async def read(
    stream: Stream, watcher: Watcher, after: int | None, until: int, *, names: Sequence[str] = ("log",)
) -> list[tuple[str, Any]]:
    """What a watcher gets, up to an event of the log."""
    found: list[tuple[str, Any]] = []
    following = stream.follow(watcher, after)
    async with asyncio.timeout(30):
        async for block in following:
            for part in block.decode().split("\n\n"):
                fields = dict(line.partition(": ")[::2] for line in part.splitlines())
                if fields.get("event") in names:
                    found.append((fields["event"], json.loads(fields["data"])))
            seen = [event["seq"] for name, data in found if name == "log" for event in data]
            if seen and seen[-1] >= until:
                break
    await following.aclose()
    return found


def positions(found: Sequence[tuple[str, Any]]) -> list[int]:
    return [event["seq"] for name, data in found if name == "log" for event in data]


async def test_watcher_gets_everything_after_its_cursor_in_order(web: Web) -> None:
    stream = Stream(web.records.events, poll_s=0.01)
    write(web, 2500)

    async with stream.running():
        reading = asyncio.create_task(read(stream, Watcher(OWNER), 100, 2600))
        await asyncio.sleep(0)
        await asyncio.to_thread(write, web, 100)
        found = await reading

    assert positions(found) == list(range(101, 2601))


async def test_watcher_that_fell_behind_the_ring_misses_nothing(web: Web) -> None:
    """What has left the ring is read from the log."""
    stream = Stream(web.records.events, poll_s=0.01, kept=50)
    write(web, 10)

    async with stream.running():
        slow = stream.follow(Watcher(OWNER), 0)
        await anext(slow)
        quick = asyncio.create_task(read(stream, Watcher(OWNER), 10, 1010))
        await asyncio.to_thread(write, web, 1000)
        await quick
        found: list[int] = []
        while not found or found[-1] < 1010:
            block = (await anext(slow)).decode()
            for line in block.splitlines():
                if line.startswith("data: ["):
                    found += [event["seq"] for event in json.loads(line.removeprefix("data: "))]
        await slow.aclose()

    assert found == list(range(1, 1011))


async def test_tenant_gets_only_its_own_events_live_and_from_the_log(web: Web) -> None:
    stream = Stream(web.records.events, poll_s=0.01)
    theirs = Watcher(Token(name="a", tenant="a", digest="", created_at=0.0, rights=("see",)))
    for tenant in ("a", "b", None):
        write(web, 3, tenant=tenant)

    async with stream.running():
        reading = asyncio.create_task(read(stream, theirs, 0, 12))
        await asyncio.sleep(0.05)
        for tenant in ("b", "a"):
            await asyncio.to_thread(write, web, 3, tenant=tenant)
        write(web, 1, tenant="a")
        found = await asyncio.wait_for(reading, 20)

    assert positions(found)[:6] == [1, 2, 3, 13, 14, 15]


async def test_events_are_encoded_once_however_many_watch(web: Web, monkeypatch: Any) -> None:
    stream = Stream(web.records.events, poll_s=0.01)
    encoded: list[int] = []
    encode = streaming.encode
    monkeypatch.setattr(streaming, "encode", lambda event: encoded.append(event.seq) or encode(event))

    async with stream.running():
        watching = [asyncio.create_task(read(stream, Watcher(OWNER), 0, 200)) for _ in range(20)]
        await asyncio.sleep(0.1)
        await asyncio.to_thread(write, web, 200)
        everything = await asyncio.gather(*watching)

    assert all(positions(found) == list(range(1, 201)) for found in everything)
    assert sorted(encoded) == list(range(1, 201))


async def test_what_waits_and_which_runs_changed_is_said_with_the_events(web: Web) -> None:
    stream = Stream(web.records.events, poll_s=0.01)
    write(web, 1, run="quiet")
    write(web, 1, run="asks", kind="approval_requested")
    write(web, 1, run="ends", kind="run_ended")

    async with stream.running():
        found = await read(stream, Watcher(OWNER), 0, 3, names=("log", "runs", "needs"))

    said = {name: data["run_ids"] for name, data in found if name != "log"}
    assert said == {"runs": ["ends"], "needs": ["asks", "ends"]}


async def test_view_is_loaded_for_the_next_watcher_when_the_first_one_goes(web: Web) -> None:
    write(web, 1, run="watched")
    began, may_end = threading.Event(), threading.Event()

    def load(run_id: str) -> RunFold:
        began.set()
        may_end.wait(20)
        return RunFold.of(run_id, web.records.events.scan(run=run_id))

    stream = Stream(web.records.events, load=load, poll_s=0.01)
    first = asyncio.create_task(stream.view("watched", 0))
    await asyncio.to_thread(began.wait, 20)
    second = asyncio.create_task(stream.view("watched", 0))
    await asyncio.sleep(0.01)

    first.cancel()
    may_end.set()
    data, reached = await asyncio.wait_for(second, 20)

    assert reached == 1
    assert json.loads(data)["run_id"] == "watched"


async def test_whoever_is_told_of_an_end_finds_it_in_the_row(web: Web) -> None:
    """Nobody has to ask again: the row is written before the event that says so."""
    stream = Stream(web.records.events, poll_s=0.001)
    stands: list[str] = []
    told = asyncio.Event()

    def hear(events: Sequence[Event]) -> None:
        stands.extend(
            web.records.journal.find(each.run_id or "").status for each in events if each.kind == "run_ended"
        )
        if len(stands) == 2:
            told.set()

    async with stream.running():
        stream.listen(hear)
        await asyncio.sleep(0.05)
        await web.ask()
        runtime = web.runtime()
        await runtime.execute({"actions": [{"id": "a", "tool": "echo", "parameters": {"text": "x"}}]})
        await runtime.events.settle()
        await asyncio.wait_for(told.wait(), 30)

    assert stands == ["waiting", "succeeded"]


def _words(block: bytes) -> list[dict[str, Any]]:
    return [
        json.loads(each.split("data: ")[1]) for each in block.decode().split("\n\n") if "event: text" in each
    ]


async def test_who_comes_while_a_model_speaks_gets_all_of_it_once(web: Web) -> None:
    stream = Stream(web.records.events, poll_s=0.01)

    async with stream.running():
        stream.say("over", None, 1, "not any more", thinking=False)
        stream.hush("over")
        stream.say("r", None, 2, "Once", thinking=False)
        stream.say("r", None, 2, " upon \N{MOON VIEWING CEREMONY}", thinking=False)
        following = stream.follow(Watcher(OWNER), None)
        await anext(following)
        before = _words(await anext(following))
        stream.say("r", None, 2, " a time", thinking=False)
        after = _words(await asyncio.wait_for(anext(following), 10))
        await following.aclose()

    said = {"run_id": "r", "speech": 2, "thinking": False}
    assert before == [{**said, "at": 0, "text": "Once upon \N{MOON VIEWING CEREMONY}"}]
    assert after == [{**said, "at": 12, "text": " a time"}]


async def test_words_of_another_tenant_are_not_heard(web: Web) -> None:
    stream = Stream(web.records.events, poll_s=0.01)
    theirs = msgspec.structs.replace(OWNER, tenant="theirs")

    async with stream.running():
        stream.say("ours", "ours", 1, "secret", thinking=False)
        stream.say("theirs", "theirs", 2, "hello", thinking=False)
        following = stream.follow(Watcher(theirs), None)
        await anext(following)
        heard = _words(await anext(following))
        await following.aclose()

    assert [each["text"] for each in heard] == ["hello"]


async def test_nothing_is_read_while_nobody_watches(web: Web, monkeypatch: Any) -> None:
    stream = Stream(web.records.events, poll_s=0.001)
    looked: list[int] = []
    monkeypatch.setattr(stream, "_new_events", lambda after: looked.append(1) or [])

    async with stream.running():
        await asyncio.sleep(0.05)

    assert looked == []


async def test_view_of_a_watched_run_comes_as_changes_that_make_the_whole(web: Web) -> None:
    result = await web.ask()
    run_id = result.run_id
    stream = Stream(web.records.events, poll_s=0.01, load=web.site.folds.copy)
    watcher = Watcher(OWNER, None, {run_id: 0})

    async with stream.running():
        following = stream.follow(watcher, None)
        await anext(following)
        (whole,) = deltas(await anext(following))
        view = merged(plain(RunFold(run_id).view), whole)
        first = plain(web.site.folds.copy(run_id).view)
        web.records.approvals.decide(result.waiting[0].approval, "once", by="ann")
        runtime = web.runtime()
        await runtime.resume(run_id)
        await runtime.events.settle()
        seen = await asyncio.wait_for(until(following, view, web.records.events.last_position()), 30)
        await following.aclose()

    assert first["status"] == "waiting"
    assert seen == plain(web.site.folds.copy(run_id).view)
    assert seen["outcome"] == "succeeded"
    assert stream._live == {}


async def until(following: AsyncIterator[bytes], view: dict[str, Any], seq: int) -> dict[str, Any]:
    while view["seq"] < seq:
        for delta in deltas(await anext(following)):
            view = merged(view, delta)
    return view


def deltas(block: bytes) -> list[RunDelta]:
    """The changes of views in a part of the stream."""
    found = (part for part in block.decode().split("\n\n") if part.startswith("event: view"))
    return [msgspec.json.decode(part.partition("data: ")[2], type=RunDelta) for part in found]
