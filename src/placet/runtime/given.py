"""A runtime that was handed over, checked where it is taken."""

from __future__ import annotations

from placet.errors import UsageError
from placet.truncation import truncate_repr


def check_runtime(given: object, taker: str) -> None:
    """Make sure that something is a runtime. `taker` is the class to which it was given.

    Raises:
        UsageError: it is none; a list of tools is the usual mistake.
    """
    if isinstance(given, type) or not callable(getattr(given, "open_run", None)):
        if isinstance(given, list | tuple):
            names = ", ".join(str(getattr(each, "__name__", "...")) for each in given[:5])
            hint = f"Put the tools into a runtime: {taker}(Runtime([{names}]), ...)."
        else:
            hint = f"Write {taker}(Runtime([my_tool]), ...)."
        raise UsageError(f"{taker}(runtime=...) got {truncate_repr(given, 80)}, which is no Runtime. {hint}")
