"""`mcp.json`: read strictly, written whole, shared by processes; and the tools that come from it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.app.mcp_servers import (
    changing,
    load_mcp_tools,
    load_servers,
    mending,
    secrets_of_servers,
    servers_file,
)
from placet.errors import InputError
from placet.tools.mcp.server import McpServer, StoredTool

TOOL = {"input_schema": {"type": "object"}, "digest": "0" * 64}
COMMAND = {"command": ["server"], "folder": "/"}


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def write(own: dict[str, str], servers: Any, **more: Any) -> Path:
    path = servers_file(own)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": 1, "servers": servers, **more}))
    return path


def test_what_was_stored_is_read_again(own: dict[str, str]) -> None:
    servers = {
        "one": McpServer(
            command=("a", "b c"),
            folder="/somewhere",
            environment=("TOKEN",),
            timeout_s=5.0,
            connect_timeout_s=2.0,
            tools={"t": StoredTool(description="\x1b\u202e", input_schema={"type": "object"}, digest="d")},
        ),
        "two": McpServer(url="https://example.com/mcp", headers={"Authorization": "TOKEN"}),
    }

    with changing(own) as stored:
        stored.update(servers)

    assert load_servers(own) == servers
    path = servers_file(own)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().isascii()


def test_no_file_is_no_server_and_makes_none(own: dict[str, str]) -> None:
    tools, close = load_mcp_tools(own)
    close()

    assert tools == []
    assert not servers_file(own).parent.exists()


def test_what_is_interrupted_changes_nothing(own: dict[str, str]) -> None:
    with changing(own) as stored:
        stored["one"] = McpServer(url="http://localhost/mcp")
    before = servers_file(own).read_bytes()

    with pytest.raises(ZeroDivisionError), changing(own) as stored:
        stored.clear()
        raise ZeroDivisionError

    assert servers_file(own).read_bytes() == before


@pytest.mark.parametrize(
    ("servers", "key", "words"),
    [
        ([], "servers", "expected an object, got a list"),
        ({"a b": COMMAND}, "servers.a b", "letters, digits, - and _ only"),
        ({"a": "x"}, "servers.a", "expected an object, got a text"),
        ({"a": {}}, "servers.a", "either a 'command' or a 'url'"),
        ({"a": {**COMMAND, "url": "https://x"}}, "servers.a", "either a 'command' or a 'url'"),
        ({"a": {**COMMAND, "comand": []}}, "servers.a.comand", "Did you mean 'command'?"),
        ({"a": {**COMMAND, "command": []}}, "servers.a.command", "it is empty"),
        ({"a": {**COMMAND, "command": [""]}}, "servers.a.command", "it is empty"),
        ({"a": {"url": " "}}, "servers.a.url", "it is empty"),
        ({"a": {**COMMAND, "folder": "/a\0b"}}, "servers.a.folder", "no whole path"),
        ({"a": {"url": "https://x/\x01"}}, "servers.a.url", "characters that a URL cannot have"),
        (
            {"a": {**COMMAND, "tools": {"t\x1b": TOOL}}},
            "servers.a.tools.t\x1b",
            "letters, digits, _ . / and -",
        ),
        ({"a": {**COMMAND, "command": "ls"}}, "servers.a.command", "expected a list, got a text"),
        ({"a": {**COMMAND, "command": [1]}}, "servers.a.command[0]", "expected a text, got a whole number"),
        ({"a": {"command": ["x"]}}, "servers.a.folder", "no whole path"),
        ({"a": {**COMMAND, "folder": "here"}}, "servers.a.folder", "no whole path"),
        ({"a": {**COMMAND, "headers": {}}}, "servers.a.headers", "the other kind"),
        ({"a": {**COMMAND, "environment": ["A=b"]}}, "servers.a.environment", "never what it holds"),
        ({"a": {"url": "ftp://x"}}, "servers.a.url", "does not begin with https://"),
        ({"a": {"url": "https://me:secret@x/"}}, "servers.a.url", "name or password"),
        ({"a": {"url": "https://x", "folder": "/"}}, "servers.a.folder", "the other kind"),
        (
            {"a": {"url": "https://x", "headers": {"Authorization": "Bearer abc"}}},
            "servers.a.headers.Authorization",
            "never the token itself",
        ),
        ({"a": {"url": "https://x", "headers": {"A b": "V"}}}, "servers.a.headers.A b", "no header"),
        ({"a": {**COMMAND, "timeout_s": 0}}, "servers.a.timeout_s", "above zero"),
        ({"a": {**COMMAND, "timeout_s": True}}, "servers.a.timeout_s", "expected a number"),
        ({"a": {**COMMAND, "tools": []}}, "servers.a.tools", "expected an object, got a list"),
        ({"a": {**COMMAND, "tools": {"t": {}}}}, "servers.a.tools.t.input_schema", "it is missing"),
        (
            {"a": {**COMMAND, "tools": {"t": {**TOOL, "read_only": 1}}}},
            "servers.a.tools.t.read_only",
            "expected true or false",
        ),
        (
            {"a": {**COMMAND, "tools": {"t": {**TOOL, "description": 1}}}},
            "servers.a.tools.t.description",
            "expected a text, got a whole number",
        ),
        ({"a": {**COMMAND, "tools": {"t": {**TOOL, "risk": "low"}}}}, "servers.a.tools.t.risk", "is no key"),
        (
            {"a": {**COMMAND, "tools": {"t": {**TOOL, "input_schema": {"type": "nonsense"}}}}},
            "servers.a.tools",
            "does not compile",
        ),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_file(
    own: dict[str, str], servers: Any, key: str, words: str
) -> None:
    path = write(own, servers)

    with pytest.raises(InputError) as caught:
        load_mcp_tools(own)

    assert f"File of MCP servers {path}, key '{key}': " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Cannot read the file of MCP servers"),
        ('{"format": 1, "format": 1, "servers": {}}', "Cannot read the file of MCP servers"),
        ('{"format": 2, "servers": {}}', "key 'format': it is not 1"),
        ('{"format": true, "servers": {}}', "key 'format': it is not 1"),
        ('{"format": 1, "servers": {}, "more": 1}', "'more' is no key of the file"),
        ("[]", "expected an object, got a list"),
    ],
)
def test_a_file_that_is_none_is_refused_and_never_written_over(
    own: dict[str, str], text: str, words: str
) -> None:
    path = write(own, {})
    path.write_text(text)

    with pytest.raises(InputError, match=words):
        load_mcp_tools(own)
    with pytest.raises(InputError, match=words), changing(own) as stored:
        stored["one"] = McpServer(url="http://localhost/mcp")

    assert path.read_text() == text


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        found = {"items": found}
    return found


@pytest.mark.parametrize(
    "bad",
    [
        McpServer(url="https://x/", tools={"t": StoredTool(input_schema=nested(95), digest="d")}),
        McpServer(url="https://x/", tools={"t": StoredTool(input_schema={"a": float("nan")}, digest="d")}),
        McpServer(url="ftp://x/"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(own: dict[str, str], bad: McpServer) -> None:
    with changing(own) as stored:
        stored["one"] = McpServer(url="http://localhost/mcp")
    before = servers_file(own).read_bytes()

    with (
        pytest.raises(InputError, match="Nothing was changed: it could not be read again"),
        changing(own) as all_,
    ):
        all_["bad"] = bad

    assert servers_file(own).read_bytes() == before


def test_something_can_be_taken_out_of_a_file_that_cannot_be_used(own: dict[str, str]) -> None:
    good = {"command": ["server"], "folder": "/", "tools": {"t": TOOL}}
    write(own, {"good": good, "bad": {**COMMAND, "tools": {"t": {**TOOL, "input_schema": nested(120)}}}})
    with pytest.raises(InputError, match="nested more than 100 deep"):
        load_servers(own)

    with mending(own) as servers:
        del servers["bad"]

    assert load_servers(own).keys() == {"good"}
    assert json.loads(servers_file(own).read_text())["servers"] == {"good": good}


@pytest.mark.parametrize(
    "text", ["{", '{"format": 2, "servers": {"a": {}}}', '{"servers": {"a": 1, "a": 2}}']
)
def test_a_file_that_cannot_be_made_out_is_left_alone(own: dict[str, str], text: str) -> None:
    path = write(own, {})
    path.write_text(text)

    with pytest.raises(InputError), mending(own) as servers:
        servers.pop("a", None)

    assert path.read_text() == text


def test_taking_out_of_nothing_makes_nothing(own: dict[str, str]) -> None:
    with mending(own) as servers:
        assert servers == {}

    assert not servers_file(own).parent.exists()


def test_a_link_stays_one_and_what_it_leads_to_is_written(own: dict[str, str], tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "servers.json"
    kept.parent.mkdir()
    kept.write_text('{"format": 1, "servers": {}}')
    path = servers_file(own)
    path.parent.mkdir(parents=True)
    path.symlink_to(kept)

    with changing(own) as stored:
        stored["one"] = McpServer(url="http://localhost/mcp")

    assert path.is_symlink()
    assert json.loads(kept.read_text())["servers"].keys() == {"one"}
    assert load_servers(own).keys() == {"one"}


def test_what_servers_are_given_is_secret(own: dict[str, str]) -> None:
    environment = {
        **own,
        "PLAIN": "hunter2hunter2",
        "AUTH": "Bearer abcdefgh",
        "LEVEL": "debug",
        "HOME": "/home/somebody",
        "OTHER": "not for any server",
    }
    assert secrets_of_servers(environment) == []
    write(
        own,
        {
            "a": {**COMMAND, "environment": ["PLAIN", "LEVEL", "HOME", "UNSET"]},
            "b": {"url": "https://x/", "headers": {"Authorization": "AUTH"}},
            "broken": 5,
        },
    )

    assert secrets_of_servers(environment) == ["hunter2hunter2", "Bearer abcdefgh", "abcdefgh"]
    servers_file(own).write_text("{")
    assert secrets_of_servers(environment) == []


def test_tools_come_from_the_file_alone(own: dict[str, str]) -> None:
    """The command does not exist: nothing is started for it."""
    tool = {**TOOL, "description": "Read.", "input_schema": {"type": "object", "required": ["a"]}}
    write(own, {"a": {**COMMAND, "tools": {"r": {**tool, "read_only": True}, "w": tool}}, "b": COMMAND})

    tools, close = load_mcp_tools(own)
    close()

    assert [(t.name, t.schema.risk, t.schema.description) for t in tools] == [
        ("a.r", "read_only", "Read."),
        ("a.w", "destructive", "Read."),
    ]
    assert all(t.schema.marks == ("untrusted",) for t in tools)
    assert tools[0].validate is not None
    assert tools[0].validate({}) == "parameter 'a' is required"


def test_two_processes_at_once_lose_no_server(own: dict[str, str]) -> None:
    code = (
        "import os, sys\n"
        "from placet.app.mcp_servers import changing\n"
        "from placet.tools.mcp.server import McpServer\n"
        "for number in range(20):\n"
        "    with changing(os.environ) as servers:\n"
        "        servers[f'{sys.argv[1]}{number}'] = McpServer(url='http://localhost/mcp')\n"
    )
    environment = {**os.environ, **own}

    writers = [subprocess.Popen([sys.executable, "-c", code, name], env=environment) for name in ("a", "b")]
    codes = [writer.wait(60) for writer in writers]

    assert codes == [0, 0]
    assert len(load_servers(own)) == 40


def test_looking_for_tools_loads_nothing_slow(own: dict[str, str]) -> None:
    write(own, {"a": {**COMMAND, "tools": {"t": TOOL}}})
    code = (
        "import os, sys\n"
        "from placet.app.mcp_servers import load_mcp_tools\n"
        "assert len(load_mcp_tools(os.environ)[0]) == 1\n"
        "print([name for name in ('mcp', 'mcp_types', 'pydantic', 'anyio', 'httpx2') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "[]\n", done.stderr
