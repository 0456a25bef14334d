"""Long lines broken between words, for a terminal of so many columns.

A terminal folds a line wherever it ends, also in the middle of a word. Here lines are broken before that,
with an indent that shows where a paragraph, an item or a fact goes on.

Keep true:
1. Only spaces become line breaks: taken together again, the lines are the text.
2. What people copy is never broken: a word, whatever is between backticks, a command that is introduced as
   one. Where it is longer than a line, it stands on its own and the terminal folds it, which copies well.
3. Where there is no terminal (`width` is None) nothing is broken at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from placet.safe_text import columns

if TYPE_CHECKING:
    from rich.text import Text

_LEAST = 20
"""Columns of a terminal that is too narrow for anything but folding."""
_LEAD = re.compile(r" *(?:\[\d+\] )?(?P<sign>(?:[✓✗⊘–■?↶!·▸↻◐…→“•~>*-]|\d{1,3}[.)]) +)?")
"""Before the words of a line: blanks, and the sign or the number of an item."""
_LABEL = re.compile(r"(?: {2,}\w[\w./-]*(?: [\w./-]+)*:?|[\d:.-]+) {2,}(?=\S)")
"""Before a fact: what it is about, or when it was."""
_FACT = re.compile(r" +\w[\w ]{0,20}: ")
_BAR = re.compile(r" *│ ")
"""Before what a program wrote."""
_ATOM = re.compile(
    r"(?:^|(?<=: )|(?<=  )|(?<=\())(?:placet|git|pip|pipx|uv|python3?)(?= [-a-z])(?: \S*[^\s.,;)])*(?: \S+)?"
    r"|(?:[^\s`]+|`[^`]+`|`)+"
)
"""A command, whatever is between backticks, or a word."""
_HELD = 200
"""Columns of a word or a quotation that has not ended yet."""
_TOKEN = re.compile(r"\s+|(?:[^\s`]+|`[^`]+`|`)+")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
"""Begins and ends a listing in what a model writes."""


def break_line(line: str, width: int) -> tuple[str, list[tuple[int, int]]]:
    """What goes before every piece of a line but the first, and where the pieces begin and end: each of at
    most `width` columns, as far as its words let it."""
    before, lead = _beginning(line, width)
    hang, found = columns(before), []
    begin, end, used = 0, lead, columns(line[:lead])
    for atom in _ATOM.finditer(line, lead):
        size, blank = columns(atom[0]), atom.start() - end
        if end > max(begin, lead) and used + blank + size > width:
            found.append((begin, end))
            begin, used, blank = atom.start(), hang, 0
        end, used = atom.end(), used + blank + size
    return before, [*found, (begin, end)]


def _beginning(line: str, width: int) -> tuple[str, int]:
    """What goes before the further pieces of a line, and how many characters of it are no words yet."""
    if bar := _BAR.match(line):
        return bar[0], bar.end()
    if (label := _LABEL.match(line)) and columns(label[0]) <= width // 3:
        return " " * columns(label[0]), label.end()
    lead = _LEAD.match(line)
    assert lead is not None
    size = columns(lead[0])
    if size and not lead["sign"] and _FACT.match(line):
        size += 2
    return " " * min(size, width // 3), lead.end()


def wrap_words(line: str, width: int, *, cuts: bool = False) -> list[str]:
    """A line in lines of at most that many columns, as far as its words let it. With `cuts` also words are
    cut: a text of somebody else's must not go on at the margin, as if it were ours.

    >>> wrap_words("one two three", 7)
    ['one two', 'three']
    """
    lines = _lines(line, width)
    return [piece for each in lines for piece in (cut_line(each, width) if cuts else (each,))]


def cut_line(line: str, width: int) -> Iterator[str]:
    """A line in pieces that fit, not between words: for where every space counts."""
    begun, used = 0, 0
    for position, character in enumerate(line):
        size = columns(character)
        if used + size > width:
            yield line[begun:position]
            begun, used = position, 0
        used += size
    yield line[begun:]


def wrap_text(text: str, width: int | None) -> str:
    """A text with its long lines broken.

    >>> print(wrap_text("- one two three four five six seven eight nine", 24))
    - one two three four
      five six seven eight
      nine
    """
    if width is None or width < _LEAST or (len(text) * 2 <= width and "\n" not in text):
        return text
    return "\n".join("\n".join(_lines(line, width)) for line in text.split("\n"))


def _lines(line: str, width: int) -> Iterator[str]:
    if columns(line) <= width:
        yield line
        return
    before, pieces = break_line(line, width)
    for number, (begin, end) in enumerate(pieces):
        yield f"{before if number else ''}{line[begin:end]}"


def wrap_rich(text: Text, width: int | None) -> Text:
    """The same for a text with colours; one that says `no_wrap` stays as it is."""
    from rich.text import Text

    if width is None or width < _LEAST or text.no_wrap or len(text) * 2 <= width:
        return text
    lines = []
    for line in text.split("\n", allow_blank=True):
        if columns(line.plain) <= width:
            lines.append(line)
            continue
        before, pieces = break_line(line.plain, width)
        for number, (begin, end) in enumerate(pieces):
            piece = line[begin:end]
            lines.append(Text.assemble(before, piece) if number else piece)
    return Text("\n", end=text.end).join(lines)


class StreamWrap:
    """Breaks lines of a text that comes in pieces, such as the answer of a model.

    The last word is held until it has ended. Listings between fences and rows of tables stay as they are.
    """

    def __init__(self, write: Callable[[str], None], width: Callable[[], int | None]) -> None:
        self._write = write
        self._width = width
        self._held = ""
        """What has come and may be the beginning of a word."""
        self._line = ""
        """How the line begins, as far as that says how its rest is indented."""
        self._used = 0
        """Columns of the line on the screen that are written."""
        self._blank = ""
        """Blanks that are written when a word follows on the same line."""
        self._is_listing = False

    def feed(self, text: str) -> None:
        """Take one more piece, and write all that is whole."""
        *lines, rest = (self._held + text).split("\n")
        self._held = ""
        for line in lines:
            self._put(line)
            self._end_line()
        whole = _whole(rest)
        self._put(rest[:whole])
        self._held = rest[whole:]

    def _end_line(self) -> None:
        if _FENCE.match(self._line):
            self._is_listing = not self._is_listing
        self._write(f"{self._blank}\n")
        self._line, self._used, self._blank = "", 0, ""

    def _put(self, text: str) -> None:
        width = self._width()
        is_plain = width is None or width < _LEAST
        for token in _TOKEN.finditer(text):
            if token[0].isspace():
                self._blank += token[0]
                continue
            size = columns(token[0])
            is_fixed = is_plain or self._is_listing or self._line.lstrip().startswith(("|", "```", "~~~"))
            if not is_fixed and self._line.strip() and self._used + len(self._blank) + size > (width or 0):
                before, _ = _beginning(self._line, width or 0)
                self._write(f"\n{before}{token[0]}")
                self._used, self._blank = columns(before) + size, ""
                continue
            self._line = (self._line + self._blank + token[0])[:_HELD]
            self._write(self._blank + token[0])
            self._used += columns(self._blank) + size
            self._blank = ""


def _whole(line: str) -> int:
    """How much of a line that has not ended is whole words, and no open quotation."""
    blank = max(line.rfind(" "), line.rfind("\t"))
    while blank >= 0 and line.count("`", 0, blank) % 2:
        blank = max(line.rfind(" ", 0, blank), line.rfind("\t", 0, blank))
    return len(line) if len(line) - blank > _HELD else blank + 1
