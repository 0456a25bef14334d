"""Links for one decision, sent to a person who is somewhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from placet.app.needs import OutcomeUnknown, mark_of
from placet.app.notify import NotifySettings
from placet.app.settings import parse_settings
from placet.coder.session import Session
from placet.errors import PolicyFileError
from placet.server.guard import Failures
from placet.server.links import LINK_S, Links
from placet.server.push import Pusher
from placet.testing import FakeClock
from tests.server.web import ORIGIN, WRITE, Web, opened


@pytest_asyncio.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with opened(tmp_path) as made:
        yield made


async def link_for(web: Web, result: Any) -> str:
    (item,) = (each for each in (await web.api("/needs-you"))["items"] if each["run_id"] == result.run_id)
    code, _ = web.site.links.make("approval", item["id"], tenant=None, fingerprint=item["fingerprint"])
    return code


async def open_link(web: Web, code: str) -> httpx2.Response:
    async with web.client() as phone:
        return await phone.get(f"/api/v1/links/{code}")


async def use_link(web: Web, code: str, **said: Any) -> httpx2.Response:
    async with web.client() as phone:
        return await phone.post(f"/api/v1/links/{code}", json=said, headers=WRITE)


async def test_link_shows_and_decides_its_one_thing_without_a_token(web: Web) -> None:
    mine, other = await web.ask("mine"), await web.ask("other")
    code = await link_for(web, mine)

    looked = [await open_link(web, code) for _ in range(3)]  # As previews do.
    done = await use_link(web, code, decision="once")

    assert {each.status_code for each in looked} == {200}
    assert looked[0].json()["item"]["parameters"] == {"text": "mine"}
    assert done.json()["status"] == "approved"
    made = web.records.approvals.get(mine.waiting[0].approval)
    assert (made.decision, made.decided_by) == ("once", "link")
    assert web.records.approvals.get(other.waiting[0].approval).decision is None


async def test_used_link_is_good_for_nothing(web: Web) -> None:
    code = await link_for(web, await web.ask())
    await use_link(web, code, decision="deny", reason="no")

    again = [await open_link(web, code), await use_link(web, code, decision="once")]

    assert {each.status_code for each in again} == {404}


async def test_of_two_who_use_a_link_at_once_one_decides(web: Web) -> None:
    result = await web.ask()
    code = await link_for(web, result)

    found = await asyncio.gather(*(use_link(web, code, decision=each) for each in ("once", "deny")))

    assert sorted(each.status_code for each in found) == [200, 404]


async def test_link_is_worthless_once_somebody_else_decided(web: Web) -> None:
    result = await web.ask()
    code = await link_for(web, result)
    web.records.approvals.decide(result.waiting[0].approval, "deny", by="ann")

    found = await use_link(web, code, decision="once")

    assert found.status_code == 404
    assert web.records.approvals.get(result.waiting[0].approval).decided_by == "ann"


@pytest.mark.parametrize(
    "said", [{"decision": "always"}, {"decision": "approve"}, {}, {"text": "yes"}, {"hold_s": 5}]
)
async def test_link_takes_no_answer_that_reaches_further(web: Web, said: dict[str, Any]) -> None:
    result = await web.ask()
    code = await link_for(web, result)

    found = await use_link(web, code, **said)

    assert found.status_code == 400
    assert web.records.approvals.get(result.waiting[0].approval).decision is None
    assert (await open_link(web, code)).status_code == 200  # Nothing was used up.


async def test_link_for_an_outcome_does_not_decide_a_later_one(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The action was run again, and is in doubt again."""
    first = OutcomeUnknown(id="r/a", run_id="r", title="a", asked_at=1.0, action_id="a", reason="lost")
    later = msgspec.structs.replace(first, asked_at=2.0)
    waiting = [first]
    monkeypatch.setattr("placet.server.api.links.needs", lambda *_, **__: waiting)
    code, _ = web.site.links.make("outcome", "r/a", tenant=None, fingerprint=mark_of(first))

    shown = (await open_link(web, code)).status_code
    waiting[:] = [later]

    assert (shown, (await open_link(web, code)).status_code) == (200, 404)
    assert web.site.links.knows("outcome", "r/a", mark_of(first))
    assert not web.site.links.knows("outcome", "r/a", mark_of(later))


async def test_change_of_a_session_is_pushed_though_its_checks_were(web: Web, tmp_path: Path) -> None:
    """Both have the id of the session, and the link for the checks was never used."""
    told = tmp_path / "told"
    settings = NotifySettings(command=("sh", "-c", f'printf "%s\\n" "$1" >> {told}'))
    pusher = Pusher(web.site, settings, ORIGIN)
    found = []

    for state in ("contract_proposed", "needs_approval"):
        web.records.sessions.put(Session(id="s", intent="mend it", repository="/r", state=state))  # type: ignore[arg-type]
        pusher.look()
        await pusher.end()
        codes = [each.rpartition("/")[2] for each in told.read_text().split()]
        found.append([(await open_link(web, each)).status_code for each in codes])

    assert found == [[200], [404, 200]]
    assert (await open_link(web, codes[-1])).json()["item"]["kind"] == "change"


