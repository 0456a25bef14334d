"""How to get more isolation on this machine: what is missing, in the words of what to do about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from assent.sandbox.sandbox import find_bubblewrap

if TYPE_CHECKING:
    from assent.sandbox.ladder import Ladder

_INSTALL = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "pacman": "pacman -S bubblewrap",
    "apk": "apk add bubblewrap",
    "zypper": "zypper install bubblewrap",
}
_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_USERNS = ("/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone")


def remedies(ladder: Ladder, environment: Mapping[str, str]) -> list[str]:
    """What to do to get more, the most useful first; nothing if there is nothing to get."""
    if ladder.facts.isolation == "process":
        return []
    if sys.platform != "linux":
        return ["Commands are confined on Linux only: run Assent in a Linux machine or container."]
    if find_bubblewrap(environment) is None:
        return [f"Install bubblewrap: {_install()}."]
    first = ladder.tested[0]
    found: list[str] = []
    if _number(_APPARMOR) == 1:
        found.append(
            "AppArmor keeps bubblewrap from making user namespaces: give /usr/bin/bwrap a profile with "
            "`userns,` (package apparmor-profiles has one), or set "
            "kernel.apparmor_restrict_unprivileged_userns=0."
        )
    if any(_number(path) == 0 for path in _USERNS):
        found.append("User namespaces are switched off: set user.max_user_namespaces above 0 with sysctl.")
    if first.why:
        found.append(f"bubblewrap does not confine here: {first.why.rstrip('.')}.")
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        found.append(
            "In a container user namespaces are mostly refused: start it with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined, or run Assent outside."
        )
    return found


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
