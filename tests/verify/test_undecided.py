"""What cannot be known before a plan runs is said to be undecided, and nothing else is."""

from __future__ import annotations

from placet.policy.budget import Budget, CostBudget
from placet.policy.engine import PolicySet
from placet.policy.gate import Gate
from placet.policy.rule import RateLimitTool
from placet.state.memory import MemoryState
from placet.verify import verify
from placet.verify.known_tools import read_tools
from tests.verify.plans import TOOLS, call, claim, errors, plan, read, undecided, write

# No state given


def test_without_a_state_conditions_on_it_are_undecided() -> None:
    document = plan(
        call(
            "a",
            preconditions=[{"key": "k", "value": 1}],
            assumptions=[{"key": "k", "expected_value": 1}],
            state_dependencies=["k"],
        )
    )

    report = verify(document)

    assert report.valid
    assert [action_id for action_id, _ in undecided(report)] == ["a", "a", "a"]
    assert all(message.startswith("undecided: ") for _, message in undecided(report))


def test_without_a_state_what_the_plan_itself_wrote_is_known() -> None:
    report = verify(plan(write("a", "k", 1), claim("b", "k", 1), claim("c", "k", 2), read("d", "l")))

    assert [action_id for action_id, _ in errors(report)] == ["c"]
    assert undecided(report) == []


def test_an_empty_state_is_known() -> None:
    assert undecided(verify(plan(claim("a", "k", None)), {})) == []
    assert len(undecided(verify(plan(claim("a", "k", None))))) == 1


# A consumer before its only writer


def test_a_consumer_listed_before_the_only_writer_is_an_error_naming_both() -> None:
    document = plan(call("a1", state_dependencies=["k"]), write("a2", "k"))
    words = (
        "'a1' needs state key 'k', which only 'a2' writes, later in the order; "
        "list 'a2' first or make 'a1' depend on it"
    )

    assert errors(verify(document)) == [("a1", words)]
    assert errors(verify(document, {})) == [("a1", words)]


def test_a_consumer_before_several_writers_names_a_few() -> None:
    writers = [write(f"w{i}", "k") for i in range(10)]

    message = errors(verify(plan(call("a", state_dependencies=["k"]), *writers)))[0][1]

    assert "only 'w0', 'w1', 'w2' and 7 more write, later" in message


def test_a_consumer_before_its_writer_is_fine_where_the_state_has_the_key() -> None:
    assert verify(plan(call("a1", state_dependencies=["k"]), write("a2", "k")), {"k": 0}).valid


def test_a_consumer_that_depends_on_the_writer_is_fine_wherever_it_is_listed() -> None:
    document = plan(call("a1", state_dependencies=["k"], dependencies=["a2"]), write("a2", "k"))

    report = verify(document)

    assert report.valid
    assert list(report.execution_order) == ["a2", "a1"]


def test_a_consumer_that_writes_its_own_key_is_not_its_own_writer() -> None:
    document = plan(call("a", state_dependencies=["k"], expected_effects={"k": 1}))

    assert errors(verify(document, {})) == [("a", "state key 'k' is missing")]
    assert verify(document).valid


def test_a_key_that_an_earlier_unknown_write_may_have_made_is_undecided() -> None:
    document = plan(call("t"), write("w", "$t.output"), call("a", state_dependencies=["k"]), write("z", "k"))

    report = verify(document, {}, TOOLS)

    assert report.valid
    assert (
        "a",
        "undecided: state key 'k' cannot be checked: an earlier action writes a key that is not known yet",
    ) in (undecided(report))


# What tools answer


def test_parameters_from_a_tool_are_undecided_where_a_schema_or_a_path_could_refuse_them() -> None:
    free = verify(plan(call("t"), call("a", parameters={"x": "$t.output"})), {}, TOOLS)
    by_schema = verify(plan(call("t"), call("a", "add", {"n": "$t.output"})), {}, TOOLS)
    by_path = verify(plan(call("t"), call("a", parameters={"x": "$t.output.name"})), {}, TOOLS)

    assert undecided(free) == []
    assert [action_id for action_id, _ in undecided(by_schema)] == ["a"]
    assert undecided(by_path) == [("a", "undecided: its parameters depend on the output of 't'")]


def test_a_value_from_a_tool_makes_its_key_unknown_but_not_missing() -> None:
    document = plan(
        call("t"),
        write("w", "k", "$t.output"),
        call("a", state_dependencies=["k"], preconditions=[{"key": "k", "operator": "exists"}]),
    )

    report = verify(document, {"k": 0, "l": 0}, TOOLS)

    assert report.valid
    assert undecided(report) == []
    assert report.simulated_state == {"l": 0}
    assert list(report.unknown_keys) == ["k"]


