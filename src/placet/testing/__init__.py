"""For tests: plans in few words, a tool that remembers, a clock that waits, a guard, suites for stores."""

from placet.testing.agent_scenarios import agent_scenarios
from placet.testing.clock import FakeClock
from placet.testing.event_store import event_store_suite
from placet.testing.fact_store import fact_store_suite
from placet.testing.journal import journal_suite
from placet.testing.network import NetworkGuard, NetworkRefused, no_network
from placet.testing.plan import action, proposal
from placet.testing.recording_tool import RecordingTool
from placet.testing.state_store import state_store_suite

__all__ = [
    "FakeClock",
    "NetworkGuard",
    "NetworkRefused",
    "RecordingTool",
    "action",
    "agent_scenarios",
    "event_store_suite",
    "fact_store_suite",
    "journal_suite",
    "no_network",
    "proposal",
    "state_store_suite",
]
