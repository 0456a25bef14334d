"""The reference names everything there is: what is missing from it, or no longer true, fails here."""

from __future__ import annotations

import asyncio
import inspect
import re
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest

import placet
from placet import errors
from placet.app import command_tools, mcp_servers
from placet.app.model_settings import _PRICE, _PROFILE, _PROVIDER
from placet.app.settings import _HTTP, _ISOLATION, _KEYS, _NOTIFY, _OTEL
from placet.checks.contract import Check, Contract
from placet.cli.main import cli
from placet.coder import events as coding
from placet.coder.session import OPEN, State
from placet.events.event import KINDS
from placet.events.span import CLOSES
from placet.inference import Intent, Request, Result, Scripted, ToolCall, Usage
from placet.inference.choice import DEFAULTS
from placet.inference.http import BETWEEN_S, CONNECT_S, MOST_BYTES, MOST_WHOLE, TOTAL_S
from placet.inference.local.weights import CATALOGUE, megabytes
from placet.inference.model import Ability, Prefer, Stop, Task, Thinking
from placet.inference.prices import AS_OF, FACTS, LONG_CONTEXT, ModelFacts
from placet.inference.providers import PROVIDERS, Format, ToolMode
from placet.inference.roles import ROLES
from placet.inference.scripted import _Turn
from placet.inference.tool_modes.grammar import LONGEST_TEXT, MOST_ITEMS
from placet.inference.tools import NOT_OFFERED, inference_tools
from placet.inference.wire.anthropic import API_VERSION
from placet.inference.wire.anthropic import MAX_TOKENS as ANTHROPIC_MAX_TOKENS
from placet.inference.wrappers.digests import SETTINGS as RECORDED_SETTINGS
from placet.inference.wrappers.retry import (
    ATTEMPTS,
    FIRST_WAIT_S,
    LONGEST_RETRY_AFTER_S,
    LONGEST_WAIT_S,
)
from placet.ir.action import (
    OPERATORS,
    Action,
    ActionCompensation,
    ActionType,
    Assumption,
    FailureBehavior,
    InvocationMode,
    Precondition,
    ToolCompensation,
)
from placet.ir.codec import encode
from placet.ir.proposal import Proposal
from placet.ir.result import (
    ActionResult,
    CompensationResult,
    CostSummary,
    Outcome,
    ProposalResult,
    Status,
    Waiting,
)
from placet.ir.tool_spec import RateLimit, Reversibility, Risk, ToolSchema
from placet.policy.case import Rule
from placet.policy.permission import ANSWERS, POSTURES, TIERS
from placet.policy.rule import DeclaredRule
from placet.sandbox.bubblewrap import PARTS
from placet.sandbox.isolation import LEVELS, By, Enforced, How
from placet.sandbox.limits import MOST
from placet.sandbox.other_user import UID
from placet.sandbox.places import TOOLCHAINS
from placet.sandbox.seccomp import GROUPS, UNSHARED
from placet.verify.report import Issue, Report, Severity, Tier
from tests.docs.pages import REFERENCE, blocks_of, codes_in, rows_of, section
from tests.worktree.repositories import make_repository

PROPOSAL = REFERENCE / "proposal.md"
CLI = REFERENCE / "cli.md"
EVENTS = REFERENCE / "events.md"
ERRORS = REFERENCE / "errors.md"
RULES = REFERENCE / "policy-rules.md"
SETTINGS = REFERENCE / "settings.md"
VERIFY = REFERENCE / "verify.md"
TOOLS = REFERENCE / "tools.md"
ISOLATION = REFERENCE / "isolation.md"
MODELS = REFERENCE / "models.md"
CONTRACT = REFERENCE / "contract.md"
CODING = REFERENCE.parent / "explanation" / "coding.md"


def table(text: str) -> dict[str, list[str]]:
    """The rows of a section by every name in their first cell; `a`, `b` in one cell are two names."""
    found: dict[str, list[str]] = {}
    for row in rows_of(text):
        for name in codes_in(row[0]):
            found.setdefault(name, row[1:])
    return found


