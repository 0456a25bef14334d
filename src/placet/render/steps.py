"""The steps of a run, and the proposals they belong to: how each stands, as far as that is known.

Keep true:
1. Nothing here is guessed: what nobody has told stays None.
2. What is noted may come from a damaged file, with ids that are unknown, double or empty. Noting it never
   raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import UNSET

from placet.ir.json_value import JsonValue
from placet.ir.result import ExitCode, is_nonzero
from placet.render.marks import AWAITING, NONZERO
from placet.render.questions import Question
from placet.render.text import count_actions

TERMINAL = frozenset({"succeeded", "failed", "rejected", "skipped", "canceled", "unknown"})

INTERRUPTED = "interrupted"
"""In the place of an outcome: the process is gone, and nobody has gone on with the run."""


@dataclass(slots=True)
class Retry:
    """One more try: the number of the attempt to come, how long the wait before it, why it is needed."""

    attempt: int
    delay_ms: float | None
    error: str


@dataclass(slots=True)
class Undoing:
    """How taking one action back stands."""

    by: str
    """The tool or the action that does it."""
    status: str = "executing"
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Something that a run which has let go waits for."""

    kind: str
    action_id: str
    reason: str = ""
    approval: str | None = None
    """The id of the question, where it is one that a person can be shown."""


@dataclass(slots=True)
class Step:
    """One action of a run."""

    id: str
    type: str | None = None
    tool: str | None = None
    depends_on: tuple[str, ...] = ()
    status: str = "proposed"
    started: float | None = None
    """Seconds since the epoch."""
    ended: float | None = None
    began_at: int | None = None
    """Which event of the run, counted from 1, said that it started; with `ended_at` this tells overlaps."""
    ended_at: int | None = None
    duration_ms: float | None = None
    attempts: int = 0
    retries: list[Retry] = field(default_factory=list)
    error: str | None = None
    given: dict[str, JsonValue] | None = None
    """What the call was given, cut short; None where the log does not say."""
    output: JsonValue = None
    """What it answered; a log does not tell that, a result does."""
    exit_code: ExitCode = UNSET
    """Of a command that it ran, where its tool declares one."""
    denied: bool = False
    """Rejected by a policy, a permission or a person, as against a capability or a malformed action."""
    tier: str | None = None
    """The permission that the call needed; read_only is not told."""
    permission: str | None = None
    """What the caller was answered to that: allow, ask or deny."""
    approvals: dict[str, Question] = field(default_factory=dict)
    """What people were asked about it, by id, in the order of asking."""
    trail: list[str] = field(default_factory=list)
    """The way that marked data took to it, where a rule objected to that."""
    marked: str | None = None
    """The mark of that data, such as untrusted."""
    left_behind: str | None = None
    """What a time limit or a stop could not end."""
    progress: str = ""
    """How far it has come, in its own words; the newest of them."""
    changes: dict[str, JsonValue] = field(default_factory=dict)
    is_cached: bool = False
    same_as: str | None = None
    """The action whose answer was taken instead of a second call."""
    rolled_back: bool = False
    is_irreversible: bool = False
    """It took effect in a plan that was aborted, and the abort did not undo it."""
    undo_command: str = ""
    """With which a person can undo it, where that is known."""
    is_restored: bool = False
    """It ran commands in a bound folder, which is as before again. What they did elsewhere stays."""
    isolation: str | None = None
    """The least that held for a command of its."""
    settled: str | None = None
    """What was decided about its unknown outcome, such as done; None once it has started again."""
    settled_by: str | None = None
    """Who decided that, where the log says so."""
    undoing: Undoing | None = None
    undoes: str | None = None
    """The action that this one took back; it runs for nothing else."""

    @property
    def does(self) -> str:
        """What the step does: its tool, or its type where that says enough."""
        return self.tool or (self.type or "").replace("_", " ")

    @property
    def question(self) -> Question | None:
        """The question that nobody has answered yet; an earlier one that was not answered does not count."""
        last = next(reversed(self.approvals.values()), None)
        return last if last is not None and last.decision is None else None

    @property
    def answer(self) -> Question | None:
        """The last question, if it is answered."""
        last = next(reversed(self.approvals.values()), None)
        return last if last is not None and last.decision is not None else None

    @property
    def is_awaiting(self) -> bool:
        """Whether it does not start before a person has answered."""
        return self.status in ("proposed", "validated") and self.question is not None

    @property
    def is_nonzero(self) -> bool:
        """Whether the call succeeded and the command that it ran did not."""
        return self.status == "succeeded" and is_nonzero(self.exit_code)

    @property
    def look(self) -> str:
        """The status to show: whether it waits for a person; and of one that succeeded and was to be taken
        back, whether that worked."""
        if self.is_awaiting:
            return AWAITING
        if self.is_nonzero and not self.rolled_back:
            return NONZERO
        if not self.rolled_back or self.status != "succeeded":
            return self.status
        if self.undoing is not None and self.undoing.status == "unknown":
            return "unknown"
        if self.is_irreversible and self.is_restored and not self.is_stuck:
            return "restored"
        return "stays_done" if self.is_irreversible or self.is_stuck else "rolled_back"

    @property
    def is_stuck(self) -> bool:
        """Whether taking it back was tried and did not work."""
        return self.undoing is not None and self.undoing.status not in ("succeeded", "executing", "in_flight")


