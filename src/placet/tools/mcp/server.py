"""A server as a person has stored it, and its tools as it lists them.

Keep true:
1. No secret is in here: only the names of the environment variables that hold them.
2. A tool is what was seen when it was switched on. One that has changed since has another digest.
3. Whatever a server claims about a tool stays a claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import msgspec

from placet.errors import NotJson, ToolDeclarationError
from placet.ir.json_value import JsonValue, copy_json
from placet.ir.tool_spec import ToolSchema
from placet.safe_text import clean

CALL_S = 60.0
CONNECT_S = 30.0
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What a server may be called."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
"""What a tool may be called: a name stands in rules, where * and spaces mean something."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What an environment variable may be called."""
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""What a header may be called."""
_SHORTEST_SECRET = 8
"""What is shorter may well be a word that stands everywhere."""
_NO_SECRETS = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
"""Variables that every process has: what they hold stands everywhere."""
_TEXT_AT_MOST = 16 * 1024
"""Characters of a description: a model reads it with every request."""
_SCHEMA_AT_MOST = 256 * 1024
_SCHEMA_DEPTH = 64
"""Less than a document may have: a schema stands inside the file that keeps it, and inside requests."""
_DATA_KEYS = frozenset({"const", "default", "enum", "examples"})
"""Keys of a schema that hold data: nothing in there is prose."""


class StoredTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that a person has switched on, as it was then."""

    description: str = ""
    input_schema: dict[str, JsonValue]
    digest: str
    """Of what the server listed; another listing is another tool."""
    read_only: bool = False
    """The person says so. What the server says counts only if the person said so: `as_claimed`."""
    as_claimed: bool = False
    """The person took over the server's own annotations."""

    def is_still(self, offer: Offer) -> bool:
        """Whether what the server lists now is what was switched on."""
        is_withdrawn = self.as_claimed and self.read_only and not offer.says_reading
        return offer.digest == self.digest and not is_withdrawn


class McpServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to reach a server, and which of its tools are switched on."""

    command: tuple[str, ...] = ()
    """Program and arguments; empty for a server that has a URL."""
    folder: str = ""
    """Where the command is started. Always the same one: a path in the command must not lead to whatever
    has the same name in the folder that somebody happens to work in."""
    url: str = ""
    environment: tuple[str, ...] = ()
    """Variables that are handed to the command, by name."""
    headers: Mapping[str, str] = {}
    """Names of headers, and the variable that holds the value of each."""
    timeout_s: float = CALL_S
    """For one call."""
    connect_timeout_s: float = CONNECT_S
    offered: tuple[str, ...] = ()
    """The tools that it listed when it was last asked, switched on or not, so that rules may name them."""
    tools: Mapping[str, StoredTool] = {}

    @property
    def address(self) -> str:
        """How a person would write it."""
        from shlex import join

        return self.url or join(self.command)


LISTED_TWICE = "two tools are listed under this name"
"""The problem of a tool that nobody could call: which one would be meant?"""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a server lists it."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue]
    claims: tuple[str, ...] = ()
    """What the server says about its risk; shown, and obeyed only where a person says so."""
    says_reading: bool = False
    """The server annotates it as read-only, and not as destructive as well."""
    says_writing: bool = False
    """The server annotates it as not read-only, or as destructive."""
    problem: str = ""
    """Why it cannot be switched on; empty if it can."""

    @property
    def digest(self) -> str:
        """Of all that a model is told about the tool."""
        seen = [self.name, self.description, self.input_schema]
        return sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()


def url_problem(url: str) -> str:
    """Why a URL cannot be that of a server; empty if it can."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "it cannot be read"
    if parts.scheme not in ("http", "https") or not has_host:
        return "it does not begin with https://HOST or http://HOST"
    if "@" in parts.netloc:
        return "it holds a name or password; name a variable that holds it, with --header"
    if not (url.isascii() and url.isprintable()) or " " in url:
        return "it holds characters that a URL cannot have"
    return ""


def secrets_of_server(server: McpServer, environment: Mapping[str, str]) -> list[str]:
    """What the variables hold that this server is given."""
    return secrets_in(server.environment, server.headers.values(), environment)


