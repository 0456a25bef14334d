"""The config that the view gets: what the repository says about files, remotes and branches, as data.

Keep true:
1. A key gets in only if it stands here. None of them names a program or a file to read.
2. No password gets in, as they stand in the addresses of some remotes.
"""

from __future__ import annotations

import os
import re

from placet.sandbox.git.repository import Repository

_COPIED = (
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.quotepath",
    "core.abbrev",
    "core.whitespace",
    "merge.conflictstyle",
    "pull.rebase",
    "pull.ff",
)
_REMOTE = re.compile(r"remote\.(?P<name>.+)\.(?P<key>url|fetch)")
_BRANCH = re.compile(r"branch\.(?P<name>.+)\.(?P<key>remote|merge|rebase)")
_ADDRESS = re.compile(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", re.IGNORECASE)
_MOST_VALUE = 4096


def neutral_config(repository: Repository) -> bytes:
    """The text of a config for the view of a repository."""
    settings = repository.settings
    lines = ["# Made by Placet. What is changed here stays inside the sandbox.", "[core]"]
    lines += [f"\trepositoryformatversion = {1 if repository.is_sha256 else 0}", "\tbare = false"]
    lines += ["\tlogallrefupdates = true", "\tsplitIndex = false"]
    work_tree = settings.get("core.worktree")
    if work_tree is not None and not repository.is_linked:
        lines.append(f"\tworktree = {_quoted(work_tree)}")
    if os.geteuid() == 0:
        # Inside, the files of root belong to somebody else. Git would read all of them again because of it.
        lines += ["\tcheckStat = minimal", "\ttrustctime = false"]
    if repository.is_sha256:
        lines += ["[extensions]", "\tobjectformat = sha256"]
    for key in _COPIED:
        if key in settings:
            section, _, name = key.partition(".")
            lines += [f"[{section}]", f"\t{name} = {_quoted(settings[key])}"]
    # The git folders of submodules are not shown inside, so git cannot look into them.
    lines += ["[diff]", "\tignoreSubmodules = all", "[submodule]", "\trecurse = false"]
    lines += ["[gc]", "\tautoDetach = false", "\tauto = 0", "[maintenance]", "\tauto = false"]
    for pattern, section in ((_REMOTE, "remote"), (_BRANCH, "branch")):
        for key, value in settings.items():
            if (match := pattern.fullmatch(key)) and len(value) <= _MOST_VALUE:
                name = match["name"].replace("\\", "\\\\").replace('"', '\\"')
                lines += [f'[{section} "{name}"]', f"\t{match['key']} = {_quoted(_without_password(value))}"]
    return os.fsencode("\n".join(lines) + "\n")


def _without_password(value: str) -> str:
    """An address without the name and the password in it.

    >>> _without_password("https://me:secret@example.org/a.git")
    'https://example.org/a.git'
    """
    return _ADDRESS.sub(r"\1", value)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
