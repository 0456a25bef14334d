"""An action in front of its gates: judged, let through, ended, or put to a person.

Keep true:
1. What is judged is the action as it will run, at the moment in which it will.
2. What a person approves covers the action and what would take it back, and nothing else.
3. What is taken back, or put off, counts for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from placet.approvals.approval import Approval
from placet.ir.action import Action
from placet.ir.fields import marked_parts
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue
from placet.ir.proposal import Proposal
from placet.ir.provenance import Labels
from placet.ir.references import MissingPath, Reference, resolve
from placet.ir.result import CANCELED_PREFIX
from placet.ir.stop_cause import StopCause
from placet.policy.budget import Budget
from placet.policy.gate import Gate, Objection, of_undo
from placet.policy.marks import NO_MARKS, UNMARKED, Flow, Inflow, Marks, labels_from, marks_from, union
from placet.policy.permission import Answer as PostureAnswer
from placet.policy.permission import Tier
from placet.policy.sources import ToolAnswer
from placet.runtime.asking import answer_words, ask, denial_of, from_before, trail_of
from placet.runtime.journal import Beginning, key_of, undo_key_of
from placet.runtime.notes import Notes
from placet.runtime.resume import VersionsThen
from placet.runtime.run_info import RunInfo
from placet.runtime.without_calls import WithoutCalls
from placet.state.store import ReadOnly
from placet.tools.tool import Tool
from placet.validator import undo_action
from placet.verify.names import misnamed_parameters, with_misnamed

if TYPE_CHECKING:
    from placet.runtime.services import Services


class Gated(WithoutCalls):
    """The part of an execution that comes before the call."""

    __slots__ = (
        "_begun",
        "_budget",
        "_cancel",
        "_find_tool",
        "_flow",
        "_gate",
        "_judge",
        "_owners",
        "_references",
        "_succeeded",
        "_view",
        "approved",
        "asked_before",
        "denials_from",
        "given",
        "grants",
        "labelled",
        "misnamed",
        "notes",
        "plan",
        "restores",
        "typed",
        "undo_commands",
        "undo_paths",
    )

    def __init__(
        self,
        services: Services,
        proposal: Proposal,
        graph: Graph,
        gate: Gate,
        run: RunInfo,
        budget: Budget,
        attempt: int,
        notes: Notes | None,
    ) -> None:
        super().__init__(services, proposal, graph, run, attempt)
        self._view = ReadOnly(self.state)
        self._gate = gate
        # Looked up once: each of these is asked for every action.
        self._judge = gate.judge
        self._find_tool = services.tools.get
        self._references = graph.references
        self._cancel = run.cancel
        self._budget = budget
        self.plan = attempt
        self.notes = notes
        self._owners: dict[int, int] = {}
        """What ran aside, and the action that it takes back."""
        self.approved: dict[str, Sequence[str]] = {}
        """Keys of actions that a person has approved, and the reasons for which they were asked; what would
        take such an action back needs no more asking for those."""
        self._begun: list[tuple[Action, Tool | None]] = []
        self._succeeded: list[tuple[Action, Tool | None]] = []
        """What policies that look back have counted, to be taken off again if it is taken back."""
        self.asked_before: dict[str, list[Approval]] = {}
        """What the run asked before it was broken off, and what was denied since, by the action's key."""
        self.grants: list[Approval] = []
        """Answers by which a person has allowed all edits of the run."""
        self.restores: Callable[[Sequence[str]], str] | None = None
        """Where an abort restores the folder of the plan: why it would not restore one of these paths, empty
        if it would."""
        self.undo_commands: dict[str, str] = {}
        """By action, the command with which a person can undo its edit where an abort does not."""
        self.undo_paths: dict[str, str] = {}
        """The same by the path of the file."""
        self.denials_from = 0
        """The number of the plan from which on a no holds for later ones."""
        self.given: Inflow = UNMARKED
        """The marks on what the plan says outright, where whoever wrote it had read something marked."""
        self.typed: Sequence[str] = ()
        """Texts that the person typed in the conversation that the plan is from."""
        self.labelled: dict[int, Marks] = {}
        """Labels that tools have put on their outputs while they ran, by position."""
        self.misnamed: Mapping[str, str] = misnamed_parameters(proposal)
        """By action, the unknown field that holds its parameters."""
        self._flow: Flow | None = None
        if gate.state_marks is not None:
            self._follow_marks()
        if gate.counts:
            self.on_success = self.follow

    def _follow_marks(self) -> None:
        """From now on something may be marked."""
        self.mark_unit = self.services.marks.begin(self.proposal.id)
        marks = self.services.marks.scoped(self.run.tenant, self.mark_unit)
        self._flow = Flow(self._gate.marks, marks, self._gate.field_marks)
        self.on_success = self.follow

    def give(self, given: Inflow) -> None:
        """Set the marks on what the plan says outright, and follow marks from now on."""
        self.given = given
        if self._flow is None:
            self._follow_marks()

    def labels_of(self, i: int, parameter: str | None) -> Labels:
        """The labels on a parameter of an action, or on any of them."""
        return labels_from(self.inflow(i).at(parameter))

    def label(self, i: int, labels: Labels) -> None:
        """Label the output of an action, as its tool says. May be called in any thread."""
        self.labelled[i] = union(self.labelled.get(i, NO_MARKS), marks_from(labels))

    def has_labelled(self, i: int) -> bool:
        """Whether the tool has labelled its output; if so, marks are followed from now on."""
        if i not in self.labelled:
            return False
        if self._flow is None:
            self._follow_marks()
        return True

    def _also(self, i: int) -> Marks:
        """Marks on an output besides those that the tool declares and that the plan's references bring."""
        given = self.given.at(None)
        return union(self.labelled[i], given) if self.has_labelled(i) else given

    def count_versions_from(self, beginning: Beginning) -> None:
        """Compare assumptions about versions with the counting of the time when the run began."""
        self._view.version_of = VersionsThen(beginning, self.services.state, self.state)

    def key(self, i: int) -> str:
        """What names this call in its run, also after a restart."""
        owner = self._owners.get(i)
        return key_of(self.plan, i) if owner is None else undo_key_of(self.plan, owner)

    def question_key(self, i: int) -> str:
        """The same for questions, which may outlive a run whose id comes again."""
        return f"{self.run.trace_id}-{self.key(i)}"

    def inflow(self, i: int) -> Inflow:
        """Which marks come with the parameters of an action."""
        if self.given is not UNMARKED:
            return self.given
        return self._flow.inflow(self.actions[i]) if self._flow is not None else UNMARKED

    def lookup(self, reference: Reference) -> JsonValue:
        """The part of an earlier result that a reference names.

        Raises:
            MissingPath: there is no such part, or the action has no output.
        """
        position = self.graph.index[reference.action_id]
        answer = self.bad_answers.get(position, msgspec.UNSET)
        if answer is not msgspec.UNSET:
            return reference.lookup(answer)  # Only what undoes it comes here; all else needs a success.
        result = self.results[position]
        if result is None or result.status != "succeeded":
            raise MissingPath(f"reference '{reference}' names an action that has no output")
        return reference.lookup(result.output)

    def filled_in(self, i: int) -> Action:
        """The action with its references resolved: as it runs, or ran.

        Raises:
            MissingPath: what one of them names is not there.
        """
        action = self.actions[i]
        if i not in self._references and (i < self.size or not action.references):
            return action
        return msgspec.structs.replace(action, parameters=resolve(action.parameters, self.lookup))

    def admit(
        self, i: int, action: Action, tool: Tool | None, now: float
    ) -> Coroutine[Any, Any, None] | None:
        """Every gate is passed: make the first attempt as far as it needs no waiting."""
        raise NotImplementedError

    def objections(self, i: int, action: Action, tool: Tool | None) -> Sequence[Objection]:
        """What the gates say to an action, as things stand now."""
        found = self._ask_gates(i, action, tool)
        return found if not self.misnamed else with_misnamed(found, self.misnamed, action)

    def _ask_gates(self, i: int, action: Action, tool: Tool | None) -> Sequence[Objection]:
        template = self.actions[i]
        aside = i >= self.size
        if self._flow is None and not self.services.marks.is_empty:
            self._follow_marks()  # Another has marked something in a state that is shared.
        if self._flow is None and template.compensation is None and not aside:
            return self._judge(action, tool, self._view, [])
        inflow = self.inflow(i)
        undo = None if aside else undo_action(self.graph, i)
        into_undo = UNMARKED
        if undo is not None and self._flow is not None:
            into_undo = self._flow.inflow_of_undo(undo, template, tool)
        return self._judge(
            action, tool, self._view, [], inflow=inflow, undo=undo, undo_inflow=into_undo, undoes=aside
        )

    def look_again(self, i: int, action: Action) -> tuple[Tool | None, Sequence[Objection]]:
        """The same after a while, in which policies and tools may have become others."""
        self._gate.refresh()
        tool = self._find_tool(action.tool or "") if action.type == "tool_call" else None
        self.tools[i] = tool
        return tool, self.objections(i, action, tool)

    def heed_answers(
        self, i: int, action: Action, objections: Sequence[Objection]
    ) -> Sequence[Objection] | None:
        """What the gates say, and what people were asked before; None if one has said no: then it ended."""
        if any(o.kind != "ask" for o in objections):
            return objections
        # Another plan of the run may want the very same again, to which a person has said no.
        asked = self.asked_before.get(self.question_key(i)) or [
            a for a in self._denied if a.tool == action.tool and a.parameters == action.parameters
        ]
        for approval in asked:
            if approval.decision == "deny":
                self.note("approval_recorded", i, answer_words(approval))
                self.reject(i, action, True, denial_of(approval) or "")
                return None
        return from_before(asked, objections)

    @property
    def _denied(self) -> Iterator[Approval]:
        for key, found in self.asked_before.items():
            if self.denials_from and _plan_of(key) < self.denials_from:
                continue
            yield from (a for a in found if a.decision == "deny")

    def remember_denial(self, i: int, answer: Approval) -> None:
        """A no holds for the rest of the run: nobody is asked about the very same again."""
        if answer.decision == "deny":
            self.asked_before.setdefault(self.question_key(i), []).insert(0, answer)

    def say_permission(self, i: int, action: Action, tool: Tool | None) -> None:
        if tool is not None and tool.schema.risk == "read_only":
            return  # Its tier is never raised.
        found = self._gate.permission(action, tool)
        if found is not None:
            self.note("permission_decision", i, {"tier": found[0], "decision": found[1], "tool": action.tool})

    def object(
        self, i: int, action: Action, tool: Tool | None, objections: Sequence[Objection]
    ) -> Coroutine[Any, Any, None] | None:
        """A gate does not let the action through as it is: end it, or ask."""
        if all(o.kind == "ask" for o in objections):
            owner = self._owners.get(i)
            if owner is None:
                return ask(self, i, action, tool, objections)
            told = self.approved.get(key_of(self.plan, owner), ())
            if all(of_undo(o.reason) in told for o in objections):
                return self.admit(i, action, tool, self.now())
            # Whoever let the owner run was not told of this: it comes from what actions put out.
            words = "it needs an approval, which cannot be asked for while a plan is taken back"
            objections = [*objections, Objection("denied", words)]
        denied = any(o.kind != "invalid" for o in objections)
        reasons = [o.reason for o in objections]
        self.reject(i, action, denied, "; ".join(reasons), trail_of(objections))
        return None

    # People

    @property
    def policy_version(self) -> str:
        """Under which policies people are asked."""
        return self._gate.version

    def permission(self, action: Action, tool: Tool | None) -> tuple[Tier, PostureAnswer] | None:
        """The tier of a call, and what its caller is answered."""
        return self._gate.permission(action, tool)

    async def patiently(self, answer: Awaitable[Approval | None]) -> Approval | None:
        """Wait for a person; that time is nobody's budget."""
        self._budget.wait_begins()
        waiting = asyncio.ensure_future(answer)
        loop = asyncio.get_running_loop()
        unsubscribe = None
        if self._cancel is not None:
            # May come from any thread.
            unsubscribe = self._cancel.on_request(lambda: loop.call_soon_threadsafe(waiting.cancel))
        try:
            await asyncio.wait((waiting,))
            if not waiting.cancelled():
                return waiting.result()
            if self._cancel is not None:
                self.stop_canceled(self._cancel.reason, self._cancel.cause or StopCause.CALLER)
            else:
                self.stop_canceled()
            return None
        finally:
            waiting.cancel()
            if unsubscribe is not None:
                unsubscribe()
            self._budget.wait_ends()

    def approve(self, i: int, approval: Approval) -> None:
        """A person has approved the action."""
        self.approved[self.key(i)] = approval.reasons
        if self.notes is not None:
            self.notes.approved(i, approval.id, approval.reasons)

    def stop_unasked(self, i: int, error: str) -> None:
        """Nobody can be asked now. That is no fault of the action: the run can be resumed."""
        self.stop_canceled(error, StopCause.STORAGE)
        if self.results[i] is None:
            self.skip(i, f"{CANCELED_PREFIX}{error}", StopCause.STORAGE)

    def ask_ahead(self, i: int, action: Action) -> Coroutine[Any, Any, None] | None:
        """While the plan waits nothing starts; but what must be asked anyway is asked now, in one go."""
        is_next = all(self.status[p] == "succeeded" for p in self.graph.before[i])
        if not is_next or self.services.desk is None:
            self.leave(i)
            return None
        tool = self._find_tool(action.tool or "") if action.type == "tool_call" else None
        try:
            action = self.filled_in(i)
        except MissingPath:
            self.leave(i)
            return None
        objections = self.objections(i, action, tool)
        if not objections or any(o.kind != "ask" for o in objections):
            self.leave(i)
            return None
        if self._gate.has_posture:
            self.say_permission(i, action, tool)
        return ask(self, i, action, tool, objections, ahead=True)

    # What follows from a success

    def marks_of(self, i: int) -> Marks:
        """The marks on what an action has put out."""
        return self._flow.output_of(self.actions[i].id) if self._flow is not None else NO_MARKS

    def answer_of(self, i: int) -> ToolAnswer | None:
        """What a call has answered, for rules that accept values from the answers of calls."""
        result = self.results[i]
        if not self._gate.uses_sources or result is None or result.status != "succeeded":
            return None
        action, tool = self.filled_in(i), self.tools[i]
        if action.type != "tool_call":
            return None
        labelled = self.labelled.get(i, NO_MARKS)
        return ToolAnswer(action, tool, result.output, self._gate.field_marks(action, tool), labelled)

    def follow(
        self,
        i: int,
        action: Action,
        output: JsonValue,
        but: Container[str] = (),
        recalled: Marks | None = None,
    ) -> None:
        """The marks go with the output, except on keys in `but`, and policies that look back get to know.
        `recalled` are the marks of an action that is read back."""
        tool = self.tools[i]
        also = self._also(i)
        if self._flow is not None:
            key = action.parameters.get("key") if action.type != "tool_call" else None
            key = key if isinstance(key, str) else None
            self._flow.ended(self.actions[i], action, tool, key=key, also=also, but=but, recalled=recalled)
            if tool is not None and (
                "secret" in self._gate.marks(action, tool) or "secret" in self.labelled.get(i, NO_MARKS)
            ):
                self.services.events.redactor.add_secrets_in(output)
            for steps, mark in self._gate.field_marks(action, tool):
                if mark == "secret":
                    for part in marked_parts(output, steps):
                        self.services.events.redactor.add_secrets_in(part)
        if self._gate.counts:
            self._gate.succeeded(action, tool)
            self._succeeded.append((action, tool))

    def follow_failure(self, i: int, action: Action, tool: Tool | None) -> None:
        """The marks go with what a tool says when it fails, too: whoever reads it has read the tool."""
        also = self._also(i)
        if self._flow is not None and tool is not None:
            self._flow.failed(self.actions[i], action, tool, also)

    def recall_marks(self, i: int, marks: Marks) -> None:
        """What was on what an action said that is read back, whatever came of it."""
        if marks:
            if self._flow is None:
                self._follow_marks()
            assert self._flow is not None
            self._flow.recall(self.actions[i].id, marks)

    def begun(self, i: int, action: Action, tool: Tool | None) -> None:
        """An action has passed every gate, or had before it is read back: policies that count get to know."""
        if self._gate.counts:
            self._gate.begun(action, tool, call=self.question_key(i))
            self._begun.append((action, tool))

    def forget_successes(self) -> None:
        """What was done is taken back: nothing may rely on it."""
        for action, tool in self._succeeded:
            self._gate.succeeded(action, tool, by=-1)
        self._succeeded.clear()

    def forget_all(self) -> None:
        """The plan waits, and will be gone through again: nothing of it counts twice."""
        self.forget_successes()
        for action, tool in self._begun:
            self._gate.begun(action, tool, by=-1)
        self._begun.clear()


def _plan_of(question_key: str) -> int:
    """The number of the plan that a question is about: `TRACE-PLAN-POSITION`, perhaps with more."""
    return int(question_key.split("-")[1])
