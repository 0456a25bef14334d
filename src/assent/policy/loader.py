"""Policy files: rules written down in TOML, read strictly.

    [[rule]]
    name = "no-rm"
    kind = "deny_tool_param_matching"
    tool = "shell"
    param = "command"
    pattern = '\\brm\\b'
    reason = "files are not deleted here"

A rule that is not read as it was meant is worse than none, so nothing is guessed and nothing is passed over.

Keep true:
1. Every key is known, every value has its type, every pattern compiles, every name is unique, or none loads.
2. An error names the file and the key (the line, where the file is not even TOML), and says how to mend it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, get_args

import msgspec

from assent.errors import NotJson, PolicyFileError
from assent.ir.json_value import copy_json
from assent.policy.rule import DeclaredRule, Rule

_KINDS: dict[str, type[Rule]] = {str(kind.__struct_config__.tag): kind for kind in get_args(DeclaredRule)}
_PATTERNS = ("pattern", "matching")
"""Keys that hold a regular expression, in whichever rule."""
_EXAMPLE = 'Write at least:  [[rule]]  name = "no-shell"  kind = "deny_tool"  tool = "shell"'
_MSGSPEC = re.compile(r"^(?P<problem>.*?)(?: - at `\$\.?(?P<place>.*)`)?$", re.DOTALL)


def load_policies(path: Path | str) -> list[tuple[str, Rule]]:
    """The rules of a file, or of every `*.toml` in a folder (by name), in the order in which they stand.

    Raises:
        PolicyFileError: a file cannot be read, or says something that means nothing; names file and key.
    """
    found: list[tuple[str, Rule]] = []
    home: dict[str, Path] = {}
    for file in _files(Path(path)):
        for name, rule, key in _rules(file):
            if name in home:
                where = "in this file" if home[name] == file else f"in {home[name]}"
                _fail(
                    file,
                    f"the name '{name}' is taken by another rule {where}",
                    key,
                    "Give each rule a name of its own.",
                )
            home[name] = file
            found.append((name, rule))
    return found


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        files = sorted(p for p in path.iterdir() if p.suffix == ".toml")
    except OSError as error:
        _fail(path, f"it cannot be read ({error.strerror or type(error).__name__})")
    if not files:
        _fail(path, "the folder holds no *.toml file", fix="Put a policy file into it, or name one directly.")
    return files


def _read(file: Path) -> dict[str, Any]:
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        _fail(file, "there is no such file", fix="Check the path.")
    except (OSError, ValueError) as error:
        # ValueError: a path with a null character in it.
        _fail(file, f"it cannot be read ({getattr(error, 'strerror', None) or error})")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        _fail(file, f"it is not UTF-8 text (byte {error.start})", fix="Save it as UTF-8.")
    except tomllib.TOMLDecodeError as error:
        _fail(file, f"it is not TOML: {_lower(str(error))}", fix="Mend the syntax there.")
    except RecursionError:
        _fail(file, "it is nested too deep")


def _rules(file: Path) -> Iterator[tuple[str, Rule, str]]:
    """Each rule of a file with its name and the key of that name."""
    document = _read(file)
    for key in document:
        if key != "rule":
            _unknown(file, key, ["rule"], key, "the file")
    tables = document.get("rule")
    if tables is None:
        _fail(file, "it holds no rule", fix=_EXAMPLE)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        _fail(file, "it must be a list of tables", "rule", "Begin each rule with a line [[rule]].")
    if not tables:
        _fail(file, "it holds no rule", "rule", _EXAMPLE)
    for position, table in enumerate(tables):
        place = f"rule[{position}]"
        name, rule = _rule(file, table, place)
        yield name, rule, f"{place}.name"


def _rule(file: Path, table: dict[str, Any], place: str) -> tuple[str, Rule]:
    name = _text(file, table, "name", place, 'Name it, such as name = "no-shell".')
    kind = _text(file, table, "kind", place, f"Choose one of {_list(_KINDS)}.")
    struct = _KINDS.get(kind)
    if struct is None:
        near = get_close_matches(kind, list(_KINDS), n=1)
        fix = f"Did you mean '{near[0]}'?" if near else f"Choose one of {_list(_KINDS)}."
        _fail(file, f"'{kind}' is no kind of rule", f"{place}.kind", fix)
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    given = {key: value for key, value in table.items() if key not in ("name", "kind")}
    for key in given:
        if key not in fields:
            _unknown(file, key, ["name", "kind", *fields], f"{place}.{key}", f"a {kind} rule")
    for key, field in fields.items():
        if field.required and key not in given:
            _fail(
                file,
                f"the key '{key}' is missing; a {kind} rule needs it",
                f"{place}.{key}",
                f"Add a line {key} = ...",
            )
    _check_patterns(file, given, place)
    if kind == "allow_tool_param" and not given.keys() & {"values", "matching"}:
        fix = "Add values = [...] or matching = '...'."
        _fail(file, "it allows nothing: neither 'values' nor 'matching' is given", place, fix)
    return name, _convert(file, given, struct, place)


def _convert(file: Path, given: dict[str, Any], struct: type[Rule], place: str) -> Rule:
    try:
        # TOML has dates and infinities, which no parameter of a plan can equal.
        values = copy_json(given, place)
        return msgspec.convert({**values, "kind": struct.__struct_config__.tag}, struct)
    except NotJson as error:
        _fail(
            file,
            f"the value cannot be compared with JSON: {error.problem}",
            error.place,
            "Write a text or a finite number.",
        )
    except msgspec.ValidationError as error:
        match = _MSGSPEC.match(str(error))
        assert match is not None
        problem = _lower(match["problem"].replace("`", "'"))
        key = f"{place}.{match['place']}" if match["place"] else place
        _fail(file, problem, key, "Give it a value of that kind." if problem.startswith("expected") else "")


def _check_patterns(file: Path, given: dict[str, Any], place: str) -> None:
    for key in _PATTERNS:
        pattern = given.get(key)
        if not isinstance(pattern, str):
            continue
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            fix = "In TOML, write patterns in 'single quotes': backslashes then stand for themselves."
            _fail(file, f"the regular expression does not compile ({error})", f"{place}.{key}", fix)


def _text(file: Path, table: dict[str, Any], key: str, place: str, fix: str) -> str:
    if key not in table:
        near = get_close_matches(key, [k for k in table if k not in ("name", "kind")], n=1)
        hint = f"Did you mean '{key}' by '{near[0]}'?" if near else fix
        _fail(file, f"the key '{key}' is missing; every rule needs it", f"{place}.{key}", hint)
    value = table[key]
    if not isinstance(value, str):
        _fail(file, f"expected a text, got {_kind_of(value)}", f"{place}.{key}", fix)
    if not value.strip():
        _fail(file, "it is empty", f"{place}.{key}", fix)
    return value


def _unknown(file: Path, key: str, known: list[str], place: str, owner: str) -> NoReturn:
    near = get_close_matches(key, known, n=1)
    fix = f"Did you mean '{near[0]}'?" if near else f"{owner[:1].upper()}{owner[1:]} may have {_list(known)}."
    _fail(file, f"'{key}' is no key of {owner}", place, fix)


def _fail(file: Path, problem: str, key: str | None = None, fix: str = "") -> NoReturn:
    raise PolicyFileError(str(file), problem, key=key, fix=fix) from None


def _kind_of(value: object) -> str:
    kinds = {bool: "a boolean", int: "an integer", float: "a number", list: "an array", dict: "a table"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _lower(text: str) -> str:
    return (text[:1].lower() + text[1:]).rstrip(".")
