"""What one client meets, without the wire between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from placet.app.app import open_app
from placet.app.options import RunOptions
from placet.server.mcp import Face
from tests.server.serving import Place, until, words


async def take_back(face: Face, place: Place) -> str:
    """The id of a run that was stopped half way."""
    calling = asyncio.ensure_future(face.answer("hold", {"name": "a"}))
    await until(place.folder / "a.begun")
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    return place.runs()[-1][0]


async def test_a_call_taken_back_ends_only_when_its_run_is_in_order(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with open_app(RunOptions(tools=str(place.tools)), db=str(place.db)) as app:
        await take_back(Face(app), place)

        # At once: nothing was waited for in between.
        assert (tmp_path / "a.stopped").read_text() == "the client took the call back"
        assert [status for _, status in place.runs()] == ["canceled"]
        assert len(app.runtime.events.query(kind="proposal_ended")) == 1


async def test_only_the_agent_that_began_a_run_resumes_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with open_app(RunOptions(tools=str(place.tools)), db=str(place.db)) as app:
        run_id = await take_back(Face(app, agent="ann"), place)
        (tmp_path / "a.go").touch()

        refused = [
            await Face(app, agent=agent).answer("resume_run", {"run_id": run_id}) for agent in ("bob", None)
        ]
        statuses = place.runs()
        done = await Face(app, agent="ann").answer("resume_run", {"run_id": run_id})

    for answer in refused:
        assert answer.is_error
        assert "was not begun by this client" in words(answer)
    assert statuses == [(run_id, "canceled")]
    assert (done.is_error, words(done)) == (False, "a went on")
