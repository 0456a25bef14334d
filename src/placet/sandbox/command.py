"""One command: started, fed, read, and ended with everything that it started.

Each command runs below a keeper (`keeper.py`), a small process that also ends it when this one is killed. It
is forked from a resident one (`supervisor.py`), so that no interpreter is started for a command.
Here is the other half: what goes in and what comes out.

Keep true:
1. Nothing that a command does with its streams can block: they may be full, closed, or held open by others.
2. When `run_command` returns or raises, the command and all that it started have ended, and no descriptor,
   task or zombie stays. Only what would not end is left, and `note` says so.
3. No more than `output_bytes` of each stream is kept, however fast it comes.
4. Only a report with the token of its call counts. The token is in no place that a command can open.
"""

from __future__ import annotations

import copy
import errno
import marshal
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from placet.errors import ToolError, UsageError
from placet.sandbox.descriptors import MOST_FDS
from placet.sandbox.environment import clean_environment
from placet.sandbox.finished import EndedBy as EndedBy
from placet.sandbox.finished import Finished as Finished
from placet.sandbox.finished import ending as ending
from placet.sandbox.finished import from_report, read_report
from placet.sandbox.keeper import HELLO, REPORT, TOKEN_BYTES
from placet.sandbox.limits import Limits
from placet.sandbox.places import is_beneath
from placet.sandbox.processes import kill_below
from placet.sandbox.supervisor import supervisor
from placet.truncation import truncate, truncate_bytes, truncate_repr

if TYPE_CHECKING:
    import asyncio

    from placet.sandbox.sandbox import Sandbox
    from placet.sandbox.supervisor import Supervisor

_CHUNK = 256 * 1024
PATIENCE_S = 8.0
"""How much later than it should the keeper may report before it is ended itself."""
_URGE_S = 1.0
_UNHEARD_S = 1.0
"""How long the end of a keeper that was ended is waited for."""
_DEFAULT = Limits()


async def run_command(
    argv: Sequence[str],
    *,
    folder: str | int,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    limits: Limits = _DEFAULT,
    pass_fds: Sequence[int] = (),
    sandbox: Sandbox | None = None,
    readable: Sequence[str] = (),
    fixed: Sequence[str] = (),
) -> Finished:
    """Run a program, without a shell, and wait for its end.

    `folder` is where it runs: a path, or the descriptor of an open folder. A program with a slash in its name
    is looked for from there, any other one in the PATH of `environment`; without one it gets
    `clean_environment()`. The descriptors in `pass_fds` are open in the command under the same numbers.
    Cancelling ends the command first, with all that it started. On other systems than Linux only its process
    group is ended. With a `sandbox` it is confined as that says; how is in `Finished.facts`,
    `readable` are folders that it sees besides, and `fixed` are files of its workspace, relative to it, that
    bubblewrap shows read-only; other means do not.

    Raises:
        ToolError: the program cannot be started, or something in the call cannot be handed to a program.
        UsageError: `argv` is empty.
    """
    if not argv or isinstance(argv, str):
        raise UsageError(
            f"run_command got argv={truncate_repr(argv, 80)}. It is a list: the program, then its arguments."
        )
    given = clean_environment() if environment is None else environment
    if sandbox is None or not sandbox.confines():
        finished = await _run(_Call(argv, folder, given, limits, pass_fds), stdin)
        return finished if sandbox is None else msgspec.structs.replace(finished, facts=sandbox.facts)
    async with sandbox.entered(
        argv, folder=folder, environment=given, limits=limits, readable=readable, fixed=fixed
    ) as confined:
        handed = [*pass_fds, *confined.pass_fds]
        call = _Call(
            confined.argv,
            confined.folder,
            confined.environment,
            limits,
            handed,
            confined.confine,
            str(sandbox.workspace.folder),
        )
        call.program = argv[0]
        finished = confined.judge(await _run(call, stdin))
    failure = confined.failure()
    if failure is not None:
        raise ToolError(call.not_entered(*failure), retry=False)
    notes = [note for note in (finished.note, *confined.notes()) if note]
    return msgspec.structs.replace(finished, note="; ".join(notes))


async def _run(call: _Call, stdin: bytes) -> Finished:
    began = time.monotonic()
    for is_last in (False, True):
        try:
            call.start(stdin)
            await call.wait()
        finally:
            call.close()
        if call.has_begun or is_last:
            break
        # The resident process was killed before it could start the command. There is another by now.
        call = call.afresh()
    return call.finished(time.monotonic() - began)


