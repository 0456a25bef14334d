"""The person's repository: where it is, what it stands on, and what of its settings counts for us.

Keep true:
1. Nothing here writes. The one place that ever does is `publishing`.
2. Of the settings only data is taken: how lines end, what a mode means, what is ignored, who commits. A value
   that is none of those expected is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from placet.errors import ToolError, UsageError
from placet.sandbox.git import repository as checkouts
from placet.sandbox.git.folder import Damaged, Folder
from placet.sandbox.git.trusted import git, program

NOBODY = "Placet <placet@localhost>"
"""Who commits where git knows nobody."""

_MOST_IGNORED = 1 << 20
_TRUTHS = ("true", "false")
_DATA: Mapping[str, tuple[str, ...]] = {
    "core.autocrlf": (*_TRUTHS, "input"),
    "core.eol": ("lf", "crlf", "native"),
    "core.filemode": _TRUTHS,
    "core.symlinks": _TRUTHS,
    "core.ignorecase": _TRUTHS,
    "core.precomposeunicode": _TRUTHS,
}
"""Settings that say what a file in the work tree is in a commit, with the values that they can have."""
_LOOKED_UP = (
    r"^(core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|excludesfile)"
    r"|filter\..*\.(clean|process))$"
)


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout of the person's, and the commit that it stands on."""

    top: Path
    """The work tree."""
    git_dir: str
    """Where HEAD and the index of this checkout are."""
    common: str
    """The git folder that all checkouts share; mostly the same one."""
    head: str
    """The commit. Whoever resumes a session puts the one in here that it began from."""
    branch: str | None
    """Without `refs/heads/`; None when HEAD is on no branch."""
    found: checkouts.Repository


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of the settings of a repository, the person and the machine."""

    data: Mapping[str, str]
    ignored: bytes
    """What the person ignores besides what stands in `.gitignore`, as lines of such a file."""
    filters: frozenset[str]
    """Names of filters that git would run for this person."""


async def find_repository(folder: Path) -> Repository:
    """The repository that a folder belongs to; it may lie below the top.

    Raises:
        UsageError: there is none to work on. It says why, and what to do.
    """
    try:
        program()
        found = await checkouts.find(str(folder))
    except ToolError as error:
        words = str(error).partition(" Git is not offered inside")[0].partition(" Install it,")[0]
        install = " Install git." if "git was not found" in words else ""
        raise UsageError(f"No work can be done on {folder}: {words.rstrip('.')}.{install}") from error
    if found is None:
        raise UsageError(_why_none(folder))
    try:
        said = await git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], git_dir=found.git_dir)
    except ToolError as error:
        raise UsageError(
            f"The repository {found.top} has no commit yet, or its HEAD leads to none. Make a commit first: "
            "the work begins from it."
        ) from error
    on = checkouts.read_line(found.git_dir, "HEAD") or ""
    branch = on.removeprefix("ref: refs/heads/")
    return Repository(
        top=Path(found.top),
        git_dir=found.git_dir,
        common=found.common,
        head=said.decode().strip(),
        branch=None if branch == on else branch,
        found=found,
    )


def gone_repository(top: Path, head: str) -> Repository:
    """What stands for a repository that is not where it was, for whoever only ends what was begun there."""
    found = checkouts.Repository(top=str(top), common="", git_dir="", settings={}, objects="")
    return Repository(top=top, git_dir="", common="", head=head, branch=None, found=found)


async def first_commit(repository: Repository) -> str | None:
    """The oldest commit before HEAD, which all clones share; None where the history is cut off."""
    if _is_shallow(repository):
        return None
    said = await git(
        ["rev-list", "--first-parent", "--max-parents=0", repository.head], git_dir=repository.git_dir
    )
    return said.decode().split()[-1] if said.strip() else None


def _is_shallow(repository: Repository) -> bool:
    return os.path.exists(os.path.join(repository.common, "shallow"))


def _why_none(folder: Path) -> str:
    """Why there is no repository to work on."""
    if not folder.is_dir():
        return f"There is no folder {folder}. Name one that is in a git repository."
    real = os.path.realpath(folder)
    pointer = os.path.join(real, ".git")
    is_inner = checkouts.is_git_folder(pointer) and not os.path.islink(pointer)
    if is_inner or checkouts.is_git_folder(real):
        return f"{folder} is a bare repository, without files to work on. Clone it, and work in the clone."
    if os.path.lexists(pointer):
        return f"The .git of {folder} leads to no repository, or is a link. Look at it with `git status`."
    return f"{folder} is in no git repository. Make one there with `git init` and a first commit."


async def settings_of(repository: Repository) -> Settings:
    """What counts of the settings, as they are now."""
    try:
        listed = await git(
            ["config", "--show-scope", "--null", "--get-regexp", _LOOKED_UP],
            git_dir=repository.git_dir,
            with_persons_settings=True,
        )
    except ToolError:
        # None of them is set, or one file is broken: git says so to the person at every command.
        listed = b""
    said: dict[str, str] = {}
    parts = os.fsdecode(listed).split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, has_value, value = entry.partition("\n")
        # What stands on the command line is ours, and overrules what we are looking for.
        if scope != "command":
            said[key] = value if has_value else "true"
    return Settings(
        data={key: said[key] for key, values in _DATA.items() if said.get(key) in values},
        # What stands later wins, and the repository's own wins over the person's.
        ignored=_read(_ignore_file(said.get("core.excludesfile")))
        + b"\n"
        + _read(os.path.join(repository.common, "info/exclude")),
        filters=frozenset(
            key.split(".", 1)[1].rpartition(".")[0] for key in said if key.startswith("filter.")
        ),
    )


async def author_of(repository: Repository) -> str:
    """Whoever commits here, as `Name <mail>`."""
    named = await checkouts.identity(repository.found)
    name, mail = named.get("GIT_AUTHOR_NAME"), named.get("GIT_AUTHOR_EMAIL")
    return f"{name} <{mail}>" if name and mail else NOBODY


def _ignore_file(named: str | None) -> str:
    if named is not None:
        return os.path.expanduser(named)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "git/ignore")


def _read(path: str) -> bytes:
    if not os.path.isabs(path):
        return b""
    path = os.path.realpath(path)
    try:
        with Folder(os.path.dirname(path)) as folder:
            return folder.read(os.path.basename(path), _MOST_IGNORED) or b""
    except (OSError, Damaged):
        return b""
