"""What must be on disk for a killed run to go on: the seam between a run and whoever keeps it.

A run notes that an effect is about to happen before it happens, and how it ended afterwards. Read back, the
notes say of every action whether it has ended, may be in flight, or has not begun.

Keep true:
1. A key is stable and unique in its run: the plan's number in the run and the position in the plan, never
   an id that a model chose.
2. Notes of a run are kept in the order in which they were made: what an effect relied on is there whenever
   the note of that effect is.
3. Whoever does not hold the run can note nothing: no effect begins without a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import ActionResult, ProposalResult
from placet.ir.stop_cause import StopCause
from placet.ir.tool_spec import Mark
from placet.policy.budget import CostBudget
from placet.policy.permission import Posture
from placet.runtime.scope import Scope
from placet.storage.lease import StopRequest

Choice = Literal["done", "retry", "fail"]
"""Outcome of an action that was in flight when its run was interrupted.

- `done`: it happened.
- `retry`: execute it again.
- `fail`: it did not happen, and must not.
"""
CHOICES: tuple[Choice, ...] = ("done", "retry", "fail")

DECIDED_FAILED = "it was in flight when the run was broken off, and was decided to have failed"


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's decision about an action whose outcome is unknown."""

    choice: Choice
    """`"done"` (it happened), `"retry"` (execute it again) or `"fail"` (it did not happen, and must not)."""
    output: Any | msgspec.UnsetType = msgspec.UNSET
    """The output of the action, as JSON. Required with `"done"` if other actions use the output."""
    by: str | None = None
    """Who decided; recorded in the log."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state that a plan may look at, as it was before the plan ran."""

    values: dict[str, JsonValue] = {}
    version: int = 0
    versions: dict[str, int] = {}
    """Of the keys for which an action assumes a version."""
    marks: dict[str, dict[Mark, list[str]]] = {}
    """Of the keys whose values are marked, with the steps of each trail."""
    misnamed: dict[str, str] = {}
    """By action, the unknown field that held its parameters: the plan itself does not keep unknown fields."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run was asked to do, and where it began."""

    run_id: str
    trace_id: str
    proposal: Proposal
    scope: Scope | None = None
    budget: CostBudget | None = None
    must_succeed: bool = False
    beginning: Beginning = Beginning()
    tools: Sequence[str] = ()
    """Those that the plan names and the runtime had."""
    policies: Sequence[str] = ()
    """The names of the rules that held, and `permission` if a posture did."""
    had_session: bool = False
    """It ran under a session, whose rules hold only as long as that is given."""
    workspace: str | None = None
    """The folder that it is bound to."""
    parent: str | None = None
    """The run that started it."""
    traceparent: str | None = None
    """W3C trace context of whoever began it."""


LED_BY = "led_by"
"""In the context of the plan that an open run begins with: who brings its plans."""


def is_led(record: RunRecord) -> bool:
    """Whether somebody must bring the plans of this run, so that it cannot go on by itself."""
    return LED_BY in record.proposal.context


class _Note(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="note"):
    pass


class Started(_Note, frozen=True, tag="started"):
    """A tool that must not be called twice is about to be called. Others need no such note: what has not
    ended is simply done again."""

    key: str
    attempt: int


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has been used up so far: calls and retries by this plan, the rest by the whole run."""

    tool_calls: int = 0
    retries: int = 0
    elapsed_ms: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    untold: int = 0
    unpriced: int = 0


class Tried(_Note, frozen=True, tag="tried"):
    """An attempt is over without an output; nothing is in flight."""

    key: str
    attempt: int
    tally: Tally = Tally()
    error: str = ""
    """How it failed; empty if the call was not made."""
    unknown: bool = False
    """Whether its effect may have happened all the same."""


class Ended(_Note, frozen=True, tag="ended"):
    """An action has ended, for good."""

    key: str
    result: ActionResult
    tally: Tally
    answered: bool = False
    """It was answered from memory: its effect is another's."""
    marks: dict[Mark, list[str]] = {}
    """What is on its output, with the steps of each trail."""
    took_effect: bool = False
    """It failed although its tool did its work."""
    bad_answer: JsonValue | msgspec.UnsetType = msgspec.UNSET
    """The answer that could not be used, where it is JSON."""
    labelled: dict[Mark, list[str]] = {}
    """Those of the marks that its tool has put on the output itself."""


