"""One endpoint of the API: what it takes, what it answers, which right it needs, and how all are described.

Keep true:
1. What a request says is decoded strictly, once: unknown names, wrong types, duplicate keys and depth are
   errors that name the place.
2. An endpoint without a right in its row cannot be reached without a token either, unless it is `open`.
3. The OpenAPI description is made from the rows and their types: it cannot say something else.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.errors import InputError, PlacetError
from placet.ir.codec import decode_json
from placet.server.answers import Forbidden, answer, failure, of_error
from placet.server.tokens import Right, Token

if TYPE_CHECKING:
    from placet.server.site import Site

Method = Literal["GET", "POST", "DELETE"]
BASE = "/api/v1"
_LONGEST_PARAMETER = 500
"""Characters of a part of a path."""
_ENUM = re.compile(r"Invalid enum value .*?(?: - at `\$(?P<place>[^`]*)`)?", re.DOTALL)
"""How msgspec says that a word is not among those of a `Literal`."""


class ApiCall(NamedTuple):
    """One request, decoded."""

    site: Site
    token: Token
    path: Mapping[str, str]
    query: Any
    body: Any
    last_event_id: int | None = None
    """Where a stream broke off, as the browser says when it connects again."""
    client: str = ""
    """The address of whoever asks."""
    traceparent: str | None = None
    """The trace that the request belongs to."""


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A body or a query that says nothing."""


class Error(msgspec.Struct, frozen=True):
    """What went wrong."""

    code: str
    """Stable name of the kind of error."""
    message: str
    """What happened, to which thing, and what to do next."""


class Failed(msgspec.Struct, frozen=True):
    """The answer to a request that did not succeed."""

    error: Error


class Endpoint(NamedTuple):
    """A row of the API."""

    method: Method
    path: str
    """Below `BASE`."""
    handle: Callable[[ApiCall], Any]
    """Answers. One that is no coroutine function may wait for the database: it runs in a thread."""
    right: Right | None
    """What the token must allow; None if any token will do."""
    answers: type
    """What it answers."""
    summary: str
    query: type = Nothing
    body: Any = Nothing
    """A type, or a union of types."""
    status: int = 200
    is_open: bool = False
    """Whether it needs no token."""

    def route(self, site: Site) -> Route:
        """The endpoint as Starlette knows it."""

        async def respond(request: Request) -> Response:
            try:
                return await self._respond(site, request)
            except PlacetError as error:
                return of_error(error, site.redactor.text(str(error)))

        # Names of runs and tokens may hold a slash, which arrives here decoded.
        path = re.sub(r"{(\w+)}", r"{\1:path}", BASE + self.path)
        return Route(path, respond, methods=[self.method], name=f"{self.method} {self.path}")

    @property
    def ends_in_a_name(self) -> bool:
        """Whether it takes all that follows, so that it comes after those that name more of the path."""
        return self.path.endswith("}")

    async def _respond(self, site: Site, request: Request) -> Response:
        token: Token | None = getattr(request.state, "token", None)
        if not self.is_open:
            if token is None:
                return failure(401, "token", "This needs a token.")
            if self.right is not None and not token.may(self.right):
                raise Forbidden(f"The token '{token.name}' does not have the right '{self.right}'.")
        call = ApiCall(
            site,
            token or Token(name="", rights=(), digest="", created_at=0.0),
            _path(request.path_params),
            decode_query(request.query_params.multi_items(), self.query),
            await _body(request, self.body) if self.method != "GET" else Nothing(),
            _last_event_id(request),
            getattr(request.state, "client", ""),
            request.headers.get("traceparent"),
        )
        given: Any
        if inspect.iscoroutinefunction(self.handle):
            given = await self.handle(call)
        else:
            given = await asyncio.to_thread(self.handle, call)
        return given if isinstance(given, Response) else answer(given, self.status)


def _last_event_id(request: Request) -> int | None:
    given = request.headers.get("last-event-id", "")
    return int(given) if re.fullmatch("[0-9]{1,18}", given) else None


def _path(given: Mapping[str, Any]) -> dict[str, str]:
    found = {name: str(value) for name, value in given.items()}
    for name, value in found.items():
        if not value or len(value) > _LONGEST_PARAMETER or "\0" in value:
            raise InputError(f"'{name}' in the path is no name that anything here can have.")
    return found


