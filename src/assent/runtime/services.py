"""What a runtime lends to every proposal it runs."""

from __future__ import annotations

from typing import NamedTuple

from assent.events.log import EventLog
from assent.runtime.asking import Desk
from assent.runtime.guards.idempotency import AnswerBook
from assent.runtime.guards.rate_limit import RateLimiter
from assent.runtime.guards.result_cache import ResultCache
from assent.runtime.marks import MarkBook
from assent.runtime.trajectory import TrajectoryStore
from assent.runtime.workers import Workers
from assent.state.store import StateStore
from assent.tools.registry import Registry


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
