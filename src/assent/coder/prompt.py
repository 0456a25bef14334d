"""What a model is told: the rules and the contract, then the task, what failed, and what helped before.

Keep true:
1. The beginning stays the same from iteration to iteration, because providers keep it.
2. Only checks that failed are told of, and what they wrote is told as material.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assent.coder.contract import CheckResult, Contract, contract_words
from assent.safe_text import clean

if TYPE_CHECKING:
    from assent.coder.repairs import Hint
    from assent.coder.style import Style

DRAFTING = (
    "A person wants a program changed, and nobody has said yet how to tell that it is done. Look at the "
    "repository with your tools: which tests are there, and how are they run? Then answer with a contract: a "
    "short description, and checks, each a name and a command for /bin/sh in the top folder, that fail now "
    "and pass when the task is done. Prefer the project's own tests. No check may need the network. Do not "
    "change anything."
)


def system_words(style: Style, contract: Contract) -> str:
    """What holds in every iteration."""
    return f"{style.rules}\n\nThe checks:\n{contract_words(contract)}"


def task_words(
    intent: str,
    results: Sequence[CheckResult],
    *,
    chosen: str,
    hint: Hint | None,
    sealed: Sequence[str],
    said: int,
) -> str:
    """The message that an iteration begins with."""
    parts = [f"Task: {intent.strip()}"]
    if chosen:
        parts.append(chosen)
    failed = feedback(results, said)
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
    cut = text[-most:]
    return f"[…]\n{cut.partition(chr(10))[2] or cut}".rstrip()


def _how(result: CheckResult) -> str:
    code = f"exit code {result.exit_code}" if result.exit_code is not None else "no exit code"
    return f"{code}; {result.why}" if result.why else code
