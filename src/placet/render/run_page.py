"""One run as one HTML file, to be sent to somebody: its graph, its story, its actions and its events.

Keep true:
1. The file needs no network and holds no script: what it shows is all there, and nothing in it runs. Its own
   Content-Security-Policy says so as well.
2. Everything that came from a plan, a tool or a model is text, escaped once, with what steers it shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as escape_html

from placet.events.event import Event
from placet.events.run_view import ActionView, RunView
from placet.ir.json_value import show_json
from placet.render.marks import mark
from placet.render.plan_layout import PlanLayout, lay_out
from placet.render.text import duration, moment
from placet.safe_text import clean

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MOST_EVENTS = 20_000
_MOST_BOXES = 2_000
_LONGEST = 2_000
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --faint: #8888; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: 1.5rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
code, pre, td.data { font: 12px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; }
.events td:nth-child(-n+3) { white-space: nowrap; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: Canvas; }
.scroll { overflow: auto; max-height: 40rem; border: 1px solid var(--line); border-radius: 6px; }
svg text { font: 12px ui-monospace, monospace; fill: CanvasText; }
svg rect { fill: Canvas; stroke-width: 1.5; }
svg path { fill: none; stroke: var(--faint); } .faint { opacity: .7; } dl { display: grid;
grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { opacity: .7; } dd { margin: 0; }
"""
_INK = {
    "succeeded": "#1a7f37",
    "failed": "#cf222e",
    "rejected": "#bc4c00",
    "unknown": "#8250df",
    "waiting": "#9a6700",
    "executing": "#0969da",
}


def run_page(view: RunView, story: Sequence[str], events: Iterable[Event], *, made_at: float) -> str:
    """The file, as HTML. What it is given comes without secrets."""
    title = f"Run {view.run_id}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{_text(title)}</h1>",
            *_facts(view, made_at),
            "<h2>Story</h2>",
            f"<pre>{_text(chr(10).join(story), lines=True)}</pre>",
            *_graph(view),
            *_actions(view),
            *_events(events),
            "</body></html>",
            "",
        ]
    )


def _facts(view: RunView, made_at: float) -> Iterator[str]:
    cost = view.cost
    counts = ", ".join(f"{number} {status}" for status, number in sorted(view.counts.items()))
    rows = {
        "status": view.outcome or view.status,
        "task": view.task,
        "by": view.source,
        "model": view.model,
        "began": moment(view.begun) if view.begun is not None else None,
        "ended": moment(view.ended) if view.ended is not None else None,
        "actions": counts or None,
        "tool calls": str(cost.tool_calls),
        "tokens": f"{cost.input_tokens:,} in, {cost.output_tokens:,} out" if cost.answers else None,
        "error": view.error,
        "exported": moment(made_at),
    }
    yield "<dl>"
    for name, value in rows.items():
        if value:
            yield f"<dt>{name}</dt><dd>{_text(value)}</dd>"
    yield "</dl>"


def _graph(view: RunView) -> Iterator[str]:
    layout = lay_out(view)
    if not layout.keys:
        return
    yield "<h2>Graph</h2>"
    if len(layout.keys) > _MOST_BOXES:
        yield f'<p class="faint">{len(layout.keys):,} actions are too many to be drawn here.</p>'
        return
    yield '<div class="scroll">'
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{layout.width + 20:.0f}" '
        f'height="{layout.height + 20:.0f}" role="img" aria-label="The actions of the run">'
    )
    yield from _lines(layout)
    for key, x, y in zip(layout.keys, layout.x, layout.y, strict=True):
        yield from _box(view.actions[key], x + 10, y + 10, layout)
    yield "</svg></div>"


def _lines(layout: PlanLayout) -> Iterator[str]:
    for one, other in layout.edges:
        x1, y1 = layout.x[one] + 10 + layout.node_width, layout.y[one] + 10 + layout.node_height / 2
        x2, y2 = layout.x[other] + 10, layout.y[other] + 10 + layout.node_height / 2
        middle = (x1 + x2) / 2
        yield f'<path d="M{x1:.0f} {y1:.0f}C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"/>'


def _box(action: ActionView, x: float, y: float, layout: PlanLayout) -> Iterator[str]:
    look = mark(action.status)
    ink = _INK.get(action.status, "#8c959f")
    took = duration(action.duration_ms) if action.duration_ms is not None else ""
    yield (
        f'<g><title>{_text(action.error or action.key)}</title><rect x="{x:.0f}" y="{y:.0f}" rx="6" '
        f'width="{layout.node_width:.0f}" height="{layout.node_height:.0f}" stroke="{ink}"/>'
    )
    yield f'<text x="{x + 8:.0f}" y="{y + 18:.0f}">{_text(f"{look.sign} {action.id}", 20)}</text>'
    words = f"{action.tool or action.type or ''} {took}"
    yield f'<text x="{x + 8:.0f}" y="{y + 35:.0f}" class="faint">{_text(words, 20)}</text></g>'


def _actions(view: RunView) -> Iterator[str]:
    if not view.actions:
        return
    yield '<h2>Actions</h2><div class="scroll"><table><thead><tr><th>action<th>tool<th>status<th>took'
    yield "<th>decided by<th>parameters and error</tr></thead><tbody>"
    for action in view.actions.values():
        gates = "\n".join(f"{gate.by}: {gate.decision} ({gate.text})" for gate in action.gates)
        more = "\n".join(
            filter(None, [show_json(action.parameters) if action.parameters else "", action.error or ""])
        )
        took = duration(action.duration_ms) if action.duration_ms is not None else ""
        status = f"{action.status}{', rolled back' if action.rolled_back else ''}"
        cells = [action.id, action.tool or action.type or "", status, took, gates, more]
        shown = "".join(f'<td class="data">{_text(each, _LONGEST, lines=True)}</td>' for each in cells)
        yield f"<tr>{shown}</tr>"
    yield "</tbody></table></div>"


def _events(events: Iterable[Event]) -> Iterator[str]:
    yield '<h2>Events</h2><div class="scroll"><table class="events"><thead><tr><th>#<th>time<th>kind'
    yield "<th>action<th>data</tr></thead><tbody>"
    for number, event in enumerate(events):
        if number >= _MOST_EVENTS:
            yield '<tr><td colspan="5">More events are in the log.</td></tr>'
            break
        data = show_json(event.data) if event.data else ""
        cells = [str(event.seq), moment(event.time), event.kind, event.action_id or "", data]
        shown = "".join(f'<td class="data">{_text(each, _LONGEST, lines=True)}</td>' for each in cells)
        yield f"<tr>{shown}</tr>"
    yield "</tbody></table></div>"


def _text(value: str, limit: int | None = None, *, lines: bool = False) -> str:
    return escape_html(clean(value, limit, lines=lines))
