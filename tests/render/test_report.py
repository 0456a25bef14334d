"""Verify's report and the list of tools, for people."""

from __future__ import annotations

import pytest

from placet.ir.codec import decode_proposal
from placet.ir.tool_spec import RateLimit, ToolSchema
from placet.render.report import in_a_row, report_lines
from placet.render.tools import reach_words, tool_lines
from placet.verify.report import Issue, Report


def _report(**fields: object) -> Report:
    return Report(valid=False, **fields)  # type: ignore[arg-type]


def _text(report: Report) -> str:
    return "\n".join(line.plain for line in report_lines(report, title="plan.json"))


def test_the_answer_comes_first_and_errors_before_the_rest() -> None:
    issues = [
        Issue("a", "info", "decision_procedure", "undecided: it depends"),
        Issue("b", "warning", "heuristic", "three equal calls"),
        Issue(None, "error", "decision_procedure", "too many actions"),
    ]

    lines = _text(
        _report(issues=issues, execution_order=["a", "b"], execution_levels=[["a"], ["b"]])
    ).splitlines()

    assert lines[0] == "✗ invalid  plan.json  2 actions, 2 layers, 1 error, 1 warning, 1 undecided"
    assert lines[3].split() == ["✗", "error", "too", "many", "actions"]
    assert "b: three equal calls  (heuristic)" in lines[4]
    assert "a: undecided: it depends" in lines[5]


def test_a_report_without_findings_shows_order_and_state() -> None:
    text = "\n".join(
        line.plain
        for line in report_lines(
            Report(valid=True, execution_levels=[["a", "b"], ["c"]], simulated_state={"k": [1]})
        )
    )

    assert text.startswith("✓ valid")
    assert "Layers\n    1. a, b\n" in text
    assert "  2. c" in text
    assert "  k = [1]" in text


def test_layers_and_serial_order_are_told_apart() -> None:
    report = Report(valid=True, execution_order=["a", "c", "b"], execution_levels=[["a", "b"], ["c"]])

    text = "\n".join(line.plain for line in report_lines(report, in_a_row={0}))

    assert "Layers\n    1. a, b  (one at a time)\n    2. c\n" in text
    assert text.endswith("Counts as run in this order\n  a, c, b")


ACTIONS = decode_proposal(
    {
        "actions": [
            {"id": "look", "tool": "look"},
            {"id": "act", "tool": "act"},
            {"id": "skipped_look", "tool": "look", "failure_behavior": "skip"},
            {"id": "skipped_act", "tool": "act", "failure_behavior": "skip"},
            {"id": "write", "type": "state_write", "parameters": {"key": "k"}, "failure_behavior": "skip"},
            {"id": "read", "type": "state_read", "parameters": {"key": "k"}},
        ]
    }
).actions


@pytest.mark.parametrize(
    ("layer", "is_in_a_row"),
    [
        (["look", "act"], True),
        (["look", "skipped_act"], True),
        (["read", "write"], True),
        (["act"], False),
        (["look", "skipped_look"], False),
        (["read", "look"], False),
        (["skipped_act", "write"], False),
    ],
)
def test_a_layer_runs_one_at_a_time_if_one_may_abort_and_one_has_effects(
    layer: list[str], is_in_a_row: bool
) -> None:
    found = in_a_row(ACTIONS, [["read"], layer], lambda name: name == "look")

    assert found == ({1} if is_in_a_row else set())


def test_actions_are_counted_from_the_plan_and_those_kept_for_undoing_apart() -> None:
    ordered = _report(execution_order=["a", "b"], execution_levels=[["a", "b"]])
    refused = _report(issues=[Issue("a", "error", "decision_procedure", "a cycle")])

    assert "2 actions, 1 more only to take back, 1 layer" in report_lines(ordered, actions=3)[0].plain
    assert report_lines(refused, title="p", actions=2)[0].plain == "✗ invalid  p  2 actions, 1 error"


def test_of_a_plan_without_order_at_most_20_findings_are_shown() -> None:
    issues = [Issue(f"a{i}", "error", "decision_procedure", "no") for i in range(3000)]

    text = _text(_report(issues=issues))

    assert text.count("✗ error") == 20
    assert "… and 2,980 more" in text


def test_long_lists_are_cut_and_counted() -> None:
    issues = [Issue(f"a{i}", "error", "decision_procedure", "no") for i in range(500)]

    text = _text(_report(issues=issues, execution_levels=[[f"a{i}" for i in range(500)]] * 80))

    assert "… and 450 more" in text
    assert "and 488 more" in text
    assert "… and 30 layers more" in text


def test_hostile_text_is_neutralised() -> None:
    text = _text(_report(issues=[Issue("\x1b[2J", "error", "decision_procedure", "\u202eevil")]))

    assert "\\e[2J: \\u202eevil" in text


def test_a_tool_is_listed_with_signature_risk_and_undo() -> None:
    schema = ToolSchema(
        name="fetch",
        description="Get a page.\nSecond line.",
        parameters={
            "type": "object",
            "properties": {
                "url": {"type": "string"},
                "depth": {"type": "integer", "default": 1},
                "kinds": {"type": "array", "items": {"enum": ["a", "b"]}},
                "who": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["url"],
        },
        returns={"type": ["string", "null"]},
        risk="network",
        idempotent=True,
        cache_ttl_secs=60,
        rate_limit=RateLimit(max_calls=5, interval_secs=1),
        labels=["web"],
    )

    lines = [
        line.plain
        for line in tool_lines(
            [schema, ToolSchema(name="anything")],
            {"fetch": "web.py", "anything": "built in"},
            {
                "fetch": reach_words("python", is_brief=True),
                "anything": reach_words("sandbox", ["a.org\x1b[31m"], is_brief=True),
            },
        )
    ]

    assert lines[0] == (
        'fetch(url: string, depth: integer = 1, kinds: array of "a" | "b" = ..., who: string | null = ...) '
        "-> string | null"
    )
    assert lines[1:3] == ["  Get a page.", "  Second line."]
    assert lines[3] == (
        "  risk network, irreversible, idempotent, cached for 60 s, at most 5 calls in 1 s, "
        "labels 'web', outside of every sandbox, web.py"
    )
    assert lines[5] == "anything(...)"
    assert lines[6].startswith("  risk destructive, irreversible, in a sandbox, may speak to a.org")
    assert "\x1b" not in lines[6]