class _Call:
    """A command that runs: our ends of its pipes, and what was read so far."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: str | int,
        environment: Mapping[str, str],
        limits: Limits,
        pass_fds: Sequence[int],
        confine: Mapping[str, Any] | None = None,
        workspace: str | None = None,
    ) -> None:
        self.program = argv[0]
        self.workspace = workspace
        self.limits = limits
        self.folder = folder
        self.pass_fds = tuple(pass_fds)
        self.spec: dict[str, Any] = {
            "argv": [_plain(part, "an argument") for part in argv],
            "environment": {
                _name(key): _plain(value, f"the variable {key}") for key, value in environment.items()
            },
            "folder": folder if isinstance(folder, int) else _plain(os.path.abspath(folder), "the folder"),
            "time_s": float(limits.time_s),
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes,
            "host": os.getpid(),
            "umask": _umask(),
            "pass_fds": list(self.pass_fds),
            "confine": None if confine is None else dict(confine),
        }
        self._reset()

    def _reset(self) -> None:
        import asyncio

        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        """Set when the keeper has ended, and with it all that it kept."""
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.report = bytearray()
        self._token = b""
        self._full: set[int] = set()
        """Streams on which it wrote more than it may; they are read no more."""
        self.is_given_up = False
        """Whether the keeper had to be ended."""
        self._unread: OSError | None = None
        """Why the rest of what it wrote could not be read: something else in the process closed our pipes."""
        self._open: set[int] = set()
        self._streams: dict[int, bytearray] = {}
        self._control_fd = -1
        self._supervisor: Supervisor | None = None
        self._keeper: int | None = None
        """Its number, once it has said so; before, no command has begun."""
        self._keeper_fd = -1
        """The same as a descriptor, which never stands for another process; -1 where there is none."""

    @property
    def has_begun(self) -> bool:
        """Whether anybody was there to start the command; if not, nothing of it has happened."""
        return self._keeper is not None or self.is_given_up

    def afresh(self) -> _Call:
        """The same call, to be started again."""
        made = copy.copy(self)
        made._reset()
        return made

    def start(self, stdin: bytes) -> None:
        """Have the keeper started, and begin to feed and to read.

        Raises:
            ToolError: it does not start.
        """
        spec_fd = file_with(marshal.dumps(self.spec))
        self._open.add(spec_fd)
        (input_fd, feed_fd), (stdout_fd, output_fd) = self._pipe(), self._pipe()
        stderr_fd, error_fd = self._pipe()
        self._control_fd, keeper_fd = self._control()
        self._start_keeper((input_fd, output_fd, error_fd), (spec_fd, keeper_fd))
        for number in (spec_fd, input_fd, output_fd, error_fd, keeper_fd):
            self._close(number)
        for number in (feed_fd, stdout_fd, stderr_fd, self._control_fd):
            os.set_blocking(number, False)
        self._streams = {stdout_fd: self.stdout, stderr_fd: self.stderr}
        for number in self._streams:
            self.loop.add_reader(number, self._read, number)
        self.loop.add_reader(self._control_fd, self._hear)
        self._feed(feed_fd, memoryview(stdin))

    async def wait(self) -> None:
        """Until all has ended. A cancellation ends it first."""
        import asyncio

        # The command could have stopped the keeper, to live longer.
        wake = self.loop.call_later(self.limits.time_s + 1.0, self._wake_keeper)
        self._urge = self.loop.call_later(_URGE_S, self._urge_supervisor)
        late = self.loop.call_later(self.limits.time_s + PATIENCE_S, self._give_up)
        try:
            await asyncio.wait((self.done,))
        except asyncio.CancelledError:
            late.cancel()
            late = self.loop.call_later(PATIENCE_S, self._give_up)
            self._order(b"c")
            while not self.done.done():
                # Told again while ending it: that is what is being done.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((self.done,))
            raise
        finally:
            wake.cancel()
            late.cancel()
            self._urge.cancel()

    def close(self) -> None:
        """Leave no descriptor and no zombie. If it still runs, the keeper sees us go, and ends it."""
        for number in list(self._open):
            self._close(number)
        if self._keeper_fd >= 0:
            os.close(self._keeper_fd)
            self._keeper_fd = -1

    def finished(self, duration_s: float) -> Finished:
        """What came of it.

        Raises:
            ToolError: it was never started, or nobody knows how it ended.
        """
        if not self.has_begun:
            raise ToolError(
                f"'{self.program}' was not started: the process that commands are forked from was killed, or "
                "could not open more files. Try again."
            )
        if self._unread is not None:
            raise ToolError(
                f"What '{self.program}' wrote could not be read to its end ({self._unread.strerror}): "
                "something in this process closes descriptors that are not its own.",
                unknown=True,
            )
        report = read_report(bytes(self.report), self._token)
        assert self._supervisor is not None
        if report is not None and report.kind in ("folder", "program"):
            raise ToolError(self._not_started(report.kind, report.number, report.words), retry=False)
        if report is not None and report.kind == "sandbox":
            raise ToolError(self._not_confined(report.words), retry=False)
        if report is not None and report.kind == "broken":
            raise ToolError(
                f"What watches over '{self.program}' failed ({report.words}), and the command was ended.",
                unknown=True,
            )
        return from_report(
            report,
            stdout=self._within_limit(self.stdout),
            stderr=self._within_limit(self.stderr),
            is_full=bool(self._full),
            is_given_up=self.is_given_up,
            is_silent=not self.report,
            is_orphaned=self._supervisor.has_died(),
            duration_s=duration_s,
        )

    def _start_keeper(self, streams: tuple[int, int, int], numbers: tuple[int, int]) -> None:
        given = dict(enumerate(streams)) | {number: number for number in self.pass_fds}
        if isinstance(self.folder, int):
            given[self.folder] = self.folder
        if len(given) + len(numbers) > MOST_FDS:
            raise ToolError(f"'{self.program}' got more than {MOST_FDS} open files.", retry=False)
        environment = _environment_of_keeper(self.workspace)
        try:
            self._supervisor = supervisor(environment)
            try:
                self._supervisor.fork_keeper(*numbers, given)
            except OSError:
                # It has died, or is stopped.
                self._supervisor = supervisor(environment, instead_of=self._supervisor)
                self._supervisor.fork_keeper(*numbers, given)
        except OSError as error:
            words = error.strerror or type(error).__name__
            raise ToolError(f"'{self.program}' cannot be started: {words}. Try again later.") from error

    def _feed(self, number: int, rest: memoryview) -> None:
        """Write what fits into the pipe, and come back for the rest when there is room."""
        self.loop.remove_writer(number)
        try:
            rest = rest[os.write(number, rest[:_CHUNK]) :] if rest else rest
        except BlockingIOError:
            pass
        except BrokenPipeError:
            # It does not want more, or has ended: its own affair.
            rest = rest[:0]
        if rest:
            self.loop.add_writer(number, self._feed, number, rest)
        else:
            self._close(number)

    def _read(self, number: int) -> bool:
        """Read once; whether there may be more to read now."""
        into = self._streams[number]
        try:
            data = os.read(number, _CHUNK)
        except BlockingIOError:
            return False
        into += data
        if not data:
            self._close(number)
        elif len(into) > self.limits.output_bytes:
            # Not closed: the command would hear of it before it is ended, and complain.
            self.loop.remove_reader(number)
            self._full.add(number)
            self._order(b"o")
            return False
        return bool(data)

    def _within_limit(self, data: bytearray) -> bytes:
        """What is kept of a stream. The rest of the last read shows whether a secret lies across the cut."""
        return truncate_bytes(bytes(data), self.limits.output_bytes, is_partial=True)

    def _hear(self) -> None:
        """Read the keeper's report. At its end all have ended, and what they wrote is in the pipes."""
        try:
            data = os.read(self._control_fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            # It has ended without reading its last order; or the descriptor was closed by something else in
            # this process, and it sees us go.
            data = b""
        if data:
            # More than a report is none, so not all of it need be kept.
            self.report += data if len(self.report) <= HELLO.size + REPORT.size else b""
            self._meet_keeper()
            return
        self._end()

    def _end(self) -> None:
        """Read the rest of what the command wrote. Nothing is waited for any more, whatever happens."""
        if self.done.done():
            return
        # Not closed before all is over: an order could go to whatever gets the number next.
        self.loop.remove_reader(self._control_fd)
        try:
            for stream in self._streams:
                # Not until its end: if something could not be ended, it may hold the pipe open.
                while stream in self._open - self._full and self._read(stream):
                    pass
        except OSError as error:
            self._unread = error
        finally:
            self.done.set_result(None)

    def _urge_supervisor(self) -> None:
        """Nothing was heard yet: a command of another call could have stopped the resident process."""
        if self._keeper is None and self._supervisor is not None:
            self._supervisor.wake()
            self._urge = self.loop.call_later(_URGE_S, self._urge_supervisor)

    def _meet_keeper(self) -> None:
        """Take from what was heard who keeps the command."""
        if self._keeper is not None or len(self.report) < HELLO.size:
            return
        token, pid = HELLO.unpack(self.report[: HELLO.size])
        if token == self._token:
            del self.report[: HELLO.size]
            self._keeper = pid
            with suppress(AttributeError, OSError):
                self._keeper_fd = os.pidfd_open(pid)

    def _order(self, order: bytes) -> None:
        with suppress(OSError):
            os.write(self._control_fd, order)
        self._wake_keeper()

    def _wake_keeper(self) -> None:
        if self._supervisor is not None:
            self._supervisor.wake()
        self._signal_keeper(signal.SIGCONT)

    def _signal_keeper(self, number: int) -> None:
        with suppress(OSError):
            if self._keeper_fd >= 0:
                signal.pidfd_send_signal(self._keeper_fd, number)
            elif self._keeper is not None:
                os.kill(self._keeper, number)

    def _give_up(self) -> None:
        """The keeper is later than it can be: do its work, and end it."""
        self.is_given_up = True
        # Its end is not heard where something else in this process has closed our side.
        self.loop.call_later(_UNHEARD_S, self._end)
        if self._keeper is None:
            # It was never forked, so what should have done so hangs.
            assert self._supervisor is not None
            self._supervisor.close()
            return
        kill_below(self._keeper, time.monotonic() + 1.0)
        self._signal_keeper(signal.SIGKILL)

    def _control(self) -> tuple[int, int]:
        """Our end and the keeper's end of what orders and the report go through. The token is in it."""
        import socket

        ours, theirs = socket.socketpair()
        ends = ours.detach(), theirs.detach()
        self._open.update(ends)
        self._token = os.urandom(TOKEN_BYTES)
        os.write(ends[0], self._token)
        return ends

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def _close(self, number: int) -> None:
        if number in self._open:
            self._open.remove(number)
            self.loop.remove_reader(number)
            self.loop.remove_writer(number)
            with suppress(OSError):  # Something else in this process may have closed it.
                os.close(number)

    def _not_confined(self, words: str) -> str:
        """Why its sandbox did not come to run the command: said with the report, or by bubblewrap itself."""
        last = words or self.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        text = last.removeprefix("bwrap: ")
        if text.startswith("execvp ") and text.endswith(os.strerror(errno.ENOENT)):
            return self._not_started("program", errno.ENOENT)
        if text.startswith("execvp ") and text.endswith(os.strerror(errno.EACCES)):
            return self._not_started("program", errno.EACCES)
        if text.startswith("Can't chdir"):
            return f"'{self.program}' cannot be started in its folder: {text}."
        why = truncate(text, 300) or "no reason given"
        return (
            f"'{self.program}' was not run: its sandbox could not be made ({why}). "
            "`placet doctor` tells what works on this machine."
        )

    def not_entered(self, what: str, number: int) -> str:
        """Words for a command whose way into the network, or whose program, could not be had."""
        if what == "program":
            return self._not_started(what, number)
        return f"'{self.program}' was not run: its network could not be had ({os.strerror(number)})."

    def _not_started(self, what: str, number: int, said: str = "") -> str:
        words = os.strerror(number) if number else said or "it was refused"
        if what == "folder":
            return f"'{self.program}' cannot be started in the folder {self.folder}: {words}."
        if number == errno.ENOENT:
            return f"There is no program '{self.program}'. Check its name, or name it with its whole path."
        if number == errno.EACCES:
            return f"'{self.program}' may not be run: {words}. Make it executable, or name another program."
        if number == errno.E2BIG:
            return f"'{self.program}' got more arguments than a program can take. Hand them over on stdin."
        return f"'{self.program}' cannot be started: {words}."


def _environment_of_keeper(workspace: str | None) -> dict[str, str]:
    """Nothing of the host's, but where the interpreter finds its libraries; never where commands write."""
    found: dict[str, str] = {}
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"):
        folders = os.environ.get(name, "").split(os.pathsep)
        good = [each for each in folders if os.path.isabs(each)]
        if workspace is not None:
            good = [each for each in good if not is_beneath(os.path.realpath(each), workspace)]
        if good:
            found[name] = os.pathsep.join(good)
    return found


def file_with(data: bytes) -> int:
    """The descriptor of a nameless file that holds `data`, set to its beginning.

    Not a pipe, which holds so much and no more, and not arguments, which everybody on the machine can read.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("placet-command", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            number = os.dup(file.fileno())
    with open(number, "wb", closefd=False) as file:
        file.write(data)
    if sys.platform == "linux":
        import fcntl

        # Another command could open it through /proc and change what the keeper is about to run.
        fcntl.fcntl(number, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    os.lseek(number, 0, os.SEEK_SET)
    return number


def _umask() -> int | None:
    """The permissions that new files do not get, which a command has from its host; None if unknown here.

    Asking the system for it sets it, for all threads.
    """
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
    except (OSError, ValueError, IndexError):
        pass
    return None


def _plain(text: str, what: str) -> bytes:
    """Text as the system takes it."""
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError:
        raise ToolError(
            f"{what} holds a character that cannot be handed to a program: {truncate_repr(text, 80)}.",
            retry=False,
        ) from None
    if b"\0" in data:
        raise ToolError(
            f"{what} holds a null character, which no program can be given: {truncate_repr(text, 80)}.",
            retry=False,
        )
    return data


def _name(text: str) -> bytes:
    data = _plain(text, "the name of a variable")
    if not data or b"=" in data:
        raise ToolError(f"{truncate_repr(text, 80)} cannot be the name of a variable.", retry=False)
    return data
