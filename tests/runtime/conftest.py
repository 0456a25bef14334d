"""What every behaviour of the runtime is tried with."""

from __future__ import annotations

import pytest

from tests.runtime.plans import Recorder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(params=["levels", "dataflow"])
def schedule(request: pytest.FixtureRequest) -> str:
    return str(request.param)
