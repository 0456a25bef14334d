"""W3C trace context: which trace a run belongs to, and by which names its spans are exported.

A run has a trace id of its own, which the log uses. Where a caller brings a `traceparent`, the spans of the
run are exported into the caller's trace; their ids are those of the log.

Keep true:
1. A text that is no traceparent is no context: it is ignored, as W3C asks, and never an error.
2. Names of spans depend on the run and what the span is, never on a clock: a tool is handed the id under
   which its span is exported later.
3. Reading the environment is for whoever starts a program: `placet` does, importing this does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import blake2b
from typing import NamedTuple

_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_LATER_FORM = re.compile(_FORM.pattern + r"(-.*)?")
_SAMPLED = 0x01
_CURRENT: ContextVar[str | None] = ContextVar("placet_traceparent", default=None)


class Traceparent(NamedTuple):
    """A span of some program, as W3C trace context names it."""

    trace_id: str
    """Id of the trace, 32 hex digits."""
    span_id: str
    """Id of the span, 16 hex digits."""
    sampled: bool = True
    """Whether the caller exports the trace."""

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.sampled else 0:02x}"


def parse_traceparent(text: object) -> Traceparent | None:
    """Read the value of a `traceparent` header; None if it is none.

    >>> parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").span_id
    'b7ad6b7169203331'
    >>> parse_traceparent("00-00000000000000000000000000000000-b7ad6b7169203331-01") is None
    True
    """
    if not isinstance(text, str) or len(text) > 512:
        return None
    form = _FORM if text.startswith("00-") else _LATER_FORM
    found = form.fullmatch(text.strip())
    if found is None:
        return None
    return Traceparent(found[2], found[3], bool(int(found[4], 16) & _SAMPLED))


def current_traceparent() -> str | None:
    """Return the traceparent under which work is done here: of the run whose code this is, or of whoever
    started the program; `None` if there is no trace. Send it along with work that is done elsewhere, and
    continue there with `join_trace`."""
    return _CURRENT.get()


@contextmanager
def join_trace(traceparent: object) -> Iterator[None]:
    """Context manager: runs that begin inside belong to the trace of a caller.

    Args:
        traceparent: A W3C `traceparent`. `None`, or what is none, changes nothing.
    """
    found = parse_traceparent(traceparent)
    if found is None:
        yield
        return
    token = _CURRENT.set(str(found))
    try:
        yield
    finally:
        # A generator may be closed in another context than it was begun in; that one has its own value.
        with suppress(ValueError):
            _CURRENT.reset(token)


class TraceContext(NamedTuple):
    """How the spans of one run are exported, as long as one process works on it."""

    own: str
    """Trace id of the run in the log."""
    parent: Traceparent | None = None
    """The caller's span."""
    stretch: str = ""
    """Tells apart what a resumed run does from what it did before; empty until it is resumed."""
    sampled: bool = True
    """Whether the spans are exported."""

    @property
    def trace_id(self) -> str:
        """Trace id in what is exported."""
        return self.own if self.parent is None else self.parent.trace_id

    @property
    def run_span(self) -> str:
        """Id of the span of the run itself."""
        return self.own[16:] if not self.stretch else self._made("run")

    def span(self, span_id: str) -> str:
        """Return the id under which a span of the log is exported: its own, until the run is resumed.

        Args:
            span_id: Id of the span in the log.
        """
        return span_id if not self.stretch else self._made(span_id)

    def made(self, name: str) -> str:
        """Return an id for a span that the log has no id for.

        Args:
            name: Tells it apart from the others of the run.
        """
        return self._made(name)

    def _made(self, name: str) -> str:
        return blake2b(f"{self.own} {self.stretch} {name}".encode(), digest_size=8).hexdigest()

    def traceparent(self, span_id: str) -> str:
        """Return the traceparent for whatever works below an exported span.

        Args:
            span_id: Id of the exported span.
        """
        return str(Traceparent(self.trace_id, span_id, self.sampled))
