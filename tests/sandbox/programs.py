"""Programs that do not behave, each a few lines of Python, and a look at what is left of them.

Each writes the number of every process that it becomes into a file, so that a test can look for them later.
None of them goes on for ever, and none uses up the machine, should what is tested not work.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from placet.sandbox import supervisor

_BEGIN = """
import os, signal, sys, time
def note():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
def say(text):
    os.write(1, text.encode())
note()
"""

_SOURCES = {
    "hangs": "say('ready'); time.sleep(60)",
    "ignores every signal it can": """
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
say('ready'); time.sleep(60)
""",
    "cleans up": """
def end(*_):
    open(sys.argv[1] + ".cleaned", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
say('ready'); time.sleep(60)
""",
    "leaves a daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note(); say('up ')
        time.sleep(60)
    os._exit(0)
os.wait()
while len(open(sys.argv[1]).readlines()) < 2:
    time.sleep(0.005)
say('done')
""",
    "leaves a chain": """
for _ in range(8):
    if os.fork() != 0:
        break
    os.setsid(); note()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    say('ready')
time.sleep(60)
""",
    "stops": "say('ready'); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)",
    "eats memory": """
held = []
for _ in range(60):
    held.append(bytearray(os.urandom(1)) * 5_000_000); time.sleep(0.005)
time.sleep(60)
""",
    "eats memory in parts": """
for _ in range(4):
    if os.fork() == 0:
        note(); held = bytearray(b'1') * 40_000_000
        time.sleep(60)
time.sleep(60)
""",
    "shares memory": """
held = bytearray(b'1') * 60_000_000
children = []
for _ in range(4):
    children.append(os.fork())
    if not children[-1]:
        note(); time.sleep(0.3); os._exit(0)
for child in children:
    os.waitpid(child, 0)
say('done')
""",
    "forks": """
for _ in range(40):
    if os.fork() == 0:
        note(); time.sleep(60); os._exit(0)
time.sleep(60)
""",
    "closes stdin": "os.close(0); say('done')",
    "closes stdin and hangs": "os.close(0); say('ready'); time.sleep(60)",
    "kills its keeper": "say('ready'); os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)",
    "stops its keeper": """
if os.fork() == 0:
    os.setsid(); note(); time.sleep(60)
say('ready'); os.kill(os.getppid(), signal.SIGSTOP); time.sleep(60)
""",
    "keeps its keeper stopped": """
keeper = os.getppid()
if os.fork() == 0:
    os.setsid(); note()
    for _ in range(20_000):
        try:
            os.kill(keeper, signal.SIGSTOP)
        except ProcessLookupError:
            pass
        time.sleep(0.001)
time.sleep(60)
""",
    "writes wherever it can": """
import marshal
def parent(pid):
    return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
mine = {os.readlink(f'/proc/self/fd/{number}') for number in (0, 1, 2)}
for pid in (os.getppid(), parent(os.getppid())):
    for number in range(3, 128):
        path = f'/proc/{pid}/fd/{number}'
        try:
            if os.readlink(path) in mine:
                continue
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            os.write(fd, marshal.dumps({'status': 7 << 8, 'reason': None}))
        except OSError:
            continue
say('tried'); os._exit(3)
""",
    "looks into its keeper": """
for name in ('fd/0', 'environ', 'mem', 'maps'):
    try:
        path = f'/proc/{os.getppid()}/{name}'
        os.readlink(path) if name == 'fd/0' else open(path, 'rb').close()
        say(name + ' ')
    except PermissionError:
        say('- ')
""",
    "takes the socket of its keeper": """
import ctypes
library = ctypes.CDLL(None, use_errno=True)
keeper = os.pidfd_open(os.getppid())
for number in range(3, 128):
    # 438 is pidfd_getfd: the number of a descriptor of another process, made ours.
    taken = library.syscall(438, keeper, number, 0)
    if taken >= 0 and os.readlink(f'/proc/self/fd/{taken}').startswith('socket'):
        os.write(taken, b'\\0' * (244 if sys.argv[2:] else 1))
        say('written')
""",
    "asks for a lot at once": """
import mmap
try:
    held = mmap.mmap(-1, 3 * 2**29, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    say('got it')
except (OSError, MemoryError):
    say('refused')
""",
    "ends with a late child": """
read_fd, write_fd = os.pipe()
if os.fork() == 0:
    note(); os.close(write_fd); os.read(read_fd, 1)
    say('late'); os._exit(0)
say('early ')
""",
}


class Program:
    """One of them, with the file into which it writes its numbers."""

    def __init__(self, name: str, folder: Path) -> None:
        self.pids = folder / "pids"
        self.cleaned = folder / "pids.cleaned"
        self.argv = [sys.executable, "-I", "-S", "-c", _BEGIN + _SOURCES[name], str(self.pids)]

    def seen(self) -> list[int]:
        """The numbers of its processes so far."""
        if not self.pids.exists():
            return []
        return [int(line) for line in self.pids.read_text().split("\n")[:-1]]

    async def until_seen(self, count: int) -> None:
        """Until so many of its processes have begun."""
        await asyncio.to_thread(wait_until, lambda: len(self.seen()) >= count)

    def running(self) -> list[int]:
        """Those of its processes that have not ended; a zombie has."""
        return [pid for pid in self.seen() if is_running(pid)]

    async def until_gone(self) -> None:
        """Until none runs; for an end that nobody reports."""
        await asyncio.to_thread(wait_until, lambda: not self.running())

    def clear(self) -> None:
        """End what a failed test has left."""
        for pid in self.running():
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def own_descriptors() -> set[str]:
    """What this process has open, as far as it can be told apart."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            continue  # The one that lists them.
    return found


def own_children() -> set[int]:
    """The children of this process, zombies too; without those that commands are forked from, which stay."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            found.update(map(int, Path(f"/proc/self/task/{thread}/children").read_text().split()))
        except OSError:
            continue
    return found - {each.process.pid for each in supervisor._resident.values()}


def wait_until(is_so: Callable[[], object], seconds: float = 20.0) -> None:
    """Until a function says yes."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.005)
