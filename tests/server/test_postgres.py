"""The server over Postgres, with the runs of another connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

from placet.server.stream import Stream, Watcher
from tests.server.test_stream import OWNER, positions, read
from tests.server.web import opened


async def test_runs_decisions_and_live_events_over_postgres(tmp_path: Path, postgres_url: str) -> None:
    async with opened(tmp_path, postgres_url) as web, opened(tmp_path / "other", postgres_url) as elsewhere:
        stream = Stream(web.records.events, poll_s=0.01, load=web.site.folds.copy)
        start = web.records.events.last_position()
        async with stream.running():
            results = [await elsewhere.ask(f"{n}", tenant="a" if n % 2 else "b") for n in range(4)]
            last = await asyncio.to_thread(web.records.events.last_position)
            seen = positions(await read(stream, Watcher(OWNER), start, last))
        token = web.tokens.add("a's", tenant="a", rights=["see", "decide"])
        first = await web.api("/runs?limit=3")
        second = await web.api(f"/runs?limit=3&after={first['next']}")
        mine = (await web.api("/needs-you", token=token))["items"]
        done = await web.post(f"/approvals/{mine[0]['id']}/decision", {"decision": "once"}, token=token)
        known = elsewhere.records.approvals.get(mine[0]["id"])

    listed = [run["run_id"] for run in (*first["runs"], *second["runs"])]
    assert listed == [each.run_id for each in reversed(results)]
    assert second["next"] is None
    assert seen == list(range(start + 1, last + 1))
    assert len(mine) == 2
    assert done.status_code == 200
    assert known is not None
    assert known.decided_by == "a's"
