"""`placet` on a machine whose clock is wrong: by how many seconds, and then the arguments."""

from __future__ import annotations

import sys
import time

OFF_S = float(sys.argv[1])
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + OFF_S
time.time_ns = lambda: _time_ns() + int(OFF_S * 1e9)

from placet.cli.main import main  # noqa: E402

sys.exit(main(sys.argv[2:]))
