"""What happened: an append-only log of events and spans, and where they go; and the events of a stream.

stream   events that a caller sees while a model works: public, listed below
event    one record of the log; log: all of them; sink, jsonl, sql: where they go; span: from them
chain    digests that show whether somebody changed the log
"""

from placet.events.stream import (
    ErrorReported,
    Notice,
    RunFinished,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    Watch,
)

__all__ = [
    "ErrorReported",
    "Notice",
    "RunFinished",
    "StreamEvent",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallFinished",
    "ToolCallStarted",
    "Watch",
]
