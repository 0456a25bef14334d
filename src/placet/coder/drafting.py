"""A contract drafted by the model, for a person to confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from placet.checks.contract import Contract, check_contract
from placet.coder.events import DraftingStarted
from placet.coder.prompt import DRAFTING, task_parts
from placet.coder.session import FAILURES, INTENT, LEADER
from placet.coder.style import LOOKING
from placet.errors import UsageError
from placet.inference.wrappers.temperature import AtTemperature
from placet.policy.permission import CallByCall, Posture
from placet.sandbox.workspace import Workspace
from placet.turns.ending import Ending
from placet.turns.limits import TurnLimits
from placet.turns.output import OutputType
from placet.turns.turning import Turning

if TYPE_CHECKING:
    from placet.coder.session import Session
    from placet.coder.work import Work
    from placet.tools.context import Cancel

_LIMITS = TurnLimits(turns=12, answer_tokens=1_000)


def drafting_run(session: Session) -> str:
    """Id of the run in which the contract of a session is drafted."""
    return f"{session.id}.contract"


async def draft(work: Work, cancel: Cancel) -> Contract | Ending:
    """The contract that the model proposes, or how it ended without one. It can look at files, no more."""
    from placet.tools.builtin import basic_tools

    session = work.session
    work.tell(DraftingStarted(session=session.id))
    folder = await work.workshop.check_out(0, session.base)
    workspace = Workspace(folder)
    try:
        tools = basic_tools(workspace, isolation=work.isolation, only=LOOKING)
        turning = Turning(
            runtime=work.runtime.beside(tools, folder=str(folder), isolation=work.isolation),
            model=AtTemperature(work.model, 0.0),
            budget=work.run.spending,
            run_id=drafting_run(session),
            leader=LEADER,
            belongs_to={"session": session.id},
            system=DRAFTING,
            message=task_parts(session.intent, f"Task: {session.intent.strip()}", {}),
            tools=LOOKING,
            limits=_LIMITS,
            by_call=CallByCall(otherwise=Posture.named("read_only"), overrules=True),
            intent=INTENT,
            failures=FAILURES,
            output=OutputType.of(Contract),
            cancel=cancel,
            parent=session.id,
        )
        ending, _ = await turning.lead(has_begun=True)
    finally:
        workspace.close()
    if not ending.succeeded:
        return ending
    session.drafting, session.drafting_usd = ending.usage, ending.cost_usd
    drafted: Contract = ending.output
    try:
        check_contract(drafted)
    except UsageError as error:
        return msgspec.structs.replace(ending, status="error", error=str(error))
    # What a model proposes may not lift its own seal.
    return Contract(description=drafted.description, checks=drafted.checks)
