"""Runs and their notes in memory: for tests, and for a process that only wants to resume its own runs."""

from __future__ import annotations

import msgspec

from placet.errors import RunExists, RunHeld, UnknownRun
from placet.ir.result import ProposalResult
from placet.runtime.journal import LEASE_LOST, Note, RunRecord, Taken
from placet.storage.lease import StopRequest

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Note).decode


class MemoryJournal:
    """Records runs in memory, as long as the process lives."""

    def __init__(self) -> None:
        self._runs: dict[str, _MemoryRun] = {}

    async def begin(self, record: RunRecord) -> MemoryRun:
        """Keep a new run, and hold it."""
        if record.run_id in self._runs:
            raise RunExists(f"There is a run '{record.run_id}' already. Resume it, or choose another id.")
        kept = self._runs[record.run_id] = _MemoryRun(record)
        return MemoryRun(kept)

    async def take(self, run_id: str) -> Taken | ProposalResult:
        """Hold a run that was broken off; or how it ended, if it has."""
        kept = self._runs.get(run_id)
        if kept is None:
            raise UnknownRun(f"There is no run '{run_id}' here.", run_id=run_id)
        if kept.result is not None and kept.result.outcome not in ("waiting", "canceled"):
            return kept.result
        if kept.is_held:
            raise RunHeld(f"Run '{run_id}' is being worked on. Wait until it has ended.")
        kept.hold += 1
        kept.is_held = True
        waited = kept.result if kept.result is not None and kept.result.outcome == "waiting" else None
        kept.result = None
        return Taken(record=kept.record, notes=list(kept.notes), journal=MemoryRun(kept), waited=waited)

    def request_stop(self, run_id: str, request: StopRequest) -> None:
        """Ask whoever works on a run to stop."""
        kept = self._runs.get(run_id)
        if kept is None:
            raise UnknownRun(f"There is no run '{run_id}' here.", run_id=run_id)
        kept.stop = kept.stop or request

    def lose_holders(self) -> None:
        """As if every process that holds a run had died."""
        for kept in self._runs.values():
            kept.is_held = False


class _MemoryRun:
    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.notes: list[Note] = []
        self.result: ProposalResult | None = None
        self.stop: StopRequest | None = None
        self.hold = 1
        self.is_held = True


class MemoryRun:
    """One run, while we hold it."""

    def __init__(self, kept: _MemoryRun) -> None:
        self._kept = kept
        self._hold = kept.hold
        self._lost = False

    def note(self, note: Note) -> None:
        """Keep a note."""
        if self._kept.hold == self._hold:
            # A copy: whoever gets a result may change it later.
            self._kept.notes.append(_decode(_encode(note)))
        else:
            self._lost = True

    def flush(self) -> None:
        """Nothing is held back here."""

    async def settle(self) -> None:
        """Say so if somebody else has the run now."""
        if self._lost or self._kept.hold != self._hold:
            raise RunHeld(f"Run '{self._kept.record.run_id}' has been taken over.")

    async def end(
        self, result: ProposalResult, shown: ProposalResult | None = None, *, is_stopped: bool = False
    ) -> None:
        """Keep how the run ended, and let go of it."""
        await self.settle()
        if is_stopped:
            self._kept.stop = None
        self._kept.result = result
        self._kept.is_held = False

    def stop_requested(self) -> StopRequest | None:
        """Why the run is to stop, if it is."""
        return self._kept.stop if self._kept.hold == self._hold else LEASE_LOST

    def release(self) -> None:
        """Let go of a run that has not ended."""
        if self._kept.hold == self._hold:
            self._kept.is_held = False
