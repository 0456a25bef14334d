"""Cases beside rules: calls, and what is to be answered to them.

    [[case]]
    name = "rm is denied"
    tool = "shell"
    parameters = { command = "rm -rf build" }
    expect = "deny"                       # or "ask", or "allow"
    by = "no-rm"                          # the rule that must say so; "permission" is the posture

A case may also say what is known of its tool, where no tools file does (`risk`, `labels`, `reversibility`,
`marks`), the `state`, the `agent`, and the calls that ran before it, in order:

    after = [{ tool = "read_secret", risk = "read_only", marks = ["secret"] }]
    parameters = { text = "$1.output" }   # what the first of them has put out

Keep true:
1. Cases are read as strictly as rules: a case that is not read as it was meant proves nothing.
2. A case is read from the bytes that its rules were read from, and means the rules of its own place first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import msgspec

from placet.app.governance import Question, gather
from placet.app.judgement import PERMISSION
from placet.app.tool_file import load_tools
from placet.errors import InputError, NotJson
from placet.ir.json_value import JsonValue, copy_json
from placet.ir.references import find_references
from placet.ir.tool_spec import Mark, Reversibility, Risk
from placet.policy.case import Rule
from placet.policy.loader import parse_policies, read_document, read_policies
from placet.policy.permission import Permissions
from placet.policy.toml_file import TomlFile
from placet.tools.tool import Tool

EXAMPLE = """Write one beside the rules, such as:

    [[case]]
    name = "rm is denied"
    tool = "shell"
    parameters = { command = "rm -rf build" }
    expect = "deny"
"""

Expected = Literal["deny", "ask", "allow", "open"]
Word = TypeVar("Word", bound=str)

_FACTS = ("risk", "labels", "reversibility", "marks")
_CALL_KEYS = ("tool", "parameters", *_FACTS)
_KEYS = ("name", "tool", "parameters", "expect", "by", *_FACTS, "state", "after", "agent")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool."""

    tool: str
    parameters: dict[str, JsonValue] = {}


class PolicyCase(msgspec.Struct, frozen=True, kw_only=True):
    """A call, and what is to be answered to it."""

    name: str
    file: str
    place: str
    """Its key in the file."""
    call: Call
    expect: Expected
    by: str | None = None
    """The name of the rule under which the runtime knows it."""
    after: Sequence[Call] = ()
    """What has run before, in order."""
    facts: Mapping[str, Mapping[str, Any]] = {}
    """What the case says of tools, by their names."""
    state: Mapping[str, JsonValue] = {}
    agent: str | None = None


class RuleBook(NamedTuple):
    """Rules with their cases, and what else decides, as far as it is known."""

    rules: Sequence[tuple[str, Rule]]
    cases: Sequence[PolicyCase]
    tools: Mapping[str, Tool]
    permissions: Permissions | None = None
    folder: str | None = None


def open_rule_book(
    path: str | None,
    start: Path,
    environment: Mapping[str, str],
    *,
    tools: str | None = None,
    confirm: Callable[[Question], bool] | None = None,
) -> RuleBook:
    """The rules and cases of a file or folder; without one, all that hold in the folder `start`, with its
    permissions and tools.

    Raises:
        InputError: a file cannot be used, there are no cases, or the folder is not trusted and wants to be.
    """
    if path is not None:
        files = read_policies(path)
        rules = parse_policies(files)
        cases = _cases(files, {name: name for name, _ in rules}, [name for name, _ in rules])
        if not cases:
            raise InputError(f"{path} holds no case. {EXAMPLE}")
        return RuleBook(rules, cases, _by_name(load_tools(tools) if tools is not None else ()))
    found = gather(start, environment, tools=tools, confirm=confirm)
    known = [name for name, _ in found.policies]
    if not known:
        raise InputError(
            f"No policies hold in {start}. Name a file or a folder, or put one into .placet/policies."
        )
    cases, position = [], 0
    for _, files in found.policy_files:
        # Two places may use one name, and the runtime knows each under another: they stand in the same order.
        own = [name for name, _ in parse_policies(files)]
        names = dict(zip(own, known[position : position + len(own)], strict=True))
        position += len(own)
        cases += _cases(files, names, known)
    if not cases:
        raise InputError(f"None of the policies that hold in {start} comes with a case. {EXAMPLE}")
    loaded = load_tools(found.tools, found.tools_source) if found.tools is not None else ()
    return RuleBook(found.policies, cases, _by_name(loaded), found.permissions, str(found.folder))


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def _cases(
    files: Sequence[tuple[Path, bytes]], names: Mapping[str, str], known: Sequence[str]
) -> list[PolicyCase]:
    """The cases of one place. `names` are its rules, each with the name under which it is known; `known` are
    the rules of all places."""
    found: list[PolicyCase] = []
    for path, data in files:
        file = TomlFile(str(path))
        taken: set[str] = set()
        for position, table in enumerate(read_document(path, data).get("case", ())):
            case = _Reader(file, f"case[{position}]").case(table, names, known)
            if case.name in taken:
                file.fail(
                    f"the name '{case.name}' is taken by another case in this file",
                    f"{case.place}.name",
                    "Give each case a name of its own.",
                )
            taken.add(case.name)
            found.append(case)
    return found


