"""What is kept of a coding session: what was asked, how far it came, and what came of every check.

Keep true:
1. What a session needs to go on after the death of its process is here, or in the folder of its workshop.
2. Only `moved` changes the state, and only along the arrows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

import msgspec

from placet.coder.changes import Change
from placet.coder.contract import CheckResult, Contract
from placet.errors import UsageError
from placet.inference.model import Intent
from placet.inference.usage import Usage
from placet.turns.limits import TurnLimits

State = Literal[
    "created",
    "contract_proposed",
    "contract_confirmed",
    "running",
    "needs_approval",
    "merged",
    "failed",
    "abandoned",
]

OPEN: tuple[State, ...] = ("created", "contract_proposed", "contract_confirmed", "running", "needs_approval")
"""More may come of a session that is in one of these."""

_NEXT: Mapping[State, tuple[State, ...]] = {
    "created": ("contract_proposed", "contract_confirmed", "failed", "abandoned"),
    "contract_proposed": ("contract_confirmed", "abandoned"),
    "contract_confirmed": ("running", "failed", "abandoned"),
    "running": ("needs_approval", "failed", "abandoned"),
    "needs_approval": ("merged", "abandoned"),
    "merged": (),
    "failed": (),
    "abandoned": (),
}


WORDS: Mapping[State, str] = {
    "created": "created",
    "contract_proposed": "contract to confirm",
    "contract_confirmed": "contract confirmed",
    "running": "running",
    "needs_approval": "green, to approve",
    "merged": "published",
    "failed": "failed",
    "abandoned": "abandoned",
}
"""How people see a state."""

LEADER = "coder"
BRANCH = "placet/{id}"
"""Where a session is published."""
INTENT = Intent(task="code", requires=("tools",))
FAILURES = 3
"""How often in a row the model may give no answer, iterations counted together."""
HALTS = ("cancelled", "budget", "waiting")
"""Ways in which turns end after which nothing is checked: somebody else decides what comes next."""


class CodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How far a session may go. None means no limit."""

    iterations: int = 8
    """Of each candidate."""
    turns: int = 24
    """Of each iteration."""
    answer_tokens: int = 4096
    tokens: int | None = None
    """Read and written by the model, all candidates together; so too what follows."""
    cost_usd: float | None = None
    time_s: float | None = None
    call_s: float | None = None
    """For each call of a tool."""
    context_tokens: int | None = None
    same_failure: int | None = 3
    """How often in a row the very same failure may come back before it is given up."""

    def __post_init__(self) -> None:
        for name in ("iterations", "same_failure"):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not (value is None and name == "same_failure") and not (is_whole and value >= 1):
                raise UsageError(f"CodeLimits({name}={value!r:.40}): it must be a whole number above 0.")
        # What is wrong with the others is said there.
        _ = self.of_iteration, self.of_session

    @property
    def of_iteration(self) -> TurnLimits:
        """The part that holds for one iteration."""
        return TurnLimits(
            turns=self.turns,
            answer_tokens=self.answer_tokens,
            call_s=self.call_s,
            context_tokens=self.context_tokens,
        )

    @property
    def of_session(self) -> TurnLimits:
        """The part that holds for all candidates together."""
        return TurnLimits(tokens=self.tokens, cost_usd=self.cost_usd, time_s=self.time_s)


class Iteration(msgspec.Struct, kw_only=True):
    """One fresh conversation, and the checks after it."""

    number: int
    run_id: str
    """Of its turns."""
    prompt: str = ""
    hint: str | None = None
    """The repair that was shown."""
    status: str = ""
    """How the turns ended; empty while they go on."""
    summary: str = ""
    turns: int = 0
    usage: Usage | None = None
    cost_usd: float | None = None
    failed: int = 0
    """How often in a row the model had given no answer when it ended."""
    tree: str = ""
    """What was made of the files."""
    sealed: list[str] = []
    """Sealed files that were changed, and put back."""
    tried: Change | None = None
    """The one change that it is about, where a small model looks closely."""
    spare: Usage | None = None
    """What was read and written for turns that gave no answer, beside `usage`."""
    results: list[CheckResult] = []
    is_judged: bool = False

    @property
    def has_turned(self) -> bool:
        """Whether its turns are over, and nobody has to decide anything in there."""
        return bool(self.status) and self.status not in HALTS

    @property
    def has_answers(self) -> bool:
        """Whether the model has said anything in it."""
        return self.turns > self.failed

    @property
    def is_green(self) -> bool:
        """Whether the checks say that it is done."""
        return (
            self.is_judged and not self.sealed and bool(self.results) and all(r.passed for r in self.results)
        )


