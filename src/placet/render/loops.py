"""Loops and their rounds as text: how each stands, what its rounds came to, and what they took over time.

Keep true:
1. Every line is cleaned: summaries, reasons and names of files are others' text.
2. It reads without colour: a sign and a word say what a colour would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from placet.render.advice import db_words
from placet.render.text import count, duration, moment
from placet.render.turns import money
from placet.safe_text import clean
from placet.truncation import redacted

Data = Mapping[str, Any]
"""A loop or a round as JSON, as `placet loop list --json` and `placet loop show --json` print them."""

_LINE = 200
_BARS = " ▁▂▃▄▅▆▇█"
_PHASES = {
    "recalling": "reading earlier rounds, and running the checks before any work",
    "making": "the maker works",
    "freezing": "freezing the change",
    "checking": "the checks run, and the checker works",
    "judging": "judging",
    "gating": "deciding whether it may act",
    "executing": "acting on the change",
    "recording": "recording it",
}
_SIGNS: dict[str, tuple[str, str, str]] = {
    "reported": ("·", "reported", "cyan"),
    "proceeded": ("✓", "proceeded", "green"),
    "escalated": ("?", "escalated", "bold yellow"),
    "budget_exhausted": ("◐", "budget exhausted", "yellow"),
    "failed": ("✗", "failed", "bold red"),
    "stopped": ("■", "stopped", "yellow"),
}


def sign_of(outcome: str | None) -> str:
    """The one character that stands for an outcome."""
    return _SIGNS[outcome][0] if outcome in _SIGNS else "▸"


def outcome_words(data: Data) -> str:
    """What a round came to.

    >>> outcome_words({"outcome": "budget_exhausted", "limit": "tokens", "waiting": False})
    '◐ budget exhausted (tokens)'
    """
    outcome = data.get("outcome")
    if outcome is None:
        return f"▸ {clean(str(data.get('phase', 'running')), 40)}"
    sign, words, _ = _SIGNS.get(outcome, ("?", clean(str(outcome), 40), ""))
    if outcome == "budget_exhausted" and data.get("limit"):
        words += f" ({clean(data['limit'], 40)})"
    if outcome == "escalated" and not data.get("waiting") and data.get("later"):
        words += f", {data['later'][-1]['what']}"
    return f"{sign} {words}"


def _style(outcome: str | None) -> str:
    return _SIGNS[outcome][2] if outcome in _SIGNS else ""


# Loops


def state_words(data: Data) -> str:
    """How a loop stands, in a few words."""
    if data.get("all_stopped"):
        return "■ all loops are stopped"
    if data.get("stop"):
        return "■ stopped"
    if data.get("running"):
        return "▸ running"
    if data.get("pause"):
        return "‖ paused"
    if data.get("interrupted"):
        return "▸ broken off, to be taken up"
    if data.get("waiting"):
        return f"? {count(data['waiting'], 'round')} to decide"
    return "· ready"


def loops_table(loops: Sequence[Data]) -> Table:
    """A line for each loop."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("loop", "level", "when", "next", "last", "state"):
        table.add_column(heading, no_wrap=heading not in ("state",), overflow="fold")
    for each in loops:
        last = each.get("last")
        table.add_row(
            clean(each["name"], 64),
            each["level"] or "",
            clean(each["cadence"], 60) or "when asked",
            moment(each["due"]) if each.get("due") is not None and not each.get("pause") else "",
            Text(_SIGNS[last][0] + " " + _SIGNS[last][1], style=_style(last)) if last in _SIGNS else "",
            state_words(each),
        )
    return table


def loop_lines(data: Data, rounds: Sequence[Data], *, width: int = 60) -> Iterator[Text]:
    """One loop: what it is for, how it stands, and its rounds over time."""
    yield Text(f"{data['name']}: {clean(data['intent'], _LINE)}", style="bold")
    standing = data.get("standing")
    is_lowered = standing is not None and standing["level"] != "L3"
    lowered = f" (at most {standing['level']} for now)" if standing is not None and is_lowered else ""
    yield Text(f"  level {data['level']}{lowered}, {clean(data['cadence'], 80) or 'runs when asked'}")
    yield Text(f"  {state_words(data)}{_why(data)}")
    if data.get("due") is not None and not (data.get("pause") or data.get("stop")):
        yield Text(f"  next at {moment(data['due'])}")
    if standing is not None and is_lowered:
        yield Text(f"  put down: {clean(standing['reason'], _LINE)}")
        yield Text(f"  to lift that: placet loop raise {clean(data['name'], 80)} --because TEXT")
    elif standing is not None:
        by = f" by {clean(standing['by'], 60)}" if standing["by"] else ""
        yield Text(f"  raised again{by} at {moment(standing['since'])}: {clean(standing['reason'], _LINE)}")
    if data.get("suggestion"):
        yield Text(f"  {clean(data['suggestion'], _LINE)}")
    if not rounds:
        yield Text("  no round yet")
        return
    yield Text("")
    yield from chart(rounds, width=width)


