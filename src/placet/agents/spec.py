"""An agent as data: who it is, which tools it may use, what it is for, and how one sees that it works.

Keep true:
1. Building a spec has no effect; `problems` says everything that is wrong with it.
2. Tools are named one by one and exactly: nothing in a list of tools stands for anything else.
3. A scenario that could not fail is no scenario.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import msgspec

from placet.errors import NotJson, UsageError
from placet.ir.json_value import JsonValue, copy_json
from placet.safe_text import clean
from placet.turns.limits import TurnLimits

TURNS = 12
ANSWER_TOKENS = 2048
ITERATIONS = 5
CHECK_S = 60.0
MOST_CHECK_S = 86_400.0
MOST_ITERATIONS = 100
MOST_SCENARIOS = 200
MOST_TOOLS = 200
MOST_CHARACTERS = 100_000
"""Of any one text."""
MOST_FILES = 100
_MOST_PART, _MOST_PATH = 200, 1_000
"""Bytes of one name in a path of a scenario's file, and of all of it: file systems take little more."""
_MOST_NAME = 100
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NUMBER = re.compile(r"#[0-9]+")
"""What a scenario without a name is called."""


class Expectations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Conditions on an answer; all that are given must hold."""

    expect: str | None = None
    """Text that the answer contains, in any case."""
    regex: str | None = None
    """Regular expression that is found in the answer."""
    json: Mapping[str, JsonValue] = {}
    """JSON paths into the answer, read as JSON, with the values expected there."""
    called: tuple[str, ...] = ()
    """Tools that must have run."""
    not_called: tuple[str, ...] = ()
    """Tools that must not have run."""
    check: str | None = None
    """Command for `/bin/sh` in the agent's folder that must exit with 0."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is expected."""
        return not (
            self.expect is not None
            or self.regex is not None
            or self.json
            or self.called
            or self.not_called
            or self.check is not None
        )


