"""A unified diff, read as a model may have written it.

Lines end with line feeds alone; whatever else stands before one belongs to the line.

Keep true:
1. A patch that a program made is read exactly: its counts say where a hunk ends, whatever its lines are.
2. Counts that are wrong or missing are overlooked. What cannot be understood is refused, never left out.
3. Nothing here looks at files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from placet.errors import ToolError
from placet.sandbox.refusals import refused, shown
from placet.truncation import truncate

Mark = Literal[" ", "-", "+"]
Kind = Literal["modify", "create", "delete"]

MOST_LETTERS = 1_000_000
MOST_HUNKS = 1_000

_HEADER = re.compile(r"@@(?: -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?)?(?: |$)")
_ESCAPE = re.compile(r'\\([abtnvfr"\\]|[0-7]{3})')
_ESCAPES = dict(zip('abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_NOWHERE = "/dev/null"
_SHOWN_LETTERS = 100


class Hunk(msgspec.Struct, frozen=True):
    """Lines that go, come and stay, next to each other."""

    header: str
    lines: list[tuple[Mark, str]]
    """Each with its line end, unless the patch says that it has none."""
    first: int | None
    """Where it begins in the old file, counted from 1, as the header has it."""
    is_anchored: bool
    """Whether it says that it replaces no line, and after which line it comes: then `first` is that one."""

    @property
    def old(self) -> list[str]:
        return [line for mark, line in self.lines if mark != "+"]

    @property
    def new(self) -> list[str]:
        return [line for mark, line in self.lines if mark != "-"]


class FilePatch(msgspec.Struct):
    """What a patch does to one file."""

    old: str = ""
    new: str = ""
    """The names before and after, without prefixes; the other one is empty for a file that comes or goes."""
    kind: Kind = "modify"
    hunks: list[Hunk] = []


def parse_patch(patch: str) -> list[FilePatch]:
    """The files of a patch, each once, in order. Text around the patch is passed over.

    Raises:
        ToolError: there is no patch in it, or one that cannot be applied to text.
    """
    if len(patch) > MOST_LETTERS:
        raise refused(f"The patch has more than {MOST_LETTERS:,} characters. Split it up.")
    lines = patch.split("\n")
    if not lines[-1]:
        lines.pop()
    read = _Reading(lines)
    while read.at < len(lines):
        read.take()
    return read.finished()


class _Reading:
    """A patch while it is read, line by line."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at = 0
        self.files: list[FilePatch] = []
        self.has_names = True
        """Whether the last file has got its lines `---` and `+++`."""
        self.hunks = 0

    def take(self) -> None:
        line = self.lines[self.at]
        self.at += 1
        here = self.files[-1] if self.files and not self.has_names else None
        if line.startswith("diff --git "):
            self.files.append(FilePatch(*_names_of_git(line[11:].rstrip("\r"))))
            self.has_names = False
        elif line.startswith("--- ") and _is_new_name(self.lines, self.at):
            self._take_names(line, self.lines[self.at], here)
            self.at += 1
        elif line.startswith("@@"):
            self._take_hunk(line)
        elif here is not None:
            self._take_detail(line, here)

    def finished(self) -> list[FilePatch]:
        if not self.files:
            raise refused(
                "There is no file in the patch. Write a unified diff: a line '--- a/path', a line "
                "'+++ b/path', then for each place a line '@@ -1,3 +1,3 @@' and its lines, each with ' ', "
                "'-' or '+' before it."
            )
        merged: dict[tuple[str, str, Kind], FilePatch] = {}
        for each in self.files:
            if not each.hunks and each.kind == "modify":
                raise refused(f"The patch names {shown(each.new or each.old)} but has no hunk (@@) for it.")
            first = merged.setdefault((each.old, each.new, each.kind), each)
            if first is not each:
                first.hunks.extend(each.hunks)
        return list(merged.values())

    def _take_names(self, old_line: str, new_line: str, here: FilePatch | None) -> None:
        old, new = _name(old_line[4:]), _name(new_line[4:])
        if here is None:
            here = FilePatch()
            self.files.append(here)
        self.has_names = True
        here.kind = "create" if old == _NOWHERE else "delete" if new == _NOWHERE else "modify"
        here.old, here.new = _without_prefixes(old, new)
        if not (here.old or here.new):
            raise refused("The patch has a file without a name.")

    def _take_detail(self, line: str, here: FilePatch) -> None:
        """A line between `diff --git` and the hunks."""
        what = here.new or here.old
        if line.startswith(("rename ", "copy ")):
            raise refused(
                f"The patch renames or copies {shown(what)}, which is not done here. Write it as one file "
                "that is deleted and one that is created."
            )
        if line.startswith(("Binary files ", "GIT binary patch")):
            raise refused(f"The patch changes {shown(what)} as a binary file. Only text can be patched.")
        if line.startswith(("new file mode ", "deleted file mode ")):
            if line.rstrip()[-6:-3] != "100":
                raise refused(
                    f"The patch has {shown(what)} as a link or repository. Only files can be patched."
                )
            here.kind = "create" if line.startswith("new") else "delete"
        elif line.startswith("new mode "):
            raise refused(f"The patch changes the mode of {shown(what)}. Only text can be patched.")

    def _take_hunk(self, line: str) -> None:
        if not self.files:
            raise refused(
                "The patch has a hunk (@@) before any file. Put '--- a/path' and '+++ b/path' above."
            )
        self.hunks += 1
        if self.hunks > MOST_HUNKS:
            raise refused(f"The patch has more than {MOST_HUNKS:,} hunks. Split it up.")
        header = _HEADER.match(line.rstrip("\r"))
        first = count = None
        found = None
        if header is not None and header[1]:
            first = int(header[1])
            count = int(header[2] or 1)
            found = _by_counts(self.lines, self.at, count, int(header[4] or 1))
        hunk_lines, self.at = found or _by_looks(self.lines, self.at)
        if not any(mark != " " for mark, _ in hunk_lines):
            raise refused(
                f"The hunk {truncate(line, _SHOWN_LETTERS)!r} adds and removes nothing. Put '-' before "
                "lines that go "
                "and '+' before lines that come."
            )
        is_anchored = count == 0 and all(mark == "+" for mark, _ in hunk_lines)
        self.files[-1].hunks.append(
            Hunk(truncate(line, _SHOWN_LETTERS).rstrip("\r"), hunk_lines, first, is_anchored)
        )


