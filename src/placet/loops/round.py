"""One round of a loop, as it is kept: who made, who checked, what was decided, and what came of it.

Keep true:
1. What a round needs to go on after the death of its process is here, in the journal of its run, or in the
   folder of its workshop.
2. A round that has an outcome keeps it. What a person decides later is appended, and changes nothing before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from placet.checks.contract import CheckResult
from placet.ir.json_value import JsonValue
from placet.ir.provenance import UNRECORDED, Labels, Provenance, SourcedText, further, joined, text_of
from placet.ir.to_dict import ToDict
from placet.loops.budget import Spend
from placet.loops.levels import Level
from placet.loops.spec import LoopSpec
from placet.loops.verdict import Verdict
from placet.truncation import truncate

LEADER = "loop"
"""Who leads the run of a round, as the log and the journal know it."""

Phase = Literal[
    "recalling", "making", "freezing", "checking", "judging", "gating", "executing", "recording", "ended"
]
"""Step of a round."""
PHASES: tuple[Phase, ...] = get_args(Phase)
Outcome = Literal["reported", "proceeded", "escalated", "budget_exhausted", "failed"]
"""Outcome of a round.

- `reported`: it reported its findings.
- `proceeded`: the change was verified and allowed, and the executor has acted.
- `escalated`: a person has to decide.
- `budget_exhausted`: a limit was exceeded.
- `failed`: an error, or it was stopped.
"""


class SubRun(ToDict, msgspec.Struct, kw_only=True):
    """One conversation with a model: of the maker or of the checker."""

    run_id: str
    """Id of the run."""
    model: str = ""
    """Name of the model."""
    prompt: str = ""
    """The prompt that the model got."""
    provenance: Provenance | None = None
    """Who wrote which part of the prompt; `None` in records from before that was recorded."""
    labels: Labels | None = None
    """The labels on what the model wrote, each with its path; `None` while that is not known."""
    status: str = ""
    """How it ended, as in `Ending`; empty while it runs."""
    text: str = ""
    """The last words of the model."""
    error: str = ""
    """Why it did not end in success."""
    turns: int = 0
    """How often the model was asked."""
    tools: tuple[str, ...] = ()
    """Tools that succeeded, in order."""
    is_cut_off: bool = False
    """Whether any answer reached the limit on its length."""
    unread: int = 0
    """Calls of the verdict or report tool that were malformed."""
    spend: Spend = Spend()
    """What it used."""
    given: dict[str, Verdict] = {}
    """The verdicts that were given, by the key of the call."""

    @classmethod
    def of(cls, run_id: str, parts: Sequence[SourcedText]) -> SubRun:
        """A conversation that is to begin with a prompt of these parts."""
        return cls(run_id=run_id, prompt=text_of(parts), provenance=Provenance.of(parts))

    @property
    def parts(self) -> Sequence[SourcedText]:
        """The prompt by its parts."""
        return (self.provenance or UNRECORDED).parts(self.prompt)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return bool(self.status) and self.status not in ("cancelled", "waiting")


class Decision(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Whether the act may run without a person."""

    proceed: bool
    """Whether it may."""
    reason: str
    """Why, or why not."""
    gate: str = ""
    """Who decided: the engine, or a gate by its name."""


