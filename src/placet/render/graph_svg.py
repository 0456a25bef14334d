"""A plan as a picture: boxes for actions, lines for what waits for what, colours for how it went.

Keep true:
1. The same plan and result give the same bytes.
2. The file is valid XML and carries nothing but drawing: every text is cleaned and escaped, and there is no
   script, no link, no style or font from elsewhere.
3. A plan of any size gives a picture that a browser opens at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from placet.ir.action import Action, ToolCompensation
from placet.ir.graph import ANY_KEY, Graph
from placet.ir.proposal import Proposal
from placet.ir.result import ActionResult, ProposalResult, is_nonzero
from placet.render.layout import Layout, Line, Node, arrange
from placet.render.marks import AWAITING, MARKS, NONZERO, Mark, mark, outcome_mark
from placet.render.svg import Canvas
from placet.render.text import count, count_actions, duration
from placet.safe_text import clean, columns, shorten

_TYPES: dict[str, Mark] = {
    "tool_call": Mark("", "tool call", "", "#0550ae", "#eef6ff"),
    "state_write": Mark("", "state write", "", "#7d4e00", "#fff8e1"),
    "state_read": Mark("", "state read", "", "#116329", "#effbf2"),
    "assertion": Mark("", "assertion", "", "#6e3fbf", "#f8f3ff"),
}
_NOTABLE = frozenset(
    {"failed", "rejected", "unknown", "canceled", "executing", "stays_done", AWAITING, NONZERO}
)
_LETTER = 7.3
"""Width of one letter of the boxes' font."""
_MARGIN = 28.0
_PAD = 12.0
_ROW = 17.0
_NOTES = 8


def draw_graph(proposal: Proposal, result: ProposalResult | None = None, *, title: str = "") -> str:
    """The plan as SVG text; with a result also how each action ended, and how long it took."""
    return _Picture(proposal, result, title).draw()


