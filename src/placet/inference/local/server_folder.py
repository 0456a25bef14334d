"""The folder in which processes meet that share a server: private, or not used.

Keep true: what a link leads to is not ours, and nothing that others could change is trusted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from errno import ENOSPC, ENOTDIR, EPERM
from pathlib import Path
from typing import TYPE_CHECKING

from placet.errors import ModelMissing
from placet.safe_text import clean
from placet.storage.location import user_folder

if TYPE_CHECKING:
    from placet.inference.local.shared import Served


def server_folder(served: Served, environment: Mapping[str, str]) -> Path:
    """Where the locks of a model are: in the runtime folder of the person, else among their things."""
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    here = Path(runtime) / "placet" if _is_own(runtime) else user_folder(environment) / "run"
    return here / f"{served.name}-{served.id[:16]}"


def _is_own(folder: str) -> bool:
    """Whether this is a folder of this person's alone: the variable may be left over from somebody else's
    login, and where others can write they could put another server in."""
    try:
        found = os.stat(folder)
    except (OSError, ValueError):
        return False
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return is_private and os.path.isabs(folder) and os.access(folder, os.W_OK | os.X_OK)


def make_private(folder: Path) -> None:
    """The folder, this person's alone: who could change what is in it could hand out another server.

    Raises:
        OSError: it cannot be made, or it is somebody else's.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
        try:
            # What a link leads to is not ours to change.
            opened = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except NotADirectoryError:
            raise NotADirectoryError(ENOTDIR, f"{each.name} in it is no folder, or a link") from None
        try:
            found = os.fstat(opened)
            if found.st_uid != os.geteuid():
                raise PermissionError(EPERM, "it belongs to somebody else", str(each))
            if found.st_mode & 0o077:
                os.fchmod(opened, 0o700)
        finally:
            os.close(opened)


def unusable(folder: Path, error: OSError) -> ModelMissing:
    """Words for a folder in which nothing can be done."""
    fix = "Make room there" if error.errno == ENOSPC else "Mend its rights"
    return ModelMissing(
        f"The server's folder {clean(folder)} cannot be used: {error.strerror or error}. {fix}, or set "
        "XDG_RUNTIME_DIR to a private folder of yours."
    )
