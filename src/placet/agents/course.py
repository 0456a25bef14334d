"""The course of one run of an agent: what is said to it, and its goal until it is met.

A run holds all that comes of one message, and what is said to the agent while its goal is not met.

Keep true:
1. With a goal the agent is told what is missing until the check passes, its tries are used up, or it has
   ended so that no check is to be made.
2. Whoever stops the agent stops the check of its goal, too.
3. Whatever came of the run is kept at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from placet.agents.goal import CHECKED_AFTER, Checked, GoalResult, run_check
from placet.agents.prompt import again_words
from placet.agents.result import AgentResult, Stop, loop_of, sum_up
from placet.agents.spec import AgentSpec, Goal
from placet.errors import UsageError
from placet.inference.messages import User
from placet.ir.provenance import MessageText, Provenance, SourcedText, parts_of, printed_by_check, text_of
from placet.policy.budget import TIME
from placet.tools.context import Cancel
from placet.truncation import truncate_tail
from placet.turns.ending import OUTCOMES, Ending
from placet.turns.loop import TurnLoop
from placet.turns.stopping import in_time, stopped_by

if TYPE_CHECKING:
    from placet.runtime.open_run import OpenRun
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace


class Course(NamedTuple):
    """An open conversation with an agent. Made by `AgentRunner.conversation`."""

    run: OpenRun
    loop: TurnLoop
    spec: AgentSpec
    cancel: Cancel
    workspace: Workspace | None
    isolation: Isolation | None
    absent: Sequence[str]
    """Tools on the agent's list that are not there."""

    async def say(self, text: MessageText) -> AgentResult:
        """Send a message and return the result of it.

        Args:
            text: The message. A `str` counts as typed by the person; of a list of `SourcedText`, only the
                parts that the person typed do.

        Raises:
            UsageError: the message is empty.
        """
        parts = parts_of(text)
        return await self.put(text_of(parts), Provenance.of(parts))

    async def put(self, text: str, provenance: Provenance) -> AgentResult:
        """Send a message of which it is recorded who wrote it."""
        check_said(text)
        return self._came_of([await self.loop.say(User(text), provenance)])

    async def go_on(self) -> Ending | None:
        """Bring it to where it stood; None if nothing had been said."""
        return await self.loop.go_on()

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run.run_id

    @property
    def has_begun(self) -> bool:
        """Whether anything was said."""
        return bool(self.loop.endings)

    @property
    def result(self) -> AgentResult:
        """The result of all messages so far."""
        return self._came_of(self.loop.endings)

    def _came_of(self, endings: Sequence[Ending], goal: GoalResult | None = None) -> AgentResult:
        return sum_up(endings, self.spec, goal, self._stop, absent=self.absent)

    @property
    def _stop(self) -> Stop | None:
        """What keeps it from going on, if anything does."""
        over = self.run.spending.exceeded()
        if over is not None and over.limit == TIME:
            return Stop("budget", over.words)
        return Stop("cancelled", self.cancel.reason) if self.cancel.requested else None

    async def pursue(self) -> GoalResult | None:
        """Drive the agent on until its goal is met, or it may try no more; None without a goal."""
        goal = self.spec.goal
        if goal is None:
            return None
        while True:
            tries = len(self.loop.endings)
            latest = self.loop.endings[-1]
            if latest.status not in CHECKED_AFTER:
                return GoalResult(met=False, iterations=tries, reason=latest.error or latest.summary)
            checked = await self._check(goal)
            if checked is None:
                stop = self._stop
                return GoalResult(met=False, iterations=tries, reason=stop.reason if stop else "")
            self.run.say(
                "turn_goal_checked",
                {
                    "iteration": tries,
                    "most": goal.max_iterations,
                    "check": self.run.brief(goal.check, 2_000),
                    "passed": checked.passed,
                    "why": checked.why or None,
                    "output": truncate_tail(checked.output, 2_000),
                },
            )
            if checked.passed or tries >= goal.max_iterations:
                await self.loop.judged(checked.passed)
            if checked.passed:
                return GoalResult(met=True, iterations=tries)
            if tries >= goal.max_iterations:
                return GoalResult(met=False, iterations=tries, reason=checked.why)
            told = again_words(checked)
            # Labels of what the agent had read are with its conversation.
            part = SourcedText(told, "program", printed_by_check("goal"))
            await self.loop.say(User(told), Provenance.of([part]))

    async def _check(self, goal: Goal) -> Checked | None:
        """What came of the check; None if it was stopped, by somebody or because the time is over."""
        assert self.workspace is not None
        assert self.isolation is not None
        found: list[Checked] = []

        async def check() -> None:
            assert self.workspace is not None
            assert self.isolation is not None
            found.append(
                await run_check(goal.check, self.workspace, self.isolation, timeout_s=goal.timeout_s)
            )

        with in_time(self.run.spending, self.cancel) as cancel:
            if cancel.requested or await stopped_by(cancel, check()):
                return None
        return found[0]

    async def end(self, goal: GoalResult | None) -> AgentResult:
        """End the run, with all that came of it."""
        result = self._came_of(self.loop.endings, goal)
        await self.run.end(
            OUTCOMES[result.status],
            None if result.succeeded else result.error,
            loop=loop_of(result),
            waiting=result.waiting or None,
        )
        return result


def check_said(text: str) -> None:
    """Make sure that something can be said to an agent.

    Raises:
        UsageError: it is nothing, or no text that could be kept or sent.
    """
    if not text.strip():
        raise UsageError("There is nothing to do. Say in a sentence what the agent is to do.")
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise UsageError("What is said to the agent holds half of a surrogate pair. Write valid Unicode.")
