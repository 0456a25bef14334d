"""The tree of a run fits, and shows first what matters."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from placet.events.event import Event
from placet.render.advice import advise
from placet.render.history import History
from placet.render.steps import Step, Undoing
from placet.render.tree import draw_tree, fit

MakeEvents = Callable[..., list[Event]]

LAYERS = [["look", "extra"], ["book", "mail", "after"], ["pay"]]


def _drawn(history: History, layers: list[list[str]], **options: float | str) -> list[str]:
    console = Console(file=StringIO(), width=120, color_system=None, highlight=False, markup=False)
    console.print(draw_tree(history, layers, **options))  # type: ignore[arg-type]
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue().splitlines()


def test_a_finished_run_shows_every_step_with_mark_word_and_time(aborted: list[Event]) -> None:
    lines = _drawn(History.of(aborted), LAYERS)
    text = "\n".join(lines)

    assert lines[0].startswith("✗ aborted  p1  6 actions, 3 layers")
    assert "↶ look   find    rolled back    20 ms  attempt 2" in text
    assert "⊘ extra  luxury  rejected              policy 'modest': no luxury" in text
    assert "– after  lounge  skipped" in text
    assert "✗ pay    charge  failed        100 ms  card declined" in text
    assert lines[-2].strip().startswith("└── taking back")
    assert "✓ book   cancel  succeeded       5 ms" in lines[-1]


def test_what_cannot_be_undone_has_a_mark_of_its_own(aborted: list[Event]) -> None:
    text = "\n".join(_drawn(History.of(aborted), LAYERS))

    assert "! mail   mail    stays done     30 ms  the abort does not undo it" in text
    assert "↶ book   book    rolled back    30 ms" in text


@pytest.mark.parametrize(
    ("compensation", "look"),
    [
        ("succeeded", "rolled_back"),
        ("failed", "stays_done"),
        ("rejected", "stays_done"),
        ("unknown", "unknown"),
    ],
)
def test_a_step_looks_as_its_compensation_went(compensation: str, look: str) -> None:
    step = Step("book", status="succeeded", rolled_back=True, undoing=Undoing("cancel", compensation))

    assert step.look == look


def test_on_a_narrow_terminal_a_reason_is_wrapped_and_not_cut(aborted: list[Event]) -> None:
    words = "the bank says that the card was declined because it is over its limit for today"
    events = [
        msgspec.structs.replace(e, data={**e.data, "error": words}) if e.kind == "action_failed" else e
        for e in aborted
    ]

    lines = _drawn(History.of(events), LAYERS, width=80)

    assert all(len(line) <= 80 for line in lines)
    assert words in re.sub(r"[\s│]+", " ", "\n".join(lines))
    assert "…" not in "".join(lines)
    head = "\n".join(_drawn(History.of(events), LAYERS, width=40, title="a rather long title"))
    assert "6 actions, 3 layers, 2.1 s" in head


def test_what_only_takes_back_is_counted_apart() -> None:
    received = {"action_count": 3, "order": ["a", "b"]}
    history = History.of([Event(1, "proposal_received", 1.0, "r", "p", data=received)])

    assert "0 of 2 actions, 1 more only to take back, 1 layer" in _drawn(history, [["a", "b"]])[0]


def test_a_running_step_shows_how_long_it_has_been_at_it(aborted: list[Event]) -> None:
    so_far = aborted[:9]

    text = "\n".join(_drawn(History.of(so_far), LAYERS, now=1002.9))

    assert "▸ running  p1  1 of 6 actions, 3 layers, 2.7 s" in text
    assert "▸ book   book    running        2.1 s" in text
    assert "· pay    charge  waiting" in text


def test_a_step_that_is_about_to_be_retried_says_when_and_why(aborted: list[Event]) -> None:
    text = "\n".join(_drawn(History.of(aborted[:5]), LAYERS))

    assert "↻ look   find    retrying              attempt 2 after 100 ms: busy" in text


def test_an_interrupted_run_does_not_look_as_if_it_ran(aborted: list[Event]) -> None:
    history = History.of(aborted[:9])
    history.break_off()

    lines = _drawn(history, LAYERS)

    assert lines[0].startswith("? interrupted  p1  1 of 6 actions, 3 layers")
    assert "? book   book    in flight" in "\n".join(lines)
    assert [a.sentence for a in advise(history)] == ["Its process is gone. To go on where it stood:"]


def test_the_time_in_which_nobody_was_at_work_counts_for_no_step(make_events: MakeEvents) -> None:
    events = make_events(
        ("proposal_received", None, {}),
        ("action_executing", "a", {"attempt": 1}),
        ("run_resumed", None, {"completed": 0}),
        ("action_executing", "a", {"attempt": 1}),
        ("action_succeeded", "a", {}),
    )
    late = [msgspec.structs.replace(e, time=e.time + 3600 * (e.seq > 2)) for e in events]

    [part] = History.of(late).parts.values()

    assert part.steps["a"].duration_ms == pytest.approx(100)
    assert part.steps["a"].began_at == 4


def test_trouble_is_shown_before_success_where_not_everything_fits() -> None:
    layer = [Step(f"a{i}", status="succeeded") for i in range(1000)]
    layer[777] = Step("bad", status="failed")

    rows = fit([layer], 10)

    assert "bad" in [step.id for step in rows[0].shown]
    assert rows[0].hidden["succeeded"] + len(rows[0].shown) == 1000


@given(st.lists(st.integers(min_value=1, max_value=60), max_size=60), st.integers(min_value=4, max_value=80))
def test_it_always_fits_and_leaves_nobody_uncounted(sizes: list[int], room: int) -> None:
    layers = [[Step(f"{n}.{i}", status="succeeded") for i in range(size)] for n, size in enumerate(sizes)]

    rows = fit(layers, room)

    lines = sum(len(r.shown) + bool(r.hidden) + bool(r.shown) for r in rows)
    assert lines <= room
    assert sum(len(r.shown) + r.hidden.total() for r in rows) == sum(sizes)


def test_markup_and_controls_in_names_are_only_text() -> None:
    history = History.of(
        [Event(1, "action_failed", 1.0, "r", "p", "[red]x\x1b[2J", None, None, None, {"error": "[b]no"})]
    )

    text = "\n".join(_drawn(history, [["[red]x\x1b[2J"]]))

    assert "[red]x\\e[2J" in text
    assert "[b]no" in text
    assert "\x1b" not in text
