"""Whoever sits at the terminal of a coding session, and the time that is theirs."""

from __future__ import annotations

import pytest

from placet.cli import code_person, code_view
from placet.cli.asker import Asker
from placet.cli.code_person import CodePerson
from placet.cli.code_view import CodeView
from placet.cli.output import Output


class Clock:
    """Stands still unless it is moved."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


async def test_what_a_person_takes_to_decide_is_no_time_of_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    answers = iter(["what?", "n", "too long"])

    async def read_slowly(prompt: str) -> str:
        clock.now += 3600
        return next(answers)

    monkeypatch.setattr(code_view, "time", clock)
    monkeypatch.setattr(code_person, "read_line", read_slowly)
    output = Output()
    view = CodeView(output, candidates=1, db=None, is_asked_here=True)
    asker = Asker(output, view.silence, db=None, is_kept=True)
    person = CodePerson(output, view, asker, is_kept=True)

    clock.now += 5
    assert await person.about_change([], "placet/s1") == "no"
    assert await person.why_not() == "too long"
    clock.now += 2

    assert view.elapsed_ms == 7000
