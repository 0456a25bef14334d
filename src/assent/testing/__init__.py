"""For tests: short ways to write plans, a tool that remembers, a clock that waits, suites that stores must pass."""

from assent.testing.clock import FakeClock
from assent.testing.plan import action, proposal
from assent.testing.recording_tool import RecordingTool
from assent.testing.state_store import state_store_suite

__all__ = ["FakeClock", "RecordingTool", "action", "proposal", "state_store_suite"]
