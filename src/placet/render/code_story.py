"""A coding session told in sentences: what was wanted, which checks decide, what each iteration came to.

Keep true:
1. Only what the events say is told; what came of the turns of an iteration is told by a run of its own, which
   is named.
2. However long it was, the story can be read: what is left out is counted, and the command that shows all of
   it is named.
3. The last lines say what to do, as `placet code show` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from placet.events.event import Event
from placet.ir.json_value import JsonValue
from placet.render.advice import Advice, db_words, every_event, name_words
from placet.render.coding import check_words, included_words, look, next_steps
from placet.render.history import History
from placet.render.step_story import section
from placet.render.text import count, duration, listing, moment
from placet.safe_text import clean
from placet.truncation import truncate

_LONG = 300
_LINES = 120
"""Of more lines about what happened, those in the middle are counted."""


def tell_coding(history: History, *, log: str, db: str | None) -> list[Text]:
    """A run of a coding session, as a story; see `story.tell_history`."""
    events = history.coding
    data = _session(history)
    lines = list(_opening(history, events, data))
    happened = list(_happened(events, db_words(db), is_stored=not log))
    left_out = len(happened) - _LINES
    if left_out > 0:
        command = every_event(history, log, db)
        words = f"  … {count(left_out, 'line')} left out; to see all of it: {command}"
        happened = [*happened[: _LINES // 2], Text(words, "dim"), *happened[-_LINES // 2 :]]
    lines += section("What happened", happened)
    lines += section("What to do next", _next(history, db))
    return lines


def coding_advice(history: History, db: str | None) -> list[Advice]:
    """What to do next with the session that a history tells of."""
    return next_steps(_session(history), db)


def coding_data(history: History) -> dict[str, Any]:
    """What a history tells of a session, as JSON."""
    data = _session(history)
    return {name: data[name] for name in ("id", "intent", "repository", "model", "state", "reason", "branch")}


def _session(history: History) -> dict[str, Any]:
    """The session as far as its events tell it, in the words of `placet code show --json`."""
    data: dict[str, Any] = {
        "id": history.run_id or "ID",
        "state": "created",
        "reason": "",
        "run_status": history.coding_status,
        "intent": "",
        "repository": ".",
        "model": "",
        "included": [],
        "questions": [],
        "attempts": [],
        "checks": [],
        "iterations": 0,
        "has_change": False,
        "branch": "",
        "commit": "",
    }
    for event in history.coding:
        said = event.data
        match event.kind:
            case "coding_started":
                data |= {name: _word(said, name) for name in ("intent", "repository", "model")}
                data["included"] = _words(said.get("included"))
            case "coding_state_changed":
                data |= {"state": _word(said, "state"), "reason": _word(said, "reason")}
            case "coding_iteration_started":
                data["iterations"] += 1
            case "coding_iteration_ended":
                data["has_change"] = True
            case "check_completed" if said.get("attempt") == 0:
                data["checks"].append({"passed": said.get("passed") is True})
            case "coding_published":
                data |= {name: _word(said, name) for name in ("branch", "commit")}
            case _:
                pass
    return data


def _opening(history: History, events: Sequence[Event], data: Mapping[str, Any]) -> Iterator[Text]:
    line = Text("Coding session ")
    line.append(clean(history.run_id or "without an id", 60), style="bold")
    line.append(f" with the model '{clean(data['model'], 80)}'" if data["model"] else "")
    yield line
    if data["intent"]:
        yield Text(f"Intent: {clean(' '.join(str(data['intent']).split()), _LONG)}")
    if data["repository"] != ".":
        yield Text(f"Repository: {clean(data['repository'], _LONG)}")
    if data["included"]:
        yield Text(included_words(data["included"], is_published=data["state"] == "merged"))
    facts = [f"Began {moment(events[0].time)}"]
    took = duration((events[-1].time - events[0].time) * 1000)
    facts += [f"the last event came {took} later"] if took else []
    facts += [count(data["iterations"], "iteration")]
    yield Text(", ".join(facts) + ".")
    seen = look(data)
    reason = f": {clean(data['reason'], _LONG)}" if data["reason"] else ""
    branch = f" as {clean(data['branch'], 100)}" if data["branch"] and data["state"] == "merged" else ""
    yield Text(f"{seen.sign} {seen.words}{branch}{reason}", style=seen.style)
    for failure in history.sink_failures[:3]:
        yield Text(
            f"Some events may be missing elsewhere: a sink failed ({clean(failure, _LONG)}).", style="yellow"
        )


def _happened(events: Sequence[Event], place: str, *, is_stored: bool) -> Iterator[Text]:
    several = any(event.data.get("attempt") not in (None, 0, 1) for event in events)
    is_baseline = is_drafted = False
    for event in events:
        said = event.data
        attempt = said.get("attempt")
        mark = f"[{clean(attempt, 8)}] " if several and attempt else ""
        match event.kind:
            case "coding_contract":
                is_drafted = said.get("drafted") is True
                yield from _contract(said)
            case "coding_state_changed" if said.get("state") == "contract_confirmed":
                yield from [Text("  It was confirmed.")] if is_drafted else []
            case "coding_state_changed":
                yield from _state(said)
            case "check_started" if attempt == 0 and not is_baseline:
                is_baseline = True
                yield Text("  Before any work:")
            case "check_completed":
                result = _result(said)
                style = "green" if result["passed"] else "red"
                yield Text.assemble(f"    {mark}", (check_words(result), style))
            case "coding_iteration_started":
                most = said.get("most")
                of = f" of {clean(most, 12)}" if isinstance(most, int) else ""
                run = _word(said, "run")
                how = f" (its turns: placet explain {name_words(run)}{place})" if run and is_stored else ""
                yield Text(f"  {mark}Iteration {clean(said.get('iteration'), 12)}{of}{how}")
                if said.get("hint"):
                    yield Text(f"    {mark}it was told what helped before: repair {clean(said['hint'], 40)}")
            case "coding_iteration_ended":
                yield from _iteration_ended(said, mark)
            case "coding_seal_broken":
                paths = listing(_words(said.get("paths")))
                yield Text(
                    f"    {mark}✗ it changed files that checks depend on, and they were put back: {paths}",
                    style="red",
                )
            case "coding_question_asked":
                yield Text(f"    {mark}? it asked: {clean(_word(said, 'text'), _LONG)}", style="yellow")
            case "coding_question_closed":
                by = clean(_word(said, "by"), _LONG)
                yield Text(
                    f"    {mark}{f'{by} answered.' if by else 'nobody answered in time.'}", style="dim"
                )
            case "coding_published":
                branch, commit = (clean(truncate(_word(said, name), 100)) for name in ("branch", "commit"))
                yield Text(f"  ✓ It was published as {branch} ({commit[:10]}).", style="green")
            case "run_resumed":
                yield Text(f"  It was taken up again on {moment(event.time)}.", style="dim")
            case _:
                pass


def _contract(said: Mapping[str, JsonValue]) -> Iterator[Text]:
    yield Text("  The model drafted a contract:" if said.get("drafted") is True else "  The contract:")
    checks = said.get("checks")
    for number, check in enumerate(checks if isinstance(checks, list) else (), start=1):
        if isinstance(check, dict):
            command = clean(_word(check, "command"), _LONG)
            yield Text(f"    {number}. {clean(_word(check, 'name'), 80)}: `{command}`")


def _state(said: Mapping[str, JsonValue]) -> Iterator[Text]:
    state = _word(said, "state")
    why = f": {clean(reason, _LONG)}" if (reason := _word(said, "reason")) else "."
    match state:
        case "contract_proposed":
            yield Text("  It waited for a person to confirm it.", style="yellow")
        case "needs_approval":
            yield Text("  ✓ All checks are green: the change waited for approval.", style="green")
        case "failed":
            yield Text(f"  ✗ It failed{why}", style="bold red")
        case "abandoned":
            yield Text(f"  ■ It was abandoned{why}", style="yellow")
        case _:
            pass  # Told by what comes of it.


def _iteration_ended(said: Mapping[str, JsonValue], mark: str) -> Iterator[Text]:
    turns = said.get("turns")
    facts = [count(turns, "turn")] if isinstance(turns, int) else []
    facts += [f"ended as {clean(_word(said, 'status'), 40)}"] if _word(said, "status") != "success" else []
    red = listing(_words(said.get("red")))
    judged = "green" if said.get("green") is True else f"red: {red}" if red else "not green"
    yield Text(f"    {mark}→ {judged} ({', '.join(facts)})" if facts else f"    {mark}→ {judged}")
    why = _word(said, "why_no_further")
    if why and said.get("green") is not True:
        yield Text(f"    {mark}it went no further: {clean(why, _LONG)}")


def _next(history: History, db: str | None) -> Iterator[Text]:
    for advice in coding_advice(history, db):
        yield Text(f"  - {advice.sentence}")
        if advice.command:
            yield Text(f"      {advice.command}", style="bold")


def _result(said: Mapping[str, JsonValue]) -> dict[str, Any]:
    took = said.get("duration_ms")
    is_number = isinstance(took, int | float) and not isinstance(took, bool)
    return {
        "name": _word(said, "name"),
        "passed": said.get("passed") is True,
        "why": _word(said, "why"),
        "duration_ms": float(took) if is_number and isinstance(took, int | float) else None,
    }


def _word(said: Mapping[str, JsonValue], name: str) -> str:
    found = said.get(name)
    return found if isinstance(found, str) else ""


def _words(found: JsonValue) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
