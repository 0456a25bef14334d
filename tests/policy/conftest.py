"""Shared with the tests of the runtime."""

from tests.runtime.conftest import recorder

__all__ = ["recorder"]
