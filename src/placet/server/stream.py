"""Live updates: what is written to the log, by whatever process, sent to everybody who watches.

One task reads the log and encodes each event once. Watchers take what they may see from a bounded ring, in
batches; one that is further behind than the ring reaches reads on in the log. So a slow watcher costs no
memory, and nobody misses an event.

Keep true:
1. Log events reach a watcher in the order of the log, without a gap, from the position that it names.
2. An event is encoded once, however many watch.
3. Nothing is read while nobody watches or listens.
4. Whoever's token is revoked gets nothing more, also over a stream that was open before.
5. Words that a model says, as they come, are not in the log. Whoever comes while it speaks gets what it has
   said so far, and every piece says where it belongs: nobody sees a hole, or the same words twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from placet.errors import StorageError
from placet.events.event import Event
from placet.events.run_view import RunFold
from placet.events.sql import SqlEvents
from placet.server.answers import to_json
from placet.server.tokens import Token

POLL_S = 0.1
PING_S = 15.0
VIEW = "view"
"""What changes of views are sent as."""
TEXT = "text"
"""What the words of models are sent as."""
KEPT = 5_000
"""Items in the ring."""
_PAGE = 1_000

NEEDS = frozenset(
    {
        *("approval_requested", "approval_recorded", "action_unknown", "run_resumed", "run_ended"),
        *("coding_state_changed", "coding_question_asked", "coding_question_closed"),
        *("round_ended",),
    }
)
"""Kinds after which something else may wait for a person than before."""
STANDING = frozenset(
    {
        *("proposal_received", "turn_loop_started", "run_resumed", "run_ended"),
        *("coding_started", "coding_state_changed", "round_started", "round_phase", "round_ended"),
    }
)
"""Kinds after which the row of a run may be another: each is written after the row."""


class Item(NamedTuple):
    """Something that watchers may get."""

    seq: int
    """Of an event its position; 0 of what is not in the log."""
    kind: str
    """The kind of an event in the log; else the name of what is sent."""
    tenant: str | None
    run_id: str | None
    data: bytes
    at: int = 0
    """Of the change of a view, up to which position of the log it goes."""


class Spoken:
    """What a model says just now: all of it so far."""

    def __init__(self, run_id: str, tenant: str | None, speech: int, *, thinking: bool) -> None:
        self._run_id = run_id
        self._tenant = tenant
        self.speech = speech
        """The number of what it says between two calls."""
        self._thinking = thinking
        self._pieces: list[str] = []
        self._length = 0

    def add(self, text: str) -> Item:
        """A new piece, as it is sent."""
        item = self._item(self._length, text)
        self._pieces.append(text)
        # In the units in which a browser counts.
        self._length += len(text.encode("utf-16-le", "surrogatepass")) // 2
        return item

    def whole(self) -> Item:
        """Everything so far, as it is sent."""
        return self._item(0, "".join(self._pieces))

    def _item(self, at: int, text: str) -> Item:
        data = {
            "run_id": self._run_id,
            "speech": self.speech,
            "thinking": self._thinking,
            "at": at,
            "text": text,
        }
        return Item(0, TEXT, self._tenant, self._run_id, to_json(data))


class Watcher(NamedTuple):
    """What somebody wants to hear of."""

    token: Token
    run: str | None = None
    """Only this run."""
    watch: Mapping[str, int] = {}
    """Runs of which it gets changes of the view, and up to which position of the log it has each."""
    holds: Callable[[], bool] = lambda: True
    """Whether the token is still good; asked before anything is sent."""

    def wants(self, item: Item) -> bool:
        """Whether an item is for it."""
        if item.kind == VIEW and not item.seq:
            return item.at > self.watch.get(item.run_id or "", item.at)
        return self.token.sees(item.tenant) and (self.run is None or item.run_id == self.run)


class Live:
    """The view of a run that somebody watches."""

    def __init__(self) -> None:
        self.watchers = 0
        self.fold: RunFold | None = None
        self.missed: list[Event] = []
        """What came before the view was there."""
        self.loading = asyncio.Lock()


class Stream:
    """The log, as it goes on."""

    def __init__(
        self,
        events: SqlEvents,
        *,
        shown: Callable[[Event], Event] = lambda event: event,
        load: Callable[[str], RunFold] | None = None,
        poll_s: float = POLL_S,
        kept: int = KEPT,
    ) -> None:
        self._events = events
        self.shown = shown
        """An event as it may be sent."""
        self.load = load or (lambda run: RunFold.of(run, events.scan(run=run)))
        """The view of a run, from all that is in the log."""
        self._live: dict[str, Live] = {}
        self._spoken: dict[str, Spoken] = {}
        """What models say just now, by their runs."""
        self._listeners: list[Callable[[Sequence[Event]], None]] = []
        self._poll_s = poll_s
        self._ring: deque[Item] = deque(maxlen=kept)
        self._count = 0
        """Items that were ever in the ring."""
        self._seq: int | None = None
        """Up to which position the log was read; None before anybody watched."""
        self._floor = 0
        """From which position on the ring holds everything."""
        self._news = asyncio.Event()
        self._watching = 0
        self._reading: asyncio.Task[None] | None = None
        self._closed = False

    # Reading the log

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let everybody who watches go in the end."""
        try:
            yield
        finally:
            self.close()
            if self._reading is not None:
                self._reading.cancel()
                with suppress(asyncio.CancelledError):
                    await self._reading

    def _come(self) -> None:
        """Somebody watches or listens: the log is read. On the event loop."""
        self._watching += 1
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="placet-stream")

    def _leave(self) -> None:
        self._watching -= 1
        if not self._watching and self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _read(self) -> None:
        while True:
            try:
                found = await asyncio.to_thread(self._new_events, await self._begin())
            except StorageError:
                found = []  # It may come back; whoever asks for something is told.
                await asyncio.sleep(1.0)
            if found:
                self._take(found)
            if len(found) < _PAGE:
                await asyncio.sleep(self._poll_s)

    async def _begin(self) -> int:
        """Up to which position the log was read: at first, all of it."""
        if self._seq is None:
            newest = await asyncio.to_thread(self._events.last_position)
            if self._seq is None:  # Another may have been quicker.
                self._seq = self._floor = newest
        return self._seq

    def _new_events(self, after: int) -> list[Event]:
        if self._events.last_position() <= after:
            return []
        return self._events.query(after=after, limit=_PAGE)

    def _take(self, found: Sequence[Event]) -> None:
        for event in found:
            self._put(encode(self.shown(event)))
        self._seq = found[-1].seq
        self._fold(found)
        for hear in self._listeners:
            hear(found)
        self._tell()

    def _fold(self, found: Sequence[Event]) -> None:
        """Bring the views up to date that somebody watches."""
        changed: set[str] = set()
        for event in found:
            live = self._live.get(event.run_id or "")
            if live is not None and live.fold is None:
                live.missed.append(event)
            elif live is not None and live.fold is not None:
                live.fold.take(self.shown(event))
                changed.add(live.fold.view.run_id)
        for run_id in sorted(changed):
            fold = self._live[run_id].fold
            delta = fold.changes() if fold is not None else None
            if delta is not None:
                self._put(Item(0, VIEW, None, run_id, to_json(delta), delta.seq))

    def _put(self, item: Item) -> None:
        if len(self._ring) == self._ring.maxlen:
            # What falls out of the ring is not held any more.
            self._floor = max(self._floor, self._ring[0].seq)
        self._ring.append(item)
        self._count += 1

    def send(self, kind: str, data: Any, *, tenant: str | None, run_id: str | None) -> None:
        """Send something that is not in the log to whoever watches now. On the event loop."""
        if self._watching:
            self._put(Item(0, kind, tenant, run_id, to_json(data)))
            self._tell()

    def say(self, run_id: str, tenant: str | None, speech: int, text: str, *, thinking: bool) -> None:
        """Send the next words of a speech, which has a number. On the event loop."""
        spoken = self._spoken.get(run_id)
        if spoken is None or spoken.speech != speech:
            spoken = self._spoken[run_id] = Spoken(run_id, tenant, speech, thinking=thinking)
        item = spoken.add(text)
        if self._watching:
            self._put(item)
            self._tell()

    def hush(self, run_id: str) -> None:
        """What was said in a run is over: the log has it. On the event loop."""
        self._spoken.pop(run_id, None)

    def listen(self, hear: Callable[[Sequence[Event]], None]) -> None:
        """Call a function with every batch of events from now on, whether anybody watches or not."""
        self._listeners.append(hear)
        self._come()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def close(self) -> None:
        """Let everybody who watches go. On the event loop."""
        self._closed = True
        self._tell()

    # Watching

    async def view(self, run_id: str, after: int) -> tuple[bytes, int]:
        """Begin to watch a run, and return what became of its view after a position in the log, with the
        position up to which that goes. Whoever calls this calls `unwatch` later."""
        live = self._live.setdefault(run_id, Live())
        live.watchers += 1
        async with (
            live.loading
        ):  # Whoever loads it may go away meanwhile: the next one in line loads it then.
            if live.fold is None:
                fold = await asyncio.to_thread(self.load, run_id)
                for event in live.missed:
                    fold.take(self.shown(event))
                fold.changes()
                live.fold, live.missed = fold, []
        return await asyncio.to_thread(self._view_since, run_id, after)

    def _view_since(self, run_id: str, after: int) -> tuple[bytes, int]:
        fold = self.load(run_id)
        if after < fold.view.seq:
            return to_json(fold.whole()), fold.view.seq
        return b"", fold.view.seq

    def unwatch(self, run_id: str) -> None:
        """Stop watching a run."""
        live = self._live.get(run_id)
        if live is not None:
            live.watchers -= 1
            if not live.watchers:
                del self._live[run_id]

    async def follow(self, watcher: Watcher, after: int | None) -> AsyncIterator[bytes]:
        """Yield server-sent events from after a position in the log on; from now on, where none is named."""
        self._come()
        watched: list[str] = []
        try:
            newest = await self._begin()
            cursor = newest if after is None else min(after, newest)
            # Said at once: whoever connects again before anything happens must not ask for all of it.
            yield b"retry: 1000\nid: %d\nevent: hello\ndata: {}\n\n" % cursor
            has: dict[str, int] = {}
            for run_id, seen in watcher.watch.items():
                watched.append(run_id)
                data, has[run_id] = await self.view(run_id, seen)
                if data:
                    yield b"event: view\ndata: %s\n\n" % data
            watcher = watcher._replace(watch=has)
            place: int | None = None
            while not self._closed and watcher.holds():
                news = self._news
                if place is None or place < self._count - len(self._ring):
                    async for block, reached in self._catch_up(watcher, cursor):
                        if not watcher.holds():
                            return
                        cursor = reached
                        if block:
                            yield block
                    place = self._place_after(cursor)
                    # Nothing is awaited between the two, so that no word falls between them.
                    spoken = [each.whole() for each in self._spoken.values()]
                    if blocks := list(_blocks(filter(watcher.wants, spoken))):
                        yield b"".join(blocks)
                items = list(islice(self._ring, place - (self._count - len(self._ring)), None))
                place = self._count
                cursor = max([cursor, *(item.seq for item in items)])
                blocks = list(_blocks(filter(watcher.wants, items)))
                if blocks:
                    yield b"".join(blocks)
                    continue
                try:
                    await asyncio.wait_for(news.wait(), PING_S)
                except TimeoutError:
                    yield b": ping\n\n"
        finally:
            for run_id in watched:
                self.unwatch(run_id)
            self._leave()

    async def _catch_up(self, watcher: Watcher, cursor: int) -> AsyncIterator[tuple[bytes, int]]:
        """What is in the log and no longer in the ring."""
        while cursor < self._floor:
            high = self._floor
            found = await asyncio.to_thread(
                partial(
                    self._events.query,
                    after=cursor,
                    run=watcher.run,
                    tenant=watcher.token.tenant,
                    limit=_PAGE,
                )
            )
            wanted = [event for event in found if event.seq <= high]
            items = [encode(self.shown(event)) for event in wanted]
            cursor = wanted[-1].seq if len(wanted) == _PAGE else high
            yield b"".join(_blocks(filter(watcher.wants, items))), cursor

    def _place_after(self, cursor: int) -> int:
        """Where in the ring to go on after a position in the log."""
        first = self._count - len(self._ring)
        for offset, item in enumerate(self._ring):
            if item.seq > cursor:
                return first + offset
        return self._count


