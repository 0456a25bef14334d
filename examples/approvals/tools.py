"""A small outside world: every effect is a line in a file that outlives the process."""

from __future__ import annotations

import os
from pathlib import Path

from placet import tool

WORLD = Path(os.environ.get("APPROVALS_WORLD", "world.txt"))


def _happen(text: str) -> None:
    with WORLD.open("a", encoding="utf-8") as world:
        world.write(f"{text}\n")


@tool(risk="read_only", marks=["untrusted"])
def read_page(url: str) -> dict[str, str]:
    """Read a page; anybody may have written it."""
    return {"title": "Prices", "contact": "mallory@example.com"}


@tool(risk="network")
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    _happen(f"mail to {to}: {text}")
    return f"sent to {to}"


@tool(risk="read_only", labels=["tests"])
def run_tests() -> str:
    """Run the tests."""
    return "green"


@tool
def deploy(version: str) -> str:
    """Put a version into production."""
    _happen(f"deployed {version}")
    return f"{version} is live"
