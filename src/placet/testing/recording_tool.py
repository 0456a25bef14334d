"""A tool that remembers its calls and does what it was told beforehand.

Keep true:
1. A call is written down before anything else happens, so one that hangs or fails is seen too.
2. Answers are given in the order of the calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from placet.errors import UsageError
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema
from placet.tools.context import ToolContext
from placet.tools.tool import Tool


class _Hang:
    def __repr__(self) -> str:
        return "HANG"


class RecordingTool(Tool[..., Any]):
    """A tool that accepts any parameters and records its calls.

    >>> mail = RecordingTool("mail.send", answers=[ConnectionError("no route")], default={"sent": True})
    >>> mail.calls, mail.schema.risk
    ([], 'destructive')
    """

    HANG: Final = _Hang()
    """An answer that never comes."""

    def __init__(
        self,
        name: str,
        *,
        answers: Iterable[Any] = (),
        default: Any = None,
        runs: Literal["async", "thread", "cheap"] = "async",
        timeout_ms: int | None = None,
        **schema: Any,
    ) -> None:
        """Create the tool.

        Args:
            name: Name of the tool.
            answers: Answers, one per call: an exception is raised, `HANG` never returns, anything else is
                returned.
            default: The answer once `answers` are used up.
            runs: Kind of function: a coroutine, or a plain function in a thread or inline.
            timeout_ms: Time limit of each attempt in milliseconds.
            schema: Further fields of `ToolSchema`, such as `risk`.

        Raises:
            UsageError: it would hang inline, where nothing could stop it.
        """
        self.calls: list[dict[str, JsonValue]] = []
        """The parameters of every call, oldest first."""
        self.contexts: list[ToolContext | None] = []
        """The context of every call, oldest first."""
        self.in_flight: int = 0
        """How many calls are running now."""
        self.most_in_flight: int = 0
        """The largest number of calls that ran at the same time."""
        self._answers = list(answers)
        self._default = default
        self._lock = threading.Lock()
        self._released = threading.Event()
        if runs == "cheap" and any(answer is self.HANG for answer in (*self._answers, default)):
            raise UsageError(f"RecordingTool '{name}' is cheap, so it runs inline and must not hang.")
        super().__init__(
            schema=ToolSchema(name=name, **schema),
            fn=self._answer_async if runs == "async" else self._answer,
            cheap=runs == "cheap",
            timeout_ms=timeout_ms,
            context_parameter="context",
            takes_object=True,
        )

    def release(self) -> None:
        """End the calls that hang in threads, and let none hang from now on."""
        self._released.set()

    async def _answer_async(
        self, parameters: dict[str, JsonValue], *, context: ToolContext | None = None
    ) -> Any:
        with self._at_work(parameters, context) as answer:
            if answer is self.HANG:
                await asyncio.get_running_loop().create_future()
            return _given(answer)

    def _answer(self, parameters: dict[str, JsonValue], *, context: ToolContext | None = None) -> Any:
        with self._at_work(parameters, context) as answer:
            if answer is self.HANG:
                self._released.wait()
                return None
            return _given(answer)

    @contextmanager
    def _at_work(self, parameters: dict[str, JsonValue], context: ToolContext | None) -> Iterator[Any]:
        with self._lock:
            self.calls.append(parameters)
            self.contexts.append(context)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            answer = self._answers.pop(0) if self._answers else self._default
        try:
            yield answer
        finally:
            with self._lock:
                self.in_flight -= 1


def _given(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer
