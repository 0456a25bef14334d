"""The host's end of the resident process from which its commands are forked (`forking.py`).

There is one for each host process, whatever runtimes and threads it has. It is started with the first command
and ends with the host.

Keep true:
1. A process that came out of a fork of the host has a resident process of its own.
2. If the resident process has died, the next command starts another.
"""

from __future__ import annotations

import array
import atexit
import errno
import marshal
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from placet.errors import ToolError
from placet.sandbox.compiled import INTERPRETER, code_of
from placet.sandbox.descriptors import ANY, pack
from placet.sandbox.forking import MODULES

if TYPE_CHECKING:
    import subprocess

_START = (
    "import marshal, sys; file = open(int(sys.argv[1]), 'rb'); names = {'__name__': 'keeper'}; "
    "[exec(marshal.load(file), names) for _ in range(4)]; codes = marshal.load(file); file.close(); "
    "names['serve'](int(sys.argv[2]), int(sys.argv[3]), codes)"
)
"""It gets its code compiled: reading and compiling the files would take longer than the rest."""
_WAIT_S = 5.0
"""How long a message may take to be sent before the resident process is given up."""
_FULL = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)


class Supervisor:
    """A resident process that forks a keeper for each command."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            OSError: it does not start.
        """
        import subprocess

        from placet.sandbox.command import file_with

        self.host = os.getpid()
        ours, theirs = socket.socketpair()
        codes = [
            code_of(f"placet.sandbox.{name}") for name in ("processes", "descriptors", "keeper", "forking")
        ]
        some = {name: code_of(f"placet.sandbox.{name}") for name in MODULES}
        code_fd = file_with(b"".join(codes) + marshal.dumps(some))
        numbers = (code_fd, theirs.fileno())
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [INTERPRETER, "-I", "-S", "-c", _START, *map(str, numbers), str(self.host)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=numbers,
                env=dict(environment),
                # Not in our group, where a signal from the terminal would reach it.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(code_fd)
        ours.setblocking(False)
        self._socket = ours
        self._inode = os.fstat(ours.fileno()).st_ino
        self._lock = threading.Lock()

    def fork_keeper(
        self,
        spec_fd: int,
        control_fd: int,
        given: Mapping[int, int],
    ) -> None:
        """Let it start a command: `given` are descriptors by the numbers that they are to have there.

        Raises:
            OSError: it does not answer any more.
        """
        numbers = [ANY, ANY, *given]
        handed = [spec_fd, control_fd, *given.values()]
        message = pack(numbers)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handed))]
        until = time.monotonic() + _WAIT_S
        with self._lock:
            while True:
                if not self._is_open():
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                try:
                    self._socket.sendmsg([message], rights)
                    return
                except OSError as error:
                    if error.errno not in _FULL or time.monotonic() > until:
                        raise
                    # Many commands at once: it is forking.
                    time.sleep(0.001)

    def wake(self) -> None:
        """Let it run, if a command has stopped it."""
        self.process.send_signal(signal.SIGCONT)

    def has_died(self) -> bool:
        """Whether it has ended, by itself or by us."""
        return self.process.poll() is not None

    def close(self) -> None:
        """End it, and with it all commands that still run. In a fork of the host: only let go of it."""
        if self._is_open():
            self._socket.close()
        else:
            self._socket.detach()
        if os.getpid() == self.host:
            with suppress(OSError):
                self.process.kill()
            with suppress(OSError):
                self.process.wait()
        else:
            self.process.returncode = 0  # Not our child, so nothing is left to wait for.

    def _is_open(self) -> bool:
        """Whether the descriptor is still ours: a host may close numbers that it knows nothing about."""
        try:
            return os.fstat(self._socket.fileno()).st_ino == self._inode
        except OSError:
            return False


_lock = threading.Lock()
_resident: dict[tuple[tuple[str, str], ...], Supervisor] = {}
"""By what is in their environment, which depends on the workspace."""


def supervisor(environment: Mapping[str, str], *, instead_of: Supervisor | None = None) -> Supervisor:
    """The resident process of this host; a new one where it has died, or is `instead_of`.

    Raises:
        OSError: it does not start.
        ToolError: nobody knows the program that it would run on.
    """
    if not INTERPRETER:
        raise ToolError(
            "Commands cannot be run: this process does not know its own Python program (sys.executable is "
            "empty), and commands are run below one.",
            retry=False,
        )
    key = tuple(sorted(environment.items()))
    with _lock:
        found = _resident.get(key)
        if found is not None and found.host != os.getpid():
            # This process was forked: they belong to the process that we were.
            _close_all()
            found = None
        if found is not None and (found is instead_of or found.has_died()):
            found.close()
            found = None
        if found is None:
            found = _resident[key] = Supervisor(environment)
        return found


def _close_all() -> None:
    for each in _resident.values():
        each.close()
    _resident.clear()


def _forget_lock() -> None:
    # A thread of the parent may have held it when this process was forked.
    global _lock
    _lock = threading.Lock()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_lock)
