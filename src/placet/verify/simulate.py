"""Predict the state a plan leaves behind."""

from __future__ import annotations

from collections.abc import Mapping

from placet.ir.codec import decode_proposal
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue
from placet.policy.gate import Gate
from placet.verify.known_tools import ToolCards, ToolsGiven, read_tools
from placet.verify.rehearsal import Rehearsal
from placet.verify.simulation import SimulatedState
from placet.verify.verify import ProposalGiven


def simulate(
    proposal: ProposalGiven,
    state: Mapping[str, JsonValue] | None = None,
    tools: ToolsGiven | None = None,
) -> dict[str, JsonValue]:
    """The state after the plan, if tools succeed and have their declared effects.

    What cannot run leaves nothing behind, and a plan that aborts, or is refused, leaves what was there.
    Keys whose value depends on a tool's output are left out; so is, with `state=None`, all that the plan
    does not write itself.

    >>> plan = {"actions": [
    ...     {"id": "a1", "type": "state_write", "parameters": {"key": "n", "value": 2}},
    ...     {"id": "a2", "type": "assertion", "parameters": {"key": "n", "expected": 2}},
    ... ]}
    >>> simulate(plan, {"n": 1, "m": 0})
    {'m': 0, 'n': 2}

    Raises:
        DecodeError: the proposal cannot be read.
        NotJson: `state` holds what JSON cannot carry.
    """
    graph = Graph(decode_proposal(proposal).actions)
    simulated = SimulatedState(state)
    if graph.faults:
        return simulated.start()
    known = read_tools(tools)
    rehearsal = Rehearsal(graph, Gate(known), ToolCards(known), simulated)
    rehearsal.run()
    return rehearsal.predict()[0]
