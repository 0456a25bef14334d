"""How a status looks, everywhere: a mark, a word, a colour.

Keep true: mark and word alone tell every status apart; colour only helps.
"""

from __future__ import annotations

from typing import NamedTuple

AWAITING = "awaiting_approval"
"""In the place of a status: the action waits for a person's yes or no."""
NONZERO = "nonzero_exit"
"""In the place of a status: the call succeeded, and the command that it ran did not."""


class Mark(NamedTuple):
    """The looks of one status."""

    sign: str
    word: str
    style: str
    """For the terminal, in rich's words."""
    ink: str
    """For pictures: border and text; dark enough to read on `paper`."""
    paper: str
    """For pictures: the fill."""


MARKS: dict[str, Mark] = {
    "proposed": Mark("·", "waiting", "dim", "#57606a", "#f6f8fa"),
    "validated": Mark("·", "admitted", "dim", "#57606a", "#f6f8fa"),
    AWAITING: Mark("…", "to decide", "bold yellow", "#8a3200", "#ffe8d9"),
    "executing": Mark("▸", "running", "cyan", "#0550ae", "#ddf4ff"),
    "retrying": Mark("↻", "retrying", "yellow", "#7d4e00", "#fff8c5"),
    "succeeded": Mark("✓", "succeeded", "green", "#116329", "#dafbe1"),
    NONZERO: Mark("✗", "nonzero exit", "red", "#a40e26", "#fff5f4"),
    "failed": Mark("✗", "failed", "bold red", "#a40e26", "#ffebe9"),
    "rejected": Mark("⊘", "rejected", "magenta", "#6e3fbf", "#fbefff"),
    "skipped": Mark("–", "skipped", "dim", "#57606a", "#eaeef2"),
    "canceled": Mark("■", "canceled", "yellow", "#7d4e00", "#fff8c5"),
    "unknown": Mark("?", "unknown", "bold yellow", "#7d4e00", "#fff1c2"),
    "in_flight": Mark("?", "in flight", "bold yellow", "#7d4e00", "#fff1c2"),
    "rolled_back": Mark("↶", "rolled back", "blue", "#3b4a9c", "#e8ecff"),
    "restored": Mark("↶", "restored", "blue", "#3b4a9c", "#e8ecff"),
    "stays_done": Mark("!", "stays done", "bold red", "#a40e26", "#ffebe9"),
}

OUTCOMES: dict[str, Mark] = {
    "succeeded": MARKS["succeeded"],
    NONZERO: Mark("!", "ran, nonzero exit", "yellow", "#7d4e00", "#fff8c5"),
    "partial": Mark("◐", "partial", "yellow", "#7d4e00", "#fff8c5"),
    "aborted": Mark("✗", "aborted", "bold red", "#a40e26", "#ffebe9"),
    "refused": Mark("⊘", "refused", "magenta", "#6e3fbf", "#fbefff"),
    "canceled": MARKS["canceled"],
    "budget": Mark("■", "out of budget", "yellow", "#7d4e00", "#fff8c5"),
    "waiting": Mark("?", "waiting for a person", "bold yellow", "#7d4e00", "#fff1c2"),
    "left": Mark("·", "left, waits for a message", "dim", "#57606a", "#f6f8fa"),
    "interrupted": Mark("?", "interrupted", "bold yellow", "#7d4e00", "#fff1c2"),
}

_OTHER = Mark("?", "", "dim", "#57606a", "#f6f8fa")


def mark(status: str) -> Mark:
    """The looks of an action's status; an unknown one shows its own name."""
    return MARKS.get(status) or _OTHER._replace(word=status)


def outcome_mark(outcome: str) -> Mark:
    """The looks of a proposal's outcome."""
    return OUTCOMES.get(outcome) or _OTHER._replace(word=outcome)
