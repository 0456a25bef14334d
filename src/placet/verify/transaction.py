"""What could go wrong between proposals that run at once.

Proposals see each other's writes while they run, so a race is possible wherever one writes a key that
another reads or writes. An `assumption` notices it; nothing prevents it.

Keep true:
1. At most one finding per key and kind, naming everybody concerned: the work is linear in what the plans
   touch, never in pairs of actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from placet.ir.action import Action
from placet.ir.codec import decode_proposal
from placet.ir.graph import ANY_KEY, reads_and_writes
from placet.ir.json_value import JsonValue, json_equal
from placet.ir.to_dict import ToDict
from placet.verify.report import name_key, printable
from placet.verify.verify import ProposalGiven

Kind = Literal["write_write", "read_write", "stale_read"]
"""Kind of conflict between proposals.

- `write_write`: two proposals write a key.
- `read_write`: one writes a key that another reads.
- `stale_read`: a write can make a precondition or an assumption of another proposal untrue.
"""
_FEW = 3


class Place(ToDict, msgspec.Struct, frozen=True, gc=False):
    """An action of one of several proposals."""

    proposal: int
    """Position of the proposal in the list, because ids may repeat."""
    proposal_id: str
    """Id of the proposal."""
    action_id: str
    """Id of the action."""

    def __str__(self) -> str:
        return f"'{self.action_id}' of '{self.proposal_id}'"


class Finding(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A race or a stale read between proposals."""

    kind: Kind
    """Kind of conflict."""
    key: str
    """The state key."""
    writers: Sequence[Place]
    """Actions that write the key."""
    readers: Sequence[Place] = ()
    """Actions that read it."""
    message: str
    """The finding in one sentence."""


class _Uses:
    """Who does what with one key."""

    __slots__ = ("believers", "readers", "writers")

    def __init__(self) -> None:
        self.writers: list[Place] = []
        self.readers: list[Place] = []
        self.believers: list[Place] = []


def transaction_check(
    proposals: Iterable[ProposalGiven], state: Mapping[str, JsonValue] | None = None
) -> list[Finding]:
    """Find races and stale reads between proposals that may run at the same time.

    >>> write = {"id": "w", "type": "state_write", "parameters": {"key": "k", "value": 1}}
    >>> read = {"id": "r", "type": "state_read", "parameters": {"key": "k"}}
    >>> for finding in transaction_check([{"id": "p", "actions": [write]}, {"id": "q", "actions": [read]}]):
    ...     print(finding.message)
    read-write race on 'k': 'w' of 'p' writes what 'r' of 'q' reads

    Args:
        proposals: The proposals.
        state: The current state; assumptions that are already untrue are then reported, too.

    Raises:
        DecodeError: a proposal cannot be decoded.
    """
    uses: dict[str, _Uses] = {}
    found: list[Finding] = []
    for position, given in enumerate(proposals):
        proposal = decode_proposal(given)
        written: set[str] = set()
        for action in proposal.actions:
            place = Place(position, proposal.id, action.id)
            if action.assumptions and state is not None:
                found += _already_stale(action, place, state, written)
            _note(action, place, uses, written)
    anywhere = uses.pop(ANY_KEY, None)
    for key in sorted(uses):
        found += _on_key(name_key(key), uses[key])
    if anywhere is not None:
        found += _on_key(name_key(ANY_KEY), _with_all(anywhere, uses))
    return found


def _note(action: Action, place: Place, uses: dict[str, _Uses], written: set[str]) -> None:
    reads, writes = reads_and_writes(action)
    if not reads and not writes:
        return
    believed = {p.key for p in action.preconditions}
    believed.update(a.key for a in action.assumptions)
    for key in dict.fromkeys(reads):
        of_key = uses.setdefault(key, _Uses())
        (of_key.believers if key in believed else of_key.readers).append(place)
    for key in dict.fromkeys(writes):
        uses.setdefault(key, _Uses()).writers.append(place)
        written.add(key)


def _with_all(anywhere: _Uses, uses: Mapping[str, _Uses]) -> _Uses:
    """A key nobody knows yet may be any: everybody who touches the state is concerned, named once each."""
    merged = _Uses()
    for name in _Uses.__slots__:
        places = [place for of_key in (anywhere, *uses.values()) for place in getattr(of_key, name)]
        getattr(merged, name).extend(sorted(set(places), key=_in_order))
    if not anywhere.writers:
        # Only a read has no known key: it can be disturbed, and disturbs nobody.
        merged.readers = anywhere.readers
        merged.believers = []
    return merged


def _in_order(place: Place) -> tuple[int, str]:
    return place.proposal, place.action_id


def _on_key(key: str, uses: _Uses) -> list[Finding]:
    found: list[Finding] = []
    writing = {place.proposal for place in uses.writers}
    if len(writing) > 1:
        message = f"write-write race on '{key}': {_few(uses.writers)} write it; the last one wins"
        found.append(Finding(kind="write_write", key=key, writers=uses.writers, message=printable(message)))
    for kind, places in (("read_write", uses.readers), ("stale_read", uses.believers)):
        readers = _disturbed(places, writing)
        if not readers:
            continue
        reading = {place.proposal for place in readers}
        writers = [w for w in uses.writers if len(reading) > 1 or w.proposal not in reading]
        if kind == "read_write":
            verb = "writes" if len(writers) == 1 else "write"
            reads = "reads" if len(readers) == 1 else "read"
            message = f"read-write race on '{key}': {_few(writers)} {verb} what {_few(readers)} {reads}"
            found.append(
                Finding(
                    kind="read_write", key=key, writers=writers, readers=readers, message=printable(message)
                )
            )
        else:
            message = f"stale read of '{key}': what {_few(readers)} rely on, {_few(writers)} may replace"
            found.append(
                Finding(
                    kind="stale_read", key=key, writers=writers, readers=readers, message=printable(message)
                )
            )
    return found


def _disturbed(places: Sequence[Place], writing: set[int]) -> list[Place]:
    """Readers in another proposal than some writer."""
    if len(writing) > 1:
        return list(places)
    return [place for place in places if writing and place.proposal not in writing]


def _already_stale(
    action: Action, place: Place, state: Mapping[str, JsonValue], written: set[str]
) -> list[Finding]:
    found: list[Finding] = []
    for assumption in action.assumptions:
        expected = assumption.expected_value
        key = assumption.key
        if expected is msgspec.UNSET or key in written:
            continue
        if key not in state or not json_equal(state[key], expected):
            message = f"stale already: {place} assumes a value of '{key}' that the state does not have"
            found.append(
                Finding(kind="stale_read", key=key, writers=(), readers=[place], message=printable(message))
            )
    return found


def _few(places: Sequence[Place]) -> str:
    named = ", ".join(map(str, places[:_FEW]))
    return named if len(places) <= _FEW else f"{named} and {len(places) - _FEW:,} more"
