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

from placet.coder.contract import CheckResult
from placet.ir.json_value import JsonValue
from placet.loops.budget import Spend
from placet.loops.levels import Level
from placet.loops.spec import LoopSpec
from placet.loops.verdict import Verdict

LEADER = "loop"
"""Who leads the run of a round, as the log and the journal know it."""

Phase = Literal[
    "recalling", "making", "freezing", "checking", "judging", "gating", "executing", "recording", "ended"
]
PHASES: tuple[Phase, ...] = get_args(Phase)
Outcome = Literal["reported", "proceeded", "escalated", "budget_exhausted", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class SubRun(msgspec.Struct, kw_only=True):
    """One conversation with a model: the maker's, or the checker's."""

    run_id: str
    model: str = ""
    prompt: str = ""
    status: str = ""
    """How it ended; empty while it goes on."""
    text: str = ""
    """What the model said last."""
    error: str = ""
    turns: int = 0
    tools: tuple[str, ...] = ()
    is_cut_off: bool = False
    """Whether any of its answers ran into the limit on its length."""
    unread: int = 0
    """Calls of the tool for verdicts, or reports, that came to nothing."""
    spend: Spend = Spend()
    given: dict[str, Verdict] = {}
    """The verdicts that were given, by the key of the call."""

    @property
    def has_ended(self) -> bool:
        """Whether more may come of it."""
        return bool(self.status) and self.status not in ("cancelled", "waiting")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the action may run without a person."""

    proceed: bool
    reason: str
    """Why not, or why."""
    gate: str = ""
    """Who said so: the engine, or a gate by its name."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What an executor did, so that it can be looked at later."""

    loop: str
    round: str
    kind: str
    executor: str
    summary: str
    tree: str
    base: str
    key: str
    """The idempotency key: the same for every attempt of this action."""
    at: float
    data: dict[str, JsonValue] = {}
    """What is needed to find again what was done."""
    digest: str = ""
    """Over all of the above."""

    def sealed(self) -> Receipt:
        """The same with its digest."""
        return msgspec.structs.replace(self, digest=_digest(self))

    @property
    def is_intact(self) -> bool:
        """Whether it says what it said when it was made."""
        return bool(self.digest) and self.digest == _digest(self)


def _digest(receipt: Receipt) -> str:
    plain = msgspec.structs.replace(receipt, digest="")
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was decided about a round after it had ended."""

    what: Literal["approved", "denied", "expired", "superseded", "reversed", "unknown", "failed"]
    at: float
    by: str = ""
    reason: str = ""


class Round(msgspec.Struct, kw_only=True):
    """One round."""

    id: str
    loop: str
    repository: str
    """The top folder of the person's repository."""
    spec: LoopSpec
    """The loop as it was when the round began."""
    number: int = 0
    """Counted from 1 for each loop."""
    level: Level = "L1"
    """At which it ran: the one of the file, or less."""
    phase: Phase = "recalling"
    started_at: float = 0.0
    changed_at: float = 0.0
    ended_at: float | None = None
    due_at: float | None = None
    """When it was due, if it was the schedule that began it."""
    base: str = ""
    """The person's commit when it began."""
    base_tree: str = ""
    """The tree that it began with."""
    recalled: list[str] = []
    """What was told of earlier rounds."""
    context: str = ""
    """What the hook before the round wrote."""
    baseline: list[CheckResult] = []
    """What came of the checks before any work."""
    is_prepared: bool = False
    """Whether the earlier rounds, the hook and the checks before any work are known."""
    maker: SubRun | None = None
    tree: str = ""
    """The change, frozen: what is checked, and what is acted on."""
    changed: list[str] = []
    """The files that it changes."""
    included: list[str] = []
    """What the person had not committed when it began, and it began with: a commit has that, too."""
    sealed: list[str] = []
    """Files that checks depend on, which the maker changed, and which were put back."""
    checker: SubRun | None = None
    checks: list[CheckResult] = []
    is_checked: bool = False
    verdict: Verdict | None = None
    verified: bool = False
    unverified: str = ""
    """Why it is not verified, in words."""
    decision: Decision | None = None
    outcome: Outcome | None = None
    reason: str = ""
    """Why that outcome, where it needs saying."""
    limit: str = ""
    """budget_exhausted: which."""
    summary: str = ""
    approval: str = ""
    """escalated: the id of the question."""
    receipt: Receipt | None = None
    spend: Spend = Spend()
    later: list[Later] = []
    would: str = ""
    """What the executor would do, in its own words."""
    rebased_from: str = ""
    """The round whose change this one brings over to where the person is now."""
    rebased_by: str = ""
    """Who wanted that."""
    brought: str = ""
    """That change, as a diff."""

    @property
    def key(self) -> str:
        """By which rounds of the same loop are known."""
        return loop_key(self.repository, self.loop)

    @property
    def is_open(self) -> bool:
        """Whether it has not come to an outcome yet."""
        return self.outcome is None

    @property
    def is_waiting(self) -> bool:
        """Whether a person still has to decide about it."""
        return self.outcome == "escalated" and not any(
            each.what in ("approved", "denied", "expired", "superseded", "failed") for each in self.later
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nobody needs to be told."""
        return self.outcome == "proceeded"

    @property
    def has_change(self) -> bool:
        """Whether there is anything to act on."""
        return bool(self.changed)


def loop_key(repository: str, name: str) -> str:
    """The name of a loop that loops of the same name in other repositories do not share."""
    return f"{name}@{hashlib.sha256(repository.encode(errors='surrogateescape')).hexdigest()[:12]}"


def state_words(round: Round) -> str:
    """One earlier round, for the maker of the next."""
    said = " ".join(round.summary.split())[:500]
    more = f" ({' '.join(round.reason.split())[:200]})" if round.reason else ""
    after = f"; later {round.later[-1].what}" if round.later else ""
    return f"round {round.number}: {round.outcome}{more}{after}: {said}"


def day_began(now: float, timezone: str) -> float:
    """When the day of a moment began, there."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    here = datetime.fromtimestamp(now, ZoneInfo(timezone))
    return here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp()


def told_of(rounds: Sequence[Round], most: int = 5) -> list[str]:
    """What is told of earlier rounds, oldest first."""
    ended = [each for each in rounds if not each.is_open][:most]
    return [state_words(each) for each in reversed(ended)]
