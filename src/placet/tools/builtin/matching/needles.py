"""Which files cannot hold a match, found out without matching.

Keep true:
1. Nothing here is ever shown, nor decides that something matches. When in doubt, every file is searched.
2. No second dialect of regular expressions: needles are read from Python's own parse of the pattern, and
   ripgrep is asked for plain ASCII text only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from .walk import SKIPPED

TYPE_CHECKING = False  # `typing` is slow to import, and this runs in a program that starts often.
if TYPE_CHECKING:
    from typing import Any

LEAST_LENGTH = 3
"""Characters of a needle; shorter ones are in every file."""
MOST_NEEDLES = 32

_SCOPED_IGNORE_CASE = re.compile(r"\(\?[a-zA-Z]*i")
_SIMPLE_GLOB = re.compile(r"(?:\*\*/)?\*\.\w+", re.ASCII)
"""Globs that mean the same to ripgrep as to us."""


def find_needles(pattern: str, *, ignore_case: bool) -> tuple[list[bytes], bool]:
    """Texts of which one at least is in every line that fits the pattern, and whether their case matters not.

    No texts: nothing can be said. Without case, they are in small letters.

    >>> find_needles("(class|def) +[a-z]+_total", ignore_case=False)
    ([b'_total'], False)
    """
    try:
        from re import _parser as parser  # type: ignore[attr-defined]
    except ImportError:
        return [], ignore_case
    tree = parser.parse(pattern, re.IGNORECASE if ignore_case else re.NOFLAG)
    folded = bool(tree.state.flags & re.IGNORECASE) or _SCOPED_IGNORE_CASE.search(pattern) is not None
    found = _required(tree, folded)
    return [needle.encode("ascii") for needle in dict.fromkeys(found)], folded


def _required(items: Any, folded: bool) -> list[str]:
    best: list[str] = []
    run = ""
    for op, value in [*items, ("END", None)]:
        if str(op) == "LITERAL" and is_plain(value, folded=folded):
            run += chr(value).lower() if folded else chr(value)
            continue
        best, run = _better(best, [run]), ""
        match str(op), value:
            case "SUBPATTERN", (_, _, _, inner):
                best = _better(best, _required(inner, folded))
            case "ATOMIC_GROUP", inner:
                best = _better(best, _required(inner, folded))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT", (least, _, inner) if least > 0:
                best = _better(best, _required(inner, folded))
            case "BRANCH", (_, branches):
                each = [_required(branch, folded) for branch in branches]
                if all(each):
                    best = _better(best, [needle for found in each for needle in found])
    return best


def is_plain(code: int, *, folded: bool) -> bool:
    """Whether a character is one byte in every file that it fits.

    Without case, `i`, `k` and `s` also fit letters outside ASCII.
    """
    return (0x20 <= code < 0x7F or code == 0x09) and not (folded and chr(code) in "iIkKsS")


def _better(a: list[str], b: list[str]) -> list[str]:
    """The alternatives that are in fewer files, as far as their length tells."""
    if len(b) > MOST_NEEDLES or min(map(len, b), default=0) < LEAST_LENGTH:
        return a
    return b if not a or min(map(len, b)) > min(map(len, a)) else a


def ask_ripgrep(
    program: str, folder: int, needles: Sequence[bytes], *, folded: bool, glob: str | None, most_bytes: int
) -> set[str] | None:
    """The paths, from `folder`, of the files that hold a needle; None if ripgrep cannot tell them all.

    Files of more than `most_bytes` may be missing.
    """
    import subprocess

    command = [program, "--no-config", "--files-with-matches", "--null", "--text", "--encoding=none"]
    command += ["--no-ignore", "--hidden", "--no-follow", "--no-messages", "--no-mmap", "--fixed-strings"]
    command += [f"--max-filesize={most_bytes}", "--ignore-case" if folded else "--case-sensitive"]
    if glob is not None and _SIMPLE_GLOB.fullmatch(glob):
        command.append(f"--glob={glob}")
    command += [f"--glob=!{name}/" for name in sorted(SKIPPED)]
    for needle in needles:
        command += ["-e", needle.decode("ascii")]
    try:
        ended = subprocess.run(
            [*command, "./"],
            cwd=f"/proc/self/fd/{folder}",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None  # Not Linux, or the program is gone.
    if ended.returncode not in (0, 1):
        return None  # It could not read something, or is too old to know an option.
    return {os.fsdecode(path).removeprefix("./") for path in ended.stdout.split(b"\0") if path}
