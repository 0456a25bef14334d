"""Whether a session can begin as it is asked for.

Keep true:
1. What is refused is refused before anything is made, and on every machine alike: nothing here looks at a
   disk or a clock.
2. Who is refused is told what to give instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from placet.checks.contract import Check, Contract, check_contract, contract_of
from placet.errors import UsageError
from placet.safe_text import clean

MOST_CANDIDATES = 16
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
"""It names a folder and a branch."""


def check_asked(intent: str, *, candidates: int, session_id: str | None) -> None:
    """Make sure that it is said what is to be done, and that it can be called and tried so.

    Raises:
        UsageError: it is not, or cannot be.
    """
    if not intent.strip():
        raise UsageError("There is no intent. Say in a sentence what is to be changed.")
    if session_id is not None and not _ID.fullmatch(session_id):
        raise UsageError(
            f"'{clean(session_id, 80)}' cannot be the id of a session: use 1 to 64 letters, digits, "
            "dashes and underscores, the first of them no dash."
        )
    if not 1 <= candidates <= MOST_CANDIDATES:
        raise UsageError(f"candidates is {candidates}; it is from 1 to {MOST_CANDIDATES}.")


def agreed_contract(
    intent: str, checks: Sequence[str | Check], contract: Contract | None, may_touch: Sequence[str]
) -> Contract | None:
    """What must hold, as the caller says it; None if the model is to draft that.

    Raises:
        UsageError: it is said twice, or cannot be.
    """
    if contract is not None and checks:
        raise UsageError("There are checks and a contract. Give one of them.")
    if contract is not None:
        check_contract(contract)
        return contract
    return contract_of(checks, intent, may_touch) if checks else None


def check_decidable(agreed: Contract | None, *, approve: bool, has_journal: bool) -> None:
    """Refuse work at the end of which nobody could say yes: what waits is taken up from a journal.

    Raises:
        UsageError: nobody could.
    """
    if has_journal or (agreed is not None and approve):
        return
    what = "confirm the contract that the model drafts" if agreed is None else "approve the change"
    instead = "name checks and give approve=True" if agreed is None else "give approve=True"
    raise UsageError(
        f"The Runtime of this Coder has no journal, so nobody could {what} afterwards. Make it with a "
        "journal, such as Runtime(journal=SqlJournal(database)), or Runtime(journal=MemoryJournal()) for "
        f"as long as this process lives; or {instead}, which publishes a green change at once."
    )


def check_text(text: str, what: str) -> None:
    """Make sure that a text can be kept.

    Raises:
        UsageError: it is no valid text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is no valid text, so it cannot be kept: {clean(text, 80)}") from None
