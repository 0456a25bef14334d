"""A folder beside a workspace that no tool may read or change, and a way to see that none did."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

SECRET = "the-secret-of-the-canary"


class Canary:
    """Files, folders and links outside the workspace `parent/inside`, made so that they invite mistakes."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self.folder = parent / "canary"
        self.inside = parent / "inside"
        self.inside.mkdir()
        for name in ("file.txt", "secret.txt", "a/file.txt", "a/b/file.txt", "b/file.txt"):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{SECRET}\nold\n")
            path.chmod(0o640)
        (self.folder / "empty").mkdir(mode=0o700)
        (self.folder / "link").symlink_to("secret.txt")
        (self.folder / "into").symlink_to("../inside")
        (parent / "loose.txt").write_text(f"{SECRET}\nold\n")
        self._before = self._look()

    def assert_untouched(self) -> None:
        now = self._look()
        changed = {
            name: (self._before.get(name), now.get(name))
            for name in self._before | now
            if self._before.get(name) != now.get(name)
        }
        assert not changed, f"changed outside the workspace: {changed}"

    def _look(self) -> dict[str, Any]:
        seen: dict[str, Any] = {"": sorted(os.listdir(self.parent))}
        tree = [self.parent / "loose.txt", self.folder, *sorted(self.folder.rglob("*"))]
        for path in tree:
            found = path.lstat()
            about: tuple[Any, ...] = (
                found.st_mode,
                found.st_ino,
                found.st_mtime_ns,
                found.st_size,
                found.st_uid,
            )
            if stat.S_ISLNK(found.st_mode):
                about = (*about, os.readlink(path))
            elif stat.S_ISREG(found.st_mode):
                about = (*about, path.read_bytes())
            seen[str(path.relative_to(self.parent))] = about
        return seen
