"""Events as lines: when, what, to which action, and the part of the data that a person wants to see.

Keep true:
1. One event is one line, and nothing in it can steer a terminal.
2. Where time passed because a person was waited for, the line says so: nobody takes it for work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from rich.text import Text

from placet.events.event import Event
from placet.events.schema import HARNESS
from placet.ir.json_value import JsonValue
from placet.ir.result import is_nonzero
from placet.render.calls import came_words, given_words
from placet.render.coding import state_words
from placet.render.history import exit_code_in
from placet.render.marks import AWAITING, MARKS, NONZERO, Mark, outcome_mark
from placet.render.questions import GIVEN, Question, answer_words, posture_words, reason_words
from placet.render.steps import TERMINAL
from placet.render.text import count, duration, exit_words, moment, progress, restored_words, value
from placet.render.turns import money, outcome_of
from placet.safe_text import clean

_MARKED: dict[str, str] = {
    **{f"action_{status}": status for status in (*TERMINAL, "executing", "retrying", "validated")},
    "policy_violation": "rejected",
    "approval_requested": AWAITING,
    "compensation_started": "executing",
    "compensation_succeeded": "rolled_back",
    "compensation_failed": "failed",
    "state_rollback": "rolled_back",
    "workspace_restored": "rolled_back",
    "sink_failed": "failed",
    "rule_warning": "unknown",
    "turn_failed": "failed",
    "turn_call_refused": "rejected",
    "coding_seal_broken": "failed",
    "coding_question_asked": AWAITING,
    "coding_published": "succeeded",
}
_PLAIN = Mark("·", "", "", "", "")
_LONG = 200
_TOKENS = (("input_tokens", "in"), ("output_tokens", "out"))
_NAMED = 3
_MOST_CALLS = 1_000
"""Of which it is remembered what they were given, until they end: of a plan's calls no line asks for it."""


def draw_timeline(events: Iterable[Event], *, with_runs: bool = False) -> Iterator[Text]:
    """A line for each event; `with_runs` says of each which run it belongs to."""
    day = ""
    waits, given = _Waits(), _Given()
    for event in events:
        try:
            when = datetime.fromtimestamp(event.time, UTC)
        except (OverflowError, ValueError, OSError):
            when = datetime.fromtimestamp(0, UTC)
        if when.date().isoformat() != day:
            day = when.date().isoformat()
            yield Text(f"{day} (UTC)", style="bold")
        yield _line(event, f"{when:%H:%M:%S}.{when.microsecond // 1000:03d}", with_runs, waits, given)


class _Given:
    """With what calls were made that have not ended yet."""

    def __init__(self) -> None:
        self._parameters: dict[tuple[str | None, str | None], dict[str, JsonValue]] = {}

    def of(self, event: Event) -> dict[str, JsonValue]:
        """What the call was given that an event is about."""
        key = event.run_id, event.action_id
        found = event.data.get("parameters")
        if event.kind == "turn_call_ended":
            given = self._parameters.pop(key, {})
            return found if isinstance(found, dict) else given
        if event.kind == "action_executing" and isinstance(found, dict):
            if len(self._parameters) == _MOST_CALLS:
                self._parameters.pop(next(iter(self._parameters)))
            self._parameters[key] = found
            return found
        return {}