class Replaced(_Note, frozen=True, tag="replaced"):
    """A replan brought another plan."""

    plan: int
    """Its number in the run; the first plan has 0."""
    asked: int
    proposal: Proposal
    beginning: Beginning
    tools: Sequence[str] = ()


class Asked(_Note, frozen=True, tag="asked"):
    """A replan was asked for, and its answer could not be used."""

    asked: int
    """How often, in this run."""
    rejection: str


class Aborted(_Note, frozen=True, tag="aborted"):
    """A plan is about to be taken back: whatever else happens, nothing more of it is started."""

    plan: int
    error: str


class Decided(_Note, frozen=True, tag="decided"):
    """A person has decided what became of something in flight."""

    key: str
    decision: Decision


class Approved(_Note, frozen=True, tag="approved"):
    """A person has approved an action, and with it what would take it back."""

    key: str
    approval: str
    reasons: Sequence[str] = ()
    """Why the person was asked."""


class PostureChanged(_Note, frozen=True, tag="posture"):
    """A person has said what needs no asking from now on."""

    posture: Posture


class Bound(_Note, frozen=True, tag="bound"):
    """A plan is about to change the folder that it is bound to, of which this snapshot was taken."""

    plan: int
    snapshot: str


class Restored(_Note, frozen=True, tag="restored"):
    """The folder was restored to what the plan found."""

    plan: int
    not_restored: Sequence[str] = ()
    """What was left out of the snapshot, and was changed."""
    problems: Sequence[str] = ()


class Told(_Note, frozen=True, tag="told"):
    """What whoever leads an open run wants to know again when it goes on, in its own words."""

    said: msgspec.Raw
    elapsed_ms: float = 0.0
    """How long the run had been at work."""


class Paused(_Note, frozen=True, tag="paused"):
    """The run lets go, and may go on later."""

    elapsed_ms: float = 0.0


Note = (
    Started
    | Tried
    | Ended
    | Asked
    | Replaced
    | Aborted
    | Decided
    | Approved
    | PostureChanged
    | Bound
    | Restored
    | Told
    | Paused
)


