"""Names that some file system takes for another name, `.git` above all.

A file system may ignore case (APFS, NTFS), invisible code points (HFS+), compatibility forms (those that
normalise), dots and spaces at the end and what follows a colon (NTFS), and may offer short names (NTFS). A
name that is harmless here can be `.git` where the folder is copied or checked out next, so every spelling is
treated like the name itself.

Keep true:
1. One function decides, for file tools, commits, and the trees of the coding loop.
2. A name that is refused wrongly costs little; one that is let through wrongly is a hook that runs elsewhere.
"""

from __future__ import annotations

import re
import unicodedata

GIT = ".git"

_MARKS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Code points that are drawn as nothing and are not of the category Cf: fillers, joiners, variations, and
those that Unicode reserves for more of their kind (Default_Ignorable_Code_Point)."""
_SHORT = re.compile(r"([^.~]{1,6})~[0-9]+")


def is_read_as(name: str | bytes, wanted: str) -> bool:
    r"""Whether some file system takes `name`, one part of a path, for `wanted`.

    `wanted` is in lower case and begins with a dot.

    >>> [is_read_as(name, ".git") for name in (".GIT", ".g\u200cit", "git~1", ".git. .", ".git::$x")]
    [True, True, True, True, True]
    >>> [is_read_as(name, ".git") for name in (".gitignore", "git", ".github", "a.git", "digit~1")]
    [False, False, False, False, False]
    """
    text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
    return any(_is_read_as(part, wanted) for part in text.split("\\"))  # A separator on Windows.


def _is_read_as(text: str, wanted: str) -> bool:
    plain = _folded(text).partition(":")[0].rstrip(". ")
    if plain == wanted:
        return True
    short = _SHORT.fullmatch(plain)
    return short is not None and short[1] == wanted.lstrip(".")[:6]


def _folded(text: str) -> str:
    if text.isascii():
        # Control characters are part of a name; no file system is known to drop them.
        return text.lower()
    while True:
        # Each step may make room for another one: a full-width letter in upper case, say.
        visible = "".join(c for c in _MARKS.sub("", text) if unicodedata.category(c) != "Cf")
        folded = unicodedata.normalize("NFKC", visible).casefold()
        if folded == text:
            return folded
        text = folded
