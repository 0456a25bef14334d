"""The tools that the server scenarios ask for, as far as a tool of ours can be one."""

from __future__ import annotations

import time

from placet import ToolContext, ToolError, ToolSchema, tool
from placet.tools import Tool


@tool(risk="read_only")
def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@tool(risk="read_only")
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing", retry=False)


@tool(risk="read_only")
def test_tool_with_progress(context: ToolContext) -> str:
    """Report how far it is, three times."""
    for done in (0, 50, 100):
        context.progress("at work", done=done, total=100)
        time.sleep(0.15)  # The log keeps at most ten reports a second.
    return "It has reported its progress."


@tool(risk="read_only")
def test_reconnection() -> str:
    """Answer at once."""
    return "There was nothing to wait for."


json_schema_2020_12_tool = Tool.from_schema(
    ToolSchema(
        name="json_schema_2020_12_tool",
        description="Tool with JSON Schema 2020-12 features",
        risk="read_only",
        parameters={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
            "additionalProperties": False,
        },
    ),
    lambda name="", address=None: f"{name} lives at {address}",
)