class RunJournal(Protocol):
    """Protocol of the journal of one run, while this process has claimed it. Implementations pass
    `journal_suite`.
    """

    def note(self, note: Note) -> None:
        """Record an entry, in memory at first; entries stay in order.

        Args:
            note: The entry.
        """
        ...

    def flush(self) -> None:
        """Start writing all entries so far."""
        ...

    async def settle(self) -> None:
        """Wait until all entries so far are on disk.

        Raises:
            StorageError: some could not be written.
            RunHeld: another process has taken over the run.
        """
        ...

    async def end(
        self, result: ProposalResult, shown: ProposalResult | None = None, *, is_stopped: bool = False
    ) -> None:
        """Record the result of the run and release it. A run that waits, or was canceled, can be claimed
        again; of others, the entries are no longer needed. Raises the errors of `settle`.

        Args:
            result: The result.
            shown: The result without secrets, if it holds any.
            is_stopped: It ended because of the request to stop it, which is done with: whoever resumes the
                run later wants it to go on.
        """
        ...

    def stop_requested(self) -> StopRequest | None:
        """Return the request to stop the run, or `None`. That another process has taken it over is one,
        with the cause `LEASE_LOST`. Waits for the disk.

        Raises:
            StorageError: it cannot be read.
        """
        ...

    def release(self) -> None:
        """Release a run that has not ended, so that it can be resumed immediately. Never raises."""
        ...


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was taken up again."""

    record: RunRecord
    notes: Sequence[Note]
    journal: RunJournal
    waited: ProposalResult | None = None
    """What it was waiting for, if it was."""


class Journal(Protocol):
    """Protocol of journals, which record runs so that they survive the process. Implementations pass
    `journal_suite`.
    """

    async def begin(self, record: RunRecord) -> RunJournal:
        """Record a new run and claim it.

        Args:
            record: What the run is asked to do.

        Raises:
            RunExists: there is a run with this id.
            StorageError: it cannot be recorded.
        """
        ...

    async def take(self, run_id: str) -> Taken | ProposalResult:
        """Claim an interrupted run; or return its result, if it has ended.

        Args:
            run_id: Id of the run.

        Raises:
            UnknownRun: there is no run with this id.
            RunHeld: another process has claimed it.
            StorageError: it cannot be read.
        """
        ...

    def request_stop(self, run_id: str, request: StopRequest) -> None:
        """Ask the process that works on a run to stop, or the next one that claims it. Only the first request
        counts. Waits for the disk.

        Args:
            run_id: Id of the run.
            request: Why.

        Raises:
            UnknownRun: there is no run with this id.
            StorageError: it cannot be recorded.
        """
        ...


LEASE_LOST = StopRequest(reason="another process has taken the run over", cause=StopCause.LEASE_LOST)


class Replay:
    """The notes of a run, folded: what has ended, what may be in flight, which plans there were."""

    def __init__(self, notes: Iterable[Note] = ()) -> None:
        self.ended: dict[str, Ended] = {}
        """By key, in the order of ending."""
        self.of_plan: dict[int, dict[str, Ended]] = {}
        """The same by the number of the plan."""
        self.told: list[msgspec.Raw] = []
        self.elapsed_ms = 0.0
        """How long the run had been at work."""
        self.in_flight: dict[str, int] = {}
        """Keys of calls that had begun and of which no end is noted, with the number of the attempt."""
        self.attempts: dict[str, int] = {}
        """How many attempts are over, of what has neither ended nor is in flight."""
        self.tried: dict[str, Tried] = {}
        """The last attempt that failed, by key."""
        self.decided: dict[str, Decision] = {}
        """Decisions that something is done or has failed, and is to end so."""
        self.approved: dict[str, Sequence[str]] = {}
        """Keys of what a person has approved, with the reasons for asking."""
        self.posture: Posture | None = None
        """What was said last about what needs no asking; None if nothing was since the run began."""
        self.plans: dict[int, Replaced] = {}
        self.overwritten: frozenset[str] = frozenset()
        """Keys that others have written since the run was broken off: theirs is the newer word."""
        self.asked = 0
        self.rejections: list[str] = []
        self.aborted: dict[int, str] = {}
        """Why a plan is being taken back, by its number."""
        self.bound: dict[int, str] = {}
        """The snapshot of the folder that a plan found, by its number."""
        self.restored: dict[int, Restored] = {}
        self.tallies: dict[int, Tally] = {}
        """What each plan of the run has used up."""
        self.tally = Tally()
        """The newest of them."""
        self.is_empty = True
        for note in notes:
            self.fold(note)

    def fold(self, note: Note) -> None:
        """Take one more note into account."""
        self.is_empty = False
        match note:
            case Started():
                self.in_flight[note.key] = note.attempt
            case Tried():
                self.in_flight.pop(note.key, None)
                self.attempts[note.key] = note.attempt
                if note.error:
                    self.tried[note.key] = note
                if note.tally != Tally():
                    self.tally = self.tallies[parse_key(note.key)[0]] = note.tally
            case Ended():
                self.in_flight.pop(note.key, None)
                self.decided.pop(note.key, None)
                plan = parse_key(note.key)[0]
                self.ended[note.key] = note
                self.of_plan.setdefault(plan, {})[note.key] = note
                self.tally = self.tallies[plan] = note.tally
                self.elapsed_ms = max(self.elapsed_ms, note.tally.elapsed_ms)
            case Asked():
                self.asked = note.asked
                self.rejections.append(note.rejection)
            case Replaced():
                self.plans[note.plan] = note
            case Approved():
                self.approved[note.key] = note.reasons
            case PostureChanged():
                self.posture = note.posture
            case Aborted():
                self.aborted[note.plan] = note.error
            case Told():
                self.told.append(note.said)
                self.elapsed_ms = max(self.elapsed_ms, note.elapsed_ms)
            case Paused():
                self.elapsed_ms = max(self.elapsed_ms, note.elapsed_ms)
            case Bound():
                self.bound[note.plan] = note.snapshot
            case Restored():
                self.restored[note.plan] = note
            case Decided():
                attempt = self.in_flight.pop(note.key, 1)
                if note.decision.choice == "retry":
                    self.attempts[note.key] = attempt - 1
                else:
                    self.decided[note.key] = note.decision


def key_of(plan: int, position: int) -> str:
    """The key of an action: which plan of the run, and where in it."""
    return f"{plan}-{position}"


def undo_key_of(plan: int, owner: int) -> str:
    """The key of the compensation of an action."""
    return f"{plan}-{owner}-undo"


def parse_key(key: str) -> tuple[int, int, bool]:
    """Plan, position, and whether it is the compensation of the action there.

    >>> parse_key("0-7"), parse_key("2-7-undo")
    ((0, 7, False), (2, 7, True))
    """
    plan, position, *undo = key.split("-")
    return int(plan), int(position), bool(undo)
