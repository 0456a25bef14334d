"""What a call would change in files, for whoever is asked about it: in a terminal, or by another process.

Keep true:
1. Only for Placet's own file tools, as the runtime that asked knew them: a tool of that name may be another.
2. What waits is compared with the files as they are now; what was decided is shown as it was asked.
3. Finding out changes nothing and never raises: where it cannot be told, what was asked stands.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.approvals.approval import Approval
    from placet.ir.call_facts import Preview


class Change(NamedTuple):
    """What becomes of files."""

    heading: str
    diff: str
    """Empty where nothing would change, and the heading says why."""
    shows: frozenset[str] = frozenset()
    """Parameters that the diff shows in full."""


def preview_now(asked: Approval, redact: Callable[[str], str]) -> Preview | None:
    """What a call would change in the files as they are now; None where that cannot be told here."""
    from placet.errors import UsageError
    from placet.sandbox.workspace import Workspace
    from placet.storage.location import config_folder, user_folder
    from placet.tools.builtin.code import code_tools
    from placet.tools.builtin.files import file_tools

    if asked.edit is None or asked.secret:
        return None
    closed = [config_folder(os.environ), user_folder(os.environ)]
    try:
        workspace = Workspace(asked.edit.folder, closed=closed)
    except UsageError:
        return None  # It may lie on another machine, or be gone.
    try:
        tools = (*file_tools(workspace), *code_tools(workspace))
        found = next((each for each in tools if each.name == asked.tool), None)
        if found is None or found.preview is None:
            return None
        return found.preview(asked.parameters, redact)
    finally:
        workspace.close()


def change_of(asked: Approval, seen: Preview | None, *, is_redacted: bool = True) -> Change | None:
    """What is shown of a change. `seen` is what it would be now; None of what is decided, or cannot be told.
    None of a call that is no edit of files."""
    edit = asked.edit
    if edit is None:
        return None
    if seen is None:
        if asked.preview:
            heading = (
                f"what would change in {_names(edit.paths)}{_counts(asked.preview)}, as of when it was asked"
            )
            return Change(heading, asked.preview, frozenset(edit.shows))
        return None
    if not seen.diff:
        return Change(f"nothing would change as it is now: {seen.problem or 'the text stays the same'}", "")
    is_other = is_redacted and asked.preview is not None and asked.preview != seen.diff
    since = " (not the same as when it was asked: the file has changed)" if is_other else ""
    heading = f"what would change in {_names(seen.paths)}{_counts(seen.diff)}, as it is now{since}"
    return Change(heading, seen.diff, frozenset(seen.shows))


def _names(paths: Sequence[str]) -> str:
    from placet.safe_text import clean

    return clean(paths[0], 80) if len(paths) == 1 else f"{len(paths):,} files"


def _counts(diff: str) -> str:
    from placet.render.diff import diff_counts

    added, removed = diff_counts(diff)
    return f" (+{added:,} -{removed:,})"
