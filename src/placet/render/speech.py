"""A model's words on their way to the terminal: shown as they come, and never obeyed.

Keep true:
1. What steers a terminal is shown, also where it comes in two pieces.
2. A word is shown when it is whole, and no beginning of a known secret: half of one is not known as one.
3. Whatever the pieces are, all of them together are shown once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from placet.safe_text import clean

_END_OF_WORD = re.compile(r"[^\x21-\x7e](?=[\x21-\x7e]*\Z)")
"""Secrets are written in these characters: with any other a word is over."""
_LONGEST = 4_000
"""Of a line that is kept together; a longer one is shown in parts."""
_NEAR, _FAR, _TRIES = 200, 2_000, 20
"""How far before its end such a line is parted: what names a secret stands close before it."""
_LONGEST_KEY = 20_000
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"


class Speech:
    """Text that comes in pieces."""

    def __init__(
        self,
        write: Callable[[str], None],
        redact: Callable[[str], str] = str,
        open_tail: Callable[[str], int] = lambda text: 0,
    ) -> None:
        """`open_tail` says how much at the end of a text may be the beginning of a secret."""
        self._write = write
        self._redact = redact
        self._open_tail = open_tail
        self._line = ""
        """What has come of the line."""
        self._shown = ""
        """What is shown of it."""
        self._newest = "", ""
        """What was redacted last, and what came of it: the same text is looked at more than once."""
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
        sure = len(self._line) - self._open_tail(self._line)
        whole = self._line.rfind("\n", 0, sure) + 1
        if whole and self._can_end(whole, sure):
            self._show(self._line[:whole], is_whole=True)
            self._line, sure = self._line[whole:], sure - whole
        word = _END_OF_WORD.search(self._line[:sure])
        # What ends so may be half of a line break.
        if word is not None and not self._line.endswith("\r") and self._can_end(word.end(), sure):
            self._show(self._line[: word.end()], is_whole=False)
        if len(self._line) > _LONGEST and sure:
            self._part(self._where_to_part(sure))

    def end(self) -> None:
        """Nothing more comes for now: show what is left, and end the line."""
        self._show(self._line, is_whole=True)
        self._line = ""
        if self.is_mid_line:
            self._put("\n")

    def _holds_key(self) -> bool:
        """Whether a key over several lines has begun, and is not over yet."""
        return _KEY_BEGINS in self._line and _KEY_ENDS not in self._line and len(self._line) < _LONGEST_KEY

    def _redacted(self, text: str) -> str:
        if text != self._newest[0]:
            self._newest = text, self._redact(text)
        return self._newest[1]

    def _can_end(self, at: int, sure: int) -> bool:
        """Whether no secret is under way there."""
        return at == sure or self._redacted(self._line[:sure]).startswith(self._redacted(self._line[:at]))

    def _where_to_part(self, sure: int) -> int:
        """Where a long line falls into two that show what it shows as one."""
        shown = self._redact(self._line[:sure])
        ends = [at for at in range(sure - _NEAR, max(sure - _FAR, 0), -1) if self._line[at - 1].isspace()]
        for at in ends[:_TRIES]:
            if self._redact(self._line[:at]) + self._redact(self._line[at:sure]) == shown:
                return at
        return sure

    def _part(self, at: int) -> None:
        """Let go of the beginning of the line, shown by then."""
        first = self._redact(self._line[:at])
        if self._shown.startswith(first):
            self._shown = self._shown[len(first) :]
        else:
            self._show(self._line[:at], is_whole=True)
        self._line = self._line[at:]

    def _show(self, line: str, *, is_whole: bool) -> None:
        """Show the rest of a line, of which something may be shown already."""
        shown = self._redacted(line)
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
