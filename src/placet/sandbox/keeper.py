"""The process above a command: it starts it, watches it, and ends all that it started.

It runs as a process of its own, forked from a resident one (`forking.py`), so that it also does its work
when the host has been killed. It makes itself the reaper of its descendants: a process whose parent ends
becomes its child, whatever session or group it is in. When it has no child left, nothing is left.

It is forked before there is a command, and has forked what will become the command: two forks take longer
than the rest. Both wait, this one for the resident process, the other one for this.

Where the command is to be confined, the specification says how: the child joins cgroups, becomes another
user, restricts itself, or turns into bubblewrap, which is held until its limits are set.

What to run comes with a message, and with it a socket: through that come a token and orders, and one report
goes back. It is a socket because /proc lets nobody open one: the commands of a user could write into a pipe.
Without Linux's prctl and /proc only the command's process group is ended, not what has left that group.

Keep true:
1. It ends only when every descendant has, or would not (then the report counts them).
2. The command inherits none of its descriptors, signals or limits but those that were meant for it.
3. Nothing of ours can be imported there; `processes.py` is handed over with it.
4. While a command runs, the token is in this process and in the host, and in no file, argument or variable.
"""

from __future__ import annotations

# The modules `signal` and `socket` are these and some enums, which take longer to make than all the rest.
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import marshal
import os
import resource
import select
import struct
import sys
import time

