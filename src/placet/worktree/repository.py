"""The person's repository: where it is, which commit is checked out, and which of its settings count.

Keep true:
1. Nothing here writes. Only `publish` and `commit` do.
2. Of the settings only data is taken: how lines end, what a mode means, what is ignored, who commits. A value
   that is none of those expected is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from placet.errors import ToolError, UsageError
from placet.safe_text import clean
from placet.sandbox.git_folder import (
    is_git_folder,
    leads_back,
    look_up,
    named_work_tree,
    objects_of,
    read,
    read_line,
)
from placet.worktree.git import git, program

NOBODY = "Placet <placet@localhost>"
"""Who commits where git knows nobody."""

_MOST_IGNORED = 1 << 20
_MOST_CONFIG = 16 << 20
_MOST_REMEMBERED = 64 << 10
"""Of a config whose listing is remembered, in bytes."""
_MOST_LISTED = 16
_LISTED: dict[bytes, bytes] = {}
"""Configs as git has listed them, by their bytes."""
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
    r"^(core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|excludesfile|attributesfile)"
    r"|filter\..*\.(clean|process)|user\.(name|email))$"
)


_UNFIT = {
    "extensions.refstorage": "keeps its refs in another way than as files",
    "extensions.partialclone": "is a partial clone, whose objects are fetched when they are needed",
    "core.sparsecheckout": "has a sparse checkout (`git sparse-checkout disable` ends it)",
}
"""Settings of repositories that are not worked on, with the reason."""


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A work tree, with the git folder that belongs to it. All paths are absolute and free of links."""

    top: str
    """The work tree."""
    common: str
    """The git folder that all checkouts share."""
    git_dir: str
    """Where HEAD and the index of this checkout are: `common`, or `common/worktrees/NAME`."""
    settings: Mapping[str, str]
    """The config of the repository by its keys, with the last value of each."""
    objects: str
    """The folder of the objects."""
    borrowed: tuple[str, ...] = ()
    """Folders of objects that it borrows from."""

    @property
    def is_sha256(self) -> bool:
        return self.settings.get("extensions.objectformat", "sha1") == "sha256"


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
    found: Checkout


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of the settings of a repository, the person and the machine."""

    data: Mapping[str, str]
    ignored: bytes
    """What the person ignores besides what stands in `.gitignore`, as lines of such a file."""
    attributes: bytes
    """What the repository says of files in `info/attributes`, which goes before `.gitattributes`."""
    persons_attributes: bytes
    """What the person says of files in all repositories, which comes after `.gitattributes`."""
    filters: frozenset[str]
    """Names of filters that git would run for this person."""
    author: str
    """Whoever commits here, as `Name <mail>`."""


async def find_checkout(folder: str) -> Checkout | None:
    """Find the checkout that a folder belongs to; None if there is none that can be relied on.

    Raises:
        ToolError: there is one, of a kind that is not worked on. It says which.
    """
    found = look_up(folder)
    if found is None:
        return None
    settings = parse_settings(await _list(found.common, "config"))
    if settings.get("extensions.worktreeconfig", "false") == "true":
        settings |= parse_settings(await _list(found.git_dir, "config.worktree"))
    is_main = found.git_dir == found.common
    if is_main and not leads_back(found.top, found.git_dir, settings.get("core.worktree")):
        return None
    if is_main and settings.get("core.bare") == "true":
        return None
    reasons = [why for key, why in _UNFIT.items() if settings.get(key, "false") not in ("false", "files")]
    if any(key.endswith(".promisor") for key in settings):
        reasons.append(_UNFIT["extensions.partialclone"])
    if reasons:
        raise ToolError(f"The repository of {found.top} {reasons[0]}.", retry=False)
    objects, borrowed = objects_of(found.common)
    return Checkout(
        top=found.top,
        common=found.common,
        git_dir=found.git_dir,
        settings=settings,
        objects=objects,
        borrowed=borrowed,
    )


async def _list(folder: str, name: str) -> bytes:
    """A config as git lists it, without what it includes.

    That follows from the bytes of the file alone, and a session or a round opens its repository many times:
    git is asked once about the same bytes.
    """
    text = read(folder, name, _MOST_CONFIG)
    if text is None:
        return b""
    listed = _LISTED.get(text)
    if listed is None:
        # Handed over, so that git reads these bytes, whoever writes to the file meanwhile.
        arguments = ["config", "--file", "-", "--no-includes", "--null", "--list"]
        listed = await git(arguments, git_dir=folder, stdin=text)
        if len(text) <= _MOST_REMEMBERED:
            if len(_LISTED) == _MOST_LISTED:
                _LISTED.pop(next(iter(_LISTED)), None)
            _LISTED[text] = listed
    return listed


def parse_settings(listed: bytes) -> dict[str, str]:
    """Read what `git config --null` lists.

    >>> parse_settings(b"core.bare\\nfalse\\0core.bare\\ntrue\\0")
    {'core.bare': 'true'}
    """
    found: dict[str, str] = {}
    for line in os.fsdecode(listed).split("\0"):
        key, has_value, value = line.partition("\n")
        if key:
            # A key without a value means that it is so.
            found[key] = value if has_value else "true"
    return found


async def find_workable(folder: Path) -> Checkout:
    """The checkout that a folder belongs to; it may lie below the top. A commit need not be there.

    Raises:
        UsageError: there is none to work on. It says why, and what to do.
    """
    try:
        program()
        found = await find_checkout(str(folder))
    except ToolError as error:
        raise UsageError(f"No work can be done on {folder}: {error}") from error
    if found is None:
        raise UsageError(_why_none(folder))
    return found


async def find_repository(folder: Path) -> Repository:
    """The repository that a folder belongs to, and the commit that it stands on.

    Raises:
        UsageError: there is none to work on. It says why, and what to do.
    """
    found = await find_workable(folder)
    try:
        said = await git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], git_dir=found.git_dir)
    except ToolError as error:
        raise UsageError(
            f"The repository {found.top} has no commit yet, or its HEAD leads to none. Make a commit first: "
            "the work begins from it."
        ) from error
    on = read_line(found.git_dir, "HEAD") or ""
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
    found = Checkout(top=str(top), common="", git_dir="", settings={}, objects="")
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
    folder = Path(os.path.abspath(folder))
    if not folder.is_dir():
        return f"There is no folder {folder}. Name one that is in a git repository."
    real = os.path.realpath(folder)
    pointer = os.path.join(real, ".git")
    is_inner = is_git_folder(pointer) and not os.path.islink(pointer)
    found = look_up(real)
    work_tree = named_work_tree(found.git_dir) if found is not None else None
    if found is not None and work_tree is not None and not leads_back(found.top, found.git_dir, work_tree):
        return (
            f"The repository {found.git_dir} keeps its files in another folder: its core.worktree is "
            f"{clean(work_tree, 200)}. Such a repository is not worked on. Clone it, and work in the clone."
        )
    if is_inner or is_git_folder(real):
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
    name, mail = said.get("user.name", ""), said.get("user.email", "")
    return Settings(
        data={key: said[key] for key, values in _DATA.items() if said.get(key) in values},
        # What stands later wins, and the repository's own wins over the person's.
        ignored=_read(_persons_file(said.get("core.excludesfile"), "ignore"))
        + b"\n"
        + _read(os.path.join(repository.common, "info/exclude")),
        attributes=_read(os.path.join(repository.common, "info/attributes")),
        persons_attributes=_read(_persons_file(said.get("core.attributesfile"), "attributes")),
        filters=frozenset(
            key.split(".", 1)[1].rpartition(".")[0] for key in said if key.startswith("filter.")
        ),
        author=f"{name} <{mail}>" if name and mail else NOBODY,
    )


async def identity(checkout: Checkout) -> tuple[str, str]:
    """The name and the mail address of whoever commits here, as git would take them outside; empty if none
    is set."""
    try:
        listed = await git(
            ["config", "--null", "--get-regexp", r"^user\.(name|email)$"],
            git_dir=checkout.git_dir,
            with_persons_settings=True,
        )
    except ToolError:
        # None of the keys is there.
        return "", ""
    said = parse_settings(listed)
    return said.get("user.name", ""), said.get("user.email", "")


def _persons_file(named: str | None, name: str) -> str:
    """A file that holds in all repositories of the person: the one that is named, or git's own choice."""
    if named is not None:
        return os.path.expanduser(named)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "git", name)


def _read(path: str) -> bytes:
    if not os.path.isabs(path):
        return b""
    path = os.path.realpath(path)
    return read(os.path.dirname(path), os.path.basename(path), _MOST_IGNORED) or b""
