"""JSON in and out: the one place where text becomes a proposal and results become text.

Decoding is strict. msgspec alone is not (the last of two equal keys wins, unknown fields vanish, any
depth goes), so every document is checked for what msgspec lets through, at C speed where the document
is fine and exactly, with the place, where it is not.

Keep true:
1. A document that decodes means one thing: no duplicate keys, no NaN, no depth over 100, no wrong types.
2. The error names the place.
3. The same text always decodes to the same actions, also where ids are left out.
"""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn

import msgspec

from placet.errors import DecodeError, NotJson
from placet.ir.action import Action, ActionCompensation, Assumption, Precondition, ToolCompensation
from placet.ir.json_value import MAX_DEPTH, TOO_LONG, JsonValue, copy_json
from placet.ir.proposal import Proposal

MAX_BYTES = 256 * 1024 * 1024

encode = msgspec.json.Encoder().encode
"""Any of Placet's structures as JSON bytes."""

_decode_any = msgspec.json.Decoder().decode
_ACTION_FIELDS = frozenset(Action.__struct_fields__)
_PROPOSAL_FIELDS = frozenset(Proposal.__struct_fields__)
_NESTED_FIELDS: dict[str, frozenset[str]] = {
    "preconditions": frozenset(Precondition.__struct_fields__),
    "assumptions": frozenset(Assumption.__struct_fields__),
}
_COMPENSATION_FIELDS: dict[str, frozenset[str]] = {
    "tool": frozenset(ToolCompensation.__struct_fields__) | {"type"},
    "action_ref": frozenset(ActionCompensation.__struct_fields__) | {"type"},
}
_NO_JSON = (bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal)
"""What msgspec would write as text; here it is refused, as in a dictionary."""
_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"|(?P<integer>-?[0-9]++)(?P<fraction>[.eE][0-9.eE+-]*+)?', re.DOTALL)
"""Every text, to step over it, and every number."""
_ESCAPE = re.compile(r"\\(?:u(?P<hex>[0-9a-fA-F]{4})|.)", re.DOTALL)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|(?P<open>[\[{])|(?P<close>[\]}])', re.DOTALL)
_PATH = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<place>.*)`)?$", re.DOTALL)


def decode_proposal(document: str | bytes | dict[str, Any] | Proposal) -> Proposal:
    """A proposal from JSON text, from a dictionary of JSON, or from one built in Python.

    Raises:
        DecodeError: the document is malformed or of the wrong shape; names the place.
    """
    if isinstance(document, Proposal):
        if "checked_" in document.__dict__:
            return document
        plain = msgspec.to_builtins(document, builtin_types=_NO_JSON, enc_hook=_refuse)
        if isinstance(plain["timestamp"], datetime):
            plain["timestamp"] = plain["timestamp"].isoformat()
        return _shape(_checked_copy(plain))
    if isinstance(document, dict):
        return _shape(_checked_copy(document))
    if isinstance(document, str | bytes | bytearray):
        return _decode_plain(document) or _shape(decode_json(document))
    raise DecodeError(f"it is a {type(document).__name__}, not JSON text, an object or a Proposal")


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A proposal as it stands in the text, with what is absent left absent."""

    id: str | msgspec.UnsetType = msgspec.UNSET
    source: str | msgspec.UnsetType = msgspec.UNSET
    timestamp: str | msgspec.UnsetType = msgspec.UNSET
    actions: list[Action] = []
    context: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


_decode_wire = msgspec.json.Decoder(_Wire).decode


def _decode_plain(text: str | bytes | bytearray) -> Proposal | None:
    """A proposal from text in which nothing is unusual, in one pass; None if anything is.

    What comes back as None may still be fine, with a field that means nothing, say. The strict way
    decides, and words the error if there is one.
    """
    try:
        wire = _decode_wire(text)
        data = text.encode() if isinstance(text, str) else bytes(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if len(data) > MAX_BYTES or _is_wire_too_deep(wire):
        return None
    if not _is_whole(data, encode(wire)) and not _has_only_distinct_keys(data, _decode_any(data)):
        return None
    fields = {name: v for name in _PROPOSAL_FIELDS if (v := getattr(wire, name)) is not msgspec.UNSET}
    if "timestamp" in fields:
        try:
            fields["timestamp"] = when = msgspec.convert(fields["timestamp"], datetime)
        except msgspec.ValidationError:
            return None
        if when.tzinfo is None:
            return None
    proposal = Proposal(**fields)
    proposal.__dict__["checked_"] = True
    return proposal


def _is_wire_too_deep(wire: _Wire) -> bool:
    for action in wire.actions:
        for value in action.parameters.values():
            if (type(value) is dict or type(value) is list) and _is_too_deep((value,), MAX_DEPTH - 4):
                return True
        if action.expected_effects and _is_too_deep(action.expected_effects.values(), MAX_DEPTH - 4):
            return True
        if (
            action.preconditions or action.assumptions or action.compensation is not None or action.metadata
        ) and _is_too_deep((msgspec.to_builtins(action),), MAX_DEPTH - 2):
            return True
    return bool(wire.context) and _is_too_deep((wire.context,), MAX_DEPTH - 1)


def _is_whole(data: bytes, written_again: bytes) -> bool:
    """Whether nothing of the text was dropped in decoding it, as far as counting tells.

    Decoding drops all but the last of equal keys, and with each a colon: so if the value, written out
    again, has as many colons as the text, no key stood twice. Only an escaped colon could hide in that
    count, and then the answer is no.
    """
    return b"\\u003" not in data and data.count(b":") == written_again.count(b":")


def decode_json(text: str | bytes | bytearray, source: str = "the proposal") -> JsonValue:
    """Any JSON text, read strictly.

    Raises:
        DecodeError: malformed, NaN, a duplicate key, or too deep; names the place.
    """
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError as error:
        raise DecodeError(f"it is not valid Unicode ({error.reason})", source=source) from None
    if len(data) > MAX_BYTES:
        raise DecodeError(f"it is larger than {MAX_BYTES // 1024**2} MiB", source=source)
    try:
        value = _decode_any(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _explain(data, error, source) from None
    if not _has_only_distinct_keys(data, value):
        raise _explain(data, None, source)
    if _is_too_deep((value,), MAX_DEPTH):
        _checked_copy(value, source)  # Says where.
    return value


def _has_only_distinct_keys(data: bytes, value: JsonValue) -> bool:
    """Whether no object in the text names a key twice: by counting, or slowly where that does not tell."""
    if _is_whole(data, encode(value)):
        return True
    try:
        json.loads(data, object_pairs_hook=_distinct)
    except _DuplicateKey:
        return False
    return True


class _DuplicateKey(Exception):
    pass


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return found


def _explain(data: bytes, error: Exception | None, source: str) -> DecodeError:
    """Read a bad document again, slowly, to say what is wrong and where."""
    try:
        text = data.decode()
    except UnicodeDecodeError as bad:
        return DecodeError("it is not UTF-8", place=f"byte {bad.start}", source=source)
    if not text.strip():
        return DecodeError("it is empty", source=source)
    if isinstance(error, RecursionError):
        return _too_deep(text, source)
    try:
        json.loads(text, object_pairs_hook=_distinct, parse_constant=_constant, parse_float=_finite)
    except _DuplicateKey as duplicate:
        key = str(duplicate)
        return DecodeError(
            f"the key '{key}' stands twice in one object", place=_second(text, key), source=source
        )
    except _Constant as constant:
        name = str(constant)
        return DecodeError(
            f"{name} is no number that JSON can carry", place=_line(text, text.find(name)), source=source
        )
    except json.JSONDecodeError as bad:
        return DecodeError(f"malformed JSON ({bad.msg})", place=_line(text, bad.pos), source=source)
    except RecursionError:
        return _too_deep(text, source)
    except ValueError:
        pass  # Python itself reads and writes only so many digits: found below.
    long = _long_integer(text)
    if long is not None:
        return DecodeError(TOO_LONG, place=_line(text, long), source=source)
    half = _half_pair(text)
    if half is not None:
        return DecodeError(
            "a text holds half of a surrogate pair, which no encoding can carry",
            place=_line(text, half),
            source=source,
        )
    problem, place = _split(str(error))
    return DecodeError(problem, place=place, source=source)


def _too_deep(text: str, source: str) -> DecodeError:
    """For text so deep that nothing can read it: where the first bracket too many stands."""
    depth, place = 0, "$"
    for token in _BRACKET.finditer(text):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if depth > MAX_DEPTH:
            place = _line(text, token.start())
            break
    return DecodeError(f"it is nested more than {MAX_DEPTH} deep", place=place, source=source)


def _long_integer(text: str) -> int | None:
    """Where an integer stands that is longer than any that can be read."""
    for token in _NUMBER.finditer(text):
        if token["fraction"] is None and len(token["integer"] or "") > 4300:
            return token.start()
    return None


def _half_pair(text: str) -> int | None:
    """Where an escape stands that is half of a surrogate pair, without its other half."""
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(text):
        code = int(escape["hex"] or "0", 16)
        is_low = 0xDC00 <= code < 0xE000
        if high is not None and not (is_low and high.end() == escape.start()):
            return high.start()
        if is_low and high is None:
            return escape.start()
        high = escape if 0xD800 <= code < 0xDC00 else None
    return high.start() if high is not None else None


class _Constant(Exception):
    pass


def _constant(name: str) -> NoReturn:
    raise _Constant(name)


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _constant(digits)


def _line(text: str, position: int) -> str:
    line = text.count("\n", 0, max(position, 0)) + 1
    column = position - text.rfind("\n", 0, max(position, 0))
    return f"line {line}, column {column}"


def _second(text: str, key: str) -> str:
    """Where the second of two equal keys probably stands."""
    spelled = [m.start() for m in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
    return _line(text, spelled[1]) if len(spelled) == 2 else f"key '{key}'"


def _is_too_deep(values: Any, left: int) -> bool:
    for value in values:
        kind = type(value)
        if kind is dict:
            if value and (left <= 0 or _is_too_deep(value.values(), left - 1)):
                return True
        elif kind is list and value and (left <= 0 or _is_too_deep(value, left - 1)):
            return True
    return False


def _refuse(value: Any) -> Any:
    # Left as it is: the check that follows says where it stands.
    return value


def _checked_copy(document: Any, source: str = "the proposal") -> Any:
    try:
        return copy_json(document, "$")
    except NotJson as error:
        raise DecodeError(error.problem, place=error.place, source=source) from None


def _shape(document: JsonValue) -> Proposal:
    """A checked JSON value of our own as a Proposal; fields that mean nothing are taken out and noted."""
    objects: set[tuple[int | None, str]] = set()
    unknown = _take_unknown(document, objects)
    try:
        proposal = msgspec.convert(document, Proposal)
    except msgspec.ValidationError as error:
        problem, place = _split(str(error))
        raise DecodeError(problem, place=place) from None
    if proposal.timestamp.tzinfo is None:
        # RFC 3339 asks for one, and without it nobody can say which moment is meant.
        raise DecodeError("the time has no zone; end it with Z or an offset", place="$.timestamp")
    proposal.__dict__["checked_"] = True
    if unknown:
        proposal.__dict__["unknown_fields_"] = [
            (None if position is None else proposal.actions[position].id, path) for position, path in unknown
        ]
    if objects:
        proposal.__dict__["ignored_objects_"] = frozenset(
            (None if position is None else proposal.actions[position].id, path) for position, path in objects
        )
    return proposal


def _split(message: str) -> tuple[str, str]:
    """msgspec's words as (problem, place), in our own quotes."""
    match = _PATH.match(message)
    assert match is not None
    problem = match["problem"].replace("`", "'")
    if not problem.startswith("JSON"):
        problem = problem[:1].lower() + problem[1:]
    return problem.rstrip("."), match["place"] or "$"


