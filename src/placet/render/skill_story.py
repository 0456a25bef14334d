"""What a run had to do with skills, told in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from placet.events.event import Event
from placet.events.schema import EvolutionTriggered, SkillDistilled, SkillOffered, SkillOutcome, typed
from placet.render.text import listing
from placet.safe_text import clean

KINDS = frozenset({"skill_offered", "skill_outcome", "skill_distilled", "evolution_triggered"})
_BY = {"check": "a check", "scenario": "a scenario", "person": "a person", "undo": "an undo"}


def tell_skills(events: Sequence[Event]) -> Iterator[Text]:
    """What was offered to a run, how somebody says that it went, and what was made from it."""
    for event in events:
        match typed(event):
            case SkillOffered() as said:
                if said.offered:
                    yield Text(f"  It was offered {_names(said.offered)}.")
                if said.withheld:
                    yield Text(f"  To compare, {_names(said.withheld)} was withheld from it.")
            case SkillOutcome() as said:
                how = "did what it was for" if said.succeeded else "did not do what it was for"
                yield Text(f"  By {_BY.get(said.by, 'somebody')}, it {how}.")
                yield from (Text(f"    {clean(each, 120)}") for each in said.skills)
            case SkillDistilled() as said:
                how = "was repaired" if said.how == "repaired" else "was made from it"
                waits = "; a person has to approve it" if "untrusted" in said.labels else ""
                yield Text(f"  The skill {_names(said.names)} {how}{waits}.")
            case EvolutionTriggered() as said:
                share = f"{said.rate:.0%} of the runs succeeded"
                yield Text(
                    f"  In the domain '{clean(said.domain, 60)}' {share}: {_names(said.names)} was made."
                )


def _names(names: Sequence[str]) -> str:
    return listing([clean(each, 80) for each in names])
