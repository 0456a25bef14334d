"""read_file, write_file, edit_file: text files beneath a workspace.

Keep true:
1. Files are reached through the workspace alone, which keeps every path beneath its folder.
2. An edit changes what it names and nothing else: encoding, byte order mark, line ends and mode stay.
3. What cannot be done says why and what to do instead, so that a model can go on.
4. A path that must not be written is refused before anything else is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Annotated, NamedTuple

from msgspec import Meta

from placet.errors import ToolError
from placet.ir.call_facts import Confinement
from placet.ir.json_value import JsonValue
from placet.sandbox.refusals import refused, shown
from placet.sandbox.spot import Seen
from placet.sandbox.workspace import Workspace, Written
from placet.tools.builtin.changes import Change, is_there
from placet.tools.builtin.near_miss import near_miss
from placet.tools.builtin.preview import previewing
from placet.tools.builtin.syntax import syntax_problem
from placet.tools.builtin.text_file import MOST_BYTES, Encoding, decode, encode, no_text, read_part
from placet.tools.tool import Tool, tool
from placet.truncation import excerpt, truncate

_MATCHES_SHOWN = 10
_CONTEXT = 2
_EXCERPT_LINES = 12
_EXCERPT_LETTERS = 160

Refuse = Callable[[str], str]
"""Why a path, relative to the workspace, may not be written, as the rest of a sentence that begins with "it";
"" if it may."""

PathText = Annotated[str, Meta(description="Relative to the workspace, such as src/main.py.")]


def file_tools(workspace: Workspace, *, refuse: Refuse | None = None, syntax: bool = False) -> list[Tool]:
    """read_file, write_file and edit_file for the files of one workspace.

    `refuse` says which files are not to be written. With `syntax`, an answer says at once if what was written
    is no valid Python, JSON or TOML.
    """

    def checked(answer: dict[str, JsonValue], text: str) -> dict[str, JsonValue]:
        problem = syntax_problem(str(answer["path"]), text) if syntax else ""
        return {**answer, "syntax": problem} if problem else answer

    @tool(risk="read_only", labels=("confined",))
    def read_file(
        path: PathText,
        start_line: Annotated[int, Meta(ge=1, description="The first line to read; 1 is the first.")] = 1,
        lines: Annotated[int, Meta(ge=1)] | None = None,
        start_column: Annotated[
            int, Meta(ge=1, description="The first character to read of the first line; 1 is its first.")
        ] = 1,
    ) -> dict[str, JsonValue]:
        """Read a text file, or some of its lines. Line ends are kept. Long text is cut at 256 KiB; `note`
        then says how to go on.

        Args:
            lines: How many lines; null reads to the end.
        """
        part = read_part(workspace, path, start_line, lines, start_column)
        answer: dict[str, JsonValue] = {
            "path": path,
            "text": part.text,
            "start_line": part.start_line,
            "end_line": part.end_line,
            "total_lines": part.total_lines,
            "encoding": part.encoding,
            "truncated": bool(part.note),
        }
        if part.note:
            answer["note"] = part.note
        return answer

    @tool(risk="destructive", labels=("confined",))
    def write_file(
        path: PathText,
        text: Annotated[str, Meta(description="The whole text of the file, at most 10 MiB.")],
        create_folders: Annotated[bool, Meta(description="Make missing folders of the path.")] = True,
        append: Annotated[bool, Meta(description="Add the text at the end, on a new line.")] = False,
    ) -> dict[str, JsonValue]:
        """Make a text file in UTF-8, or replace one as a whole. To change a part of a file use edit_file."""
        check_allowed(workspace, path, refuse)
        if append and is_there(workspace, path):
            return checked(*_append(workspace, path, text))
        data = _encode(path, text, "utf-8")
        written = workspace.write_bytes(path, data, create_folders=create_folders)
        return checked({"path": written.path, "bytes": len(data), "created": written.created}, text)

    @tool(risk="destructive", labels=("confined",))
    def edit_file(
        path: PathText,
        old: Annotated[
            str, Meta(description="The text to replace, exactly as it is in the file, blanks included.")
        ],
        new: Annotated[str, Meta(description="The text to put in its place.")],
        replace_all: Annotated[bool, Meta(description="Replace every occurrence, not just the one.")] = False,
    ) -> dict[str, JsonValue]:
        """Replace a piece of a text file by another. The old text must occur exactly once, unless replace_all
        is true. Line ends of the file are kept."""
        check_allowed(workspace, path, refuse)
        return checked(*_edit(workspace, path, old, new, replace_all=replace_all))

    def plan_write(path: str, text: str, create_folders: bool = True, append: bool = False) -> list[Change]:
        check_allowed(workspace, path, refuse)
        before = workspace.read_bytes(path, MOST_BYTES) if is_there(workspace, path) else None
        if append and before is not None:
            known, encoding = decoded_text(path, before)
            data = changed_bytes(path, _appended(known, text), encoding)
        else:
            data = _encode(path, text, "utf-8")
        return [Change(path=workspace.relative(path), before=before, after=data)]

    def plan_edit(path: str, old: str, new: str, replace_all: bool = False) -> list[Change]:
        check_allowed(workspace, path, refuse)
        before = workspace.read_bytes(path, MOST_BYTES)
        text, encoding = decoded_text(path, before)
        after = changed_bytes(path, _edited(path, text, old, new, replace_all=replace_all).text, encoding)
        return [Change(path=workspace.relative(path), before=before, after=after)]

    write_file.preview = previewing(plan_write, shows=("text",))
    edit_file.preview = previewing(plan_edit, shows=("old", "new"))
    made: list[Tool] = [read_file, write_file, edit_file]
    for each in made:
        each.confinement = confined_to(workspace)
    return made


def confined_to(workspace: Workspace) -> Callable[[], Awaitable[Confinement]]:
    """What is enforced around tools that reach files through a workspace alone."""
    found = Confinement(runs_in="placet", folder=str(workspace.folder), network="none")

    async def confinement() -> Confinement:
        return found

    return confinement


def check_allowed(workspace: Workspace, path: str, refuse: Refuse | None) -> None:
    """Refuse a path that must not be written.

    Both the path as it is spelled and the file that it leads to are asked for. This tells a model early; who
    must be sure looks at what was written.

    Raises:
        ToolError: it must not, or is no path in the workspace.
    """
    if refuse is None:
        return
    spelled = os.path.normpath(workspace.relative(path))
    leads = os.path.relpath(os.path.realpath(workspace.folder / spelled), workspace.folder)
    why = refuse(spelled) or refuse(leads)
    if why:
        raise refused(
            f"The file {shown(path)} must not be written: it {why}. Leave it as it is and change other files."
        )


def read_text(workspace: Workspace, path: str) -> tuple[str, Encoding, Seen]:
    """The whole text of a file, its encoding, and what tells it from a later one of that name.

    Raises:
        ToolError: there is no such file, or it is no text.
    """
    data, was = workspace.read(path, MOST_BYTES)
    return *decoded_text(path, data), was


def decoded_text(path: str, data: bytes) -> tuple[str, Encoding]:
    """The text of a file's bytes, and its encoding.

    Raises:
        ToolError: they are no text.
    """
    decoded = decode(data)
    if decoded is None:
        raise no_text(path, len(data))
    return decoded


def changed_bytes(path: str, text: str, encoding: Encoding) -> bytes:
    """The bytes of a changed text in the encoding that its file has.

    Raises:
        ToolError: the encoding cannot hold it, or it would be read in another one.
    """
    data = _encode(path, text, encoding)
    if decode(data) not in ((text, encoding), (text, "utf-8")):
        raise refused(
            f"With the new text {shown(path)} would be read in another encoding than {encoding}. Write "
            "the whole file with write_file instead."
        )
    return data


def replace_text(workspace: Workspace, path: str, text: str, encoding: Encoding, was: Seen) -> Written:
    """Write a changed text in the encoding that its file has.

    Raises:
        ToolError: nothing was written; the message says why.
    """
    return workspace.write_bytes(path, changed_bytes(path, text, encoding), if_unchanged=was)


def _edit(
    workspace: Workspace, path: str, old: str, new: str, *, replace_all: bool
) -> tuple[dict[str, JsonValue], str]:
    """The answer, and the whole new text."""
    with workspace.lock:
        text, encoding, was = read_text(workspace, path)
        done = _edited(path, text, old, new, replace_all=replace_all)
        written = replace_text(workspace, path, done.text, encoding, was)
    answer: dict[str, JsonValue] = {
        "path": written.path,
        "replaced": done.replaced,
        "line": text.count("\n", 0, done.first) + 1,
        "excerpt": _excerpt(text, done.text, done.first, done.old_size, done.new_size),
    }
    return answer, done.text


def _append(workspace: Workspace, path: str, text: str) -> tuple[dict[str, JsonValue], str]:
    """The answer, and the whole new text."""
    with workspace.lock:
        known, encoding, was = read_text(workspace, path)
        changed = _appended(known, text)
        written = replace_text(workspace, path, changed, encoding, was)
    size = len(encode(changed, encoding))
    return {"path": written.path, "bytes": size, "created": False}, changed


def _appended(known: str, text: str) -> str:
    """A text with another one on new lines at its end, with the line ends that it has."""
    line_end = "\r\n" if "\r\n" in known else "\n"
    added = as_crlf(text) if line_end == "\r\n" else text
    between = "" if not known or known.endswith("\n") else line_end
    return f"{known}{between}{added}{'' if added.endswith(line_end) else line_end}"


class _Edited(NamedTuple):
    text: str
    first: int
    """Where the first change begins."""
    replaced: int
    old_size: int
    new_size: int


def _edited(path: str, text: str, old: str, new: str, *, replace_all: bool) -> _Edited:
    """The text of a file after an edit.

    Raises:
        ToolError: the edit does not fit it.
    """
    if not old:
        raise refused("There is no old text to look for. To make or replace a whole file use write_file.")
    old, new = _with_line_ends_of(text, old, new)
    if old == new:
        raise refused("The old and the new text are the same, so there is nothing to change.")
    first = text.find(old)
    if first < 0:
        raise refused(f"The old text is not in {shown(path)}. {near_miss(text, old)}")
    if not replace_all and text.find(old, first + 1) >= 0:
        raise refused(
            f"The old text is in {shown(path)} more than once, {_lines_of(text, old)}. Take in some of "
            "the text around the one that is meant, or set replace_all."
        )
    count = text.count(old) if replace_all else 1
    if len(text) + count * (len(new) - len(old)) > MOST_BYTES:
        # Asked before it is made: a short text in a million places becomes a long one.
        raise _too_large(path)
    changed = text.replace(old, new, -1 if replace_all else 1)
    return _Edited(changed, first, count, len(old), len(new))


def _encode(path: str, text: str, encoding: Encoding) -> bytes:
    try:
        data = encode(text, encoding)
    except UnicodeEncodeError as error:
        if encoding == "latin-1":
            raise refused(
                f"The file {shown(path)} is Latin-1, which has no {text[error.start]!a}. Write the whole "
                "file with write_file, which makes it UTF-8."
            ) from None
        raise refused("The text holds half of a surrogate pair. Write it in valid Unicode.") from None
    if len(data) > MOST_BYTES:
        raise _too_large(path)
    return data


def _too_large(path: str) -> ToolError:
    return refused(f"The file {shown(path)} would have more than {MOST_BYTES:,} bytes. Split it up.")


def _with_line_ends_of(text: str, old: str, new: str) -> tuple[str, str]:
    """Old and new with the line ends that the file has where they match.

    Models write line feeds. In a file that has nothing but carriage returns and line feeds those are meant.
    """
    if "\r\n" not in text:
        return old, new
    is_uniform = text.count("\n") == text.count("\r\n")
    if is_uniform or (old not in text and as_crlf(old) in text):
        return as_crlf(old), as_crlf(new)
    return old, new


def as_crlf(text: str) -> str:
    """A text in which every line ends with a carriage return and a line feed."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, old: str) -> str:
    """The lines where a text begins, in words."""
    found: list[str] = []
    place, line, counted = text.find(old), 1, 0
    while place >= 0 and len(found) < _MATCHES_SHOWN:
        line += text.count("\n", counted, place)
        counted = place
        found.append(str(line))
        place = text.find(old, place + 1)
    more = " and more" if place >= 0 else ""
    return f"on lines {', '.join(found)}{more}"


