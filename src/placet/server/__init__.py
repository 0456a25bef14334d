"""Faces for programs: what speaks a protocol instead of to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placet.server.embedding import app as app

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    if name == "app":
        from placet.server.embedding import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
