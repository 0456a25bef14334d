"""replace_function, replace_lines, apply_patch: changes to code that a small model can get right.

Keep true:
1. What is not named stays byte for byte: encoding, line ends, tabs.
2. All of a patch is written, or nothing.
3. What cannot be done says why, what the file has, and what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from placet.errors import ToolError, UsageError
from placet.ir.json_value import JsonValue
from placet.sandbox.refusals import refused, shown
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.changes import Change, is_there, write_changes
from placet.tools.builtin.definition import Replaced, replace_definition
from placet.tools.builtin.files import (
    PathText,
    Refuse,
    as_crlf,
    changed_bytes,
    check_allowed,
    confined_to,
    decoded_text,
    read_text,
    replace_text,
)
from placet.tools.builtin.hunks import Budget, Fit, apply_fits, fit_hunks, split_lines
from placet.tools.builtin.patch import FilePatch, parse_patch
from placet.tools.builtin.preview import previewing
from placet.tools.builtin.syntax import syntax_problem
from placet.tools.builtin.text_file import MOST_BYTES, Encoding
from placet.tools.tool import Tool, tool
from placet.truncation import truncate

_BOM = "\ufeff"
_CONTEXT = 2
_EXCERPT_LINES = 30
_EXCERPT_LETTERS = 160
_HUNKS_TOLD = 20
_FILES_TOLD = 20


def code_tools(
    workspace: Workspace, *, refuse: Refuse | None = None, only: Sequence[str] | None = None
) -> list[Tool]:
    """replace_function, replace_lines and apply_patch for the files of one workspace.

    `refuse` says which files are not to be written; `only` names the tools that are wanted.

    Raises:
        UsageError: `only` names a tool that is not there.
    """

    @tool(risk="destructive", labels=("confined",))
    def replace_function(
        path: PathText,
        name: Annotated[
            str, Meta(description="Which function, method or class: `name`, or `Class.method` for a method.")
        ],
        source: Annotated[
            str, Meta(description="Its whole new source, from `def` or `class` on, and nothing else.")
        ],
    ) -> dict[str, JsonValue]:
        """Replace a whole function, method or class of a Python file by new source. Everything else stays.
        Indentation is adapted; decorators are kept unless the source has some."""
        check_allowed(workspace, path, refuse)
        return _replace_function(workspace, path, name, source)

    @tool(risk="destructive", labels=("confined",))
    def replace_lines(
        path: PathText,
        first: Annotated[
            int, Meta(ge=1, description="The first line to replace; 1 is the first of the file.")
        ],
        last: Annotated[
            int, Meta(ge=0, description="The last line to replace; first - 1 puts the text before `first`.")
        ],
        text: Annotated[str, Meta(description="The new lines, with their indentation; empty to delete.")],
    ) -> dict[str, JsonValue]:
        """Replace lines of a text file by their numbers. Numbers change with every edit: read them again."""
        check_allowed(workspace, path, refuse)
        return _replace_lines(workspace, path, first, last, text)

    @tool(risk="destructive", labels=("confined",))
    def apply_patch(
        patch: Annotated[
            str,
            Meta(
                description="A unified diff: ---, +++ and @@ lines, then lines that begin with ' ', - or +."
            ),
        ],
    ) -> dict[str, JsonValue]:
        """Change, create or delete files with a unified diff. All of it is applied or nothing. Wrong line
        numbers do no harm as long as the lines themselves are as in the file."""
        return _apply_patch(workspace, patch, refuse)

    def plan_function(path: str, name: str, source: str) -> list[Change]:
        check_allowed(workspace, path, refuse)
        return _planned(workspace, path, lambda text: _with_function(path, text, name, source)[0].text)

    def plan_lines(path: str, first: int, last: int, text: str) -> list[Change]:
        check_allowed(workspace, path, refuse)
        return _planned(workspace, path, lambda old: _with_lines(path, old, first, last, text)[0])

    def plan_patch(patch: str) -> list[Change]:
        return _changes(_plan_patch(workspace, patch, refuse))

    replace_function.preview = previewing(plan_function, shows=("source",))
    replace_lines.preview = previewing(plan_lines, shows=("text",))
    apply_patch.preview = previewing(plan_patch, shows=("patch",))
    made: list[Tool] = [replace_function, replace_lines, apply_patch]
    for each in made:
        each.confined_to = str(workspace.folder)
        each.confinement = confined_to(workspace)
    names = [each.name for each in made]
    if only is not None and (unknown := [name for name in only if name not in names]):
        raise UsageError(f"'{unknown[0]}' is no code tool. There are: {', '.join(names)}.")
    return [each for each in made if only is None or each.name in only]


def _planned(workspace: Workspace, path: str, changed: Callable[[str], str]) -> list[Change]:
    """What becomes of one file whose text is changed."""
    before = workspace.read_bytes(path, MOST_BYTES)
    text, encoding = decoded_text(path, before)
    after = changed_bytes(path, changed(text), encoding)
    return [Change(path=workspace.relative(path), before=before, after=after)]


def _replace_function(workspace: Workspace, path: str, name: str, source: str) -> dict[str, JsonValue]:
    with workspace.lock:
        text, encoding, was = read_text(workspace, path)
        done, problem = _with_function(path, text, name, source)
        written = replace_text(workspace, path, done.text, encoding, was)
    first = done.text.count("\n", 0, done.start)
    last = done.text.count("\n", 0, max(done.end - 1, done.start))
    return _answer(written.path, done.text, first, last, {"name": done.name}, problem)


def _with_function(path: str, text: str, name: str, source: str) -> tuple[Replaced, str]:
    """A text with another source of a definition, and what is wrong with its syntax, as it was before.

    Raises:
        ToolError: it does not fit, or breaks the file.
    """
    done = replace_definition(path, text, name, source)
    if done.text == text:
        raise refused(f"`{done.name}` in {shown(path)} is the same already; there is nothing to change.")
    problem = syntax_problem(path, done.text)
    if problem and not syntax_problem(path, text):
        raise refused(f"With the new source {shown(path)} would break; nothing was written. {problem}")
    return done, problem


def _replace_lines(workspace: Workspace, path: str, first: int, last: int, new: str) -> dict[str, JsonValue]:
    with workspace.lock:
        text, encoding, was = read_text(workspace, path)
        changed, new = _with_lines(path, text, first, last, new)
        written = replace_text(workspace, path, changed, encoding, was)
    added = len(split_lines(new))
    counts: dict[str, JsonValue] = {"removed": last - first + 1, "added": added}
    problem = syntax_problem(path, changed)
    return _answer(written.path, changed, first - 1, first - 2 + added, counts, problem)


def _with_lines(path: str, text: str, first: int, last: int, new: str) -> tuple[str, str]:
    """A text with other lines, and those lines with the ends that they get there.

    Raises:
        ToolError: there are no such lines, or they are the same already.
    """
    if last < first - 1:
        raise refused(f"The last line, {last}, is before the first, {first}.")
    lines = split_lines(text)
    if last > len(lines) or first > len(lines) + 1:
        raise refused(
            f"The file {shown(path)} has {len(lines):,} lines; there is no line {max(first, last):,}."
        )
    is_crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    new = as_crlf(new) if is_crlf else new
    line_end = "\r\n" if is_crlf else "\n"
    is_ended = last < len(lines) or (last >= first and lines[last - 1].endswith("\n")) or first > last
    if new and is_ended and not new.endswith("\n"):
        new += line_end
    before = lines[: first - 1]
    if new and before and not before[-1].endswith("\n"):
        before[-1] += line_end
    changed = "".join([*before, new, *lines[last:]])
    if changed == text:
        raise refused(f"These lines of {shown(path)} are so already; there is nothing to change.")
    return changed, new


def _answer(
    path: str, text: str, first: int, last: int, more: dict[str, JsonValue], problem: str
) -> dict[str, JsonValue]:
    answer: dict[str, JsonValue] = {"path": path, **more, "excerpt": _excerpt(text, first, last)}
    return {**answer, "syntax": problem} if problem else answer


def _excerpt(text: str, first: int, last: int) -> str:
    """Some lines, counted from 0, and two around them on each side, each with its number from 1 on."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    begin, end = max(first - _CONTEXT, 0), min(last + 1 + _CONTEXT, len(lines))
    numbers = list(range(begin, end))
    rows = [f"{at + 1}: {truncate(lines[at], _EXCERPT_LETTERS)}".rstrip("\r") for at in numbers]
    if len(rows) > _EXCERPT_LINES:
        half = _EXCERPT_LINES // 2
        rows[half:-half] = [f"… {len(rows) - 2 * half} lines"]
    return "\n".join(rows)