def secrets_in(names: Iterable[str], sent: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """What variables hold, given by name, and what is sent in headers."""
    held = [environment.get(name, "") for name in names if name not in _NO_SECRETS]
    for variable in sent:
        value = environment.get(variable, "").strip()
        # 'Bearer abc': a server that repeats it may well leave out the first word.
        held += [value, value.partition(" ")[2]]
    return [value for value in map(str.strip, held) if len(value) >= _SHORTEST_SECRET]


def as_schema(server: str, tool: str, stored: StoredTool) -> ToolSchema:
    """What a plan and a model see of a tool that is switched on."""
    return ToolSchema(
        name=f"{server}.{tool}",
        description=clean(stored.description, lines=True, tabs=True),
        parameters=_with_clean_prose(stored.input_schema),
        risk="read_only" if stored.read_only else "destructive",
        marks=("untrusted",),
    )


def read_offer(listed: Mapping[str, Any]) -> Offer:
    """A tool from the listing of a server, with what is wrong about it."""
    name = str(listed["name"])
    hints: Any = listed.get("annotations") or {}
    offer = Offer(
        name=name,
        description=str(listed.get("description") or ""),
        input_schema=listed["inputSchema"],
        claims=tuple(
            words
            for hint, said, words in (
                ("readOnlyHint", True, "read-only"),
                ("readOnlyHint", False, "not read-only"),
                ("destructiveHint", True, "destructive"),
                ("destructiveHint", False, "not destructive"),
                ("idempotentHint", True, "idempotent"),
                ("openWorldHint", False, "stays on its own system"),
            )
            if hints.get(hint) is said
        ),
        says_reading=hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True,
        says_writing=hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True,
    )
    return msgspec.structs.replace(offer, problem=_problem(offer))


def names_of(offers: Iterable[Offer]) -> tuple[str, ...]:
    """The names that can stand in a rule, of what a server lists."""
    return tuple(sorted({offer.name for offer in offers if TOOL_NAME.fullmatch(offer.name)}))


def switch_on(offer: Offer, *, read_only: bool = False, as_claimed: bool = False) -> StoredTool:
    """A tool as it is now, to be stored; with `as_claimed` it is read-only if the server says so."""
    return StoredTool(
        description=offer.description,
        input_schema=offer.input_schema,
        digest=offer.digest,
        read_only=offer.says_reading if as_claimed else read_only,
        as_claimed=as_claimed,
    )


def _problem(offer: Offer) -> str:
    """Why a tool cannot be offered to a model; empty if it can."""
    from placet.tools.tool import Tool

    if not TOOL_NAME.fullmatch(offer.name):
        return "its name has other characters than letters, digits, _ . / and -"
    if len(offer.description) > _TEXT_AT_MOST:
        return f"its description has more than {_TEXT_AT_MOST:,} characters"
    if _is_deeper(offer.input_schema, _SCHEMA_DEPTH):
        return f"the schema of its parameters is nested more than {_SCHEMA_DEPTH} deep"
    try:
        copy_json(offer.input_schema, "the schema of its parameters")
        size = len(msgspec.json.encode(offer.input_schema))
        if size > _SCHEMA_AT_MOST:
            return f"the schema of its parameters takes more than {_SCHEMA_AT_MOST:,} bytes"
        Tool.from_schema(as_schema("x", offer.name, switch_on(offer, read_only=False)), None)
    except (ToolDeclarationError, NotJson, RecursionError, ValueError) as error:
        return clean(str(error).removeprefix(f"Tool 'x.{offer.name}': "), 300)
    return ""


def _is_deeper(value: Any, most: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    held = value.values() if isinstance(value, dict) else value
    return most == 0 or any(_is_deeper(item, most - 1) for item in held)


def _with_clean_prose(schema: Any) -> Any:
    """A schema whose descriptions hide nothing from a person who looks at them; the rest is as it was."""
    if isinstance(schema, list):
        return [_with_clean_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: clean(value, lines=True, tabs=True)
        if key in ("description", "title") and isinstance(value, str)
        else (value if key in _DATA_KEYS else _with_clean_prose(value))
        for key, value in schema.items()
    }
