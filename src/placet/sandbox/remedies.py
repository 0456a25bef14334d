"""How to get more isolation on this machine: what is missing, in the words of what to do about it.

Keep true: every text says what a person can do. What a program said itself is quoted, and never all there is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from placet.sandbox.places import unfit
from placet.sandbox.sandbox import find_bubblewrap

if TYPE_CHECKING:
    from placet.sandbox.ladder import Ladder

_INSTALL = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "pacman": "pacman -S bubblewrap",
    "apk": "apk add bubblewrap",
    "zypper": "zypper install bubblewrap",
}
_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_USERNS = ("/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone")
_REFUSED = re.compile("namespace|setting up [ug]id map|operation not permitted", re.IGNORECASE)
"""How bubblewrap says that it may not make namespaces. It says it differently for each way to forbid them."""
_SAID = re.compile(r"could not be made \((.*)\)", re.DOTALL)
"""In the words of a command that was not run: what bubblewrap said."""


def remedies(ladder: Ladder, environment: Mapping[str, str]) -> list[str]:
    """What to do to get more, the most useful first; nothing if there is nothing to get."""
    if ladder.facts.isolation == "process":
        return []
    if sys.platform != "linux":
        return ["Commands are confined on Linux only: run Placet in a Linux machine or container."]
    if find_bubblewrap(environment) is None:
        return [f"Install bubblewrap: {_install()}."]
    said = cause_of(ladder.tested[0].why)
    found: list[str] = []
    if _number(_APPARMOR) == 1:
        found.append(
            "AppArmor keeps bubblewrap from making user namespaces: give /usr/bin/bwrap a profile with "
            "`userns,` (package apparmor-profiles has one), or set "
            "kernel.apparmor_restrict_unprivileged_userns=0."
        )
    if any(_number(path) == 0 for path in _USERNS):
        found.append("User namespaces are switched off: set user.max_user_namespaces above 0 with sysctl.")
    is_refused = _REFUSED.search(said) is not None
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        found.append(
            "In a container user namespaces are mostly refused: start it with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined, or run Placet outside."
        )
    if is_refused and not found:
        found.append(
            "Whoever runs this machine has to allow user namespaces: user.max_user_namespaces above 0 with "
            "sysctl, kernel.unprivileged_userns_clone=1 where there is such, no seccomp filter against them."
        )
    if is_refused:
        found.insert(0, f"bubblewrap may not make user namespaces here; it says: {said}.")
    elif said:
        found.insert(0, f"bubblewrap does not confine here: {said}.")
    return found


def remedies_of_folder(folder: str, environment: Mapping[str, str]) -> list[str]:
    """What to do where this machine holds what is required, and for this very folder does not."""
    match unfit(folder, environment):
        case "system":
            return [
                f"{folder} is a part of the system: nothing can be confined to it. Choose another folder."
            ]
        case "home":
            return [
                f"{folder} is a whole home, or holds one: all that is to be kept from commands lies in it. "
                "Choose a folder in it."
            ]
        case _:
            return [
                f"The file system of {folder} has no id-mapped mounts, by which it would be shown to another "
                "user. Choose a folder on another one, or do not run Placet as root."
            ]


def cause_of(why: str) -> str:
    """What was found out about bubblewrap, without the words around it.

    >>> cause_of("'sh' was not run: its sandbox could not be made (No permissions). See `placet doctor`.")
    'No permissions'
    """
    quoted = _SAID.search(why)
    return (quoted[1] if quoted is not None else why).strip().rstrip(".")


def _install() -> str:
    for program, command in _INSTALL.items():
        if any(os.access(f"{folder}/{program}", os.X_OK) for folder in ("/usr/bin", "/sbin", "/bin")):
            return command if os.geteuid() == 0 else f"sudo {command}"
    return "it is the package bubblewrap of your system"


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
