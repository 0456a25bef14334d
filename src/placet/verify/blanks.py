"""Parameters that only the run will fill in, and what can be said of them beforehand.

Keep true:
1. What is said holds whatever the outputs turn out to be.
2. All that depends on the outputs is one open question of the action, however many ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from placet.ir.action import Action
from placet.ir.json_value import JsonValue, texts_in
from placet.ir.references import Reference
from placet.validator import parameter_problems
from placet.verify.known_tools import ToolCards
from placet.verify.report import name_few
from placet.verify.simulation import Unknown

HOLE = "\udfff"
"""Stands in a text where an output will be put in. No JSON holds half of a surrogate pair."""


class Blank(NamedTuple):
    """One parameter that is made, in whole or in part, from outputs."""

    value: Unknown
    sketch: JsonValue
    """What it looks like, with holes."""

    @property
    def kind(self) -> str | None:
        """The JSON type that the value surely has."""
        sketch = self.sketch
        if isinstance(sketch, str):
            return None if sketch == HOLE else "string"
        return "array" if isinstance(sketch, list) else "object"


class Blanks(dict[str, Blank]):
    """The blanks of one action, by name."""

    __slots__ = ("_cards", "_policies", "_sources", "is_open")

    def __init__(self, cards: ToolCards) -> None:
        super().__init__()
        self._cards = cards
        self._policies: dict[str, None] = {}
        self._sources: dict[str, None] = {}
        self.is_open = False
        """Whether something depends on them that may reject the action."""

    def need(self, references: Iterable[Reference]) -> None:
        """Note what the blanks will be filled in with. Whether a path exists is an open question."""
        for reference in references:
            self._sources[reference.action_id] = None
            if reference.path:
                self.is_open = True

    def texts(self, name: str) -> Iterator[str]:
        """Every text that surely stands in that parameter."""
        for text in texts_in(self[name].sketch):
            yield from filter(None, text.split(HOLE))

    def problems(self, action: Action) -> list[str]:
        """What is wrong with the parameters in any case."""
        if action.type == "tool_call":
            partial = self._cards[action.tool].partial
            if partial is None:
                return []
            return partial.problems(action.parameters, {name: blank.kind for name, blank in self.items()})
        key = self.get("key")
        if key is not None and key.kind in (None, "string"):
            return []
        return parameter_problems(action, None)

    def leave_open(self, policy: str | None = None) -> None:
        """Something depends on the outputs."""
        self.is_open = True
        if policy is not None:
            self._policies[policy] = None

    def why(self) -> str:
        """What to say of it."""
        said = f"its parameters depend on the output of {name_few(list(self._sources))}"
        if not self._policies:
            return said
        who = "policies" if len(self._policies) > 1 else "policy"
        looks = "look" if len(self._policies) > 1 else "looks"
        return f"{said}; {who} {name_few(list(self._policies))} {looks} at them"
