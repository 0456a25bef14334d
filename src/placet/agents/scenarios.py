"""Trying an agent on its scenarios: each in a fresh folder, k times, several at once.

Keep true:
1. Each run has a folder of its own, with the files of the scenario and nothing else; it is gone afterwards.
2. A scenario passes only if the agent's run ended in success and all that is expected is so.
3. What runs at once changes nothing but how long it takes: the report is in the order of the spec.
4. Tools that are kept in to that folder need no approval. Of others those that only read run; any other call
   is refused, and a run with such a call is no success.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.agents.expectations import unmet, unmet_check, unmet_regex
from placet.agents.report import SHOWN, Report, ScenarioReport, Trial, tokens_of
from placet.agents.result import AgentResult
from placet.agents.runner import AgentRunner, spending, stopper
from placet.agents.spec import CHECK_S, AgentSpec, Expectations, Scenario, check_spec
from placet.errors import InputError, UsageError
from placet.ir.json_value import JsonValue
from placet.ir.proposal import new_id
from placet.policy.permission import Posture, Stance, StanceOf
from placet.runtime.stop_requests import linked
from placet.safe_text import clean
from placet.sandbox.confinement import Isolation
from placet.sandbox.workspace import Workspace
from placet.thread_work import finish_in_thread
from placet.turns.ending import CallResult, Event
from placet.turns.stopping import first_error, in_time, stopped_by

if TYPE_CHECKING:
    from placet.inference.model import Model
    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.tools.context import Cancel
    from placet.tools.tool import Tool

AT_ONCE = 4
"""How many runs there are at the same time, unless somebody says otherwise."""
MOST_K = 1_000
NOBODY = "it needs an approval, and in a scenario nobody is asked"

MakeTools = Callable[[Workspace, Isolation], Iterable["Tool"]]
"""Makes the tools for one folder."""
Heard = Callable[[str, Trial], None]
"""Hears of each run when it is over: the scenario's name, and what came of it."""


class Trying:
    """What scenarios are run with: a runtime, a model, and how commands are kept in."""

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        *,
        isolation: Isolation | None = None,
        make_tools: MakeTools | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        """`runtime` brings policies, the log and the journal; of its tools those that an agent may use and
        that are no basic ones, as they are. The basic tools are made anew for each folder; `make_tools` makes
        others instead. Tools of which it is not known that they are kept in to that folder, by
        `Tool.confined_to`, may only read. Without `isolation`, commands must be kept in by the kernel.

        Raises:
            UsageError: nothing could run at once.
        """
        import os

        from placet.storage.location import user_folder

        if at_once < 1:
            raise UsageError(f"at_once is {at_once}; it is 1 or more.")
        self.runtime = runtime
        self.model = model
        self.isolation = isolation or Isolation("process", folder=user_folder(os.environ))
        self.at_once = at_once
        self._make_tools = make_tools or _basic

    async def try_all(
        self,
        spec: AgentSpec,
        *,
        k: int = 1,
        only: Sequence[str] = (),
        budget: OpenRun | None = None,
        cancel: Cancel | None = None,
        heard: Heard | None = None,
    ) -> Report:
        """Run every scenario of an agent `k` times; `only` names those that are wanted. What models take
        counts for the run `budget`, if there is one.

        Raises:
            UsageError: the spec cannot be used, has no scenarios, or none of a name in `only`.
            IsolationMissing: this machine enforces less than is required.
        """
        check_spec(spec)
        if not 1 <= k <= MOST_K:
            raise UsageError(f"k is {k}; it is from 1 to {MOST_K:,}.")
        chosen = chosen_scenarios(spec, only)
        await self.isolation.check()
        began = time.monotonic()
        room = asyncio.Semaphore(self.at_once)

        async def one(name: str, scenario: Scenario, number: int) -> Trial:
            async with room:
                trial = await self._try(spec, scenario, number, budget, cancel)
            if heard is not None:
                heard(name, trial)
            return trial

        with first_error():
            async with asyncio.TaskGroup() as group:
                tasks = [
                    [group.create_task(one(name, scenario, n)) for n in range(1, k + 1)]
                    for name, scenario in chosen
                ]
        return Report(
            agent=spec.id,
            k=k,
            model=str(getattr(self.model, "name", "")),
            scenarios=tuple(
                ScenarioReport(
                    name=name,
                    input=clean(scenario.exchanges[0].input, SHOWN),
                    trials=tuple(task.result() for task in trials),
                )
                for (name, scenario), trials in zip(chosen, tasks, strict=True)
            ),
            seconds=round(time.monotonic() - began, 3),
        )

    async def _try(
        self,
        spec: AgentSpec,
        scenario: Scenario,
        number: int,
        budget: OpenRun | None,
        cancel: Cancel | None,
    ) -> Trial:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="placet-scenario-", ignore_cleanup_errors=True) as made:
            folder = Path(made)
            await finish_in_thread(partial(_lay_out, folder, scenario.files))
            workspace = Workspace(folder)
            try:
                failures, result = await self._converse(spec, scenario, workspace, budget, cancel)
            finally:
                self.isolation.forget(workspace)
                workspace.close()
        return Trial(
            number=number,
            passed=not failures,
            failures=tuple(failures),
            status=result.status,
            output=clean(result.output, SHOWN, lines=True),
            called=result.called,
            turns=result.turns,
            tokens=tokens_of(result.usage),
            cost_usd=result.cost_usd,
            seconds=round(time.monotonic() - began, 3),
            run_id=result.run_id,
        )

    async def _converse(
        self,
        spec: AgentSpec,
        scenario: Scenario,
        workspace: Workspace,
        budget: OpenRun | None,
        cancel: Cancel | None,
    ) -> tuple[list[str], AgentResult]:
        tools = self.tools_for(workspace)
        runtime = self.runtime.beside(
            tools, folder=str(workspace.folder), isolation=self.isolation, asks=False
        )
        # What is kept in to a folder that is thrown away can be thrown away; what is not is refused.
        posture = Posture.named("full_access" if self.isolation.is_certain else "sandbox_edit")
        runner = AgentRunner(
            runtime,
            self.model,
            # What a memory holds differs from day to day, and so would the trial.
            msgspec.structs.replace(spec, memory=False),
            posture=posture,
            workspace=workspace,
            isolation=self.isolation,
            nobody=NOBODY,
            stance=_kept_in(tools, workspace),
        )
        refused: list[str] = []

        def watch(event: Event) -> None:
            if isinstance(event, CallResult) and not event.ok and NOBODY in event.text:
                refused.append(event.tool)

        # The time of the agent is not for checks of its work, but none of them may take longer.
        check_s = min(CHECK_S, spec.limits.time_s or CHECK_S)

        async def failed(result: AgentResult, expected: Expectations) -> list[str]:
            with in_time(spending(budget), cancel, stopper(budget)) as inner:
                return await self._failed(result, expected, workspace, check_s, inner)

        exchanges, failures = scenario.exchanges, []
        if spec.goal is not None and not scenario.turns:
            result = await runner.run(
                scenario.input, run_id=new_id(), cancel=cancel, watch=watch, budget=budget
            )
        else:
            with linked(cancel) as inner:
                async with runner.conversation(
                    run_id=new_id(), cancel=inner, watch=watch, budget=budget
                ) as talk:
                    for at, exchange in enumerate(exchanges, start=1):
                        said = await talk.say(exchange.input)
                        failures = await failed(said, exchange)
                        if failures:
                            failures = [f"message {at}: {why}" for why in failures] if at > 1 else failures
                            break
                    result = talk.result
        if not failures:
            failures = await failed(result, scenario)
        failures += [f"it called '{clean(name, 80)}': {NOBODY}" for name in dict.fromkeys(refused)]
        return failures, result

    async def _failed(
        self,
        result: AgentResult,
        expected: Expectations,
        workspace: Workspace,
        check_s: float,
        cancel: Cancel,
    ) -> list[str]:
        """Why an answer is none, or not the one that was expected."""
        if not result.succeeded:
            why = f": {clean(result.error, 300)}" if result.error else ""
            return [f"expected that it ends in success, and it ended as {result.status}{why}"]
        failures = unmet(expected, result.output, result.called)

        async def look() -> None:
            if expected.regex is not None:
                failures.extend(await unmet_regex(expected.regex, result.output))
            if expected.check is not None:
                failures.extend(
                    await unmet_check(expected.check, workspace, self.isolation, timeout_s=check_s)
                )

        if cancel.requested or await stopped_by(cancel, look()):
            failures.append(f"what is expected was not looked at to the end: {clean(cancel.reason, 300)}")
        return failures

    def tools_for(self, workspace: Workspace) -> list[Tool]:
        """The tools for one folder: the basic ones, and what the runtime has besides."""
        made = list(self._make_tools(workspace, self.isolation))
        names = {tool.name for tool in made}
        # A basic tool of the runtime works in another folder: what is made here stands in its place.
        return [*made, *(tool for tool in self.runtime.tools if tool.name not in names)]


