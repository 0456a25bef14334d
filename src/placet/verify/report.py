"""What verify found, as data.

Keep true:
1. A report holds ids, never positions, and its bytes depend on its input alone.
2. What cannot be known before the plan runs is an `info` whose message begins with `undecided: `.
3. Keys that only the graph knows (a policy's counter, "any key") are shown in words.
4. No message holds a control character, whatever the plan holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from placet.ir.graph import ANY_KEY, Graph
from placet.ir.json_value import JsonValue, show_json
from placet.ir.to_dict import ToDict
from placet.truncation import truncate

Severity = Literal["error", "warning", "info"]
"""How serious an issue is.

- `error`: the action or the proposal would not complete.
- `warning`: it would run, but is probably a mistake.
- `info`: information, or undecided.
"""
Tier = Literal["decision_procedure", "heuristic", "sampled", "proof"]
"""How certain an issue is.

- `decision_procedure`: decided for every case.
- `heuristic`: a rule of thumb.
- `sampled`: tried on samples.
- `proof`: proved.
"""

UNDECIDED = "undecided: "

_RULE = "\0rule:"
_FEW = 3
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Issue(ToDict, msgspec.Struct, frozen=True, gc=False):
    """One finding of `verify`."""

    action_id: str | None
    """The action; `None` if the finding is about the whole proposal."""
    severity: Severity
    """How serious it is."""
    tier: Tier
    """How certain it is."""
    message: str
    """The finding; control characters are escaped."""

    @property
    def is_undecided(self) -> bool:
        """Whether it says that something cannot be known before the plan runs."""
        return self.severity == "info" and self.message.startswith(UNDECIDED)


class KeyConflict(ToDict, msgspec.Struct, frozen=True, gc=False):
    """Two actions that use the same state key and therefore run in this order."""

    key: str
    """The state key."""
    kind: str
    """`write_read`, `read_write` or `write_write`, in the order of the two actions."""
    first: str
    """Id of the action that runs first."""
    then: str
    """Id of the action that runs second."""


class Report(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a plan that are known before it runs.

    Without undecided issues, `valid` means: if tools succeed and have their declared effects, no action is
    rejected, skipped or failed; not valid means that at least one is.
    """

    valid: bool
    """Whether no issue is an error."""
    issues: Sequence[Issue] = ()
    """All findings."""
    simulated_state: dict[str, JsonValue] = {}
    """The state after the plan as far as it is known, assuming that whatever is undecided succeeds; keys are
    sorted."""
    unknown_keys: Sequence[str] = ()
    """Keys whose value after the plan cannot be known."""
    execution_order: Sequence[str] = ()
    """Ids of the actions in serial order. The outcome is that of this order, whatever runs concurrently."""
    execution_levels: Sequence[Sequence[str]] = ()
    """Ids of the actions layer by layer."""
    conflicts: Sequence[KeyConflict] = ()
    """Actions that are kept in order because they use the same key."""

    @property
    def errors(self) -> list[Issue]:
        """Issues that make the plan invalid."""
        return [issue for issue in self.issues if issue.severity == "error"]

    @property
    def warnings(self) -> list[Issue]:
        """Issues that are probably mistakes."""
        return [issue for issue in self.issues if issue.severity == "warning"]

    @property
    def undecided(self) -> list[Issue]:
        """Issues that cannot be known before the plan runs."""
        return [issue for issue in self.issues if issue.is_undecided]


def error(action_id: str | None, message: str) -> Issue:
    """The action, or the proposal, would not run to its end."""
    return Issue(action_id, "error", "decision_procedure", printable(message))


def warning(action_id: str | None, message: str, tier: Tier = "decision_procedure") -> Issue:
    """It would run, but is probably not meant."""
    return Issue(action_id, "warning", tier, printable(message))


def info(action_id: str | None, message: str) -> Issue:
    """Good to know."""
    return Issue(action_id, "info", "decision_procedure", printable(message))


def undecided(action_id: str | None, message: str) -> Issue:
    """Only the run itself will show."""
    return info(action_id, UNDECIDED + message)


def printable(text: str) -> str:
    """The text with control characters spelled out.

    >>> print(printable("a\\tb \\x9b0m"))
    a\\x09b \\x9b0m
    """
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def name_key(key: str) -> str:
    """A key of the graph as people know it.

    >>> name_key("branch"), name_key("\\0any"), name_key("\\0rule:slow")
    ('branch', 'any key', "policy 'slow'")
    """
    if not key.startswith("\0"):
        return key
    if key == ANY_KEY:
        return "any key"
    if key.startswith(_RULE):
        return f"policy '{key.removeprefix(_RULE)}'"
    return printable(key)


def name_few(ids: Sequence[str], count: int | None = None) -> str:
    """The first of many ids, and how many more there are; `count` in all, if `ids` is only a part.

    >>> name_few(["a", "b"]), name_few(["a", "b", "c", "d"], 10)
    ("'a', 'b'", "'a', 'b', 'c' and 7 more")
    """
    named = ", ".join(f"'{name}'" for name in ids[:_FEW])
    more = (len(ids) if count is None else count) - _FEW
    return f"{named} and {more:,} more" if more > 0 else named


def show_short(value: JsonValue) -> str:
    """A value as JSON, cut where it is long."""
    text = show_json(value)
    return truncate(text, 80, "...")


def name_conflicts(graph: Graph, ids: Sequence[str]) -> list[KeyConflict]:
    """The graph's conflicts with ids for positions and words for its private keys."""
    return [
        KeyConflict(key if key >= "\1" else name_key(key), kind, ids[first], ids[then])
        for first, then, key, kind in graph.conflicts
    ]


def name_levels(layers: Iterable[Sequence[int]], ids: Sequence[str]) -> list[list[str]]:
    """Layers of positions as layers of ids."""
    return [[ids[layer[0]]] if len(layer) == 1 else [ids[i] for i in layer] for layer in layers]
