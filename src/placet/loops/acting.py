"""The executor as an action of the round's run: gated, journalled, asked about and recorded as every effect.

Keep true:
1. What a person is asked is what will be done: the parameters name loop, round, tree and base.
2. The act that is carried out is the one of the parameters, and it is refused if they name another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from placet.errors import PlacetError, ToolError
from placet.ir.action import Action
from placet.ir.call_facts import Recovery
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.provenance import joined
from placet.ir.tool_spec import ToolSchema
from placet.loops.executors.commit import CommitExecutor
from placet.loops.executors.executor import Act, Bench, Executor
from placet.loops.hooks import HOOK
from placet.loops.hooks import run_hook as run
from placet.loops.round import LEADER, Receipt, Round
from placet.policy.marks import Inflow, marks_from
from placet.policy.permission import CallByCall, Posture, Stance
from placet.safe_text import clean
from placet.tools.context import ToolContext
from placet.tools.tool import Tool
from placet.turns.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from placet.sandbox.confinement import Isolation

ACTION = "act"
_NOBODY = "it needs an approval, and nobody can be asked here"
_MOST_FILES = 100
_WRITTEN = frozenset({"files", "concerns", "not_verified_because", "checks", "reason", "would", "summary"})
"""The parameters of an act in which words of maker or checker stand, or what came of them."""


def tool_name(executor: Executor) -> str:
    """What the executor is called as a tool."""
    return f"loop_{executor.name}"


def act_of(round: Round) -> Act:
    """The act that a round has come to."""
    return Act(
        loop=round.loop,
        round=round.id,
        number=round.number,
        kind=round.spec.kind,
        summary=round.summary,
        change=round.maker.text if round.maker is not None else "",
        intent=round.spec.intent,
        tree=round.tree,
        base=round.base,
        base_tree=round.base_tree,
        changed=tuple(round.changed),
        included=tuple(round.included),
        began=round.started_at,
        checks=tuple(check.command for check in round.spec.checks),
        verdict=round.verdict,
    )


def executor_tool(
    executor: Executor,
    round: Callable[[], Round],
    bench: Callable[[], Bench],
    before: Callable[[], Awaitable[None]],
    clock: Callable[[], float],
) -> Tool:
    """The tool that carries out what a round has come to. `before` refuses what no longer applies."""

    async def carry_out(parameters: dict[str, Any], context: ToolContext) -> dict[str, JsonValue]:
        of = round()
        if (parameters.get("tree"), parameters.get("round")) != (of.tree, of.id):
            raise ToolError("This is about another tree than the round has. Nothing was done.", retry=False)
        await before()
        act = msgspec.structs.replace(act_of(of), key=f"{of.id}:{of.tree}:{context.idempotency_key}")
        try:
            done = await executor.execute(act, bench())
        except ToolError:
            raise
        except PlacetError as error:
            raise ToolError(str(error), retry=False) from None
        receipt = Receipt(
            loop=of.loop,
            round=of.id,
            kind=of.spec.kind,
            executor=executor.name,
            summary=done.summary,
            tree=of.tree,
            base=of.base,
            key=act.key,
            at=clock(),
            data=done.data,
        ).sealed()
        data: dict[str, JsonValue] = msgspec.to_builtins(receipt)
        return data

    schema = ToolSchema(
        name=tool_name(executor),
        description=f"Carry out what a round of a loop has come to ({executor.name}).",
        parameters={"type": "object"},
        risk=executor.risk,
    )
    made: Tool = Tool.from_schema(schema, carry_out)
    if isinstance(executor, CommitExecutor):
        made.recovery = lambda: Recovery(by="git", command=executor.undo_command(act_of(round())))
    return made


def plan_of(round: Round, executor: Executor, would: str) -> Proposal:
    """The plan with the one action that a round has come to."""
    verdict = round.verdict
    parameters: dict[str, JsonValue] = {
        "loop": round.loop,
        "round": round.id,
        "number": round.number,
        "kind": round.spec.kind,
        "executor": executor.name,
        "tree": round.tree,
        "base": round.base,
        "files": [clean(path, 300) for path in round.changed[:_MOST_FILES]],
        **(
            {"also_yours": [clean(path, 300) for path in _also(round, executor)]}
            if _also(round, executor)
            else {}
        ),
        "verdict": verdict.verdict if verdict is not None else "none",
        "concerns": list(verdict.concerns) if verdict is not None else [],
        "verified": round.verified,
        "not_verified_because": round.unverified,
        "checks": {check.name: "green" if check.passed else f"red: {check.why}" for check in round.checks},
        # Of an act that nobody asks about, it may become another: that must not make it another act.
        "reason": "" if round.decision is not None and round.decision.proceed else round.reason,
        "would": would,
        "summary": round.summary,
    }
    action = Action(
        id=ACTION,
        tool=tool_name(executor),
        parameters=parameters,
        max_retries=0,
        references=False,
    )
    return Proposal(
        id=f"{round.id}.act", source=LEADER, actions=(action,), timestamp=_moment(round.started_at)
    )


def inflow_of(round: Round, plan: Proposal) -> Inflow | None:
    """The labels on what maker and checker have written into the parameters of the act; None without any."""
    subs = [sub for sub in (round.maker, round.checker) if sub is not None]
    reading = Reading()
    for sub in subs:
        reading.took([part for part in sub.parts if part.is_typed])
    reading.read(marks_from(joined(*(sub.labels for sub in subs))))
    (action,) = plan.actions
    written = {name: value for name, value in action.parameters.items() if name in _WRITTEN}
    return reading.inflow(written) if reading.marks else None


def _also(round: Round, executor: Executor) -> list[str]:
    """Files of the person that they have not committed, and that would be committed with the change."""
    own = [path for path in round.included if path not in round.changed]
    return own[:_MOST_FILES] if executor.name == "commit" else []


def _moment(seconds: float) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC)


def by_call(round: Callable[[], Round]) -> CallByCall:
    """What the runtime is told about the calls of a round's run: a person decides about the act, unless the
    engine and the gate have let it through. The policies of the runtime hold all the same."""

    def stance(tool: str, parameters: Mapping[str, JsonValue]) -> Stance:
        of = round()
        if tool == HOOK:
            return Stance("allow", "it stands in the loop's file")
        if of.decision is not None and of.decision.proceed:
            return Stance("allow", of.decision.reason)
        return Stance("ask", of.reason or "a person decides")

    return CallByCall(stance, otherwise=Posture.named("trusting"), overrules=True, nobody=_NOBODY)


def hook_tool(folder: str, timeout_s: float, isolation: Isolation) -> Tool:
    """The tool that runs a hook of the loop's file, confined as `isolation` says."""
    from placet.runtime.observation import observe_text
    from placet.sandbox.command import ending
    from placet.sandbox.limits import Limits

    limits = Limits(time_s=timeout_s)

    async def run_hook(parameters: dict[str, Any]) -> str:
        finished = await run(str(parameters["command"]), folder, isolation=isolation, limits=limits)
        if finished.ended_by != "itself" or finished.exit_code != 0:
            said = clean(finished.stderr.decode(errors="replace"), 300)
            raise ToolError(f"The hook failed: {ending(finished, limits)} {said}".strip())
        return observe_text(finished.stdout.decode(errors="replace"), HOOK)

    schema = ToolSchema(
        name=HOOK,
        description="Run the hook of a loop before its round.",
        parameters={"type": "object"},
        risk="idempotent",
        # Nobody can say what a command has read: it may list what strangers wrote.
        marks=("untrusted",),
    )
    made: Tool = Tool.from_schema(schema, run_hook)
    return made


def hook_plan(round: Round) -> Proposal:
    """The plan with the hook of a round."""
    action = Action(
        id="hook",
        tool=HOOK,
        parameters={"command": round.spec.hooks.before},
        max_retries=0,
        references=False,
    )
    return Proposal(
        id=f"{round.id}.hook", source=LEADER, actions=(action,), timestamp=_moment(round.started_at)
    )