class _Waits:
    """Since when people are waited for."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str | None, str], float] = {}
        self._let_go: dict[str | None, float] = {}

    def tell(self, event: Event) -> Iterator[str]:
        """What an event says about waiting."""
        data = event.data
        match event.kind:
            case "approval_requested":
                self._asked.setdefault((event.run_id, _id_of(event)), event.time)
                yield f"waits for approval {clean(_id_of(event), 40)}"
                yield reason_words([r for r in _items(data.get("reasons")) if isinstance(r, str)])
                expires = _number(data.get("expires_at"))
                if expires is not None:
                    yield f"until {moment(expires)}"
            case "approval_recorded":
                question = Question(
                    _id_of(event),
                    asked=self._asked.pop((event.run_id, _id_of(event)), None),
                    decision=_word(data.get("decision")) or "",
                    by=_word(data.get("by")),
                    reason=_word(data.get("reason")),
                    decided=_number(data.get("decided_at")),
                    noted=event.time,
                )
                yield f"approval {clean(question.id, 40)} was {answer_words(question)}"
            case "permission_decision":
                answers = {"ask": "which has to be asked for", "deny": "which is denied here"}
                answer = answers.get(str(data.get("decision")), "which is granted")
                yield f"needs {clean(data.get('tier'), 40)}, {answer}"
            case "proposal_ended" if data.get("outcome") == "waiting":
                self._let_go[event.run_id] = event.time
            case "run_resumed":
                since = self._let_go.pop(event.run_id, None)
                paused = duration((event.time - since) * 1000) if since is not None else ""
                if paused:
                    yield f"after {paused} of waiting for a person"


def _id_of(event: Event) -> str:
    return _word(event.data.get("approval")) or ""


def _word(item: JsonValue) -> str | None:
    return item if isinstance(item, str) else None


def _number(item: JsonValue) -> float | None:
    is_one = isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < 1e15
    return float(item) if is_one else None


def _items(item: JsonValue) -> list[JsonValue]:
    return list(item) if isinstance(item, list | tuple) else []


def _line(event: Event, clock: str, with_runs: bool, waits: _Waits, given: _Given) -> Text:
    look = _look(event)
    line = Text(f"{clock}  ", style="dim")
    if with_runs:
        line.append(f"{clean(event.run_id or '-'):12}  ")
    line.append(look.sign, style=look.style)
    line.append(f" {clean(event.kind.replace('_', ' '), 26):26}")
    if event.action_id is not None:
        line.append(f" {clean(event.action_id, 40)}", style="bold")
    details = "; ".join(words for words in (*_details(event, given.of(event)), *waits.tell(event)) if words)
    if details:
        line.append(f"  {details}")
    return line


def _look(event: Event) -> Mark:
    if event.kind == "proposal_ended":
        return outcome_mark(str(event.data.get("outcome")))
    if event.kind == "check_completed":
        return MARKS["succeeded" if event.data.get("passed") is True else "failed"]
    if event.kind == "turn_loop_ended":
        return outcome_mark(outcome_of(str(event.data.get("status"))))
    if event.kind == "approval_recorded":
        return MARKS["succeeded" if str(event.data.get("decision")) in GIVEN else "rejected"]
    if event.kind == "action_succeeded" and is_nonzero(exit_code_in(event.data)):
        return MARKS[NONZERO]
    return MARKS.get(_MARKED.get(event.kind, ""), _PLAIN)


def _details(event: Event, given: Mapping[str, JsonValue]) -> Iterator[str]:
    data = event.data
    if "tool" in data and data["tool"] is not None:
        yield clean(data["tool"], 40)
    if event.kind == "action_executing":
        called = clean(given_words(given), _LONG)
        yield f"with {called}" if called else ""
    elif event.kind == "proposal_received":
        actions = data.get("action_count")
        source = data.get("source")
        yield f"{count(actions, 'action') if isinstance(actions, int) else 'a plan'}" + (
            f" from '{clean(source, 40)}'" if source not in (None, "unknown") else ""
        )
    elif event.kind == "proposal_ended":
        yield clean(data.get("outcome"), 40)
    elif event.kind == "command_ran":
        how = f" by {clean(data.get('by'), 40)}" if data.get("by") != "nothing" else ""
        yield f"{clean(data.get('program'), 80)}, isolation {clean(data.get('isolation'), 40)}{how}"
    elif event.kind == "model_answered":
        yield from _answered(data)
    elif event.kind.startswith("turn_"):
        yield from _of_turn(event.kind, data, given)
    elif event.kind.startswith(("coding_", "check_")):
        yield from _of_coding(event.kind, data)
    elif event.kind == "workspace_restored":
        yield f"{clean(data.get('folder'), 200)}: {restored_words(data)}"
        yield from _some(data, "problems", "")
        yield from _some(data, "not_restored", "not as before: ")
    elif event.kind == "workspace_snapshot":
        files = data.get("files")
        yield clean(data.get("folder"), 200) + (f": {count(files, 'file')}" if isinstance(files, int) else "")
        yield from _some(data, "left_out", "left out: ")
    elif event.kind == "posture_changed":
        yield posture_words(data)
    elif event.kind == "isolation_lowered":
        words = ("required", "lowered_to", "until", "because")
        required, lowered_to, until, because = (clean(data.get(name), 100) for name in words)
        yield f"from '{required}' to '{lowered_to}' until {until}: {because}"
    elif event.kind == "action_progress":
        done, total = (data.get(name) for name in ("done", "total"))
        yield clean(progress(str(data.get("message") or ""), _real(done), _real(total)), 200)
    if event.kind == "turn_loop_ended":
        data = {name: told for name, told in data.items() if name != "status"}  # Said above.
    if event.kind.startswith("coding_"):
        data = {name: told for name, told in data.items() if name not in ("attempt", "status")}
    for name in ("status", "attempt", "delay_ms", "of", "completed", "unknown", "decided", "sink", "lost"):
        shown = data.get(name)
        if shown is not None and shown != [] and shown != {} and not (name == "attempt" and shown == 1):
            yield f"{name.replace('_ms', '').replace('_', ' ')} {_short(name, shown)}"
    if isinstance(data.get("changes"), dict):
        yield ", ".join(f"{clean(k, 40)} = {value(v, 40)}" for k, v in list(data["changes"].items())[:5])
    if event.kind != "command_ran" and is_nonzero(code := exit_code_in(data)):
        yield exit_words(code)
    took = data.get("duration_ms")
    if isinstance(took, int | float) and not isinstance(took, bool):
        yield duration(float(took)) or "no time"
    for name in ("error", "reason") if event.kind != "approval_recorded" else ():
        if isinstance(data.get(name), str):
            yield clean(data[name], _LONG)


def _some(data: Mapping[str, JsonValue], name: str, title: str) -> Iterator[str]:
    """The first few of a list, and how many there are besides."""
    found = [clean(each, 80) for each in _items(data.get(name))]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        yield f"{title}{', '.join(found[:_NAMED])}{more}"


def _short(name: str, shown: JsonValue) -> str:
    if name == "delay_ms" and isinstance(shown, int | float):
        return duration(float(shown)) or "0 ms"
    return clean(shown, 60) if isinstance(shown, str) else value(shown, 80)


def _real(found: JsonValue) -> float | None:
    return float(found) if isinstance(found, int | float) and abs(found) < 1e15 else None


def _answered(data: Mapping[str, JsonValue]) -> Iterator[str]:
    """Who answered, what it took, and why it was that one."""
    if data.get("model") == HARNESS:
        yield "by the runtime itself, for a small model"
        return
    took = [*_took(data)]
    yield ", ".join([clean(data.get("model"), 80), *took])
    if data.get("because"):
        yield clean(data["because"], 200)


def _took(data: Mapping[str, JsonValue]) -> Iterator[str]:
    for key, word in _TOKENS:
        if isinstance(data.get(key), int):
            yield f"{count(data[key], 'token')} {word}"
    cost = _real(data.get("cost"))
    if cost is not None:
        yield money(cost)


def _of_turn(kind: str, data: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> Iterator[str]:
    """What a loop of turns says of itself."""
    match kind:
        case "turn_loop_started":
            yield f"'{clean(data.get('source'), 40)}' with {clean(data.get('model') or 'a model', 80)}"
            yield clean(data.get("task") or "", _LONG)
        case "turn_asked":
            yield clean(data.get("text") or "", _LONG)
        case "turn_answered":
            yield f"turn {clean(data.get('turn'), 12)}"
            calls = [clean(name, 40) for name in _items(data.get("calls"))]
            more = f" and {len(calls) - 8} more" if len(calls) > 8 else ""
            yield f"asks for {', '.join(calls[:8])}{more}" if calls else ""
            yield clean(str(data.get("text") or "").strip(), _LONG)
            yield from _answered(data)
        case "turn_call_ended":
            yield f"turn {clean(data.get('turn'), 12)}"
            if "parameters" in data:  # In older logs; now the line of the attempt has them.
                words = clean(given_words(given), _LONG)
                yield f"with {words}" if words else ""
            came = clean(came_words(_word(data.get("text")) or "", given), _LONG)
            yield f"→ {came}" if came else ""
        case "turn_compacted":
            results, turns = (clean(data.get(name), 12) for name in ("results", "turns"))
            yield f"turn {clean(data.get('turn'), 12)}; {results} results shortened, {turns} turns left out"
        case "turn_loop_ended":
            number = data.get("turns")
            after = f" after {count(number, 'turn')}" if isinstance(number, int) else ""
            yield f"{clean(data.get('status'), 40)}{after}"
            yield ", ".join(_took(data))
            if data.get("summary") != data.get("error"):
                yield clean(str(data.get("summary") or "").strip(), _LONG)
        case _:
            yield f"turn {clean(data.get('turn'), 12)}" if "turn" in data else ""


def _of_coding(kind: str, data: Mapping[str, JsonValue]) -> Iterator[str]:
    """What a coding session says of itself."""
    match kind:
        case "coding_started":
            yield f"with {clean(data.get('model') or 'a model', 80)}"
            yield clean(" ".join((_word(data.get("intent")) or "").split()), _LONG)
        case "coding_contract":
            yield "drafted by the model" if data.get("drafted") is True else ""
            commands = [
                check.get("command") for check in _items(data.get("checks")) if isinstance(check, dict)
            ]
            yield from _some({"checks": commands}, "checks", "")
        case "coding_state_changed":
            yield state_words(_word(data.get("state")) or "")
        case "coding_iteration_started":
            yield _iteration(data, f" of {clean(data.get('most'), 12)}")
            yield f"told of repair {clean(data['hint'], 40)}" if data.get("hint") else ""
        case "coding_iteration_ended":
            yield _iteration(data)
            red = [*_some(data, "red", "red: ")]
            yield "green" if data.get("green") is True else red[0] if red else "not green"
            turns = data.get("turns")
            yield count(turns, "turn") if isinstance(turns, int) else ""
            yield "" if data.get("green") is True else clean(_word(data.get("why_no_further")) or "", _LONG)
        case "coding_seal_broken":
            yield _iteration(data)
            yield from _some(data, "paths", "put back: ")
        case "coding_question_asked":
            yield clean(_word(data.get("text")) or "", _LONG)
        case "coding_question_closed":
            by = clean(_word(data.get("by")) or "", _LONG)
            yield f"answered by {by}" if by else "nobody answered in time"
        case "coding_published":
            yield f"{clean(data.get('branch'), 100)} ({clean((_word(data.get('commit')) or '')[:10])})"
        case "check_started":
            yield clean(data.get("name"), 80)
            yield clean(data.get("command"), _LONG)
        case "check_completed":
            yield f"{clean(data.get('name'), 80)}: {'green' if data.get('passed') is True else 'red'}"
            yield clean(_word(data.get("why")) or "", _LONG)
        case _:
            pass


def _iteration(data: Mapping[str, JsonValue], most: str = "") -> str:
    attempt = data.get("attempt")
    whose = f"attempt {clean(attempt, 12)}, " if attempt not in (None, 1) else ""
    return f"{whose}iteration {clean(data.get('iteration'), 12)}{most}"
