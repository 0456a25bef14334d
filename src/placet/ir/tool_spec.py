"""What a tool says about itself: the part of it that a model, a verifier and a person can read.

Keep true:
1. A tool that declares nothing is treated as the most dangerous kind: destructive and irreversible.
2. What the tool declares wins over what a plan claims; a plan can only be stricter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from placet.ir.json_value import JsonValue
from placet.ir.to_dict import ToDict

Risk = Literal["read_only", "idempotent", "network", "destructive"]
"""Risk of calling a tool.

- `read_only`: it changes nothing.
- `idempotent`: it changes something; repeating it has no further effect.
- `network`: it sends data to a network.
- `destructive`: it changes something, and repeating it changes it again. The default.
"""
Reversibility = Literal["reversible", "compensable", "irreversible"]
"""Whether an effect can be undone.

- `reversible`: the runtime can undo it.
- `compensable`: another action can undo it.
- `irreversible`: nothing can undo it.
"""
Mark = Literal["untrusted", "secret"]
"""Label on a value; it follows the value wherever a plan passes it.

- `untrusted`: an outsider chose it.
- `secret`: no outsider may see it.
"""

STRICTNESS: dict[str, int] = {"reversible": 0, "compensable": 1, "irreversible": 2}


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """At most `max_calls` starts within any window of `interval_secs`."""

    max_calls: Annotated[int, msgspec.Meta(ge=1)]
    """Number of calls, at least 1."""
    interval_secs: Annotated[float, msgspec.Meta(gt=0)]
    """Length of the window in seconds, above 0."""


class ToolSchema(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A tool as data: what a model, a verifier and a person can read about it."""

    name: str
    """Name by which plans call it."""
    description: str = ""
    """Description for models and people."""
    parameters: dict[str, JsonValue] = {}
    """JSON Schema of the parameters object; `{}` accepts anything."""
    returns: dict[str, JsonValue] | None = None
    """JSON Schema of the output. An output that does not match fails the action."""
    idempotent: bool = False
    """Safe to repeat. A wrong `False` wastes a retry; a wrong `True` charges a card twice."""
    cache_ttl_secs: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """How long a result may be reused, in seconds above 0; not for destructive tools."""
    rate_limit: RateLimit | None = None
    """How often it may start; callers wait."""
    risk: Risk = "destructive"
    """What a call can do. A tool that declares nothing is destructive."""
    reversibility: Reversibility | None = None
    """Whether an effect can be undone. `None`: `reversible` for `read_only` tools (there is nothing to undo),
    otherwise `irreversible`."""
    labels: Sequence[str] = ()
    """Labels of your own; rules can name them."""
    marks: Sequence[Mark] = ()
    """Labels on the output; they follow the value wherever a plan passes it."""
    field_marks: Mapping[str, Sequence[Mark]] = {}
    """Labels on fields of the output, by path: `body`, or `mails[].body` in each item of a list."""

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
        """How an effect of this tool can be undone."""
        if self.reversibility is not None:
            return self.reversibility
        return "reversible" if self.risk == "read_only" else "irreversible"

    @property
    def deduplicates(self) -> bool:
        """Whether a second equal call may return the result of the first."""
        return self.idempotent or self.risk == "idempotent"

    @property
    def repeatable(self) -> bool:
        """Whether an attempt with unknown outcome may be repeated."""
        return self.idempotent or self.risk in ("read_only", "idempotent")
