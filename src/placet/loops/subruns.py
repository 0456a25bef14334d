"""Maker and checker: each a conversation of its own, with its own model, tools and copy of the files.

Keep true:
1. At L1 no tool is offered that could change anything.
2. Nobody is asked within a round: what needs an approval is denied.
3. Only the checker is offered the tool that gives the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from placet.errors import UsageError
from placet.inference.model import Intent, Model
from placet.loops.budget import ITERATIONS
from placet.loops.levels import offered
from placet.loops.prompts import CHECKER_RULES, MAKER_RULES, REPORT_IS, VERDICT_IS
from placet.loops.round import LEADER, Round, SubRun
from placet.loops.verdict import REPORT, TOOL, Verdict, verdict_tool
from placet.policy.budget import Budget
from placet.policy.permission import CallByCall, Posture
from placet.sandbox.hosts import HostFilter
from placet.sandbox.workspace import Workspace
from placet.turns.closed_by import ClosedBy
from placet.turns.ending import Ending
from placet.turns.limits import TurnLimits
from placet.turns.turning import Turning
from placet.turns.urged import Urged

if TYPE_CHECKING:
    from placet.approvals.approval import Approval
    from placet.checks.sealing import Seal
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import Isolation
    from placet.tools.context import Cancel
    from placet.tools.tool import Tool

LOOKING = ("read_file", "list_dir", "find_files", "grep")
CHANGING = ("write_file", "edit_file", "shell")
_TO_CLOSE = 3
"""Turns that a verdict takes: to give it, to think better of it, and to end."""
_NOBODY = "it needs an approval, and nobody can be asked within a round"


class SubRuns:
    """Leads the conversations of one loop."""

    def __init__(
        self,
        runtime: Runtime,
        maker: Model,
        checker: Model,
        isolation: Isolation,
        *,
        maker_tools: Sequence[Tool] = (),
        checker_tools: Sequence[Tool] = (),
    ) -> None:
        self._runtime = runtime
        self._models = {"maker": maker, "checker": checker}
        self._isolation = isolation
        self._tools = {"maker": list(maker_tools), "checker": list(checker_tools)}

    def model(self, role: str, sub: SubRun, iterations: int) -> Model:
        """Who is asked, until the work is reported or the verdict given. A checker has to give one before its
        turns run out, and may think better of it: it is asked once more."""

        def said() -> str:
            return next((each.summary for each in reversed(sub.given.values()) if each.summary), "Reported.")

        if role == "maker":
            return ClosedBy(self._models[role], REPORT, said)
        urged = Urged(self._models[role], TOOL, after=max(iterations - _TO_CLOSE, 0))
        return ClosedBy(urged, TOOL, said, turns=2)

    def approval(self, round: Round) -> Approval | None:
        """The question that a round has put, as it is by now."""
        ledger = self._runtime.approvals
        if ledger is None:
            return None
        found = ledger.get(round.approval) if round.approval else None
        return found or next(iter(ledger.recent(1, run=round.id)), None)

    async def lead(
        self,
        role: str,
        round: Round,
        sub: SubRun,
        model: Model,
        budget: Budget,
        *,
        folder: str,
        seal: Seal,
        has_begun: bool,
        cancel: Cancel,
        save: Callable[[], None],
    ) -> Ending:
        """How a conversation ended. Verdicts are kept with `save` before the model hears that they are."""

        def give(key: str, verdict: Verdict) -> None:
            sub.given[key] = verdict
            save()

        workspace = Workspace(folder)
        try:
            is_maker = role == "maker"
            tools = self._offered(role, round, workspace, seal)
            tools.append(
                verdict_tool(REPORT, REPORT_IS, give) if is_maker else verdict_tool(TOOL, VERDICT_IS, give)
            )
            runtime = self._runtime.beside(
                tools,
                folder=folder,
                isolation=self._isolation if self._isolation.required != "none" else None,
                asks=False,
            )
            names = [tool.name for tool in tools if tool.name in runtime.tools]
            posture = "full_access" if self._isolation.is_certain else "sandbox_edit"
            turning = Turning(
                runtime=runtime,
                model=model,
                budget=budget,
                run_id=sub.run_id,
                leader=LEADER,
                belongs_to={"round": round.id, "loop": round.loop, "role": role},
                system=MAKER_RULES if is_maker else CHECKER_RULES,
                message=sub.parts,
                tools=names,
                limits=TurnLimits(turns=round.spec.budget.iterations or ITERATIONS),
                by_call=CallByCall(otherwise=Posture.named(posture), overrules=True, nobody=_NOBODY),
                intent=Intent(task="code" if is_maker else "judge", requires=("tools",)),
                cancel=cancel,
                parent=round.id,
            )
            ending, _ = await turning.lead(has_begun=has_begun)
            return ending
        finally:
            workspace.close()

    def _offered(self, role: str, round: Round, workspace: Workspace, seal: Seal) -> list[Tool]:
        from placet.tools.builtin import basic_tools
        from placet.tools.builtin.files import file_tools

        spec = round.spec.maker if role == "maker" else round.spec.checker
        mine = self._tools[role]
        wanted = spec.tools
        if wanted is None:
            own = {tool.name for tool in mine}
            usual = (*LOOKING, *(CHANGING if role == "maker" else ("shell",)))
            wanted = tuple(name for name in usual if name not in own) + (("http_get",) if spec.hosts else ())
            chosen = mine
        else:
            chosen = [tool for tool in mine if tool.name in wanted]
        names = [name for name in wanted if name not in {tool.name for tool in chosen}]
        if "http_get" in names and not spec.hosts:
            raise UsageError(f"The {role} is to have http_get, and no hosts are named. Write hosts = [...].")
        made = basic_tools(
            workspace, isolation=self._isolation, hosts=HostFilter(allow=spec.hosts), only=names
        )
        if role == "maker":
            # What checks depend on is put back anyway; a maker that is told so does not try.
            edits = {tool.name: tool for tool in file_tools(workspace, refuse=seal.why)}
            for each in edits.values():
                each.confined_to = str(workspace.folder)
            made = [edits.get(tool.name, tool) for tool in made]
        return offered([*chosen, *made], round.level)