def decode_query(items: Sequence[tuple[str, str]], wanted: type) -> Any:
    """The query of a request.

    Raises:
        InputError: a name is unknown or given twice, or a value means nothing.
    """
    given: dict[str, str] = {}
    for name, value in items:
        if name in given:
            raise InputError(f"'{name}' is given twice in the query. Give it once.")
        if "\0" in value:
            raise InputError(f"'{name}' in the query holds a null character.")
        given[name] = value
    return _convert(given, wanted, "the query", strict=False)


async def _body(request: Request, wanted: Any) -> Any:
    data = await request.body()
    if not data.strip() and wanted is Nothing:
        return Nothing()
    return _convert(decode_json(data, "the body"), wanted, "the body", strict=True)


def _convert(given: Any, wanted: Any, source: str, *, strict: bool) -> Any:
    try:
        return msgspec.convert(given, wanted, strict=strict)
    except msgspec.ValidationError as error:
        raise InputError(f"Cannot use {source}: {error}.{_choices(str(error), wanted)}") from None


def _choices(problem: str, wanted: Any) -> str:
    """The words that a field takes, as a sentence; nothing if the problem is another one.

    >>> class Answer(msgspec.Struct):
    ...     said: Literal["yes", "no"] | None = None
    >>> _choices("Invalid enum value 'so' - at `$.said`", Answer)
    " It takes one of: 'no', 'yes'."
    """
    found = _ENUM.fullmatch(problem)
    if found is None:
        return ""
    reached = [msgspec.inspect.type_info(wanted)]
    for name in re.findall(r"\.(\w+)|\[[^\]]*\]", found["place"] or ""):
        reached = [each for kind in reached for each in _inside(kind, name)]
    kinds = [each for kind in reached for each in _alternatives(kind)]
    taken = [v for kind in kinds if isinstance(kind, msgspec.inspect.LiteralType) for v in kind.values]
    listed = ", ".join(f"'{value}'" for value in taken)
    return f" It takes one of: {listed}." if listed else ""


def _inside(kind: msgspec.inspect.Type, name: str) -> Iterator[msgspec.inspect.Type]:
    """The types of a field, or without a name of an item."""
    for each in _alternatives(kind):
        if isinstance(each, msgspec.inspect.StructType):
            yield from (field.type for field in each.fields if field.encode_name == name)
        elif isinstance(each, msgspec.inspect.ListType) and not name:
            yield each.item_type


def _alternatives(kind: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, ...]:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _alternatives(kind.type)
    return kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)


def describe(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The API as OpenAPI 3.1."""
    types = [each for e in endpoints for each in (e.query, e.body, e.answers) if each is not Response]
    schemas, components = msgspec.json.schema_components(
        [*dict.fromkeys([*types, Failed])], ref_template="#/components/schemas/{name}"
    )
    by_type = dict(zip([*dict.fromkeys([*types, Failed])], schemas, strict=True))
    wrong = {
        "description": "It did not succeed.",
        "content": {"application/json": {"schema": by_type[Failed]}},
    }
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        names = re.findall(r"{(\w+)", each.path)
        parameters: list[dict[str, Any]] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in names
        ]
        parameters += _query_parameters(each.query, components)
        about: dict[str, Any] = {
            "operationId": _operation(each),
            "summary": each.summary,
            "parameters": parameters,
            "responses": {str(each.status): _response(each, by_type), "default": wrong},
        }
        if each.right is not None:
            about["description"] = f"Needs the right `{each.right}`."
        if each.is_open:
            about["security"] = []
        if each.method != "GET":
            about["parameters"] = [
                *parameters,
                {"name": "X-Placet", "in": "header", "required": True, "schema": {"enum": ["1"]}},
            ]
            about["requestBody"] = {
                "required": each.body is not Nothing,
                "content": {"application/json": {"schema": by_type[each.body]}},
            }
        paths.setdefault(BASE + each.path, {})[each.method.lower()] = about
    return {
        "openapi": "3.1.0",
        "info": {"title": "Placet", "version": version},
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "placet_PORT"},
            },
        },
    }


def _response(each: Endpoint, by_type: Mapping[type, Any]) -> dict[str, Any]:
    if each.answers is Response:
        return {
            "description": each.summary,
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    return {"description": each.summary, "content": {"application/json": {"schema": by_type[each.answers]}}}


def _query_parameters(query: type, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    if query is Nothing:
        return []
    schema = components[query.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": about}
        for name, about in schema["properties"].items()
    ]


def _operation(each: Endpoint) -> str:
    return re.sub(r"\W+", "_", f"{each.method.lower()}{each.path}").strip("_")