if __name__ != "keeper":
    # On the bare interpreter these are there already: their modules were run in the same names before.
    from placet.sandbox.descriptors import STAGE_NUMBER, give_numbers, receive_message, send_message
    from placet.sandbox.processes import (
        descendants,
        kill_below,
        nameless,
        proportional,
        resident,
        send,
        used_in,
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

GRACE_S = 0.4
"""Between asking a command to end and ending it. Well below the second that the runtime grants a task."""
SETTLE_S = 0.2
"""What a command has started may take so long to end after it, as in `> >(tee log)`; more is left behind."""
GIVE_UP_S = 5.0
"""When to stop trying to end what does not end: it belongs to another user, or hangs inside the kernel."""
WATCH_S = 0.05
"""Between two looks at memory and processes."""

ORDERS = {b"c": "cancel", b"o": "output"}

TOKEN_BYTES = 16
"""What the host sends first and the report begins with: nobody else can make a report."""
HELLO = struct.Struct(f"!{TOKEN_BYTES}si")
"""What is sent before the command is started: the token, and the number of the process that keeps it."""
REPORT = struct.Struct(f"!{TOKEN_BYTES}s5i200s")
"""The token; an index into KINDS; a number; an index into REASONS; how many processes were left behind; how
many could not be ended; words. The number is how the command ended, as the system tells it, or an errno."""
KINDS = ("ended", "folder", "program", "broken", "sandbox")
"""It ran; its folder or program could not be had; this module has a bug, and the words name it; or it could
not be confined, and the words or what bubblewrap wrote to standard error say why."""
REASONS = ("", "time", "output", "memory", "processes", "cancel", "disk")
NONE = -1
"""The number of a command of which nobody knows how it ended."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_ROOM_BYTES = 1024**3
_READY = b"+"
"""What the process says that has not been killed before it became the command."""
_OOM_SCORE = 500


CODES: dict[str, bytes] = {}
"""The compiled code of modules of ours that some commands need, by name. Set before any command is kept."""
_modules: dict[str, dict[str, Any]] = {}


def module(name: str) -> dict[str, Any]:
    """The names of a module of ours. One that was loaded before the fork is there at once."""
    if name not in _modules:
        names: dict[str, Any] = {"__name__": name}
        exec(marshal.loads(CODES[name]), names)
        _modules[name] = names
    return _modules[name]


def wait_and_keep(message_fd: int, prctl: Any) -> NoReturn:
    """Wait for a command and run it; say who does before it begins, then write one report; exit."""
    keeper = _Keeper(prctl)
    where = socket.socket(fileno=message_fd)
    keeper.prepare()
    numbers, given = receive_message(where)
    if not numbers or len(given) != len(numbers):
        # The resident process is gone, or no more files could be opened: the host sees that nothing began.
        os._exit(1)
    where.close()
    spec_fd, control_fd, *_ = given
    token = os.read(control_fd, TOKEN_BYTES)
    os.write(control_fd, HELLO.pack(token, os.getpid()))
    try:
        keeper.take(read_specification(spec_fd), control_fd)
        del numbers[1], given[1]
        report = keeper.keep(numbers, given)
    except BaseException as error:
        # Whatever went wrong, nothing may stay: the report names the bug, and the descendants are ended.
        words = f"{type(error).__name__}: {error}".encode(errors="replace")
        report = (KINDS.index("broken"), 0, 0, 0, end_descendants(), words)
    os.write(control_fd, REPORT.pack(token, *report))
    # The host waits for this, and the memory of a process is given back before its descriptors.
    os.close(control_fd)
    os._exit(0)


def read_specification(number: int) -> dict[str, Any]:
    """What a command is to be. The file is sealed, so nothing waits, and shared, so it is not moved in."""
    spec: dict[str, Any] = marshal.loads(os.pread(number, os.fstat(number).st_size, 0))
    return spec


class _Keeper:
    def __init__(self, prctl: Any) -> None:
        self.prctl = prctl
        self.spec: dict[str, Any] = {}
        self.confine: dict[str, Any] = {}
        self.control_fd = -1
        self.parent = os.getppid()
        """The resident process. Without it nobody ends what is left if this one is killed."""
        self.child = 0
        self.status: int | None = None
        """How the command itself ended; None while it runs."""
        self.reason: str | None = None
        """Why it is being ended; None while it is not."""
        self.look_at = 0.0
        """When memory may be looked at closely again."""
        self.nameless = 0
        """Bytes in nameless files when they were last counted."""
        self.count_at = 0.0
        self.wake_fd = -1
        """Becomes readable when a child has ended, or somebody wants us to end."""
        self.problem_fd = -1
        """Through which the child tells why it cannot become the command."""
        self.status_fd = -1
        """Through which bubblewrap tells of its beginning and its end."""
        self.block_fd = -1
        """Through which it is told to go on."""
        self.said = b""
        """As far as it has told."""
        self.bubblewrap = 0
        """How many of the processes below are bubblewrap's own."""
        self.init = 0
        """The first process in the sandbox. It is bubblewrap's, and all others end with it."""
        self.disk: Any = None

    def prepare(self) -> None:
        """Do what can be done without knowing the command, and fork what will become it."""
        become_subreaper(self.prctl)
        self.wake_fd = self._listen()
        if self.prctl is not None:
            self.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        self._fork()

    def take(self, spec: dict[str, Any], control_fd: int) -> None:
        """This is the command."""
        self.spec, self.confine, self.control_fd = spec, spec["confine"] or {}, control_fd

    def keep(self, numbers: list[int], given: list[int]) -> tuple[int, int, int, int, int, bytes]:
        """The report on the command, but for the token. `given` is what it needs, by `numbers`."""
        wake_fd = self.wake_fd
        parent_fd = self._open_parent()
        if "disk" in self.confine:
            self.disk = module("disk")["DiskWatch"](*self.confine["disk"])
        failure = self._start(numbers, given)
        if failure is not None:
            what, number, words = failure
            return KINDS.index(what), number, 0, 0, end_descendants(), words
        began = time.monotonic()
        poll = select.poll()
        for source in (wake_fd, self.control_fd, parent_fd):
            if source is not None:
                poll.register(source, select.POLLIN)
        deadline = began + self.spec["time_s"]
        while True:
            self._reap()
            if self.status is not None:
                break
            now = time.monotonic()
            self.reason = self._find_reason(poll, wake_fd, parent_fd, deadline, now)
            if self.reason is not None:
                break
        if self.reason == "cancel" and os.getppid() == self.parent:
            # A command could have stopped what we are forked from. If the host is gone, nobody else wakes it.
            send(os.kill, self.parent, signal.SIGCONT)
        left_behind = 0
        if self.reason is None:
            left_behind = self._settle(wake_fd)
        elif self.reason in ("time", "cancel"):
            self._ask(wake_fd)
        not_ended = end_descendants(self.child, self._note)
        assert self.status is not None or not_ended
        status = NONE if self.status is None else self.status
        has_exited = self.status is not None and os.WIFEXITED(self.status)
        if self.bubblewrap and self.reason is None and has_exited and not self._has_run():
            # One that was killed cannot tell how far it came, and the command may well have begun.
            return KINDS.index("sandbox"), 0, 0, 0, not_ended, b""
        return 0, status, REASONS.index(self.reason or ""), left_behind, not_ended, b""

    def _listen(self) -> int:
        """A descriptor that becomes readable when a child has ended, or somebody wants us to end."""
        wake_fd, write_fd = os.pipe()
        os.set_blocking(wake_fd, False)
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _ignore)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            signal.signal(number, signal.SIG_IGN)
        # A thread of the host may have blocked what we wait for.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return wake_fd

    def _open_parent(self) -> int | None:
        """A descriptor that becomes readable when the host has ended, where the system has such a thing.

        The pipe of orders is closed then too, unless the host has forked: a copy of it may be open elsewhere.
        """
        try:
            return os.pidfd_open(self.spec["host"])
        except (AttributeError, OSError):
            return None

    def _fork(self) -> None:
        """Fork what will become the command. It waits until it hears which."""
        self._message, theirs = socket.socketpair()
        self.problem_fd, problem_fd = os.pipe()
        self.status_fd, status_fd = os.pipe()
        held_fd, self.block_fd = os.pipe()
        keeper = os.getpid()
        # If the machine runs out of memory, the command is what should go, not the host. It is set here and
        # inherited: a process that nobody may look into may not open its own score either.
        oom_fd = _open_oom_score()
        before = _raise_oom_score(oom_fd)
        self.child = os.fork()
        if not self.child:
            self._message.close()
            self._wait_and_become_command(theirs, keeper, problem_fd, [status_fd, held_fd])
        theirs.close()
        for number in (problem_fd, status_fd, held_fd):
            os.close(number)
        _set_oom_score(oom_fd, before)
        if oom_fd is not None:
            os.close(oom_fd)

    def _start(self, numbers: list[int], given: list[int]) -> tuple[str, int, bytes] | None:
        """Start the command. If it does not start: what could not be had, the errno, and words."""
        told = self._tell(numbers, given)
        if not told:
            # Another command has killed it before it could become anything.
            for number in (self.status_fd, self.block_fd):
                os.close(number)
            self._fork()
            told = self._tell(numbers, given)
        # Only the command may hold these now: whoever reads them waits for its end, not for ours.
        for number in given:
            os.close(number)
        problem = told.lstrip(_READY)
        if problem:
            os.waitpid(self.child, 0)
            what = {b"f": "folder", b"s": "sandbox"}.get(problem[:1], "program")
            return what, int.from_bytes(problem[1:5], "big"), problem[5:]
        if "bubblewrap" in self.confine:
            self.bubblewrap = 2
            self._release()
        return None

    def _tell(self, numbers: list[int], given: list[int]) -> bytes:
        """Let the child become the command; what it says on the way: _READY, and what then went wrong."""
        # Another command could have stopped it.
        send(os.kill, self.child, signal.SIGCONT)
        try:
            send_message(self._message, numbers, given)
        except OSError:
            return b""  # It is gone.
        finally:
            self._message.close()
            with open(self.problem_fd, "rb") as file:
                told = file.read()
        return told

    def _wait_and_become_command(
        self, where: socket.socket, keeper: int, problem_fd: int, pipes: list[int]
    ) -> NoReturn:
        what = "program"
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in range(1, signal.NSIG):
                # SIGKILL and SIGSTOP cannot be set, and some numbers are nobody's.
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    continue
            self._end_with(keeper)
            numbers, given = receive_message(where)
            if not numbers:
                os._exit(127)  # The keeper is gone.
            where.close()
            self.take(read_specification(given[0]), -1)
            is_staged = numbers[-1] == STAGE_NUMBER
            others = [problem_fd, *pipes, *given[len(given) - is_staged :]]
            # All but the specification, and the stage, which is among the others.
            wanted = slice(1, len(given) - is_staged)
            problem_fd, status_fd, held_fd, *stage = give_numbers(numbers[wanted], given[wanted], others)
            if "bubblewrap" in self.confine:
                self._complete_bubblewrap(status_fd, held_fd)
            what = "sandbox"
            self._confine(*stage)
            # A change of user forgets this.
            self._end_with(keeper)
            what = "program"
            if self.spec["umask"] is not None:
                os.umask(self.spec["umask"])
            for kind, most in _limits(self.spec["memory_bytes"], self.confine.get("file_bytes")):
                try:
                    resource.setrlimit(kind, (most, most))
                except (OSError, ValueError):
                    continue  # It is lower already.
            what = "folder"
            os.chdir(self.spec["folder"])
            if isinstance(self.spec["folder"], int) and self.spec["folder"] not in self.spec["pass_fds"]:
                os.set_inheritable(self.spec["folder"], False)
            what = "sandbox"
            if "landlock" in self.confine:
                own = module("landlock")
                own["restrict"](**self.confine["landlock"])
                own["filter_calls"](self.confine["seccomp"])
            what = "program"
            os.write(problem_fd, _READY)
            os.execvpe(self.spec["argv"][0], self.spec["argv"], self.spec["environment"])
        except OSError as error:
            words = str(error).encode(errors="replace")
            os.write(problem_fd, _READY + what[:1].encode() + (error.errno or 0).to_bytes(4, "big") + words)
        except BaseException as error:
            words = f"{type(error).__name__}: {error}".encode(errors="replace")
            os.write(problem_fd, _READY + what[:1].encode() + bytes(4) + words)
        os._exit(127)

    def _end_with(self, keeper: int) -> None:
        """In the child: if the keeper is killed, the command itself at least goes with it."""
        if self.prctl is not None:
            self.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(127)

    def _confine(self, stage: int | None = None) -> None:
        """In the child: join the cgroups, and stop being root."""
        for path in self.confine.get("joins", ()):
            with open(path, "wb", buffering=0) as file:
                file.write(b"0")
        if "stage" in self.confine:
            other = module("other_user")
            for number in (0, 1, 2):
                # Who opens /dev/stderr opens it anew, and may do so only as its owner.
                os.fchown(number, other["UID"], other["UID"])
            other["become"](stage=stage, **self.confine["stage"])

    def _complete_bubblewrap(self, status_fd: int, held_fd: int) -> None:
        """In the child: put what bubblewrap gets through descriptors into its arguments."""
        numbers = ["--json-status-fd", str(status_fd), "--block-fd", str(held_fd)]
        for (option, *rest), data in self.confine["bubblewrap"]:
            number = os.memfd_create("placet-sandbox", 0)
            os.write(number, data)
            os.lseek(number, 0, os.SEEK_SET)
            numbers += [option, str(number), *rest]
        for number in (status_fd, held_fd):
            os.set_inheritable(number, True)
        end = self.spec["argv"].index(b"--")
        self.spec["argv"][end:end] = [part.encode() for part in numbers]

    def _release(self) -> None:
        """Let bubblewrap go on to the command, once the limits of its first process are set."""
        while b"\n" not in self.said and (data := os.read(self.status_fd, 4096)):
            self.said += data
        found = self.said.partition(b'"child-pid":')[2].partition(b",")[0].strip()
        if found.isdigit():
            self.init = int(found)
            if self.confine.get("processes"):
                most = self.confine["processes"]
                try:
                    # Only now, in its own user namespace: outside of it all processes of the user count.
                    resource.prlimit(self.init, resource.RLIMIT_NPROC, (most, most))
                except OSError:
                    most = 0  # The watch ends what grows too many. The self-test has tried what is claimed.
        with open(self.block_fd, "wb", buffering=0) as file:
            try:
                file.write(b"1")
            except OSError:
                return  # It has ended, and how is seen soon.

    def _has_run(self) -> bool:
        """Whether bubblewrap has come as far as the command: only then does it tell how that ended."""
        while data := os.read(self.status_fd, 4096):
            self.said += data
        return b'"exit-code"' in self.said

    def _find_reason(
        self, poll: select.poll, wake_fd: int, parent_fd: int | None, deadline: float, now: float
    ) -> str | None:
        """Wait a moment; why the command has to be ended, if it has to."""
        if now >= deadline:
            return "time"
        if os.getppid() != self.parent:
            return "cancel"
        limits = (self.spec["memory_bytes"], self.spec["processes"], self.disk)
        is_watching = self.confine.get("is_watched", True) and any(limit is not None for limit in limits)
        wait_s = min(deadline - now, WATCH_S if is_watching or parent_fd is None else 3600.0)
        for number, _ in poll.poll(wait_s * 1000 + 1):
            if number == parent_fd:
                return "cancel"
            if number == self.control_fd:
                # Nothing to read: the host has closed it, or is gone.
                return ORDERS.get(os.read(number, 1), "cancel")
            if signal.SIGTERM in os.read(wake_fd, 4096):
                return "cancel"
        return self._find_excess() if is_watching else None

    def _find_excess(self) -> str | None:
        found = descendants(os.getpid())
        if self.spec["processes"] is not None and len(found) - self.bubblewrap > self.spec["processes"]:
            return "processes"
        if self.disk is not None and self.disk.exceeded(found):
            return "disk"
        limit = self.spec["memory_bytes"]
        began = time.monotonic()
        if limit is None or began < self.look_at:
            return None
        unmapped = self._unmapped(found, began)
        if sum(resident(pid) for pid in found) + unmapped <= limit:
            return None
        # Pages that several processes share were counted several times: look closely before judging. That
        # takes long where much is mapped, so not at every turn.
        used = sum(proportional(pid) for pid in found) + unmapped
        now = time.monotonic()
        self.look_at = now + 10 * (now - began)
        return "memory" if used > limit else None

    def _unmapped(self, found: list[int], now: float) -> int:
        """Memory that belongs to no process: files in memory, with a name or without."""
        if now >= self.count_at:
            self.nameless = nameless(found)
            self.count_at = now + max(5 * WATCH_S, 10 * (time.monotonic() - now))
        root = f"/proc/{self.init}/root"
        return self.nameless + sum(used_in(root + path, path) for path in self.confine.get("temporary", ()))

    def _reap(self) -> bool:
        """Take the ends of those that have ended; whether a child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._note(pid, status)

    def _note(self, pid: int, status: int) -> None:
        if pid == self.child:
            self.status = status

    def _settle(self, wake_fd: int) -> int:
        """Give what the command has started a moment to end; how many did not."""
        self._wait_for_all(wake_fd, SETTLE_S)
        return len(descendants(os.getpid()))

    def _ask(self, wake_fd: int) -> None:
        """Ask the command's group to end, and give it a moment to do so."""
        own = (self.child, self.init)
        for number in (signal.SIGTERM, signal.SIGCONT):
            # Also told to go on: a stopped process hears nothing before it does.
            if not self.bubblewrap:
                send(os.killpg, self.child, number)
                continue
            for pid in descendants(os.getpid()):
                # Not those of bubblewrap: with them all others would be gone at once.
                if pid not in own:
                    send(os.kill, pid, number)
        self._wait_for_all(wake_fd, GRACE_S)

    def _wait_for_all(self, wake_fd: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._reap() and (left_s := deadline - time.monotonic()) > 0:
            if select.select([wake_fd], [], [], left_s)[0]:
                os.read(wake_fd, 4096)


def end_descendants(child: int = 0, note: Any = None) -> int:
    """End every process below this one, and wait for its end; how many would not."""
    deadline = time.monotonic() + GIVE_UP_S
    pause_s = 0.0005
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid:
            if note is not None:
                note(pid, status)
            continue
        kill_below(os.getpid(), deadline)
        if child:
            # Where /proc cannot tell who is there.
            send(os.killpg, child, signal.SIGKILL)
        if time.monotonic() > deadline:
            return max(1, len(descendants(os.getpid())))
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.02)


