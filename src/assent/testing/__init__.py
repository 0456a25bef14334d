"""For tests: plans in few words, a tool that remembers, a clock that waits, a guard, suites for stores."""

from assent.testing.agent_scenarios import agent_scenarios
from assent.testing.clock import FakeClock
from assent.testing.event_store import event_store_suite
from assent.testing.journal import journal_suite
from assent.testing.network import NetworkGuard, NetworkRefused, no_network
from assent.testing.plan import action, proposal
from assent.testing.recording_tool import RecordingTool
from assent.testing.state_store import state_store_suite

__all__ = [
    "FakeClock",
    "NetworkGuard",
    "NetworkRefused",
    "RecordingTool",
    "action",
    "agent_scenarios",
    "event_store_suite",
    "journal_suite",
    "no_network",
    "proposal",
    "state_store_suite",
]
