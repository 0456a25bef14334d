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

from placet.checks.contract import CheckResult, Contract
from placet.coder.changes import Change
from placet.errors import UsageError
from placet.inference.model import Intent
from placet.inference.usage import Usage
from placet.ir.provenance import Labels
from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import Mark
from placet.truncation import truncate_repr
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
"""State of a coding session.

- `created`: nothing has happened yet.
- `contract_proposed`: the model drafted a contract; a person has to confirm it.
- `contract_confirmed`: the contract is confirmed.
- `running`: the model is working.
- `needs_approval`: the change passes; a person has to approve it.
- `merged`: the change is published.
- `failed`: the checks did not pass.
- `abandoned`: it was denied or cancelled, or there was nothing to do.
"""

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
    """Limits of a coding session. `None` means no limit."""

    iterations: int = 8
    """How often each candidate starts a new conversation."""
    turns: int = 24
    """How often the model is asked in each iteration; under the style `small`, once."""
    answer_tokens: int = 4096
    """Tokens of each answer; under the style `small`, fewer."""
    tokens: int | None = None
    """Tokens read and written in the whole session, over all candidates."""
    cost_usd: float | None = None
    """Cost of the whole session in US dollars."""
    time_s: float | None = None
    """Wall-clock time of the whole session in seconds; time spent waiting for people is not counted."""
    call_s: float | None = None
    """Time for each tool call in seconds."""
    context_tokens: int | None = None
    """Size of the model's context window."""
    same_failure: int | None = 3
    """How often in a row the same failure may return before the candidate gives up. Not used under the style
    `small`."""

    def __post_init__(self) -> None:
        for name in ("iterations", "same_failure"):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not (value is None and name == "same_failure") and not (is_whole and value >= 1):
                raise UsageError(
                    f"CodeLimits({name}={truncate_repr(value, 40)}): it must be a whole number above 0."
                )
        # What is wrong with the others is said there.
        _ = self.of_iteration, self.of_session

    @property
    def of_iteration(self) -> TurnLimits:
        """The limits of one iteration."""
        return TurnLimits(
            turns=self.turns,
            answer_tokens=self.answer_tokens,
            call_s=self.call_s,
            context_tokens=self.context_tokens,
        )

    @property
    def of_session(self) -> TurnLimits:
        """The limits of all candidates together."""
        return TurnLimits(tokens=self.tokens, cost_usd=self.cost_usd, time_s=self.time_s)


class Iteration(ToDict, msgspec.Struct, kw_only=True):
    """One conversation with the model, and the checks after it."""

    number: int
    """Number of the iteration, from 1."""
    run_id: str
    """Id of the run of its turns."""
    prompt: str = ""
    """The prompt that the model got."""
    labels: Labels | None = None
    """The labels on what the model wrote, each with its path; `None` while that is not known."""
    hint: str | None = None
    """Id of the repair that was shown to the model."""
    hint_labels: tuple[Mark, ...] = ("untrusted",)
    """The labels on that repair."""
    status: str = ""
    """How the turns ended, as in `Ending`; empty while they run."""
    summary: str = ""
    """The last words of the model."""
    turns: int = 0
    """How often the model was asked."""
    usage: Usage | None = None
    """Tokens of its answers, as far as they are known."""
    cost_usd: float | None = None
    """Cost in US dollars; `None` if it is not known."""
    failed: int = 0
    """How many times in a row the model had given no answer when it ended."""
    tree: str = ""
    """Git tree of the files after the turns."""
    sealed: list[str] = []
    """Files that checks depend on which were changed, and restored."""
    needs_person: dict[str, str] = {}
    """Files of the change that checks read or load and that may not be the program's, each with the reason. A
    change with such a file is published only after a person approved it."""
    tried: Change | None = None
    """The single change that the iteration is about, under the style `small`."""
    is_exhausted: bool = False
    """Whether there was nothing left to try, under the style `small`."""
    spare: Usage | None = None
    """Tokens of turns that gave no answer, in addition to `usage`."""
    results: list[CheckResult] = []
    """Results of the checks."""
    is_judged: bool = False
    """Whether the checks have run."""

    @property
    def has_turned(self) -> bool:
        """Whether its turns have ended and nobody has to decide anything."""
        return bool(self.status) and self.status not in HALTS

    @property
    def has_answers(self) -> bool:
        """Whether the model answered at least once."""
        return self.turns > self.failed

    @property
    def is_green(self) -> bool:
        """Whether all checks passed and no sealed file was changed."""
        return (
            self.is_judged and not self.sealed and bool(self.results) and all(r.passed for r in self.results)
        )