def _limits(memory_bytes: int | None, file_bytes: int | None) -> list[tuple[int, int]]:
    """What the kernel itself holds a process of the command to."""
    limits = [(resource.RLIMIT_CORE, 0)]
    if memory_bytes is not None and sys.platform == "linux":
        # Only a backstop, for one that asks for a lot at once: looking at what is used finds the others.
        # The address space is not limited: some interpreters reserve far more of it than they ever use.
        limits.append((resource.RLIMIT_DATA, memory_bytes * 4 + _ROOM_BYTES))
    if file_bytes is not None:
        limits.append((resource.RLIMIT_FSIZE, file_bytes))
    return limits


def _open_oom_score() -> int | None:
    try:
        return os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _raise_oom_score(number: int | None) -> bytes:
    """Let the next child be the first to go; what the score was before."""
    try:
        before = b"" if number is None else os.read(number, 20)
        if before and int(before) < _OOM_SCORE:
            _set_oom_score(number, b"%d" % _OOM_SCORE)
    except (OSError, ValueError):
        return b""
    return before


def _set_oom_score(number: int | None, score: bytes) -> None:
    if number is not None and score:
        try:
            os.write(number, score)
        except OSError:
            return  # It protects less then, and nothing else is different.


def become_subreaper(prctl: Any) -> None:
    """Become the parent of every descendant whose own parent ends; let nobody look into this process."""
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # Nobody of this user may look into our memory or take our descriptors. The command is as it was
        # when it has become its program. Only root can still do it.
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def find_prctl() -> Any:
    """The system call `prctl`, where there is one."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return prctl


def _ignore(number: int, frame: object) -> None:
    """The wakeup descriptor has heard it."""
