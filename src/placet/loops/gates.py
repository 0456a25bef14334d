"""Gates: who is asked whether an action may run without a person, after the engine has allowed it.

Keep true: a gate can only be stricter than the engine. One that fails, or answers what is no answer,
escalates.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec

from placet.errors import UsageError
from placet.ir.json_value import JsonValue
from placet.loops.levels import Level
from placet.loops.verdict import Verdict
from placet.safe_text import clean
from placet.truncation import truncate_repr

if TYPE_CHECKING:
    from placet.loops.spec import LoopSpec
    from placet.policy.case import Rule


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """An act that a round proposes."""

    loop: str
    """Name of the loop."""
    round: str
    """Id of the round."""
    level: Level
    """Level of the round."""
    kind: str
    """Kind of act."""
    executor: str
    """Name of the executor."""
    summary: str
    """What the change does."""
    tree: str
    """Git tree of the change."""
    base: str
    """The commit that it is based on."""
    changed: tuple[str, ...] = ()
    """Paths of the files that it changes."""
    verdict: Verdict | None = None
    """Verdict of the checker."""
    verified: bool = False
    """Whether the change counts as verified."""


class Answer(NamedTuple):
    """The answer of a gate."""

    proceed: bool
    """Whether the act may run without a person."""
    reason: str
    """Why, or why not."""


class Gate(Protocol):
    """Protocol of gates, which decide whether an act may run without a person."""

    @property
    def name(self) -> str:
        """Name in records."""
        ...

    async def decide(self, proposed: Proposed) -> Answer:
        """Decide about an act. An exception counts as no.

        Args:
            proposed: The act.
        """
        ...


class AlwaysEscalate:
    """Gate that leaves every act to a person."""

    name = "escalate"

    async def decide(self, proposed: Proposed) -> Answer:
        """No."""
        return Answer(False, "the gate of this loop leaves every action to a person")


class Allowlist:
    """Gate that allows verified acts of some kinds."""

    name = "allowlist"

    def __init__(self, kinds: Collection[str]) -> None:
        """Create the gate.

        Args:
            kinds: Kinds of act.
        """
        self._kinds = frozenset(kinds)

    async def decide(self, proposed: Proposed) -> Answer:
        """Yes if its kind is in the list."""
        if proposed.kind not in self._kinds:
            return Answer(False, f"'{proposed.kind}' is none of the kinds that may run")
        if not proposed.verified:
            return Answer(False, "it is not verified")
        return Answer(True, f"'{proposed.kind}' is one of the kinds that may run")


Said: TypeAlias = "Answer | bool"
Callback: TypeAlias = "Callable[[Proposed], Said | Awaitable[Said]]"
"""Function, async or not, that decides about an act."""


class CallbackGate:
    """Gate that asks a function."""

    name = "callback"

    def __init__(self, function: Callback) -> None:
        """Create the gate.

        Args:
            function: Function, async or not, that returns a bool or an `Answer`.
        """
        self._function = function

    async def decide(self, proposed: Proposed) -> Answer:
        """What the function says."""
        said = self._function(proposed)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Answer):
            return said
        if type(said) is not bool:
            raise UsageError(f"the callback answered {truncate_repr(said, 60)}, which is no answer")
        return Answer(said, f"the callback of the gate said {'yes' if said else 'no'}")


class PolicyGate:
    """Gate that asks policy rules. They see a call of the tool `loop_KIND` with the proposed act as its
    parameters; a rule that denies or asks escalates.
    """

    name = "policy"

    def __init__(self, rules: Sequence[tuple[str, Rule]]) -> None:
        """Create the gate.

        Args:
            rules: Rules with their names.
        """
        self._rules = list(rules)

    @classmethod
    def from_file(cls, path: Path | str) -> PolicyGate:
        """Read the rules from a file, or from a folder of files.

        Args:
            path: The file or folder.

        Raises:
            PolicyFileError: the rules are invalid; names file and key.
        """
        from placet.policy.loader import load_policies

        return cls(load_policies(path))

    async def decide(self, proposed: Proposed) -> Answer:
        """Yes if no rule objects."""
        from placet.ir.tool_spec import ToolSchema
        from placet.runtime.runtime import Runtime

        name = f"loop_{proposed.kind}"
        parameters: dict[str, JsonValue] = msgspec.to_builtins(proposed)
        runtime = Runtime(policies=self._rules)
        runtime.register(ToolSchema(name=name, risk="destructive"), lambda whole: None)
        plan = {"actions": [{"id": "act", "tool": name, "parameters": parameters, "references": False}]}
        objections = [opinion for _, opinion in runtime.opinions(plan) if opinion.answer != "allows"]
        report = runtime.verify(plan)
        if objections or not report.valid:
            why = objections[0].reason if objections else "the rules do not let it through"
            return Answer(False, f"a rule of the gate objects: {clean(why, 300)}")
        return Answer(True, "no rule of the gate objects")


def gate_of(spec: LoopSpec, folder: Path) -> Gate:
    """The gate that a loop's file names; one that needs a function escalates until it is given one.

    Raises:
        PolicyFileError: its rules cannot be read.
    """
    match spec.gate:
        case "allowlist":
            return Allowlist(spec.allow)
        case "policy":
            return PolicyGate.from_file(folder / spec.policies)
    return AlwaysEscalate()


async def ask_gate(gate: Gate, proposed: Proposed) -> Answer:
    """What a gate says, whatever it does."""
    try:
        said = await gate.decide(proposed)
    except Exception as error:
        return Answer(False, f"the gate failed: {clean(f'{type(error).__name__}: {error}', 300)}")
    answered: object = said
    if not isinstance(answered, Answer) or not isinstance(answered.proceed, bool):
        return Answer(False, f"the gate answered {truncate_repr(answered, 60)}, which is no answer")
    return answered
