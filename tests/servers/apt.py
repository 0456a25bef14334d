"""Programs that tests need and Python packages do not bring, from Debian's and Ubuntu's packages."""

from __future__ import annotations

import os
import subprocess
import sys


def install(package: str, *, apt: str | None, root: bool) -> str:
    """Install with that apt-get, if there is one and we are root; what came of it, as a sentence."""
    if apt is None:
        return "There is no apt-get to install it with."
    if not root:
        return "Installing it needs root, which this is not."
    print(f"Installing {package} for the tests (apt-get install {package}) ...", file=sys.stderr, flush=True)
    calm = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
        # Another apt-get may be at work: wait for it instead of failing.
        command = [apt, "-qq", "-o", "DPkg::Lock::Timeout=300", *arguments]
        ran = subprocess.run(
            command,
            env=calm,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        # A stale package list may still do, so only the install decides.
        if ran.returncode != 0 and arguments[0] == "install":
            return f"`{' '.join(command)}` failed:\n{ran.stdout[-2000:].strip()}\n"
    return "apt-get installed it, but not where it was looked for."
