"""What an assistant may do without asking, also in a run that another one began.

Keep true:
1. A run that goes on lets nothing pass unasked that would have been asked about, or denied, as it began.
2. Under the same consent it goes on under the very same: what was approved before stays good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, NamedTuple

from placet.errors import UsageError
from placet.policy.permission import Answer, CallByCall, Posture, Stance, StanceOf
from placet.truncation import truncate_repr

if TYPE_CHECKING:
    from placet.assistant.kept import Kept
    from placet.ir.json_value import JsonValue
    from placet.tools.registry import Registry

UNTOLD = Posture.named("read_only")
"""What holds where nobody has said anything."""


class Consent(NamedTuple):
    """Who decides about a call: a policy, else a list of tools to ask about, else its tier."""

    policy: StanceOf | None = None
    gated: frozenset[str] = frozenset()
    posture: Posture | None = None
    """None where the permissions of the runtime hold."""
    nobody: str = ""
    """What is said to calls that need an approval where there is nobody to ask."""

    @property
    def by_call(self) -> CallByCall:
        """The same, as a runtime is told."""
        return CallByCall(
            self.policy,
            self.gated,
            otherwise=self.posture or UNTOLD,
            overrules=self.posture is not None,
            nobody=self.nobody,
        )

    def no_wider_than(self, kept: Kept, run_id: str, standing: Posture | None) -> Consent:
        """The stricter of this one and of what a run was begun with. `standing` is what the permissions of
        the runtime answer. A policy that comes only now may ask and deny; what it allows is left to the
        others.

        Raises:
            UsageError: the run was begun with a policy, and there is none.
        """
        if kept.has_policy and self.policy is None:
            raise UsageError(
                f"Run '{run_id}' was begun with an approval policy, which must hold when it goes on. Give "
                "one: Assistant(..., approval_policy=...); or say that it may go on without: widen=True."
            )
        policy = self.policy
        if policy is not None and not kept.has_policy:
            policy = _AllowingNothing(policy)
        posture = None
        if self.posture is not None or kept.posture is not None:
            told = standing or UNTOLD
            posture = (self.posture or told).tightened(kept.posture or told)
        return self._replace(policy=policy, gated=self.gated.union(kept.gated), posture=posture)


def names_of_tools(tools: Registry, option: str, given: Iterable[str]) -> list[str]:
    """Names of tools, as an option of the Assistant lists them.

    Raises:
        UsageError: there is no such tool, or it is a text, which would be taken for a list of letters.
    """
    if isinstance(given, str):
        raise UsageError(
            f"Assistant({option}={truncate_repr(given, 80)}) is a list of names: "
            f"{option}=[{truncate_repr(given, 80)}]."
        )
    if not isinstance(given, Iterable):
        raise UsageError(f"Assistant({option}={truncate_repr(given, 80)}) is no list of names of tools.")
    names = list(given)
    every: list[object] = [*names]
    for other in every:
        if isinstance(other, str):
            continue
        called = getattr(other, "name", None) or getattr(other, "__name__", "my_tool")
        raise UsageError(
            f"Assistant({option}=...) lists names of tools of its runtime, and got "
            f"{truncate_repr(other, 80)}. "
            f'Give the tool to the Runtime, and write {option}=["{called}"].'
        )
    for name in names:
        if name not in tools:
            raise UsageError(f"Assistant({option}=...): {tools.missing(name)}")
    return names


class _AllowingNothing:
    """A policy that leaves to others what it would allow."""

    def __init__(self, policy: StanceOf) -> None:
        self._policy = policy
        # Approvals under other policies are told apart by these.
        update_wrapper(self, policy, assigned=("__qualname__", "__code__"), updated=())

    def __call__(self, tool: str, parameters: Mapping[str, JsonValue]) -> Stance | Answer | None:
        found = self._policy(tool, parameters)
        said = found.answer if isinstance(found, Stance) else found
        return None if said == "allow" else found