def _by_counts(
    lines: Sequence[str], at: int, old: int, new: int
) -> tuple[list[tuple[Mark, str]], int] | None:
    """A hunk as its header counts it, and where it ends; None if the counts are wrong."""
    found: list[tuple[Mark, str]] = []
    while old or new or (at < len(lines) and lines[at].startswith("\\")):
        if at >= len(lines):
            return None
        line = lines[at]
        at += 1
        if line.startswith("\\"):
            _without_end(found)
            continue
        mark = _mark(line or " ")
        if mark is None or (mark != "+" and not old) or (mark != "-" and not new):
            return None
        old -= mark != "+"
        new -= mark != "-"
        found.append((mark, f"{line[1:]}\n"))
    rest = next((more for more in range(at, len(lines)) if lines[more].strip("\r")), len(lines))
    goes_on = rest < len(lines) and _mark(lines[rest]) is not None
    if goes_on and not _is_name(lines, rest) and lines[rest].rstrip("\r") != "-- ":
        return None
    return found, at


def _by_looks(lines: Sequence[str], at: int) -> tuple[list[tuple[Mark, str]], int]:
    """A hunk up to what cannot belong to it, and where it ends."""
    found: list[tuple[Mark, str]] = []
    sure = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("@@", "diff --git ", "```")) or _is_name(lines, at):
            break
        at += 1
        if line.startswith("\\"):
            _without_end(found)
            continue
        mark = _mark(line)
        # A line without a mark is one that stays, if more of the hunk follows: models leave the blank out.
        found.append((mark or " ", f"{line[1:] if mark else line}\n"))
        sure = len(found) if mark else sure
    return found[:sure], at


def _mark(line: str) -> Mark | None:
    match line[:1]:
        case " " | "-" | "+" as mark:
            return mark
        case _:
            return None


def _without_end(found: list[tuple[Mark, str]]) -> None:
    if found:
        mark, line = found[-1]
        found[-1] = (mark, line.removesuffix("\n"))


def _is_new_name(lines: Sequence[str], at: int) -> bool:
    return at < len(lines) and lines[at].startswith("+++ ")


def _is_name(lines: Sequence[str], at: int) -> bool:
    """Whether the names of the next file begin here: within a hunk a line that goes may look like it."""
    is_pair = lines[at].startswith("--- ") and _is_new_name(lines, at + 1)
    return is_pair and at + 2 < len(lines) and lines[at + 2].startswith("@@")


def _name(text: str) -> str:
    """A file name as it stands behind `---`: without a time, and without quotation marks."""
    text = text.rstrip("\r")
    if not text.startswith('"'):
        return text.partition("\t")[0].strip()
    inside = text[1:].rpartition('"')[0]
    parts = _ESCAPE.split(inside)
    data = b"".join(
        _escaped(part) if at % 2 else part.encode(errors="surrogatepass") for at, part in enumerate(parts)
    )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _odd_name(text) from None


def _escaped(escape: str) -> bytes:
    return bytes([_ESCAPES[escape] if escape in _ESCAPES else int(escape, 8) & 0xFF])


def _odd_name(text: str) -> ToolError:
    return refused(f"The patch has a file name that is not Unicode: {shown(text)}.")


def _without_prefixes(old: str, new: str) -> tuple[str, str]:
    """Both names without `a/` and `b/`, if both have them; empty where there is no file."""
    is_old, is_new = old != _NOWHERE, new != _NOWHERE
    if (old.startswith("a/") or not is_old) and (new.startswith("b/") or not is_new):
        old, new = old.removeprefix("a/"), new.removeprefix("b/")
    return old if is_old else "", new if is_new else ""


def _names_of_git(text: str) -> tuple[str, str]:
    """The names in a line `diff --git`, as far as it tells: names with blanks have no end there."""
    if text.startswith('"'):
        old, _, new = text.partition('" ')
        return _without_prefixes(_name(f'{old}"'), _name(new))
    old, new = text[: len(text) // 2], text[len(text) // 2 + 1 :]
    return _without_prefixes(old, new)
