"""The words of `{"answer": "..."}`, read while it is still being written.

Keep true:
1. What comes out does not depend on how the JSON was cut into pieces.
2. At most a few characters are kept back.
"""

from __future__ import annotations

import json
import re

_HEAD = re.compile(r'\s{0,16}+\{\s{0,16}+"answer"\s{0,16}+:\s{0,16}+"')
_LONGEST_HEAD = 76
_HIGH, _LOW, _HEX = r"u[dD][89abAB][0-9a-fA-F]{2}", r"u[dD][c-fC-F][0-9a-fA-F]{2}", r"[0-9a-fA-F]{4}"
_CHARACTERS = re.compile(
    rf"""(?:
        [^"\\]++
      | \\["\\/bfnrt]
      | \\u(?!{_HIGH[1:]}){_HEX}
      | \\{_HIGH}(?: \\{_LOW} | (?=[^\\]) | (?=\\[^u]) | (?=\\u(?!{_LOW[1:]}){_HEX}) )
    )*+""",
    re.VERBOSE,
)
"""As many whole characters as there are. Half of a pair is whole once something else follows it."""
_LONGEST_CHARACTER = 12
_HALF = re.compile("[\ud800-\udfff]")


class AnswerText:
    """One answer."""

    def __init__(self) -> None:
        self.is_begun = False
        """Whether it is an answer in words at all."""
        self._is_over = False
        self._pending = ""

    def feed(self, piece: str) -> str:
        """What can be said once this piece is there."""
        if self._is_over:
            return ""
        self._pending += piece
        if not self.is_begun:
            head = _HEAD.match(self._pending)
            if head is None:
                self._is_over = len(self._pending) > _LONGEST_HEAD
                return ""
            self.is_begun = True
            self._pending = self._pending[head.end() :]
        whole = _CHARACTERS.match(self._pending)
        raw = whole[0] if whole is not None else ""
        self._pending = self._pending[len(raw) :]
        # Either the closing quote, or an escape that is none.
        self._is_over = self._pending.startswith('"') or len(self._pending) > _LONGEST_CHARACTER
        text: str = json.loads(f'"{raw}"', strict=False)
        return _HALF.sub("\ufffd", text)
