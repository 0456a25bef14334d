"""From a case to a runtime with tools that do what their scripts say."""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import deepcopy
from typing import Any

from placet import (
    CapabilitySet,
    CostBudget,
    ProposalResult,
    Runtime,
    Scope,
    ToolContext,
    ToolError,
    ToolSchema,
)
from placet.verify.report import Report
from tests.properties.plans import HOLLOW, TOOLS, Case, Script, ToolKind
from tests.properties.reference import answer_of

ELSEWHERE = {"k0": "not yours", "ghost": "not yours"}
"""What the namespaces hold that a plan has no business with."""

_INTEGERS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def spoil(value: Any) -> None:
    """Change a value in every place where it can be changed."""
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoilt")


class World:
    """A runtime built for a case."""

    def __init__(self, case: Case, schedule: Any = "levels") -> None:
        self.case = case
        self.calls: Counter[str] = Counter()
        """Attempts by action id."""
        self.received: dict[str, dict[str, Any]] = {}
        """Parameters of the last attempt, by action id."""
        self.entered: set[str] = set()
        """Actions whose tool was called, also if it was stopped in flight."""
        self.may_have_taken_effect: set[str] = set()
        """Actions with an attempt after which the world may be another, whatever was answered."""
        self.running: set[str] = set()
        self.overlaps: set[tuple[str, str]] = set()
        """Actions that were in flight together."""
        self.runtime = Runtime(
            schedule=schedule,
            max_concurrency=case.max_concurrency,
            capabilities=CapabilitySet(**case.capabilities) if case.capabilities else None,
            budget=CostBudget(**case.budget) if case.budget else None,
        )
        for kind in TOOLS.values():
            self._register(kind)
        self.runtime.register(ToolSchema(name=HOLLOW), None, cheap=True)
        for spec in case.policies:
            self.runtime.add_policy(spec.name, spec.build(), reads=spec.reads)
        self.session: str | None = None
        if case.session != "none":
            self.session = self.runtime.open_session()
            for spec in case.session_policies:
                self.runtime.add_policy(spec.name, spec.build(), session=self.session, reads=spec.reads)
            if case.session == "closed":
                self.runtime.close_session(self.session)
        self.scope = Scope(tenant=case.tenant) if case.tenant is not None else None
        self.state = self.runtime.state.scoped(case.tenant)
        self.state.replace_all(case.state)
        self.elsewhere = self.runtime.state.scoped("other" if case.tenant is None else None)
        self.elsewhere.replace_all(ELSEWHERE)

    def _register(self, kind: ToolKind) -> None:
        schema = ToolSchema(
            name=kind.name,
            risk=kind.risk,  # type: ignore[arg-type]
            reversibility=kind.reversibility,  # type: ignore[arg-type]
            idempotent=kind.idempotent,
            cache_ttl_secs=kind.cache_ttl_secs,
            parameters=_INTEGERS if kind.only_integers else {},
        )

        async def waiting(parameters: dict[str, Any], context: ToolContext) -> Any:
            self.overlaps |= {(other, context.action_id) for other in self.running}
            self.running.add(context.action_id)
            self.entered.add(context.action_id)
            try:
                await asyncio.sleep(self._script(context).delay_s(self.calls[context.action_id]))
                return self._answer(kind, parameters, context)
            except asyncio.CancelledError:
                if kind.risk != "read_only":
                    self.may_have_taken_effect.add(context.action_id)
                raise
            finally:
                self.running.discard(context.action_id)

        def inline(parameters: dict[str, Any], context: ToolContext) -> Any:
            self.entered.add(context.action_id)
            return self._answer(kind, parameters, context)

        if kind.runs == "async":
            self.runtime.register(schema, waiting)
        else:
            self.runtime.register(schema, inline, cheap=True)

    def _script(self, context: ToolContext) -> Script:
        return self.case.scripts.get(context.action_id, Script())

    def _answer(self, kind: ToolKind, parameters: dict[str, Any], context: ToolContext) -> Any:
        went = self._script(context).outcome(self.calls[context.action_id])
        self.calls[context.action_id] += 1
        if kind.fails_on is not None and not self.case.tools_are_sound:
            went = "fail" if parameters.get("n") == kind.fails_on else "ok"
        self.received[context.action_id] = deepcopy(parameters)
        output = answer_of(deepcopy(parameters))
        # The caller must not feel this.
        spoil(parameters)
        parameters.clear()
        if kind.risk != "read_only" and went in ("ok", "lost", "junk"):
            self.may_have_taken_effect.add(context.action_id)
        match went:
            case "fail":
                raise RuntimeError("out of order")
            case "fatal":
                raise ToolError("never", retry=False)
            case "lost":
                raise ToolError("who knows", unknown=True)
            case "junk":
                return {"not json": {1, 2}}
        return output

    def verify(self) -> Report:
        """What the runtime says of the plan beforehand."""
        return self.runtime.verify(deepcopy(self.case.proposal), session=self.session, scope=self.scope)

    async def execute(self) -> ProposalResult:
        """What comes of it."""
        return await self.runtime.execute(
            deepcopy(self.case.proposal), session=self.session, scope=self.scope
        )
