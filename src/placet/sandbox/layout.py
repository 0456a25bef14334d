"""What is where inside a sandbox: the workspace, what is kept in it, and what is shown besides.

Keep true:
1. What is kept from commands cannot be moved away either: every folder between the workspace and it is a
   mount of its own, and a mount cannot be renamed.
2. Nothing that is kept is a link: what a link leads to can be held, the link itself cannot.
3. A folder is shown besides only if it shows nothing that is kept out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from placet.errors import ToolError
from placet.sandbox.bubblewrap import Bind, Layout
from placet.sandbox.git_folder import is_git_folder, read_elsewhere
from placet.sandbox.git_protected import protected_git
from placet.sandbox.places import Places, is_beneath, may_show

if TYPE_CHECKING:
    from placet.sandbox.workspace import Workspace


def lay_out(
    workspace: Workspace,
    places: Places,
    *,
    folder: str | int,
    argv: Sequence[str],
    tmp_bytes: int | None,
    readable: Sequence[str],
    keep_out: str | None,
    reads_only: bool = False,
    fixed: Sequence[str] = (),
) -> Layout:
    """What bubblewrap is to show to a command that runs in `folder`.

    `readable` are folders to be shown besides; of one that would show too much only the program is shown.
    With `reads_only` the workspace is read-only. `fixed` are files in it that are, relative to it.

    Raises:
        ToolError: something that has to be kept is a link.
    """
    top = str(workspace.folder)
    kept_out = [keep_out] if keep_out is not None else []
    where = top if isinstance(folder, int) else os.path.abspath(folder)
    binds = _shown([where, *readable], argv[0], top, [places.home, top, *kept_out])
    refuse_links(workspace)
    closed, sealed = workspace.apart()
    is_fixed = reads_only or is_git_folder(top)
    elsewhere = read_elsewhere(top)
    binds += [Bind(path, path) for path in elsewhere if may_show(path, [places.home, *kept_out])]
    # What git runs for whoever works here next is in these.
    binds += [Bind(path, path) for path in protected_git(top)]
    binds += [Bind(path, path) for path in sealed]
    return Layout(
        places=places,
        workspace=top,
        folder=where,
        is_writable=not is_fixed,
        tmp_bytes=tmp_bytes,
        binds=[*_pins(top, [bind.destination for bind in binds], closed), *binds] if not is_fixed else binds,
        fixed=_fixed(top, fixed, [*closed, *(bind.destination for bind in binds)]),
        empty=[path for path in closed if os.path.isdir(path)],
        blank=[path for path in closed if not os.path.isdir(path)],
    )


def refuse_links(workspace: Workspace) -> None:
    """Raises ToolError: a name in the workspace that has to stay what it is is a link."""
    top = str(workspace.folder)
    for path in [os.path.join(top, ".git"), *workspace.kept_names()]:
        while is_beneath(path, top) and path != top:
            if os.path.islink(path):
                raise ToolError(
                    f"Not run: {os.path.relpath(path, top)} in the workspace is a link. Commands could put "
                    "something else in its place, and whoever comes next would follow it. Put there what it "
                    "leads to, or work in another folder.",
                    retry=False,
                )
            path = os.path.dirname(path)


def _shown(folders: Iterable[str], program: str, workspace: str, kept_out: list[str]) -> list[Bind]:
    found: list[Bind] = []
    for path in dict.fromkeys(folders):
        if is_beneath(path, workspace) or not os.path.exists(path):
            continue
        if may_show(path, kept_out):
            found.append(Bind(path, path))
        elif is_beneath(program, path) and os.path.isfile(program):
            found.append(Bind(program, program))
    return found


def _pins(workspace: str, destinations: Sequence[str], closed: Sequence[str]) -> list[Bind]:
    """The folders above what is kept, each bound onto itself."""
    found: dict[str, None] = {}
    for path in (*destinations, *closed):
        above: list[str] = []
        while is_beneath(parent := os.path.dirname(path), workspace) and parent != workspace:
            above.append(parent)
            path = parent
        found.update(dict.fromkeys(reversed(above)))
    return [
        Bind(path, path, True)
        for path in sorted(found)
        if not any(is_beneath(path, other) for other in destinations)
    ]


def _fixed(workspace: str, paths: Iterable[str], covered: Sequence[str]) -> list[str]:
    """The files among `paths` that can be bound onto themselves, each after the folders above it."""
    files: list[str] = []
    above: dict[str, None] = {}
    for path in paths:
        whole = os.path.join(workspace, path)
        if os.path.realpath(whole) != whole or not os.path.isfile(whole):
            continue
        if any(is_beneath(whole, other) for other in covered):
            continue
        files.append(whole)
        parts = path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            above.setdefault(os.path.join(workspace, *parts[:end]))
    return [*sorted(above), *files]