class Attempt(ToDict, msgspec.Struct, kw_only=True):
    """One candidate: a folder of its own, and iterations in it."""

    number: int
    """Number of the attempt, from 1."""
    iterations: list[Iteration] = []
    """Its iterations, in order."""
    ended: str = ""
    """Why it ended; empty while it runs."""

    @property
    def is_green(self) -> bool:
        """Whether it has ended with all checks passed."""
        return self.judged is not None and self.judged.is_green

    @property
    def latest(self) -> Iteration | None:
        """The newest iteration."""
        return self.iterations[-1] if self.iterations else None

    @property
    def judged(self) -> Iteration | None:
        """The newest iteration whose checks have run."""
        return next((each for each in reversed(self.iterations) if each.is_judged), None)


class Session(ToDict, msgspec.Struct, kw_only=True):
    """A coding session."""

    id: str
    """Id of the session, and of its run."""
    intent: str
    """The change to make, in words."""
    repository: str
    """Top folder of the user's repository."""
    repository_key: str = ""
    """Key of the repository in the store of repairs; the same for every clone."""
    state: State = "created"
    """Current state."""
    reason: str = ""
    """Why it is in this state, if that needs explaining."""
    contract: Contract | None = None
    """The checks that must pass; `None` before there is a contract."""
    limits: CodeLimits = CodeLimits()
    """Its limits."""
    candidates: int = 1
    """Number of attempts that are made side by side."""
    style: str = "large"
    """`"large"` or `"small"`."""
    model: str = ""
    """Name of the model."""
    begun_on: str = ""
    """The user's commit at the start."""
    base: str = ""
    """Git tree at the start of the work."""
    includes_changes: bool = False
    """Whether the work starts with the user's uncommitted changes."""
    included: list[str] = []
    """Files with such changes; they become part of the commit."""
    even_if_green: bool = False
    """Whether to work even if all checks pass before any change."""
    drafting: Usage | None = None
    """Tokens used to draft the contract."""
    drafting_usd: float | None = 0.0
    """Cost of drafting the contract in US dollars."""
    baseline: list[CheckResult] = []
    """Results of the checks before any work."""
    attempts: list[Attempt] = []
    """The candidates."""
    winner: int | None = None
    """Number of the attempt that passed first."""
    result: str = ""
    """Git tree that is to be published."""
    commit: str = ""
    """The commit that was published."""
    branch: str = ""
    """The branch on which it was published."""
    created_at: float = 0.0
    """When it was created, in seconds since the epoch."""
    changed_at: float = 0.0
    """When it last changed, in seconds since the epoch."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.state in OPEN

    @property
    def is_green(self) -> bool:
        """Whether the checks of the winner passed."""
        won = self.won
        return won is not None and won.is_green

    @property
    def needs_person(self) -> dict[str, str]:
        """Files of the passing change that a person has to look at, each with the reason."""
        return self.won.needs_person if self.won is not None else {}

    @property
    def won(self) -> Iteration | None:
        """The iteration whose checks passed."""
        if self.winner is None:
            return None
        return next(a for a in self.attempts if a.number == self.winner).judged

    @property
    def results(self) -> list[CheckResult]:
        """The latest results of the checks: of the winner, otherwise of the last attempt that was checked,
        otherwise of the baseline.
        """
        if self.won is not None:
            return self.won.results
        judged = [each.judged for each in self.attempts if each.judged is not None]
        return judged[-1].results if judged else self.baseline

    @property
    def iterations(self) -> int:
        """Number of iterations, over all candidates."""
        return sum(len(attempt.iterations) for attempt in self.attempts)

    @property
    def tokens(self) -> int:
        """Tokens read and written, as far as they are known."""
        made = [each for attempt in self.attempts for each in attempt.iterations]
        used = [self.drafting, *(each.usage for each in made), *(each.spare for each in made)]
        return sum(usage.total for usage in used if usage is not None)

    @property
    def cost_usd(self) -> float | None:
        """Cost in US dollars; `None` if part of it is not known."""
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


class Question(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A question of a model to a person."""

    id: str
    """Id of the question."""
    session: str
    """Id of the session."""
    text: str
    """The question."""
    asked_at: float
    """When it was asked, in seconds since the epoch."""
    until: float
    """When the model continues without an answer, in seconds since the epoch."""
    answer: str | None = None
    """The answer; `None` while it is open."""
    by: str | None = None
    """Who answered."""
    answered_at: float | None = None
    """When it was answered, in seconds since the epoch."""