# The wire format

STRUCTS = {
    "Proposal": [Proposal],
    "Action": [Action],
    "Precondition": [Precondition],
    "Assumption": [Assumption],
    "Compensation": [ToolCompensation, ActionCompensation],
    "ProposalResult": [ProposalResult],
    "ActionResult": [ActionResult],
    "CostSummary": [CostSummary],
    "CompensationResult": [CompensationResult],
    "Waiting": [Waiting],
    "ToolSchema": [ToolSchema],
    "RateLimit": [RateLimit],
}
IN_WORDS = {("Proposal", "id"), ("Proposal", "timestamp"), ("Action", "id"), ("ProposalResult", "cost")}
"""Defaults that are made, not written: the page tells them in words."""


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.UNSET:
        return "absent"
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{encode(default).decode()}`"


@pytest.mark.parametrize("heading", STRUCTS)
def test_every_field_has_its_row_with_its_default(heading: str) -> None:
    documented = table(section(PROPOSAL, heading))

    for struct in STRUCTS[heading]:
        for field in msgspec.structs.fields(struct):
            assert field.encode_name in documented, f"{heading}.{field.name} is not in the reference"
            if (heading, field.name) not in IN_WORDS:
                assert documented[field.encode_name][1] == default_of(field), (
                    f"default of {heading}.{field.name}"
                )


@pytest.mark.parametrize("heading", STRUCTS)
def test_no_row_is_about_a_field_that_is_not_there(heading: str) -> None:
    rows = [row for row in rows_of(section(PROPOSAL, heading)) if len(row) == 4 and row[3]]
    fields = {f.encode_name for struct in STRUCTS[heading] for f in msgspec.structs.fields(struct)}
    kinds = set(get_args(ActionType))

    assert {name for row in rows for name in codes_in(row[0])} - kinds == fields


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Action", [*get_args(ActionType), *get_args(FailureBehavior), *get_args(InvocationMode)]),
        ("Precondition", OPERATORS),
        ("ProposalResult", get_args(Outcome)),
        ("ActionResult", get_args(Status)),
        ("ToolSchema", [*get_args(Risk), *get_args(Reversibility)]),
    ],
)
def test_every_word_of_a_closed_set_is_explained(heading: str, names: list[str]) -> None:
    assert set(names) <= codes_in(section(PROPOSAL, heading))


# The command line


def options_of(command: click.Command) -> list[str]:
    context = click.Context(command, info_name="placet", **command.context_settings)
    return [
        name
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]


def commands_of(name: str, command: click.Command) -> dict[str, click.Command]:
    """A command, and those of which it is the group: `placet log`, `placet log show`, ..."""
    found = {name: command}
    if isinstance(command, click.Group):
        for own, below in command.commands.items():
            found |= commands_of(f"{name} {own}", below)
    return found


def own_text(heading: str) -> str:
    """What stands under a heading, without the sections below it."""
    return section(CLI, heading).split("\n### ")[0]


COMMANDS = commands_of("placet", cli)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_section(name: str) -> None:
    documented = {
        word for row in rows_of(own_text(name)) for code in codes_in(row[0]) for word in code.split()[:1]
    }
    # The group's own help names are handed down to every command.
    existing = set(options_of(COMMANDS[name])) - {"--help"} | {"-h", "--help"}

    assert documented == existing


def test_every_exit_code_is_explained() -> None:
    explained = {row[0] for row in rows_of(section(CLI, "Exit codes"))}
    told = set(
        re.findall(
            r"(?:^|[ ,])(\d+) (?:done|it|bad|the|waiting|after)", inspect.getdoc(cli) or cli.help or ""
        )
    )

    assert explained == {"0", "1", "2", "3", "4", "130"}
    assert told == explained


def test_the_page_begins_with_every_command() -> None:
    listed = next(block.text for block in blocks_of(CLI.read_text(encoding="utf-8")))

    assert {line.split()[1] for line in listed.splitlines()} == set(cli.commands)


# Events


def documented_kinds() -> dict[str, list[str]]:
    return table(section(EVENTS, "Kinds"))


def test_every_kind_of_event_has_its_row() -> None:
    assert set(documented_kinds()) == set(KINDS)


def test_the_reference_says_which_kinds_close_a_span() -> None:
    closing = {kind: row[2] for kind, row in documented_kinds().items() if row[2]}

    assert closing.pop("proposal_ended") == "the proposal's: `ok` if it succeeded, else `error`"
    assert closing == {kind: f"`{status}`" for kind, status in CLOSES.items()}


def test_every_event_of_a_watched_session_has_its_row() -> None:
    rows = rows_of(section(EVENTS, "Watching a coding session"))
    documented = {row[0].strip("`"): (row[1].strip("`"), codes_in(row[3])) for row in rows}

    assert set(documented) == {str(each.__struct_config__.tag) for each in get_args(coding.Event)}
    for each in get_args(coding.Event):
        name, fields = documented[str(each.__struct_config__.tag)]
        assert name == each.__name__
        assert set(each.__struct_fields__) <= fields, name


# Errors


def tree_of(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(below for child in kind.__subclasses__() for below in tree_of(child))]


def all_errors() -> list[type[errors.PlacetError]]:
    return [e for e in tree_of(errors.PlacetError) if e.__module__ == errors.__name__]  # type: ignore[misc]


def test_every_error_has_its_code_in_the_table() -> None:
    documented = table(ERRORS.read_text(encoding="utf-8"))

    assert {e.__name__: f"`{e.code}`" for e in all_errors()} == {
        name: row[0] for name, row in documented.items()
    }


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in ERRORS.read_text(encoding="utf-8").splitlines():
        found = re.match(r"^((?:[│├└─ ]{4})*)([A-Z]\w+)(?:  |$)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4
        above[depth:] = [found[2]]
        if depth:
            drawn[found[2]] = above[depth - 1]

    assert drawn == {e.__name__: e.__base__.__name__ for e in all_errors()[1:] if e.__base__ is not None}


def test_the_fields_of_an_error_are_named() -> None:
    documented = table(ERRORS.read_text(encoding="utf-8"))
    examples = [
        errors.DecodeError("bad"),
        errors.NotJson("bad", place="x"),
        errors.PolicyFileError("f.toml", "bad"),
        errors.UnknownTool("t", known=[]),
        errors.UnknownSession("s"),
        errors.StorageFull("f.db", "is full", "Free some space."),
        errors.ApprovalDecided("a", "is decided"),
        errors.TrustError("folder", "is not trusted", "Look at it."),
        errors.ModelError("bad"),
        errors.ToolError("bad"),
    ]

    for example in examples:
        assert set(vars(example)) == codes_in(documented[type(example).__name__][1]), type(example).__name__


# Policy rules

KINDS_OF_RULE: dict[str, Any] = {str(r.__struct_config__.tag): r for r in get_args(DeclaredRule)}


@pytest.mark.parametrize("kind", KINDS_OF_RULE)
def test_every_kind_of_rule_is_explained_with_its_keys(kind: str) -> None:
    text = section(RULES, kind)
    rule = KINDS_OF_RULE[kind]
    common = {f.name for f in msgspec.structs.fields(Rule)}
    own = {f.name: f for f in msgspec.structs.fields(rule) if f.name not in common}

    documented = table(text)

    assert f"Python: `{rule.__name__}`" in text
    assert f'kind = "{kind}"' in text
    assert set(documented) == set(own)
    for name, field in own.items():
        assert (documented[name][1] == "required") == field.required, f"{kind}.{name}"


def test_the_keys_that_every_rule_has_are_explained() -> None:
    text = RULES.read_text(encoding="utf-8")

    assert set(table(text[: text.index("## deny_tool")])) == {
        "name",
        "kind",
        *(field.name for field in msgspec.structs.fields(Rule)),
    }


# Settings


def test_every_tier_and_posture_is_explained_as_it_is() -> None:
    text = SETTINGS.read_text(encoding="utf-8")
    postures = {row[0].split("`")[1]: row[1:] for row in rows_of(section(SETTINGS, "Postures"))}

    assert set(table(section(SETTINGS, "Tiers"))) == set(TIERS)
    assert postures == {
        name: [f"`{posture.to(tier)}`" for tier in TIERS] for name, posture in POSTURES.items()
    }
    assert set(ANSWERS) <= codes_in(text)


