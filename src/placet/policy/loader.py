"""Policy files: rules written down in TOML, read strictly.

    [[rule]]
    name = "no-rm"
    kind = "deny_tool_param_matching"
    tool = "shell"
    param = "command"
    pattern = '\\brm\\b'
    reason = "files are not deleted here"

A file may also hold `[[case]]` tables, which say what the rules should answer to a plan. They are let through
here as they stand; whoever tries them reads them as strictly.

A rule that is not read as it was meant is worse than none, so nothing is guessed and nothing is passed over.

Keep true:
1. Every key is known, every value has its type, every pattern compiles, every name is unique, or none loads.
2. An error names the file and the key (the line, where the file is not even TOML), and says how to mend it.
3. A file is read once: what somebody has digested is what is parsed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, get_args

import msgspec

from placet.errors import NotJson
from placet.ir.json_value import copy_json
from placet.ir.tool_spec import Mark, Risk
from placet.policy.calls import Calls
from placet.policy.case import Rule
from placet.policy.rule import DeclaredRule
from placet.policy.sources import ValueSource
from placet.policy.toml_file import TomlFile, listing, problem_of

_KINDS: dict[str, type[Rule]] = {str(kind.__struct_config__.tag): kind for kind in get_args(DeclaredRule)}
_CHOICES = {"risk": list(get_args(Risk)), "mark": list(get_args(Mark)), "marks": list(get_args(Mark))}
"""What may stand under a key, in whichever rule."""
_TABLES: dict[str, tuple[type[Calls], str]] = {
    **dict.fromkeys(("only_after", "only_before", "never_with"), (Calls, "a table of calls")),
    "unless_from": (ValueSource, "a source"),
}
"""Tables inside a rule, in whichever rule."""
_PATTERNS = ("pattern", "matching")
"""Keys that hold a regular expression, in whichever rule."""
_EXAMPLE = 'Write at least:  [[rule]]  name = "no-shell"  kind = "deny_tool"  tool = "shell"'


def load_policies(path: Path | str) -> list[tuple[str, Rule]]:
    """The rules of a file, or of every `*.toml` in a folder (by name), in the order in which they stand.

    Raises:
        PolicyFileError: a file cannot be read, or says something that means nothing; names file and key.
    """
    return parse_policies(read_policies(path))


def read_policies(path: Path | str, *, may_be_empty: bool = False) -> list[tuple[Path, bytes]]:
    """A policy file, or every `*.toml` in a folder (by name), with what each holds.

    Raises:
        PolicyFileError: one cannot be read or would be passed over, or the folder holds none.
    """
    return [(file, _read(file)) for file in _files(Path(path), may_be_empty)]


def check_names(folder: Path, inside: Iterable[PurePath]) -> None:
    """Refuse files below a folder of policies that look like rules and would not be read.

    Raises:
        PolicyFileError: there is one; names it.
    """
    for path in inside:
        if not path.name.lower().endswith(".toml"):
            continue
        if len(path.parts) > 1:
            fix = f"Move it to {folder}, or give it another ending than .toml."
            TomlFile(str(folder / path)).fail("it would not be read: it lies too deep", fix=fix)
        if path.suffix != ".toml":
            TomlFile(str(folder / path)).fail(
                "it would not be read for its name", fix="Let its name end in .toml, in small letters."
            )


def parse_policies(files: Iterable[tuple[Path, bytes]]) -> list[tuple[str, Rule]]:
    """The rules of files that were read before, all of one place: no name may stand there twice.

    Raises:
        PolicyFileError: a file says something that means nothing; names file and key.
    """
    found: list[tuple[str, Rule]] = []
    home: dict[str, Path] = {}
    lone: Path | None = None
    for path, data in files:
        file = TomlFile(str(path))
        document = read_document(path, data)
        if "rule" not in document and document.get("case"):
            lone = lone or path
            continue
        for name, rule, key in _rules(file, document):
            if name in home:
                where = "in this file" if home[name] == path else f"in {home[name]}"
                file.fail(
                    f"the name '{name}' is taken by another rule {where}",
                    key,
                    "Give each rule a name of its own.",
                )
            home[name] = path
            found.append((name, rule))
    if lone is not None and not found:
        TomlFile(str(lone)).fail(
            "it holds cases, but there is no rule for them", "case", "Put the rules beside them."
        )
    return found


def read_document(path: Path, data: bytes) -> dict[str, Any]:
    """A policy file as tables: `rule` and `case`, each a list of tables if it is there, and nothing else.

    Raises:
        PolicyFileError: it is not TOML, or not of that shape; names file and key.
    """
    file = TomlFile(str(path))
    document = read_toml(file, data)
    file.check_keys(document, ("rule", "case"), "", "the file")
    for key in document:
        file.tables(document[key], key, f"Begin each {key} with a line [[{key}]].")
    return document


def read_toml(file: TomlFile, data: bytes) -> dict[str, Any]:
    """What a TOML file holds.

    Raises:
        PolicyFileError: it is not TOML; names the line.
    """
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        file.fail(f"it is not UTF-8 text (byte {error.start})", fix="Save it as UTF-8.")
    except tomllib.TOMLDecodeError as error:
        file.fail(f"it is not TOML: {_lower(str(error))}", fix="Mend the syntax there.")
    except ValueError:
        # Python reads no number of more than some thousand digits.
        file.fail("it holds a number that is too long to be read", fix="Write a shorter one.")
    except RecursionError:
        file.fail("it is nested too deep")


def _files(path: Path, may_be_empty: bool) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        check_names(path, _below(path, PurePath()))
        files = sorted(p for p in path.iterdir() if p.suffix == ".toml")
    except OSError as error:
        TomlFile(str(path)).fail(f"it cannot be read ({error.strerror or type(error).__name__})")
    if not files and not may_be_empty:
        TomlFile(str(path)).fail(
            "the folder holds no *.toml file", fix="Put a policy file into it, or name one directly."
        )
    return files


def _below(folder: Path, inside: PurePath) -> Iterator[PurePath]:
    """Every file below `inside` of a folder, sorted; a link to a folder is gone into at the top only."""
    for entry in sorted((folder / inside).iterdir()):
        path = inside / entry.name
        if entry.is_dir() and not (inside.parts and entry.is_symlink()):
            yield from _below(folder, path)
        else:
            yield path


def _read(path: Path) -> bytes:
    file = TomlFile(str(path))
    try:
        return path.read_bytes()
    except FileNotFoundError:
        file.fail("there is no such file", fix="Check the path.")
    except (OSError, ValueError) as error:
        # ValueError: a path with a null character in it.
        file.fail(f"it cannot be read ({getattr(error, 'strerror', None) or error})")


def _rules(file: TomlFile, document: dict[str, Any]) -> Iterator[tuple[str, Rule, str]]:
    """Each rule of a file with its name and the key of that name."""
    tables = document.get("rule")
    if not tables:
        file.fail("it holds no rule", "rule" if tables is not None else None, _EXAMPLE)
    for position, table in enumerate(tables):
        place = f"rule[{position}]"
        name, rule = _rule(file, table, place)
        yield name, rule, f"{place}.name"


def _rule(file: TomlFile, table: dict[str, Any], place: str) -> tuple[str, Rule]:
    name = _text(file, table, "name", place, 'Name it, such as name = "no-shell".')
    kind = _text(file, table, "kind", place, f"Choose one of {listing(_KINDS)}.")
    struct = _KINDS.get(kind)
    if struct is None:
        file.no_choice(kind, list(_KINDS), f"{place}.kind", "kind of rule")
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    given = {key: value for key, value in table.items() if key not in ("name", "kind")}
    file.check_keys(table, ["name", "kind", *fields], place, f"a {kind} rule")
    for key, field in fields.items():
        if field.required and key not in given:
            file.fail(
                f"the key '{key}' is missing; a {kind} rule needs it",
                f"{place}.{key}",
                f"Add a line {key} = ...",
            )
    _check_patterns(file, given, place)
    _check_tables(file, given, place)
    if kind == "allow_tool_param" and not given.keys() & {"values", "matching"}:
        fix = "Add values = [...] or matching = '...'."
        file.fail("it allows nothing: neither 'values' nor 'matching' is given", place, fix)
    return name, _convert(file, given, struct, place)


def _convert(file: TomlFile, given: dict[str, Any], struct: type[Rule], place: str) -> Rule:
    try:
        # TOML has dates and infinities, which no parameter of a plan can equal.
        values = copy_json(given, place)
        return msgspec.convert({**values, "kind": struct.__struct_config__.tag}, struct)
    except NotJson as error:
        file.fail(
            f"the value cannot be compared with JSON: {error.problem}",
            error.place,
            "Write a text or a finite number.",
        )
    except msgspec.ValidationError as error:
        problem, key = problem_of(error, place)
        choices = _CHOICES.get(re.sub(r"\[.*?\]", "", key.removeprefix(place)).rpartition(".")[2])
        if choices is not None and (wrong := re.match(r"invalid enum value '(.*)'$", problem, re.DOTALL)):
            file.no_choice(wrong[1], choices, key, key.rpartition(".")[2].partition("[")[0])
        file.fail(problem, key, "Give it a value of that kind." if problem.startswith("expected") else "")


def _check_tables(file: TomlFile, given: dict[str, Any], place: str) -> None:
    """Refuse an unknown key of a table inside a rule, with the nearest that it may have."""
    for key, (struct, owner) in _TABLES.items():
        value = given.get(key)
        tables = [(f"{place}.{key}", value)]
        if isinstance(value, list):
            tables = [(f"{place}.{key}[{position}]", table) for position, table in enumerate(value)]
        for where, table in tables:
            if isinstance(table, dict):
                file.check_keys(table, struct.__struct_fields__, where, owner)


def _check_patterns(file: TomlFile, given: dict[str, Any], place: str) -> None:
    for key in _PATTERNS:
        pattern = given.get(key)
        if not isinstance(pattern, str):
            continue
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            fix = "In TOML, write patterns in 'single quotes': backslashes then stand for themselves."
            file.fail(f"the regular expression does not compile ({error})", f"{place}.{key}", fix)


def _text(file: TomlFile, table: dict[str, Any], key: str, place: str, fix: str) -> str:
    if key not in table:
        near = get_close_matches(key, [k for k in table if k not in ("name", "kind")], n=1)
        hint = f"Did you mean '{key}' by '{near[0]}'?" if near else fix
        file.fail(f"the key '{key}' is missing; every rule needs it", f"{place}.{key}", hint)
    return file.text(table[key], f"{place}.{key}", fix)


def _lower(text: str) -> str:
    return (text[:1].lower() + text[1:]).rstrip(".")
