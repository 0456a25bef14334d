"""Tools that look for things in a workspace: list_dir, find_files, grep.

Keep true:
1. A path in an answer can be handed to the other tools as it is, unless its bytes are no UTF-8.
2. An answer that does not hold everything says so, and what to do about it.
3. The start is opened by the workspace, and all below it by `Walk`: no link is ever followed further.
4. No pattern is compiled or matched in this process; see `matching.lines`.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from placet.errors import ToolError
from placet.sandbox.command import Finished, run_command
from placet.sandbox.limits import MIB, Limits
from placet.sandbox.refusals import cannot, refused
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.matching.globs import compile_glob
from placet.tools.builtin.matching.walk import MOST_DEPTH, MOST_ENTRIES, Walk, shown
from placet.tools.tool import Tool, tool
from placet.truncation import excerpt, margin, truncate, truncate_repr

MOST_LISTED = 1000
"""Entries of one folder that are told."""

_MEMORY_BYTES = 1024 * MIB
_OPTIONS = ("-I", "-S", "-X", "utf8", "-W", "ignore")
"""Nothing but the standard library, no warnings about patterns, and names in UTF-8 whatever the locale."""
_START = "import sys; sys.path.append(sys.argv[1]); from matching.lines import main; main()"
"""As modules, the parts of the program are compiled once and not for each grep."""

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
_Most = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_Context = Annotated[int, msgspec.Meta(ge=0, le=10)]


def search_tools(
    workspace: Workspace, *, time_s: float = 20.0, ripgrep: bool = True, ripgrep_after: int = 256
) -> list[Tool]:
    """The tools list_dir, find_files and grep, for one workspace.

    A grep that takes longer than `time_s` fails. With `ripgrep`, that program, if there is one, names the
    files worth reading once `ripgrep_after` of them have been read; answers are the same without it.
    """

    @tool(risk="read_only")
    def list_dir(path: str = ".") -> dict[str, Any]:
        """List what one folder of the workspace holds: folders first, then the rest, by name. The kind of an
        entry is file, folder, link or other; the size of a file is in bytes.

        Args:
            path: The folder, relative to the workspace.
        """
        try:
            entries = workspace.list(path)
        except OSError as error:
            raise cannot("list", path, error) from None
        entries.sort(key=lambda entry: (entry.kind != "folder", entry.name))
        told: list[dict[str, Any]] = []
        for entry in entries[:MOST_LISTED]:
            size = {"size": entry.size} if entry.kind == "file" else {}
            told.append({"name": shown(entry.name), "kind": entry.kind, **size})
        notes: list[str] = []
        if len(entries) > MOST_LISTED:
            notes.append(f"{len(entries) - MOST_LISTED} more are not shown. Find them with find_files.")
        return {"entries": told, **_closing(notes, truncated=len(entries) > MOST_LISTED)}

    @tool(risk="read_only")
    def find_files(pattern: _Text, path: str = ".", max_results: _Most = 200) -> dict[str, Any]:
        """Find files of the workspace by a glob on their path. Links are told apart and not followed; folders
        such as .git, .venv, node_modules and __pycache__ are looked into only if the search begins in them.

        Args:
            pattern: The glob, matched against the path from where the search begins. * and ? stop at a slash,
                ** is any number of folders, [a-z] is one character, {a,b} is either. Without a slash it is
                matched against the name, at any depth: *.py. A leading slash means at the top only: /*.py.
            path: The folder where the search begins, relative to the workspace.
            max_results: How many to return at most.
        """
        fits = _read_glob(pattern)
        start, before = _open_start(workspace, path, folder_only=True)
        try:
            walk = Walk(start, hidden=workspace.hidden(start))
            found: dict[str, list[str]] = {"file": [], "link": []}
            left = max_results
            for inside, kind, _, _ in walk:
                if kind in found and fits(inside):
                    if left == 0:
                        break
                    left -= 1
                    found[kind].append(shown(before + inside))
            else:
                left = -1
        finally:
            os.close(start)
        notes = _walk_notes(walk.is_cut_short, walk.unreadable)
        if left == 0:
            notes.insert(0, f"There are more than {max_results}. Narrow the pattern or the path.")
        return {
            "files": found["file"],
            "links": found["link"],
            **_closing(notes, truncated=left == 0 or walk.is_cut_short),
        }

    @tool(risk="read_only")
    async def grep(
        pattern: _Text,
        path: str = ".",
        glob: _Text | None = None,
        ignore_case: bool = False,
        fixed: bool = False,
        context_lines: _Context = 0,
        max_matches: _Most = 200,
    ) -> dict[str, Any]:
        """Find the lines of text files in the workspace that match a regular expression, in the syntax of
        Python's re. Each line is matched on its own. Binary files, files over 10 MiB, links, and folders such
        as .git, .venv, node_modules and __pycache__ are left out.

        Args:
            pattern: The regular expression; or the text itself, if fixed is true.
            path: A file, or the folder where the search begins, relative to the workspace.
            glob: Search only files whose path fits this glob, as in find_files: *.py or src/**/*.ts.
            ignore_case: Whether capital and small letters are the same.
            fixed: Whether the pattern is plain text, in which no character is special.
            context_lines: How many lines before and after each match to return with it.
            max_matches: How many matching lines to return at most.
        """
        if glob is not None:
            _read_glob(glob)
        # Opened here and not in a thread: one call, and a cancel in between would lose the descriptor.
        start, before = _open_start(workspace, path, folder_only=False)
        try:
            request = {
                "start": start,
                "is_folder": stat.S_ISDIR(os.fstat(start).st_mode),
                "before": before,
                "hidden": workspace.hidden(start),
                "search": {
                    "pattern": pattern,
                    "fixed": fixed,
                    "ignore_case": ignore_case,
                    "glob": glob,
                    "context_lines": context_lines,
                    "max_matches": max_matches,
                    "ripgrep": _find_ripgrep(workspace) if ripgrep else "",
                    "ripgrep_after": ripgrep_after,
                    "margin": margin(),
                },
            }
            finished = await run_command(
                [sys.executable, *_OPTIONS, "-c", _START, str(Path(__file__).parent)],
                folder="/",
                stdin=msgspec.json.encode(request),
                limits=Limits(time_s=time_s, memory_bytes=_MEMORY_BYTES),
                pass_fds=[start],
            )
        finally:
            os.close(start)
        return _grep_answer(_read_answer(finished, time_s), pattern)

    return [list_dir, find_files, grep]


def _open_start(workspace: Workspace, path: str, *, folder_only: bool) -> tuple[int, str]:
    """A descriptor of where a search begins, and what stands before the paths found there."""
    inside = workspace.told(path)
    try:
        start = workspace.open(path, os.O_RDONLY | (os.O_DIRECTORY if folder_only else 0))
    except OSError as error:
        raise cannot("search", path, error) from None
    mode = os.fstat(start).st_mode
    if stat.S_ISDIR(mode):
        return start, "" if inside == "." else f"{inside}/"
    if stat.S_ISREG(mode):
        return start, inside
    os.close(start)
    raise refused(f"Cannot search {truncate_repr(path, 200)}: it is neither a file nor a folder.")


def _read_glob(glob: str) -> Callable[[str], bool]:
    try:
        return compile_glob(glob)
    except ValueError as error:
        raise refused(
            f"The glob {truncate_repr(glob, 200)} cannot be used: {error}. Write one such as *.py or "
            "src/**/*.ts."
        ) from None


def _find_ripgrep(workspace: Workspace) -> str:
    """The program's path, or nothing. One from the workspace itself may be of a model's making: not run."""
    import shutil

    found = shutil.which("rg")
    if found is None or not os.path.isabs(found):
        return ""
    is_inside = any(Path(each).is_relative_to(workspace.folder) for each in (found, os.path.realpath(found)))
    return "" if is_inside else found


def _read_answer(finished: Finished, time_s: float) -> dict[str, Any]:
    match finished.ended_by:
        case "time":
            raise refused(
                f"The search took more than {time_s:g} s and was ended. Make the pattern simpler (repeats "
                "within repeats, such as (a+)+, take for ever), or give a narrower path or glob."
            )
        case "memory":
            raise refused(
                f"The search needed more than {_MEMORY_BYTES // MIB} MiB of memory and was ended. "
                "Give a simpler pattern, or a narrower path or glob."
            )
    if finished.exit_code != 0:
        last = finished.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        how = last or finished.signal or finished.ended_by
        raise ToolError(
            f"The search ended before it had an answer: {truncate(how, 200)}. Try a narrower path or glob."
        )
    answer: dict[str, Any] = msgspec.json.decode(finished.stdout)
    return answer


def _grep_answer(answer: dict[str, Any], pattern: str) -> dict[str, Any]:
    if "invalid" in answer:
        where = "" if answer["position"] is None else f" at position {answer['position']}"
        raise refused(
            f"The pattern {truncate_repr(pattern, 200)} is no regular expression of Python's re: "
            f"{answer['invalid']}"
            f"{where}. Correct it, or set fixed to true to look for it as plain text."
        )
    notes = _walk_notes(answer["is_cut_short"], answer["unreadable"])
    if answer["too_large_count"]:
        named = ", ".join(answer["too_large"])
        more = answer["too_large_count"] - len(answer["too_large"])
        notes.insert(0, f"Over 10 MiB, so not searched: {named}{f' and {more} more' if more else ''}.")
    if answer["is_stopped"]:
        notes.insert(
            0, f"There are more than these {len(answer['matches'])}. Narrow the pattern, path or glob."
        )
    return {
        "matches": [{name: _line_of(part) for name, part in each.items()} for each in answer["matches"]],
        "files_searched": answer["files"],
        **_closing(notes, truncated=answer["is_stopped"] or answer["is_cut_short"]),
    }


def _line_of(part: Any) -> Any:
    """What the search tells of a match, with the parts of long lines cut out of what surrounds them."""
    match part:
        case [str(text), int(begin), int(end), bool(before), bool(behind)]:
            return "…" * before + excerpt(text, begin, end) + "…" * behind
        case list():
            return [_line_of(each) for each in part]
    return part


def _walk_notes(is_cut_short: bool, unreadable: int) -> list[str]:
    notes: list[str] = []
    if is_cut_short:
        notes.append(
            f"Not everything was looked at: at most {MOST_ENTRIES:,} names, {MOST_DEPTH} folders deep. "
            "Begin further down."
        )
    if unreadable:
        notes.append(f"{unreadable} files or folders may not be read, and were left out.")
    return notes


def _closing(notes: list[str], *, truncated: bool) -> dict[str, Any]:
    return {"truncated": truncated, **({"note": " ".join(notes)} if notes else {})}