def _take_unknown(document: JsonValue, objects: set[tuple[int | None, str]]) -> list[tuple[int | None, str]]:
    """Take every unknown field out of the document: (position of the action or None, path). Those of an
    action or its compensation that hold an object with something in it also go to `objects`."""
    found: list[tuple[int | None, str]] = []
    if not isinstance(document, dict):
        return found
    found += ((None, name) for name in _pop_others(document, _PROPOSAL_FIELDS))
    actions = document.get("actions")
    for position, action in enumerate(actions if isinstance(actions, list) else ()):
        if not isinstance(action, dict):
            continue
        if not action.keys() <= _ACTION_FIELDS:
            objects |= {(position, n) for n in action if n not in _ACTION_FIELDS and _is_filled(action[n])}
            found += ((position, name) for name in _pop_others(action, _ACTION_FIELDS))
        for field, known in _NESTED_FIELDS.items():
            items = action.get(field)
            for i, item in enumerate(items if isinstance(items, list) else ()):
                found += ((position, f"{field}[{i}].{name}") for name in _pop_others(item, known))
        compensation = action.get("compensation")
        if isinstance(compensation, dict):
            kind = compensation.get("type")
            if isinstance(kind, str) and kind in _COMPENSATION_FIELDS:
                known = _COMPENSATION_FIELDS[kind]
                objects |= {
                    (position, f"compensation.{n}")
                    for n in compensation
                    if n not in known and _is_filled(compensation[n])
                }
                others = _pop_others(compensation, known)
                found += ((position, f"compensation.{name}") for name in others)
    return found


def _is_filled(value: JsonValue) -> bool:
    return isinstance(value, dict) and bool(value)


def _pop_others(item: JsonValue, known: frozenset[str]) -> list[str]:
    others = sorted(item.keys() - known) if isinstance(item, dict) else []
    for name in others:
        del item[name]
    return others
