"""A run as a tree of layers: while it goes on, and when it has ended.

Keep true:
1. It fits: however many actions there are, at most `max_lines` of them are drawn, and what is left out is
   counted by status. A reason takes as many lines as it needs once the run has ended; before, it is cut.
2. What runs and what went wrong is shown before what is fine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.text import Text
from rich.tree import Tree

from placet.render.calls import came_words, given_words
from placet.render.history import History
from placet.render.marks import AWAITING, MARKS, NONZERO, mark, outcome_mark
from placet.render.questions import reason_words
from placet.render.steps import INTERRUPTED, Part, Step, unundone_words
from placet.render.text import count, count_actions, duration, exit_words, value
from placet.render.turns import Gap, Led, Made, Turn, is_notable, spent_words, worth_telling
from placet.render.wrapping import wrap_words
from placet.safe_text import clean, columns

_URGENCY = {
    AWAITING: 0,
    "executing": 0,
    "retrying": 0,
    "failed": 1,
    NONZERO: 1,
    "unknown": 1,
    "in_flight": 1,
    "stays_done": 1,
    "rejected": 2,
    "canceled": 3,
    "skipped": 3,
    "restored": 4,
    "rolled_back": 4,
    "succeeded": 5,
    "validated": 6,
    "proposed": 6,
}
_ID_WIDTH = 28
_TOOL_WIDTH = 24
_WORD = 11
"""Columns of the word for how a step stands."""
_GUIDES = 8
"""Columns that the lines of the tree take before an action."""
_CALLS_SHOWN = 10
"""Of more calls in one turn, the rest are counted."""
_GIVEN = 70
"""Columns of what a call was given, and of what came of it."""
_LONG = 1000
"""Longest reason that is shown whole."""


class Rows(NamedTuple):
    """One stretch of the tree: the steps of a layer that are shown, and how the others stand."""

    label: str
    shown: Sequence[Step]
    hidden: Counter[str]


def draw_tree(
    history: History,
    layers: Sequence[Sequence[str]],
    *,
    title: str = "",
    now: float | None = None,
    max_lines: int = 200,
    width: int = 100,
) -> Tree:
    """The newest proposal of a run, layer by layer.

    Args:
        layers: Ids of actions; ids that are in no layer only run to take others back.
        title: What to call the plan, such as its file.
        now: The present in seconds since the epoch, to show how long running steps have been at it.
    """
    part = history.last or Part("")
    every = [[part.steps.get(action_id) or Step(action_id) for action_id in layer] for layer in layers]
    tree = Tree(_head(part, every, title, now, width), guide_style="dim")
    undoing = [step for step in part.steps.values() if step.undoing is not None]
    began = {action_id: n for n, action_id in enumerate(part.compensated)}
    undoing.sort(key=lambda step: began.get(step.id, -1))
    told = undoing[: max(1, max_lines // 3)]
    room = max(4, max_lines - 1 - (len(told) + 2 if told else 0))
    shown = fit(every, room)
    names = _widths((step for rows in shown for step in rows.shown), told)
    for rows in shown:
        if not rows.shown:
            tree.add(_tally(rows.label, rows.hidden))
            continue
        branch = tree.add(Text(rows.label, style="dim"))
        for step in rows.shown:
            branch.add(_line(step, names, now, width))
        if rows.hidden:
            branch.add(_tally(f"+{rows.hidden.total():,} more", rows.hidden))
    if undoing:
        branch = tree.add(Text("taking back", style="dim"))
        for step in told:
            branch.add(_undo_line(step, part.undone_in_ms(step.id), names, width, is_whole=now is None))
        if len(undoing) > len(told):
            rest = Counter(step.undoing.status for step in undoing[len(told) :] if step.undoing is not None)
            branch.add(_tally(f"+{rest.total():,} more", rest))
    return tree


def draw_turns(history: History, *, title: str = "", width: int = 100) -> Tree:
    """A run that a loop of turns leads, turn by turn: what was asked for in each, and what became of it."""
    led = history.led or Led()
    whole = history.whole()
    state = led.state(bool(whole.waiting))
    look = outcome_mark("left" if led.is_left else state) if state is not None else MARKS["executing"]
    head = Text(no_wrap=True)
    head.append(f"{look.sign} {clean(look.word, 30)}", style=look.style)
    head.append(f"  {clean(title or history.run_id or '', 60)}", style="bold")
    facts = [count(led.count_turns(), "turn"), *([spent_words(led.spent)] if led.spent else ())]
    head.append(f"  {', '.join(facts)}", style="dim")
    tree = Tree(head, guide_style="dim")
    told = list(worth_telling(led.turns(), lambda turn: is_notable(turn, whole.steps)))
    rows = {id(turn): _calls(turn, whole) for turn in told if isinstance(turn, Turn)}
    names = _widths((step for steps in rows.values() for step in steps), ())
    for item in told:
        if isinstance(item, Gap):
            tally = Counter(step.look for turn in item.turns for step in _calls(turn, whole))
            tree.add(_tally(item.words, tally) if tally else Text(f"{item.words}: no calls", style="dim"))
            continue
        branch = tree.add(_turn_line(item, max(20, width - _GUIDES)))
        for step in rows[id(item)][:_CALLS_SHOWN]:
            branch.add(_line(step, names, None, width, _made_words(led.made.get(step.id), step)))
        if rest := rows[id(item)][_CALLS_SHOWN:]:
            branch.add(_tally(f"+{len(rest):,} more", Counter(step.look for step in rest)))
    return tree


def _made_words(made: Made | None, step: Step) -> str:
    """What a call was given, and how its result begins."""
    if made is None:
        return ""
    words = clean(given_words(made.parameters), _GIVEN)
    has_answer = step.look in ("succeeded", NONZERO)
    came = clean(came_words(made.text, made.parameters), _GIVEN) if has_answer else ""
    return " → ".join(filter(None, (words, came)))


def _turn_line(turn: Turn, width: int) -> Text:
    said = turn.text.strip()
    if not turn.is_answered:
        said = f"no answer: {turn.failures[-1]}" if turn.failures else "no answer"
    line = f"turn {turn.number:,}" + ("" if turn.is_of_model else "  read by the runtime for a small model")
    return Text(clean(f"{line}  {said}" if said else line, width), style="dim", no_wrap=True)


def _calls(turn: Turn, whole: Part) -> list[Step]:
    """What a turn asked for, also what did not become a plan or was not run."""
    found = []
    for n, name in enumerate(turn.all_ids()):
        refusal = turn.refusals.get(name)
        tool = turn.calls[n] if n < len(turn.calls) else refusal.tool if refusal is not None else None
        other = Step(name, tool=tool, status="rejected" if refusal is not None else "skipped")
        other.error = refusal.error if refusal is not None else "it was not run"
        found.append(whole.steps.get(name, other) if refusal is None else other)
    return found


def fit(layers: Sequence[Sequence[Step]], room: int) -> list[Rows]:
    """Choose what to show of the layers so that it takes at most `room` lines."""
    if sum(len(layer) + 1 for layer in layers) <= room:
        return [Rows(f"layer {n}", layer, Counter()) for n, layer in enumerate(layers, start=1)]
    ranked = sorted(
        (_URGENCY.get(step.look, 6), n, position)
        for n, layer in enumerate(layers)
        for position, step in enumerate(layer)
    )
    chosen = room
    while True:
        rows = _choose(layers, {(n, position) for _, n, position in ranked[:chosen]})
        if chosen == 0 or sum(len(r.shown) + bool(r.hidden) + bool(r.shown) for r in rows) <= room:
            return rows
        chosen = chosen * 3 // 4


def _choose(layers: Sequence[Sequence[Step]], chosen: set[tuple[int, int]]) -> list[Rows]:
    found: list[Rows] = []
    closed: Counter[str] = Counter()
    first = 0
    shown_layers = {n for n, _ in chosen}
    for n, layer in enumerate(layers):
        if n not in shown_layers:
            closed.update(step.look for step in layer)
            continue
        if closed:
            found.append(_closed(first, n - 1, closed))
        shown = [step for position, step in enumerate(layer) if (n, position) in chosen]
        hidden = Counter(step.look for position, step in enumerate(layer) if (n, position) not in chosen)
        found.append(Rows(f"layer {n + 1}", shown, hidden))
        closed, first = Counter(), n + 1
    if closed:
        found.append(_closed(first, len(layers) - 1, closed))
    return found


def _closed(first: int, last: int, tally: Counter[str]) -> Rows:
    label = f"layer {first + 1}" if first == last else f"layers {first + 1:,} to {last + 1:,}"
    return Rows(label, (), tally.copy())


def _head(part: Part, layers: Sequence[Sequence[Step]], title: str, now: float | None, width: int) -> Text:
    line = Text(no_wrap=True)
    if part.outcome is not None:
        look = outcome_mark(part.outcome_look or part.outcome)
        line.append(f"{look.sign} {clean(look.word, 30)}", style=look.style)
    else:
        looks = {step.look for layer in layers for step in layer}
        is_idle = AWAITING in looks and not looks & {"executing", "retrying"}
        look = outcome_mark("waiting") if is_idle else MARKS["executing"]
        line.append(f"{look.sign} {look.word}", style=look.style)
    line.append(f"  {clean(title or part.proposal_id, 60)}", style="bold")
    scheduled = sum(map(len, layers))
    # A plan that was refused has actions, and no layers.
    facts = [count_actions(part.action_count or scheduled, 0 if part.outcome == "refused" else scheduled)]
    facts += [count(len(layers), "layer")] if layers else []
    if part.outcome in (None, INTERRUPTED):
        done = sum(1 for layer in layers for step in layer if step.ended is not None)
        facts[0] = f"{done:,} of {facts[0]}"
    end = part.ended or now
    if part.started is not None and end is not None:
        facts.append(duration((end - part.started) * 1000))
    told = ", ".join(facts)
    # A line of its own where it would be cut; a tree that is drawn while it runs keeps its height.
    is_long = now is None and line.cell_len + 2 + len(told) > width
    line.append(("\n  " if is_long else "  ") + told, style="dim")
    return line


def _widths(steps: Iterable[Step], undoing: Iterable[Step]) -> tuple[int, int]:
    """Columns for ids and for tools, so that the lines of all layers align."""
    ids = tools = 0
    for step in steps:
        ids = max(ids, columns(clean(step.id, _ID_WIDTH)))
        tools = max(tools, columns(clean(step.does, _TOOL_WIDTH)))
    for step in undoing:
        ids = max(ids, columns(clean(step.id, _ID_WIDTH)))
        if step.undoing is not None:
            tools = max(tools, columns(clean(step.undoing.by, _TOOL_WIDTH)))
    return ids, tools


def _pad(text: str, width: int) -> str:
    shown = clean(text, width) if width else ""
    return shown + " " * (width - columns(shown))


def _line(step: Step, names: tuple[int, int], now: float | None, width: int, about: str = "") -> Text:
    look = mark(step.look)
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{look.sign} ", style=look.style)
    line.append(_pad(step.id, names[0]), style="bold")
    line.append(f"  {_pad(step.does, names[1])}  ", style="dim")
    word = exit_words(step.exit_code) if step.look == NONZERO else look.word
    if len(word) > _WORD:
        word = word.replace(" code", "")  # "exit 137": the columns behind it stay where they are.
    line.append(f"{clean(word, 20):<{_WORD}}", style=look.style)
    took = step.duration_ms
    if (
        took is None
        and step.status in ("executing", "retrying")
        and step.started is not None
        and now is not None
    ):
        took = (now - step.started) * 1000
    if now is not None and step.is_awaiting and step.question is not None and step.question.asked is not None:
        took = (now - step.question.asked) * 1000
    line.append(f" {duration(took):>8}")
    said = "; ".join(filter(None, (about, _remark(step))))
    _say(line, said, width, is_whole=now is None, style="dim" if step.error is None else "")
    return line


def _say(line: Text, said: str, width: int, *, is_whole: bool, style: str = "") -> None:
    """Add a remark: whole, over several lines where it must be, or cut to what is left of the line."""
    if not said:
        return
    room = width - _GUIDES - line.cell_len - 2
    if not is_whole:
        line.append("  " + clean(said, max(20, room - 2)), style=style)
        return
    said = clean(said, _LONG)
    if columns(said) <= room:
        line.append("  " + said, style=style)
        return
    beside = wrap_words(said, room) if room >= 30 else []
    if beside and max(map(columns, beside)) <= room:
        # Beside what stands there already; further left where a word, such as a path, would not fit.
        indent = " " * (line.cell_len + 2)
        line.append("  " + f"\n{indent}".join(beside), style=style)
        return
    line.rstrip()
    for words in wrap_words(said, max(20, width - _GUIDES - 4)):
        line.append(f"\n    {words}", style=style)


def _remark(step: Step) -> str:
    words: list[str] = []
    if step.is_awaiting and step.question is not None:
        words.append(f"waits for approval {step.question.id}")
        if step.question.reasons:
            words.append(reason_words(step.question.reasons, step.tier))
        return ": ".join(words)
    if step.status == "retrying" and step.retries:
        words.append(
            f"attempt {step.retries[-1].attempt} after {duration(step.retries[-1].delay_ms) or 'a wait'}"
        )
    elif step.attempts > 1:
        words.append(f"attempt {step.attempts}")
    if step.status == "executing" and step.progress:
        words.append(step.progress)
    if step.same_as is not None:
        words.append(f"same answer as '{step.same_as}'")
    elif step.is_cached:
        words.append("from the cache")
    if step.look == "stays_done":
        words.append("taking it back failed" if step.is_stuck else unundone_words(step))
    elif step.look == "restored":
        words.append("its folder is as before; what it did elsewhere stays")
    elif step.error:
        words.append(step.error)
    elif step.output is not None and step.look in ("succeeded", NONZERO) and step.type != "state_write":
        words.append(f"→ {value(step.output)}")
    said = ": ".join(words)
    if step.answer is not None and step.answer.is_given and step.look in ("succeeded", NONZERO):
        by = f"approved by '{step.answer.by}'" if step.answer.by else "approved"
        said = f"{said}, {by}" if said else by
    return said


def _undo_line(step: Step, took: float | None, names: tuple[int, int], width: int, *, is_whole: bool) -> Text:
    undoing = step.undoing
    assert undoing is not None
    look = mark(undoing.status)
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{look.sign} ", style=look.style)
    line.append(_pad(step.id, names[0]), style="bold")
    line.append(f"  {_pad(undoing.by, names[1])}  ", style="dim")
    line.append(f"{clean(look.word, 20):<11}", style=look.style)
    line.append(f" {duration(took):>8}")
    _say(line, undoing.error or "", width, is_whole=is_whole)
    return line


def _tally(label: str, tally: Counter[str]) -> Text:
    line = Text(f"{label}: ", style="dim", no_wrap=True)
    parts = sorted(tally.items(), key=lambda item: (_URGENCY.get(item[0], 6), item[0]))
    for n, (status, number) in enumerate(parts):
        look = mark(status)
        line.append(", " if n else "")
        line.append(f"{number:,} {clean(look.word, 20)}", style=look.style)
    return line
