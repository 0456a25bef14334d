"""The first program inside a sandbox whose command may reach some hosts.

A sandbox has a network of its own, and only its loopback is in it. This opens a door there: it listens on
127.0.0.1, hands the listening socket to the host process, names it in the variables that programs look for a
proxy in, and becomes the command. The host accepts on that socket (`proxy/`); nothing of ours stays inside.

It runs on a bare interpreter. Its own code comes through the socket that the door is handed out by
(`proxy.Proxy.entrance` starts it). What it tells there: `DOOR` with the listening socket, or what failed and
the errno. When the command has begun, the kernel closes that socket.

Keep true:
1. The command inherits nothing from here: no descriptor, no signal, and no variable but those of a proxy.
2. It imports little: whatever it imports is paid for by each command.
"""

from __future__ import annotations

# The modules `signal` and `socket` are these and some enums, which take longer to make than all the rest.
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

DOOR = b"d"
NO_DOOR = b"n"
NO_PROGRAM = b"p"
"""One of the two, then the errno in four bytes."""

EXIT_NO_DOOR = 125
EXIT_NOT_RUN = 126
EXIT_NOT_FOUND = 127

_WAITING = 1024
"""Connections that may wait until the host takes them. The kernel lowers it to what it allows."""
_NOT_THROUGH_PROXY = b"localhost,127.0.0.1,::1"
_ENOENT = 2


def main() -> NoReturn:
    """Open the door and become the command: the arguments are a descriptor, the program, its arguments."""
    control_fd = int(sys.argv[1])
    os.set_inheritable(control_fd, False)
    argv = [os.fsencode(part) for part in sys.argv[2:]]
    control = socket.socket(fileno=control_fd)
    try:
        port = _open_door(control)
    except OSError as error:
        _fail(control, NO_DOOR, error, EXIT_NO_DOOR)
    environment = _environment()
    environment.update(proxy_variables(port, environment.get(b"no_proxy", _NOT_THROUGH_PROXY)))
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):
        # The interpreter ignores these, and a program that is started inherits it.
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        _fail(control, NO_PROGRAM, error, EXIT_NOT_FOUND if error.errno == _ENOENT else EXIT_NOT_RUN)


def proxy_variables(port: int, around: bytes = _NOT_THROUGH_PROXY) -> dict[bytes, bytes]:
    """What tells programs to go through the door, in both spellings: some read only one of them."""
    url = b"http://127.0.0.1:%d" % port
    names = {b"http_proxy": url, b"https_proxy": url, b"all_proxy": url, b"no_proxy": around}
    return {**names, **{name.upper(): value for name, value in names.items()}}


def _open_door(control: socket.socket) -> int:
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    door.bind(("127.0.0.1", 0))
    door.listen(_WAITING)
    rights = door.fileno().to_bytes(4, sys.byteorder)
    control.sendmsg([DOOR], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    port: int = door.getsockname()[1]
    door.close()
    return port


def _environment() -> dict[bytes, bytes]:
    """The variables that this process was started with.

    Not `os.environb`: the interpreter adds LC_CTYPE where the locale is C, and it does so before any line of
    this runs.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return {name: value for name, sep, value in (entry.partition(b"=") for entry in entries) if sep and name}


def _fail(control: socket.socket, what: bytes, error: OSError, code: int) -> NoReturn:
    control.sendall(what + (error.errno or 0).to_bytes(4, "big"))
    os._exit(code)
