"""`placet` whose workers are given up sooner: after how many seconds of silence, and then the arguments."""

from __future__ import annotations

import sys
from functools import partial

from placet.cli.main import main
from placet.engine import opening, temporal_transport
from placet.engine.sql import SqlSubmissions
from placet.engine.temporal_transport import TemporalTransport

if __name__ == "__main__":
    lease_s = float(sys.argv[1])
    setattr(opening, "WORKER_LEASE_S", lease_s)  # noqa: B010
    setattr(opening, "SqlSubmissions", partial(SqlSubmissions, lease_s=lease_s))  # noqa: B010
    brief = partial(TemporalTransport, heartbeat_s=lease_s)
    setattr(temporal_transport, "TemporalTransport", brief)  # noqa: B010
    sys.exit(main(sys.argv[2:]))