def _excerpt(text: str, changed: str, first: int, old_size: int, new_size: int) -> str:
    """The first change as in a patch: lines with `-` went, lines with `+` came, the others stay."""
    begin = text.rfind("\n", 0, first) + 1
    before = text[:begin].rsplit("\n", _CONTEXT + 1)[-1 - _CONTEXT : -1]
    # Whole lines went and came, or the rest of the last line belongs to both.
    is_whole = text[first + old_size - 1] == "\n" and (
        changed[first + new_size - 1] == "\n" if new_size else first == begin
    )
    went, _ = _lines_at(text, begin, first + old_size, is_whole=is_whole)
    came, end = _lines_at(changed, begin, first + new_size, is_whole=is_whole)
    rest = excerpt(changed, end, end + _CONTEXT * _EXCERPT_LETTERS * 4)
    after = rest.removesuffix("\n").split("\n")[:_CONTEXT] if rest else []
    rows = [(" ", line) for line in before]
    rows += [("-", line) for line in went]
    rows += [("+", line) for line in came]
    rows += [(" ", line) for line in after]
    return "\n".join(f"{mark}{truncate(line, _EXCERPT_LETTERS)}".rstrip("\r") for mark, line in rows)


def _lines_at(text: str, begin: int, end: int, *, is_whole: bool) -> tuple[list[str], int]:
    """The lines from `begin` up to `end`, or to the end of its line; and where the next one begins."""
    stop = end
    if not is_whole:
        feed = text.find("\n", end)
        stop = len(text) if feed < 0 else feed + 1
    if begin == stop:
        return [], stop
    lines = text[begin:stop].removesuffix("\n").split("\n", _EXCERPT_LINES)
    return lines[:_EXCERPT_LINES] + (["…"] if len(lines) > _EXCERPT_LINES else []), stop