class _Picture:
    def __init__(self, proposal: Proposal, result: ProposalResult | None, title: str) -> None:
        self.actions = proposal.actions
        self.graph = Graph(proposal.actions)
        self.result = result
        self.ended: dict[str, ActionResult] = (
            {r.action_id: r for r in result.results} if result is not None else {}
        )
        self.untaken: dict[str, str] = {}
        """Ids of what nothing took back, each with how that stands."""
        if result is not None:
            self.untaken = {c.action_id: c.status for c in result.compensations if c.status != "succeeded"}
            self.untaken |= dict.fromkeys(result.irreversible, "irreversible")
        self.asked: dict[str, str] = {}
        """Ids of what waits for a person, each with the id of the question."""
        if result is not None:
            self.asked = {w.action_id: w.approval or "" for w in result.waiting if w.kind == "approval"}
        self.title = title
        self.canvas = Canvas()
        self.looks: Counter[str] = Counter()
        self.has_undo = any(a.compensation is not None for a in self.actions)
        rows = 2 + (result is not None) + self.has_undo
        self.height = _ROW * rows + 14
        longest = max((columns(clean(t, 32)) for a in self.actions for t in _words(a)), default=0)
        # Below that, a status with its time would not fit.
        least = 150.0 if result is None else 192.0
        self.width = max(least, min(30, longest) * _LETTER + 2 * _PAD + 6)

    def draw(self) -> str:
        top = self._heading()
        bottom = top
        if self.graph.faults:
            bottom = self._faults(top)
        elif self.graph.layers:
            bottom = self._plan(top)
        bottom = self._targets(bottom)
        bottom = self._notes(bottom)
        bottom = self._legend(bottom + 10)
        return self.canvas.finish(bottom + _MARGIN, label=clean(self.title or "a plan", 200))

    def _heading(self) -> float:
        c = self.canvas
        c.text(_MARGIN, 40, clean(self.title or "Plan", 80), size=18, weight="bold", ink="#1f2328")
        scheduled = sum(map(len, self.graph.layers))
        facts = [count_actions(len(self.actions), scheduled), count(len(self.graph.layers), "layer")]
        at = _MARGIN
        if self.result is not None:
            codes = [ended.exit_code for ended in self.result.results]
            has_nonzero = self.result.outcome == "succeeded" and any(map(is_nonzero, codes))
            look = outcome_mark(NONZERO if has_nonzero else self.result.outcome)
            words = f"{look.sign} {look.word}"
            c.text(at, 62, words, size=13, weight="bold", ink=look.ink)
            at += columns(words) * 8.6 + 8
            facts.append(f"{duration(self.result.cost.total_duration_ms) or '0 ms'} of work")
        c.text(at, 62, " · ".join(facts), size=13, ink="#57606a")
        return 88.0

    def _plan(self, top: float) -> float:
        graph = self.graph
        widest = min(13, max(map(len, graph.layers)))
        depth = min(41, len(graph.layers))
        # Left to right reads like a sentence; a long chain of single steps reads better downwards.
        across = depth * (self.width + 70) <= max(1800.0, 3.0 * widest * (self.height + 18))
        if across:
            layout = arrange(graph, is_notable=self._is_notable, size=self.height, gap=16, lane=6)
        else:
            layout = arrange(graph, is_notable=self._is_notable, size=self.width, gap=22, lane=8)
        main_size, main_gap = (self.width, 72.0) if across else (self.height, 44.0)
        places: dict[int, tuple[float, float]] = {}
        for n, layer in enumerate(layout.layers):
            along = n * (main_size + main_gap)
            for node in layer:
                if across:
                    places[id(node)] = (_MARGIN + along, top + node.cross)
                else:
                    places[id(node)] = (_MARGIN + node.cross, top + along)
        self._lines(layout, places, across)
        for layer in layout.layers:
            for node in layer:
                if not node.is_lane:
                    x, y = places[id(node)]
                    self._box(node, x if across else x - self.width / 2, y - self.height / 2 if across else y)
        length = len(layout.layers) * (main_size + main_gap) - main_gap
        self.canvas.reach(_MARGIN + (length if across else layout.breadth))
        bottom = top + (layout.breadth if across else length)
        if layout.lines_left_out:
            bottom += 20
            left_out = f"Not drawn: {count(layout.lines_left_out, 'more line')}."
            self.canvas.text(_MARGIN, bottom, left_out, size=12, ink="#57606a")
        return bottom

    def _lines(self, layout: Layout, places: dict[int, tuple[float, float]], across: bool) -> None:
        label = len(layout.lines) <= 60
        for line in layout.lines:
            points: list[tuple[float, float]] = []
            for node in line.path:
                x, y = places[id(node)]
                size = self.width if across else self.height
                enters, leaves = ((x, y), (x + size, y)) if across else ((x, y), (x, y + size))
                points += (
                    [leaves]
                    if node is line.path[0]
                    else [enters]
                    if node is line.path[-1]
                    else [enters, leaves]
                )
            keys = _key_names(line)
            self.canvas.curve(points, across=across, dashed=bool(line.keys), title=_tooltip(line, keys))
            if keys and label:
                # Near the end, because several lines may begin in one point.
                (x0, y0), (x1, y1) = points[-2], points[-1]
                x, y = (
                    ((x0 + x1) / 2, (y0 + y1) / 2 - 5) if across else ((x0 + x1) / 2 + 6, (y0 + y1) / 2 + 4)
                )
                words = clean(keys[0], 12) + (" …" if len(keys) > 1 else "")
                self.canvas.tag(x, y, words, anchor="middle" if across else "start")

    def _box(self, node: Node, x: float, y: float) -> None:
        if node.is_rest:
            self._rest(node, x, y)
            return
        action = self.actions[node.positions[0]]
        self._action(action, x, y)

    def _action(self, action: Action, x: float, y: float, undoes: str = "") -> None:
        look = self._look(action)
        ended = self.ended.get(action.id)
        lines = [(clean(action.id, 30), "bold", "#1f2328"), (clean(_does(action), 30), "normal", "#424a53")]
        if ended is not None:
            took = duration(ended.duration_ms)
            lines.append((f"{look.sign} {look.word}" + (f" · {took}" if took else ""), "bold", look.ink))
        if undoes:
            lines.append((f"undoes {clean(undoes, 22)}", "normal", "#57606a"))
        elif action.compensation is not None:
            lines.append((f"undo: {clean(_undo(action), 24)}", "normal", "#57606a"))
        hover = [f"{action.id}: {_does(action)}"]
        if ended is not None:
            hover.append(look.word + (f": {ended.error}" if ended.error else ""))
        self.canvas.box(
            x,
            y,
            self.width,
            self.height,
            ink=look.ink,
            paper=look.paper,
            title=clean(" | ".join(hover), 400),
            dashed=look is MARKS[AWAITING],
        )
        fit = int((self.width - 2 * _PAD) / _LETTER)
        at = y + (self.height - _ROW * len(lines)) / 2 + 12.5
        for words, weight, ink in lines:
            self.canvas.text(
                x + _PAD + 3, at, shorten(words, fit), size=12, weight=weight, ink=ink, mono=True
            )
            at += _ROW

    def _rest(self, node: Node, x: float, y: float) -> None:
        number = len(node.positions)
        lines = [f"+{number:,} more"]
        if node.layers > 1:
            lines = [f"+{number:,} more", f"in {count(node.layers, 'layer')}"]
        tally = Counter(self._status(self.actions[i]) for i in node.positions)
        if self.result is not None:
            for status, n in tally.most_common(2):
                look = mark(status)
                lines.append(f"{look.sign} {n:,} {look.word}")
        self.looks.update(tally)
        self.canvas.box(
            x,
            y,
            self.width,
            self.height,
            ink="#8c959f",
            paper="#ffffff",
            dashed=True,
            title=f"+{number:,} more",
        )
        lines = lines[: int((self.height - 8) // _ROW)]
        at = y + (self.height - _ROW * len(lines)) / 2 + 12.5
        for words in lines:
            self.canvas.text(x + self.width / 2, at, words, size=12, ink="#57606a", anchor="middle")
            at += _ROW

    def _targets(self, top: float) -> float:
        """Actions that only run to take others back, in a lane of their own."""
        if not self.graph.targets or self.graph.faults:
            return top
        c = self.canvas
        top += 34
        c.text(_MARGIN, top, "Only to take back", size=13, weight="bold", ink="#57606a")
        top += 12
        targets = list(self.graph.targets.items())
        per_row = max(1, int((max(c.width, 900.0) - 2 * _MARGIN + 22) // (self.width + 22)))
        shown = targets if len(targets) <= 3 * per_row else targets[: 3 * per_row - 1]
        boxes = [Node([t]) for t, _ in shown]
        if len(shown) < len(targets):
            boxes.append(Node([t for t, _ in targets[len(shown) :]], is_rest=True))
        for n, node in enumerate(boxes):
            x = _MARGIN + (n % per_row) * (self.width + 22)
            y = top + (n // per_row) * (self.height + 14)
            c.reach(x + self.width)
            if node.is_rest:
                self._rest(node, x, y)
            else:
                self._action(self.actions[node.positions[0]], x, y, self.actions[shown[n][1]].id)
        rows = -(-len(boxes) // per_row)
        return top + rows * (self.height + 14) - 14

    def _faults(self, top: float) -> float:
        for fault in self.graph.faults[:_NOTES]:
            self.canvas.text(
                _MARGIN, top, f"Refused: {clean(fault.message, 110)}", size=13, ink=MARKS["failed"].ink
            )
            top += 20
        if len(self.graph.faults) > _NOTES:
            rest = f"and {len(self.graph.faults) - _NOTES:,} more"
            self.canvas.text(_MARGIN, top, rest, size=13, ink="#57606a")
            top += 20
        return top

    def _notes(self, top: float) -> float:
        """What went wrong, in words: a picture on paper has no hover text."""
        notes: list[tuple[str, str]] = []
        if self.result is not None and self.result.error and self.result.outcome == "refused":
            notes.append((f"refused: {clean(self.result.error, 120)}", MARKS["failed"].ink))
        if self.result is not None:
            for wait in self.result.waiting:
                if wait.kind == "approval":
                    look = MARKS[AWAITING]
                    words = f"{look.sign} {clean(wait.action_id, 30)} waits for approval "
                    words += f"{clean(wait.approval or '', 20)}: {clean(wait.reason, 90)}"
                    notes.append((words, look.ink))
        for action in self.actions:
            ended = self.ended.get(action.id)
            if ended is not None and ended.status in ("failed", "rejected", "unknown") and ended.error:
                look = mark(ended.status)
                words = f"{look.sign} {clean(action.id, 30)} {look.word}: {clean(ended.error, 90)}"
                notes.append((words, look.ink))
        if self.result is not None:
            for undone in self.result.compensations:
                if undone.status != "succeeded":
                    why = clean(undone.error or "", 80)
                    words = f"✗ taking {clean(undone.action_id, 30)} back {undone.status}: {why}"
                    notes.append((words, MARKS["failed"].ink))
            look = MARKS["stays_done"]
            for name in self.result.irreversible:
                if name not in self.ended or self.ended[name].status != "unknown":
                    words = f"{look.sign} {clean(name, 30)} {look.word}: the abort does not undo it"
                    notes.append((words, look.ink))
        if not notes:
            return top
        top += 30
        for words, ink in notes[:_NOTES]:
            self.canvas.text(_MARGIN, top, words, size=12, ink=ink)
            self.canvas.reach(_MARGIN + columns(words) * 6.9)
            top += 18
        if len(notes) > _NOTES:
            self.canvas.text(_MARGIN, top, f"and {len(notes) - _NOTES:,} more", size=12, ink="#57606a")
            top += 18
        return top - 10

    def _legend(self, top: float) -> float:
        c = self.canvas
        top += 22
        x = _MARGIN
        known = MARKS if self.result is not None else _TYPES
        entries = [(name, look) for name, look in known.items() if self.looks[name]]
        for name, look in entries:
            words = f"{look.sign} {look.word}".strip()
            c.box(x, top - 11, 14, 14, ink=look.ink, paper=look.paper, title=name)
            c.text(x + 21, top, words, size=12, ink="#424a53")
            x += 21 + columns(words) * 7.2 + 20
        if any(self.graph.explicit) and not self.graph.faults:
            c.curve([(x, top - 4), (x + 34, top - 4)], across=True, dashed=False, title="")
            c.text(x + 42, top, "waits for", size=12, ink="#424a53")
            x += 42 + 9 * 7.2 + 20
        if not self.graph.faults and self.graph.conflicts:
            c.curve([(x, top - 4), (x + 34, top - 4)], across=True, dashed=True, title="")
            c.text(x + 42, top, "same state key, so in this order", size=12, ink="#424a53")
            x += 42 + 32 * 6.6
        c.reach(x)
        return top

    def _status(self, action: Action) -> str:
        """The name under which the action's looks are listed."""
        ended = self.ended.get(action.id)
        if self.result is None:
            return action.type
        if ended is None:
            return "proposed"
        if ended.rolled_back and ended.status == "succeeded":
            untaken = self.untaken.get(action.id)
            return "rolled_back" if untaken is None else "unknown" if untaken == "unknown" else "stays_done"
        if ended.stop_cause is not msgspec.UNSET:
            return "canceled"
        if ended.status in ("proposed", "validated") and action.id in self.asked:
            return AWAITING
        return NONZERO if ended.status == "succeeded" and is_nonzero(ended.exit_code) else ended.status

    def _look(self, action: Action) -> Mark:
        status = self._status(action)
        self.looks[status] += 1
        return mark(status) if self.result is not None else _TYPES[status]

    def _is_notable(self, position: int) -> bool:
        return bool(self.ended) and self._status(self.actions[position]) in _NOTABLE


def _does(action: Action) -> str:
    if action.type == "tool_call":
        return action.tool or "no tool"
    key = action.parameters.get("key")
    word = {"state_write": "write", "state_read": "read", "assertion": "assert"}[action.type]
    return f"{word} {key}" if isinstance(key, str) else action.type.replace("_", " ")


def _words(action: Action) -> Sequence[str]:
    """What a box has to have room for."""
    if action.compensation is None:
        return action.id, _does(action)
    return action.id, _does(action), f"undo: {_undo(action)}"


def _undo(action: Action) -> str:
    compensation = action.compensation
    if compensation is None:
        return ""
    return compensation.tool if isinstance(compensation, ToolCompensation) else compensation.action_id


def _key_names(line: Line) -> Sequence[str]:
    return ["any key" if key == ANY_KEY else key for key in line.keys]


def _tooltip(line: Line, keys: Sequence[str]) -> str:
    return "both use " + ", ".join(clean(key, 60) for key in keys[:8]) if keys else ""
