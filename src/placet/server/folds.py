"""The views of runs that somebody looks at, each brought up to date by reading only what is new in the log.

Keep true:
1. A view that is handed out is that of every event up to its `seq`, and nobody changes it meanwhile.
2. Only a few views are held: whoever looks at many runs costs no more memory than whoever looks at these.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from placet.app.run_export import extend_fold, planned_fold
from placet.events.run_view import RunFold

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.redaction import Redactor

MOST = 8
"""Views that are held."""

Read = TypeVar("Read")


class _Held:
    def __init__(self, run_id: str) -> None:
        self.fold = RunFold(run_id)
        self.lock = threading.Lock()
        self.encoded: tuple[int, bytes] = (-1, b"")
        """The view as JSON, with the position up to which that goes."""


class Folds:
    """Views of runs. Safe to use from any thread."""

    def __init__(self, records: Records, redactor: Redactor) -> None:
        self._records = records
        self._redactor = redactor
        self._lock = threading.Lock()
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def copy(self, run_id: str) -> RunFold:
        """The view as it is now, for somebody who goes on with it."""
        return self._use(run_id, lambda held: held.fold.copy())

    def read(self, run_id: str, use: Callable[[RunFold], Read]) -> Read:
        """Call a function with the view as it is now; it may keep nothing of it."""
        return self._use(run_id, lambda held: use(held.fold))

    def encoded(self, run_id: str) -> msgspec.Raw:
        """The view as it is now, as JSON."""
        return msgspec.Raw(self._use(run_id, _encode))

    def planned(self, run_id: str) -> RunFold | None:
        """The plan of a run whose events nobody has read yet, from the journal: what is there at once, of a
        run of any length. None if its view is held, or the journal does not know its plan."""
        with self._lock:
            is_held = run_id in self._held
        return None if is_held else planned_fold(self._records, run_id, self._redactor)

    def _use(self, run_id: str, use: Callable[[_Held], Read]) -> Read:
        with self._lock:
            held = self._held.get(run_id)
            if held is None:
                held = self._held[run_id] = _Held(run_id)
            self._held.move_to_end(run_id)
            while len(self._held) > MOST:
                self._held.popitem(last=False)
        with held.lock:
            extend_fold(held.fold, self._records, self._redactor)
            return use(held)


def _encode(held: _Held) -> bytes:
    view = held.fold.view
    if held.encoded[0] != view.seq:
        held.encoded = (view.seq, msgspec.json.encode(view))
    return held.encoded[1]
