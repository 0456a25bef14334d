"""What the log says when an effect happens: at least that it is about to."""

from __future__ import annotations

import pytest

from assent import EventLog, Runtime, SqlEvents, SqlJournal, ToolContext, open_database, tool
from assent.testing import action, proposal


@pytest.mark.parametrize("schedule", ["levels", "dataflow"])
async def test_an_effect_never_precedes_its_own_record(database_url: str, schedule: str) -> None:
    unrecorded: list[str] = []
    with open_database(database_url) as database, open_database(database_url, read_only=False) as other:
        looking = SqlEvents(other)
        journal = SqlJournal(database)

        @tool(cheap=True)
        def act(context: ToolContext) -> None:
            """Looks into the log at the moment of its effect."""
            if not looking.query(action=context.action_id, kind="action_executing"):
                unrecorded.append(context.action_id)

        rt = Runtime(
            tools=[act],
            events=EventLog(sinks=[SqlEvents(database)]),
            journal=journal,
            schedule=schedule,  # type: ignore[arg-type]
        )
        plan = proposal(
            *(action(f"a{k}", "act", dependencies=[f"a{k - 2}"] if k > 1 else []) for k in range(20))
        )

        result = await rt.execute(plan)
        journal.close()

    assert result.succeeded
    assert unrecorded == []