def _apply_patch(workspace: Workspace, patch: str, refuse: Refuse | None) -> dict[str, JsonValue]:
    with workspace.lock:
        planned = _plan_patch(workspace, patch, refuse)
        write_changes(workspace, _changes(planned))
    answer: dict[str, JsonValue] = {"files": [_told(each) for each in planned[:_FILES_TOLD]]}
    if len(planned) > _FILES_TOLD:
        answer["more_files"] = len(planned) - _FILES_TOLD
    return answer


def _plan_patch(workspace: Workspace, patch: str, refuse: Refuse | None) -> list[_Planned]:
    """What a patch does to each file.

    Raises:
        ToolError: it cannot be read, does not fit, or changes nothing.
    """
    files = parse_patch(patch)
    budget = Budget()
    planned: list[_Planned] = []
    for each in files:
        path = _path_of(workspace, each)
        if any(other.path == path for other in planned):
            raise refused(f"Nothing was written: the patch has {shown(path)} twice. Make one of both.")
        planned.append(_plan(workspace, path, each, budget, refuse))
    if any(not each.is_sound for each in planned):
        raise _does_not_fit(planned)
    if all(each.before == each.after for each in _changes(planned)):
        raise refused("The patch changes nothing: what it removes is what it adds.")
    return planned


def _changes(planned: Sequence[_Planned]) -> list[Change]:
    return [each.change for each in planned if each.change is not None]


