"""For every test: random examples are the same in every run, and none fails for being slow."""

from __future__ import annotations

from hypothesis import settings

# `make soak` is where new examples are looked for; there the property tests choose their own settings.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
