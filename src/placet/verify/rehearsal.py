"""Go through a plan in serial order, on paper: who would be rejected, who skipped, what would be written.

The order of questions is the executor's: what the action needs, its references, the gate, the budget, the
effect. The gate is the very one that execution asks.

Keep true:
1. `status` and the issues never claim what is not certain; what is not is an `undecided` info.
2. Linear in actions and edges; an action without trouble makes no object of its own.
3. An action that may or may not have run leaves keys in doubt, unless it aborts the plan when it does not:
   then whatever comes later may rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from placet.ir.action import Action, ActionCompensation
from placet.ir.graph import Graph
from placet.ir.json_value import JsonValue, json_equal
from placet.ir.references import has_references
from placet.policy.budget import Budget
from placet.policy.gate import Gate, Objection
from placet.policy.marks import NO_MARKS, UNMARKED, Flow, Marks, Trail, union
from placet.state.store import MISSING
from placet.validator import ToolFacts, Undecided, deduplicates, undo_action
from placet.verify.blanks import Blanks
from placet.verify.known_tools import ToolCards
from placet.verify.marking import RehearsedMarks
from placet.verify.names import with_misnamed
from placet.verify.outputs import Outputs
from placet.verify.report import Issue, error, info, name_few, show_short, undecided
from placet.verify.shares import Answer, Shares
from placet.verify.simulation import Blindfold, SimulatedState

OPEN = "may not run"
"""The status of an action without which the plan may go on. All other statuses are certain, and bad."""
REJECTED, FAILED, SKIPPED = "would be rejected", "would fail", "would be skipped"

_BLIND = Blindfold()
_ANY: Marks = {"untrusted": Trail((), sure=False), "secret": Trail((), sure=False)}
"""Marks that may be on the output of a tool that labels it itself."""


class Rehearsal:
    """One plan, gone through once."""

    __slots__ = (
        "_budget_said",
        "_cards",
        "_flow",
        "_gate",
        "_graph",
        "_keeps_all_outputs",
        "_marks",
        "_misnamed",
        "_outputs",
        "_ranks",
        "_shares",
        "_writers",
        "aborts",
        "issues",
        "state",
        "status",
    )

    def __init__(
        self,
        graph: Graph,
        gate: Gate,
        cards: ToolCards,
        state: SimulatedState,
        *,
        budget: Budget | None = None,
        origins: dict[bytes, int] | None = None,
        misnamed: Mapping[str, str] | None = None,
    ) -> None:
        """With `origins` unknown values can be told apart: those that come from the same calls, in this
        rehearsal or another with the same table, are equal. `misnamed` names, by action, the unknown field
        that holds its parameters."""
        self._graph = graph
        self._misnamed = misnamed or {}
        self._gate = gate = gate.rehearsing()
        self._flow: Flow | None = None
        if gate.state_marks is not None:
            self._marks = RehearsedMarks(gate.state_marks)
            self._flow = Flow(gate.marks, self._marks, gate.field_marks)
        self._cards = cards
        self._keeps_all_outputs = origins is not None
        self._outputs = Outputs(cards, origins)
        self._shares = Shares.that_matter(budget, graph)
        self._budget_said = False
        self._writers: dict[str, list[int]] | None = None
        self._ranks: dict[int, int] | None = None
        self.state = state
        self.issues: list[Issue] = []
        self.status: dict[int, str] = {}
        """Positions of actions that do not surely succeed."""
        self.aborts: bool | None = False
        """Whether the plan aborts; None if that is not known."""

    def run(self) -> None:
        """Go through it."""
        graph, state, cards, status = self._graph, self.state, self._cards, self.status
        actions, needs, referring = graph.actions, graph.needs, graph.references
        cells, shares, targets = state.cells, self._shares, graph.targets
        judge, outputs, flow, counts = self._gate.judge, self._outputs, self._flow, self._gate.counts
        wanted = {p for i in referring for p in graph.explicit[i]}
        if self._keeps_all_outputs:
            wanted = set(graph.order)
        open_questions: list[str] = []
        for i in graph.order:
            action = actions[i]
            in_doubt = False
            if shares is not None:
                if shares.is_spent:
                    self._refuse_share(i)
                    continue
                in_doubt = shares.may_be_spent
            if needs[i] and (status or targets):
                worst = self._worst_need(i)
                if worst is not None:
                    if worst != OPEN:
                        continue
                    in_doubt = True
            blanks: Blanks | None = None
            problems: Sequence[str] = ()
            if referring and i in referring:
                action, blanks, problems = outputs.resolve(action)
            kind = action.type
            card = cards[action.tool] if kind == "tool_call" else None
            tool = card.tool if card is not None else None
            if flow is None and action.compensation is None:
                rejections = judge(action, tool, state, open_questions, blanks=blanks, ahead=True)
            else:
                rejections = self._judge_whole(i, action, tool, open_questions, blanks)
            if self._misnamed:
                rejections = with_misnamed(rejections, self._misnamed, action)
            if blanks is not None and blanks.is_open:
                open_questions.append(blanks.why())
            if rejections or open_questions or problems:
                reasons = [*problems, *(rejection.reason for rejection in rejections)]
                if action.state_dependencies:
                    reasons = self._explain_late_writers(i, reasons)
                if reasons:
                    self._doom(i, REJECTED, reasons, in_doubt)
                    open_questions.clear()
                    continue
            if counts:
                in_question = in_doubt or (bool(open_questions) and action.failure_behavior != "abort")
                self._gate.begun(action, tool, sure=not in_question, is_open=bool(blanks))
            if shares is not None:
                answer = self._ask_shares(shares, i, action, open_questions, in_doubt)
                if answer == "no":
                    if open_questions and action.failure_behavior == "abort" and not self.aborts:
                        # Rejected, it would abort the plan; refused a share, it would only end it.
                        self.aborts = None
                    open_questions.clear()
                    continue
                in_doubt = in_doubt or answer == "maybe"
            if kind == "assertion" and not self._holds(i, action, blanks, open_questions, in_doubt):
                open_questions.clear()
                continue
            if card is not None and card.lacks_handler:
                self._fail(i, f"no handler for tool '{action.tool}'", in_doubt)
                open_questions.clear()
                continue
            if open_questions:
                self.issues += [undecided(action.id, why) for why in open_questions]
                open_questions.clear()
                in_doubt = in_doubt or action.failure_behavior != "abort"
            if wanted and i in wanted:
                outputs.keep(action, blanks, state)
            if counts:
                self._gate.succeeded(action, tool, sure=not in_doubt, is_open=bool(blanks))
            if flow is not None:
                self._carry_marks(flow, i, action, tool, blanks, in_doubt)
            if in_doubt:
                status[i] = OPEN
                self._doubt(action, blanks)
                continue
            if kind == "state_write":
                if blanks:
                    self._write_blank(action, blanks)
                else:
                    cells[action.parameters["key"]] = action.parameters.get("value")
            if action.expected_effects:
                cells.update(action.expected_effects)

    def predict(self) -> tuple[dict[str, JsonValue], list[str]]:
        """The state afterwards, and the keys whose value is not known."""
        if self.aborts:
            return self.state.start(), []
        if self.aborts is None:
            self.state.doubt_all()
        return self.state.end()

    # Where data comes from.

    def _judge_whole(
        self,
        i: int,
        action: Action,
        tool: ToolFacts | None,
        open_questions: list[str],
        blanks: Blanks | None,
    ) -> Sequence[Objection]:
        """Ask the gate, and tell it what flows in, and what would take the action back."""
        template, undo = self._graph.actions[i], undo_action(self._graph, i)
        inflow = into_undo = UNMARKED
        if self._flow is not None:
            inflow = self._flow.inflow(template)
            if undo is not None:
                into_undo = self._flow.inflow_of_undo(undo, template, tool)
        return self._gate.judge(
            action,
            tool,
            self.state,
            open_questions,
            blanks=blanks,
            ahead=True,
            inflow=inflow,
            undo=undo,
            undo_inflow=into_undo,
        )

    def _carry_marks(
        self,
        flow: Flow,
        i: int,
        action: Action,
        tool: ToolFacts | None,
        blanks: Blanks | None,
        in_doubt: bool,
    ) -> None:
        template = self._graph.actions[i]
        self._marks.in_doubt = in_doubt
        key = action.parameters.get("key") if action.type != "tool_call" else None
        if blanks and "key" in blanks and action.type != "tool_call":
            also = NO_MARKS
            if action.type == "state_write":
                self._marks.blur(flow.inflow(template).at("value"))
            else:
                also = self._marks.anything()
            flow.ended(template, action, tool, key=None, also=also)
            return
        also = self._gate.may_mark(action, tool) if blanks else NO_MARKS
        if tool is not None and tool.may_label:
            also = union(also, _ANY)
        flow.ended(
            template,
            action,
            tool,
            key=key if isinstance(key, str) else None,
            also=also,
            is_open=bool(blanks),
        )

    # Before the gate.

    def _worst_need(self, i: int) -> str | None:
        """The status of what the action needs: None if all of it succeeds."""
        graph, status = self._graph, self.status
        found: str | None = None
        for p in graph.needs[i]:
            if p in graph.targets:
                message = f"dependency '{graph.actions[p].id}' only runs as a compensation"
            elif p in status:
                found = status[p]
                if found == OPEN:
                    continue
                message = f"dependency '{graph.actions[p].id}' {found}"
            else:
                continue
            status[i] = SKIPPED
            self.issues += [error(graph.actions[i].id, why) for why in (message, *self.look_at(i))]
            return SKIPPED
        return found

    # After the gate.

    def _doom(self, i: int, how: str, reasons: Iterable[str], in_doubt: bool) -> None:
        """The action does not succeed, whatever happens; with abort the plan does not either."""
        action = self._graph.actions[i]
        self.status[i] = how
        self.issues += [error(action.id, reason) for reason in reasons]
        if action.failure_behavior != "abort" or self.aborts:
            return
        rest = len(self._graph.order) - self._rank_of(i) - 1
        if self.aborts is False and rest:
            when = "should it be reached, " if in_doubt else ""
            what = "action" if rest == 1 else f"{rest:,} actions"
            self.issues.append(
                info(action.id, f"{when}the plan aborts here: the {what} after it would not run")
            )
        self.aborts = None if in_doubt else True

    def _explain_late_writers(self, i: int, reasons: list[str]) -> list[str]:
        """Say it better where a needed key is only written later, and say it also where no state is given."""
        graph = self._graph
        action = graph.actions[i]
        for key in dict.fromkeys(action.state_dependencies):
            exists = self.state.knows(key)
            if exists or (exists is None and self.state.is_blurred):
                continue
            writers = self._writers_of(key)
            others = [w for w in writers[:5] if w != i]
            if not others or self._rank_of(others[0]) < self._rank_of(i):
                continue
            count = len(writers) - (key in graph.touched[i][1])
            first = graph.actions[others[0]].id
            plain = f"state key '{key}' is missing"
            reasons = [reason for reason in reasons if reason != plain]
            reasons.append(
                f"'{action.id}' needs state key '{key}', which only {name_few(graph.ids(others), count)} "
                f"{'writes' if count == 1 else 'write'}, later in the order; list '{first}' first or make "
                f"'{action.id}' depend on it"
            )
        return reasons

    def _writers_of(self, key: str) -> list[int]:
        """Positions of all that write the key, in serial order."""
        if self._writers is None:
            self._writers = {}
            for i in self._graph.order:
                for written in dict.fromkeys(self._graph.touched[i][1]):
                    self._writers.setdefault(written, []).append(i)
        return self._writers.get(key, [])

    def _rank_of(self, i: int) -> int:
        """Where in the serial order the action stands."""
        order = self._graph.order
        if isinstance(order, range):
            return i
        if self._ranks is None:
            self._ranks = {position: rank for rank, position in enumerate(order)}
        return self._ranks[i]

    def _ask_shares(
        self, shares: Shares, i: int, action: Action, open_questions: list[str], in_doubt: bool
    ) -> Answer:
        is_call = action.type == "tool_call"
        card = self._cards[action.tool] if is_call else None
        may_be_free = card is not None and (card.is_cached or deduplicates(action, card.tool))
        # One that aborts the plan where it is rejected has its share wherever the plan goes on.
        is_sure = not in_doubt and (not open_questions or action.failure_behavior == "abort")
        answer = shares.ask(is_call=is_call, is_sure=is_sure, may_be_free=may_be_free)
        if answer == "no":
            self._refuse_share(i)
        elif answer == "maybe" and not self._budget_said:
            self._budget_said = True
            open_questions.append("whether the budget lasts depends on which calls are answered from memory")
        return answer

    def _refuse_share(self, i: int) -> None:
        self.status[i] = SKIPPED
        self.issues.append(error(self._graph.actions[i].id, "cost budget exceeded"))

    def _holds(
        self,
        i: int,
        action: Action,
        blanks: Blanks | None,
        open_questions: list[str],
        in_doubt: bool,
    ) -> bool:
        """Whether an assertion holds, or may."""
        if blanks and "key" in blanks:
            return True
        key = action.parameters["key"]
        if blanks and "expected" in blanks:
            if not blanks.is_open:
                open_questions.append(blanks.why())
            return True
        try:
            value = self.state.peek(key)
        except Undecided as why:
            open_questions.append(f"assertion on '{key}' {why}")
            return True
        value = None if value is MISSING else value
        expected = action.parameters.get("expected")
        if json_equal(value, expected):
            return True
        wrong = f"'{key}' is {show_short(value)}, expected {show_short(expected)}"
        self._fail(i, f"assertion would fail: {wrong}", in_doubt)
        return False

    def _fail(self, i: int, reason: str, in_doubt: bool) -> None:
        """The action starts, and does not succeed."""
        skips = self._graph.actions[i].failure_behavior == "skip"
        self._doom(i, SKIPPED if skips else FAILED, [reason], in_doubt)

    # Its effect.

    def _write_blank(self, action: Action, blanks: Blanks) -> None:
        if "key" in blanks:
            self.state.blur()
        else:
            value = blanks["value"].value if "value" in blanks else action.parameters.get("value")
            self.state.cells[action.parameters["key"]] = value

    def _doubt(self, action: Action, blanks: Blanks | None) -> None:
        """The action may have had its effects, or not."""
        if action.type == "state_write":
            if blanks and "key" in blanks:
                self.state.blur()
            else:
                self.state.doubt(action.parameters["key"])
        for key in action.expected_effects:
            self.state.doubt(key)

    # What can be said wherever an action runs.

    def look_at(self, i: int) -> list[str]:
        """What is wrong with an action in any state: an unknown tool, parameters that do not fit."""
        problems, found = self._look(self._graph.actions[i], undoes=i in self._graph.targets)
        return [*problems, *(objection.reason for objection in found)]

    def denials_of_undo(self, i: int) -> list[str]:
        """Why what would take an action back would not be let through. What is wrong with it in itself is
        told of the action."""
        undo = undo_action(self._graph, i)
        if undo is None or isinstance(self._graph.actions[i].compensation, ActionCompensation):
            return []
        _, found = self._look(undo, undoes=True)
        return [o.reason for o in found if o.kind == "denied" or o.reason.startswith("capability denied")]

    def _look(self, action: Action, *, undoes: bool) -> tuple[Sequence[str], Sequence[Objection]]:
        inflow = self._flow.inflow(action) if self._flow is not None else UNMARKED
        blanks: Blanks | None = None
        problems: Sequence[str] = ()
        if action.references and has_references(action.parameters):
            # No output is kept here: what is wrong is wrong whatever they are.
            action, blanks, problems = Outputs(self._cards).resolve(action)
        tool = self._cards[action.tool].tool if action.type == "tool_call" else None
        found = self._gate.judge(
            action, tool, _BLIND, [], blanks=blanks, ahead=True, inflow=inflow, undoes=undoes
        )
        found = with_misnamed(found, self._misnamed, action)
        return problems, found
