"""The tools of the trip: a travel agency that exists only here, slow and moody like a real one.

Every booking, cancellation and charge is also written to the file named by TRIP_LEDGER, if that is set: the
"outside world", which no rollback of state can reach and only compensations put right.
"""

from __future__ import annotations

import asyncio
import json
import os
import time

from placet import ToolContext, ToolError, tool

FLIGHTS = {"Lisbon": {"number": "TP553", "price": 240}, "Porto": {"number": "TP1713", "price": 120}}
HOTELS = {"Lisbon": {"name": "Casa Azul", "price": 690}, "Porto": {"name": "Ribeira", "price": 95}}
CARD_LIMIT_EUR = 800

_forecasts_asked = 0


def _enter(event: str, **details: object) -> None:
    """One line in the ledger of the outside world."""
    path = os.environ.get("TRIP_LEDGER")
    if path:
        with open(path, "a", encoding="utf-8") as ledger:
            ledger.write(json.dumps({"event": event, **details}) + "\n")


@tool(risk="read_only")
async def find_flight(city: str) -> dict[str, object]:
    """Look up the best flight to a city."""
    await asyncio.sleep(0.35)
    if city not in FLIGHTS:
        raise ToolError(f"nobody flies to {city}", retry=False)
    return dict(FLIGHTS[city])


@tool(risk="read_only")
def find_hotel(city: str) -> dict[str, object]:
    """Look up the best hotel in a city."""
    time.sleep(0.45)  # A plain function runs in a thread, so it may block.
    return dict(HOTELS[city])


@tool(risk="read_only")
async def forecast(city: str) -> str:
    """Ask for the weather. The service is moody: the first call always fails."""
    global _forecasts_asked
    _forecasts_asked += 1
    await asyncio.sleep(0.15)
    if _forecasts_asked == 1:
        raise ToolError("the weather service is busy")
    return f"sunny in {city}"


@tool(reversibility="compensable")
async def book_flight(number: str, price: float, context: ToolContext) -> dict[str, str]:
    """Book a flight; the answer holds the booking's reference."""
    await asyncio.sleep(0.3)
    reference = f"F-{number}"
    # The key is the same for every attempt of this call: a real agency would use it to book only once.
    _enter("flight booked", reference=reference, price=price, key=context.idempotency_key)
    return {"reference": reference}


@tool(risk="idempotent")
async def cancel_flight(reference: str) -> str:
    """Give a flight back."""
    await asyncio.sleep(0.2)
    _enter("flight cancelled", reference=reference)
    return f"{reference} cancelled"


@tool(reversibility="compensable")
async def book_hotel(name: str, nights: int) -> dict[str, str]:
    """Book a room; the answer holds the booking's reference."""
    await asyncio.sleep(0.4)
    reference = f"H-{name.split()[0]}-{nights}"
    _enter("hotel booked", reference=reference)
    return {"reference": reference}


@tool(risk="idempotent")
async def cancel_hotel(reference: str) -> str:
    """Give a room back."""
    await asyncio.sleep(0.2)
    _enter("hotel cancelled", reference=reference)
    return f"{reference} cancelled"


@tool(reversibility="reversible")
async def upgrade_seat(reference: str) -> str:
    """Move a booking to business class. The policies of the example do not let anyone get here."""
    _enter("seat upgraded", reference=reference)
    return "business"


@tool
async def lounge_pass(reference: str) -> str:
    """Buy access to the lounge, for those who fly business."""
    _enter("lounge pass", reference=reference)
    return "lounge"


@tool
async def charge_card(amount_eur: float) -> str:
    """Charge the card. Nothing undoes this, so plans do it last."""
    await asyncio.sleep(0.25)
    if amount_eur > CARD_LIMIT_EUR:
        raise ToolError(
            f"card declined: {amount_eur:g} EUR is over the limit of {CARD_LIMIT_EUR} EUR", retry=False
        )
    _enter("card charged", amount_eur=amount_eur)
    return "paid"
