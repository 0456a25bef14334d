"""Equal calls answered once.

Keep true:
1. Failures are not remembered.
2. Other proposals see an answer only once its own proposal has ended without aborting.
3. What is remembered is bounded.
"""

from __future__ import annotations

from asyncio import Future
from collections import OrderedDict
from typing import NamedTuple

from placet.ir.action import Action
from placet.ir.json_value import JsonValue, canonical_bytes, copy_json

CallKey = tuple[str | None, str, bytes]
"""Tenant, tool, and the parameters with their keys sorted."""


def call_key(tenant: str | None, action: Action) -> CallKey:
    """What makes two calls equal."""
    return tenant, action.tool or "", canonical_bytes(action.parameters)


class Answer(NamedTuple):
    """An output, and the action that earned it."""

    action_id: str
    output: JsonValue


class AnswerBook:
    """Answers that every later proposal may use; the oldest go first when it is full."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._answers: OrderedDict[CallKey, Answer] = OrderedDict()

    def get(self, key: CallKey) -> Answer | None:
        """An earlier answer to an equal call."""
        found = self._answers.get(key)
        if found is not None:
            self._answers.move_to_end(key)
        return found

    def adopt(self, page: AnswerPage) -> None:
        """Take over what a proposal learned, now that it has ended unaborted."""
        for key, answer in page.answers.items():
            self._answers[key] = answer
            self._answers.move_to_end(key)
        while len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._answers.clear()


class AnswerPage:
    """Answers within one running proposal, and calls still in flight."""

    def __init__(self, book: AnswerBook) -> None:
        self._book = book
        self.answers: dict[CallKey, Answer] = {}
        self.lasting: dict[CallKey, tuple[JsonValue, float]] = {}
        """For the result cache, with seconds to live: held back while the effect may still be undone."""
        self._in_flight: dict[CallKey, list[Future[None]]] = {}

    def get(self, key: CallKey) -> Answer | None:
        """An answer from this proposal, or from an earlier one."""
        return self.answers.get(key) or self._book.get(key)

    def is_in_flight(self, key: CallKey) -> bool:
        """Whether an equal call has begun and not ended."""
        return key in self._in_flight

    def begin(self, key: CallKey) -> None:
        """This call is the one that equal ones wait for."""
        self._in_flight[key] = []

    def wait(self, key: CallKey, waiter: Future[None]) -> None:
        """Wake `waiter` when the call in flight has ended."""
        self._in_flight[key].append(waiter)

    def end(self, key: CallKey, answer: Answer | None) -> None:
        """The call in flight has ended, with an answer or without."""
        if answer is not None:
            # A copy, as is whatever is answered from it: a result belongs to whoever gets it.
            self.answers[key] = answer._replace(output=copy_json(answer.output))
        for waiter in self._in_flight.pop(key, ()):
            if not waiter.done():
                waiter.set_result(None)
