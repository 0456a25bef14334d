"""What a confined command sees of the machine: the system, the toolchains, and nothing of anybody's own.

This is a list of what is shown, not of what is hidden: a folder that nobody thought of is not there.

Keep true:
1. Nothing that is shown can hold a person's keys: of a folder that mixes programs and secrets only the parts
   with the programs are shown.
2. What holds the sockets of other programs is not shown: a socket can be spoken to through a read-only mount.
3. No folder is shown that contains the home or the workspace: it would bring along what lies beside them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

SYSTEM = [
    *(
        "bin",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "sbin",
        "usr",
        "sys",
        "nix/store",
        "gnu/store",
        "snap",
    ),
    *("var/cache", "var/db", "var/lib/apt", "var/lib/dpkg", "var/lib/gems", "var/lib/pacman", "var/lib/rpm"),
    "var/lib/texmf",
]
"""What programs need of the system. The rest of /var, and /opt, hold data and sockets of services."""

TOOLCHAINS = [
    *(".asdf", ".bun/bin", ".cargo/bin", ".cargo/git", ".cargo/registry", ".deno/bin", ".gem/ruby", ".goenv"),
    *(".jenv", ".local/bin", ".local/lib", ".local/pipx", ".local/share/mise", ".local/share/pipx"),
    *(".local/share/pnpm", ".local/share/uv/python", ".local/share/uv/tools", ".local/share/virtualenvs"),
    *(".m2/repository", ".nodenv", ".npm-global/bin", ".npm-global/lib", ".nvm", ".pyenv", ".rbenv"),
    *(".rustup", ".sdkman", ".volta", "anaconda3", "go/bin", "go/pkg", "miniconda3", "miniforge3", "sdk"),
]
"""Folders in a home that hold programs. Those beside them, such as .cargo/credentials.toml, are not shown."""

_PROGRAMS = frozenset({"bin", "sbin", "shims", "Scripts", "condabin"})
_BESIDE = ("lib", "lib64", "libexec", "share", "include")
"""What the programs in a `bin` mostly need of the folder around it. Not the folder: it may be a project."""

_STEPS = 1000
"""Names and links on the way to a folder. The kernel follows 40 links."""

APART = ("/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/var", "/boot")
"""Of the system. A workspace that is one of them, or contains or lies in the first four, is none."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown read-only, and where the home is."""

    system: tuple[str, ...]
    """Absolute paths, some of them links, which are shown as links."""
    toolchains: tuple[str, ...]
    home: str
    hidden: tuple[str, ...] = ()
    """Homes besides: they are there, and empty."""


def find_places(environment: Mapping[str, str], workspace: str, keep_out: Iterable[str] = ()) -> Places:
    """What to show to the commands of `workspace`, on this machine.

    `keep_out` are folders that must not become visible by accident, such as Placet's own records.
    """
    home = os.path.abspath(environment.get("HOME") or os.path.expanduser("~"))
    if home == "/":
        home = "/nonexistent"
    system = tuple(path for name in SYSTEM if os.path.lexists(path := f"/{name}"))
    shown = _Shown(system, home, workspace, (workspace, home, *keep_out))
    for name in TOOLCHAINS:
        shown.add(os.path.join(home, name))
    for prefix in (sys.prefix, sys.base_prefix, environment.get("VIRTUAL_ENV", "")):
        shown.add(prefix)
    shown.add_programs(os.path.dirname(os.path.realpath(sys.executable)))
    for entry in environment.get("PATH", "").split(os.pathsep):
        shown.add_programs(entry)
    return Places(system=system, toolchains=tuple(shown.found), home=home)


def may_show(folder: str, keep_out: Iterable[str]) -> bool:
    """Whether a folder can be shown without showing what is to be kept out."""
    return not any(is_beneath(os.path.realpath(kept), os.path.realpath(folder)) for kept in keep_out)


class _Shown:
    """Toolchain folders, each once, none inside another."""

    def __init__(self, system: tuple[str, ...], home: str, workspace: str, keep_out: tuple[str, ...]) -> None:
        self._system = system
        self._home = home
        self._workspace = os.path.realpath(workspace)
        self._keep_out = keep_out
        self.found: list[str] = []

    def add(self, folder: str) -> bool:
        """Show a folder, unless it is shown already, is none, or would show too much."""
        if not os.path.isabs(folder) or not os.path.isdir(folder):
            return False
        folder = os.path.abspath(folder)
        if any(is_beneath(folder, other) for other in (*self._system, *self.found)):
            return False
        # Shown anyway; and a command could put a link there that leads anywhere.
        if self._is_inside(folder):
            return False
        # Links lead elsewhere: the path is shown where it is named, with what is there.
        if not may_show(folder, self._keep_out):
            return False
        self.found = [other for other in self.found if not is_beneath(other, folder)] + [folder]
        return True

    def _is_inside(self, folder: str) -> bool:
        """Whether a folder is reached through the workspace, by itself or by a link on the way to it."""
        ahead = folder.split("/")[::-1]
        reached = "/"
        for _ in range(_STEPS):
            if is_beneath(reached, self._workspace):
                return True
            while ahead and ahead[-1] in ("", "."):
                ahead.pop()
            if not ahead:
                return False
            name = ahead.pop()
            step = os.path.dirname(reached) if name == ".." else os.path.join(reached, name)
            try:
                target = os.readlink(step)
            except OSError:
                reached = step
                continue
            ahead += target.split("/")[::-1]
            reached = "/" if os.path.isabs(target) else reached
        return True  # Links that lead to each other.

    def add_programs(self, entry: str) -> None:
        """Show what an entry of PATH needs: itself, and what mostly lies beside a `bin`."""
        if not os.path.isabs(entry):
            return
        entry = os.path.abspath(entry)
        self.add(entry)
        if os.path.basename(entry) in _PROGRAMS and os.path.dirname(entry) != self._home:
            for name in _BESIDE:
                self.add(os.path.join(os.path.dirname(entry), name))


def unfit(workspace: str, environment: Mapping[str, str]) -> Literal["", "system", "home"]:
    """Whether a folder is none that commands could be confined to: a part of the system, or a whole home.

    In a home everything that is to be kept from them would lie among what they may write.
    """
    if any(is_beneath(path, workspace) for path in APART):
        return "system"
    if any(is_beneath(workspace, path) for path in APART[:4]):
        return "system"
    home = os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))
    return "home" if is_beneath(home, workspace) else ""


def is_beneath(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it, by its spelling.

    >>> is_beneath("/usr/bin", "/usr"), is_beneath("/usr2", "/usr")
    (True, False)
    """
    return path == folder or path.startswith(folder.rstrip("/") + "/")
