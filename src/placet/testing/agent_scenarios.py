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
    """A test for each scenario of an agent: `test_sorter = agent_scenarios("sorter.toml", "local")`.

    `agent` is a spec or its file. `model` is a name as after --model, or a function that makes a model for
    each test. Each scenario runs `k` times, in a folder of its own, and all runs must pass. `tools` are more
    than the basic ones. Without `isolation`, commands must be kept in by the kernel.

    Raises:
        PolicyFileError: the file means nothing as it stands.
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
