"""Who may ask, from which page, with how much."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from placet.errors import InputError, UsageError
from placet.server.asgi import PAGE, find_file, make_app
from placet.server.guard import MOST_BYTES, Asgi, Failures
from placet.server.running import addresses, check_address
from placet.server.tokens import CODE_S, OWNER, Tokens
from placet.testing import FakeClock
from tests.server.web import COOKIE, ORIGIN, WRITE, Web, opened

RUNS = "/api/v1/runs"


@pytest_asyncio.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    async with opened(tmp_path) as made:
        yield made


# Host and Origin


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:8765", ""]
)
async def test_foreign_host_is_refused_even_with_the_token(web: Web, host: str) -> None:
    found = await web.get(RUNS, host=host)

    assert (found.status_code, found.json()["error"]["code"]) == (403, "host")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8765"]
)
async def test_page_of_another_origin_cannot_write(web: Web, origin: str) -> None:
    waiting = (await web.ask()).waiting[0].approval

    path = f"/approvals/{waiting}/decision"
    found = await web.post(path, {"decision": "once"}, headers={**WRITE, "origin": origin})

    assert (found.status_code, found.json()["error"]["code"]) == (403, "origin")
    assert web.records.approvals.get(waiting).decision is None


@pytest.mark.parametrize("left_out", ["origin", "x-placet", "content-type"])
async def test_cookie_alone_writes_nothing(web: Web, left_out: str) -> None:
    """What a form, an image or a script of another site can send is never enough."""
    waiting = (await web.ask()).waiting[0].approval
    secret = web.tokens.redeem(web.tokens.code())
    headers = {name: value for name, value in WRITE.items() if name != left_out}

    async with web.client(cookies={COOKIE: secret}) as browser:
        found = await browser.post(
            f"/api/v1/approvals/{waiting}/decision", content=b'{"decision": "once"}', headers=headers
        )
        whole = await browser.post(
            f"/api/v1/approvals/{waiting}/decision", content=b'{"decision": "once"}', headers=WRITE
        )

    assert found.status_code in (403, 415)
    assert whole.status_code == 200


# Tokens


@pytest.mark.parametrize("path", ["/runs", "/needs-you", "/me", "/stream", "/openapi.json", "/runs/x/events"])
async def test_api_needs_a_token(web: Web, path: str) -> None:
    async with web.client() as stranger:
        without = await stranger.get(f"/api/v1{path}")
    wrong = await web.get(f"/api/v1{path}", token="x" * 43)

    assert without.status_code == wrong.status_code == 401


async def test_link_logs_one_browser_in_once(web: Web) -> None:
    code = web.tokens.code()

    async with web.client() as browser:
        first = await browser.get(f"/login?code={code}")
        after = await browser.get("/api/v1/me")
    async with web.client() as other:
        second = await other.get(f"/login?code={code}")
        stays_out = await other.get("/api/v1/me")

    cookie = first.headers["set-cookie"].lower()
    assert first.status_code == 303
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert after.json()["name"] == OWNER
    assert "set-cookie" not in second.headers
    assert stays_out.status_code == 401


async def test_token_file_is_private_and_holds_no_token(web: Web, tmp_path: Path) -> None:
    made = web.tokens.add("phone", rights=["see", "decide"])

    kept = tmp_path / "server" / "tokens.json"

    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE(web.tokens.owner_file.stat().st_mode) == 0o600
    assert made not in kept.read_text()
    assert web.owner not in kept.read_text()
    assert len(made) == 43  # 256 bits


async def test_rights_are_kept(web: Web) -> None:
    waiting = (await web.ask()).waiting[0].approval
    looker = web.tokens.add("looker", rights=["see"])
    judge = web.tokens.add("judge", rights=["decide"])
    path = f"/approvals/{waiting}/decision"

    denied = await web.post(path, {"decision": "once"}, token=looker)
    blind = await web.get(RUNS, token=judge)
    done = await web.post(path, {"decision": "once"}, token=judge)

    assert denied.status_code == blind.status_code == 403
    assert done.json()["decided_by"] == "judge"


async def test_rotated_and_revoked_tokens_end_at_once(web: Web) -> None:
    old = web.tokens.add("ci", rights=["see"])
    browser = web.tokens.redeem(web.tokens.code("ci"))
    new = web.tokens.rotate("ci")

    codes = [(await web.get(RUNS, token=each)).status_code for each in (old, browser, new)]
    web.tokens.revoke("ci")
    after = await web.get(RUNS, token=new)

    assert codes == [401, 401, 200]
    assert after.status_code == 401


def test_login_code_ends_with_the_token_that_made_it(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.owner()
    tokens.add("ann")
    codes = [tokens.code(), tokens.code("ann")]
    elsewhere = Tokens(tmp_path)  # such as the command line

    elsewhere.rotate("owner")
    elsewhere.revoke("ann")
    elsewhere.add("ann")

    assert [tokens.redeem(each) for each in codes] == [None, None]
    assert tokens.redeem(tokens.code("ann")) is not None


def test_login_code_ends_after_ten_minutes(tmp_path: Path) -> None:
    clock = FakeClock(1000.0)
    tokens = Tokens(tmp_path, clock=clock)
    tokens.owner()
    in_time, late = tokens.code(), tokens.code()

    clock.advance(CODE_S - 1)
    good = tokens.redeem(in_time)
    clock.advance(2)

    assert good is not None
    assert tokens.redeem(late) is None


def test_damaged_token_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.owner()
    (tmp_path / "tokens.json").write_text("{")

    with pytest.raises(InputError, match=r"tokens\.json"):
        Tokens(tmp_path).listed()


@pytest.mark.parametrize("name", ["", " x", "a\nb", "x" * 81])
def test_token_needs_a_name_that_can_be_shown(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        Tokens(tmp_path).add(name)


async def test_guessing_is_slowed_down_and_then_refused(web: Web) -> None:
    codes = [(await web.get(RUNS, token=f"{n:043d}")).status_code for n in range(Failures.FREE)]
    locked = await web.get(RUNS, token="y" * 43)
    right = await web.get(RUNS)

    assert set(codes) == {401}
    assert locked.status_code == right.status_code == 429
    assert int(right.headers["retry-after"]) >= 1


def test_each_further_guess_doubles_the_wait() -> None:
    clock = FakeClock(1000.0)
    failures = Failures(clock=clock)
    for _ in range(Failures.FREE + 3):
        failures.note("there")

    assert failures.wait_s("there") == pytest.approx(8.0)
    assert failures.wait_s("elsewhere") == 0
    clock.advance(8.1)
    assert failures.wait_s("there") == 0


# Bodies


async def test_oversized_body_is_refused_whatever_its_header_says(web: Web) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MOST_BYTES // 65_536 + 1):
            yield b" " * 65_536

    async with web.client(web.owner) as client:
        told = await client.post(
            "/api/v1/approvals/x/decision", content=b" " * (MOST_BYTES + 1), headers=WRITE
        )
        untold = await client.post("/api/v1/approvals/x/decision", content=chunks(), headers=WRITE)

    assert told.status_code == untold.status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200 + b"]" * 200,
        b'{"decision": "once", "decision": "deny"}',
        b'{"decision": NaN}',
        b'{"decision": "once", "more": 1}',
        b'{"decision": "maybe"}',
        b"{",
        b"",
    ],
    ids=["deep", "twice", "nan", "unknown", "choice", "cut", "empty"],
)
async def test_body_is_decoded_strictly(web: Web, body: bytes) -> None:
    waiting = (await web.ask()).waiting[0].approval

    async with web.client(web.owner) as client:
        found = await client.post(f"/api/v1/approvals/{waiting}/decision", content=body, headers=WRITE)

    assert found.status_code == 400
    assert web.records.approvals.get(waiting).decision is None


async def test_word_that_is_no_choice_is_answered_with_the_choices(web: Web) -> None:
    waiting = (await web.ask()).waiting[0].approval

    found = await web.post(f"/approvals/{waiting}/decision", {"decision": "yes"})

    assert found.status_code == 400
    problem = found.json()["error"]["message"]
    assert "$.decision" in problem
    assert all(f"'{word}'" in problem for word in ("yes", "once", "always", "edits", "deny"))


# The page's files


@pytest.mark.parametrize(
    "path",
    [
        "../tokens.py",
        "%2e%2e/tokens.py",
        "..%2ftokens.py",
        "/etc/passwd",
        "..\\tokens.py",
        "x\0.js",
        "tokens.py",
        "",
    ],
)
async def test_static_files_stay_in_their_folder(web: Web, path: str) -> None:
    found = await web.get(f"/page/{path.replace(chr(0), '%00')}")

    assert found.status_code == 404
    assert find_file(path) is None


def test_link_out_of_the_folder_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "page" / "out.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr("placet.server.asgi.PAGE", tmp_path / "page")

    assert find_file("out.txt") is None
    assert PAGE.name == "page"


async def test_every_answer_forbids_inline_script_and_framing(web: Web) -> None:
    async with web.client() as stranger:
        answers = [await stranger.get(path) for path in ("/", "/nothing", "/api/v1/health", RUNS)]

    for each in answers:
        policy = each.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert each.headers["x-content-type-options"] == "nosniff"


# Where it listens


def test_other_machines_need_a_persons_word_and_encryption() -> None:
    check_address("127.0.0.1", allow_remote=False, has_tls=False, proxies=())
    check_address("::1", allow_remote=False, has_tls=False, proxies=())
    check_address("0.0.0.0", allow_remote=True, has_tls=True, proxies=())
    check_address("10.0.0.1", allow_remote=True, has_tls=False, proxies=["10.0.0.2"])

    for host, allowed, tls in (
        ("0.0.0.0", False, True),
        ("0.0.0.0", True, False),
        ("example.org", True, False),
    ):
        with pytest.raises(UsageError):
            check_address(host, allow_remote=allowed, has_tls=tls, proxies=())


def test_hosts_and_origins_are_exact() -> None:
    hosts, origins = addresses("127.0.0.1", 8765, ["box.local", "proxy.example:8443"], is_secure=False)

    assert "127.0.0.1:8765" in hosts
    assert "[::1]:8765" in hosts
    assert {"box.local", "box.local:8765", "proxy.example:8443"} <= set(hosts)
    assert "127.0.0.1" not in hosts
    assert origins == [f"http://{host}" for host in hosts]
    assert ORIGIN in origins


async def test_behind_a_trusted_proxy_each_client_counts_for_itself(web: Web) -> None:
    """A header that somebody else sends is not believed."""
    guard = make_app(
        web.site, hosts=["127.0.0.1:8765"], origins=[ORIGIN], cookie=COOKIE, trusted_proxies=["127.0.0.1"]
    )

    async def ask(app: Asgi, address: str, token: str) -> int:
        transport = httpx2.ASGITransport(app=app)  # type: ignore[arg-type]
        async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            proxied = {"x-forwarded-for": address, "x-forwarded-proto": "https"}
            headers = {"authorization": f"Bearer {token}", **proxied}
            return (await client.get(RUNS, headers=headers)).status_code

    for n in range(Failures.FREE):
        await ask(guard, "10.0.0.7", f"{n:043d}")

    assert await ask(guard, "10.0.0.7", web.owner) == 429
    assert await ask(guard, "10.0.0.8", web.owner) == 200
    assert await ask(web.app, "10.0.0.7", web.owner) == 200
