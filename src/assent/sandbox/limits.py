"""How much a command may use up before it is ended."""

from __future__ import annotations

import msgspec

from assent.errors import UsageError

KIB = 1024
MIB = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use, with all the processes that it starts."""

    time_s: float = 120.0
    output_bytes: int = 10 * MIB
    """Of standard output and of standard error, each. A command that writes more is ended."""
    memory_bytes: int | None = 4 * 1024 * MIB
    """Of all its processes together; None is no limit."""
    processes: int | None = 512
    """At one time; None is no limit."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"Limits: {name} is {value!r}. It is a number above zero.")
