"""The lines at the end of an answer tell the person what a model is not told."""

from __future__ import annotations

from placet.cli.ending import ending_lines
from placet.turns.ending import Ending


def lines(ending: Ending) -> str:
    return "\n".join(ending_lines(ending, db=None, is_kept=False, goes_on=""))


def test_a_tool_that_isolation_withheld_comes_with_the_setting_that_trusts_it() -> None:
    shown = lines(Ending(status="success", summary="", refused=("pay",), withheld=("pay",)))

    assert 'trusted_tools = ["pay"]' in shown
    assert "--yes-to" not in shown


def test_without_a_withheld_tool_no_setting_is_named() -> None:
    assert "trusted_tools" not in lines(Ending(status="success", summary="", refused=("pay",)))
