"""Where coding sessions are kept, and what is asked and wanted of them meanwhile.

Keep true:
1. A session is written by whoever holds its run, and by nobody else.
2. A question is answered once, and only as long as somebody waits.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from placet.coder.session import Question, Session, State
from placet.errors import UsageError
from placet.truncation import truncate


class Sessions(Protocol):
    """Protocol of stores of coding sessions. Calls that write wait for the disk."""

    def put(self, session: Session) -> None:
        """Store a session as it is now.

        Args:
            session: The session.
        """
        ...

    def get(self, session: str) -> Session | None:
        """Return the session with an id, or `None`.

        Args:
            session: Id of the session.
        """
        ...

    def find(self, prefix: str) -> Session:
        """Return the session whose id is, or starts with, a text.

        Args:
            prefix: The id, or its beginning.

        Raises:
            UsageError: there is none, or there are several.
        """
        ...

    def listed(self, *, state: State | None = None, limit: int = 50) -> list[Session]:
        """Return the newest sessions, newest first.

        Args:
            state: Only those in this state.
            limit: Maximum number.
        """
        ...

    def ask(self, question: Question) -> Question:
        """Store a question. If the id is in use, return the stored question.

        Args:
            question: The question.
        """
        ...

    def question(self, question: str) -> Question | None:
        """Return the question with an id, or `None`.

        Args:
            question: Id of the question.
        """
        ...

    def questions(self, session: str | None = None) -> list[Question]:
        """Return the open questions, oldest first.

        Args:
            session: Only those of this session.
        """
        ...

    def answer(self, question: str, text: str, by: str) -> Question:
        """Answer a question.

        Args:
            question: Id of the question.
            text: The answer.
            by: Who answers.

        Raises:
            UsageError: there is no such question, it was answered, or it has expired.
        """
        ...


class NoSession(UsageError):
    """No coding session has an id that begins like this."""


def only_one(found: Sequence[Session], prefix: str) -> Session:
    """The one that is meant.

    Raises:
        NoSession: there is none.
        UsageError: there are several.
    """
    if not found:
        raise NoSession(f"There is no coding session '{truncate(prefix, 80)}'. See `placet code list`.")
    if len(found) > 1:
        names = ", ".join(each.id for each in found[:5])
        raise UsageError(
            f"Several coding sessions begin with '{truncate(prefix, 80)}': {names}. Write more of it."
        )
    return found[0]


def answered(question: Question | None, named: str, text: str, by: str, now: float) -> Question:
    """The question with its answer.

    Raises:
        UsageError: it cannot be answered.
    """
    if question is None:
        raise UsageError(f"There is no question '{truncate(named, 80)}'. See `placet code show`.")
    if question.answer is not None:
        raise UsageError(f"Question '{question.id}' was answered before, by {question.by}.")
    if now > question.until:
        raise UsageError(
            f"Nobody waits for an answer to question '{question.id}' any longer: the model was told to go on."
        )
    if not text.strip():
        raise UsageError("An answer has at least one word.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("The answer is no valid text, so it cannot be kept.") from None
    return msgspec.structs.replace(question, answer=text, by=by, answered_at=now)


class MemorySessions:
    """A store for one process. Safe to use from any thread."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._questions: dict[str, Question] = {}
        self._lock = threading.Lock()

    def put(self, session: Session) -> None:
        """Keep it as it is now."""
        with self._lock:
            self._sessions[session.id] = copy.deepcopy(session)

    def get(self, session: str) -> Session | None:
        """The session with that id."""
        with self._lock:
            return copy.deepcopy(self._sessions.get(session))

    def find(self, prefix: str) -> Session:
        """The session whose id is, or begins with, `prefix`."""
        exact = self.get(prefix)
        if exact is not None:
            return exact
        found = [each for each in self.listed(limit=1_000_000) if prefix and each.id.startswith(prefix)]
        return only_one(found, prefix)

    def listed(self, *, state: State | None = None, limit: int = 50) -> list[Session]:
        """The newest, newest first."""
        with self._lock:
            found = [each for each in self._sessions.values() if state is None or each.state == state]
            found.sort(key=lambda each: (each.created_at, each.id), reverse=True)
            return copy.deepcopy(found[:limit])

    def ask(self, question: Question) -> Question:
        """Put a question."""
        with self._lock:
            return self._questions.setdefault(question.id, question)

    def question(self, question: str) -> Question | None:
        """The question with that id."""
        with self._lock:
            return self._questions.get(question)

    def questions(self, session: str | None = None) -> list[Question]:
        """Those that wait for an answer, oldest first."""
        now = self._clock()
        with self._lock:
            waiting = [q for q in self._questions.values() if q.answer is None and q.until >= now]
        found = [q for q in waiting if session is None or q.session == session]
        return sorted(found, key=lambda q: (q.asked_at, q.id))

    def answer(self, question: str, text: str, by: str) -> Question:
        """Answer one."""
        with self._lock:
            done = answered(self._questions.get(question), question, text, by, self._clock())
            self._questions[done.id] = done
            return done
