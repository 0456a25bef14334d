"""Where a run began, and what stands between a broken-off run and its going on.

Keep true:
1. Nothing goes on while it is unknown whether an effect happened: a person decides first.
2. A decision names something that is in flight, or nothing at all is noted.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from placet.errors import UsageError
from placet.ir.action import ToolCompensation
from placet.ir.graph import ANY_KEY, Graph
from placet.ir.json_value import JsonValue, copy_json, json_equal
from placet.ir.proposal import Proposal
from placet.ir.references import find_references
from placet.ir.result import ProposalResult
from placet.policy.marks import Trail, union
from placet.runtime.journal import (
    CHOICES,
    Beginning,
    Choice,
    Decided,
    Decision,
    Replay,
    RunRecord,
    parse_key,
)
from placet.runtime.marks import MarkBook, StateMarks
from placet.state.store import Namespace, StateStore
from placet.verify.names import misnamed_parameters

IN_FLIGHT = "it was in flight when the run was broken off, so it is not known whether it took effect"


def beginning_of(
    proposal: Proposal, graph: Graph, store: StateStore, marks: MarkBook, tenant: str | None
) -> Beginning:
    """What a plan may look at of the state, as it is now."""
    state = store.scoped(tenant)
    keys = {key: None for reads, writes in graph.touched for key in (*reads, *writes)}
    if ANY_KEY in keys:
        values = state.snapshot()
    else:
        values = {key: state.get(key) for key in keys if state.exists(key)}
    assumed = {a.key for action in graph.actions for a in action.assumptions if a.read_version is not None}
    return Beginning(
        values=values,
        version=store.version,
        versions={key: state.version_of(key) for key in sorted(assumed)},
        marks={} if marks.is_empty else marks.kept(tenant, values),
        misnamed=misnamed_parameters(proposal),
    )


def restore(beginning: Beginning, state: Namespace, marks: StateMarks) -> None:
    """Bring back what the plan found, where there is nothing now. What the state already holds stays."""
    for key, value in beginning.values.items():
        if not state.exists(key):
            state.set(key, value)
        elif not json_equal(state.get(key), value):
            continue
        if key in beginning.marks:
            found = {mark: Trail(tuple(steps)) for mark, steps in beginning.marks[key].items()}
            marks.put(key, union(found, marks.get(key)))


def take_back_left(
    found: Mapping[str, JsonValue], left: Mapping[str, JsonValue], state: Namespace
) -> frozenset[str]:
    """Put back what a run found wherever the state still holds what the run left; returns the keys that hold
    something else by now, which others have written since.

    So a run that goes on in a state that has been kept undoes to where it began, and not to where it stopped.
    """
    others = set()
    for key, last in left.items():
        if not state.exists(key):
            continue
        now = state.get(key)
        if key in found and json_equal(now, found[key]):
            continue
        if not json_equal(now, last):
            others.add(key)
        elif key in found:
            state.set(key, found[key])
        else:
            state.delete(key)
    return frozenset(others)


def state_after(record: RunRecord, result: ProposalResult) -> dict[str, JsonValue]:
    """What a run that has ended left of the part of the state that its plan may look at.

    Of a run that replanned: what its last plan left.
    """
    values = dict(record.beginning.values)
    if result.outcome != "aborted" and len(result.results) == len(record.proposal.actions):
        for i in Graph(record.proposal.actions).order:
            values.update(result.results[i].state_changes)
    return values


class VersionsThen:
    """The versions of keys as the plan's author knew them, in a store that may have counted anew."""

    def __init__(self, beginning: Beginning, store: StateStore, state: Namespace) -> None:
        self._beginning = beginning
        self._base = store.version
        self._state = state

    def __call__(self, key: str) -> int:
        """The version at which the key last changed, in the counting of the time before the restart."""
        now = self._state.version_of(key)
        if now > self._base:
            return self._beginning.version + now - self._base
        return self._beginning.versions.get(key, self._beginning.version)


def proposal_of(record: RunRecord, replay: Replay, plan: int) -> Proposal:
    """One of the plans of a run, by its number."""
    return record.proposal if plan == 0 else replay.plans[plan].proposal


def names_in_flight(record: RunRecord, replay: Replay) -> dict[str, str]:
    """What a person calls each thing in flight, with its key: the id that stands in the plan.

    Plans of one run may share ids. The newest has them; of an older one the key itself is the name.
    """
    names: dict[str, str] = {}
    for key in sorted(replay.in_flight, key=lambda key: -parse_key(key)[0]):
        plan, position, is_undo = parse_key(key)
        name = proposal_of(record, replay, plan).actions[position].id
        name = f"{name}.compensation" if is_undo else name
        names[key if name in names else name] = key
    return names


def tools_of(proposal: Proposal, known: Container[str]) -> list[str]:
    """The tools that a plan may call, as far as they are known."""
    named = {a.tool for a in proposal.actions if a.tool is not None}
    named |= {a.compensation.tool for a in proposal.actions if isinstance(a.compensation, ToolCompensation)}
    return sorted(name for name in named if name in known)


def check_tools(record: RunRecord, replay: Replay, known: Container[str]) -> None:
    """A run goes on only with the tools that it had: without one it would fail for no fault of its own.

    Raises:
        UsageError: one is missing.
    """
    had = {*record.tools, *(name for plan in replay.plans.values() for name in plan.tools)}
    missing = sorted(name for name in had if name not in known)
    if missing:
        names = ", ".join(f"'{name}'" for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise UsageError(
            f"Run '{record.run_id}' began with tools that are not here: {names}. Nothing has changed. "
            "Resume it where they are; on the command line: --tools FILE.py."
        )


def needs_output(proposal: Proposal, action_id: str) -> bool:
    """Whether something in the plan refers to what the action answered."""
    for action in proposal.actions:
        given: list[JsonValue] = [action.parameters] if action.references else []
        if isinstance(action.compensation, ToolCompensation):
            given.append(action.compensation.parameters)
        if any(r.action_id == action_id for value in given for r in find_references(value)):
            return True
    return False


def decisions(
    given: Mapping[str, Decision | Choice], names: Mapping[str, str], record: RunRecord, replay: Replay
) -> list[Decided]:
    """What is to be noted of a person's decisions.

    Raises:
        UsageError: one is of something that is not in flight, says nothing that is known, or leaves out an
            output that others refer to.
    """
    found = []
    for name, said in given.items():
        decision = Decision(choice=said) if isinstance(said, str) else said
        if decision.choice not in CHOICES:
            raise UsageError(f"'{decision.choice}' decides nothing about '{name}'. Say done, retry or fail.")
        if name not in names and name in names.values():
            # A key can always be written, whatever the plan calls its actions.
            name = next(n for n, key in names.items() if key == name)
        if name not in names:
            waiting = ", ".join(f"'{n}' ({key})" for n, key in names.items()) or "nothing"
            raise UsageError(
                f"Run '{record.run_id}' does not wait for a decision about '{name}'. It waits for {waiting}."
            )
        plan, position, is_undo = parse_key(names[name])
        proposal = proposal_of(record, replay, plan)
        if decision.output is not msgspec.UNSET:
            decision = msgspec.structs.replace(
                decision, output=copy_json(decision.output, f"the output of '{name}'")
            )
        elif decision.choice == "done" and not is_undo:
            if needs_output(proposal, proposal.actions[position].id):
                raise UsageError(
                    f"Others use what '{name}' answered, so 'done' must say what it was: '{name}=done:JSON'; "
                    'in programs Decision(choice="done", output=...).'
                )
        found.append(Decided(names[name], decision))
    return found
