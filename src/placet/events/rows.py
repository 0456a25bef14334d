"""Events as rows of a table, there and back, and what to ask the table for.

Keep true:
1. Any event can be stored: one that cannot be encoded loses its data, not the batch it came in.
2. A row that somebody changed by hand can still be read.
3. Pages come by position, over an index in that order: a page must not sort all that follow it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from placet.events.chain import Row, columns_of
from placet.events.event import Event
from placet.storage.transaction import Rows, Transaction, Value, searchable
from placet.truncation import truncate

PAGE = 1_000
_READ = "position, kind, time, run_id, proposal_id, action_id, trace_id, span_id, tenant, data"

_NULL = rb"\u0000"
"""How JSON writes it. Looked for once and not in each text, because this is done for every event."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Encoded(NamedTuple):
    """An event as it is stored, and as it is hashed."""

    row: Row
    columns: bytes
    data: bytes


def encode_event(event: Event) -> Encoded:
    """An event, ready to be stored."""
    tool = event.data.get("tool")
    try:
        data = _encode(event.data)
        row = Row(
            event.kind,
            float(event.time),
            event.run_id,
            event.proposal_id,
            event.action_id,
            event.trace_id,
            event.span_id,
            event.tenant,
            tool if type(tool) is str else None,
            data.decode(),
        )
        columns = columns_of(row)
        if _NULL in columns:
            row = Row._make((searchable(row.kind), row.time, *map(searchable, row[2:-1]), row.data))
            columns = columns_of(row)
        return Encoded(row, columns, data)
    except Exception as error:
        row = _as_far_as_possible(event, error)
        return Encoded(row, columns_of(row), row.data.encode())


def _as_far_as_possible(event: Event, error: Exception) -> Row:
    def text(value: object) -> str | None:
        return None if value is None else searchable(str(value).encode("utf-8", "replace").decode())

    ids = (event.run_id, event.proposal_id, event.action_id, event.trace_id, event.span_id, event.tenant)
    why = str(text(f"{type(error).__name__}: {error}"))
    run, proposal, action, trace, span, tenant = map(text, ids)
    data = _encode({"not_stored": why}).decode()
    return Row(
        text(event.kind) or "", float(event.time), run, proposal, action, trace, span, tenant, None, data
    )


def read_event(row: tuple[Any, ...]) -> Event:
    """A stored row as an event; its `seq` is its position."""
    try:
        data = _decode(row[-1])
    except (msgspec.MsgspecError, TypeError, UnicodeError):
        data = {"unreadable": truncate(str(row[-1]), 200)}
    position, kind, time, run, proposal, action, trace, span, tenant, _ = row
    return Event(position, kind, time, run, proposal, action, trace, span, tenant, data)


class Filter(NamedTuple):
    """Which events are wanted."""

    conditions: str
    values: tuple[Value, ...]
    span: str
    """The part of it that is about time."""
    span_values: tuple[float, ...]
    is_of_trace: bool = False
    """Whether a trace is wanted, of whatever run."""

    @classmethod
    def of(
        cls,
        kind: str | Iterable[str] | None,
        run: str | None,
        trace: str | None,
        proposal: str | None,
        action: str | None,
        tool: str | None,
        tenant: str | None,
        since: float | None,
        until: float | None,
    ) -> Filter:
        """Everything given must hold."""
        conditions: list[str] = []
        values: list[Value] = []
        if kind is not None:
            kinds = sorted({kind} if isinstance(kind, str) else set(kind))
            if len(kinds) == 1 and run is None and trace is None:
                conditions.append("kind = ?")
            else:
                # An expression, so that its index is not used: there are far fewer events of one run than of
                # one kind, and several kinds would be sorted anew for each page.
                conditions.append(f"kind || '' IN ({', '.join('?' * len(kinds)) or 'NULL'})")
            values += map(searchable, kinds)
        ids = {
            "run_id": run,
            "trace_id": trace,
            "proposal_id": proposal,
            "action_id": action,
            "tool": tool,
            "tenant": tenant,
        }
        for column, wanted in ids.items():
            if wanted is not None:
                conditions.append(f"{column} = ?")
                values.append(searchable(wanted))
        span = [f"time {sign} ?" for sign, at in ((">=", since), ("<=", until)) if at is not None]
        # Added to, so that pages are not sorted by way of the index on time.
        conditions += [condition.replace("time", "time + 0") for condition in span]
        times = tuple(float(at) for at in (since, until) if at is not None)
        is_of_trace = trace is not None and run is None
        return cls(" AND ".join(conditions), (*values, *times), " AND ".join(span), times, is_of_trace)

    def bounds(self, t: Transaction) -> tuple[int, int]:
        """The first and last position to look at. Fixed beforehand, so that what is found is what there was
        at one moment, and whole batches of it."""
        where = f" WHERE {self.span}" if self.span else ""
        low, high = t.execute(f"SELECT min(position), max(position) FROM events{where}", self.span_values)[0]
        return (low, high) if low is not None else (1, 0)

    def page(self, low: int, high: int, size: int, newest: bool, t: Transaction) -> Rows:
        """Some rows between two positions, both included."""
        conditions = f" AND {self.conditions}" if self.conditions else ""
        # Added to, so that Postgres goes by the index on the trace: a prepared statement takes any two
        # positions for close together. SQLite has no such index.
        position = "position + 0" if self.is_of_trace and t.dialect == "postgres" else "position"
        return t.execute(
            f"SELECT {_READ} FROM events WHERE {position} >= ? AND {position} <= ?{conditions}"
            f" ORDER BY {position}{' DESC' if newest else ''} LIMIT {size}",
            (low, high, *self.values),
        )