async def test_page_of_another_site_cannot_use_a_link(web: Web) -> None:
    result = await web.ask()
    code = await link_for(web, result)

    async with web.client() as phone:
        headers = {**WRITE, "origin": "https://evil.example"}
        crossed = await phone.post(f"/api/v1/links/{code}", json={"decision": "once"}, headers=headers)
        simple = await phone.post(f"/api/v1/links/{code}", content=b'{"decision":"once"}')

    assert crossed.status_code == 403
    assert simple.status_code in (403, 415)
    assert web.records.approvals.get(result.waiting[0].approval).decision is None


async def test_guessing_links_is_slowed_down(web: Web) -> None:
    codes = [(await open_link(web, f"{n:043d}")).status_code for n in range(Failures.FREE)]

    assert set(codes) == {404}
    assert (await open_link(web, "x" * 43)).status_code == 429


async def test_page_of_another_site_locks_nobody_out_by_guessing(web: Web) -> None:
    """Its pictures and scripts come from the address of whoever looks at it."""
    async with web.client() as browser:
        for site in ("cross-site", "same-site"):
            guesses = [
                await browser.get(f"/api/v1/links/{n}", headers={"sec-fetch-site": site})
                for n in range(Failures.FREE + 1)
            ]
            assert {each.status_code for each in guesses} == {403}
        opened = await browser.get("/d/x", headers={"sec-fetch-site": "cross-site"})

    assert opened.status_code == 200  # A link in a message is followed from elsewhere.
    assert (await web.get("/api/v1/me")).status_code == 200


async def test_link_opens_the_same_page_whatever_its_code(web: Web) -> None:
    async with web.client() as phone:
        pages = [await phone.get(f"/d/{code}") for code in ("x", "y" * 43)]

    assert {each.status_code for each in pages} == {200}
    assert pages[0].text == pages[1].text


def test_link_ends_after_a_day_and_lies_in_the_file_as_a_digest(tmp_path: Path) -> None:
    clock = FakeClock(1000.0)
    links = Links(tmp_path, clock=clock)
    code, until = links.make("approval", "a", tenant=None, fingerprint=None)
    soon, early = links.make("approval", "b", tenant=None, fingerprint=None, until=1010.0)

    again = Links(tmp_path, clock=clock)  # After a restart.
    clock.advance(20)

    assert again.find(code) is not None
    assert again.find(soon) is None
    assert (until, early) == (1000.0 + LINK_S, 1010.0)
    kept = tmp_path / "links.json"
    assert code not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    clock.advance(LINK_S)
    assert again.use(code) is None


class Receiver:
    """A server that takes what is posted to it."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.came = asyncio.Event()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in head.split("\r\n")[1:]) if n}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.got.append((headers, body))
        self.came.set()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


async def test_what_begins_to_wait_is_pushed_once_in_every_way_that_is_set(web: Web, tmp_path: Path) -> None:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.take, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    told = tmp_path / "told"
    settings = NotifySettings(
        command=("sh", "-c", f'printf "%s\\n" "$0" "$1" >> {told}'),
        webhook=f"{address}/hook",
        ntfy=f"{address}/topic",
        url="https://box.example.org",
    )
    web.site.pusher = pusher = Pusher(web.site, settings, ORIGIN)

    async with web.site.stream.running():
        web.site.begin()
        result = await web.ask(f"hello {web.owner}")
        while len(receiver.got) < 2 or not told.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        pusher.look()
        await web.site.end()
    server.close()

    title, link = told.read_text().splitlines()
    hook = next(
        json.loads(body) for headers, body in receiver.got if "json" in headers.get("content-type", "")
    )
    ntfy = next(headers for headers, _ in receiver.got if "click" in headers)
    assert len(receiver.got) == 2
    assert pusher.problems == []
    assert hook["link"] == link == ntfy["click"]
    assert hook["run_id"] == result.run_id
    assert link.startswith("https://box.example.org/d/")
    assert web.owner not in title + str(receiver.got)
    done = await use_link(web, link.rpartition("/")[2], decision="once")
    assert done.status_code == 200


async def test_way_that_fails_is_told_and_changes_nothing(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    settings = NotifySettings(command=("/nowhere/at/all",), ntfy="http://127.0.0.1:1/x")
    web.site.pusher = pusher = Pusher(web.site, settings, ORIGIN)

    async with web.site.stream.running():
        web.site.begin()
        await web.ask()
        while not pusher.problems:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await web.site.end()

    assert len(pusher.problems) == 2
    told = [each.getMessage() for each in caplog.records if each.name == "placet.server.push"]
    assert [problem in line for problem, line in zip(pusher.problems, told, strict=True)] == [True, True]
    assert (await web.api("/needs-you"))["count"] == 1


@pytest.mark.parametrize(
    "text",
    ['ntfy = "ftp://x"', "ntfy = 5", 'command = "x"', 'urls = "https://x"', 'url = "https://"'],
)
def test_settings_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(PolicyFileError, match="notify"):
        parse_settings(Path("settings.toml"), f"[notify]\n{text}\n".encode(), of_project=False)


def test_project_sends_no_notifications() -> None:
    with pytest.raises(PolicyFileError):
        parse_settings(Path("settings.toml"), b'[notify]\nntfy = "https://x.example/y"\n', of_project=True)
