"""ripgrep, which grep asks where it is there: its tests must not pass because it is not.

`python -m tests.servers.ripgrep` makes sure that it is there and prints its version.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.servers.apt import install


class RipgrepMissing(RuntimeError):
    """There is no ripgrep here, and it could not be installed."""

    def __init__(self, because: str) -> None:
        super().__init__(
            f"There is no program rg on PATH. {because} Install it with `apt-get install ripgrep` (Debian, "
            "Ubuntu), `dnf install ripgrep` (Fedora) or `brew install ripgrep` (macOS)."
        )


def ripgrep() -> str:
    """The path of the program; installs it first where that is possible.

    Raises:
        RipgrepMissing: it is still not there.
    """
    said = ""
    if shutil.which("rg") is None:
        said = install("ripgrep", apt=shutil.which("apt-get"), root=os.geteuid() == 0)
    found = shutil.which("rg")
    if found is None:
        raise RipgrepMissing(said)
    return found


if __name__ == "__main__":
    print(
        subprocess.run([ripgrep(), "--version"], check=True, capture_output=True, text=True).stdout.split(
            "\n"
        )[0]
    )
