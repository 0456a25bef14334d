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
import marshal
import os
import select

if __name__ != "keeper":
    # On the bare interpreter these are there already: their modules were run in the same names before.
    from placet.sandbox.descriptors import STAGE_NUMBER, receive_message, send_message
    from placet.sandbox.keeper import (
        CODES,
        become_subreaper,
        find_prctl,
        module,
        read_specification,
        wait_and_keep,
    )
    from placet.sandbox.processes import descendants, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

MODULES = ("disk", "other_user", "landlock")
"""Those of ours that some commands need."""
_LOOK_S = 1.0
"""Between two looks at who our parent is, where the kernel does not tell when it ends."""
_MOST_STAGES = 16
"""Stages that are kept. The one that was used least recently goes first."""
_STAGE_S = 2.0
"""How long a stage may take to be made here. Longer, and only the keeper of that command waits for it."""


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
    stages = _Stages()
    spare: _Spare | None = None
    is_used = False
    while True:
        wait_ms = 0 if is_used and spare is None else None if host_fd >= 0 else _LOOK_S * 1000
        ready = {number for number, _ in poll.poll(wait_ms)}
        if host_fd in ready or os.getppid() != host:
            os._exit(0)
        if wake_fd in ready:
            os.read(wake_fd, 4096)
            _reap(keepers)
            if spare is not None and spare.pid not in keepers:
                spare = None
        if control_fd in ready:
            numbers, given = receive_message(control)
            if not numbers:
                os._exit(0)
            # If something fails, what was sent is closed, by which the host sees that nothing was started.
            if len(given) == len(numbers):  # Else no more files could be opened.
                stage = _prepare(read_specification(given[0])["confine"], stages)
                besides = ([STAGE_NUMBER], [stage]) if stage is not None else ([], [])
                for _ in range(2):
                    try:
                        spare = spare or _Spare(own, prctl)
                        keepers.add(spare.pid)
                        spare.hand_over([*numbers, *besides[0]], [*given, *besides[1]])
                        break
                    except OSError:
                        continue  # It was killed, or cannot be forked.
                    finally:
                        spare = None
            for number in given:
                os.close(number)
            is_used = True
        elif is_used and spare is None:
            # Nothing else is to be done: the next command finds one that is ready.
            try:
                spare = _Spare(own, prctl)
                keepers.add(spare.pid)
            except OSError:
                is_used = False


def _prepare(confine: dict[str, Any] | None, stages: _Stages) -> int | None:
    """Do what a keeper will need and all others after it: what is there before the fork costs it nothing.

    The stage that it will need, if it needs one.
    """
    if confine is None:
        return None
    try:
        for name in confine["modules"]:
            module(name)
        return stages.find(confine["stage"]) if "stage" in confine else None
    except Exception:
        return None  # The keeper tries again, and can say what fails.


class _Stages:
    """The stages of root's commands (`other_user.py`), each made once and used until something about it has
    changed: the folders themselves, which is a part of what is asked for, or any mount of the machine."""

    def __init__(self) -> None:
        self._made: dict[bytes, int] = {}
        self._mounts = select.poll()
        self._mounts_fd = -1

    def find(self, wanted: dict[str, Any]) -> int:
        """The descriptor of the stage that is `wanted`.

        Raises:
            OSError: it cannot be made.
        """
        if self._mounts_fd < 0:
            self._mounts_fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
            self._mounts.register(self._mounts_fd, select.POLLPRI)
        if self._mounts.poll(0):
            self._let_go(len(self._made))
        # In a version whose bytes depend on the values alone, not on how often each is used elsewhere.
        key = marshal.dumps(wanted, 2)
        found = self._made.pop(key, None)
        if found is None:
            self._let_go(len(self._made) + 1 - _MOST_STAGES)
            found = module("other_user")["make_stage"](**wanted, patience_s=_STAGE_S)
        self._made[key] = found
        return found

    def _let_go(self, number: int) -> None:
        for key in list(self._made)[: max(0, number)]:
            os.close(self._made.pop(key))


class _Spare:
    """A keeper that waits for its command."""

    def __init__(self, own: list[int], prctl: object) -> None:
        """Fork it. `own` are descriptors that it must not have.

        Raises:
            OSError: it cannot be forked.
        """
        self._where, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.setsid()
                signal.set_wakeup_fd(-1)
                for number in (*own, self._where.detach()):
                    os.close(number)
                wait_and_keep(theirs.detach(), prctl)
            finally:
                os._exit(1)
        theirs.close()

    def hand_over(self, numbers: list[int], given: list[int]) -> None:
        """Let it keep the command.

        Raises:
            OSError: it has ended.
        """
        # A command of before could have stopped it.
        send(os.kill, self.pid, signal.SIGCONT)
        try:
            send_message(self._where, numbers, given)
        finally:
            self._where.close()


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