def test_every_key_of_the_settings_is_explained() -> None:
    documented = set(table(section(SETTINGS, "settings.toml")))
    permissions = {"permissions.agents.NAME", *(f"permissions.{key}" for key in _KEYS)}

    others = {*(f"http.{key}" for key in _HTTP), *(f"isolation.{key}" for key in _ISOLATION)}
    others |= {*(f"notify.{key}" for key in _NOTIFY), *(f"otel.{key}" for key in _OTEL)}
    assert documented == {"tools", "memory", "auto_distill", *permissions, *others}


def test_every_key_of_the_file_of_mcp_servers_is_explained() -> None:
    documented = [codes_in(row[0]) for row in rows_of(section(SETTINGS, "mcp.json"))]
    servers = {f"servers.NAME.{key}" for key in mcp_servers._SERVER_KEYS} - {"servers.NAME.tools"}
    tools = {f"servers.NAME.tools.TOOL.{key}" for key in mcp_servers._TOOL_KEYS}

    assert set().union(*documented) == {"format", *servers, *tools}


# Tools


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args: object) -> None:
        """Nobody wants to read it."""


@pytest.fixture
def page_url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@cache
def built_in() -> dict[str, ToolSchema]:
    with tempfile.TemporaryDirectory() as folder:
        # One tool is there in a repository alone.
        work = make_repository(Path(folder, "work"))
        return {tool.name: tool.schema for tool in placet.basic_tools(work)}


