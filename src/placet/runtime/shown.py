"""Plans and results as they may be shown: the same, with secrets taken out of what people and tools wrote.

Only that: a secret that happens to be a word of ours, such as an outcome, must not break what it stands in.

Keep true:
1. What holds no secret is itself.
2. Two ids stay two, whatever they are shown as.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UnsetType
from msgspec.structs import replace

from placet.ir.action import Action
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.result import ActionResult, ProposalResult
from placet.redaction import Redactor


def shown_ids(ids: Iterable[str], redactor: Redactor) -> dict[str, str]:
    """What to call each action."""
    names: dict[str, str] = {}
    taken: dict[str, int] = {}
    for name in ids:
        shown = redactor.text(name)
        if shown != name:
            taken[shown] = taken.get(shown, 0) + 1
            shown = f"{shown} {taken[shown]}" if taken[shown] > 1 else shown
        names[name] = shown
    return names


def shown_proposal(proposal: Proposal, redactor: Redactor) -> Proposal:
    """A plan without secrets."""
    names = shown_ids((a.id for a in proposal.actions), redactor)
    actions = [_shown_action(action, names, redactor) for action in proposal.actions]
    made = replace(
        proposal, id=redactor.text(proposal.id), source=redactor.text(proposal.source), actions=actions
    )
    return proposal if (made.id, made.source, actions) == _told(proposal) else made


def _told(proposal: Proposal) -> tuple[str, str, list[Action]]:
    return proposal.id, proposal.source, list(proposal.actions)


def _shown_action(action: Action, names: dict[str, str], redactor: Redactor) -> Action:
    needs = [names.get(d, redactor.text(d)) for d in action.dependencies]
    return replace(
        action,
        id=names[action.id],
        tool=None if action.tool is None else redactor.text(action.tool),
        parameters=redactor.value(action.parameters),
        expected_effects=redactor.value(action.expected_effects),
        metadata=redactor.value(action.metadata),
        dependencies=action.dependencies if needs == list(action.dependencies) else needs,
    )


def shown_result(result: ProposalResult, redactor: Redactor) -> ProposalResult:
    """A result without secrets."""
    names = shown_ids((r.action_id for r in result.results), redactor)

    def called(action_id: str) -> str:
        return names.get(action_id) or redactor.text(action_id)

    made = replace(
        result,
        proposal_id=redactor.text(result.proposal_id),
        error=None if result.error is None else redactor.text(result.error),
        results=[_shown_ending(ended, names, redactor) for ended in result.results],
        waiting=[
            replace(w, action_id=called(w.action_id), reason=redactor.text(w.reason)) for w in result.waiting
        ],
        irreversible=[called(i) for i in result.irreversible],
        undo_commands={called(i): redactor.text(command) for i, command in result.undo_commands.items()},
        compensations=[
            replace(
                c, action_id=called(c.action_id), error=None if c.error is None else redactor.text(c.error)
            )
            for c in result.compensations
        ],
        loop=_shown_loop(result.loop, redactor),
    )
    return result if made == result else made


def _shown_loop(
    loop: dict[str, JsonValue] | UnsetType, redactor: Redactor
) -> dict[str, JsonValue] | UnsetType:
    """How a loop ended: what a model said, and why. The rest are words of ours."""
    if isinstance(loop, UnsetType):
        return loop
    shown = dict(loop)
    for name in ("summary", "error"):
        if isinstance(text := loop.get(name), str):
            shown[name] = redactor.text(text)
    for name in ("tools", "refused"):
        # A model may call a tool whatever it likes.
        if isinstance(names := loop.get(name), list | tuple):
            shown[name] = [redactor.text(each) if isinstance(each, str) else each for each in names]
    if isinstance(waiting := loop.get("waiting"), list | tuple):
        shown["waiting"] = [
            {**each, "reason": redactor.text(each["reason"])} if isinstance(each.get("reason"), str) else each
            for each in waiting
        ]
    return shown


def _shown_ending(ended: ActionResult, names: dict[str, str], redactor: Redactor) -> ActionResult:
    return replace(
        ended,
        action_id=names[ended.action_id],
        output=redactor.value(ended.output),
        error=None if ended.error is None else redactor.text(ended.error),
        state_changes=redactor.value(ended.state_changes),
    )
