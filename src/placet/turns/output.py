"""A final answer as a value of a type, not as text.

Models put words and fences around JSON, and that is forgiven: the value is found in there. The JSON itself is
read strictly, and has to fit. What does not is said in words that a model can use to do better.

Keep true:
1. What `read` returns fits the type, or it raises `OutputUnfit`; whatever the text holds, nothing else.
2. Of two values that both fit, none is guessed to be the answer.
3. The work is bounded by the length of the text.
4. pydantic is touched only by whoever hands in a type of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar, overload

from placet.errors import DecodeError, ToolDeclarationError, UsageError
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue, show_json
from placet.safe_text import clean
from placet.tools.conversion import USABLE, Unfit, read_types
from placet.tools.json_schema import Check, compile_check, cut, join_problems
from placet.truncation import truncate_repr

T = TypeVar("T")

ROOT = "answer"
"""What the whole value is called in problems: `answer.items[0]`."""

_OWNER = "output_type"
_MOST_PROBLEM = 2_000
_MOST_CANDIDATES = 1_000
_FENCED = re.compile(r"```[\w+-]{0,20}[ \t]*\n([^`\[\]{}]*)```")
"""A block that holds neither an object nor a list; those are found by their brackets."""
_OPENING = re.compile(r"[\[{]")
_INSIDE = re.compile(r'[\[{\]}]|"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""A bracket, or a text, to step over it; one without an end goes on to the end."""
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}


class OutputUnfit(Exception):
    """An answer that is no value of the type."""

    def __init__(self, problem: str) -> None:
        self.problem = clean(problem, _MOST_PROBLEM)
        """What is wrong and where, in words for the model."""
        super().__init__(self.problem)


class OutputType(Generic[T]):
    """The type that a final answer has to have. Make one with `OutputType.of`.

    >>> OutputType.of(list[int]).read("Here they are: [1, 2]")
    [1, 2]
    """

    def __init__(
        self, schema: dict[str, JsonValue], check: Check | None, convert: Callable[[JsonValue], T] | None
    ) -> None:
        self.schema = schema
        """JSON Schema of the type, complete with its definitions."""
        self._check = check
        self._convert = convert

    @overload
    @classmethod
    def of(cls, type_: type[T]) -> OutputType[T]: ...

    @overload
    @classmethod
    def of(cls, type_: Any) -> OutputType[Any]: ...

    @classmethod
    def of(cls, type_: Any) -> OutputType[Any]:
        """Read a type: a Struct, a dataclass, a pydantic model, a TypedDict, `list[int]` and the like.

        Raises:
            UsageError: the type has no JSON form; the message says what to use instead.
        """
        try:
            shapes, definitions = read_types({ROOT: type_}, owner=_OWNER)
            schema = _whole(shapes[ROOT].schema, definitions)
            check = compile_check(schema, owner=_OWNER, root=ROOT)
        except ToolDeclarationError as error:
            # The advice there is about functions.
            problem = str(error).removesuffix(USABLE).removeprefix(f"{_OWNER}, {ROOT}: ").strip()
            raise UsageError(
                f"{_OWNER}={truncate_repr(type_, 80)} cannot be used: {problem} Use a msgspec Struct, a "
                "dataclass, a "
                "pydantic model or a TypedDict, or a plain type such as list[int]."
            ) from None
        return cls(schema, check, shapes[ROOT].convert)

    def read(self, text: str) -> T:
        """The value in an answer: alone, in a fenced block, or with words around it.

        Raises:
            OutputUnfit: there is none that fits, or more than one.
        """
        fitting: list[tuple[JsonValue, T]] = []
        problems: list[tuple[bool, int, str]] = []
        for candidate in _candidates(text):
            try:
                value = decode_json(candidate, f"the {ROOT}")
                fitting.append((value, self._fitted(value)))
            except DecodeError as error:
                told = f"the {ROOT} is no JSON: {error.problem}, at {error.place}"
                problems.append((False, len(candidate), told))
            except OutputUnfit as error:
                problems.append((True, len(candidate), error.problem))
        if (distinct := len({show_json(value) for value, _ in fitting})) > 1:
            raise OutputUnfit(f"the {ROOT} holds {distinct} JSON values that fit; give one alone")
        if fitting:
            return fitting[0][1]
        # What is JSON, and longest, was most likely meant.
        raise OutputUnfit(max(problems)[2])

    def _fitted(self, value: JsonValue) -> T:
        if self._check is not None and (problem := self._check(value)) is not None:
            raise OutputUnfit(problem)
        if self._convert is None:
            return value  # type: ignore[no-any-return]
        try:
            return self._convert(value)
        except Unfit as error:
            # Rules that no schema tells, such as a validator of the user's.
            raise OutputUnfit(
                join_problems([f"{ROOT}{place}: {problem}" for place, problem in error.problems])
            ) from None

    def request(self) -> str:
        """What to tell the model about its final answer."""
        return (
            "When you are done, give your final answer as one JSON value that fits this JSON Schema, "
            f"with no other text around it: {show_json(self.schema)}"
        )

    def repair(self, problem: str) -> str:
        """What to tell the model about an answer that did not fit."""
        return (
            f"Your final answer cannot be used: {clean(problem, _MOST_PROBLEM).rstrip('.')}. "
            "Answer once more, with one JSON value that fits the JSON Schema and no other text around it."
        )


def _whole(schema: dict[str, JsonValue], definitions: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """One schema with its definitions. Providers want to see at the top what it is, not a reference to it."""
    target = schema.get("$ref")
    name = target.removeprefix("#/$defs/") if isinstance(target, str) else ""
    if len(schema) == 1 and isinstance(top := definitions.get(name), dict):
        others = {key: inner for key, inner in definitions.items() if key != name}
        # A type may be part of itself.
        is_named = show_json({"$ref": target})[1:-1] in show_json([top, others])
        schema, definitions = top, definitions if is_named else others
    return {**schema, "$defs": definitions} if definitions else schema


def _candidates(text: str) -> list[str]:
    """What of a text may be the JSON. At least one."""
    whole = text.strip()
    try:
        decode_json(whole)
    except DecodeError:
        fenced = (block[1].strip() for block in _FENCED.finditer(whole))
        found = [*islice(_bracketed(whole), _MOST_CANDIDATES), *islice(fenced, _MOST_CANDIDATES)]
        return found or [cut(whole, 10_000)]
    return [whole]


def _bracketed(text: str) -> Iterator[str]:
    """Every part of a text that stands in brackets, and in no other ones.

    What stands inside is never taken out: of an answer that breaks off, a part would pass for the whole.
    """
    end = 0
    while (start := _OPENING.search(text, end)) is not None:
        depth = 0
        for piece in _INSIDE.finditer(text, start.start()):
            depth += _STEP.get(piece[0], 0)
            if depth == 0:
                end = piece.end()
                break
        else:
            end = len(text)
        yield text[start.start() : end]
