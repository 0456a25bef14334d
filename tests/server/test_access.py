"""Rights and tenants on every endpoint, whatever is added; tokens and links that several processes change."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from placet.app.memory import memory_of
from placet.coder.session import Question, Session
from placet.errors import InputError
from placet.server.asgi import ENDPOINTS
from placet.server.endpoint import BASE, Endpoint
from placet.server.links import Links
from placet.server.tokens import RIGHTS, Tokens
from tests.server.web import WRITE, Web, opened

CLOSED = [each for each in ENDPOINTS if not each.is_open]
NAMES = [f"{each.method} {each.path}" for each in CLOSED]


@pytest_asyncio.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with opened(tmp_path) as made:
        yield made


async def call(web: Web, each: Endpoint, token: str | None, body: Any = None, **path: str) -> Any:
    """Ask an endpoint for something that is not there, unless `path` names something."""
    place = BASE + each.path
    for name in ("run", "approval", "session", "question", "round", "loop", "name", "agent"):
        place = place.replace(f"{{{name}}}", path.get(name, "none"))
    place += "?action=x/a" if each.path.endswith("/output") else ""
    async with web.client(token) as client:
        if each.path == "/stream":
            async with client.stream("GET", place) as found:
                return found
        if each.method == "GET":
            return await client.get(place)
        return await client.request(each.method, place, headers=WRITE, content=json.dumps(body or {}))


@pytest.mark.parametrize("each", [e for e in CLOSED if e.path != "/stream"], ids=lambda e: e.path)
async def test_endpoint_needs_a_token_with_its_right(web: Web, each: Endpoint) -> None:
    others = [right for right in RIGHTS if right != each.right]
    token = web.tokens.add("others", rights=others)

    without = await call(web, each, None)
    wrong = await call(web, each, token)

    assert without.status_code == 401
    if each.right is not None:
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (403, "forbidden")


async def test_nothing_of_one_tenant_is_seen_or_changed_by_another(web: Web) -> None:
    """Every endpoint is asked with the names of what another tenant, or nobody, has."""
    theirs = await web.ask("the secret of a", tenant="a")
    await web.ask("the secret of nobody")
    await memory_of(web.records, with_embedder=False).add("S", "the secret fact", source="x", tenant="a")
    web.records.sessions.put(
        Session(id="s", intent="the secret session", repository="/r", state="needs_approval")
    )
    web.records.sessions.ask(
        Question(id="q", session="s", text="the secret question", asked_at=1.0, until=9e9)
    )
    approval = theirs.waiting[0].approval
    token = web.tokens.add("b's", tenant="b", rights=["see", "decide", "start"])
    names = {"run": theirs.run_id, "approval": approval, "session": "s", "question": "q"}
    bodies: dict[str, Any] = {
        "/approvals/{approval}/decision": {"decision": "once"},
        "/questions/{question}/answer": {"text": "yes"},
        "/code/{session}/decision": {"decision": "approve"},
        "/runs/{run}/messages": {"text": "hello"},
        "/runs/{run}/outcomes": {"action_id": "a", "choice": "done"},
        "/loops/{loop}/state": {"state": "stopped"},
        "/loops-switch": {"on": True},
        "/agents/{agent}/test": {"folder": "/"},
        "/runs": {"kind": "code", "intent": "x", "folder": "/"},
    }

    before = web.records.events.last_position()
    answers = {}
    for each in CLOSED:
        if each.path != "/stream":
            found = await call(web, each, token, bodies.get(each.path), **names)
            answers[f"{each.method} {each.path}"] = found

    assert [name for name, found in answers.items() if "secret" in found.text] == []
    assert [name for name, found in answers.items() if theirs.run_id in found.text and found.is_success] == []
    writes = {name: found.status_code for name, found in answers.items() if not name.startswith("GET")}
    assert {name: code for name, code in writes.items() if not 400 <= code < 500} == {}
    kept = web.records.approvals.get(approval)
    assert kept is not None
    assert kept.decision is None
    assert web.records.timetable.switch() is None
    assert before == web.records.events.last_position()


@pytest.mark.parametrize("query", ["?after=0", "?after=0&run={run}", "?watch={run}", "?after=999999999"])
async def test_stream_of_another_tenant_says_nothing(web: Web, query: str) -> None:
    theirs = await web.ask("the secret of a", tenant="a")
    token = web.tokens.add("b's", tenant="b", rights=["see"])
    stream = web.site.stream
    heard = b""

    async with stream.running(), web.client(token) as client:
        request = client.build_request(
            "GET", f"/api/v1/stream{query.format(run=theirs.run_id)}", headers={"last-event-id": "0"}
        )
        sending = asyncio.create_task(client.send(request, stream=True))
        await asyncio.sleep(0.3)
        stream.close()
        found = await asyncio.wait_for(sending, 10)
        heard = await found.aread()

    assert b"secret" not in heard
    assert theirs.run_id.encode() not in heard or found.status_code == 404


async def test_what_is_revoked_elsewhere_is_not_brought_back(tmp_path: Path) -> None:
    """One process lets browsers in while another revokes and makes tokens."""
    here, there = Tokens(tmp_path), Tokens(tmp_path)
    owner = here.owner()
    names = [f"t{n}" for n in range(20)]

    def change() -> None:
        for name in names:
            there.add(name)
        for name in names:
            there.revoke(name)

    changing = threading.Thread(target=change)
    changing.start()
    browsers = [here.redeem(here.code()) for _ in range(20)]
    changing.join()

    assert [each.name for each in here.listed()] == ["owner"]
    assert all(each is not None and here.find(each) is not None for each in browsers)
    assert here.find(owner) is not None


async def test_revoked_token_gets_nothing_more_over_an_open_stream(web: Web) -> None:
    token = web.tokens.add("guest", rights=["see"])
    stream = web.site.stream

    async with stream.running(), web.client(token) as client:
        sending = asyncio.create_task(client.get("/api/v1/stream"))
        while not stream._watching:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        web.tokens.revoke("guest")
        await web.ask("after the guest")
        found = await asyncio.wait_for(sending, 20)  # it ends by itself

    assert "hello" in found.text
    assert "after the guest" not in found.text


def test_link_that_cannot_be_used_up_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = Links(tmp_path)
    code, _ = links.make("approval", "x", tenant=None, fingerprint=None)

    def full(*_: object) -> None:
        raise InputError("no room")

    monkeypatch.setattr("placet.server.links.write_private", full)
    with pytest.raises(InputError):
        links.use(code)
    monkeypatch.undo()

    assert links.use(code) is not None
    assert links.use(code) is None


async def test_token_that_a_person_puts_in_logs_in_and_guesses_are_counted(web: Web) -> None:
    token = web.tokens.add("ann", rights=["see"])
    async with web.client() as client:
        foreign = await client.post(
            "/login", json={"token": token}, headers=WRITE | {"origin": "https://evil.example"}
        )
        plain = await client.post("/login", content=token, headers=WRITE | {"content-type": "text/plain"})
        odd = [
            await client.post("/login", content=body, headers=WRITE)
            for body in (
                b"",
                b"[]",
                b'{"token": 1}',
                b'{"token": "a", "more": 1}',
                b'{"token":"a","token":"b"}',
            )
        ]
        entered = await client.post("/login", json={"token": token}, headers=WRITE)
        me = await client.get("/api/v1/me", headers={"authorization": ""})
        again = await client.post("/login", json={"token": entered.cookies["placet_8765"]}, headers=WRITE)
        wrong = [
            (await client.post("/login", json={"token": f"{n}"}, headers=WRITE)).status_code
            for n in range(12)
        ]

    assert (foreign.status_code, plain.status_code) == (403, 415)
    assert {each.status_code for each in odd} == {400}
    assert (entered.status_code, me.json()["name"], me.json()["rights"]) == (200, "ann", ["see"])
    assert again.status_code == 401  # a browser's own token makes no further ones
    assert wrong[0] == 401
    assert wrong[-1] == 429


async def test_slow_body_is_given_up(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placet.server.guard.LimitedBody.__init__.__kwdefaults__", {"most_s": 0.05})

    async def slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with asyncio.timeout(10), web.client(web.owner) as client:
        found = await client.post("/api/v1/loops-switch", content=slowly(), headers=WRITE)

    assert (found.status_code, found.json()["error"]["code"]) == (408, "too_slow")


def test_every_answer_that_the_description_names_can_be_encoded() -> None:
    """A view that is encoded before is described as what it is."""
    schemas, components = msgspec.json.schema_components(
        [each.answers for each in CLOSED if each.path != "/stream"]
    )

    assert components["RunShown"]["properties"]["view"] == {"$ref": "#/$defs/RunView"}
    assert schemas
