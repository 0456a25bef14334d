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
    """Return the state after the plan, assuming that tools succeed and have their declared effects.

    Actions that cannot run change nothing, and a plan that aborts or is refused leaves the state as it was.
    Keys whose value depends on the output of a tool are left out; with `state=None`, so is every key that the
    plan does not write.

    >>> plan = {"actions": [
    ...     {"id": "a1", "type": "state_write", "parameters": {"key": "n", "value": 2}},
    ...     {"id": "a2", "type": "assertion", "parameters": {"key": "n", "expected": 2}},
    ... ]}
    >>> simulate(plan, {"n": 1, "m": 0})
    {'m': 0, 'n': 2}

    Takes the arguments of `verify`.

    Raises:
        DecodeError: the proposal cannot be decoded.
        NotJson: `state` holds a value that is not JSON.
    """
    graph = Graph(decode_proposal(proposal).actions)
    simulated = SimulatedState(state)
    if graph.faults:
        return simulated.start()
    known = read_tools(tools)
    rehearsal = Rehearsal(graph, Gate(known), ToolCards(known), simulated)
    rehearsal.run()
    return rehearsal.predict()[0]
