"""What a sandbox really holds on this machine: each violation is tried once, and its effect looked for.

Keep true:
1. Nothing is believed because a program or a kernel feature is there: only what was tried and did not work.
2. A test that did not come to its end proves nothing: everything is `no` then, and the reason is told.
3. Trying harms nobody: files, sockets and the process that is attacked are made for it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from placet.errors import ToolError
from placet.sandbox.command import run_command
from placet.sandbox.compiled import code_of
from placet.sandbox.isolation import PROCESS, By, Enforced, Facts, How
from placet.sandbox.limits import MIB, Limits
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.violations import attempts
from placet.sandbox.workspace import Workspace
from placet.truncation import truncate_tail

_START = (
    "import marshal, sys; names = {'__name__': 'violations'}; "
    "exec(marshal.loads(bytes.fromhex(sys.argv[1])), names); names['main']()"
)
_TOLD = {"fs_read", "pids"}
"""What only the attempt itself knows. Of the others it knows less than we: a datagram that is sent to a
loopback of its own has reached nobody."""
_PROCESSES = 4
"""The limit that is tried."""
_GREEDY = """
import os, sys
kept = []
for n in range(400):
    kept.append(bytearray(os.urandom(1 << 10) * 1024))
print("had it all")
"""
_WRITER = """
import os, time
for n in range(12):
    with open(f"large-{n}", "wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
time.sleep(3)
print("wrote it all")
"""


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What the self-test of one means found."""

    by: By
    facts: Facts
    is_whole: bool = True
    """Whether it came to its end. One that did not proves nothing, and may do so the next time."""
    why: str = ""
    """Why it cannot be used, or what it does not hold; empty if there is nothing to say."""


async def self_test(
    by: By,
    *,
    without: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Tested:
    """Try to break out of a sandbox, in every way that the facts speak of."""
    try:
        with _scene() as scene:

            def sandbox(*more: str) -> Sandbox:
                return Sandbox(
                    scene.workspace,
                    by,
                    Facts(),
                    without={*without, *more},
                    environment=environment,
                )

            # Nobody looks while it is tried: what ends it then is the kernel.
            alone, watched = sandbox("watch"), sandbox()
            held, memory, disk = await asyncio.gather(
                _try_all(scene, alone), _try_memory(watched), _try_disk(watched)
            )
            if held["pids"] == "no":
                held["pids"] = "watchdog"
    except (ToolError, OSError) as error:
        return Tested(by=by, facts=Facts(by=by), why=str(error), is_whole=False)
    enforced = Enforced(**held, memory=memory, disk=disk)
    open_ones = [name for name in PROCESS if getattr(enforced, name) == "no"]
    why = f"it does not hold {', '.join(open_ones)}" if open_ones else ""
    facts = Facts(isolation="none" if open_ones else "process", by=by, enforced=enforced)
    return Tested(by=by, facts=facts, why=why)


class _Scene(msgspec.Struct, kw_only=True):
    """Things to attack, and what they were like."""

    workspace: Workspace
    outside: Path
    before: dict[str, tuple[object, ...]]
    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    abstract: socket.socket
    abstract_name: str
    victim: asyncio.subprocess.Process | None = None


@contextmanager
def _scene() -> Iterator[_Scene]:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="placet-self-test-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # Everybody may do everything here, so that it is the sandbox that says no.
        folder.chmod(0o755)
        outside, work = folder / "outside", folder / "work"
        for made in (outside, work):
            made.mkdir()
        outside.chmod(0o777)
        (work / ".placet").mkdir()
        (work / ".placet" / "record").write_text("approved")
        for name in ("file", "named", "doomed", "secret"):
            (outside / name).write_text("as it was")
            (outside / name).chmod(0o666)
        workspace = Workspace(work)
        stack.callback(workspace.close)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(tcp.getsockname())
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(outside / "socket"))
        (outside / "socket").chmod(0o666)
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"placet-self-test-{os.urandom(8).hex()}"
        abstract.bind("\0" + name)
        for each in (unix, abstract):
            each.listen(8)
        for each in (tcp, udp, unix, abstract):
            each.setblocking(False)
        yield _Scene(
            workspace=workspace,
            outside=outside,
            before=_seen(outside),
            tcp=tcp,
            udp=udp,
            unix=unix,
            abstract=abstract,
            abstract_name=name,
        )


async def _try_all(scene: _Scene, sandbox: Sandbox) -> dict[str, How]:
    """Who stopped what. Raises ToolError when it did not come to trying."""
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", env={"SECRET": "of another process"}
    )
    try:
        arguments = [
            str(scene.outside),
            str(victim.pid),
            str(scene.tcp.getsockname()[1]),
            scene.abstract_name,
        ]
        code = code_of("placet.sandbox.violations").hex()
        # With the one that forks, one more than is allowed: a looser bound of the kernel's is not the limit.
        forks = str(_PROCESSES)
        finished = await run_command(
            [sys.executable, "-I", "-S", "-c", _START, code, *arguments, forks],
            folder=scene.workspace.fd,
            limits=Limits(time_s=20, processes=_PROCESSES),
            sandbox=sandbox,
        )
        told = finished.stdout.decode(errors="replace").split()
        if told[-1:] != ["tried"]:
            words = truncate_tail(finished.stderr.decode(errors="replace").strip(), 300)
            raise ToolError(f"the self-test broke off: {words or finished.ended_by}", retry=False)
        names = [name for name, _ in attempts("", 0, 0, "")]
        held: dict[str, How] = dict.fromkeys(names, "kernel")
        for name in {names[int(number)] for number in told[:-1]} & _TOLD:
            held[name] = "no"
        if _seen(scene.outside) != scene.before:
            held["fs_write"] = "no"
        if _was_met(scene.tcp) or _was_met(scene.udp):
            held["net"] = "no"
        if _was_met(scene.unix) or _was_met(scene.abstract):
            held["unix_sockets"] = "no"
        if victim.returncode is not None:
            held["proc_kill"] = "no"
        return held
    finally:
        if victim.returncode is None:
            victim.kill()
        await victim.wait()


async def _try_memory(sandbox: Sandbox) -> How:
    finished = await run_command(
        [sys.executable, "-I", "-S", "-c", _GREEDY],
        folder=sandbox.workspace.fd,
        limits=Limits(time_s=20, memory_bytes=96 * MIB),
        sandbox=sandbox,
    )
    if finished.ended_by != "memory":
        return "no"
    return "kernel" if finished.facts.enforced.memory == "kernel" else "watchdog"


async def _try_disk(sandbox: Sandbox) -> How:
    finished = await run_command(
        [sys.executable, "-I", "-S", "-c", _WRITER],
        folder=sandbox.workspace.fd,
        limits=Limits(time_s=20, disk_bytes=4 * MIB),
        sandbox=sandbox,
    )
    return "watchdog" if finished.ended_by == "disk" else "no"


def _seen(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything that a change to the folder would change."""
    found: dict[str, tuple[object, ...]] = {}
    for entry in sorted(folder.iterdir()):
        status = entry.lstat()
        text = entry.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[entry.name] = (status.st_mode, status.st_mtime_ns, status.st_ino, text)
    return found


def _was_met(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(16)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
