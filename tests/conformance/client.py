"""Our MCP client as the client scenarios meet it: connect, take what is offered, call it through a runtime.

python -m tests.conformance.client URL
"""

from __future__ import annotations

import sys

from placet import Runtime
from placet.tools.mcp.connections import Connections
from placet.tools.mcp.server import McpServer, switch_on

PARAMETERS = {"add_numbers": {"a": 5, "b": 3}}
"""What the scenarios want their tools to be called with; the others take nothing."""


def main(url: str) -> int:
    """Call every tool of the server once; the exit code says whether all of it went well."""
    connections = Connections({})
    try:
        offers = connections.offers("there", McpServer(url=url))
        stored = {offer.name: switch_on(offer, read_only=True) for offer in offers}
        server = McpServer(url=url, tools=stored)
        runtime = Runtime(tools=connections.tools("there", server))
        for name in stored:
            action = {"id": "a", "tool": f"there.{name}", "parameters": PARAMETERS.get(name, {})}
            result = runtime.execute_sync({"actions": [action]})
            print(name, result.outcome, result["a"].output, result["a"].error)
            if not result.succeeded:
                return 1
        return 0
    finally:
        connections.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