def documented_tools() -> dict[str, list[str]]:
    rows = [row for row in rows_of(section(TOOLS, "Built-in tools")) if len(row) == 4]
    return {name: row[1:] for row in rows for name in codes_in(row[0])}


def keys_of(answer: Any) -> set[str]:
    """Every key that an answer holds, however deep."""
    if isinstance(answer, list):
        return {key for item in answer for key in keys_of(item)}
    if not isinstance(answer, dict):
        return set()
    return {*answer, *(key for item in answer.values() for key in keys_of(item))}


CALLS: dict[str, dict[str, Any]] = {
    "write_file": {"path": "b.txt", "text": "one\n"},
    "read_file": {"path": "a.txt"},
    "edit_file": {"path": "a.txt", "old": "three", "new": "four"},
    "list_dir": {},
    "find_files": {"pattern": "*.txt"},
    "grep": {"pattern": "two", "context_lines": 1},
    "shell": {"command": "sleep 5", "timeout_s": 0.1},
    "git_commit": {"paths": ["a.txt"], "message": "Count"},
    "http_get": {"url": "PAGE"},
    "calculate": {"expression": "1 + 1"},
    "now": {},
    "sleep": {"seconds": 0},
}


def test_every_built_in_tool_has_its_row() -> None:
    assert list(documented_tools()) == list(built_in())


