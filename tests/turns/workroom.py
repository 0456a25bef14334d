"""A folder with real files, a runtime with the basic tools in it, and an assistant with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from placet import (
    Assistant,
    EventLog,
    Runtime,
    SqlApprovals,
    SqlEvents,
    SqlJournal,
    basic_tools,
    open_database,
)
from placet.inference import Scripted
from placet.inference.messages import Assistant as Said
from placet.inference.messages import Message, ToolCall, ToolResult
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from placet.turns.ending import Event

FILE_TOOLS = ("read_file", "write_file", "edit_file", "list_dir", "calculate")


def call(name: str, /, id: str = "", **arguments: Any) -> ToolCall:
    """A call as a model writes it."""
    return ToolCall(id=id, name=name, arguments=arguments)


def write(path: str, text: str, id: str = "") -> ToolCall:
    """A call that writes a file."""
    return call("write_file", id, path=path, text=text)


def spent(*calls: ToolCall, text: str = "", tokens: int | None = 10, cost: float | None = None) -> Result:
    """An answer that says what it took: so many tokens, half of them read."""
    usage = None if tokens is None else Usage(input=tokens // 2, output=tokens - tokens // 2)
    return Result(text=text, calls=calls, usage=usage, cost=cost, stop="calls" if calls else "end")


class Workroom:
    """A folder, and what is needed to let an assistant work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir(exist_ok=True)
        self.seen: list[Event] = []
        """What whoever watches was told."""

    def files(self) -> dict[str, str]:
        """Every file by its path."""
        return {
            str(path.relative_to(self.folder)): path.read_text()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    def runtime(
        self, tools: Iterable[Any] = (), *, only: Sequence[str] = FILE_TOOLS, **options: Any
    ) -> Runtime:
        """A runtime with the basic tools for this folder, and others."""
        built = basic_tools(self.folder, only=list(only))
        return Runtime(tools=tools, builtin=built, folder=str(self.folder), **options)

    def assistant(
        self,
        turns: Any,
        extra: Iterable[Any] = (),
        *,
        runtime: Runtime | None = None,
        posture: Any = "full_access",
        **options: Any,
    ) -> Assistant:
        """An assistant that may do anything, unless told otherwise, with `extra` tools."""
        model = turns if hasattr(turns, "generate") else Overheard(turns)
        return Assistant(runtime or self.runtime(extra), model, posture=posture, **options)


class Kept:
    """A database, and what is kept in it."""

    def __init__(self, path: Path) -> None:
        self.database = open_database(f"sqlite://{path}")
        self.journal = SqlJournal(self.database)
        self.approvals = SqlApprovals(self.database)
        self.records = SqlEvents(self.database)

    def parts(self) -> dict[str, Any]:
        """What a runtime is given, with a log of its own as a process would have."""
        return {"journal": self.journal, "events": EventLog(sinks=[self.records])}


@contextmanager
def kept_in(folder: Path, name: str = "placet.db") -> Iterator[Kept]:
    """A database that is closed in the end, once everything is on disk."""
    kept = Kept(folder / name)
    try:
        yield kept
    finally:
        kept.journal.close()
        kept.database.close()


class Overheard(Scripted):
    """A scripted model that also keeps the requests with the very list that the loop fills."""

    def __init__(self, turns: Any) -> None:
        super().__init__(turns)
        self.given: list[Request] = []

    async def generate(self, request: Request) -> Result:
        self.given.append(request)
        return await super().generate(request)


def asked_of(assistant: Assistant) -> list[Request]:
    """What the scripted model was asked, in order. Their messages go on to the end of the run."""
    model = assistant.model
    assert isinstance(model, Scripted)
    return model.given if isinstance(model, Overheard) else model.requests


def results(messages: Sequence[Message]) -> list[ToolResult]:
    """What the model was told of its calls."""
    return [message for message in messages if isinstance(message, ToolResult)]


def orphans(messages: Sequence[Message]) -> list[str]:
    """What is wrong with the order of calls and results: each message with calls must be followed by exactly
    one result for each, in order, with nothing between."""
    problems = []
    pending: list[str] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolResult):
            if not pending or pending.pop(0) != message.call_id:
                problems.append(f"{at}: a result of {message.call_id} that nobody waits for")
        else:
            if pending:
                problems.append(f"{at}: no result of {pending}")
            pending = [made.id for made in message.calls] if isinstance(message, Said) else []
    return problems + ([f"at the end: no result of {pending}"] if pending else [])


def of(kind: type[Any], events: Iterable[Event]) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def always(turn: Any) -> Callable[[Request], Any]:
    """A model that says the same for ever."""
    return lambda _: turn