def _why(data: Data) -> str:
    for mark in (data.get("all_stopped"), data.get("stop"), data.get("pause")):
        if mark:
            by = f" by {clean(mark['by'], 60)}" if mark.get("by") else ""
            reason = f": {clean(mark['reason'], _LINE)}" if mark.get("reason") else ""
            return f"{by}{reason}"
    return ""


# Rounds over time


def bar(value: float, most: float) -> str:
    """One character as high as a value is, of the most that there is.

    >>> "".join(bar(each, 8) for each in (0, 1, 4, 8))
    ' ▁▄█'
    """
    if most <= 0 or value <= 0:
        return _BARS[0]
    return _BARS[max(1, round(value / most * 8))]


def chart(rounds: Sequence[Data], *, width: int = 60) -> Iterator[Text]:
    """Rounds from the oldest to the newest, a column each: what they came to, the tokens they took, the
    money and the time; and what it all adds up to. `rounds` is newest first."""
    shown = list(reversed(rounds[:width]))
    first, last = shown[0], shown[-1]
    yield Text(
        f"  {count(len(shown), 'round')}, {first['number']} to {last['number']}, "
        f"{_day(first['started_at'])} to {_day(last['started_at'])}"
    )
    outcomes = Text("  outcome  ")
    for each in shown:
        outcomes.append(sign_of(each["outcome"]), style=_style(each["outcome"]))
    yield outcomes
    for name, key, words in (
        ("tokens", "total_tokens", lambda value: count(int(value), "token")),
        ("cost", "cost_usd", money),
        ("time", "time_s", lambda value: duration(value * 1000)),
    ):
        values = [float(each["spend"][key]) for each in shown]
        if not any(values):
            continue
        most = max(values)
        line = "".join(bar(value, most) for value in values)
        yield Text(f"  {name:<8} {line}  at most {words(most)}, {words(sum(values))} in all")
    counted = [
        f"{sign} {sum(each['outcome'] == outcome for each in shown)} {words}"
        for outcome, (sign, words, _) in _SIGNS.items()
        if any(each["outcome"] == outcome for each in shown)
    ]
    if counted:
        yield Text(f"  {'  '.join(counted)}")


def _day(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")


def phase_words(phase: str, number: int) -> str:
    """What a round is doing, in words.

    >>> phase_words("making", 3), phase_words("new", 3)
    ('round 3: the maker works', 'round 3: new')
    """
    return f"round {number}: {_PHASES.get(phase, clean(phase, 40))}"


def rounds_table(rounds: Sequence[Data], *, fills: bool = True) -> Table:
    """A line for each round; one that `fills` the screen gives its last column what is left."""
    # The last column gets what is left: the others stay whole.
    table = Table(box=None, pad_edge=False, header_style="bold", expand=fills)
    for heading in ("round", "loop", "no.", "began", "outcome", "tokens", "cost", "what"):
        is_last = heading == "what"
        table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1 if is_last else None)
    for each in rounds:
        spend = each["spend"]
        table.add_row(
            clean(each["id"], 40),
            clean(each["loop"], 64),
            str(each["number"]),
            moment(each["started_at"]),
            Text(outcome_words(each), style=_style(each["outcome"])),
            f"{spend['total_tokens']:,}" if spend["total_tokens"] else "",
            money(spend["cost_usd"]) if spend["cost_usd"] else "",
            clean(" ".join((each["summary"] or each["reason"]).split()), 80),
        )
    return table


