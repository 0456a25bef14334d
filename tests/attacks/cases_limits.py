"""Attempts to use up the machine. Each is bounded in itself: nothing bad happens where nothing holds it.

What is over a limit is held for a second before it counts: a watch looks only now and then.
"""

from __future__ import annotations

from placet.sandbox.limits import MIB, Limits
from tests.attacks.case import Batch

LIMITS = Batch("limits")
_SHORT = Limits(time_s=1, output_bytes=1 * MIB, memory_bytes=128 * MIB, processes=40, disk_bytes=16 * MIB)
_NARROW = Limits(time_s=10, output_bytes=1 * MIB, memory_bytes=64 * MIB, processes=40, disk_bytes=16 * MIB)
"""So that there is less to fill."""
_ROOMY = Limits(time_s=10, output_bytes=1 * MIB, memory_bytes=512 * MIB, processes=40, disk_bytes=16 * MIB)
"""So that what fills memory and is counted as disk is not ended for the memory first."""

# Processes

LIMITS.python(
    "many children",
    "pids",
    """
for _ in range(60):
    if os.fork() == 0:
        time.sleep(3)
        os._exit(0)
hold()
reached("60 processes")
""",
    bare=False,
)
LIMITS.python(
    "children of children",
    "pids",
    """
one, two = os.pipe()
os.set_inheritable(two, True)
for _ in range(6):
    os.fork()
os.write(two, b"x")
if os.getpid() != os.getsid(0):
    time.sleep(3)
hold()
"""
    + """
# Its own forks may all have worked while those of its children did not: only who came through counts.
if len(os.read(one, 1000)) >= 64:
    reached("64 processes")
""",
    bare=False,
)
LIMITS.python(
    "sessions of their own",
    "pids",
    """
for _ in range(60):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3)
        os._exit(0)
hold()
reached("60 sessions")
""",
    bare=False,
)
LIMITS.python(
    "many threads",
    "pids",
    """
import threading
threading.stack_size(65536)
made = 0
for _ in range(600):
    try:
        threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
        made += 1
    except RuntimeError:
        break
hold()
if made > 450:
    reached(f"{made} threads")
os._exit(0)
""",
    by_kernel=True,
)

# Memory

_TOUCH = """
def touch(room):
    # A page is there once it is written to.
    room[::4096] = b"x" * (len(room) // 4096)
    return room
"""
LIMITS.python(
    "memory of one process",
    "memory",
    _TOUCH
    + """
kept = [touch(bytearray(5 << 20)) for _ in range(30)]
hold()
reached("150 MiB")
""",
    limits=_NARROW,
    bare=False,
)
LIMITS.python(
    "memory of several",
    "memory",
    _TOUCH
    + """
import select
ready, told = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        kept = touch(bytearray(25 << 20))
        os.write(told, b"x")
        time.sleep(5)
        os._exit(0)
had = 0
def are_there():
    return os.waitpid(-1, os.WNOHANG) == (0, 0)
while had < 6 and are_there():
    if select.select([ready], [], [], 0.02)[0]:
        had += len(os.read(ready, 6))
if had == 6:
    hold()
    if are_there():
        reached("150 MiB together")
""",
    limits=_NARROW,
    bare=False,
)
LIMITS.python(
    "memory in files without a name",
    "memory",
    """
for number in range(15):
    made = os.memfd_create("room")
    for _ in range(10):
        os.write(made, os.urandom(1024) * 1024)
hold()
reached("150 MiB in files of memory")
""",
    limits=_NARROW,
    bare=False,
)
LIMITS.python(
    "memory that is shared",
    "memory",
    _TOUCH
    + """
import mmap
kept = touch(mmap.mmap(-1, 150 << 20))
hold()
reached("150 MiB shared")
""",
    limits=_NARROW,
    bare=False,
)
LIMITS.python(
    "memory in segments",
    "memory",
    """
libc.shmat.restype = ctypes.c_void_p
kept = []
try:
    for _ in range(15):
        number = libc.shmget(0, 10 << 20, 0o1600)
        if number < 0:
            break
        kept.append(number)
        at = libc.shmat(number, None, 0)
        ctypes.memset(at, 1, 10 << 20)
        libc.shmdt(ctypes.c_void_p(at))
    hold()
    if len(kept) == 15:
        reached("150 MiB in segments that nobody has mapped")
finally:
    for number in kept:
        libc.shmctl(number, 0, None)
""",
    limits=_NARROW,
)

