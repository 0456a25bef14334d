"""A run that a loop of turns leads, as its events tell it: what was said, every turn, how it ended.

Keep true:
1. Events may come from a damaged file: any may be missing, double, or hold nonsense. Taking one never raises.
2. Nothing here is guessed: what the events do not say stays None, and is not taken for 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from placet.events.event import Event
from placet.events.schema import HARNESS
from placet.events.totals import count_answer
from placet.ir.ending import OUTCOMES
from placet.ir.json_value import JsonValue
from placet.render.steps import INTERRUPTED, Step
from placet.render.text import count

_FINE = ("succeeded", "skipped")
_SHOWN = 40
"""Of more turns than this, some are only counted."""
_FIRST = 8
_LAST = 16
_GOES_ON = ("waiting", "cancelled", "error")
"""Of a task that ended so, more comes when the run is taken up again."""


@dataclass(slots=True)
class Refusal:
    """A call that could not even become a plan, and why."""

    tool: str
    error: str


@dataclass(slots=True)
class Made:
    """A call that was let through: what it was given, and what came of it, both cut short."""

    tool: str
    parameters: dict[str, JsonValue] = field(default_factory=dict)
    status: str | None = None
    """None as long as that is not known."""
    text: str = ""
    """How what the model saw of it begins."""


@dataclass(slots=True)
class Turn:
    """One time that the model was asked."""

    number: int
    at: float | None = None
    """When it was answered, in seconds since the epoch."""
    is_answered: bool = False
    text: str = ""
    calls: list[str] = field(default_factory=list)
    """The tools that it asked for, in order."""
    model: str | None = None
    stop: str | None = None
    failures: list[str] = field(default_factory=list)
    """Why there was no answer, for each time."""
    refusals: dict[str, Refusal] = field(default_factory=dict)
    """By the id of the call."""
    is_warned: bool = False
    """The model was told that it repeats itself."""
    made_room: list[tuple[int, int]] = field(default_factory=list)
    """How many results were shortened and how many turns left out before it, for each time."""

    @property
    def is_of_model(self) -> bool:
        """Whether a model was asked: not where the runtime itself reads for a small model beforehand."""
        return self.model != HARNESS

    def ids(self) -> list[str]:
        """What its calls are called in the log, in order."""
        return [f"t{self.number}c{n}" for n in range(1, len(self.calls) + 1)]

    def all_ids(self) -> list[str]:
        """The same, with what was refused, also where the answer that asked for it is lost."""
        return list(dict.fromkeys([*self.ids(), *self.refusals]))


@dataclass(slots=True)
class End:
    """How the work on one message ended."""

    status: str
    at: float
    summary: str = ""
    error: str | None = None
    looked: list[str] = field(default_factory=list)
    """Ids of the calls that it rests on."""
    changed: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    is_basis_known: bool = False
    """Whether the log says on which calls it rests."""


@dataclass(slots=True)
class Message:
    """What a person said, and all that came of it."""

    text: str = ""
    at: float | None = None
    turns: list[Turn] = field(default_factory=list)
    ended: End | None = None


@dataclass(slots=True)
class Led:
    """A run of turns."""

    source: str | None = None
    task: str | None = None
    model: str | None = None
    tools: list[str] = field(default_factory=list)
    limits: dict[str, JsonValue] = field(default_factory=dict)
    started: float | None = None
    messages: list[Message] = field(default_factory=list)
    made: dict[str, Made] = field(default_factory=dict)
    """The calls of which that was told, by their ids."""
    spent: dict[str, float] = field(default_factory=dict)
    """What the answers took, as `count_answer` counts it."""
    is_chat: bool = False
    is_interrupted: bool = False
    """Its process is gone, and nobody has gone on with it."""

    def turns(self) -> list[Turn]:
        """All of them, in order."""
        return [turn for message in self.messages for turn in message.turns]

    def count_turns(self) -> int:
        """How often the model was asked, as its limit on turns counts it."""
        return sum(turn.is_of_model for turn in self.turns())

    @property
    def end(self) -> End | None:
        """How the newest message ended; None as long as it has not."""
        return self.messages[-1].ended if self.messages else None

    def state(self, is_asking: bool) -> str | None:
        """How the run stands, as an outcome; None if its log ends before it does. `is_asking` says whether
        one of its calls waits for a person."""
        if self.is_interrupted:
            return INTERRUPTED
        if self.end is None:
            return "waiting" if is_asking else None
        return "waiting" if self.is_chat else outcome_of(self.end.status)

    @property
    def is_left(self) -> bool:
        """Whether it is a conversation in which only the next message is waited for."""
        end = self.end
        return self.is_chat and not self.is_interrupted and end is not None and end.status != "waiting"

    def take(self, event: Event) -> None:
        """Learn from an event of the loop."""
        data: Mapping[str, JsonValue] = event.data
        match event.kind:
            case "turn_loop_started":
                self.started = event.time
                self.source, self.model = _text(data, "source"), _text(data, "model") or self.model
                self.task = _text(data, "task")
                # A task is never empty; in a conversation the messages are the tasks.
                self.is_chat = self.is_chat or self.task == ""
                self.tools = [name for name in _items(data.get("tools")) if isinstance(name, str)]
                limits = data.get("limits")
                self.limits = {k: v for k, v in limits.items() if v} if isinstance(limits, dict) else {}
            case "turn_asked":
                self.messages.append(Message(_text(data, "text") or "", event.time))
            case "turn_answered":
                turn = self._turn(data)
                turn.is_answered, turn.at = True, event.time
                turn.text = _text(data, "text") or ""
                turn.calls = [str(name) for name in _items(data.get("calls"))]
                turn.model, turn.stop = _text(data, "model"), _text(data, "stop")
                count_answer(self.spent, data)
            case "turn_failed":
                self._turn(data).failures.append(_text(data, "error") or "no reason was given")
            case "turn_warned":
                self._turn(data).is_warned = True
            case "turn_compacted":
                room = _count(data, "results"), _count(data, "turns")
                self._turn(data).made_room.append(room)
            case "turn_call_refused" if event.action_id is not None:
                refusal = Refusal(_text(data, "tool") or "", _text(data, "error") or "")
                self._turn(data).refusals[event.action_id] = refusal
            case "turn_call_ended" if event.action_id is not None:
                given = data.get("parameters")  # In older logs; now the attempt has them.
                known = self.made.get(event.action_id)
                self.made[event.action_id] = Made(
                    _text(data, "tool") or "",
                    dict(given) if isinstance(given, dict) else known.parameters if known is not None else {},
                    _text(data, "status"),
                    _text(data, "text") or "",
                )
            case "turn_goal_checked":
                message = self._message()
                summary = message.ended.summary if message.ended is not None else ""
                why = f"check {data.get('iteration')} of {data.get('most')}: {_text(data, 'why') or 'red'}"
                passed = data.get("passed") is True
                status, error = ("success", None) if passed else ("unmet", why)
                message.ended = End(status, event.time, summary, error)
            case "turn_loop_ended":
                self._message().ended = End(
                    _text(data, "status") or "",
                    event.time,
                    _text(data, "summary") or "",
                    _text(data, "error"),
                    looked=_names(data, "looked"),
                    changed=_names(data, "changed"),
                    ran=_names(data, "ran"),
                    is_basis_known="looked" in data,
                )

    def note_call(self, action_id: str, tool: str, parameters: Mapping[str, JsonValue]) -> None:
        """Know what a call was given, before it is known what came of it."""
        self.made.setdefault(action_id, Made(tool, dict(parameters)))

    def resume(self) -> None:
        """Know that the run was taken up again."""
        self.is_interrupted = False
        if self.end is not None and self.end.status in (("waiting",) if self.is_chat else _GOES_ON):
            self.messages[-1].ended = None

    def settle(self, loop: Mapping[str, JsonValue]) -> None:
        """Take over what a result says of how it ended, where the log does not."""
        if self.end is None and (status := _text(loop, "status")):
            told = self._message()
            told.ended = End(status, told.at or 0.0, _text(loop, "summary") or "", _text(loop, "error"))

    def _message(self) -> Message:
        if not self.messages:
            self.messages.append(Message(self.task or ""))
        return self.messages[-1]

    def _turn(self, data: Mapping[str, JsonValue]) -> Turn:
        number = _count(data, "turn")
        turns = self._message().turns
        for turn in reversed(turns[-4:]):
            if turn.number == number:
                return turn
        turns.append(Turn(number))
        return turns[-1]


def outcome_of(status: str) -> str:
    """The outcome that the runtime keeps of a loop which ended so; a status that is unknown stays itself."""
    return next((outcome for end, outcome in OUTCOMES.items() if end == status), status)


@dataclass(slots=True)
class Gap:
    """Turns that are only counted."""

    turns: list[Turn]

    @property
    def words(self) -> str:
        """Which they are."""
        first, last = self.turns[0].number, self.turns[-1].number
        return f"turn {first:,}" if len(self.turns) == 1 else f"turns {first:,} to {last:,}"


def worth_telling(turns: Sequence[Turn], is_notable: Callable[[Turn], bool]) -> Iterator[Turn | Gap]:
    """Of few turns all; of many the first, the last, and those in which something happened that a person
    wants to know of. The others are counted, in their place."""
    if len(turns) <= _SHOWN:
        yield from turns
        return
    middle = [n for n in range(_FIRST, len(turns) - _LAST) if is_notable(turns[n])]
    if len(middle) > _SHOWN:
        middle = middle[: _SHOWN // 2] + middle[-_SHOWN // 2 :]
    chosen = {*range(_FIRST), *range(len(turns) - _LAST, len(turns)), *middle}
    gap: list[Turn] = []
    for n, turn in enumerate(turns):
        if n not in chosen:
            gap.append(turn)
            continue
        if gap:
            yield Gap(gap)
            gap = []
        yield turn


def is_notable(turn: Turn, steps: Mapping[str, Step]) -> bool:
    """Whether something happened in a turn that a person wants to know of."""
    if turn.failures or turn.refusals or turn.is_warned or turn.made_room:
        return True
    found = (steps[name] for name in turn.ids() if name in steps)
    return any(
        step.status not in _FINE or step.is_nonzero or step.approvals or step.retries for step in found
    )


def spent_words(spent: Mapping[str, float]) -> str:
    """What models took, in words; what was not told is said to be unknown.

    >>> spent_words({"model_answers": 2, "input_tokens": 1200, "output_tokens": 30, "cost_usd": 0.0})
    '1,200 tokens in, 30 out, $0'
    >>> spent_words({"model_answers": 2, "uncounted_answers": 2, "unpriced_answers": 2})
    'tokens not told, price not known'
    """
    answers = int(spent.get("model_answers", 0))
    words: list[str] = []
    uncounted, unpriced = (int(spent.get(name, 0)) for name in ("uncounted_answers", "unpriced_answers"))
    read, written, cached = (
        int(spent.get(name, 0)) for name in ("input_tokens", "output_tokens", "cached_tokens")
    )
    if uncounted >= answers and not (read or written):
        words.append("tokens not told")
    else:
        words.append(f"{count(read, 'token')} in{f' ({cached:,} of them cached)' if cached else ''}")
        words.append(f"{written:,} out")
        if uncounted:
            words.append(f"and more in {count(uncounted, 'answer')} that did not tell")
    if unpriced >= answers:
        words.append("price not known")
    else:
        more = f" and more, for {count(unpriced, 'answer')} of unknown price" if unpriced else ""
        words.append(f"{money(spent.get('cost_usd', 0.0))}{more}")
    return ", ".join(words)


def money(dollars: float) -> str:
    """An amount of US dollars; two digits of what is next to nothing, which rounded off would look like it.

    >>> money(0), money(1.5), money(0.0000123)
    ('$0', '$1.5000', '$1.2e-05')
    """
    if dollars == 0:
        return "$0"
    return f"${dollars:,.4f}" if dollars >= 0.01 else f"${dollars:.2g}"


def _text(data: Mapping[str, JsonValue], key: str) -> str | None:
    found = data.get(key)
    return found if isinstance(found, str) else None


def _count(data: Mapping[str, JsonValue], key: str) -> int:
    found = data.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _names(data: Mapping[str, JsonValue], key: str) -> list[str]:
    return [name for name in _items(data.get(key)) if isinstance(name, str)]


def _items(found: JsonValue) -> list[JsonValue]:
    return list(found) if isinstance(found, list | tuple) else []