class Attempt(msgspec.Struct, kw_only=True):
    """One candidate: a folder of its own, and iterations in it."""

    number: int
    iterations: list[Iteration] = []
    ended: str = ""
    """Why it goes no further; empty while it does."""

    @property
    def latest(self) -> Iteration | None:
        """The newest iteration."""
        return self.iterations[-1] if self.iterations else None

    @property
    def judged(self) -> Iteration | None:
        """The newest iteration that was checked."""
        return next((each for each in reversed(self.iterations) if each.is_judged), None)


class Session(msgspec.Struct, kw_only=True):
    """A coding session."""

    id: str
    intent: str
    repository: str
    """The top folder of the person's repository."""
    repository_key: str = ""
    """What repairs are remembered by."""
    state: State = "created"
    reason: str = ""
    """Why it is where it is, where that needs saying."""
    contract: Contract | None = None
    limits: CodeLimits = CodeLimits()
    candidates: int = 1
    style: str = "large"
    """How the model is led: see `placet.coder.style`."""
    model: str = ""
    begun_on: str = ""
    """The person's commit when it began."""
    base: str = ""
    """The tree that it began with."""
    includes_changes: bool = False
    """Whether the person's uncommitted changes are to be in it."""
    included: list[str] = []
    """The person's files with such changes: they go into the commit besides what the model changes."""
    even_if_green: bool = False
    drafting: Usage | None = None
    """What it took to draft the contract."""
    drafting_usd: float | None = 0.0
    baseline: list[CheckResult] = []
    attempts: list[Attempt] = []
    winner: int | None = None
    """The attempt whose checks were green first."""
    result: str = ""
    """The tree that is to be published."""
    commit: str = ""
    branch: str = ""
    """Where it was published."""
    created_at: float = 0.0
    changed_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether more may come of it."""
        return self.state in OPEN

    @property
    def is_green(self) -> bool:
        """Whether the checks of the winner were green."""
        won = self.won
        return won is not None and won.is_green

    @property
    def won(self) -> Iteration | None:
        """The iteration whose checks were green."""
        if self.winner is None:
            return None
        return next(a for a in self.attempts if a.number == self.winner).judged

    @property
    def results(self) -> list[CheckResult]:
        """What came of the checks last: of the winner, else of the last attempt that was checked, else before
        any work."""
        if self.won is not None:
            return self.won.results
        judged = [each.judged for each in self.attempts if each.judged is not None]
        return judged[-1].results if judged else self.baseline

    @property
    def iterations(self) -> int:
        """How many there were, all candidates together."""
        return sum(len(attempt.iterations) for attempt in self.attempts)

    @property
    def tokens(self) -> int:
        """Read and written, as far as it is known."""
        made = [each for attempt in self.attempts for each in attempt.iterations]
        used = [self.drafting, *(each.usage for each in made), *(each.spare for each in made)]
        return sum(usage.total for usage in used if usage is not None)

    @property
    def cost_usd(self) -> float | None:
        """What it cost; None where some of it is not known."""
        made = [each for attempt in self.attempts for each in attempt.iterations]
        costs = [self.drafting_usd, *(each.cost_usd for each in made if each.has_answers)]
        return None if any(cost is None for cost in costs) else sum(cost or 0.0 for cost in costs)

    def moved(self, state: State, reason: str = "") -> None:
        """Change the state.

        Raises:
            UsageError: no arrow leads there from where it is.
        """
        if state not in _NEXT[self.state]:
            raise UsageError(f"Session '{self.id}' is {self.state}, so it cannot become {state}.")
        self.state = state
        self.reason = reason

    def touched(self) -> None:
        """It was changed just now."""
        self.changed_at = time.time()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a model wants to know of a person."""

    id: str
    session: str
    text: str
    asked_at: float
    until: float
    """When the model goes on without an answer."""
    answer: str | None = None
    by: str | None = None
    answered_at: float | None = None
