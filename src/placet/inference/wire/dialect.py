"""What is left out of requests to a server that does not take it.

Keep true:
1. Only what an answer is as good without is left out: what was asked for stays, and fails.
2. Nothing is tried twice.
"""

from __future__ import annotations

import msgspec

from placet.inference.wire.format import Dialect, Refusal

_DROPPABLE = frozenset(
    {
        "temperature",
        "thinking",
        "stop",
        "seed",
        "stream_options",
        "reasoning_effort",
        "reasoning_content",
        "reasoning_details",
    }
)
_MAX_TOKENS = frozenset({"max_tokens", "max_completion_tokens"})


def dialect_without(refusal: Refusal, dialect: Dialect) -> Dialect | None:
    """The dialect to ask once more in, where a parameter is not taken; None where that is no help."""
    name = refusal.parameter
    if refusal.kind != "parameter" or name in dialect.without:
        return None
    if name in _MAX_TOKENS and name == dialect.max_tokens_key:
        # It has two names. Remembered as left out, so that neither is tried twice.
        [other] = _MAX_TOKENS - {name}
        if other in dialect.without:
            return None
        return msgspec.structs.replace(dialect, max_tokens_key=other, without=dialect.without | {name})
    if name not in _DROPPABLE:
        return None
    return msgspec.structs.replace(dialect, without=dialect.without | {name})