class _Planned(msgspec.Struct, kw_only=True):
    """What a patch does to one file, before anything is done."""

    path: str
    fits: list[Fit] = []
    problem: str = ""
    """What is wrong besides hunks that do not fit."""
    text: str = ""
    changed: str = ""
    change: Change | None = None

    @property
    def is_sound(self) -> bool:
        return not self.problem and not any(fit.problem for fit in self.fits)


def _path_of(workspace: Workspace, file: FilePatch) -> str:
    """The file that is meant; where both names differ, the one that is there."""
    old, new = (workspace.relative(name) if name else "" for name in (file.old, file.new))
    if not old or not new or old == new:
        return new or old
    there = [name for name in (old, new) if is_there(workspace, name)]
    if len(there) == 1:
        return there[0]
    raise refused(
        f"Nothing was written: the patch has one file under two names, {shown(old)} and {shown(new)}. Write "
        "the same name behind --- and +++."
    )


def _plan(
    workspace: Workspace, path: str, file: FilePatch, budget: Budget, refuse: Refuse | None
) -> _Planned:
    plan = _Planned(path=path)
    try:
        check_allowed(workspace, path, refuse)
        exists = is_there(workspace, path)
        if exists and file.kind == "create":
            raise refused(f"The file {shown(path)} exists already. Change it, or choose another name.")
        before, was = None, None
        encoding: Encoding = "utf-8"
        if exists or file.kind == "delete" or any(hunk.old for hunk in file.hunks):
            before, was = workspace.read(path, MOST_BYTES)
            plan.text, encoding = decoded_text(path, before)
        lines = (line for hunk in file.hunks for _, line in hunk.lines)
        if encoding == "utf-8 with BOM" and any(line.startswith(_BOM) for line in lines):
            # As programs make it that take the mark for a character of the first line.
            plan.text, encoding = _BOM + plan.text, "utf-8"
        plan.fits = fit_hunks(plan.text, file.hunks, budget)
        if not plan.is_sound:
            return plan
        plan.changed = apply_fits(plan.text, plan.fits)
        after = None
        if file.kind != "delete":
            after = _encoded(path, plan.changed, encoding)
        elif plan.changed:
            raise refused(f"The patch deletes {shown(path)} but does not hold all of its lines.")
        plan.change = Change(path=path, before=before, was=was, after=after)
    except ToolError as error:
        plan.problem = str(error)
    return plan


def _encoded(path: str, text: str, encoding: Encoding) -> bytes:
    if encoding == "utf-8" and text.startswith(_BOM):
        return changed_bytes(path, text.removeprefix(_BOM), "utf-8 with BOM")
    return changed_bytes(path, text, encoding)


def _does_not_fit(planned: Sequence[_Planned]) -> ToolError:
    """What is wrong with each file and each hunk; what fits is told too, so that it is not changed again."""
    bad: list[str] = []
    good: list[str] = []
    for each in planned:
        if each.problem:
            bad.append(f"{shown(each.path)}: {each.problem}")
        for number, fit in enumerate(each.fits, 1):
            where = f"{shown(each.path)}, hunk {number} ({fit.hunk.header})"
            if fit.problem:
                bad.append(f"{where} does not fit: {fit.problem}")
            else:
                good.append(f"{where} fits on line {fit.at + 1}.")
    rows = [*bad, *good]
    left = len(rows) - _HUNKS_TOLD
    more = [f"… and {left} more."] if left > 0 else []
    return refused("\n".join(["Nothing was written: the patch does not fit.", *rows[:_HUNKS_TOLD], *more]))


def _told(plan: _Planned) -> dict[str, JsonValue]:
    assert plan.change is not None
    told: dict[str, JsonValue] = {"path": plan.path, "change": "modified"}
    if plan.change.after is None:
        return {**told, "change": "deleted"}
    if plan.change.before is None:
        told["change"] = "created"
    if notes := [f"Hunk {at}: {fit.note}." for at, fit in enumerate(plan.fits, 1) if fit.note]:
        told["notes"] = list(notes[:_HUNKS_TOLD])
    first, last = _difference(split_lines(plan.text), split_lines(plan.changed))
    told["excerpt"] = _excerpt(plan.changed, first, last)
    if problem := syntax_problem(plan.path, plan.changed):
        told["syntax"] = problem
    return told


def _difference(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """The first and the last of the new lines that differ, counted from 0."""
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    same = next((at for at in range(most - first) if old[-1 - at] != new[-1 - at]), most - first)
    return first, len(new) - 1 - same
