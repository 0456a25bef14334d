"""Events as lines: when, what, to which action, and the part of the data that a person wants to see.

Keep true: one event is one line, and nothing in it can steer a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rich.text import Text

from assent.events.event import Event
from assent.ir.json_value import JsonValue
from assent.render.history import TERMINAL
from assent.render.marks import MARKS, Mark, outcome_mark
from assent.render.text import clean, count, duration, value

_MARKED: dict[str, str] = {
    **{f"action_{status}": status for status in (*TERMINAL, "executing", "retrying", "validated")},
    "policy_violation": "rejected",
    "compensation_started": "executing",
    "compensation_succeeded": "rolled_back",
    "compensation_failed": "failed",
    "state_rollback": "rolled_back",
    "sink_failed": "failed",
}
_PLAIN = Mark("·", "", "", "", "")
_LONG = 200


def draw_timeline(events: Iterable[Event], *, with_runs: bool = False) -> Iterator[Text]:
    """A line for each event; `with_runs` says of each which run it belongs to."""
    day = ""
    for event in events:
        try:
            moment = datetime.fromtimestamp(event.time, UTC)
        except (OverflowError, ValueError, OSError):
            moment = datetime.fromtimestamp(0, UTC)
        if moment.date().isoformat() != day:
            day = moment.date().isoformat()
            yield Text(f"{day} (UTC)", style="bold")
        yield _line(event, f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}", with_runs)


def _line(event: Event, clock: str, with_runs: bool) -> Text:
    look = _look(event)
    line = Text(f"{clock}  ", style="dim")
    if with_runs:
        line.append(f"{clean(event.run_id or '-', 12):12}  ")
    line.append(look.sign, style=look.style)
    line.append(f" {clean(event.kind.replace('_', ' '), 26):26}")
    if event.action_id is not None:
        line.append(f" {clean(event.action_id, 40)}", style="bold")
    details = "; ".join(_details(event))
    if details:
        line.append(f"  {details}")
    return line


def _look(event: Event) -> Mark:
    if event.kind == "proposal_ended":
        return outcome_mark(str(event.data.get("outcome")))
    return MARKS.get(_MARKED.get(event.kind, ""), _PLAIN)


def _details(event: Event) -> Iterator[str]:
    data = event.data
    if "tool" in data and data["tool"] is not None:
        yield clean(data["tool"], 40)
    if event.kind == "proposal_received":
        actions = data.get("action_count")
        source = data.get("source")
        yield f"{count(actions, 'action') if isinstance(actions, int) else 'a plan'}" + (
            f" from '{clean(source, 40)}'" if source not in (None, "unknown") else ""
        )
    elif event.kind == "proposal_ended":
        yield clean(data.get("outcome"), 40)
    for name in ("status", "attempt", "delay_ms", "of", "completed", "unknown", "decided", "sink", "lost"):
        shown = data.get(name)
        if shown is not None and shown != [] and shown != {} and not (name == "attempt" and shown == 1):
            yield f"{name.replace('_ms', '').replace('_', ' ')} {_short(name, shown)}"
    if isinstance(data.get("changes"), dict):
        yield ", ".join(f"{clean(k, 40)} = {value(v, 40)}" for k, v in list(data["changes"].items())[:5])
    took = data.get("duration_ms")
    if isinstance(took, int | float) and not isinstance(took, bool):
        yield duration(float(took)) or "no time"
    for name in ("error", "reason"):
        if isinstance(data.get(name), str):
            yield clean(data[name], _LONG)


def _short(name: str, shown: JsonValue) -> str:
    if name == "delay_ms" and isinstance(shown, int | float):
        return duration(float(shown)) or "0 ms"
    return clean(shown, 60) if isinstance(shown, str) else value(shown, 80)