# Disk

_FILL = """
def fill(folder, count=40):
    for number in range(count):
        path = os.path.join(folder, f"{E['MARK']}-{number}")
        with open(path, "wb") as file:
            file.write(os.urandom(1 << 10) * 1024)
        if path not in made:
            made.append(path)
made = []
def done(what):
    hold()
    for folder in {os.path.dirname(path) for path in made}:
        if sum(os.stat(path).st_size for path in made if path.startswith(folder)) > 24 << 20:
            reached(what)
    for path in made:
        os.unlink(path)
    os._exit(0)
"""
LIMITS.python(
    "one large file",
    "disk",
    """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("large", "wb", 0) as file:
    for _ in range(40):
        file.write(os.urandom(1 << 10) * 1024)
hold()
reached("a file of 40 MiB")
""",
)
LIMITS.python("many files", "disk", _FILL + 'attempt(fill, WORK); done("40 MiB in files")')
LIMITS.python(
    "many folders deep",
    "disk",
    _FILL
    + 'os.makedirs("a/b/c/d/e"); os.makedirs("f/g"); fill("a/b/c/d/e", 28); fill("f/g", 28); done("56 MiB")',
)
LIMITS.python(
    "files that are removed and open",
    "disk",
    """
kept = []
for number in range(40):
    file = open(f"gone-{number}", "wb", 0)
    os.unlink(f"gone-{number}")
    file.write(os.urandom(1 << 10) * 1024)
    kept.append(file)
hold()
reached("40 MiB without names")
""",
)
LIMITS.python(
    "room that is set aside",
    "disk",
    """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for number in range(4):
    with open(f"aside-{number}", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 10 << 20)
hold()
reached("40 MiB set aside")
""",
)
LIMITS.python(
    "temporary folder",
    "disk",
    _FILL
    + 'for folder in ("/tmp", "/var/tmp", E.get("TMPDIR", "/tmp")): attempt(fill, folder)\ndone("temporary")',
    limits=_ROOMY,
)
LIMITS.python("shared memory filled", "disk", _FILL + 'attempt(fill, "/dev/shm"); done("shm")', limits=_ROOMY)
LIMITS.python(
    "home filled", "disk", _FILL + 'attempt(fill, E["HOME"]); done("home")', limits=_ROOMY, bare=False
)
LIMITS.python("run filled", "disk", _FILL + 'attempt(fill, "/run"); done("run")', limits=_ROOMY, bare=False)
LIMITS.python(
    "devices filled", "disk", _FILL + 'attempt(fill, "/dev"); done("dev")', limits=_ROOMY, bare=False
)
LIMITS.python(
    "any folder filled",
    "disk",
    _FILL
    + """
for folder, folders, _ in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys", WORK)]
    if folder.count("/") > 3:
        folders.clear()
    known = {"/tmp", "/var/tmp", "/dev/shm", E["HOME"], "/run", "/dev"}
    if os.access(folder, os.W_OK) and folder not in known and not folder.startswith(("/tmp/", WORK)):
        attempt(fill, folder)
done("somewhere")
""",
    limits=_ROOMY,
    bare=False,
)

# Output and time

LIMITS.sh("output without end", "always", "yes secret | head -c 60000000")
LIMITS.sh("complaints without end", "always", "yes secret | head -c 60000000 >&2")
LIMITS.sh("output from many", "always", "for i in 1 2 3 4 5 6; do yes $i | head -c 9000000 & done; wait")
LIMITS.sh(
    "time",
    "always",
    "i=0; while [ $i -lt 30 ]; do sleep 0.1; i=$((i + 1)); done; echo late > reached",
    limits=_SHORT,
)
LIMITS.python(
    "time of a process that hears nothing",
    "always",
    """
for number in range(1, 32):
    attempt(signal.signal, number, signal.SIG_IGN)
hold(3)
reached("late")
""",
    limits=_SHORT,
)
LIMITS.sh("time of what is left", "always", "(sleep 2; echo late > reached) & exit 0")