def test_a_condition_on_a_value_from_a_tool_is_undecided_until_it_is_overwritten() -> None:
    document = plan(
        call("t"), write("w", "k", "$t.output"), claim("a", "k", 1), write("v", "k", 1), claim("b", "k", 1)
    )

    report = verify(document, {}, TOOLS)

    assert undecided(report) == [
        ("a", "undecided: assertion on 'k' cannot be checked: the value depends on the output of a tool")
    ]


def test_an_expected_value_from_a_tool_is_undecided() -> None:
    assert len(undecided(verify(plan(call("t"), claim("a", "k", "$t.output")), {"k": 1}, TOOLS))) == 1


def test_a_write_to_a_key_from_a_tool_makes_every_value_unknown() -> None:
    document = plan(write("v", "l"), call("t"), write("w", "$t.output"), claim("a", "k", 0), write("z", "m"))

    report = verify(document, {"k": 0}, TOOLS)

    assert {action_id for action_id, _ in undecided(report)} == {"w", "a"}
    assert report.simulated_state == {"m": 1}
    assert list(report.unknown_keys) == ["k", "l"]


def test_a_key_read_from_a_known_state_is_known() -> None:
    report = verify(plan(read("r", "which"), write("w", "$r.output", 5)), {"which": "k"})

    assert undecided(report) == []
    assert report.simulated_state == {"k": 5, "which": "k"}


# Actions that may not run


def test_what_an_undecided_action_writes_is_in_doubt_if_the_plan_goes_on_without_it() -> None:
    maybe = {"preconditions": [{"key": "open", "value": 1}], "failure_behavior": "skip"}

    report = verify(plan(write("a", "k", 1, **maybe), claim("b", "k", 1)))

    assert [action_id for action_id, _ in undecided(report)] == ["a", "b"]
    assert list(report.unknown_keys) == ["k"]


def test_later_actions_may_rely_on_an_undecided_one_that_would_abort_the_plan() -> None:
    report = verify(plan(write("a", "k", 1, preconditions=[{"key": "open", "value": 1}]), claim("b", "k", 1)))

    assert [action_id for action_id, _ in undecided(report)] == ["a"]
    assert report.simulated_state == {"k": 1}


def test_what_needs_an_undecided_action_leaves_its_keys_in_doubt_too() -> None:
    maybe = {"preconditions": [{"key": "open", "value": 1}], "failure_behavior": "skip"}

    report = verify(plan(call("a", **maybe), write("b", "k", 1, dependencies=["a"])), None, TOOLS)

    assert list(report.unknown_keys) == ["k"]


def test_an_abort_that_may_not_be_reached_leaves_all_that_was_written_in_doubt() -> None:
    maybe = {"preconditions": [{"key": "open", "value": 1}], "failure_behavior": "skip"}
    document = plan(
        write("w", "l"), call("a", **maybe), claim("b", "l", 2, dependencies=["a"]), write("c", "m")
    )

    report = verify(document, None, TOOLS)

    assert not report.valid
    assert "should it be reached, the plan aborts here: the action after it would not run" in [
        issue.message for issue in report.issues
    ]
    assert report.simulated_state == {}
    assert list(report.unknown_keys) == ["l", "m"]


def test_a_certain_problem_of_an_action_hides_its_open_questions() -> None:
    action = call("a", "lok", preconditions=[{"key": "open", "value": 1}])

    report = verify(plan(action), None, TOOLS)

    assert not report.valid
    assert undecided(report) == []


# Versions


def test_a_read_version_is_undecided_without_a_store() -> None:
    document = plan(read("a", "k", assumptions=[{"key": "k", "read_version": 1}]))

    assert len(undecided(verify(document, {"k": 1}))) == 1
    assert len(undecided(verify(document))) == 1


def test_a_read_version_is_decided_by_a_store() -> None:
    state = MemoryState({"k": 1, "l": 2})

    def check(version: int) -> bool:
        report = verify(plan(read("a", "k", assumptions=[{"key": "k", "read_version": version}])), view=state)
        assert undecided(report) == []
        return report.valid

    assert check(state.version)
    assert check(1)
    assert not check(0)


def test_a_write_of_the_plan_itself_breaks_a_read_version() -> None:
    state = MemoryState({"k": 1, "l": 2})
    document = plan(
        write("w", "k", 1), read("a", "k", assumptions=[{"key": "k", "read_version": state.version}])
    )

    report = verify(document, view=state)

    assert errors(report) == [("a", "assumption broken: 'k' has changed since version 2")]


def test_a_read_version_of_the_future_is_undecided_after_a_write() -> None:
    document = plan(write("w", "k", 1), read("a", "k", assumptions=[{"key": "k", "read_version": 99}]))

    assert len(undecided(verify(document, view=MemoryState({"k": 1})))) == 1


