"""What a model sees of a result.

Models pay for every character they read, and obey some of them. So there is one way in which a result
becomes text: short enough, with nothing hidden in it, and with a way to the rest.

Keep true:
1. At most `limit` bytes of UTF-8, cut between characters; what was left out is said, and where it is kept.
2. No control character but line breaks and tabs, whatever a tool has answered.
3. The kept text is the whole text, without the secrets in it, and for its owner alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from assent.ir.json_value import JsonValue, show_json
from assent.ir.result import ActionResult
from assent.redaction import Redactor
from assent.safe_text import clean

LIMIT = 16 * 1024
"""Bytes of one result that a model sees."""

_TAIL = 4
"""One part in so many is kept for the end: where a command's output says how it went."""

_HAS_LINES = re.compile(r"\n.*\S")


class Spill:
    """The folder where outputs are kept that are too long to be shown, one folder for each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Made when something is kept."""

    def keep(self, run_id: str, name: str, text: str) -> Path:
        """Keep a text; the same one twice is one file.

        Raises:
            OSError: it cannot be written.
        """
        folder = self.folder / _file_name(run_id)
        for each in (*reversed(self.folder.parents), self.folder, folder):
            # Not with `parents=True`: that makes them for everybody to read.
            each.mkdir(mode=0o700, exist_ok=True)
        data = text.encode()
        path = folder / f"{_file_name(name)}-{sha256(data).hexdigest()[:12]}.txt"
        if path.exists():
            return path
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        unfinished.replace(path)
        return path

    def prune(self, before: float) -> int:
        """Delete what was kept of runs that kept nothing since `before`; returns how many runs."""
        from shutil import rmtree

        old = [each for each in self._runs() if each.stat(follow_symlinks=False).st_mtime < before]
        for each in old:
            rmtree(each, ignore_errors=True)
        return len(old)

    def _runs(self) -> list[Path]:
        return list(self.folder.iterdir()) if self.folder.is_dir() else []


def _file_name(given: str) -> str:
    """A name for a file, whatever an id holds; two ids never share one."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", given)[:60]
    return plain if plain == given else f"{plain}-{sha256(given.encode(errors='replace')).hexdigest()[:12]}"


def observe(
    result: ActionResult,
    *,
    run_id: str = "",
    spill: Spill | None = None,
    redactor: Redactor | None = None,
    limit: int = LIMIT,
) -> str:
    """One action's result as text for a model."""
    shown = readable(result.output) if result.status == "succeeded" else _trouble(result)
    if redactor is not None:
        shown = redactor.text(shown)
    shown = clean(shown, lines=True, tabs=True)

    def keep(text: str) -> str:
        if spill is None:
            return "it is not kept"
        try:
            return f"all of it is in {spill.keep(run_id, result.action_id, text)}"
        except OSError as error:
            return f"it could not be kept ({error.strerror or error})"

    return shortened(shown, limit, keep)


def _trouble(result: ActionResult) -> str:
    words = f"{result.status}: {result.error}" if result.error else result.status
    return words if result.output is None else f"{words}\n{readable(result.output)}"


def readable(value: JsonValue) -> str:
    """A value as text: text as it is, an object with texts of several lines as sections, the rest as JSON.

    >>> print(readable({"exit_code": 0, "stdout": "one\\ntwo\\n"}))
    exit_code: 0
    stdout:
    one
    two
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and any(isinstance(v, str) and _HAS_LINES.search(v) for v in value.values()):
        return "\n".join(_section(key, inner) for key, inner in value.items())
    return show_json(value)


def _section(key: str, value: JsonValue) -> str:
    if isinstance(value, str) and "\n" in value:
        return f"{key}:\n{value.rstrip(chr(10))}"
    return f"{key}: {value if isinstance(value, str) else show_json(value)}"


def shortened(text: str, limit: int, keep: Callable[[str], str]) -> str:
    """`text` in at most `limit` bytes: its beginning, what was left out and where `keep` has put it, its end.

    >>> shortened("a" * 500, 200, lambda whole: "gone").count("a") < 200
    True
    """
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    where = keep(text)
    marker = f"\n[… {len(data):,} bytes in all, the middle is left out; {where} …]\n"
    room = max(0, limit - len(marker.encode(errors="replace")))
    tail = room // _TAIL
    head = data[: room - tail].decode(errors="ignore")
    end = data[len(data) - tail :].decode(errors="ignore") if tail else ""
    return f"{head}{marker}{end}"
