"""What came of an agent's run: of one message, of several, or of a run that has ended, by what is kept of it.

Keep true:
1. With a goal its check decides, and the result says how it stands.
2. A call that did not run is counted once: as one of a tool that is not allowed, as denied, or as missing.
3. What a run cost is known of all its messages, or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import msgspec

from placet.agents.goal import CHECKED_AFTER, GoalResult
from placet.agents.spec import AgentSpec
from placet.inference.usage import Usage
from placet.ir.ending import CallKind
from placet.ir.json_value import JsonValue
from placet.ir.provenance import Labels, SourcedText, further, recorded
from placet.ir.result import ProposalResult, Waiting
from placet.ir.to_dict import ToDict
from placet.turns.ending import FINISHED, End, Ending
from placet.turns.leading import ending_of

_GOAL = "goal"
_MISSING = "missing"


class AgentResult(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The result of an agent's run, or of one message to it."""

    output: str
    """The last words of the model; if there were none, a sentence about the end."""
    status: End
    """How it ended; as in `Ending`."""
    turns: int = 0
    """How often the model was asked."""
    called: tuple[str, ...] = ()
    """Tools that ran, in order, whatever their result."""
    refused: Mapping[str, int] = {}
    """Tools that it called and may not use, with the number of calls. None of them ran."""
    denied: tuple[str, ...] = ()
    """Calls of tools that it may use, which a rule or a person refused."""
    unasked: Mapping[str, str] = {}
    """Denied tools that needed an approval when there was nobody to ask; as in `Ending`."""
    withheld: tuple[str, ...] = ()
    """Denied tools that the required isolation withholds; as in `Ending`."""
    missing: Mapping[str, int] = {}
    """Tools on its list that it called and that do not exist, with the number of calls."""
    looked: tuple[str, ...] = ()
    """Ids of the successful calls that only read or fetched something."""
    changed: tuple[str, ...] = ()
    """Ids of the successful calls that may have changed something, without commands."""
    ran: tuple[str, ...] = ()
    """Ids of the commands that ran, whatever their exit code."""
    lacks: tuple[CallKind, ...] = ()
    """What the task needs and no successful call did; as in `Ending`."""
    goal: GoalResult | None = None
    """How far it came with its goal; `None` for an agent without one."""
    usage: Usage | None = None
    """Tokens of all answers, as far as they are known."""
    cost_usd: float | None = None
    """Cost in US dollars; `None` if it is not known."""
    run_id: str = ""
    """Id of the run, for `resume` and `placet explain`."""
    error: str | None = None
    """Why it did not end in success."""
    waiting: tuple[Waiting, ...] = ()
    """Decisions that the run waits for."""
    is_cut_off: bool = False
    """Whether the last answer reached the limit on its length."""
    labels: Labels | None = None
    """The labels on `output`, because of what the agent had read, each with the path by which it came. `None`
    if that was not recorded."""

    @property
    def sourced(self) -> SourcedText:
        """`output` with its provenance, to pass on to another agent."""
        return SourcedText(self.output, "agent", recorded(self.labels))

    @property
    def succeeded(self) -> bool:
        """Whether the agent finished, and met its goal if it has one."""
        return self.status == "success"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as a dict that `json.dumps` accepts, with `succeeded` besides the fields."""
        return {"succeeded": self.succeeded, **ToDict.to_dict(self)}

    @property
    def ending(self) -> Ending:
        """The same result as an `Ending`."""
        counted = (*self.refused.items(), *self.missing.items())
        refused = [name for name, times in counted for _ in range(times)]
        return Ending(
            status=self.status,
            summary=self.output,
            turns=self.turns,
            called=self.called,
            refused=(*refused, *self.denied),
            unasked=self.unasked,
            withheld=self.withheld,
            looked=self.looked,
            changed=self.changed,
            ran=self.ran,
            lacks=self.lacks,
            usage=self.usage,
            cost_usd=self.cost_usd,
            run_id=self.run_id,
            error=self.error,
            waiting=self.waiting,
            is_cut_off=self.is_cut_off,
            labels=self.labels,
        )


class Stop(NamedTuple):
    """Why an agent was stopped from outside."""

    status: End
    reason: str


def sum_up(
    endings: Sequence[Ending],
    spec: AgentSpec,
    goal: GoalResult | None = None,
    stop: Stop | None = None,
    *,
    absent: Container[str] = (),
) -> AgentResult:
    """What came of several messages in one run, which ended like this, one after the other.

    `goal` is how its check went, if it has come to that, and `stop` what keeps the agent from going on.
    `absent` are tools on its list that are not there.
    """
    last = endings[-1]
    status, error = last.status, last.error
    if goal is not None and goal.met:
        status, error = "success", None
    elif stop is not None and status == "cancelled":
        # The time of all is over for each of them, who only hears that it is to stop.
        status, error = stop
    elif goal is not None and status in CHECKED_AFTER:
        if stop is not None:
            status, error = stop
        else:
            times = f"{goal.iterations} iterations" if goal.iterations != 1 else "1 iteration"
            status, error = "unmet", f"the goal is not met after {times}: {goal.reason}"
    allowed = frozenset(spec.allowed)
    refused = [name for ending in endings for name in ending.refused]
    return AgentResult(
        output=last.summary,
        status=status,
        turns=sum(ending.turns for ending in endings),
        called=tuple(name for ending in endings for name in ending.called),
        refused=dict(Counter(name for name in refused if name not in allowed)),
        denied=tuple(name for name in refused if name in allowed and name not in absent),
        missing=dict(Counter(name for name in refused if name in allowed and name in absent)),
        unasked={name: tier for ending in endings for name, tier in ending.unasked.items()},
        withheld=tuple(dict.fromkeys(name for ending in endings for name in ending.withheld)),
        looked=tuple(name for ending in endings for name in ending.looked),
        changed=tuple(name for ending in endings for name in ending.changed),
        ran=tuple(name for ending in endings for name in ending.ran),
        lacks=last.lacks if status == "unsupported" else (),
        goal=goal,
        usage=_sum(endings),
        cost_usd=_costs(endings),
        run_id=last.run_id,
        error=error,
        waiting=last.waiting,
        is_cut_off=last.is_cut_off and status in FINISHED,
        # What was read for an earlier message is still in the conversation.
        labels=None if last.labels is None else further(last.labels, f"agent {spec.id}"),
    )


def loop_of(result: AgentResult) -> dict[str, JsonValue]:
    """What is kept of a result with its run, from which `result_of` reads it."""
    loop = {**result.ending.as_json(), "tools": list(result.called)}
    if result.goal is not None:
        loop[_GOAL] = msgspec.to_builtins(result.goal)
    if result.missing:
        loop[_MISSING] = dict(result.missing)
    return loop


def result_of(ended: ProposalResult, spec: AgentSpec) -> AgentResult:
    """How an agent's run had ended, or what it waits for.

    Raises:
        UsageError: it is no run of an agent.
    """
    ending = ending_of(ended)
    loop = ended.loop if isinstance(ended.loop, Mapping) else {}
    kept = loop.get(_GOAL)
    goal = msgspec.convert(kept, GoalResult) if kept is not None else None
    missing = msgspec.convert(loop.get(_MISSING, {}), dict[str, int])
    result = sum_up([ending], spec, absent=missing)
    return msgspec.structs.replace(result, goal=goal)


def _sum(endings: Sequence[Ending]) -> Usage | None:
    known = [ending.usage for ending in endings if ending.usage is not None]
    if not known:
        return None

    def total(name: str) -> int | None:
        told = [value for usage in known if (value := getattr(usage, name)) is not None]
        return sum(told) if told else None

    return Usage(**{name: total(name) for name in Usage.__struct_fields__})


def _costs(endings: Sequence[Ending]) -> float | None:
    costs = [ending.cost_usd for ending in endings]
    if any(cost is None for cost in costs):
        return None
    return sum(cost for cost in costs if cost is not None)
