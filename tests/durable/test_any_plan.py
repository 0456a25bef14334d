"""Any plan, broken off anywhere, ends as it would have ended, and nothing that had ended is done again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from placet import ToolContext
from placet.durable.memory import MemoryJournal
from placet.ir.result import ProposalResult
from placet.runtime.journal import Decision, Ended, Note, Replay, RunRecord, parse_key
from tests.properties.effort import UNHURRIED, Tally
from tests.properties.plans import Case, ToolKind, for_many_cases
from tests.properties.test_serialisability import exactly
from tests.properties.virtual_time import run
from tests.properties.world import World

pytestmark = UNHURRIED

CASES = 250


class DurableWorld(World):
    """A runtime for a case, with a journal."""

    def __init__(self, case: Case, schedule: Any, journal: MemoryJournal) -> None:
        super().__init__(case, schedule)
        self.keys: set[str] = set()
        """Of everything that was called; several may share an action id."""
        self.runtime._settings = self.runtime._settings._replace(journal=journal)

    def _answer(self, kind: ToolKind, parameters: dict[str, Any], context: ToolContext) -> Any:
        self.keys.add(context.idempotency_key.removeprefix("r-"))
        return super()._answer(kind, parameters, context)

    async def execute(self) -> ProposalResult:
        return await self.runtime.execute(
            self.case.proposal, session=self.session, scope=self.scope, run_id="r"
        )

    async def resume(self, **options: Any) -> ProposalResult:
        return await self.runtime.resume("r", session=self.session, **options)


def _comparable(result: ProposalResult) -> Any:
    """Everything but times."""
    return (
        result.outcome,
        result.error,
        [
            (r.action_id, r.status, exactly(r.output), r.error, exactly(r.state_changes), r.rolled_back)
            for r in result.results
        ],
        [(c.action_id, c.status, c.error) for c in result.compensations],
        list(result.irreversible),
    )


class Cut:
    """A run of which only the first notes are left, in a world where nothing after them has happened."""

    def __init__(self, case: Case, record: RunRecord, notes: list[Note], cut: int) -> None:
        self.case = case
        self.record = record
        self.left, self.gone = notes[:cut], notes[cut:]
        self.replay = Replay(self.left)
        self.journal = MemoryJournal()

    def name(self, key: str) -> str:
        """What tools and people call a thing with this key."""
        _, position, is_undo = parse_key(key)
        action = self.case.actions[position]
        if not is_undo:
            return str(action["id"])
        undo = action["compensation"]
        return str(undo["action_id"]) if undo["type"] == "action_ref" else f"{action['id']}.compensation"

    async def resume(self, schedule: Any, chance: Random) -> tuple[DurableWorld, ProposalResult, bool]:
        """Go on in a new process, with somebody who knows what happened; whether they were asked."""
        held = await self.journal.begin(self.record)
        for note in self.left:
            held.note(note)
        self.journal.lose_holders()
        world = DurableWorld(self.case, schedule, self.journal)
        if chance.random() < 0.7:
            # Nothing outlives the process but the journal.
            world.state.replace_all({})
        for key, made in {**self.replay.attempts, **self._attempts_before_those_in_flight()}.items():
            world.calls[self.name(key)] = made
        result = await world.resume()
        asked = result.outcome == "waiting"
        if asked:
            assert not world.keys, "something was called while it is not known what happened"
            names = {called: key for key, called in self._called().items()}
            assert {w.action_id for w in result.waiting} == names.keys()
            result = await world.resume(decide={called: self._decide(k) for called, k in names.items()})
        return world, result, asked

    def _called(self) -> dict[str, str]:
        """What a person calls each thing in flight, by key."""
        names = {}
        for key in self.replay.in_flight:
            _, position, is_undo = parse_key(key)
            names[key] = self.case.actions[position]["id"] + (".compensation" if is_undo else "")
        return names

    def _attempts_before_those_in_flight(self) -> dict[str, int]:
        return {key: attempt - 1 for key, attempt in self.replay.in_flight.items()}

    def _decide(self, key: str) -> Any:
        """It is done if it was, with what it answered; else it never happened."""
        for note in self.gone:
            if isinstance(note, Ended) and note.key == key and note.result.status == "succeeded":
                return Decision(choice="done", output=note.result.output)
        return "retry"


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
def test_broken_off_anywhere_a_plan_ends_as_it_would_have_ended(schedule: str) -> None:
    tally = Tally()

    def check(case: Case) -> None:
        if any(policy.kind == "rate_limit" for policy in (*case.policies, *case.session_policies)):
            return  # Rates are counted by each process for itself.
        if case.session == "closed":
            return  # Refused with the name of a session that is another each time.
        whole = MemoryJournal()
        world = DurableWorld(case, schedule, whole)
        expected = run(world.execute())
        kept = whole._runs["r"]
        notes = list(kept.notes)
        chance = Random(repr(case.proposal))
        facts = {expected.outcome: True, "compensated": bool(expected.compensations)}
        for number in chance.sample(range(len(notes) + 1), min(3, len(notes) + 1)):
            cut = Cut(case, kept.record, notes, number)

            again, result, asked = run(cut.resume(schedule, chance))

            where = f"after {number} of {len(notes)} notes"
            _compare(result, expected, where, is_serial=schedule == "levels")
            known = kept.record.beginning.values.keys() | set(again.state.snapshot())
            there = {k: v for k, v in world.state.snapshot().items() if k in known or k not in case.state}
            assert exactly(again.state.snapshot()) == exactly(there), where
            assert not again.keys & cut.replay.ended.keys(), f"done again {where}"
            facts["asked"] = facts.get("asked", False) or asked
            facts["went_on"] = facts.get("went_on", False) or 0 < number < len(notes)
        tally.add(**facts)

    for_many_cases(check, CASES)
    tally.require(
        {
            "succeeded": 0.15,
            "partial": 0.1,
            "aborted": 0.15,
            "asked": 0.1,
            "went_on": 0.4,
            "compensated": 0.03,
        }
    )


def _compare(result: ProposalResult, expected: ProposalResult, where: str, *, is_serial: bool) -> None:
    assert result.outcome == expected.outcome, f"{where}: {result.error}"
    if result.outcome != "aborted":
        assert _comparable(result) == _comparable(expected), where
    elif is_serial:
        # What ran at the same time as a failure may or may not have come to an end; what took effect did not
        # run at the same time.
        assert _taken_back(result) == _taken_back(expected), where


def _taken_back(result: ProposalResult) -> Any:
    return [(c.action_id, c.status, c.error) for c in result.compensations], list(result.irreversible)


def test_a_budget_that_suffices_still_does_after_a_cut() -> None:
    """What had ended has its share already: counted again, it would make the plan run one by one, and an
    effect of a later layer could come before the abort that prevents it."""
    call: dict[str, Any] = {"failure_behavior": "abort", "type": "tool_call"}
    actions = [
        {**call, "id": "a0", "tool": "put", "parameters": {"n": 0}},
        {**call, "id": "a1", "type": "assertion", "parameters": {"key": "k0", "expected": None}},
        {**call, "id": "a2", "tool": "put", "parameters": {"n": "$a1.output"}, "failure_behavior": "skip"},
        {**call, "id": "a3", "tool": "ask", "parameters": {"n": 1}, "state_dependencies": ["ghost"]},
    ]
    case = Case(proposal={"id": "plan", "actions": actions}, state={}, budget={"max_actions": 5}, mood="fine")
    whole = MemoryJournal()
    expected = run(DurableWorld(case, "levels", whole).execute())
    kept = whole._runs["r"]
    assert expected["a2"].status == "skipped"

    for number in range(len(kept.notes) + 1):
        _, result, _ = run(Cut(case, kept.record, list(kept.notes), number).resume("levels", Random(1)))

        assert [r.status for r in result.results] == [r.status for r in expected.results], number