def encode(event: Event) -> Item:
    """An event as it is sent."""
    return Item(event.seq, event.kind, event.tenant, event.run_id, to_json(event))


def _blocks(items: Iterable[Item]) -> Iterable[bytes]:
    """Server-sent events: runs of log events as one batch each, with what follows from them."""
    batch: list[Item] = []
    for item in items:
        if item.seq:
            batch.append(item)
            if len(batch) < _PAGE:
                continue
        if batch:
            yield from _batch(batch)
            batch = []
        if not item.seq:
            yield b"event: %s\ndata: %s\n\n" % (item.kind.encode(), item.data)
    if batch:
        yield from _batch(batch)


def _batch(items: Sequence[Item]) -> Iterable[bytes]:
    yield b"id: %d\nevent: log\ndata: [%s]\n\n" % (items[-1].seq, b",".join(item.data for item in items))
    runs = _runs(items, STANDING)
    if runs:
        yield b"event: runs\ndata: %s\n\n" % to_json({"run_ids": runs})
    if needing := _runs(items, NEEDS):
        yield b"event: needs\ndata: %s\n\n" % to_json({"run_ids": needing})


def _runs(items: Sequence[Item], kinds: Collection[str]) -> list[str]:
    return sorted({item.run_id for item in items if item.kind in kinds and item.run_id is not None})
