"""One candidate: iterations in a folder of its own, until the checks are green or it may go no further.

Keep true:
1. Each iteration is a fresh conversation; what it knows of the ones before is what the checks said.
2. The checks run after every iteration, also one whose turns ran out.
3. Why it went no further is said.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from placet.checks.contract import CheckResult, first_red, labels_of_output
from placet.checks.import_roots import python_path
from placet.checks.signature import signature_of
from placet.coder import events
from placet.coder.asking import TOOL as ASK_USER
from placet.coder.asking import ask_tool
from placet.coder.leads import CONTEXT, place
from placet.coder.learning import learn
from placet.coder.prompt import angle_words, system_words, task_parts, task_words
from placet.coder.proposing import Placing, Proposing
from placet.coder.session import FAILURES, HALTS, INTENT, LEADER, Attempt, Iteration, Question
from placet.coder.style import LOOKING
from placet.errors import PlacetError
from placet.inference.passage import reads_passages
from placet.inference.usage import Usage
from placet.inference.wrappers.temperature import AtTemperature
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.call_facts import Recovery
from placet.ir.json_value import JsonValue
from placet.ir.provenance import Labels, joined
from placet.policy.budget import Budget
from placet.policy.permission import CallByCall, Posture
from placet.safe_text import clean
from placet.sandbox.spot import TEMPORARY
from placet.sandbox.workspace import Workspace
from placet.turns import ending as turn_events
from placet.turns.ending import Ending
from placet.turns.stopping import stopped_by
from placet.turns.turning import Turning

if TYPE_CHECKING:
    from placet.coder.angles import Angle
    from placet.coder.changes import Change
    from placet.coder.context import Chosen
    from placet.coder.python_source import Function
    from placet.coder.repairs import Hint
    from placet.coder.work import Work
    from placet.runtime.call_facts import Effect
    from placet.runtime.runtime import Runtime
    from placet.tools.context import Cancel

_NOBODY = "it needs an approval, and nobody can be asked here"
_UNFINISHED = re.compile(re.escape(TEMPORARY) + r"[0-9a-f]{16}\.tmp")
_VOLATILE = re.compile(r"0x[0-9a-f]+|\b\d+(?:\.\d+)?\s?(?:ms|s|seconds)\b|/[^\s:'\"]*/", re.IGNORECASE)


class Closely(NamedTuple):
    """What an iteration looks at, one place after the other."""

    chosen: Chosen
    words: Callable[[Angle], str]
    """What is asked about a place."""
    lead: str
    """What helped against this very failure before."""


async def in_private_copy(effect: Effect) -> Recovery | None:
    """How a call in the private copy is undone: the person's files stay as they are until it is published."""
    return Recovery(by="copy", scope=effect.scope) if effect.may_change_files else None


