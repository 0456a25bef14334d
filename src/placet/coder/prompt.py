"""What a model is told: the rules and the contract, then the task, what failed, and what helped before.

Keep true:
1. The beginning stays the same from iteration to iteration, because providers keep it.
2. Only checks that failed are told of, and what they wrote is told as material.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from placet.checks.contract import CheckResult, Contract, format_contract
from placet.coder.angles import BLANK
from placet.ir.provenance import Labels, SourcedText, recorded
from placet.safe_text import clean
from placet.truncation import truncate_tail

if TYPE_CHECKING:
    from placet.coder.angles import Angle
    from placet.coder.context import Chosen
    from placet.coder.repairs import Hint
    from placet.coder.style import Style

_SAID = 600
"""Characters of what a check wrote, where nothing else tells what is wrong."""
_NUMBERS = re.compile(r"^\d+: ?|, lines? \d+(?: to \d+)?(?:; it fails at line \d+)?(?=:$)", re.MULTILINE)
_AROUND = 3
"""Functions around the one that is looked at."""
_MOST_SOURCE = 2_000
"""Characters of one of them."""
_CODE = "Code involved, nearest first:"
"""How the part of what was chosen begins that shows the program; before it, what failed."""

_TASK = "Task: "

DRAFTING = (
    "A person wants a program changed, and nobody has said yet how to tell that it is done. Look at the "
    "repository with your tools: which tests are there, and how are they run? Then answer with a contract: a "
    "short description, and checks, each a name and a command for /bin/sh in the top folder, that fail now "
    "and pass when the task is done. Prefer the project's own tests. No check may need the network. Do not "
    "change anything."
)


def system_words(style: Style, contract: Contract) -> str:
    """What holds in every iteration."""
    return f"{style.rules}\n\nThe checks:\n{format_contract(contract)}"


def task_words(
    intent: str,
    results: Sequence[CheckResult],
    *,
    chosen: str,
    hint: Hint | None,
    sealed: Sequence[str],
    said: int,
) -> str:
    """The message that an iteration begins with. `said` of 0 leaves what the checks wrote to `chosen`, as
    far as that says anything."""
    parts = [f"{_TASK}{intent.strip()}"]
    if chosen:
        parts.append(chosen)
    failed = feedback(results, said or _SAID) if said or not chosen else ""
    if failed:
        parts.append(failed)
    if sealed:
        names = "\n".join(f"- {clean(path, 200)}" for path in sealed[:20])
        parts.append(
            "Files were changed that the checks depend on. That is not allowed; they were put back:\n"
            f"{names}\nMake the checks pass without touching them."
        )
    if hint is not None:
        likeness = "a similar failure" if hint.is_coarse else "this very failure"
        parts.append(
            f"A lead, to be checked before you rely on it. What helped against {likeness} before:\n"
            f"{hint.approach}"
        )
    return "\n\n".join(parts)


def task_parts(intent: str, prompt: str, labels: Labels) -> tuple[SourcedText, ...]:
    """The message of an iteration by its parts: the task is the person's, all else a program's. `labels` are
    those of the rest: of the output of checks, and of what earlier iterations had read."""
    begins, task = _TASK, intent.strip()
    if not prompt.startswith(begins + task):
        return (SourcedText(prompt, "program", recorded(None)),)
    rest = prompt[len(begins) + len(task) :]
    return SourcedText(begins, "program"), SourcedText(task), SourcedText(rest, "program", labels)


def angle_words(chosen: Chosen, angle: Angle) -> str:
    """What was chosen, seen from one angle: the failure, the code around, and last the function with a blank,
    because what stays the same from angle to angle is read once."""
    function = angle.function
    # A small model that sees numbers of lines writes numbers of lines.
    parts = [_NUMBERS.sub("", chosen.text.partition(_CODE)[0]).rstrip()]
    if around := [_source(each.source) for each in chosen.functions[:_AROUND] if each != function]:
        parts.append("Code that it uses:\n\n" + "\n\n".join(around))
    match angle.way:
        case "wrong":
            told = f"The function:\n\n{_source(function.source)}\n\nThis line is wrong:\n{_source(angle.was)}"
            asked = "Write the corrected line."
        case "blank":
            told = f"The function, with one line left out:\n\n{_source(angle.shown)}"
            asked = f"Write the line that stands there with {BLANK}: {_source(angle.row)}"
        case "missing":
            told = f"The function, with a line left out:\n\n{_source(angle.shown)}"
            asked = f"Write the code that belongs where {BLANK} stands."
        case _:
            assert_never(angle.way)
    parts += [told, asked]
    return "\n\n".join(part for part in parts if part)


def _source(text: str) -> str:
    return clean(text, _MOST_SOURCE, lines=True, tabs=True)


def feedback(results: Sequence[CheckResult], said: int) -> str:
    """What the red checks have to say; empty if there is none."""
    red = [result for result in results if not result.passed]
    if not red:
        return ""
    told = "\n\n".join(
        f"{result.name} ({_how(result)}):\n{tail(result.output, said)}".rstrip() for result in red
    )
    return f"These checks failed:\n\n{told}"


def tail(text: str, most: int) -> str:
    """The last lines, in at most so many characters: what a program says last mostly tells why it failed."""
    if len(text) <= most:
        return text.rstrip()
    cut = truncate_tail(text, most)
    return f"[…]\n{cut.partition(chr(10))[2] or cut}".rstrip()


def _how(result: CheckResult) -> str:
    code = f"exit code {result.exit_code}" if result.exit_code is not None else "no exit code"
    return f"{code}; {result.why}" if result.why else code
