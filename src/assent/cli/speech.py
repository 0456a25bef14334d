"""A model's words on their way to the terminal: shown as they come, and never obeyed.

Keep true:
1. What steers a terminal is shown, also where it comes in two pieces.
2. A word is shown when it is whole: half a secret would not be known as one.
3. Whatever the pieces are, all of them together are shown once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from assent.safe_text import clean

_END_OF_WORD = re.compile(r"[^\x21-\x7e](?=[\x21-\x7e]*\Z)")
"""Secrets are written in these characters: with any other a word is over."""
_LONGEST = 4_000
"""Of a line that is kept together; a longer one is shown in parts."""
_LONGEST_KEY = 20_000
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"


class Speech:
    """Text that comes in pieces."""

    def __init__(self, write: Callable[[str], None], redact: Callable[[str], str] = str) -> None:
        self._write = write
        self._redact = redact
        self._line = ""
        """What has come of the line."""
        self._shown = ""
        """What is shown of it."""
        self._before = ""
        """The character that was written last."""

    @property
    def is_mid_line(self) -> bool:
        """Whether the cursor stands behind some words."""
        return self._before not in ("", "\n")

    def say(self, piece: str) -> None:
        """Take one more piece, and show all that is whole."""
        self._line += piece
        if self._holds_key():
            return
        lines, end, self._line = self._line.rpartition("\n")
        if end:
            self._show(lines + end, is_whole=True)
        word = _END_OF_WORD.search(self._line)
        if len(self._line) > _LONGEST:
            self._show(self._line, is_whole=True)
            self._line = ""
        elif word is not None and not self._line.endswith("\r"):  # That may be half of a line break.
            self._show(self._line[: word.end()], is_whole=False)

    def end(self) -> None:
        """Nothing more comes for now: show what is left, and end the line."""
        self._show(self._line, is_whole=True)
        self._line = ""
        if self.is_mid_line:
            self._put("\n")

    def _holds_key(self) -> bool:
        """Whether a key over several lines has begun, and is not over yet."""
        return _KEY_BEGINS in self._line and _KEY_ENDS not in self._line and len(self._line) < _LONGEST_KEY

    def _show(self, line: str, *, is_whole: bool) -> None:
        """Show the rest of a line, of which something may be shown already."""
        shown = self._redact(line)
        if not shown.startswith(self._shown):
            # Only now it is seen to hold a secret, of which the name may be shown.
            if not is_whole:
                return
            shown = self._shown + shown[_common(shown, self._shown) :]
        self._put(shown[len(self._shown) :])
        self._shown = "" if is_whole else shown

    def _put(self, text: str) -> None:
        if not text:
            return
        # Some characters are harmless behind certain others only.
        before = clean(self._before, lines=True, tabs=True)
        self._write(clean(self._before + text, lines=True, tabs=True)[len(before) :])
        self._before = text[-1] if text[-1] != "\r" else " "


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    for position, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return position
    return min(len(one), len(other))
