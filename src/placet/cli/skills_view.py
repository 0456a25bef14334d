"""Skills as tables and lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from placet.memory.context import day_of
from placet.memory.skills.skill import titled
from placet.memory.skills.trial import (
    LEAST_PER_ARM,
    MOST_RUNS,
    Counts,
    SkillState,
    Trial,
    lower_bound,
    next_look,
)
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.memory.skills.shelf import Judgement
    from placet.memory.skills.skill import Skill


def skills_table(found: Sequence[tuple[Skill, Trial]]) -> Table:
    """One row for each skill."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("skill", "state", "with", "without", "domain", "description"):
        table.add_column(heading, no_wrap=heading != "description", overflow="fold")
    for skill, trial in found:
        table.add_row(
            Text(clean(skill.title)),
            Text(_state(skill, trial)),
            Text(_counts(trial.offered)),
            Text(_counts(trial.withheld)),
            Text(clean(skill.domain, 40)),
            Text(clean(" ".join(skill.description.split()), 200)),
        )
    return table


def _state(skill: Skill, trial: Trial) -> str:
    if skill.is_untrusted:
        return "waits for approval"
    return f"{skill.state}, degraded" if trial.is_degraded else skill.state


def _counts(counts: Counts) -> str:
    return f"{counts.successes} of {counts.runs}" if counts.runs else "-"


def skill_lines(skill: Skill, trial: Trial) -> Iterator[str]:
    """A skill with all that is known about it."""
    yield f"{clean(skill.title)}: {clean(skill.description, lines=True)}"
    triggers = skill.triggers
    given = {
        "state": _state(skill, trial),
        "source": skill.source,
        "stored": day_of(skill.made) if skill.made else "",
        "domain": skill.domain,
        "offered to": ", ".join(triggers.personas),
        "URLs": ", ".join(triggers.urls),
        "keywords": ", ".join(triggers.keywords),
        "labels": ", ".join(skill.labels),
        "tenant": skill.tenant or "",
        "distilled from": " > ".join(skill.tools),
        "files": ", ".join(path for path in skill.files),
    }
    yield from (f"  {name}: {clean(value)}" for name, value in given.items() if value)
    yield from (f"  {line}" for line in trial_lines(trial, skill.state))
    yield ""
    yield clean(skill.document.body, lines=True)


def trial_lines(trial: Trial, state: SkillState) -> Iterator[str]:
    """Both arms, and what follows from them."""
    yield f"runs with it: {_counts(trial.offered)}; without it: {_counts(trial.withheld)}"
    bound = lower_bound(trial)
    if trial.offered.runs and trial.withheld.runs:
        yield f"difference of the success rates, at least, with 90 % over all looks: {bound:+.2f}"
    if state == "provisional":
        look = next_look(trial)
        yield (
            f"next look after {look} outcomes, {max(look - trial.runs, 0)} more: kept if the difference is "
            f"above 0 with {LEAST_PER_ARM} runs in each arm; retired after {MOST_RUNS} without"
        )


def judgement_line(judgement: Judgement) -> str:
    """What an outcome did to a skill."""
    run, trial = judgement.run, judgement.trial
    how = "was offered to the run" if run.arm == "with" else "was withheld from the run"
    return (
        f"{clean(titled(run.name, run.version))} {how}: with {_counts(trial.offered)}, "
        f"without {_counts(trial.withheld)}; {judgement.state}"
    )