def unundone_words(step: Step) -> str:
    """How an effect that outlives the abort of its plan can be undone, as far as that is known."""
    return f"to undo it: {step.undo_command}" if step.undo_command else "the abort does not undo it"


@dataclass(slots=True)
class Part:
    """One proposal of a run: the first, or one that a replan brought."""

    proposal_id: str
    source: str | None = None
    action_count: int | None = None
    steps: dict[str, Step] = field(default_factory=dict)
    order: dict[str, None] = field(default_factory=dict)
    """Ids in the order in which something first happened to them."""
    serial_order: list[str] = field(default_factory=list)
    """The order as which the plan counts, whatever ran at once."""
    outcome: str | None = None
    error: str | None = None
    cost: dict[str, float] = field(default_factory=dict)
    irreversible: list[str] = field(default_factory=list)
    waiting: list[Wait] = field(default_factory=list)
    needs_output: list[str] = field(default_factory=list)
    """Of those that wait: ids whose output others refer to."""
    compensated: list[str] = field(default_factory=list)
    """Ids in the order in which taking them back began."""
    taking_back: str | None = None
    """The action whose compensation runs right now."""
    rolled_back_keys: list[str] | None = None
    """None as long as no rollback was logged."""
    restored: Mapping[str, JsonValue] | None = None
    """What came of restoring the folder that it was bound to, if that was logged."""
    started: float | None = None
    ended: float | None = None

    def step(self, action_id: str) -> Step:
        """The step of that id, made on first mention."""
        found = self.steps.get(action_id)
        if found is None:
            found = self.steps[action_id] = Step(action_id)
        return found

    @property
    def outcome_look(self) -> str | None:
        """The outcome to show: a plan that succeeded with a command that did not gets no tick."""
        has_nonzero = self.outcome == "succeeded" and any(step.is_nonzero for step in self.steps.values())
        return NONZERO if has_nonzero else self.outcome

    @property
    def size(self) -> str:
        """How many actions there are, in words; a plan that was refused has no schedule."""
        total = self.action_count if self.action_count is not None else len(self.steps)
        return count_actions(total, 0 if self.outcome == "refused" else len(self.serial_order))

    @property
    def staying(self) -> list[str]:
        """Ids that took effect and were not undone; where the effect itself is unknown, see there."""
        return [
            name
            for name in self.irreversible
            if name not in self.steps
            or (self.steps[name].status != "unknown" and self.steps[name].look != "restored")
        ]

    @property
    def restored_steps(self) -> list[Step]:
        """Steps whose work in the folder is taken back, and that may have done something elsewhere."""
        return [step for step in self.steps.values() if step.look == "restored"]

    def note_restored(self, said: Mapping[str, JsonValue]) -> None:
        """Take over what came of restoring the folder."""
        self.restored = said
        for step in self.steps.values():
            # As it is told of commands alone: another tool need not have worked in the folder at all.
            step.is_restored = not said.get("problems") and step.isolation is not None

    def open_questions(self, now: float) -> list[tuple[Step, Question]]:
        """What a person can decide now, each with its step."""
        return [
            (step, step.question)
            for step in self.steps.values()
            if step.question is not None
            and not step.question.is_late(now)
            and step.status in ("proposed", "validated", "canceled")
        ]

    def closed_questions(self, now: float) -> list[tuple[Step, Question]]:
        """Of what a run that has let go waits for: what is answered by now, or can no longer be."""
        found = [
            (self.steps[w.action_id], w.approval or "") for w in self.waiting if w.action_id in self.steps
        ]
        asked = [(step, step.approvals[name]) for step, name in found if name in step.approvals]
        return [(step, one) for step, one in asked if one.decision is not None or one.is_late(now)]

    def is_settled(self, now: float) -> bool:
        """Whether it has let go to wait, and nothing is left to decide."""
        return bool(self.waiting) and len(self.closed_questions(now)) == len(self.waiting)

    def note_waiting(self, waiting: Iterable[Wait]) -> None:
        """Take over what a run that has let go waits for."""
        self.waiting = list(waiting)
        for wait in self.waiting:
            if wait.kind != "approval" or not wait.approval or not wait.action_id:
                continue
            step = self.touch(wait.action_id)
            # The last one is the one that counts, and the event that told of it may be lost.
            question = step.approvals.pop(wait.approval, None) or Question(wait.approval, [wait.reason])
            step.approvals[wait.approval] = question

    def note_irreversible(self, names: Iterable[str], commands: Mapping[str, JsonValue]) -> None:
        """Take over which actions were not undone, and the commands with which a person can undo them."""
        self.irreversible = list(names)
        for name in self.irreversible:
            if name in self.steps:
                step = self.steps[name]
                step.is_irreversible = True
                step.undo_command = str(commands.get(name) or step.undo_command)

    def undone_in_ms(self, action_id: str) -> float | None:
        """How long taking an action back took."""
        return next((s.duration_ms for s in self.steps.values() if s.undoes == action_id), None)

    def touch(self, action_id: str) -> Step:
        """The step, noted as one to which something has happened."""
        self.order.setdefault(action_id)
        return self.step(action_id)