def _kept_in(tools: Iterable[Tool], workspace: Workspace) -> StanceOf:
    """Asks about whatever could do more than read elsewhere than in this folder."""
    beyond = frozenset(
        tool.name
        for tool in tools
        if tool.confined_to != str(workspace.folder) and tool.schema.risk != "read_only"
    )

    def stance(tool: str, parameters: Mapping[str, JsonValue]) -> Stance | None:
        if tool not in beyond:
            return None
        return Stance("ask", f"tool '{tool}' is not kept in to the folder of the scenario")

    return stance


def scenario_names(spec: AgentSpec) -> list[str]:
    """What the scenarios of an agent are called: by their names, else by their numbers from 1."""
    return [scenario.name or f"#{number}" for number, scenario in enumerate(spec.scenarios, start=1)]


def chosen_scenarios(spec: AgentSpec, only: Sequence[str]) -> list[tuple[str, Scenario]]:
    """Those of an agent's scenarios that are named, with their names; without any name all of them.

    Raises:
        UsageError: there are none, or none of that name.
    """
    every = list(zip(scenario_names(spec), spec.scenarios, strict=True))
    if not every:
        raise UsageError(
            f"Agent '{spec.id}' has no scenarios. Write one with an input and what is expected: "
            '[[scenarios]]  input = "..."  expect = "..."'
        )
    for name in only:
        if name not in dict(every):
            known = ", ".join(f"'{clean(each, 60)}'" for each, _ in every[:10])
            raise UsageError(f"Agent '{spec.id}' has no scenario '{clean(name, 80)}'. There are: {known}.")
    return [(name, scenario) for name, scenario in every if not only or name in only]


def _basic(workspace: Workspace, isolation: Isolation) -> Iterable[Tool]:
    from placet.tools.builtin import basic_tools

    return basic_tools(workspace, isolation=isolation)


def _lay_out(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            words = f"Cannot write '{clean(name, 80)}' of a scenario: {error.strerror or error}."
            raise InputError(words) from None
