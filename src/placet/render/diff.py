"""A unified diff, drawn for people: coloured, and in lines that fit.

Keep true:
1. What a diff holds is cleaned here, whoever made it: no line of it steers a terminal.
2. What is left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.text import Text

from placet.render.wrapping import cut_line
from placet.safe_text import clean, columns
from placet.truncation import redacted

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_HEADS = ("diff --git", "+++", "---", "index ", "new file", "deleted file", "rename ")
_STYLES = {"+": "green", "-": "red"}
_BAR, _GOES_ON = "  │ ", "  ┊ "


def diff_lines(diff: str) -> list[Text]:
    """A unified diff, line by line, coloured as people know it."""
    if not diff.strip():
        return [Text("(nothing is changed)", style="dim")]
    lines = _split(diff)
    return [
        Text(clean(line, tabs=True).expandtabs(4), style=style, no_wrap=True)
        for line, style in zip(lines, _styles(lines), strict=True)
    ]


def diff_block(diff: str, width: int, most: int | None = None) -> Iterator[Text]:
    """The same behind a bar, in pieces of at most `width` columns: a long line must not go on at the margin,
    as if it were ours. Of more than `most` lines those in the middle are left out, and counted."""
    lines = diff_lines(diff)
    left_out = len(lines) - most if most is not None else 0
    if left_out > 0 and most is not None:
        lines = diff_lines(redacted(diff))
        left_out = max(len(lines) - most, 0)
        half = most // 2
        words = f"… {left_out:,} lines of the diff are left out here; see them with --json …"
        lines[half:-half] = [Text(words, style="bold yellow")]
    for line in lines:
        bar = _BAR
        for piece in _broken(line.plain, max(width - columns(_BAR), 20)):
            yield Text.assemble((bar, "dim"), (piece, line.style))
            # What goes on must not look like a line of its own that goes or comes.
            bar = _GOES_ON


def diff_counts(diff: str) -> tuple[int, int]:
    """How many lines come, and how many go.

    >>> diff_counts("--- a/x\\n+++ b/x\\n@@ -1 +1,2 @@\\n-old\\n+new\\n+more")
    (2, 1)
    """
    styles = list(_styles(_split(diff)))
    return styles.count(_STYLES["+"]), styles.count(_STYLES["-"])


def _broken(line: str, width: int) -> Iterator[str]:
    """A line in pieces that fit: behind a space where one is near the end, and no space is lost."""
    while columns(line) > width:
        piece = next(cut_line(line, width))
        space = piece.rfind(" ") + 1
        cut = space if space > len(piece) // 2 else len(piece)
        yield line[:cut]
        line = line[cut:]
    yield line


def _split(diff: str) -> list[str]:
    return diff.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _styles(lines: Sequence[str]) -> Iterator[str]:
    """How each line is drawn. Within a hunk the first character decides, whatever the line looks like."""
    old = new = 0
    for line in lines:
        hunk = _HUNK.match(line) if old <= 0 and new <= 0 else None
        if hunk is not None:
            old, new = (1 if each is None else int(each) for each in hunk.groups())
            yield "cyan"
        elif old > 0 or new > 0:
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
            yield _STYLES.get(line[:1], "")
        elif line.startswith(_HEADS):
            yield "bold"
        elif line.startswith("@@"):
            yield "cyan"
        else:
            yield _STYLES.get(line[:1], "")
