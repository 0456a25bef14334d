"""Patterns for paths: `*.py`, `src/**/*.{c,h}`.

Keep true:
1. The time for a path grows with the length of the path times that of the glob, whatever its stars. Globs
   come from a model, and names from whoever fills the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MOST_CHARACTERS = 500
MOST_ALTERNATIVES = 64
"""Globs that one glob with braces may stand for."""

_BRACES = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)(?<!\\)\}")


def compile_glob(glob: str) -> Callable[[str], bool]:
    """A test for paths that are relative to where a walk began.

    `*` and `?` stop at a slash, `**` between slashes is any number of folders, `[a-z]` and `[!a-z]` are one
    character, `{a,b}` is either, a backslash takes the next character as it is. A glob without a slash is
    about the name alone, at any depth; a leading slash ties it to the top.

    >>> fits = compile_glob("src/**/*.{c,h}")
    >>> fits("src/a.c"), fits("src/x/y/b.h"), fits("a.c"), fits("src/a.cc")
    (True, True, False, False)

    Raises:
        ValueError: the glob is too long, or can fit nothing; the message is a clause about it.
    """
    if not glob.strip("/"):
        raise ValueError("it is empty")
    if len(glob) > MOST_CHARACTERS:
        raise ValueError(f"it is longer than {MOST_CHARACTERS} characters")
    alternatives = [_compile_one(each) for each in _expand_braces(glob)]
    return lambda path: any(fits(path) for fits in alternatives)


def _expand_braces(glob: str) -> list[str]:
    done: list[str] = []
    waiting = [glob]
    while waiting:
        each = waiting.pop()
        braces = _BRACES.search(each)
        if braces is None:
            done.append(each)
        else:
            before, after = each[: braces.start()], each[braces.end() :]
            waiting += [before + choice + after for choice in braces[1].split(",")]
        if len(done) + len(waiting) > MOST_ALTERNATIVES:
            raise ValueError(f"its braces stand for more than {MOST_ALTERNATIVES} globs")
    return done


def _compile_one(glob: str) -> Callable[[str], bool]:
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("'..' in it fits nothing; give the folder above as the path")
    if glob.endswith("/"):
        raise ValueError(
            "it ends in a slash, and only files are looked for; write '/**' for what is in a folder"
        )
    if "/" not in glob:
        parts.insert(0, "**")
    if parts and parts[-1] == "**":
        parts.append("*")  # `src/**` is every file beneath src.
    tests = [None if part == "**" else re.compile(_name(part), re.DOTALL).fullmatch for part in parts]

    def fits(path: str) -> bool:
        # The first place that fits a stretch between two `**` is as good as any later one, so only the
        # last `**` is ever tried again.
        names = path.split("/")
        at = here = 0
        again: tuple[int, int] | None = None
        while here < len(names):
            test = tests[at] if at < len(tests) else None
            if at < len(tests) and test is None:
                at += 1
                again = (at, here)
            elif test is not None and test(names[here]):
                at, here = at + 1, here + 1
            elif again is not None:
                again = (again[0], again[1] + 1)
                at, here = again
            else:
                return False
        return at == len(tests)

    return fits


def _name(part: str) -> str:
    """A regular expression for one name."""
    pieces = [""]
    at = 0
    while at < len(part):
        c = part[at]
        at += 1
        if c == "*":
            pieces.append("")
        elif c == "?":
            pieces[-1] += "."
        elif c == "[" and (end := part.find("]", at + 1 + part.startswith(("!", "^"), at))) > 0:
            pieces[-1] += _one_character(part[at:end])
            at = end + 1
        else:
            if c == "\\" and at < len(part):
                c = part[at]
                at += 1
            pieces[-1] += re.escape(c)
    first, *rest = pieces
    if not rest:
        return first
    # A piece has one length, so its first place is as good as any: what an atomic group has passed is not
    # tried again.
    return first + "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece) + f".*{rest[-1]}"


def _one_character(inside: str) -> str:
    """A class, from what stands between its brackets."""
    is_other = inside[0] in "!^"
    chars = inside[is_other:]
    spans = ""
    at = 0
    while at < len(chars):
        low = high = chars[at]
        if chars[at + 1 : at + 2] == "-" and at + 2 < len(chars):
            high = chars[at + 2]
            at += 2
        at += 1
        if low <= high:
            # By number: no character means anything else then.
            spans += rf"\U{ord(low):08x}-\U{ord(high):08x}"
    if not spans:
        return "." if is_other else "(?!)"
    return f"[{'^' * is_other}{spans}]"
