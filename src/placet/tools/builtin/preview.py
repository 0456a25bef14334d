"""What a file tool would change, as a unified diff for a person.

Keep true:
1. Secrets are taken out of whole texts, before they are compared: in a part one may not be recognised.
2. Comparing takes a bounded time, whatever the texts hold.
3. A preview never raises for what the files or the parameters are: it says why there is no diff.
4. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placet.errors import PlacetError
from placet.ir.call_facts import Preview
from placet.ir.json_value import JsonValue
from placet.safe_text import clean
from placet.tools.builtin.changes import Change
from placet.tools.builtin.text_file import decode

_MOST_COMPARED = 256 * 1024
"""Characters of a text that is compared with another."""
_MOST_LINES_COMPARED = 4_000
_MOST_FILES = 50
_CONTEXT = 3
_NOWHERE = "/dev/null"

Redact = Callable[[str], str]


def previewing(
    plan: Callable[..., Sequence[Change]], shows: Sequence[str]
) -> Callable[[Mapping[str, JsonValue], Redact], Preview]:
    """The preview of a tool. `plan` takes its parameters and returns the changes that the tool would make,
    without making them; `shows` are the parameters that are in the diff word for word."""

    def preview(parameters: Mapping[str, JsonValue], redact: Redact) -> Preview:
        try:
            changes = plan(**_known(parameters))
        except (PlacetError, OSError, ValueError, TypeError) as error:
            return Preview(problem=clean(redact(str(error)), 600))
        return preview_of(changes, shows, redact)

    return preview


def _known(parameters: Mapping[str, JsonValue]) -> dict[str, Any]:
    return dict(parameters)


def preview_of(changes: Sequence[Change], shows: Sequence[str], redact: Redact) -> Preview:
    """The changes as one diff."""
    parts: list[str] = []
    is_whole = True
    for change in changes[:_MOST_FILES]:
        found = _compared(change, redact)
        is_whole = is_whole and found is not None
        if found != "":
            parts += _head(change)
            parts.append(found if found is not None else f"({_why_not(change)})")
    if len(changes) > _MOST_FILES:
        is_whole = False
        parts.append(f"({len(changes) - _MOST_FILES:,} more files are not shown here)")
    return Preview(
        paths=[each.path for each in changes],
        created=[each.path for each in changes if each.before is None],
        diff="\n".join(parts),
        shows=shows if is_whole else (),
        problem="" if parts else "the text would stay as it is",
    )


def _head(change: Change) -> list[str]:
    name = clean(change.path, 200)
    return [
        f"--- {_NOWHERE if change.before is None else f'a/{name}'}",
        f"+++ {_NOWHERE if change.after is None else f'b/{name}'}",
    ]


def _compared(change: Change, redact: Redact) -> str | None:
    """The lines that differ; None where the contents cannot be compared."""
    texts: list[str] = []
    for data in (change.before, change.after):
        decoded = ("", "") if data is None else decode(data)
        if decoded is None or len(decoded[0]) > _MOST_COMPARED:
            return None
        texts.append(redact(decoded[0]))
    if change.before is None and not texts[1]:
        return "(an empty file)"
    return difference(*texts)


def _why_not(change: Change) -> str:
    sizes = [len(data) for data in (change.before, change.after) if data is not None]
    if any(data is not None and decode(data) is None for data in (change.before, change.after)):
        return f"not text; {' -> '.join(f'{size:,} bytes' for size in sizes)}"
    return f"too long to compare; {' -> '.join(f'{size:,} bytes' for size in sizes)}"


def difference(old: str, new: str) -> str | None:
    """The lines that go and come, as in a patch; None where the texts are too long to compare.

    >>> print(difference("a\\nb\\n", "a\\nc\\n"))
    @@ -1,2 +1,2 @@
     a
    -b
    +c
    """
    from difflib import unified_diff

    if _is_crlf(old) and _is_crlf(new):
        old, new = (text.replace("\r\n", "\n") for text in (old, new))
    if max(len(old), len(new)) > _MOST_COMPARED:
        return None
    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) > _MOST_LINES_COMPARED:
        return None
    found = list(unified_diff(before, after, n=_CONTEXT, lineterm=""))[2:]
    # A carriage return is no end of a line here: where it goes or comes, that is a change to be seen.
    return "\n".join(clean(line, tabs=True) for line in found)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    # So that a last line without an end is told from one that has it.
    return [*lines[:-1], f"{lines[-1]} (no line break at its end)"]


def _is_crlf(text: str) -> bool:
    return text.count("\n") == text.count("\r\n")
