"""The API, mounted in another application."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from placet import Runtime
from placet.errors import UsageError
from placet.server import app
from tests.server.web import opened


async def test_mounted_app_answers_with_a_token_and_to_its_host_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as web:
        result = await web.ask()
        served = Starlette(
            routes=[Mount("/p", app(web.runtime(), hosts=["app.example.org"], tokens=tmp_path / "t"))]
        )
        token = (tmp_path / "t" / "token").read_text()
        transport = httpx2.ASGITransport(app=served)
        async with httpx2.AsyncClient(transport=transport, base_url="http://app.example.org") as client:
            without = await client.get("/p/api/v1/runs")
            client.headers["authorization"] = f"Bearer {token}"
            found = await client.get("/p/api/v1/runs")
            elsewhere = await client.get("/p/api/v1/runs", headers={"host": "evil.example"})
            health = await client.get("/p/api/v1/health")

    assert without.status_code == 401
    assert [run["run_id"] for run in found.json()["runs"]] == [result.run_id]
    assert elsewhere.status_code == 403
    assert health.status_code == 200


def test_runtime_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="SqlJournal"):
        app(Runtime(), hosts=["x"])
