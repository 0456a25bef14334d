"""Small tools that need nothing but the processor and the clock: calculate, now, sleep.

Keep true:
1. None of them touches a file of the person's, the network or another process.
2. A sleep that is cancelled ends at once, whichever way the cancel comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from placet.errors import ToolError
from placet.ir.call_facts import Confinement
from placet.ir.json_value import JsonValue
from placet.tools.builtin.arithmetic import FUNCTION_NAMES, MOST_CHARACTERS, evaluate
from placet.tools.context import ToolContext
from placet.tools.tool import Tool, tool
from placet.truncation import truncate

if TYPE_CHECKING:
    from datetime import tzinfo

LONGEST_SLEEP_S = 3600

_CALCULATE = (
    "Work out an arithmetic expression exactly as written and return the number. "
    "Operators as in Python: + - * / // % ** and parentheses. Constants: pi, e, tau. "
    f"Functions: {', '.join(FUNCTION_NAMES)}. Angles are in radians, log is natural unless given a base."
)


def small_tools(*, clock: Callable[[], float] = time.time) -> list[Tool]:
    """calculate, now and sleep. `clock` gives the seconds since 1970 that `now` tells."""

    @tool(risk="read_only", cheap=True, description=_CALCULATE)
    def calculate(
        expression: Annotated[
            str, msgspec.Meta(max_length=MOST_CHARACTERS, description="Such as: (3 + 4.5) * 2 ** 10")
        ],
    ) -> int | float:
        return evaluate(expression)

    @tool(risk="read_only")
    def now(timezone: str = "UTC") -> dict[str, JsonValue]:
        """Tell the date and time: as ISO 8601, as Unix seconds, and the weekday in English.

        Args:
            timezone: A name from the IANA database, such as UTC or Europe/Paris.
        """
        return _tell(clock(), timezone)

    @tool(risk="read_only")
    async def sleep(
        seconds: Annotated[
            float, msgspec.Meta(ge=0, le=LONGEST_SLEEP_S, description="Seconds to wait, at most 3600.")
        ],
        context: ToolContext,
    ) -> dict[str, JsonValue]:
        """Wait, then go on. Nothing else happens."""
        await _wait(seconds, context)
        return {"slept_s": seconds}

    made: list[Tool] = [calculate, now, sleep]
    for each in made:
        each.confinement = _alone
    return made


async def _alone() -> Confinement:
    return Confinement(runs_in="placet", network="none")


def _tell(seconds: float, name: str) -> dict[str, JsonValue]:
    from datetime import datetime

    at = datetime.fromtimestamp(seconds, _zone(name))
    # By hand: strftime would answer in the language of the machine.
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return {
        "iso": at.isoformat(timespec="seconds"),
        "unix": seconds,
        "weekday": days[at.weekday()],
        "timezone": name,
    }


def _zone(name: str) -> tzinfo:
    import datetime
    import zoneinfo
    from difflib import get_close_matches

    if name == "UTC":
        # Also where the machine has no database of time zones.
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    # By letters alone: people write `europe/berlin`, `New York` and `Berlin`.
    wanted = name.lower().replace(" ", "_")
    spelled: dict[str, Any] = {}
    for known in sorted(zoneinfo.available_timezones()):
        spelled[known.lower()] = known
        spelled.setdefault(known.lower().rpartition("/")[2], known)
    near = get_close_matches(wanted, spelled, n=1)
    hint = f"Did you mean '{spelled[near[0]]}'?" if near else "Write one such as 'Europe/Paris' or 'UTC'."
    raise ToolError(f"No time zone is named {truncate(name, 60)!r}. {hint}", retry=False)


async def _wait(seconds: float, context: ToolContext) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()

    def stop() -> None:
        # The cancel comes from any thread, and may come when this loop is gone already.
        if not loop.is_closed():
            loop.call_soon_threadsafe(asked_to_stop.set)

    unsubscribe = context.cancel.on_request(stop)
    try:
        async with asyncio.timeout(seconds):
            await asked_to_stop.wait()
    except TimeoutError:
        return
    finally:
        unsubscribe()
    raise ToolError(f"The wait of {seconds:g} s was cut short: {context.cancel.reason}.", retry=False)
