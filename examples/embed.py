"""Placet as a library: two tools, one rule, one plan. Run it with `python examples/embed.py`."""

from __future__ import annotations

from placet import DenyToolParam, Runtime, tool

SENT: list[str] = []


@tool(risk="read_only")
def find_address(name: str) -> str:
    """Look somebody up."""
    return f"{name.lower()}@example.org"


@tool
async def send_mail(to: str, text: str) -> str:
    """Send a mail; it cannot be called back."""
    SENT.append(f"{to}: {text}")
    return "sent"


rt = Runtime(tools=[find_address, send_mail], state={"greeted": False})
rt.add_policy("inside-only", DenyToolParam(tool="send_mail", param="to", contains="@elsewhere.example"))

plan = {
    "actions": [
        {"id": "who", "tool": "find_address", "parameters": {"name": "Ada"}},
        {"id": "mail", "tool": "send_mail", "parameters": {"to": "$who.output", "text": "Hello!"}},
        {
            "id": "note",
            "type": "state_write",
            "parameters": {"key": "greeted", "value": True},
            "dependencies": ["mail"],
        },
    ]
}

print("valid:", rt.verify(plan).valid)
result = rt.execute_sync(plan)
print("outcome:", result.outcome)
print("sent:", SENT)
print("state:", rt.state.snapshot())
