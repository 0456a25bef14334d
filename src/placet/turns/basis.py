"""On which calls an answer rests, and whether a call did what the task needs.

Keep true: this follows from calls alone. What the model says about them is never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from placet.ir.ending import CallKind
from placet.ir.result import ExitCode, is_nonzero
from placet.ir.tool_spec import ToolSchema
from placet.tools.registry import Registry
from placet.turns.listing import list_names
from placet.turns.memory import LOAD_SKILL
from placet.turns.symbols import defined_symbols, symbols_in
from placet.turns.task_route import Route, route, spelled_in

_NO_LOOK = frozenset({"calculate", "now", "sleep", "write_file", LOAD_SKILL})
"""Tools whose results say nothing about the workspace."""
_FILE_EDITS = frozenset({"write_file", "edit_file"})
_MODEL_LABEL = "model"
_LOOKS = ("read_only", "network")
_FOLDER_TOOLS = ("read_file", "list_dir", "find_files", "grep", "write_file", "edit_file", "shell")
_DID_NOT: dict[CallKind, str] = {
    "reading": "looked at the workspace",
    "writing": "changed anything",
    "running": "ran a command",
}


class Basis:
    """The successful calls of one message, by what they did."""

    __slots__ = ("changed", "did", "looked", "ran")

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.changed: list[str] = []
        self.ran: list[str] = []
        self.did: set[CallKind] = set()

    def take(self, action_id: str, tool: str, schema: ToolSchema | None, exit_code: ExitCode) -> None:
        """Count a call that succeeded."""
        if schema is not None and schema.has_exit_code:
            self.ran.append(action_id)
            # A command that failed ran, and nobody knows what else it did.
            self.did |= {"running"} if is_nonzero(exit_code) else {"reading", "writing", "running"}
            return
        is_look = schema is not None and schema.risk in _LOOKS
        (self.looked if is_look else self.changed).append(action_id)
        if tool not in _NO_LOOK and (schema is None or _MODEL_LABEL not in schema.labels):
            self.did.add("reading")
        if not is_look:
            self.did.add("writing")
            if tool not in _FILE_EDITS:
                self.did.add("running")

    def lacks(self, needs: Sequence[CallKind]) -> tuple[CallKind, ...]:
        """What is needed and was not done."""
        return tuple(kind for kind in needs if kind not in self.did)


def lacks_words(lacks: Sequence[CallKind]) -> str:
    """Why an answer is not supported.

    >>> lacks_words(["reading"])
    'the task needs it, but no successful call looked at the workspace'
    """
    return f"the task needs it, but no successful call {' or '.join(_DID_NOT[kind] for kind in lacks)}"


class Router:
    """The route of the newest task that the person typed, in one folder.

    The loop says what was typed; whoever guides the model reads the route. What others wrote into a message,
    such as a mail that the task is about, has no say in what is read.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._task = ""
        self._route: Route | None = None

    def hear(self, task: str) -> None:
        """A person's new task."""
        self._task = task
        self._route = None

    @property
    def route(self) -> Route:
        """The route of the task, in the folder as it was when somebody first asked."""
        if self._route is None:
            self._route = self._classed(self._task) if self._task.strip() else Route()
        return self._route

    def _classed(self, task: str) -> Route:
        names = list_names(self._folder, spelled_in(task))
        symbols = defined_symbols(self._folder, names.files, symbols_in(task))
        return route(task, names._replace(symbols=symbols))


def router_for(tools: Registry, offered: Sequence[str]) -> Router | None:
    """What classes tasks where these tools are offered; None where none of them works in a folder."""
    for name in _FOLDER_TOOLS:
        tool = tools.get(name) if name in offered else None
        if tool is not None and tool.confined_to is not None:
            return Router(tool.confined_to)
    return None
