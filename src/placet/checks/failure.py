"""One failure in the output of a check, and how lines of output are read.

Keep true:
1. Pure, and nothing here raises: the output is somebody else's text, cut anywhere.
2. Bounded: so many lines of so many characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from placet.safe_text import clean
from placet.truncation import truncate, truncate_tail

ErrorClass = Literal[
    "test_failure",
    "compile_error",
    "import_error",
    "lint",
    "type_error",
    "timeout",
    "not_found",
    "permission",
    "crash",
    "out_of_memory",
    "no_output_match",
    "other",
]
"""Kind of failure of a check."""

_HEAD, _TAIL, _LINE = 64_000, 128_000, 400
_STEERING = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?)")


class Finding(NamedTuple):
    """A failure, as it stands in the output."""

    error_class: ErrorClass
    what: str
    where: str = ""
    """The test, or the file."""
    compares: bool = False
    """Whether what is quoted are values that were compared."""
    is_ours: bool = False
    """Whether these are words of ours, in which nothing changes from run to run."""


Lines = Sequence[str]
Finder = Callable[[Lines], Finding | None]


def lines_of(output: str) -> list[str]:
    """The lines of an output, without colours; of a long one those at its beginning and end."""
    if len(output) > _HEAD + _TAIL:
        output = f"{truncate(output, _HEAD)}\n{truncate_tail(output, _TAIL)}"
    plain = _STEERING.sub("", output)
    return [clean(truncate(line, _LINE).rstrip(), tabs=True) for line in re.split(r"[\r\n]+", plain)]


PANIC = re.compile(r"thread '.*?'.* panicked at (?P<old>'.*')?")
"""How a Rust program breaks off."""
EXCEPTION = re.compile(
    r"(?:Uncaught )?"
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Interrupt|Exit|Warning|Timeout)"
    r"|(?:[A-Za-z_]\w*\.)*(?:Error|Exception|Failed|Exit|StopIteration|StopAsyncIteration|Timeout))"
    r"(?: \[\w+\])?(?::.*)?\Z"
)
"""The last line of what Python and JavaScript say of an exception."""
_KINDS: dict[str, ErrorClass] = {
    "ImportError": "import_error",
    "ModuleNotFoundError": "import_error",
    "SyntaxError": "compile_error",
    "IndentationError": "compile_error",
    "TabError": "compile_error",
    "MemoryError": "out_of_memory",
    "PermissionError": "permission",
    "AssertionError": "test_failure",
}


def raised(text: str, otherwise: ErrorClass, where: str = "") -> Finding:
    """What a line of a failed test, or the last line of a traceback, tells of."""
    exception = EXCEPTION.match(text)
    name = exception["name"].rpartition(".")[2] if exception else ""
    kind = _KINDS.get(name, otherwise)
    if "Cannot find module" in text:
        kind = "import_error"
    elif "Timeout (>" in text or "Timeout >" in text:
        kind = "timeout"
    compares = kind == "test_failure" and (exception is None or name == "AssertionError")
    return Finding(kind, text, where, compares)


def first_of(found: Iterable[Finding]) -> Finding | None:
    """One of several, the same whatever order they come in."""
    return min(found, key=lambda one: (one.where, one.what), default=None)


def below(lines: Lines, start: int, most: int = 12) -> str:
    """The first line after `start` that says something."""
    following = (line.strip() for line in lines[start + 1 : start + 1 + most])
    return next((line for line in following if re.search(r"\w", line)), "")
