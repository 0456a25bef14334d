"""How hard the property tests try, and proof that they did not try on trivial things only.

`PLACET_SOAK=1` multiplies the examples by twenty and starts from another seed each time; without it every run
looks at the same examples.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, Phase, settings

SOAK = os.environ.get("PLACET_SOAK") == "1"

UNHURRIED = pytest.mark.timeout(0 if SOAK else 120)
"""For every property test: a soak may take as long as it takes."""


def examples(count: int, *, shrink: bool = True) -> settings:
    """Settings for a property that is looked at `count` times: in a soak at twenty times as many, every day
    at a quarter, so that the whole suite stays below eight minutes."""
    return settings(
        max_examples=count * 20 if SOAK else count // 4,
        derandomize=not SOAK,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink] if shrink else [Phase.explicit, Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


class Tally:
    """Counts what was generated, so that a test can show it was worth passing."""

    def __init__(self) -> None:
        self.total = 0
        self.counts: Counter[str] = Counter()

    def add(self, **facts: bool) -> None:
        """Count one example, and each fact that is true of it."""
        self.total += 1
        self.counts.update(name for name, is_true in facts.items() if is_true)

    def require(self, shares: Mapping[str, float]) -> None:
        """Fail unless each fact was true of at least that share of the examples."""
        told = ", ".join(f"{name} {count / self.total:.0%}" for name, count in sorted(self.counts.items()))
        print(f"{self.total} examples: {told}")
        scarce = [name for name, share in shares.items() if self.counts[name] < share * self.total]
        assert not scarce, f"too few with {', '.join(scarce)} among {self.total} examples: {told}"


FIFTH = 0.2
