"""What a runtime lends to every proposal it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from placet.events.log import EventLog
from placet.runtime.asking import Desk
from placet.runtime.guards.idempotency import AnswerBook
from placet.runtime.guards.rate_limit import RateLimiter
from placet.runtime.guards.result_cache import ResultCache
from placet.runtime.marks import MarkBook
from placet.runtime.trajectory import TrajectoryStore
from placet.runtime.workers import Workers
from placet.state.store import StateStore
from placet.tools.registry import Registry


class Services(NamedTuple):
    """Shared by all proposals of one runtime."""

    state: StateStore
    events: EventLog
    tools: Registry
    answers: AnswerBook
    cache: ResultCache
    limiter: RateLimiter
    workers: Workers
    trajectories: TrajectoryStore | None
    marks: MarkBook
    desk: Desk | None
    after_run: Callable[[str, str | None], Awaitable[None]] | None = None
    """Learns from a run that has ended, by its id and tenant."""