class Receipt(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A record of what an executor did."""

    loop: str
    """Name of the loop."""
    round: str
    """Id of the round."""
    kind: str
    """Kind of act."""
    executor: str
    """Name of the executor."""
    summary: str
    """What was done."""
    tree: str
    """Git tree of the change."""
    base: str
    """The commit that it is based on."""
    key: str
    """Idempotency key: the same for every attempt of this act."""
    at: float
    """When it was done, in seconds since the epoch."""
    data: dict[str, JsonValue] = {}
    """Values by which the effect can be found again."""
    digest: str = ""
    """Hash over all other fields."""

    def sealed(self) -> Receipt:
        """The same with its digest."""
        return msgspec.structs.replace(self, digest=_digest(self))

    @property
    def is_intact(self) -> bool:
        """Whether it is unchanged since it was made."""
        return bool(self.digest) and self.digest == _digest(self)


def _digest(receipt: Receipt) -> str:
    plain = msgspec.structs.replace(receipt, digest="")
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()


class Later(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """Something that was decided about a round after it had ended."""

    what: Literal["approved", "denied", "expired", "superseded", "reversed", "unknown", "failed"]
    """What was decided."""
    at: float
    """When, in seconds since the epoch."""
    by: str = ""
    """Who decided."""
    reason: str = ""
    """Why."""


class Round(ToDict, msgspec.Struct, kw_only=True):
    """One round of a loop."""

    id: str
    """Id of the round, and of its run."""
    loop: str
    """Name of the loop."""
    repository: str
    """Top folder of the user's repository."""
    spec: LoopSpec
    """The loop as it was when the round began."""
    number: int = 0
    """Number of the round, counted from 1 for each loop."""
    level: Level = "L1"
    """Level at which it runs: that of the file, or a lower one."""
    phase: Phase = "recalling"
    """Current step."""
    started_at: float = 0.0
    """When it started, in seconds since the epoch."""
    changed_at: float = 0.0
    """When it last changed, in seconds since the epoch."""
    ended_at: float | None = None
    """When it ended, in seconds since the epoch."""
    due_at: float | None = None
    """When it was due, in seconds since the epoch, if a schedule started it."""
    base: str = ""
    """The user's commit at the start."""
    base_tree: str = ""
    """Git tree at the start of the work."""
    recalled: list[str] = []
    """Facts about earlier rounds that the maker was told."""
    recalled_labels: Labels | None = None
    """The labels on them; `None` in records from before that was recorded."""
    context: str = ""
    """Output of the hook before the round."""
    context_labels: Labels | None = None
    """The labels on it; `None` in records from before that was recorded."""
    baseline: list[CheckResult] = []
    """Results of the checks before any work."""
    is_prepared: bool = False
    """Whether earlier rounds, hook and baseline are known."""
    maker: SubRun | None = None
    """Conversation with the maker."""
    tree: str = ""
    """Git tree of the change; the checks and the executor use exactly this."""
    changed: list[str] = []
    """Paths of the files that it changes."""
    included: list[str] = []
    """Files with uncommitted changes with which it began; a commit contains them, too."""
    sealed: list[str] = []
    """Files that checks depend on which the maker changed, and which were restored."""
    needs_person: dict[str, str] = {}
    """Files of the change that checks read or load and that may not be the program's, each with the reason. A
    change with such a file is never acted on without a person."""
    checker: SubRun | None = None
    """Conversation with the checker."""
    checks: list[CheckResult] = []
    """Results of the checks."""
    is_checked: bool = False
    """Whether the checks have run."""
    verdict: Verdict | None = None
    """Verdict of the checker."""
    verified: bool = False
    """Whether the change counts as verified."""
    unverified: str = ""
    """Why it does not."""
    decision: Decision | None = None
    """Whether the act may run without a person."""
    outcome: Outcome | None = None
    """The outcome; `None` while it runs."""
    reason: str = ""
    """Why it has this outcome, if that needs explaining."""
    limit: str = ""
    """The limit that was exceeded, if the outcome is `budget_exhausted`."""
    summary: str = ""
    """What the round found or did."""
    approval: str = ""
    """Id of the approval, if the outcome is `escalated`."""
    receipt: Receipt | None = None
    """The receipt of the executor."""
    spend: Spend = Spend()
    """What the round used."""
    later: list[Later] = []
    """What was decided after it had ended."""
    would: str = ""
    """What the executor would do."""
    rebased_from: str = ""
    """Id of the round whose change this one moves to the current commit."""
    rebased_by: str = ""
    """Who wanted that."""
    brought: str = ""
    """That change as a diff."""
    brought_labels: Labels | None = None
    """The labels on it; `None` in records from before that was recorded."""

    @property
    def key(self) -> str:
        """Key of the loop: its repository and name."""
        return loop_key(self.repository, self.loop)

    @property
    def is_open(self) -> bool:
        """Whether it has no outcome yet."""
        return self.outcome is None

    @property
    def is_waiting(self) -> bool:
        """Whether a person still has to decide."""
        return self.outcome == "escalated" and not any(
            each.what in ("approved", "denied", "expired", "superseded", "failed") for each in self.later
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nobody needs to be informed."""
        return self.outcome == "proceeded"

    @property
    def has_change(self) -> bool:
        """Whether it changes any file."""
        return bool(self.changed)


def loop_key(repository: str, name: str) -> str:
    """The name of a loop that loops of the same name in other repositories do not share."""
    return f"{name}@{hashlib.sha256(repository.encode(errors='surrogateescape')).hexdigest()[:12]}"


def state_words(round: Round) -> str:
    """One earlier round, for the maker of the next."""
    said = truncate(" ".join(round.summary.split()), 500)
    more = f" ({truncate(' '.join(round.reason.split()), 200)})" if round.reason else ""
    after = f"; later {round.later[-1].what}" if round.later else ""
    return f"round {round.number}: {round.outcome}{more}{after}: {said}"


def day_began(now: float, timezone: str) -> float:
    """When the day of a moment began, there."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    here = datetime.fromtimestamp(now, ZoneInfo(timezone))
    return here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp()


def labels_of(round: Round) -> Labels:
    """The labels on what the maker and the checker of a round wrote."""
    return joined(
        *(
            None if sub.labels is None else further(sub.labels, f"round {round.number}")
            for sub in (round.maker, round.checker)
            if sub is not None
        )
    )
