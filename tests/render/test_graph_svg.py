"""A plan as a picture: valid XML, the same bytes each time, bounded, and nothing in it but drawing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from placet.ir.codec import decode_proposal
from placet.ir.proposal import Proposal
from placet.ir.result import ActionResult, CompensationResult, ProposalResult
from placet.render.graph_svg import draw_graph
from placet.render.layout import MAX_LAYERS, MAX_PER_LAYER

SVG = "{http://www.w3.org/2000/svg}"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _plan(*actions: dict[str, Any]) -> Proposal:
    return decode_proposal({"id": "p", "actions": list(actions)})


PLAN = _plan(
    {"id": "look", "tool": "find"},
    {"id": "read", "type": "state_read", "parameters": {"key": "status"}},
    {
        "id": "book",
        "tool": "book_it",
        "parameters": {"what": "$look.output"},
        "compensation": {"type": "action_ref", "action_id": "release"},
    },
    {"id": "release", "tool": "cancel_it"},
    {
        "id": "note",
        "type": "state_write",
        "parameters": {"key": "status", "value": 1},
        "dependencies": ["book"],
    },
    {
        "id": "pay",
        "tool": "charge",
        "compensation": {"type": "tool", "tool": "refund"},
        "dependencies": ["note"],
    },
)


def _result(**statuses: str) -> ProposalResult:
    return ProposalResult(
        proposal_id="p",
        run_id="r",
        trace_id="t",
        outcome="aborted",
        error="action 'pay' failed: card declined",
        results=[
            ActionResult(
                action_id=name,
                status=status,  # type: ignore[arg-type]
                duration_ms=12.0,
                error="card declined" if status == "failed" else None,
                rolled_back=status == "succeeded",
                timestamp=NOW,
            )
            for name, status in statuses.items()
        ],
        compensations=[CompensationResult(action_id="book", status="failed", error="line is dead")],
        irreversible=["look"],
    )


def _texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


def _lines(drawing: str, *, dashed: bool) -> int:
    paths = ElementTree.fromstring(drawing).iter(f"{SVG}path")
    arrows = [path for path in paths if path.get("marker-end")]
    return sum(1 for path in arrows if bool(path.get("stroke-dasharray")) == dashed)


def test_every_action_has_a_box_with_its_id_and_what_it_does() -> None:
    texts = _texts(draw_graph(PLAN, title="plan.json"))

    for words in ("plan.json", "look", "find", "read status", "book_it", "undo: release", "undo: refund"):
        assert words in texts
    assert "5 actions, 1 more only to take back · 4 layers" in texts


def test_explicit_edges_are_solid_and_conflicts_dashed_with_their_key() -> None:
    drawing = draw_graph(PLAN)

    # One of each more than the plan has: the legend shows what they mean.
    assert _lines(drawing, dashed=False) == 3 + 1
    assert _lines(drawing, dashed=True) == 1 + 1
    assert "status" in _texts(drawing)
    assert "same state key, so in this order" in _texts(drawing)


def test_what_only_serves_to_undo_stands_apart() -> None:
    texts = _texts(draw_graph(PLAN))

    assert "Only to take back" in texts
    assert texts.index("undoes book") > texts.index("Only to take back")


def test_a_result_adds_status_in_words_and_times_and_what_went_wrong() -> None:
    result = _result(
        look="succeeded", read="succeeded", book="succeeded", release="skipped", note="skipped", pay="failed"
    )

    texts = _texts(draw_graph(PLAN, result))

    assert "✗ aborted" in texts
    assert "✗ failed · 12 ms" in texts
    assert "↶ rolled back · 12 ms" in texts
    assert "✗ pay failed: card declined" in texts
    assert "✗ taking book back failed: line is dead" in texts
    assert "! look stays done: the abort does not undo it" in texts
    assert texts.count("! stays done · 12 ms") == 2, "what is irreversible, and what could not be taken back"
    assert "! stays done" in texts, "the legend says it too"


def test_the_same_plan_gives_the_same_bytes() -> None:
    text = '{"actions":[{"id":"a","tool":"t"},{"tool":"t","dependencies":["a"]}]}'

    assert draw_graph(decode_proposal(text), title="x") == draw_graph(decode_proposal(text), title="x")


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "]]>",
        "<!--",
        '" onload="alert(1)',
        "&amp;&#x41;",
        "\x1b[31m",
        "a\x00b",
        "\u202ecba",
        "\ud800",
        "\ufffe",
    ],
)
def test_hostile_text_stays_text_wherever_it_stands(hostile: str) -> None:
    shown = hostile.encode(errors="ignore").decode()
    plan = Proposal(
        id="p",
        actions=decode_proposal(
            {
                "actions": [
                    {"id": "a", "tool": "t", "expected_effects": {"k": 1}},
                    {"id": "b", "type": "state_read", "parameters": {"key": "k"}},
                ]
            }
        ).actions,
    )
    actions = [
        msgspec.structs.replace(a, id=f"{hostile}{n}", tool=hostile) for n, a in enumerate(plan.actions)
    ]
    result = ProposalResult(
        proposal_id="p",
        run_id="r",
        trace_id="t",
        outcome="partial",
        results=[
            ActionResult(action_id=f"{hostile}0", status="failed", error=hostile * 3, timestamp=NOW),
            ActionResult(action_id=f"{hostile}1", status="succeeded", timestamp=NOW),
        ],
    )

    drawing = draw_graph(Proposal(id="p", actions=actions), result, title=hostile)

    root = ElementTree.fromstring(drawing)
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "title", "defs", "marker", "path", "rect", "text")
    }
    assert not any(
        name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib
    )
    for character in ("\x1b", "\x00", "\u202e", "\ud800", "\ufffe"):
        assert character not in drawing
    if shown.isprintable() and "\u202e" not in shown and shown:
        assert any(shown[:10] in text for text in _texts(drawing))


@pytest.mark.parametrize(
    "shape",
    [
        lambda i: {},
        lambda i: {"dependencies": [f"a{i - 1}"] if i else []},
        lambda i: {"dependencies": [f"a{i // 3}"] if i else []},
        lambda i: {"write_set": ["k"]},
        lambda i: {"read_set" if i % 2 else "write_set": [f"k{i // 5}"]},
        lambda i: {"dependencies": [f"a{j}" for j in range(max(0, i - 4), i)]},
    ],
    ids=["wide", "chain", "tree", "one key", "many keys", "dense"],
)
def test_ten_thousand_actions_give_a_picture_of_bounded_size_that_counts_the_rest(shape: Any) -> None:
    plan = _plan(*({"id": f"a{i}", "tool": "t", **shape(i)} for i in range(10_000)))

    drawing = draw_graph(plan)

    boxes = [r for r in ElementTree.fromstring(drawing).iter(f"{SVG}rect") if r.get("rx") == "7"]
    assert len(boxes) <= (MAX_LAYERS + 2) * MAX_PER_LAYER
    assert len(drawing) < 2_000_000
    hidden = [text for text in _texts(drawing) if text.startswith("+") and text.endswith(" more")]
    assert hidden
    counted = sum(int(text[1:-5].replace(",", "")) for text in hidden)
    rests = [r for r in boxes if r.get("stroke-dasharray")]
    assert counted + len(boxes) - len(rests) == 10_000


def test_what_failed_is_drawn_even_in_a_crowd() -> None:
    plan = _plan(*({"id": f"a{i}", "tool": "t"} for i in range(1000)))
    results = {f"a{i}": "failed" if i == 777 else "succeeded" for i in range(1000)}

    texts = _texts(draw_graph(plan, _result(**results)))

    assert "a777" in texts


def test_a_failed_layer_is_drawn_even_in_the_middle_of_a_long_chain() -> None:
    plan = _plan(
        *({"id": f"a{i}", "tool": "t", "dependencies": [f"a{i - 1}"] if i else []} for i in range(1000))
    )
    results = {f"a{i}": "failed" if i == 777 else "succeeded" for i in range(1000)}

    texts = _texts(draw_graph(plan, _result(**results)))

    assert "a777" in texts
    assert "a999" in texts


def test_a_plan_that_is_refused_says_why_instead_of_drawing() -> None:
    plan = _plan(
        {"id": "a", "tool": "t", "dependencies": ["b"]}, {"id": "b", "tool": "t", "dependencies": ["a"]}
    )

    texts = _texts(draw_graph(plan))

    assert any("cycle" in text for text in texts)
    assert "2 actions · 0 layers" in texts


def test_many_faults_are_cut_and_counted() -> None:
    plan = _plan(*({"id": f"a{i}", "tool": "t", "dependencies": [f"none{i}"]} for i in range(100)))

    texts = _texts(draw_graph(plan))

    assert sum(text.startswith("Refused: ") for text in texts) == 8
    assert "and 92 more" in texts


def test_no_actions_make_an_empty_picture() -> None:
    assert "0 actions · 0 layers" in _texts(draw_graph(_plan()))


def test_nothing_is_drawn_outside_the_sheet() -> None:
    root = ElementTree.fromstring(draw_graph(PLAN, title="x"))
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))

    for rect in root.iter(f"{SVG}rect"):
        x, y = float(rect.get("x", "0")), float(rect.get("y", "0"))
        assert 0 <= x <= x + float(rect.get("width", "0")) <= width
        assert 0 <= y <= y + float(rect.get("height", "0")) <= height


def test_boxes_never_overlap() -> None:
    plan = _plan(
        *(
            {"id": f"a{i}", "tool": "t", "dependencies": [f"a{i * 7 % 11}"] if i > 11 else []}
            for i in range(60)
        )
    )
    root = ElementTree.fromstring(draw_graph(plan))
    boxes = [
        tuple(float(rect.get(name, "0")) for name in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("rx") == "7"
    ]

    for n, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[n + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
