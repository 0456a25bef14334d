"""Why work was stopped before its end, as a value that is compared and stored. Sentences are for people."""

from __future__ import annotations

from enum import StrEnum


class StopCause(StrEnum):
    """Why work was stopped before its end."""

    CALLER = "caller"
    """The program that started it cancelled it."""
    TASK = "task"
    """The asyncio task around it was cancelled."""
    SIGNAL = "signal"
    """The process got SIGINT or SIGTERM."""
    PERSON = "person"
    """Somebody asked for this work to be ended for good."""
    KILL_SWITCH = "kill_switch"
    """Somebody stopped its loop, or all loops."""
    DEADLINE = "deadline"
    """Its time was over."""
    SUPERSEDED = "superseded"
    """Other work was done first, so that this is no longer needed."""
    LEASE_LOST = "lease_lost"
    """Another process has taken it over."""
    SHUTDOWN = "shutdown"
    """The scheduler or server that ran it ends."""
    STORAGE = "storage"
    """What comes next could not be recorded beforehand."""
