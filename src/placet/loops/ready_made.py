"""Ready-made loops: a file for each, to be copied into a repository and changed there.

Keep true: each one works in a plain git repository. What needs a hosted service is a command of the person's.
"""

from __future__ import annotations

from pathlib import Path

from placet.errors import UsageError
from placet.truncation import truncate

_FOLDER = Path(__file__).parent / "templates"


def template_names() -> list[str]:
    """What they are called."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def template(name: str) -> str:
    """The text of one.

    Raises:
        UsageError: there is none of that name.
    """
    from difflib import get_close_matches

    known = template_names()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"There is no ready-made loop '{truncate(name, 80)}'. {hint}There are {', '.join(known)}."
        )
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def about(name: str) -> str:
    """What one is for, in a sentence: its first line."""
    return template(name).partition("\n")[0].lstrip("# ")
