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

if TYPE_CHECKING:
    from placet.loops.spec import LoopSpec
    from placet.policy.case import Rule


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """An action that a round has come to."""

    loop: str
    round: str
    level: Level
    kind: str
    executor: str
    summary: str
    tree: str
    base: str
    changed: tuple[str, ...] = ()
    verdict: Verdict | None = None
    verified: bool = False


class Answer(NamedTuple):
    """What a gate says."""

    proceed: bool
    reason: str


class Gate(Protocol):
    """Somebody who says whether an action may run without a person."""

    @property
    def name(self) -> str:
        """What it is called in records."""
        ...

    async def decide(self, proposed: Proposed) -> Answer:
        """Yes or no, and why. Whatever is raised counts as no."""
        ...


class AlwaysEscalate:
    """Every action is for a person to decide."""

    name = "escalate"

    async def decide(self, proposed: Proposed) -> Answer:
        """No."""
        return Answer(False, "the gate of this loop leaves every action to a person")


class Allowlist:
    """Actions of some kinds may run, if they are verified."""

    name = "allowlist"

    def __init__(self, kinds: Collection[str]) -> None:
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


class CallbackGate:
    """A function decides: true or false, or an `Answer` with its reason."""

    name = "callback"

    def __init__(self, function: Callback) -> None:
        self._function = function

    async def decide(self, proposed: Proposed) -> Answer:
        """What the function says."""
        said = self._function(proposed)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Answer):
            return said
        if type(said) is not bool:
            raise UsageError(f"the callback answered {said!r:.60}, which is no answer")
        return Answer(said, f"the callback of the gate said {'yes' if said else 'no'}")


class PolicyGate:
    """Rules of a policy file decide. They see a call of the tool `loop_KIND` with what is proposed as its
    parameters; a rule that denies it, or would ask, escalates."""

    name = "policy"

    def __init__(self, rules: Sequence[tuple[str, Rule]]) -> None:
        self._rules = list(rules)

    @classmethod
    def from_file(cls, path: Path | str) -> PolicyGate:
        """The rules of a file, or of a folder of files.

        Raises:
            PolicyFileError: they cannot be read; names file and key.
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
        return Answer(False, f"the gate answered {answered!r:.60}, which is no answer")
    return answered
