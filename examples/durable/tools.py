"""The outside world of a small shop: every effect is a line in a file that outlives the process.

`DURABLE_KILL` names an instant at which the process is killed for real: `before` or `after` the charge.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from placet import ToolContext, tool

WORLD = Path(os.environ.get("DURABLE_WORLD", "world.txt"))


def _happen(text: str) -> None:
    with WORLD.open("a", encoding="utf-8") as world:
        world.write(f"{text}\n")


def _maybe_die(instant: str) -> None:
    if os.environ.get("DURABLE_KILL") == instant:
        os.kill(os.getpid(), signal.SIGKILL)


@tool(risk="read_only")
def find_price(item: str) -> float:
    """What an item costs."""
    return {"desk": 240.0, "lamp": 35.0}[item]


@tool
def charge_card(amount: float, context: ToolContext) -> str:
    """Charge the card: must not happen twice."""
    _maybe_die("before")
    _happen(f"charged {amount:g} ({context.idempotency_key})")
    _maybe_die("after")
    return "receipt-1"


@tool(idempotent=True)
def ship(item: str, receipt: str) -> str:
    """Hand the parcel over; the carrier knows the receipt, so twice does no harm."""
    _happen(f"shipped the {item} for {receipt}")
    return "on its way"
