"""What a tool says about itself: the part of it that a model, a verifier and a person can read.

Keep true:
1. A tool that declares nothing is treated as the most dangerous kind: destructive and irreversible.
2. What the tool declares wins over what a plan claims; a plan can only be stricter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from placet.ir.json_value import JsonValue

Risk = Literal["read_only", "idempotent", "network", "destructive"]
Reversibility = Literal["reversible", "compensable", "irreversible"]
Mark = Literal["untrusted", "secret"]
"""What is said of a value: somebody outside chose it; nobody outside may see it."""

STRICTNESS: dict[str, int] = {"reversible": 0, "compensable": 1, "irreversible": 2}


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """At most `max_calls` starts within any window of `interval_secs`."""

    max_calls: Annotated[int, msgspec.Meta(ge=1)]
    interval_secs: Annotated[float, msgspec.Meta(gt=0)]


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as data."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = {}
    """JSON Schema of the parameters object; `{}` accepts anything."""
    returns: dict[str, JsonValue] | None = None
    """JSON Schema of the output. When set, an output that does not fit fails the action."""
    idempotent: bool = False
    """Safe to repeat. A wrong False wastes a retry; a wrong True charges a card twice."""
    cache_ttl_secs: Annotated[float, msgspec.Meta(gt=0)] | None = None
    rate_limit: RateLimit | None = None
    risk: Risk = "destructive"
    reversibility: Reversibility | None = None
    """None means: reversible for read_only tools (there is nothing to undo), else irreversible."""
    labels: Sequence[str] = ()
    marks: Sequence[Mark] = ()
    """What its output is: they follow the value wherever a plan carries it."""

    @property
    def has_exit_code(self) -> bool:
        """Whether `returns` declares a property `exit_code`: the tool reports how a command ended."""
        declared: JsonValue = self.returns or {}
        if isinstance(declared, dict) and isinstance(ref := declared.get("$ref"), str):
            # A type with a name of its own is described under it.
            named, definitions = ref.removeprefix("#/$defs/"), declared.get("$defs")
            declared = definitions.get(named) if isinstance(definitions, dict) else None
        properties = declared.get("properties") if isinstance(declared, dict) else None
        return isinstance(properties, dict) and "exit_code" in properties

    @property
    def undo(self) -> Reversibility:
        """How far an effect of this tool can be taken back."""
        if self.reversibility is not None:
            return self.reversibility
        return "reversible" if self.risk == "read_only" else "irreversible"

    @property
    def deduplicates(self) -> bool:
        """Whether a second equal call may be answered with the first one's result."""
        return self.idempotent or self.risk == "idempotent"

    @property
    def repeatable(self) -> bool:
        """Whether an attempt of unknown outcome may be made again."""
        return self.idempotent or self.risk in ("read_only", "idempotent")
