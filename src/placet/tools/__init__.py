"""Tools: Python functions, and anything else a plan may call, behind one schema.

    context      what a running tool knows of its call
    tool         `@tool` and the class it makes
    signature    from a typed function to a schema and back to arguments (docstring, conversion, constraints)
    json_schema  schemas compiled into checks that explain themselves
    output       what a tool returned, as JSON
    registry     the tools a runtime knows
    builtin      tools that come with Placet
    subprocess   tools that are programs; program: made from Python
    mcp          tools of MCP servers

Keep true:
1. Importing this package imports neither jsonschema-rs nor pydantic nor asyncio.
2. Nothing here runs a tool: that is the runtime's alone.
"""

from placet.tools.context import Cancel, ToolContext
from placet.tools.mcp.declared import McpTools
from placet.tools.program import program_tool
from placet.tools.registry import Registry
from placet.tools.tool import Tool, tool

__all__ = ["Cancel", "McpTools", "Registry", "Tool", "ToolContext", "program_tool", "tool"]
