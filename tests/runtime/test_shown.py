"""Results and plans as they may be shown."""

from __future__ import annotations

import pytest

from placet import Redactor, Runtime, SqlEvents, SqlJournal, open_database
from placet.events.log import EventLog
from placet.runtime.shown import shown_ids, shown_proposal
from placet.testing import RecordingTool, action, proposal

SECRET = "hunter2hunter2"


@pytest.mark.parametrize("word", ["succeeded", "proposal_id", "tool_calls", "unknown"])
async def test_a_secret_that_is_a_word_of_ours_breaks_nothing(database_url: str, word: str) -> None:
    """A password may be anything; what ran has run, and how it ended must be kept."""
    with open_database(database_url) as database:
        journal = SqlJournal(database)
        log = EventLog(sinks=[SqlEvents(database)], redactor=Redactor([word]))
        rt = Runtime(tools=[RecordingTool("send", default=f"it is {word}")], events=log, journal=journal)

        result = await rt.execute(proposal(action("a", "send")), run_id="r")
        kept = journal.shown("r")
        journal.close()

    assert result["a"].output == f"it is {word}"
    assert kept is not None
    assert kept.outcome == "succeeded"
    assert kept["a"].output == "it is [redacted]"


def test_what_holds_no_secret_is_itself() -> None:
    plan = proposal(action("a", "send", parameters={"x": 1}))

    assert shown_proposal(plan, Redactor([SECRET])) is plan


def test_two_ids_stay_two() -> None:
    names = shown_ids([f"{SECRET}-1", "b", f"{SECRET}-1"[:-2], "c"], Redactor([SECRET]))

    assert len(set(names.values())) == 4
    assert not any(SECRET in name for name in names.values())


def test_a_plan_shows_no_secret_and_keeps_its_shape() -> None:
    plan = proposal(
        action(SECRET, "send", parameters={"to": SECRET}),
        action("b", "send", dependencies=[SECRET], parameters={"password": "x"}),
    )

    shown = shown_proposal(plan, Redactor([SECRET]))

    assert SECRET not in repr(shown)
    assert shown.actions[1].dependencies == [shown.actions[0].id]
