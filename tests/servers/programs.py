"""Programs that Placet, or its documentation, uses where they are there: tests must not pass because they are
not.

`python -m tests.servers.programs` makes sure that all of them are there and prints their versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.servers.apt import install

PACKAGES = {"rg": "ripgrep", "bwrap": "bubblewrap", "curl": "curl", "chromium": "chromium"}
"""The program, and the package that brings it under the same name everywhere."""


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


if __name__ == "__main__":
    for each in PACKAGES:
        ran = subprocess.run([program(each), "--version"], check=True, capture_output=True, text=True)
        print(ran.stdout.split("\n")[0])
