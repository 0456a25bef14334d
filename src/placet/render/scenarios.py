"""Scenarios, drafts and the choice of an agent, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placet.render.text import count
from placet.safe_text import clean

_MOST = 400
_FAILURES = 5
"""Of one scenario; the rest are counted."""


def trial_words(name: str, trial: Mapping[str, Any], k: int) -> str:
    """One run of a scenario, when it is over."""
    sign = "✓" if trial["passed"] else "✗"
    several = f" [{trial['number']} of {k}]" if k > 1 else ""
    return clean(f"{sign} {name}{several}  {trial['seconds']:.1f} s", _MOST)


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """What came of an agent's scenarios."""
    k = report["k"]
    for scenario in report["scenarios"]:
        sign = "✓" if scenario["passed"] else "✗"
        times = f"  {scenario['times']} of {k} runs" if k > 1 else ""
        said = f": {scenario['input']}" if scenario["name"].startswith("#") else ""
        yield clean(f"{sign} {report['agent']} {scenario['name']}{said}{times}", _MOST)
        if not scenario["passed"]:
            failures = list(dict.fromkeys(why for each in scenario["trials"] for why in each["failures"]))
            for why in failures[:_FAILURES]:
                yield clean(f"    {why}", _MOST * 2)
            if len(failures) > _FAILURES:
                yield f"    and {len(failures) - _FAILURES} more"
    yield clean(total_words(report), _MOST)


def total_words(report: Mapping[str, Any]) -> str:
    """All of it in one line.

    >>> report = {"agent": "a", "k": 3, "passed": 1, "of": 2, "seconds": 4, "tokens": None, "cost_usd": None}
    >>> total_words(report)
    'a: 1 of 2 scenarios passed, each in all of 3 runs (pass^3); 4.0 s'
    """
    k = report["k"]
    said = f"{report['agent']}: {report['passed']} of {count(report['of'], 'scenario')} passed"
    if k > 1:
        said += f", each in all of {k} runs (pass^{k})"
    said += f"; {report['seconds']:.1f} s"
    if report["tokens"] is not None:
        said += f", {report['tokens']:,} tokens"
    if report["cost_usd"]:
        said += f", ${report['cost_usd']:.4f}"
    return said


def attempt_lines(attempt: Mapping[str, Any], most: int) -> Iterator[str]:
    """One draft, and what came of it."""
    spec, report = attempt["spec"], attempt["report"]
    yield f"── attempt {attempt['number']} of {most}  {attempt['seconds']:.1f} s"
    if spec is not None:
        tools = ", ".join(spec.get("tools", ())) or "none"
        yield clean(f"  {spec.get('name') or spec['id']}: {spec['identity']}", _MOST)
        yield clean(f"  tools: {tools}", _MOST)
    if report is not None:
        for scenario, given in zip(report["scenarios"], spec["scenarios"], strict=True):
            sign = "✓" if scenario["passed"] else "✗"
            yield clean(f"  {sign} {given['input']} → {given['expect']}", _MOST)
    for issue in attempt["issues"][:_FAILURES]:
        yield clean(f"  ✗ {issue}", _MOST)


def route_lines(ranked: Sequence[Mapping[str, Any]], note: str = "") -> Iterator[str]:
    """Who fits a question, the best first, and why."""
    width = max((len(str(each["id"])) for each in ranked), default=0)
    for each in ranked:
        yield clean(f"{each['id']:<{width}}  {each['score']:.2f}  {each['because']}", _MOST)
    if note:
        yield clean(f"({note})", _MOST)