@pytest.mark.parametrize("name", CALLS)
def test_a_built_in_tool_is_explained_as_it_is(name: str, tmp_path: Path, page_url: str) -> None:
    """Its parameters, its risk, and every key of an answer; `key`? stands for one that may be missing."""
    parameters, risk, answers = documented_tools()[name]
    schema = built_in()[name]
    work = make_repository(tmp_path / "work")
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    (work / "folder").mkdir()
    rt = placet.Runtime(builtin=placet.basic_tools(work, hosts=placet.HostFilter(private=True)))
    given = {key: page_url if value == "PAGE" else value for key, value in CALLS[name].items()}

    result = asyncio.run(rt.execute({"actions": [{"id": "a", "tool": name, "parameters": given}]}))

    assert result["a"].error is None
    assert codes_in(parameters) == set(schema.parameters["properties"])  # type: ignore[arg-type]
    assert risk.startswith(f"`{schema.risk}`")
    assert ("confined" in risk) == ("confined" in schema.labels and schema.risk != "read_only")
    assert ("`untrusted`" in risk) == ("untrusted" in schema.marks)
    always = set(re.findall(r"`(\w+)`(?!\?)", answers))
    assert always <= keys_of(result["a"].output) <= codes_in(answers)


def test_the_largest_limits_of_a_command_are_told() -> None:
    told = section(TOOLS, "Commands")

    assert f"{MOST['time_s']:,} s" in told
    assert f"{MOST['output_bytes'] // 1024**3} GiB of output" in told
    assert f"{MOST['memory_bytes'] // 1024**5} PiB of memory" in told
    assert f"{MOST['processes']:,} processes" in told


def test_every_key_of_a_tool_that_is_a_program_is_explained() -> None:
    assert set(table(section(TOOLS, "Commands as tools"))) == set(command_tools._KEYS)


# Contracts and loops


def parameters_of(call: Any) -> set[str]:
    return {name for name in inspect.signature(call).parameters if name != "self"}


def test_every_key_of_a_contract_and_every_state_is_explained() -> None:
    documented = set(table(CONTRACT.read_text(encoding="utf-8").split("## How a check runs")[0]))
    states = table(section(CODING, "States"))

    assert documented == {*Contract.__struct_fields__, *Check.__struct_fields__}
    assert set(states) == set(get_args(State))
    assert {"contract_proposed", "needs_approval"} < set(OPEN)


@pytest.mark.parametrize(
    ("heading", "struct"),
    [
        ("Keys", "LoopSpec"),
        ("Maker and checker", "Worker"),
        ("Budget", "LoopBudget"),
        ("Executor", "ExecutorSpec"),
        ("Delivery", "Delivery"),
        ("Hooks", "Hooks"),
    ],
)
def test_every_key_of_a_loop_is_explained(heading: str, struct: str) -> None:
    from placet.loops import spec

    found = set(table(section(REFERENCE / "loops.md", heading)))

    assert found == set(getattr(spec, struct).__struct_fields__)


# Isolation


def test_every_part_of_the_sandbox_is_explained() -> None:
    assert set(table(section(ISOLATION, "Levels"))) == set(LEVELS)
    protections = set(table(section(ISOLATION, "Protections"))) - set(get_args(How))
    assert protections == set(Enforced.__struct_fields__)
    assert set(table(section(ISOLATION, "Means"))) == set(get_args(By))
    assert set(table(section(ISOLATION, "Parts of the sandbox").split("\n### ")[0])) == set(PARTS)
    assert set(table(section(ISOLATION, "System calls"))) == {*GROUPS, *UNSHARED}
    assert set(table(section(ISOLATION, "Limits"))) == set(placet.Limits.__struct_fields__)


def test_every_parameter_of_isolation_is_explained() -> None:
    documented = table(section(ISOLATION, "Isolation in a program"))

    assert parameters_of(placet.Isolation) <= set(documented)


def test_places_and_numbers_that_are_told_are_those_of_the_code() -> None:
    told = codes_in(section(ISOLATION, "What is shown")) - {".git", ".placet"}

    assert f"user and group {UID}" in section(ISOLATION, "Root")
    assert {name for name in told if name.startswith(".")} <= set(TOOLCHAINS)


# Models


