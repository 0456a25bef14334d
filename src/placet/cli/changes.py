"""What a call would change in a file, found out before anybody is asked about it.

Keep true:
1. Only for our own file tools: what another tool of that name does is not known here.
2. The file is read through the workspace, which keeps every path beneath its folder.
3. Finding out never raises: where it cannot be told, the parameters stand for themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from placet.app.app import App
    from placet.approvals.approval import Approval
    from placet.ir.json_value import JsonValue
    from placet.redaction import Redactor
    from placet.sandbox.workspace import Workspace

_MOST_READ = 2**20
"""Bytes of a file that is compared."""


class Change(NamedTuple):
    """What becomes of a file."""

    heading: str
    text: str
    """Lines that go and come; empty where nothing is to be seen."""
    told: frozenset[str]
    """The parameters of which it says all."""


def change_of(asked: Approval, app: App) -> Change | None:
    """What a call of write_file or edit_file would change in a file that is there; None where that cannot be
    told."""
    tool = app.runtime.tools.get(asked.tool)
    if tool is None or getattr(tool.fn, "__module__", "") != "placet.tools.builtin.files":
        return None
    if {"text", "old", "new", "path"} & set(asked.secret):
        return None
    return _compared(asked.tool, asked.parameters, app.workspace, app.redactor)


def _compared(
    tool: str, parameters: Mapping[str, JsonValue], workspace: Workspace, redactor: Redactor
) -> Change | None:
    from placet.errors import PlacetError
    from placet.render.preview import difference
    from placet.safe_text import clean
    from placet.tools.builtin.text_file import decode

    path = parameters.get("path")
    if not isinstance(path, str):
        return None
    try:
        decoded = decode(workspace.read_bytes(path, _MOST_READ))
    except (PlacetError, OSError, ValueError):
        return None
    if decoded is None:
        return None
    old = decoded[0]
    new = parameters.get("text") if tool == "write_file" else _edited(old, parameters)
    if not isinstance(new, str):
        return None
    # Each as a whole: of a part it may not be seen that it is a secret.
    found = difference(redactor.text(old), redactor.text(new))
    if found is None:
        return None
    told = frozenset({"text"} if tool == "write_file" else {"old", "new"})
    name = clean(path, 80)
    if not found:
        return Change(f"{name} is there, and its text would stay as it is", "", told)
    return Change(f"what would change in {name}, as it is now", found, told)


def _edited(text: str, parameters: Mapping[str, JsonValue]) -> str | None:
    """The text after an edit; None where the edit does not fit."""
    old, new = parameters.get("old"), parameters.get("new")
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        return None
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        # As the tool does: in such a file models mean its own line ends.
        old, new = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new))
    found = text.count(old)
    is_all = parameters.get("replace_all") is True
    if found == 0 or (found > 1 and not is_all):
        return None
    if len(text) + found * (len(new) - len(old)) > _MOST_READ:
        return None
    return text.replace(old, new)
