"""Grep: the lines of files that fit a regular expression, as a program of its own.

A search by `re` holds the interpreter's lock and cannot be stopped, so a pattern that backtracks for ever
needs a process that can be ended. It gets a request as JSON on standard input and answers in JSON on standard
output. A pattern is compiled here only: the interpreter's warnings about one would be the host's otherwise.

Keep true:
1. What is shown was found by `re`, in text that was read from a file beneath the start, and nowhere else.
2. The answer is the same with ripgrep and without.
3. An answer has a largest size, whatever the files hold.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection

from .globs import compile_glob
from .needles import ask_ripgrep, find_needles
from .walk import Walk, open_file, read_file, refuse_if_out, shown

MOST_FILE_BYTES = 10 * 1024 * 1024
"""Larger files are not searched."""
MOST_LINE = 500
"""Characters of a line that are shown."""
MOST_SHOWN = 256 * 1024
"""Characters of lines in one answer, roughly."""
MOST_NAMED = 10
"""Files that are named as too large; all are counted."""

_BINARY_WITHIN = 8192


class Search:
    """One grep, and its answer as it grows.

    `ripgrep` is the program, or empty. It is asked after `ripgrep_after` files: in a small tree, or where
    matches abound, reading is quicker.

    Raises:
        re.error, RecursionError, OverflowError: the pattern cannot be compiled.
    """

    def __init__(
        self,
        *,
        pattern: str,
        fixed: bool = False,
        ignore_case: bool = False,
        glob: str | None = None,
        context_lines: int = 0,
        max_matches: int = 200,
        ripgrep: str = "",
        ripgrep_after: int = 0,
        margin: int = 0,
    ) -> None:
        if fixed:
            pattern = re.escape(pattern)
        self._fits = re.compile(pattern, re.IGNORECASE if ignore_case else re.NOFLAG).search
        self._needles, self._is_folded = find_needles(pattern, ignore_case=ignore_case)
        self._glob = glob
        self._context = context_lines
        self._most = max_matches
        self._margin = margin
        self._ripgrep = ripgrep
        self._ripgrep_after = ripgrep_after
        self._shown = 0
        self.matches: list[dict[str, object]] = []
        self.files = 0
        """Those that the glob fits and that are not too large; binary ones are among them."""
        self.too_large: list[str] = []
        self.too_large_count = 0
        self.unreadable = 0
        self.is_stopped = False
        """Whether there is more than an answer holds."""
        self.is_cut_short = False
        """Whether some files were not come to."""

    def in_file(self, opened: int, path: str) -> None:
        """Search one open file, and close it."""
        if os.fstat(opened).st_size > MOST_FILE_BYTES:
            self._leave_out(path)
            os.close(opened)
        else:
            self.files += 1
            self._search(opened, path)

    def beneath(self, folder: int, before: str = "", *, hidden: Collection[tuple[int, int]] = ()) -> None:
        """Search every file beneath an open folder. `before` stands before their paths in the answer."""
        fits = None if self._glob is None else compile_glob(self._glob)
        may_ask = bool(self._ripgrep and self._needles)
        candidates: set[str] | None = None
        walk = Walk(folder, hidden=hidden)
        for path, kind, holder, name in walk:
            if kind != "file" or (fits is not None and not fits(path)):
                continue
            if may_ask and self.files >= self._ripgrep_after:
                may_ask = False
                candidates = ask_ripgrep(
                    self._ripgrep,
                    folder,
                    self._needles,
                    folded=self._is_folded,
                    glob=self._glob,
                    most_bytes=MOST_FILE_BYTES,
                )
            try:
                # Before anything is opened, so that the same files are named when ripgrep spares us that.
                found = os.stat(name, dir_fd=holder, follow_symlinks=False)
                if (found.st_dev, found.st_ino) in walk.hidden:
                    continue
                if found.st_size > MOST_FILE_BYTES:
                    self._leave_out(before + path)
                    continue
                self.files += 1
                if candidates is None or path in candidates:
                    self._search(open_file(holder, name), before + path)
            except OSError as error:
                refuse_if_out(error)
                self.unreadable += isinstance(error, PermissionError)
            if self.is_stopped:
                break
        self.unreadable += walk.unreadable
        self.is_cut_short = walk.is_cut_short

    def _leave_out(self, path: str) -> None:
        self.too_large_count += 1
        if len(self.too_large) < MOST_NAMED:
            self.too_large.append(shown(path))

    def _search(self, opened: int, path: str) -> None:
        data = read_file(opened, MOST_FILE_BYTES)
        if b"\0" in data[:_BINARY_WITHIN] or not self._may_fit(data):
            return
        lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
        if not lines[-1]:
            lines.pop()
        for at, line in enumerate(lines):
            found = self._fits(line.removesuffix("\r"))
            if found is None:
                continue
            self.is_stopped = len(self.matches) == self._most or self._shown > MOST_SHOWN
            if self.is_stopped:
                return
            self._tell(path, lines, at, found.start())

    def _may_fit(self, data: bytes) -> bool:
        if self._needles and self._is_folded:
            data = data.lower()
        return not self._needles or any(needle in data for needle in self._needles)

    def _tell(self, path: str, lines: list[str], at: int, start: int) -> None:
        told: dict[str, object] = {"path": shown(path), "line": at + 1, "text": self._part(lines[at], start)}
        if self._context:
            before = [self._part(line) for line in lines[max(0, at - self._context) : at]]
            after = [self._part(line) for line in lines[at + 1 : at + 1 + self._context]]
            told |= {"before": before, "after": after}
        self.matches.append(told)

    def _part(self, line: str, start: int = 0) -> str | tuple[str, int, int, bool, bool]:
        """A short line as it is. Of a longer one the part to show with a margin around it, where
        the part begins and ends in that, and whether the line has more before and behind it.

        The caller cuts, because it knows the secrets.
        """
        line = line.removesuffix("\r")
        self._shown += min(len(line), MOST_LINE)
        if len(line) <= MOST_LINE:
            return line
        begin = max(0, min(start - MOST_LINE // 5, len(line) - MOST_LINE))
        end = begin + MOST_LINE
        first = max(0, begin - self._margin)
        return line[first : end + self._margin], begin - first, end - first, begin > 0, end < len(line)


def main() -> None:
    """Serve one request."""
    request = json.load(sys.stdin.buffer)
    try:
        search = Search(**request["search"])
    except re.error as error:
        json.dump({"invalid": error.msg, "position": error.pos}, sys.stdout)
        return
    except (RecursionError, OverflowError) as error:
        json.dump({"invalid": str(error), "position": None}, sys.stdout)
        return
    if request["is_folder"]:
        hidden = [(device, inode) for device, inode in request["hidden"]]
        search.beneath(request["start"], request["before"], hidden=hidden)
    else:
        search.in_file(request["start"], request["before"])
    told = ("matches", "files", "too_large", "too_large_count", "unreadable", "is_stopped", "is_cut_short")
    json.dump({name: getattr(search, name) for name in told}, sys.stdout)