def test_a_read_version_is_undecided_where_a_write_is() -> None:
    state = MemoryState({"k": 1})
    document = plan(
        call("t"),
        write("x", "from_tool", "$t.output"),
        write("w", "k", 1, preconditions=[{"key": "from_tool", "value": 1}], failure_behavior="skip"),
        read("a", "k", assumptions=[{"key": "k", "read_version": 1}]),
    )

    report = verify(document, tools=TOOLS, view=state)

    assert report.valid
    assert [action_id for action_id, _ in undecided(report)] == ["w", "a"]


def test_a_view_is_read_and_left_alone() -> None:
    state = MemoryState({"k": [1]})

    report = verify(plan(write("w", "l"), claim("a", "k", [1])), view=state)

    assert report.valid
    assert report.simulated_state == {"k": [1], "l": 1}
    assert state.version == 1


# Rates and budgets


def test_a_rate_limit_is_undecided() -> None:
    policies = PolicySet(lambda: 0.0)
    policies.add("slow", RateLimitTool(tool="look", max_calls=0, interval_secs=60))

    report = verify(plan(call("a"), call("b")), {}, TOOLS, gate=Gate(read_tools(TOOLS), policies=[policies]))

    assert report.valid
    assert [action_id for action_id, _ in undecided(report)] == ["a", "b"]


def test_actions_beyond_a_count_are_errors_and_leave_nothing() -> None:
    report = verify(
        plan(write("a", "k"), write("b", "l"), write("c", "m")), {}, budget=CostBudget(max_actions=2)
    )

    assert errors(report) == [("c", "cost budget exceeded")]
    assert report.simulated_state == {"k": 1, "l": 1}


def test_when_calls_run_out_everything_after_is_refused() -> None:
    document = plan(call("a"), call("b"), write("c", "k"))

    report = verify(document, {}, TOOLS, budget=CostBudget(max_tool_calls=1))

    assert errors(report) == [("b", "cost budget exceeded"), ("c", "cost budget exceeded")]
    assert report.simulated_state == {}


def test_what_was_used_of_a_budget_counts() -> None:
    used = Budget(CostBudget(max_actions=3))
    used.spent.actions = 2

    assert [a for a, _ in errors(verify(plan(write("a", "k"), write("b", "l")), {}, budget=used))] == ["b"]


def test_a_budget_that_is_large_enough_says_nothing() -> None:
    report = verify(plan(write("a", "k")), {}, budget=CostBudget(max_actions=1, max_tool_calls=0))

    assert list(report.issues) == []


def test_a_rejected_action_takes_no_share() -> None:
    document = plan(
        call("a", preconditions=[{"key": "k", "value": 1}], failure_behavior="skip"), write("b", "l")
    )

    report = verify(document, {}, TOOLS, budget=CostBudget(max_actions=1))

    assert [action_id for action_id, _ in errors(report)] == ["a"]


def test_calls_that_may_be_answered_from_memory_make_a_budget_undecided() -> None:
    for tool, fields in (("remember", {}), ("unbook", {"idempotent": True})):
        report = verify(
            plan(call("a", tool, **fields), call("b", tool, **fields)),
            {},
            TOOLS,
            budget=CostBudget(max_tool_calls=1),
        )

        assert report.valid
        assert len(undecided(report)) == 1


def test_a_call_that_may_be_answered_from_memory_may_need_no_budget_at_all() -> None:
    report = verify(plan(call("a", "remember")), {}, TOOLS, budget=CostBudget(max_tool_calls=0))

    assert report.valid
    assert [action_id for action_id, _ in undecided(report)] == ["a"]


def test_what_follows_an_action_that_is_rejected_or_refused_is_in_doubt() -> None:
    """Rejected, it leaves the rest to go on; refused its share, it ends the plan."""
    document = plan(
        write("w", "l"),
        call("t"),
        call("a", "add", {"n": "$t.output"}, failure_behavior="skip"),
        write("b", "m"),
        read("c", "l", preconditions=[{"key": "l", "value": 2}]),
    )

    report = verify(document, {}, TOOLS, budget=CostBudget(max_tool_calls=1))

    assert [action_id for action_id, _ in errors(report)] == ["a", "c"]
    assert report.simulated_state == {}
    assert list(report.unknown_keys) == ["l", "m"]


def test_budgets_on_time_tokens_and_money_are_one_open_question_of_the_proposal() -> None:
    budget = CostBudget(max_duration_ms=1000, max_tokens=10, max_cost=0.5)

    report = verify(plan(write("a", "k")), {}, budget=budget)

    assert report.valid
    assert undecided(report) == [
        (
            None,
            "undecided: whether the budget lasts (max_duration_ms, max_tokens, max_cost) "
            "depends on what the run uses",
        )
    ]
    assert undecided(verify(plan(), {}, budget=budget)) == []


def test_a_budget_already_spent_refuses_everything() -> None:
    spent = Budget(CostBudget(max_tokens=10))
    spent.spend(10, 0.0)

    report = verify(plan(write("a", "k")), {}, budget=spent)

    assert errors(report) == [("a", "cost budget exceeded")]
    assert undecided(report) == []
