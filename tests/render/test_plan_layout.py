"""Where the actions of a run are drawn."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from placet.events.run_view import ActionView, ProposalView, RunView
from placet.render.plan_layout import HEIGHT, WIDTH, lay_out


@st.composite
def views(draw: st.DrawFn) -> RunView:
    """A run with a plan in which each action depends on some of those before, or, in a bad one, on any."""
    size, bad = draw(st.integers(0, 90)), draw(st.booleans())
    actions = {}
    for n in range(size):
        deps = (
            draw(st.sets(st.integers(0, size - 1 if bad else max(n - 1, 0)), max_size=3))
            if n or bad
            else set()
        )
        actions[f"p/{n}"] = ActionView(
            key=f"p/{n}", id=str(n), proposal="p", deps=[f"p/{d}" for d in sorted(deps)] + ["p/gone"]
        )
    return RunView(
        run_id="r", proposals=[ProposalView(id="p")] if draw(st.booleans()) else [], actions=actions
    )


@given(views())
def test_no_two_boxes_overlap_and_all_lie_inside(view: RunView) -> None:
    layout = lay_out(view)

    assert sorted(layout.keys) == sorted(view.actions)
    boxes = sorted(zip(layout.x, layout.y, strict=True))
    for x, y in boxes:
        assert 0 <= x <= layout.width - WIDTH
        assert 0 <= y <= layout.height - HEIGHT
    for (x, y), (other_x, other_y) in itertools.pairwise(boxes):
        assert other_x >= x + WIDTH or other_y >= y + HEIGHT


@given(views())
def test_what_depends_stands_to_the_right(view: RunView) -> None:
    layout = lay_out(view)
    places = dict(zip(layout.keys, layout.x, strict=True))
    later = {key for key, each in view.actions.items() if any(_number(d) >= _number(key) for d in each.deps)}

    if not later:  # In a plan without a circle.
        for key, each in view.actions.items():
            assert all(places[dep] < places[key] for dep in each.deps if dep in places)


def _number(key: str) -> int:
    name = key.removeprefix("p/")
    return int(name) if name.isdigit() else -1