class AttemptLoop:
    """Leads one attempt of a session."""

    def __init__(self, work: Work, attempt: Attempt, cancel: Cancel) -> None:
        self._work = work
        self._attempt = attempt
        self._cancel = cancel
        self.halt: Ending | None = None
        """What the turns ended with, where somebody else has to decide what comes next."""
        self._closely: Closely | None = None
        self._shown: Sequence[Function] = ()
        self._fits = False
        """Whether what the hint says is a change that some candidate tries."""

    async def go(self) -> None:
        """Work until it is green, or goes no further: `attempt.ended` says why, unless it was stopped."""
        work, attempt = self._work, self._attempt
        folder = await work.workshop.check_out(attempt.number, work.session.base)
        if attempt.iterations:
            await asyncio.to_thread(_remove_unfinished, folder)
        workspace = Workspace(folder)
        try:
            runtime = await self._runtime(workspace)
            while not attempt.ended:
                iteration, has_begun = await self._next(folder)
                await self._turns(iteration, runtime, has_begun=has_begun)
                if self.halt is not None:
                    return
                if await stopped_by(self._cancel, work.judge(attempt.number, iteration)):
                    self.halt = Ending(
                        status="cancelled", summary=self._cancel.reason, stop_cause=self._cancel.cause
                    )
                    return
                iteration.is_judged = True
                attempt.ended = self._why_no_further(iteration)
                await self._learn(iteration)
                await work.save()
                self._say_ended(iteration)
        finally:
            workspace.close()

    # One iteration

    async def _next(self, folder: Path) -> tuple[Iteration, bool]:
        """The iteration that is under way, or a new one; and whether its turns had begun."""
        work, attempt = self._work, self._attempt
        latest = attempt.latest
        if latest is not None and not latest.is_judged:
            known = await self._recall(self._results())
            hint = known if known is not None and known.id == latest.hint else None
            await self._prompt(folder, self._results(), latest.number, hint, ())
            if not latest.has_turned:
                self._tell_started(latest, None)
            return latest, True
        number = len(attempt.iterations) + 1
        if latest is not None and work.style.takes_angles:
            await self._begin_anew(latest)
        before = self._results()
        hint = await self._recall(before)
        iteration = Iteration(
            number=number,
            run_id=f"{work.session.id}.{attempt.number}.{number}",
            prompt=await self._prompt(folder, before, number, hint, latest.sealed if latest else ()),
            hint=hint.id if hint is not None else None,
            hint_labels=hint.labels if hint is not None else (),
            failed=latest.failed if latest is not None else 0,
        )
        attempt.iterations.append(iteration)
        await work.save()
        work.run.say(
            "coding_iteration_started",
            {
                "attempt": attempt.number,
                "iteration": number,
                "most": work.session.limits.iterations,
                "run": iteration.run_id,
                "hint": iteration.hint,
            },
        )
        self._tell_started(iteration, hint)
        return iteration, False

    async def _recall(self, before: Sequence[CheckResult]) -> Hint | None:
        """What helped before against what is red."""
        red = first_red(before)
        if red is None:
            return None
        key = self._work.session.repository_key
        return await asyncio.to_thread(self._work.repairs.recall, key, signature_of(red))

    def _tell_started(self, iteration: Iteration, hint: Hint | None) -> None:
        self._work.tell(
            events.IterationStarted(
                attempt=self._attempt.number,
                number=iteration.number,
                most=self._work.session.limits.iterations,
                hint=hint.approach if hint is not None else None,
            )
        )

    def _results(self) -> Sequence[CheckResult]:
        judged = self._attempt.judged
        if judged is None or self._work.style.takes_angles:
            return self._work.session.baseline
        return judged.results

    async def _begin_anew(self, latest: Iteration) -> None:
        """Make the files as they were: what did not help is in the way of what might."""
        work, number = self._work, self._attempt.number
        changed = await work.workshop.changed(work.session.base, latest.tree)
        await work.workshop.put_back(number, work.session.base, [each.path for each in changed])

    async def _look(self, folder: Path, before: Sequence[CheckResult]) -> Chosen | None:
        """What the model is shown of the program, if it is."""
        from placet.coder.context import choose

        if not self._work.shows_context:
            return None
        work = self._work
        refuse = (await work.seal()).why if work.style.takes_angles else None
        return await asyncio.to_thread(partial(choose, folder, before, most=work.style.shown, refuse=refuse))

    async def _prompt(
        self,
        folder: Path,
        before: Sequence[CheckResult],
        number: int,
        hint: Hint | None,
        sealed: Sequence[str],
    ) -> str:
        work = self._work
        found = await self._look(folder, before)
        words = partial(
            task_words, work.session.intent, before, hint=hint, sealed=sealed, said=work.style.said
        )
        self._closely = None
        self._shown = found.functions if found is not None else ()
        lead = hint.approach if hint is not None and not hint.is_coarse else ""
        self._fits = place(lead, self._shown) is not None
        if work.style.takes_angles and self._shown and not self._sees_all(number):
            assert found is not None
            self._closely = Closely(found, lambda angle: words(chosen=angle_words(found, angle)), lead)
        return words(chosen=found.text if found is not None else "")

    def _sees_all(self, number: int) -> bool:
        """Whether an iteration of a small model sees all as it is, and may write a function anew: the first
        one of the first candidate. Of one alone that reads, the last: reading helps more often."""
        if self._reads_alone:
            return number == self._work.session.limits.iterations or self._ran_out(number - 1)
        return (self._attempt.number, number) == (1, 1)

    @property
    def _reads_alone(self) -> bool:
        return self._work.session.candidates == 1 and reads_passages(self._work.model)

    def _ran_out(self, number: int) -> bool:
        """Whether nothing was left to try in an iteration."""
        return number > 0 and self._attempt.iterations[number - 1].is_exhausted

    async def _turns(self, iteration: Iteration, runtime: Runtime, *, has_begun: bool) -> None:
        if iteration.has_turned:
            return  # It had ended, and only the checks are missing.
        work, number = self._work, self._attempt.number
        limits, style = work.session.limits.of_iteration, work.style
        if style.turns is not None:
            limits = msgspec.structs.replace(limits, turns=min(style.turns, limits.turns))
        if style.answer_tokens is not None:
            most = min(style.answer_tokens, limits.answer_tokens or style.answer_tokens)
            limits = msgspec.structs.replace(limits, answer_tokens=most)
        system, offered = system_words(style, work.contract), style.tools
        temperature = style.temperature(number, iteration.number)
        budget = Budget(parent=work.run.spending, name=iteration.run_id)
        model: Wrapped = AtTemperature(work.model, temperature)
        if style.takes_angles:
            model = Placing(model, self._shown)
        if self._closely is not None:
            system, offered = style.angle_rules, style.angle_tools
            model = Proposing(
                AtTemperature(work.model, temperature),
                budget,
                proposals=work.proposals,
                chosen=self._closely.chosen,
                words=self._closely.words,
                rules=style.angle_rules,
                lead=self._closely.lead,
                first=iteration.tried,
                said=partial(self._said, iteration),
                note=lambda text: work.note(clean(text, 300), number),
            )
        turning = Turning(
            runtime=runtime,
            model=model,
            budget=budget,
            run_id=iteration.run_id,
            leader=LEADER,
            belongs_to={"session": work.session.id},
            system=system,
            message=task_parts(work.session.intent, iteration.prompt, self._labels(iteration)),
            tools=[*offered, *([ASK_USER] if ASK_USER in runtime.tools else [])],
            limits=limits,
            by_call=self._by_call(),
            intent=INTENT,
            failures=FAILURES,
            failed=iteration.failed,
            cancel=self._cancel,
            watch=self._heard,
            parent=work.session.id,
        )
        ending, failed = await turning.lead(has_begun=has_begun)
        if isinstance(model, Proposing) and model.spare.usage is not None and model.spare.usage.total:
            iteration.spare = (iteration.spare or Usage(input=0, output=0)) + model.spare.usage
        iteration.status, iteration.summary = ending.status, ending.summary
        iteration.turns, iteration.failed = ending.turns, failed
        iteration.usage, iteration.cost_usd = ending.usage, ending.cost_usd
        iteration.labels = ending.labels
        if ending.status in HALTS:
            self.halt = ending
        await work.save()
        if ending.succeeded and ending.summary.strip():
            work.tell(events.PlanTold(attempt=number, text=ending.summary))
        work.tell(
            events.Spent(
                attempt=number,
                number=iteration.number,
                turns=ending.turns,
                tokens=work.session.tokens,
                cost_usd=work.session.cost_usd,
            )
        )

    def _labels(self, iteration: Iteration) -> Labels:
        """The labels on what an iteration is told: of what earlier ones had read, because the checks ran on
        what those wrote; of the output of checks; and of a repair, which is an earlier model's words and may
        be somebody else's."""
        earlier = [each for each in self._attempt.iterations if each.number < iteration.number]
        found = joined(*(each.labels for each in earlier), labels_of_output(self._results()))
        if iteration.hint is None:
            return found
        return joined(found, dict.fromkeys(iteration.hint_labels, (f"repair {iteration.hint}",)))

    async def _said(self, iteration: Iteration, change: Change | None) -> None:
        """Keep what is proposed before it is heard: it is not to be proposed to another candidate after a
        crash, nor to be lost. `None`: nothing is left to try."""
        iteration.tried, iteration.is_exhausted = change, change is None
        await self._work.save()

    # Around it

    async def _runtime(self, workspace: Workspace) -> Runtime:
        from placet.tools.builtin import basic_tools
        from placet.tools.builtin.code import code_tools
        from placet.tools.builtin.files import file_tools

        work = self._work
        refuse = (await work.seal()).why
        tools = basic_tools(
            workspace,
            isolation=work.isolation,
            environment=python_path(str(workspace.folder), work.roots),
            only=(*LOOKING, "shell"),
        )
        edits = [*file_tools(workspace, refuse=refuse, syntax=True), *code_tools(workspace, refuse=refuse)]
        for each in edits:
            each.confined_to = str(workspace.folder)
        tools += [each for each in edits if each.name != "read_file"]
        if work.ask_s is not None:
            tools.append(
                ask_tool(
                    work.sessions,
                    work.session.id,
                    seconds=work.ask_s,
                    here=work.ask_here,
                    asked=self._asked,
                    closed=self._closed,
                    waiting=work.run.waiting,
                )
            )
        return work.runtime.beside(
            tools, folder=str(workspace.folder), isolation=work.isolation, recovery=in_private_copy
        )

    def _by_call(self) -> CallByCall:
        # What is confined by the kernel to a private folder can be thrown away; what is not is asked about.
        posture = "full_access" if self._work.isolation.is_certain else "sandbox_edit"
        return CallByCall(otherwise=Posture.named(posture), overrules=True, nobody=_NOBODY)

    def _asked(self, question: Question, is_new: bool) -> None:
        work, number = self._work, self._attempt.number
        if is_new:
            said: dict[str, JsonValue] = {
                "attempt": number,
                "question": question.id,
                "text": clean(question.text, 2_000),
            }
            work.run.say("coding_question_asked", said)
        work.tell(events.Asked(attempt=number, question=question))

    def _closed(self, question: Question) -> None:
        by = clean(question.by, 200) if question.by is not None else None
        said: dict[str, JsonValue] = {"attempt": self._attempt.number, "question": question.id, "by": by}
        self._work.run.say("coding_question_closed", said)

    def _heard(self, event: turn_events.Event) -> None:
        number, tell = self._attempt.number, self._work.tell
        match event:
            case turn_events.Text():
                tell(events.Said(attempt=number, text=event.text))
            case turn_events.Call():
                tell(
                    events.Called(
                        attempt=number,
                        turn=event.turn,
                        action_id=event.action_id,
                        tool=event.tool,
                        parameters=event.parameters,
                    )
                )
            case turn_events.CallResult():
                tell(
                    events.CallEnded(
                        attempt=number,
                        turn=event.turn,
                        action_id=event.action_id,
                        tool=event.tool,
                        ok=event.ok,
                        status=event.status,
                        text=event.text,
                        exit_code=event.exit_code,
                    )
                )
            case turn_events.Trouble():
                tell(events.Trouble(attempt=number, text=event.text))
            case turn_events.Note():
                tell(events.Noted(attempt=number, text=event.text))
            case _:
                pass

    # What follows from the checks

    def _counts_for(self, iteration: Iteration) -> str | None:
        """The hint that an iteration of a small model says something about. What a hint says is tried once in
        a session, whoever does it; the others only look elsewhere."""
        made = [each for other in self._work.session.attempts for each in other.iterations if each.is_judged]
        shown = [each for each in made if each.hint is not None and each.hint == iteration.hint]
        tried = [each for each in shown if each.tried is not None and each.tried.is_remembered]
        if iteration in tried or not shown:
            return iteration.hint
        if iteration.is_green:
            return None if tried else iteration.hint
        return None if tried or self._fits or len(shown) > 1 else iteration.hint

    async def _learn(self, iteration: Iteration) -> None:
        """Remember what helped, and what did not."""
        work, attempt = self._work, self._attempt
        before = attempt.iterations[-2].results if len(attempt.iterations) > 1 else work.session.baseline
        hint = iteration.hint
        if work.style.takes_angles:
            before = work.session.baseline  # Each begins anew.
            hint = self._counts_for(iteration)
        try:
            diff = ""
            if iteration.is_green and (work.style.takes_angles or iteration.status != "success"):
                diff = await work.workshop.diff(work.session.base, iteration.tree, context=CONTEXT)
            await asyncio.to_thread(
                partial(
                    learn,
                    work.repairs,
                    work.session.repository_key,
                    iteration,
                    before=before,
                    baseline=work.session.baseline,
                    hint=hint,
                    diff=diff,
                )
            )
        except PlacetError as error:
            # What could not be remembered takes nothing from the work.
            work.note(f"what was learned could not be kept: {error}", attempt.number)

    def _why_no_further(self, iteration: Iteration) -> str:
        attempt, limits = self._attempt, self._work.session.limits
        if iteration.is_green:
            return "green"
        if iteration.status == "error" and iteration.failed >= FAILURES:
            return f"the model gave no answer {iteration.failed} times in a row: {iteration.summary}"
        same = limits.same_failure
        if same is not None and self._work.style.counts_failures and len(attempt.iterations) >= same:
            latest = attempt.iterations[-same:]
            if len({_failure(each) for each in latest}) == 1:
                return f"the same failure came back {same} times unchanged"
        # One alone looks at the whole once more before it gives up.
        if self._ran_out(iteration.number - 1 if self._reads_alone else iteration.number):
            return "there is nothing left to try"
        if len(attempt.iterations) >= limits.iterations:
            number = limits.iterations
            return f"{number:,} {'iteration was' if number == 1 else 'iterations were'} not enough"
        return ""

    def _say_ended(self, iteration: Iteration) -> None:
        self._work.run.say(
            "coding_iteration_ended",
            {
                "attempt": self._attempt.number,
                "iteration": iteration.number,
                "status": iteration.status,
                "turns": iteration.turns,
                "green": iteration.is_green,
                "red": [result.name for result in iteration.results if not result.passed],
                "why_no_further": clean(self._attempt.ended, 500),
            },
        )


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed process was about to put in the place of a file: it would be taken for work."""
    for top, _, names in os.walk(folder):
        for name in names:
            if _UNFINISHED.fullmatch(name):
                os.unlink(os.path.join(top, name))


def _failure(iteration: Iteration) -> str:
    """By which a failure is known to be the very same: all that the red checks said, without times."""
    said = [
        f"{result.name}\n{result.exit_code}\n{result.ended_by}\n{_VOLATILE.sub('', result.output)}"
        for result in iteration.results
        if not result.passed
    ]
    return "\n\n".join([*iteration.sealed, *said])
