"""The marks on state keys, as far as they are known while a plan is only gone through.

Keep true: a trail that is `sure` will be there when the plan runs; what may or may not be there is not sure.
"""

from __future__ import annotations

from placet.policy.marks import NO_MARKS, MarkedState, Marks, Trail, union


class RehearsedMarks:
    """Marks written on paper, over those that the state has."""

    def __init__(self, base: MarkedState) -> None:
        self._base = base
        self._written: dict[str, Marks] = {}
        self._anywhere: Marks = NO_MARKS
        """Written to a key that is not known: any may have them, and none surely has what it had."""
        self._is_blurred = False
        self.in_doubt = False
        """Whether the action that writes now may not run."""

    def get(self, key: str) -> Marks:
        """The marks on a key."""
        found = self._written[key] if key in self._written else self._base.get(key)
        return union(_unsure(found), self._anywhere) if self._is_blurred else found

    def put(self, key: str, marks: Marks) -> None:
        """What is written has these marks; in doubt, it may have those it had."""
        if self.in_doubt:
            before = self.get(key)
            both = {m: t for m, t in marks.items() if m in before and before[m].sure}
            marks = union(both, _unsure(marks), _unsure(before))
        self._written[key] = marks

    def blur(self, marks: Marks) -> None:
        """A key that is not known gets these marks."""
        self._is_blurred = True
        self._anywhere = union(self._anywhere, _unsure(marks))

    def anything(self) -> Marks:
        """What a key that is not known may have."""
        return _unsure(union(self._anywhere, self._base.anything(), *self._written.values()))


def _unsure(marks: Marks) -> Marks:
    return {mark: Trail(trail.steps, sure=False) for mark, trail in marks.items()}
