"""Whatever is asked of the API, as its own description says or nearly so: never a fault of the server."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from placet import __version__
from placet.server.asgi import ENDPOINTS, describe
from tests.properties.effort import examples
from tests.server.web import ORIGIN, WRITE, Web, opened

if TYPE_CHECKING:
    from schemathesis import Case

DESCRIPTION = describe(ENDPOINTS, __version__)
TOKENS = {"/api/v1/tokens/{name}/rotate", "/api/v1/tokens/{name}", "/api/v1/tokens"}
"""Changing them would log us out."""
LEFT_OUT = defaultdict(lambda: TOKENS, GET={"/api/v1/stream"})
"""By method. The stream never ends, so it is followed by other tests."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, asyncio.AbstractEventLoop]]:
    """A site with something in it, on a loop of its own."""
    folder = tmp_path_factory.mktemp("web")
    loop = asyncio.new_event_loop()
    opening = opened(folder)
    web = loop.run_until_complete(opening.__aenter__())
    loop.run_until_complete(web.ask())
    yield web, loop
    loop.run_until_complete(opening.__aexit__(None, None, None))
    loop.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (each.method, path)
        for each in ENDPOINTS
        if (path := f"/api/v1{each.path}") not in LEFT_OUT[each.method]
    ],
)
def test_no_request_makes_the_server_fail(
    method: str, path: str, asked: tuple[Web, asyncio.AbstractEventLoop]
) -> None:
    # As the plugin for pytest does it, which would build all requests in every worker that collects them.
    from schemathesis.generation.feedback import NO_FEEDBACK
    from schemathesis.pytest._test_builder import build_operation_test

    @examples(20, shrink=False)
    def ask(case: Case) -> None:
        web, loop = asked

        found = loop.run_until_complete(send(web, case))

        assert found.status_code < 500, f"{case.method} {path}: {found.text}"
        assert found.headers["content-type"] == "application/json"
        if found.status_code >= 400:
            assert set(found.json()) == {"error"}

    schema = api()
    build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=ask,
        given_kwargs={},
        feedback=NO_FEEDBACK,
    )()


@cache
def api() -> Any:
    """The description as Schemathesis reads it; loaded by those who ask, not by all who collect."""
    import schemathesis

    return schemathesis.openapi.from_dict(DESCRIPTION)


async def send(web: Web, case: Case) -> httpx2.Response:
    """Ask as a program with every right does."""
    made: dict[str, Any] = case.as_transport_kwargs(base_url=ORIGIN)
    headers = {name: value for name, value in dict(made.get("headers") or {}).items() if _is_sendable(value)}
    async with web.client(web.owner) as client:
        return await client.request(
            made["method"],
            made["url"],
            params=made.get("params"),
            headers={
                **headers,
                "host": ORIGIN.removeprefix("http://"),
                **(WRITE if case.method != "GET" else {}),
            },
            **({"json": made["json"]} if "json" in made else {}),
            **({"content": made["data"]} if isinstance(made.get("data"), bytes | str) else {}),
        )


def _is_sendable(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable()


def test_every_path_of_the_description_is_served() -> None:
    described = {(method.upper(), path) for path, each in DESCRIPTION["paths"].items() for method in each}

    assert described == {(each.method, f"/api/v1{each.path}") for each in ENDPOINTS}
