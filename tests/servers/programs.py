"""Programs that Placet, or its documentation, uses where they are there: tests must not pass because they are
not.

`python -m tests.servers.programs` makes sure that all of them are there and prints their versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

from tests.servers.apt import install

PACKAGES = {"rg": "ripgrep", "bwrap": "bubblewrap", "curl": "curl", "chromium": "chromium"}
"""The program, and the package that brings it under the same name everywhere."""
SHELL = "chromium-headless-shell"
"""Chromium without the windows that no test looks at, where a package has it: the same engine, for half the
time."""


class ProgramMissing(RuntimeError):
    """It is not here, and could not be installed."""

    def __init__(self, name: str, because: str) -> None:
        package = PACKAGES[name]
        super().__init__(
            f"There is no program {name} on PATH. {because} Install it with `apt-get install {package}` "
            f"(Debian, Ubuntu) or `dnf install {package}` (Fedora)."
        )


def program(name: str) -> str:
    """The path of a program; installs it first where that is possible.

    Raises:
        ProgramMissing: it is still not there.
    """
    said = ""
    if shutil.which(name) is None:
        said = install(PACKAGES[name], apt=shutil.which("apt-get"), root=os.geteuid() == 0)
    found = shutil.which(name)
    if found is None:
        raise ProgramMissing(name, said)
    return found


def chromium() -> str:
    """The path of a Chromium.

    Raises:
        ProgramMissing: there is none, and it could not be installed.
    """
    return shutil.which(SHELL) or program("chromium")


def _all() -> Iterator[str]:
    """The paths of all of them."""
    if shutil.which(SHELL) is None:
        install(SHELL, apt=shutil.which("apt-get"), root=os.geteuid() == 0)
    for name in PACKAGES:
        yield chromium() if name == "chromium" else program(name)


if __name__ == "__main__":
    for each in _all():
        ran = subprocess.run([each, "--version"], check=True, capture_output=True, text=True)
        print(ran.stdout.split("\n")[0])