class _Reader:
    """Reads one case, strictly."""

    def __init__(self, file: TomlFile, place: str) -> None:
        self._file = file
        self._place = place
        self._facts: dict[str, dict[str, Any]] = {}

    def case(self, table: dict[str, Any], names: Mapping[str, str], known: Sequence[str]) -> PolicyCase:
        """The case.

        Raises:
            PolicyFileError: it says something that means nothing; names file, key and fix.
        """
        file, place = self._file, self._place
        file.check_keys(table, _KEYS, place, "a case")
        name = self._text(table, "name", 'Name it, such as name = "rm is denied".')
        expect = file.choice(
            self._given(table, "expect", "Say what should be answered: 'deny', 'ask' or 'allow'."),
            get_args(Expected),
            f"{place}.expect",
            "answer",
        )
        fix = 'Write a list of calls, such as after = [{ tool = "run_tests" }].'
        before = [
            self._call(each, f"{place}.after[{n}]", n, is_before=True)
            for n, each in enumerate(file.tables(table.get("after", []), f"{place}.after", fix))
        ]
        call = self._call(table, place, len(before))
        state = file.table(
            table.get("state", {}), f"{place}.state", 'Write a table, such as state = { tests = "green" }.'
        )
        agent = table.get("agent")
        if agent is not None:
            agent = file.text(agent, f"{place}.agent", "Write the agent's name.")
        return PolicyCase(
            name=name,
            file=file.name,
            place=place,
            call=call,
            expect=expect,
            by=self._by(table["by"], names, known) if "by" in table else None,
            after=before,
            facts=self._facts,
            state=self._json(state, f"{place}.state"),
            agent=agent,
        )

    def _call(self, table: dict[str, Any], place: str, earlier: int, *, is_before: bool = False) -> Call:
        """A call, after so many others."""
        file = self._file
        if is_before:
            file.check_keys(table, _CALL_KEYS, place, "a call in 'after'")
        fix = 'Name the tool that is called, such as tool = "shell".'
        tool = file.text(self._given(table, "tool", fix, place), f"{place}.tool", fix)
        key = f"{place}.parameters"
        given = file.table(
            table.get("parameters", {}), key, 'Write a table, such as parameters = { path = "a.txt" }.'
        )
        parameters = self._json(given, key)
        for reference in find_references(parameters):
            if reference.action_id not in {str(n) for n in range(1, earlier + 1)}:
                fix = "Write $1.output for the output of the first call in 'after', $$ for a plain $."
                file.fail(f"'${reference.action_id}.output' names no call before it", key, fix)
        self._note_facts(tool, table, place)
        return Call(tool=tool, parameters=parameters)

    def _note_facts(self, tool: str, table: dict[str, Any], place: str) -> None:
        """What the case says of a tool; said twice, it must be the same."""
        file = self._file
        facts = self._facts.setdefault(tool, {})
        for key in _FACTS:
            if key not in table:
                continue
            where, value = f"{place}.{key}", table[key]
            fact: Any
            if key == "risk":
                fact = file.choice(value, get_args(Risk), where, "risk")
            elif key == "reversibility":
                fact = file.choice(value, get_args(Reversibility), where, "reversibility")
            else:
                fact = file.texts(value, where, 'Write a list of texts, such as ["mail"].')
            if key == "marks":
                fact = [file.choice(mark, get_args(Mark), where, "mark") for mark in fact]
            if facts.setdefault(key, fact) != fact:
                file.fail(
                    f"the case says two things of tool '{tool}'",
                    where,
                    "Say it once; it holds for each call.",
                )

    def _by(self, value: object, names: Mapping[str, str], known: Sequence[str]) -> str:
        fix = "Name the rule that must say so, or leave it out."
        place = f"{self._place}.by"
        name = self._file.text(value, place, fix)
        if name in names:
            return names[name]
        if name == PERMISSION or name in known:
            return name
        self._file.no_choice(name, [*names, PERMISSION], place, "rule here")

    def _given(self, table: dict[str, Any], key: str, fix: str, place: str | None = None) -> object:
        if key in table:
            return table[key]
        self._file.fail(f"the key '{key}' is missing", f"{place or self._place}.{key}", fix)

    def _text(self, table: dict[str, Any], key: str, fix: str) -> str:
        return self._file.text(self._given(table, key, fix), f"{self._place}.{key}", fix)

    def _json(self, table: dict[str, Any], place: str) -> dict[str, JsonValue]:
        try:
            copied: dict[str, JsonValue] = copy_json(table, place)
            return copied
        except NotJson as error:
            # Dates and infinities of TOML, which no plan can hold.
            self._file.fail("a plan cannot hold this value", error.place, "Write a text or a finite number.")