class Exchange(Expectations, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One message to an agent, with the conditions on its answer."""

    input: str
    """The message."""


class Scenario(Expectations, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A test case of an agent: one message, or several in a row."""

    name: str = ""
    """Name in reports."""
    input: str = ""
    """The message."""
    turns: tuple[Exchange, ...] = ()
    """Several messages, instead of `input`. The conditions of the scenario then hold for the last answer, and
    for the tools of all turns together."""
    files: Mapping[str, str] = {}
    """Files in the folder at the start: texts by path."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Every message with its own conditions, in order."""
        if self.turns:
            return self.turns
        return (Exchange(input=self.input),)


class Goal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A command that decides whether an agent has reached its goal."""

    check: str
    """Command for `/bin/sh` in the agent's folder; exit code 0 means that the goal is met."""
    max_iterations: int = ITERATIONS
    """How often the agent may try, up to 100."""
    timeout_s: float = CHECK_S
    """Time limit of the check in seconds."""


class AgentLimits(TurnLimits, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of an agent. `turns` and `answer_tokens` are for each message, all others for the whole run."""

    turns: int = TURNS
    """How often the model is asked, for each message and each iteration of a goal."""
    answer_tokens: int | None = ANSWER_TOKENS
    """Tokens of each answer."""


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent as data. Building one has no effect."""

    id: str
    """Names its file: 1 to 64 of a-z, 0-9, dash and underscore."""
    name: str = ""
    """Name for people. Empty: the id."""
    description: str = ""
    """What the agent is for, in one sentence; `placet ask` finds it by this."""
    identity: str
    """System prompt: who the agent is and how it works."""
    tools: tuple[str, ...] = ()
    """Exact names of the tools that it may use. Empty: none."""
    denied_tools: tuple[str, ...] = ()
    """Tools that it may not use, whatever `tools` says."""
    standing_goal: str = ""
    """Its aim in every run; added to the system prompt."""
    goal: Goal | None = None
    """A command that decides whether the agent is done."""
    model: str | None = None
    """Name of a model as after `--model`, such as `"local"` or `"openai:gpt-5"`. `None`: the default model.
   """
    limits: AgentLimits = AgentLimits()
    """Limits of each run."""
    memory: bool = False
    """Give the agent, with each message, what the runtime's memory holds about it."""
    enabled: bool = True
    """`False`: it is not run, and `placet ask` does not find it."""
    scenarios: tuple[Scenario, ...] = ()
    """Test cases."""

    @property
    def title(self) -> str:
        """Its name, or its id."""
        return self.name.strip() or self.id

    @property
    def allowed(self) -> tuple[str, ...]:
        """Tools that it may use, in order, each once."""
        denied = frozenset(self.denied_tools)
        return tuple(dict.fromkeys(name for name in self.tools if name not in denied))


class Problem(NamedTuple):
    """Something that is wrong with a spec."""

    key: str
    words: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.key}: {self.words}{'. ' + self.fix if self.fix else ''}"


def check_spec(spec: AgentSpec) -> None:
    """Make sure that a spec can be used.

    Raises:
        UsageError: it cannot; says why, of the first thing that is wrong.
    """
    for problem in problems(spec):
        raise UsageError(f"Agent '{clean(spec.id, 80)}' cannot be used: {problem}")


def is_id(text: str) -> bool:
    """Whether it can be the id of an agent."""
    return _ID.fullmatch(text) is not None


def problems(spec: AgentSpec) -> list[Problem]:
    """Everything that is wrong with a spec.

    >>> problems(AgentSpec(id="greeter", identity="You greet.", scenarios=(Scenario(input="hi"),)))[0].key
    'scenarios[0]'
    """
    return list(_problems(spec))


def _problems(spec: AgentSpec) -> Iterator[Problem]:
    for place in _halves(msgspec.structs.asdict(spec), ""):
        yield Problem(
            place,
            "it holds half of a surrogate pair, which no file can hold",
            "Write it in valid Unicode.",
        )
    if not is_id(spec.id):
        yield Problem(
            "id",
            f"'{clean(spec.id, 80)}' cannot be an id",
            "Write 1 to 64 of a-z, 0-9, - and _, the first a letter or a digit.",
        )
    for key, text in (("name", spec.name), ("description", spec.description)):
        if clean(text) != text:
            yield Problem(key, "it has more than one line, or characters that nobody sees", "Write one line.")
    if len(spec.name) > _MOST_NAME:
        yield Problem("name", f"it is longer than {_MOST_NAME} characters")
    if not spec.identity.strip():
        yield Problem("identity", "it is empty", "Say who the agent is, and how it answers.")
    for key in ("description", "identity", "standing_goal"):
        if len(getattr(spec, key)) > MOST_CHARACTERS:
            yield Problem(key, f"it is longer than {MOST_CHARACTERS:,} characters")
    yield from _tool_problems("tools", spec.tools)
    yield from _tool_problems("denied_tools", spec.denied_tools)
    if spec.goal is not None:
        yield from _goal_problems(spec.goal)
    if spec.model is not None and (not spec.model.strip() or clean(spec.model) != spec.model):
        yield Problem("model", "it is empty, or has hidden characters", "Write what --model takes.")
    if len(spec.scenarios) > MOST_SCENARIOS:
        yield Problem("scenarios", f"there are {len(spec.scenarios)}; {MOST_SCENARIOS} is the most")
    names: set[str] = set()
    for number, scenario in enumerate(spec.scenarios[:MOST_SCENARIOS]):
        place = f"scenarios[{number}]"
        yield from _scenario_problems(scenario, place)
        if scenario.name and scenario.name in names:
            yield Problem(f"{place}.name", f"'{clean(scenario.name, 80)}' is the name of another scenario")
        names.add(scenario.name)


def _halves(value: object, place: str) -> Iterator[str]:
    """Where texts stand that cannot be written as UTF-8."""
    match value:
        case str():
            if any("\ud800" <= each <= "\udfff" for each in value):
                yield place
        case msgspec.Struct():
            yield from _halves(msgspec.structs.asdict(value), place)
        case dict():
            for key, each in value.items():
                name = f"{place}.{clean(str(key), 80)}".lstrip(".")
                yield from _halves(key, name)
                yield from _halves(each, name)
        case list() | tuple():
            for number, each in enumerate(value):
                yield from _halves(each, f"{place}[{number}]")


def _tool_problems(key: str, names: Sequence[str]) -> Iterator[Problem]:
    if len(names) > MOST_TOOLS:
        yield Problem(key, f"there are {len(names)}; {MOST_TOOLS} is the most")
    seen: set[str] = set()
    for number, name in enumerate(names[:MOST_TOOLS]):
        place = f"{key}[{number}]"
        if not name.strip() or name != name.strip() or clean(name) != name:
            yield Problem(place, "it is empty, or has spaces or hidden characters around a name")
        elif "*" in name or "?" in name:
            yield Problem(
                place, f"'{clean(name, 80)}' is a pattern", "Name each tool exactly. List them: placet tools"
            )
        elif name in seen:
            yield Problem(place, f"'{clean(name, 80)}' stands there twice")
        seen.add(name)


def _goal_problems(goal: Goal) -> Iterator[Problem]:
    yield from _command_problems("goal.check", goal.check)
    if not 1 <= goal.max_iterations <= MOST_ITERATIONS:
        yield Problem(
            "goal.max_iterations", f"{goal.max_iterations} is no number from 1 to {MOST_ITERATIONS}"
        )
    if not isfinite(goal.timeout_s) or not 0 < goal.timeout_s <= MOST_CHECK_S:
        words = f"{goal.timeout_s:g} is no number of seconds above 0 and up to {MOST_CHECK_S:,.0f}"
        yield Problem("goal.timeout_s", words)


def _command_problems(key: str, command: str) -> Iterator[Problem]:
    if not command.strip():
        yield Problem(key, "it is empty", 'Write a command such as "test -s report.txt".')
    elif clean(command, lines=True, tabs=True) != command:
        # Whoever looks at an agent must see what will run.
        yield Problem(key, "it holds control characters, or characters that nobody sees")
    elif len(command) > MOST_CHARACTERS:
        yield Problem(key, f"it is longer than {MOST_CHARACTERS:,} characters")


def _scenario_problems(scenario: Scenario, place: str) -> Iterator[Problem]:
    if clean(scenario.name, _MOST_NAME) != scenario.name:
        yield Problem(f"{place}.name", "it is too long, or has hidden characters")
    elif _NUMBER.fullmatch(scenario.name):
        words = f"'{scenario.name}' is what a scenario without a name is called"
        yield Problem(f"{place}.name", words, "Write another name, or none.")
    if scenario.turns and scenario.input:
        yield Problem(f"{place}.input", "there are turns as well", "Write one of them.")
    elif not scenario.turns and not scenario.input.strip():
        yield Problem(f"{place}.input", "it is empty", "Write what is said to the agent.")
    for number, turn in enumerate(scenario.turns):
        if not turn.input.strip():
            yield Problem(f"{place}.turns[{number}].input", "it is empty")
        yield from _expectation_problems(turn, f"{place}.turns[{number}]")
    if scenario.is_empty and all(turn.is_empty for turn in scenario.turns):
        yield Problem(
            place,
            "nothing is expected, so it could not fail",
            'Write at least:  expect = "a word of the right answer"',
        )
    yield from _expectation_problems(scenario, place)
    if len(scenario.files) > MOST_FILES:
        yield Problem(f"{place}.files", f"there are {len(scenario.files)}; {MOST_FILES} is the most")
    for path in scenario.files:
        parts = path.split("/")
        if not path or path.startswith(("/", "~")) or {"", ".", ".."} & set(parts) or clean(path) != path:
            words = f"'{clean(path, 80)}' is no path of a file in the folder of the scenario"
            yield Problem(f"{place}.files", words, "Write one such as notes/a.txt.")
            continue
        if len(path.encode()) > _MOST_PATH or any(len(part.encode()) > _MOST_PART for part in parts):
            words = f"the path '{clean(path, 80)}' is too long for a file"
            yield Problem(f"{place}.files", words, "Write one such as notes/a.txt.")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        for folder in above:
            if folder in scenario.files:
                words = f"'{clean(folder, 80)}' is a file, and a folder in '{clean(path, 80)}'"
                yield Problem(f"{place}.files", words, "Name one of them otherwise.")


def _expectation_problems(expected: Expectations, place: str) -> Iterator[Problem]:
    from placet.agents.json_path import JsonPath

    if expected.expect is not None and not expected.expect.strip():
        yield Problem(f"{place}.expect", "it is empty, so every answer would contain it")
    if expected.regex is not None:
        try:
            if re.compile(expected.regex).search("") is not None:
                yield Problem(f"{place}.regex", "it matches an empty answer, so it matches every one")
        except (re.error, RecursionError, OverflowError) as error:
            yield Problem(f"{place}.regex", f"it is no regular expression: {clean(str(error), 200)}")
    for path, value in expected.json.items():
        try:
            JsonPath(path)
        except UsageError as error:
            yield Problem(f"{place}.json", str(error))
        try:
            copy_json(value)
        except NotJson as error:
            yield Problem(f"{place}.json", f"what is expected at '{clean(path, 80)}' is not JSON: {error}")
    yield from _tool_problems(f"{place}.called", expected.called)
    yield from _tool_problems(f"{place}.not_called", expected.not_called)
    for name in expected.called:
        if name in expected.not_called:
            yield Problem(f"{place}.not_called", f"'{clean(name, 80)}' is expected to be called as well")
    if expected.check is not None:
        yield from _command_problems(f"{place}.check", expected.check)