def round_lines(data: Data, *, db: str | None = None) -> Iterator[Text]:
    """One round, whole: from what was made to what came of it, and what to do next."""
    yield Text(f"{data['loop']}, round {data['number']} ({clean(data['id'], 60)})", style="bold")
    yield Text(f"  {outcome_words(data)}", style=_style(data["outcome"]))
    if data["reason"]:
        yield Text(f"  {clean(data['reason'], 400)}")
    began = moment(data["started_at"])
    took = (
        f", took {duration((data['ended_at'] - data['started_at']) * 1000)}"
        if data["ended_at"] is not None and data["ended_at"] > data["started_at"]
        else ""
    )
    due = f", due {moment(data['due_at'])}" if data["due_at"] is not None else ", because somebody asked"
    yield Text(f"  level {data['level']}, began {began}{took}{due}")
    yield from _text("summary", data["summary"])
    for who in ("maker", "checker"):
        if data[who] is not None:
            one = data[who]
            model = f" ({clean(one['model'], 80)})" if one["model"] else ""
            yield Text(f"  {who}{model}: {clean(one['status'], 40)} after {count(one['turns'], 'turn')}")
            if one["error"]:
                yield Text(f"    {clean(one['error'], _LINE)}")
    if data["tree"]:
        yield Text(f"  tree {data['tree'][:12]} on {data['base'][:12]}: {_files(data['changed'])}")
    if data["included"]:
        yield Text(f"  began with what was not committed: {_files(data['included'])}")
    for name in data["put_back"]:
        yield Text(f"  put back: {clean(name, _LINE)}, which checks depend on")
    verdict = data["verdict"]
    if verdict is not None:
        yield Text(f"  verdict: {clean(verdict['verdict'], 40)}")
    for check in data["checks"]:
        state = "green" if check["passed"] else f"red, {clean(check['why'], _LINE)}"
        yield Text(f"  {'✓' if check['passed'] else '✗'} {clean(check['name'], 80)}: {state}")
    if data["verified"]:
        yield Text("  verified")
    elif data["unverified"]:
        yield Text(f"  not verified: {clean(data['unverified'], _LINE)}")
    if data["decision"] is not None:
        word = "may act" if data["decision"]["proceed"] else "needs a person"
        yield Text(f"  decision: {word}: {clean(data['decision']['reason'], _LINE)}")
    if data["receipt"] is not None:
        yield Text(f"  receipt: {clean(data['receipt']['summary'], _LINE)}")
    spend = data["spend"]
    facts = [count(spend["total_tokens"], "token")]
    facts += [money(spend["cost_usd"])] if spend["cost_usd"] else []
    facts += [duration(spend["time_s"] * 1000)] if spend["time_s"] else []
    yield Text(f"  spent: {', '.join(facts)}")
    for later in data["later"]:
        by = f" by {clean(later['by'], 60)}" if later["by"] else ""
        reason = f": {clean(later['reason'], _LINE)}" if later["reason"] else ""
        yield Text(f"  later: {later['what']}{by} at {moment(later['at'])}{reason}")
    if data["changed"]:
        yield Text(f"The change: placet loop diff {clean(data['id'], 60)}{db_words(db)}")
    if data["waiting"] and data["approval"]:
        yield Text(f"Decide: placet approvals show {clean(data['approval'], 60)}{db_words(db)}")


def round_steps(
    phases: Sequence[tuple[str, float]], runs: Sequence[str], *, db: str | None = None
) -> Iterator[Text]:
    """The phases that a round went through, one after the other, and where the rest of the story is."""
    if phases:
        began = phases[0][1]
        yield Text("")
        yield Text("What happened", style="bold")
        for name, time in phases:
            yield Text(f"  {clean(name, 40):<12} +{max(time - began, 0):.3f} s")
    if runs:
        yield Text("")
        yield Text("What maker and checker did", style="bold")
        for run in runs:
            yield Text(f"  placet explain {clean(run, 80)}{db_words(db)}")


def _text(name: str, text: str) -> Iterator[Text]:
    if text.count("\n") > 20:
        text = redacted(text)
    lines = [line for line in text.strip().split("\n") if line.strip()]
    for line in lines[:20]:
        yield Text(f"  “ {clean(line.strip().expandtabs(4), _LINE)}")
    if len(lines) > 20:
        yield Text(f"  “ … {count(len(lines) - 20, 'more line')} of the {name}")


def _files(changed: Sequence[str]) -> str:
    if not changed:
        return "nothing is changed"
    some = ", ".join(clean(name, 80) for name in changed[:6])
    return some + (f" and {len(changed) - 6} more" if len(changed) > 6 else "")


# While a scheduler runs


def notice_words(data: Data) -> str:
    """What a scheduler did, in one line."""
    name, why = clean(data["loop"], 64), clean(data.get("why") or "", _LINE)
    match data["what"]:
        case "began":
            missed = ", also for the times before that nobody was there for" if data.get("missed") else ""
            due = f" (due {moment(data['due'])}{missed})" if data.get("due") is not None else ""
            return f"▸ {name}: round {clean(data['round'], 60)} begins{due}"
        case "took_up":
            return f"▸ {name}: round {clean(data['round'], 60)} was broken off; it is taken up"
        case "ended":
            sign, words, _ = _SIGNS.get(data.get("how") or "", ("?", "ended", ""))
            again = f"; next at {moment(data['again_at'])}" if data.get("again_at") is not None else ""
            return f"{sign} {name}: {words}{f', {why}' if why else ''}{again}"
        case "paused":
            return f"‖ {name} is paused: {why}. Let it go on with: placet loop resume {name}"
        case "left":
            return f"■ {name}: round {clean(data['round'], 60)} is left; the next start takes it up"
    return f"! {name}: {why}"
