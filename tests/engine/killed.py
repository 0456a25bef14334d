"""A `placet` whose process is killed at a named point, the first time it comes there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from placet.cli.main import main
from placet.engine.dbos_transport import DbosTransport
from placet.engine.sql import SqlSubmissions
from placet.engine.worker import Worker

POINTS: dict[str, tuple[type, str, bool]] = {
    "placed": (DbosTransport, "enqueue", True),
    "enqueued": (DbosTransport, "enqueue", False),
    "claimed": (Worker, "_lead", True),
    "begun": (SqlSubmissions, "begun", False),
    "ending": (SqlSubmissions, "finish", True),
    "ended": (SqlSubmissions, "finish", False),
}
"""A method, and whether the process dies before it or after it."""


def die_at(point: str) -> None:
    """Have this process killed there."""
    owner, name, is_before = POINTS[point]
    method: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **more: Any) -> Any:
        if not is_before:
            method(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, call)


if __name__ == "__main__":
    die_at(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
