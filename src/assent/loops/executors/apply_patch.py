"""The change brought into the person's own folder: their files, without a commit.

Keep true:
1. A file is written only if it is as the round found it, or already as the change has it; so nothing of the
   person's is overwritten, and done again after a crash it is done once.
2. All files are looked at before the first is written.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from assent.errors import ToolError
from assent.ir.json_value import JsonValue
from assent.ir.tool_spec import Risk
from assent.loops.executors.executor import Act, Bench, Done, Finding
from assent.loops.round import Receipt
from assent.safe_text import clean

if TYPE_CHECKING:
    from assent.coder.repository import Repository

_GONE = "gone"
_State = tuple[str, int]
"""The digest of a file, or that it is gone; and whether it can be run."""


class ApplyPatchExecutor:
    """Writes the changed files into the person's folder."""

    name = "apply_patch"
    risk: Risk = "idempotent"
    needs_change = True

    async def dry_run(self, act: Act, bench: Bench) -> str:
        """What would be done, in words."""
        return f"{len(act.changed)} files of {bench.repository.top} would be changed, and nothing committed"

    async def execute(self, act: Act, bench: Bench) -> Done:
        """Write them."""
        top = bench.repository.top
        files: dict[str, JsonValue] = {}
        async with bench.workshop.export(act.base_tree) as old, bench.workshop.export(act.tree) as new:
            to_write: list[str] = []
            for path in act.changed:
                wanted, now = _state(new, path), _state(top, path)
                files[path] = f"{wanted[0]} {wanted[1]}"
                if now == wanted:
                    continue
                if now != _state(old, path):
                    raise ToolError(
                        f"{clean(path, 300)} was changed since the round began, so the change no longer "
                        "applies to it. Nothing was written. Put it back, or let the round be rebased.",
                        retry=False,
                    )
                to_write.append(path)
            for path in to_write:
                _bring(new, top, path)
        said = f"{len(files)} files were brought into {top}"
        return Done(clean(said, 500), {"files": files})

    async def check(self, receipt: Receipt, repository: Repository) -> Finding:
        """Whether the files are still as the change has them."""
        files = receipt.data.get("files")
        if not isinstance(files, dict) or not files:
            return Finding(holds=False, why="it names no files", seen="record")
        for path, wanted in files.items():
            found = _state(repository.top, path)
            if f"{found[0]} {found[1]}" != wanted:
                return Finding(holds=False, why=f"{clean(path, 300)} is another by now", seen="world")
        return Finding(holds=True, why=f"all {len(files)} files are as they were left", seen="world")


def _state(folder: Path, path: str) -> _State:
    place = folder / path
    _stay_inside(folder, place)
    try:
        seen = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return _GONE, 0
    if not stat.S_ISREG(seen.st_mode):
        raise ToolError(f"{clean(path, 300)} is no plain file, so it is not brought over.", retry=False)
    return hashlib.sha256(place.read_bytes()).hexdigest(), int(bool(seen.st_mode & 0o100))


def _stay_inside(folder: Path, place: Path) -> None:
    """A link in the place of a folder must not lead the write elsewhere."""
    if not place.parent.resolve().is_relative_to(folder.resolve()):
        raise ToolError(f"{clean(place, 300)} leads out of the folder, so it is not touched.", retry=False)


def _bring(new: Path, top: Path, path: str) -> None:
    source, target = new / path, top / path
    if not source.exists():
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.assent-new")
    aside.write_bytes(source.read_bytes())
    aside.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
    os.replace(aside, target)
