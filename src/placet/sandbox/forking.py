"""The resident process that every command of one host process comes from: it forks a keeper for each.

It runs on a bare interpreter (`supervisor.py` starts it), in the same names as `keeper.py` and
`processes.py`. A fork of it is ready to work; a new interpreter would have to be started, which takes longer
than most commands.

Through one socket comes a message for each command: which numbers its descriptors are to have, and the
descriptors themselves. Nothing is read from it by a keeper or a command, and nothing is written back.

Keep true:
1. It ends with the host. A keeper ends its command when this process has ended, or the host.
2. What a keeper that was killed has left behind becomes a child of this process, and is ended here.
3. It does nothing that could wait for a command.
"""

from __future__ import annotations

# The modules `signal` and `socket` are these and some enums, which take longer to make than all the rest.
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import fcntl
import os
import select
import struct

if __name__ != "keeper":
    # On the bare interpreter these are there already: their modules were run in the same names before.
    from placet.sandbox.keeper import CODES, MAPPINGS, become_subreaper, find_prctl, keep, module
    from placet.sandbox.processes import descendants, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

MOST_FDS = 200
"""Descriptors of one command, with its streams."""
MODULES = ("disk", "other_user", "landlock")
"""Those of ours that some commands need."""
MESSAGE = struct.Struct(f"!{MOST_FDS + 4}i")
"""Which of MODULES are needed, a bit each; user and group to whom the workspace belongs, or ANY; how many
descriptors come with it, and the number of each; 0 to 2 are the streams."""
ANY = -1
"""The number of a descriptor that may have any."""
_LOOK_S = 1.0
"""Between two looks at who our parent is, where the kernel does not tell when it ends."""


def serve(control_fd: int, host: int, codes: dict[str, bytes]) -> NoReturn:
    """Fork a keeper for each message, until the host ends. `codes` are those of MODULES."""
    CODES.update(codes)
    # The host's folder must not be held by a process that stays.
    os.chdir("/")
    os.set_inheritable(control_fd, False)
    prctl = find_prctl()
    become_subreaper(prctl)
    wake_fd, write_fd = os.pipe()
    for number in (wake_fd, write_fd):
        os.set_blocking(number, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _heard)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    # A thread of the host may have blocked what we wait for.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    own = [control_fd, wake_fd, write_fd]
    poll = select.poll()
    poll.register(control_fd, select.POLLIN)
    poll.register(wake_fd, select.POLLIN)
    try:
        host_fd = os.pidfd_open(host)
        poll.register(host_fd, select.POLLIN)
        own.append(host_fd)
    except (AttributeError, OSError):
        host_fd = -1
    control = socket.socket(fileno=control_fd)
    keepers: set[int] = set()
    while True:
        ready = {number for number, _ in poll.poll(None if host_fd >= 0 else _LOOK_S * 1000)}
        if host_fd in ready or os.getppid() != host:
            os._exit(0)
        if wake_fd in ready:
            os.read(wake_fd, 4096)
            _reap(keepers)
        if control_fd in ready:
            numbers, given = _receive(control)
            if not numbers:
                os._exit(0)
            wanted, uid, gid, count, *numbers = numbers
            numbers = numbers[:count]
            _prepare([name for k, name in enumerate(MODULES) if wanted & 1 << k], uid, gid)
            try:
                pid = os.fork()
            except OSError:
                pid = -1  # What was sent is closed, by which the host sees that nothing was started.
            if not pid:
                signal.set_wakeup_fd(-1)
                for number in own:
                    os.close(number)
                _become_keeper(numbers, given, prctl)
            for number in given:
                os.close(number)
            if pid > 0:
                keepers.add(pid)


def _receive(control: socket.socket) -> tuple[list[int], list[int]]:
    """The next message as numbers, and the descriptors. Empty at the end."""
    data, given = b"", list[int]()
    size = socket.CMSG_SPACE(MOST_FDS * 4)
    while len(data) < MESSAGE.size:
        try:
            part, besides, _, _ = control.recvmsg(MESSAGE.size - len(data), size)
        except OSError:
            part, besides = b"", []
        for _, kind, rights in besides:
            if kind == socket.SCM_RIGHTS:
                given += struct.unpack(f"{len(rights) // 4}i", rights[: len(rights) // 4 * 4])
        if not part:
            return [], given
        data += part
    return list(MESSAGE.unpack(data)), given


def _prepare(names: list[str], uid: int, gid: int) -> None:
    """Do what a keeper will need and all others after it: what is there before the fork costs it nothing."""
    try:
        for name in names:
            module(name)
        if "other_user" in names and uid != ANY and (uid, gid) not in MAPPINGS:
            MAPPINGS[uid, gid] = module("other_user")["mapping_of"](uid, gid)
    except Exception:
        return  # The keeper tries again, and can say what fails.


def _become_keeper(numbers: list[int], given: list[int], prctl: object) -> NoReturn:
    """Give the descriptors their numbers and keep the command: the first two are its specification and what
    the host is told through."""
    try:
        os.setsid()
        # All away first: a number that is wanted may be that of another one.
        moved = [_move_away(number, numbers) for number in given]
        for number in moved:
            os.set_inheritable(number, False)
        for wanted, number in zip(numbers[2:], moved[2:], strict=True):
            os.dup2(number, wanted)
            os.close(number)
        keep(moved[0], moved[1], prctl)
    finally:
        os._exit(1)


def _move_away(number: int, wanted: list[int]) -> int:
    """The same descriptor under a number that nobody wants: a low one, of which there may be few."""
    tried = []
    while number in wanted:
        tried.append(number)
        number = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    for each in tried:
        os.close(each)
    return number


def _reap(keepers: set[int]) -> None:
    """Take the ends of those that have ended, and end what a keeper has left behind that was killed."""
    is_killed = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            break
        if pid in keepers:
            keepers.discard(pid)
            is_killed = is_killed or status != 0
        else:
            is_killed = True  # One of those that were left behind: what was below it has come to us.
    if is_killed:
        for pid in set(descendants(os.getpid())).difference(keepers, *map(descendants, keepers)):
            send(os.kill, pid, signal.SIGKILL)


def _heard(number: int, frame: object) -> None:
    """The wakeup descriptor has heard it."""