def test_every_provider_has_its_row_as_it_is() -> None:
    rows = {
        row[0].strip("`"): [codes_in(cell) for cell in row[1:]]
        for row in rows_of(section(MODELS, "Providers"))
    }

    assert rows == {
        each.name: [
            {each.format},
            {each.url},
            set(each.keys),
            {each.url_variable} - {""},
            {each.tool_mode},
        ]
        for each in PROVIDERS.values()
    }
    assert {
        row[0].strip("`"): row[1].strip("`") for row in rows_of(section(MODELS, "Who answers"))
    } == DEFAULTS


@pytest.mark.parametrize(("heading", "struct"), [("Request", Request), ("Result", Result)])
def test_every_field_of_a_question_and_an_answer_has_its_row(heading: str, struct: Any) -> None:
    documented = table(section(MODELS, heading))

    assert set(documented) == {field.name for field in msgspec.structs.fields(struct)}
    for field in msgspec.structs.fields(struct):
        told = default_of(field)
        assert documented[field.name][0] == told, f"default of {heading}.{field.name}"


def test_what_an_answer_is_made_of_is_named() -> None:
    documented = table(section(MODELS, "Result"))
    carried = {"carried"}

    assert {f.name for f in msgspec.structs.fields(ToolCall)} - carried <= codes_in(documented["calls"][1])
    assert {f.name for f in msgspec.structs.fields(Usage)} <= codes_in(documented["usage"][1])


def test_every_word_of_a_request_is_explained() -> None:
    intent = table(section(MODELS, "Roles").split("`Intent`:")[1])
    request = section(MODELS, "Request")

    assert set(intent) == set(Intent.__struct_fields__)
    assert set(get_args(Task)) <= codes_in(intent["task"][0])
    assert set(get_args(Prefer)) <= codes_in(intent["prefer"][0])
    assert set(get_args(Ability)) <= codes_in(intent["requires"][0])
    assert f"{LONG_CONTEXT:,} tokens" in intent["requires"][1]
    assert {f'"{level}"' for level in get_args(Thinking)} <= codes_in(request)
    assert f"{ANTHROPIC_MAX_TOKENS:,}" in request
    assert set(table(section(MODELS, "Stop reasons"))) == set(get_args(Stop))
    assert set(RECORDED_SETTINGS) <= codes_in(section(MODELS, "Files"))
    assert set(_Turn.__struct_fields__) == set(table(section(MODELS, "Files")))


def test_every_role_tool_mode_and_format_is_explained() -> None:
    modes = table(section(MODELS, "Tool modes"))
    text = section(MODELS, "Tool modes")
    formats = section(MODELS, "Wire formats")

    assert set(table(section(MODELS, "Roles").split("`Intent`:")[0])) == set(ROLES)
    assert set(modes) == set(get_args(ToolMode))
    assert f"{LONGEST_TEXT:,} characters" in text
    assert f"lists {MOST_ITEMS} items" in text
    assert set(get_args(Format)) <= codes_in(formats)
    assert f"`{API_VERSION}`" in formats


def test_times_are_told_as_they_are() -> None:
    rows = {row[0]: row[1] for row in rows_of(section(MODELS, "Time and retries"))}

    assert rows["attempts, the first included"] == str(ATTEMPTS)
    assert rows["wait before the second attempt"].startswith(f"random, up to {FIRST_WAIT_S:g} s;")
    assert rows["wait before the second attempt"].endswith(f"up to {LONGEST_WAIT_S:g} s")
    assert f"up to {LONGEST_RETRY_AFTER_S:g} s;" in rows["`retry-after` of the server"]
    assert rows["connecting"] == f"{CONNECT_S:g} s"
    assert rows["between two pieces of a stream"] == f"{BETWEEN_S:g} s"
    assert rows["until an answer begins, and all of it, attempts and waits included"] == f"{TOTAL_S:g} s"
    assert rows["an answer, unpacked"] == (
        f"{MOST_WHOLE // 1024**2} MiB in one piece, {MOST_BYTES // 1024**2} MiB as a stream"
    )


