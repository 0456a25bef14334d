"""Agents in words: a list of them, their versions, and how a goal stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from placet.render.text import count
from placet.safe_text import clean

_SHOWN = 20
"""Of more versions, the rest are counted."""
_DIGEST = 12


def agent_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each agent."""
    width = max((len(str(row["id"])) for row in rows), default=0)
    for row in rows:
        sign = "✗" if row["error"] else "✓" if row["enabled"] else "■"
        facts = [str(row["where"])]
        facts += ["hidden"] if row["hidden"] else []
        if row["error"]:
            facts.append("cannot be used")
        else:
            facts += [] if row["enabled"] else ["disabled"]
            facts.append(f"tools: {', '.join(row['tools'])}" if row["tools"] else "no tools")
            facts.append(count(row["scenarios"], "scenario"))
            facts += [f"{row['succeeded']:,} of {count(row['runs'], 'run')} succeeded"] if row["runs"] else []
        said = f"  {row['description']}" if row["description"] else ""
        yield clean(f"{sign} {row['id']:<{width}}  {'; '.join(facts)}{said}", 400)


def version_lines(versions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each version, the newest first."""
    for each in versions[:_SHOWN]:
        moment = datetime.fromtimestamp(each["at"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        yield f"version {each['number']}: {moment} UTC, {each['digest'][:_DIGEST]}"
    if len(versions) > _SHOWN:
        yield f"and {len(versions) - _SHOWN:,} more"


def goal_words(*, met: bool, iterations: int, reason: str = "") -> str:
    """How a goal stands.

    >>> goal_words(met=True, iterations=2)
    'goal: met after 2 iterations'
    """
    after = count(iterations, "iteration")
    return f"goal: met after {after}" if met else f"goal: not met after {after}: {clean(reason, 500)}"
