"""An agent's scenarios as tests of pytest, in one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placet.errors import UsageError

if TYPE_CHECKING:
    from placet.agents.spec import AgentSpec
    from placet.inference.model import Model
    from placet.sandbox.confinement import Isolation
    from placet.tools.tool import Tool


def agent_scenarios(
    agent: AgentSpec | str | os.PathLike[str],
    model: Callable[[], Model] | str,
    *,
    k: int = 1,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    isolation: Isolation | None = None,
) -> Callable[..., None]:
    """Create a pytest test for each scenario of an agent: `test_sorter = agent_scenarios("sorter.toml",
    "local")`.

    Args:
        agent: A spec, or its file.
        model: Name of a model as after `--model`, or a function that makes one for each test.
        k: How often each scenario runs, each time in a new folder; all runs must pass.
        tools: Tools besides the basic ones.
        isolation: Protections for commands. `None`: the kernel must confine them.

    Raises:
        PolicyFileError: the file is not a valid agent.
        UsageError: the agent has no scenarios.
    """
    import pytest

    from placet.agents.files import read_agent
    from placet.agents.scenarios import Trying, scenario_names
    from placet.agents.spec import AgentSpec
    from placet.inference.opening import open_model
    from placet.runtime.runtime import Runtime
    from placet.runtime.sync import run_sync

    if isinstance(agent, AgentSpec):
        spec = agent
    else:
        path = Path(agent)
        spec = read_agent(path.read_bytes(), str(path))
    names = scenario_names(spec)
    if not names:
        raise UsageError(f"Agent '{spec.id}' has no scenarios, so there is nothing to test.")
    more = list(tools)

    @pytest.mark.parametrize("scenario", names)
    def test(scenario: str) -> None:
        async def go() -> list[str]:
            made = open_model(model, os.environ) if isinstance(model, str) else model()
            try:
                trying = Trying(Runtime(tools=more), made, isolation=isolation)
                report = await trying.try_all(spec, k=k, only=[scenario])
                return [] if report.all_passed else report.failures
            finally:
                close = getattr(made, "close", None)
                if close is not None:
                    await close()

        failures = run_sync(go())
        assert not failures, "\n".join(failures)

    test.__doc__ = f"Agent '{spec.id}'."
    return test