def price_row(facts: ModelFacts) -> list[str]:
    def shown(*dollars: float | None) -> list[str]:
        return ["" if each is None else f"{each:g}" for each in dollars]

    price, beyond = facts.price, ""
    if price.beyond is not None:
        other = price.beyond.price
        known = filter(None, shown(other.input, other.output, other.cached, other.cache_written))
        beyond = f"{price.beyond.tokens:,}: {', '.join(known)}"
    return [
        *shown(price.input, price.output, price.cached, price.cache_written),
        beyond,
        f"{facts.context:,}",
    ]


def test_prices_are_those_of_the_table_with_their_date() -> None:
    text = section(MODELS, "Prices")

    assert table(text) == {name: price_row(facts) for name, facts in FACTS.items()}
    assert str(AS_OF) in text


def test_models_of_this_machine_are_told_as_they_are() -> None:
    rows = {row[0]: row[1:] for row in rows_of(section(MODELS, "Models on this machine"))}

    for at, weights in enumerate(CATALOGUE.values()):
        assert rows["is"][at] == weights.title
        assert rows["licence"][at] == weights.licence
        assert f"'.[{weights.extra}]'" in rows["needs"][at]
        assert megabytes(weights.memory) in rows["needs"][at]
        assert (
            rows["download, on the disk"][at] == f"{megabytes(weights.download)}, {megabytes(weights.size)}"
        )


class Vectors(Scripted):
    """Answers as it is told to, and makes vectors."""

    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "infer": ('{"a": 1}', {"prompt": "?", "schema": {"type": "object"}}),
    "classify": ('{"label": "b"}', {"text": "x", "labels": ["a", "b"]}),
    "embed": ("", {"texts": ["x"]}),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_tool_that_asks_a_model_is_explained_as_it_is(name: str) -> None:
    answer, given = ASKED[name]
    rows = [row for row in rows_of(section(TOOLS, "Asking a model")) if len(row) == 4]
    parameters, risk, answers = {row[0].strip("`"): row[1:] for row in rows}[name]
    model = Vectors([answer])
    made = {each.name: each.schema for each in inference_tools(model)}

    result = placet.Runtime(model=model).execute_sync(
        {"actions": [{"id": "a", "tool": name, "parameters": given}]}
    )

    assert [row[0].strip("`") for row in rows] == list(made)
    assert codes_in(parameters) == set(made[name].parameters["properties"])  # type: ignore[arg-type]
    assert risk == f"`{made[name].risk}`"
    assert set(result["a"].output) == codes_in(answers) - {"schema"}


def test_what_is_not_offered_is_said() -> None:
    assert set(NOT_OFFERED) <= codes_in(section(TOOLS, "Asking a model"))


def test_every_key_of_the_models_in_the_settings_is_explained() -> None:
    documented = set(table(section(SETTINGS, "Models")))

    assert documented == {
        *(f"models.{role}" for role in ROLES),
        *(f"models.providers.NAME.{key}" for key in _PROVIDER),
        *(f"models.prices.NAME.{key}" for key in _PRICE),
        *(f"models.profiles.NAME.{key}" for key in _PROFILE),
        "models.linger_s",
    }


# Verify


def test_every_field_of_the_report_is_explained() -> None:
    text = section(VERIFY, "The report")

    assert {f.name for f in msgspec.structs.fields(Report)} <= set(table(text))
    assert {f.name for f in msgspec.structs.fields(Issue)} <= codes_in(text)
    assert {*get_args(Severity), *get_args(Tier)} <= set(table(text))


# The glossary


def test_the_glossary_is_sorted_and_explains_each_word_once() -> None:
    page: Path = REFERENCE / "glossary.md"
    words = [row[0].strip("*") for row in rows_of(page.read_text(encoding="utf-8"))]

    assert len(words) > 40
    assert words == sorted(set(words))
