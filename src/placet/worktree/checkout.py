"""Files of a work tree, taken into a tree; and a tree, written out as files.

What a command or a model has left in a folder can be anything: links in place of folders, pipes, git folders
with settings of their own. None of it is obeyed.

Keep true:
1. What git has in a tree is what is in the files, as this repository reads them; no filter is run.
2. No git folder beneath a work tree is looked into. The files around one are files like others, so work in a
   folder where somebody has said `git init` is not lost.
3. A submodule stays as it is in the tree that was written out, unless a file has taken its place: its folder
   is empty here, so that it is empty or gone says nothing.
4. What no repository should hold (`.git` in any spelling, a linked `.gitmodules`, a pipe) is left out.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from placet.errors import ToolError, UsageError
from placet.safe_text import clean
from placet.sandbox.lookalikes import GIT, is_read_as
from placet.worktree.objects import SUBMODULE, ObjectStore, checked, inside
from placet.worktree.repository import Repository
from placet.worktree.scratch import remove_tree

_SHOWN = 5
_LATER_NS = 3600 * 10**9


async def take_in(
    trees: ObjectStore,
    work_tree: Path,
    index: Path,
    *,
    ours: bool = True,
    filters: Collection[str] = (),
    only: Callable[[bytes], bool] | None = None,
) -> str:
    """The tree of the files in a folder. `index` says which were there before, and remembers them.

    With `ours` a file that may not be read is made readable. `filters` are those that git would run for
    whoever works in the folder. With `only`, paths that it refuses stay as the index has them.

    Raises:
        UsageError: a changed file goes through one of them. In a commit it would be another than here.
        ToolError: a file cannot be read.
    """
    seen, gone = await _differing(trees, work_tree, index)
    if only is not None:
        seen, gone = list(filter(only, seen)), list(filter(only, gone))
    same, other = await _filtered(trees, work_tree, index, seen, filters)
    if other:
        raise UsageError(
            f"Changed files go through a filter of git, which is not run here: {_some(sorted(other))}. "
            "Commit them first, or begin without the changes."
        )
    if ours:
        for path in seen:
            _make_readable(os.path.join(os.fsencode(work_tree), path))
    await _update(trees, work_tree, index, [path for path in seen if path not in same], gone)
    return (await trees.run(["write-tree"], index=index)).decode().strip()


async def uncommitted(
    trees: ObjectStore, work_tree: Path, index: Path, commit: str, filters: Collection[str]
) -> list[str]:
    """The paths in a folder that differ from a commit. Nothing is kept of them."""
    # Of files that seem changed, git forgets at the next step what it remembered of them.
    before = index.with_suffix(".before")
    shutil.copyfile(index, before)
    quietly = ["update-index", "-q", "--unmerged", "--ignore-missing", "--refresh"]
    await trees.run(quietly, index=index, work_tree=work_tree)
    how = ["diff-index", "-z", "--name-only", "--no-renames", "--ignore-submodules=all", checked(commit)]
    listed = await trees.run(how, index=index, work_tree=work_tree)
    found = [path for path in listed.split(b"\0") if path]
    same, _ = await _filtered(trees, work_tree, before, found, filters)
    others = await _untracked(trees, work_tree, index)
    return sorted({os.fsdecode(path) for path in [*found, *others] if path not in same})


async def _filtered(
    trees: ObjectStore, work_tree: Path, index: Path, paths: Iterable[bytes], filters: Collection[str]
) -> tuple[set[bytes], set[bytes]]:
    """The paths that go through one of the filters: those that seem changed only because it is not run, and
    those that were changed.

    Git looks into files that are as young as the index, and then sees what is not yet filtered. All else that
    the index remembers of them decides.
    """
    stdin = _joined(paths)
    if not filters or not stdin:
        return set(), set()
    argv = ["check-attr", "-z", "--stdin", "filter"]
    listed = (await trees.run(argv, stdin=stdin, index=index, work_tree=work_tree)).split(b"\0")
    named = {
        path for path, value in zip(listed[::3], listed[2::3], strict=False) if os.fsdecode(value) in filters
    }
    if not named:
        return set(), set()
    trusting = index.with_suffix(".trusting")
    shutil.copyfile(index, trusting)
    later = os.stat(index).st_mtime_ns + _LATER_NS
    os.utime(trusting, ns=(later, later))
    seen, gone = await _differing(trees, work_tree, trusting)
    other = named.intersection([*seen, *gone])
    return named - other, other


async def write_out(trees: ObjectStore, tree: str, folder: Path, index: Path) -> None:
    """Fill an empty folder with the files of a tree. `index` is a new file, which remembers them."""
    await trees.run(["read-tree", "--reset", "-u", checked(tree)], index=index, work_tree=folder)


async def put_back(trees: ObjectStore, work_tree: Path, base: str, paths: Collection[str]) -> None:
    """Make some files as they are in a tree: also those that are not there."""
    kept = await trees.entries(base)
    wanted = [os.fsencode(inside(path)) for path in paths]
    for path in wanted:
        _clear_way(work_tree, os.fsdecode(path))
    files = [path for path in wanted if path in kept and kept[path][0] != SUBMODULE]
    for path in set(wanted).difference(files):
        if path in kept:
            (work_tree / os.fsdecode(path)).mkdir(parents=True)
        else:
            _drop_empty(work_tree, os.fsdecode(path))
    if files:
        async with trees.scratch.folder() as aside:
            index = aside / "index"
            await trees.run(["read-tree", checked(base)], index=index)
            await trees.run(
                ["checkout-index", "-f", "-q", "-z", "--stdin"],
                stdin=_joined(files),
                index=index,
                work_tree=work_tree,
            )


def copy_index(repository: Repository, index: Path, beside: Path) -> bool:
    """Copy the person's index into a file of ours; whether there is one. `beside` is the git folder in which
    git looks for the other part of one that is split."""
    folder = Path(repository.git_dir)
    try:
        with open(folder / "index", "rb") as source, open(index, "xb") as copy:
            shutil.copyfileobj(source, copy)
            found = os.fstat(source.fileno())
    except FileNotFoundError:
        return False
    # Git looks again at files that are as young as the index. A younger copy would make it trust them.
    os.utime(index, ns=(found.st_atime_ns, found.st_mtime_ns))
    for shared in folder.glob("sharedindex.*"):
        shutil.copyfile(shared, beside / shared.name)
    return True


async def _differing(trees: ObjectStore, work_tree: Path, index: Path) -> tuple[list[bytes], list[bytes]]:
    """Files that may be other than the index has them, and paths of it that are no files any more."""
    # So git does not look whether a submodule is dirty: for that it would run itself in there.
    argv = ["diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty"]
    listed = (await trees.run(argv, index=index, work_tree=work_tree)).split(b"\0")
    top = os.fsencode(work_tree)
    seen: list[bytes] = []
    gone: list[bytes] = []
    links: dict[bytes, bool] = {}
    for path, about in dict(zip(listed[1::2], listed[::2], strict=False)).items():
        if _is_file(top, path, links):
            seen.append(path)
        elif not about.startswith(b":" + SUBMODULE):
            gone.append(path)
    seen += await _untracked(trees, work_tree, index)
    return seen, gone


async def _update(
    trees: ObjectStore, work_tree: Path, index: Path, seen: Iterable[bytes], gone: Iterable[bytes]
) -> None:
    for how, paths in ((["--force-remove"], gone), (["--add", "--replace"], seen)):
        if stdin := _joined(paths):
            argv = ["update-index", *how, "-z", "--stdin"]
            await trees.run(argv, stdin=stdin, index=index, work_tree=work_tree)


async def _untracked(trees: ObjectStore, work_tree: Path, index: Path) -> list[bytes]:
    """Files that the index does not have and nobody ignores."""
    listed = await trees.run(
        ["ls-files", "-z", "--others", "--exclude-standard"], index=index, work_tree=work_tree
    )
    top = os.fsencode(work_tree)
    found: list[bytes] = []
    nested: list[bytes] = []
    for path in listed.split(b"\0"):
        # Git names a repository beneath as a folder, and goes no further.
        if path.endswith(b"/"):
            nested += _walk(top, path.rstrip(b"/"))
        elif path:
            found.append(path)
    if nested:
        try:
            ignored = await trees.run(
                ["check-ignore", "-z", "--no-index", "--stdin"],
                # It knows no paths that are meant literally. With a dot in front they have no other meaning.
                stdin=_joined(b"./" + path for path in nested),
                index=index,
                work_tree=work_tree,
                environment={"GIT_LITERAL_PATHSPECS": "0"},
            )
        except ToolError as error:
            # That none is ignored, git tells by its exit code.
            if "ended with 1" not in str(error):
                raise
            ignored = b""
        out = set(ignored.split(b"\0"))
        found += [path for path in nested if b"./" + path not in out]
    return [path for path in found if _may_be_held(top, path)]


def _walk(top: bytes, folder: bytes) -> list[bytes]:
    """The files beneath a folder, whose git folders are left out."""
    found: list[bytes] = []
    left = [folder]
    while left:
        here = left.pop()
        with suppress(OSError), os.scandir(os.path.join(top, here)) as entries:
            for entry in entries:
                path = here + b"/" + entry.name
                if is_read_as(entry.name, GIT):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    left.append(path)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    found.append(path)
    return sorted(found)


def _is_file(top: bytes, path: bytes, links: dict[bytes, bool]) -> bool:
    """Whether a path is a file or a link, in folders that are none. `links` remembers folders."""
    above = os.path.dirname(path)
    while above:
        if above not in links:
            links[above] = os.path.islink(os.path.join(top, above))
        if links[above]:
            return False
        above = os.path.dirname(above)
    try:
        mode = os.lstat(os.path.join(top, path)).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _may_be_held(top: bytes, path: bytes) -> bool:
    parts = path.split(b"/")
    # A repository that holds such a name is refused by git elsewhere.
    if any(is_read_as(part, GIT) for part in parts):
        return False
    return not is_read_as(parts[-1], ".gitmodules") or not os.path.islink(os.path.join(top, path))


def _make_readable(path: bytes) -> None:
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
            os.chmod(path, stat.S_IMODE(mode) | stat.S_IRUSR)


def _clear_way(top: Path, path: str) -> None:
    """See that nothing is at a path, and that all folders above it that are there are folders."""
    here = top
    for name in path.split("/")[:-1]:
        here = here / name
        if not os.path.lexists(here):
            return
        if here.is_symlink() or not here.is_dir():
            here.unlink()
            return
    remove_tree(top / path)


def _drop_empty(top: Path, path: str) -> None:
    """Remove the folders above a path that are empty by now, as git does."""
    for above in Path(path).parents:
        if above == Path():
            return
        try:
            (top / above).rmdir()
        except OSError:
            return


def _joined(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _some(paths: list[bytes]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(clean(os.fsdecode(path), 100) for path in paths[:_SHOWN]) + more
