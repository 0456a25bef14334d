"""The filter of calls: what each group keeps from happening, and that ordinary programs do not notice it.

Each attempt is made three times, in a process of its own each time: under the whole filter, under the filter
without its group, and with no filter. It counts by its effect, which the attempt looks at itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.errors import UsageError
from placet.sandbox import landlock
from placet.sandbox.seccomp import (
    ARCH,
    ENOSYS,
    GROUPS,
    LAST,
    NUMBERS,
    UNSHARED,
    Check,
    Group,
    is_known_machine,
    program,
)

linux = pytest.mark.skipif(
    not is_known_machine() or sys.platform != "linux", reason="there is no filter for it"
)

MACHINES = list(ARCH)
KILL, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000


# What the filter says, read by an interpreter of our own.


def steps_of(code: bytes) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("<HBBI", code))


def verdict(code: bytes, arch: int, number: int, arguments: tuple[int, ...]) -> int:
    data = struct.pack("<iIQ6Q", number - (number >> 31 << 32), arch, 0, *arguments)
    steps = steps_of(code)
    at = value = 0
    while True:
        what, if_true, if_false, operand = steps[at]
        at += 1
        match what:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                value &= operand
            case 0x15:
                at += if_true if value == operand else if_false
            case 0x25:
                at += if_true if value > operand else if_false
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"no such step: {what:#x}")


def reading(
    machine: str, arch: int, number: int, arguments: tuple[int, ...], groups: Mapping[str, Group]
) -> int:
    """What the tables say, in the plainest way."""
    if arch != ARCH[machine]:
        return KILL
    if number > LAST:
        return REFUSE | ENOSYS
    for group in groups.values():
        for rule in group.rules:
            numbers = [NUMBERS[call][MACHINES.index(machine)] for call in rule.calls]
            if number in numbers and all(holds(check, arguments) for check in rule.checks):
                return REFUSE | rule.answer
    return ALLOW


def holds(check: Check, arguments: tuple[int, ...]) -> bool:
    half = arguments[check.argument] >> 32 if check.is_upper else arguments[check.argument] % 2**32
    return any(half & check.mask == value for value in check.values) is check.is_among


INTERESTING = sorted(
    {0, 1, 2, 10, 15, 16, 40, 0o644, 0o4755, 0o2755, 0o1777, 0o100, 0o101, 0o20200000, 0x5401, 0x5412, 0x541C}
    | {
        0x5423,
        0x11,
        0x80,
        0x1200011,
        0x10000000,
        0x20000,
        0x7E020000,
        0x80001,
        0x80002,
        3,
        5,
        2**31,
        2**32 - 1,
    }
)
an_argument = st.one_of(
    st.sampled_from(INTERESTING),
    st.sampled_from(INTERESTING).map(lambda value: value | 1 << 32),
    st.integers(0, 2**64 - 1),
)
a_number = st.one_of(
    st.sampled_from(sorted({number for pair in NUMBERS.values() for number in pair if number is not None})),
    st.integers(0, LAST + 5),
    st.integers(0, LAST).map(lambda number: number | 0x40000000),
    st.integers(0, 2**32 - 1),
)
an_arch = st.one_of(st.sampled_from([*ARCH.values(), 0x40000003, 0x40000028]), st.integers(0, 2**32 - 1))


@given(
    machine=st.sampled_from(MACHINES),
    own=st.booleans(),
    arch=an_arch,
    number=a_number,
    arguments=st.tuples(*[an_argument] * 6),
    unshared=st.booleans(),
    without=st.sets(st.sampled_from([*GROUPS, *UNSHARED]), max_size=3),
)
@example("x86_64", False, 0x40000003, 11, (0,) * 6, False, set())
@example("x86_64", True, 0, 2**32 - 1, (0,) * 6, False, set())
@example("x86_64", True, 0, 512 + 9, (0,) * 6, False, set())
@example("aarch64", True, 0, 199, (1, 0x80003, 0, 0, 0, 0), True, set())
def test_filter_says_what_the_tables_say(
    machine: str,
    own: bool,
    arch: int,
    number: int,
    arguments: tuple[int, ...],
    unshared: bool,
    without: set[str],
) -> None:
    groups = {
        name: group
        for name, group in (GROUPS | UNSHARED if unshared else GROUPS).items()
        if name not in without
    }
    arch = ARCH[machine] if own else arch

    code = program(without=without, unshared=unshared, machine=machine)

    assert verdict(code, arch, number, arguments) == reading(machine, arch, number, arguments, groups)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("unshared", [False, True])
def test_every_jump_stays_inside_and_the_end_is_an_answer(machine: str, unshared: bool) -> None:
    steps = steps_of(program(unshared=unshared, machine=machine))

    for at, (what, if_true, if_false, _) in enumerate(steps):
        assert at + 1 + max(if_true, if_false) < len(steps) or what == 0x06
    assert steps[-1] == (0x06, 0, 0, ALLOW)
    assert len(steps) < 4096


@pytest.mark.parametrize(
    ("header", "column"),
    [("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0), ("/usr/include/asm-generic/unistd.h", 1)],
)
def test_numbers_are_those_of_the_kernel(header: str, column: int) -> None:
    """The generic table is that of aarch64. Some calls are newer than the header."""
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    text = Path(header).read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", text)}
    newest = max(known.values())

    for name, numbers in NUMBERS.items():
        number = numbers[column]
        if number is None or number <= newest:
            assert known.get(name) == number, name
        else:
            assert numbers == (number, number), name


def test_every_rule_is_about_a_call_with_a_number() -> None:
    named = {call for group in (GROUPS | UNSHARED).values() for rule in group.rules for call in rule.calls}

    assert named == set(NUMBERS)


def test_unknown_names_are_a_mistake() -> None:
    with pytest.raises(UsageError, match=r"'spelling'.*setuid"):
        program(without={"spelling"})
    with pytest.raises(UsageError, match=r"'sparc64'.*x86_64"):
        program(machine="sparc64")


# What the kernel does.

RUNNER = r"""
import ctypes, errno, fcntl, json, os, resource, select, signal, socket
import stat, struct, subprocess, sys, termios, tty
folder, landlock_path, numbers, filter_ = sys.argv[1:5]
NUMBERS = json.loads(numbers)
landlock = {"__name__": "landlock"}
exec(compile(open(landlock_path).read(), "landlock", "exec"), landlock)
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
IS_ROOT = os.geteuid() == 0
NEWNS, NEWUTS, NEWUSER = 0x20000, 0x4000000, 0x10000000
os.umask(0)

def call(name, *arguments):
    number = name if isinstance(name, int) else NUMBERS[name]
    if number is None:
        raise OSError(errno.ENOSYS, name)
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result

def bits(name="f"):
    return bool(os.stat(name).st_mode & 0o6000)

def root_of_its_own():
    call("unshare", (0 if IS_ROOT else NEWUSER) | NEWNS | NEWUTS)
    call("mount", None, b"/", None, 0x44000, None)

attempts = {}
def attempt(function):
    attempts[function.__name__] = function

def main():
    found = {}
    for name, function in attempts.items():
        read_fd, write_fd = os.pipe()
        child = os.fork()
        if not child:
            os.mkdir(os.path.join(folder, name))
            os.chdir(os.path.join(folder, name))
            try:
                steps = function()
                next(steps)
                if filter_:
                    landlock["filter_calls"](bytes.fromhex(filter_))
                result = "did" if next(steps) else "nothing"
            except OSError as error:
                result = errno.errorcode[error.errno]
            except BaseException as error:
                result = repr(error)
            steps.close()
            os.write(write_fd, result.encode())
            os._exit(0)
        os.close(write_fd)
        found[name] = os.read(read_fd, 400).decode()
        os.close(read_fd)
        os.waitpid(child, 0)
    print(json.dumps(found))
"""

ATTEMPTS = {
    "setuid": r"""
@attempt
def chmod():
    open("f", "w").close(); yield
    os.chmod("f", 0o4755); yield bits()
@attempt
def chmod_of_the_group():
    open("f", "w").close(); yield
    os.chmod("f", 0o2755); yield bits()
@attempt
def fchmod():
    f = open("f", "w"); yield
    os.fchmod(f.fileno(), 0o4755); yield bits()
@attempt
def fchmodat():
    open("f", "w").close(); here = os.open(".", os.O_RDONLY); yield
    call("fchmodat", here, b"f", 0o6755); yield bits()
@attempt
def fchmodat2():
    open("f", "w").close(); here = os.open(".", os.O_RDONLY); yield
    call("fchmodat2", here, b"f", 0o4755, 0); yield bits()
@attempt
def openat():
    yield
    os.open("f", os.O_CREAT | os.O_WRONLY, 0o4755); yield bits()
@attempt
def open_():
    yield
    if NUMBERS["open"]: call("open", b"f", 0o101, 0o4755)
    else: call("openat", -100, b"f", 0o101, 0o4755)
    yield bits()
@attempt
def creat():
    yield
    if NUMBERS["creat"]: call("creat", b"f", 0o4755)
    else: os.open("f", os.O_CREAT | os.O_WRONLY, 0o4755)
    yield bits()
@attempt
def file_without_a_name():
    yield
    f = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o4755)
    libc.linkat(-100, b"/proc/self/fd/%d" % f, -100, b"f", 0x400); yield bits()
@attempt
def openat2():
    yield
    call("openat2", -100, b"f", struct.pack("=3Q", 0o101, 0o4755, 0), 24); yield bits()
@attempt
def mknod():
    yield
    os.mknod("f", stat.S_IFREG | 0o4755); yield bits()
@attempt
def mknodat():
    here = os.open(".", os.O_RDONLY); yield
    os.mknod("f", stat.S_IFREG | 0o4755, dir_fd=here); yield bits()
@attempt
def upper_half_is_not_looked_at():
    open("f", "w").close(); yield
    call("fchmodat", -100, b"f", 0o4755 | 7 << 32); yield bits()
""",
    "keys": r"""
def key():
    call("keyctl", 1, None)
    return call("add_key", b"user", b"placet-test", b"secret", 6, -3)
@attempt
def read():
    number = key(); yield
    room = ctypes.create_string_buffer(20)
    call("keyctl", 11, number, room, 20); yield room.value == b"secret"
@attempt
def find():
    number = key(); yield
    yield call("request_key", b"user", b"placet-test", None, 0) == number
@attempt
def add():
    key(); yield
    yield call("add_key", b"user", b"placet-test-2", b"x", 1, -3) > 0
""",
    "families": r"""
def make(family, kind, protocol=0):
    def function():
        yield
        socket.socket(family, kind, protocol).close()
        yield True
    function.__name__ = f"{family} {kind:d} {protocol}"
    attempt(function)
for family in {*range(46)} - {1, 2, 10, 16}:
    make(family, socket.SOCK_STREAM); make(family, socket.SOCK_RAW)
for protocol in range(1, 23):
    make(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
""",
    "namespaces": r"""
@attempt
def unshare():
    yield
    before = os.readlink("/proc/self/ns/uts")
    call("unshare", NEWUTS | (0 if IS_ROOT else NEWUSER))
    yield os.readlink("/proc/self/ns/uts") != before
def in_child(pid):
    if not pid: os._exit(0)
    os.waitpid(pid, 0)
    return True
@attempt
def clone():
    yield
    yield in_child(call("clone", NEWUTS | (0 if IS_ROOT else NEWUSER) | signal.SIGCHLD, 0, 0, 0, 0))
@attempt
def clone3():
    yield
    what = struct.pack("=8Q", NEWUTS | (0 if IS_ROOT else NEWUSER), 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    yield in_child(call("clone3", what, 64))
@attempt
def setns():
    root_of_its_own(); number = os.open("/proc/self/ns/uts", os.O_RDONLY); yield
    call("setns", number, 0); yield True
@attempt
def mount():
    root_of_its_own(); open("f", "w").close(); yield
    call("mount", b"t", b".", b"tmpfs", 0, b"size=100g"); yield os.listdir(os.getcwd()) == []
@attempt
def umount2():
    root_of_its_own(); call("mount", b"t", b".", b"tmpfs", 0, None)
    here = os.getcwd(); open(here + "/over", "w").close(); yield
    call("umount2", here.encode(), 2); yield not os.path.exists(here + "/over")
@attempt
def chroot():
    root_of_its_own(); open("f", "w").close(); yield
    call("chroot", b"."); yield os.path.exists("/f")
@attempt
def open_tree():
    root_of_its_own(); yield
    yield call("open_tree", -100, b".", 1) >= 0
@attempt
def fsopen():
    root_of_its_own(); yield
    yield call("fsopen", b"tmpfs", 0) >= 0
@attempt
def mount_setattr():
    root_of_its_own(); call("mount", b"t", b".", b"tmpfs", 0, None); os.chdir(os.getcwd()); yield
    call("mount_setattr", -100, b".", 0, struct.pack("=4Q", 1, 0, 0, 0), 32)
    try: open("f", "w"); yield False
    except OSError as error: yield error.errno == errno.EROFS
""",
    "kernel": r"""
@attempt
def io_uring():
    yield
    yield call("io_uring_setup", 1, ctypes.create_string_buffer(120)) >= 0
@attempt
def userfaultfd():
    yield
    yield call("userfaultfd", 1) >= 0
@attempt
def fanotify():
    yield
    yield call("fanotify_init", 0x200, 0) >= 0
@attempt
def log_of_the_kernel():
    yield
    yield call("syslog", 3, ctypes.create_string_buffer(4096), 4096) > 0
@attempt
def perf():
    yield
    yield call("perf_event_open", struct.pack("=IIQQQQQ64x", 1, 112, 1, 0, 0, 0, 0x61), 0, -1, -1, 0) >= 0
@attempt
def segments():
    yield
    yield call("modify_ldt", 0, ctypes.create_string_buffer(64), 64) >= 0
""",
    "terminal": r"""
def terminal():
    person, command = os.openpty()
    os.setsid(); fcntl.ioctl(command, termios.TIOCSCTTY, 0); tty.setraw(command)
    return command
def typed(command):
    return bool(select.select([command], [], [], 0)[0]) and os.read(command, 9) == b"x"
@attempt
def typing():
    command = terminal(); yield
    call("ioctl", command, 0x5412, b"x"); yield typed(command)
@attempt
def typing_with_the_upper_half_set():
    command = terminal(); yield
    call("ioctl", command, 0x5412 | 1 << 32, b"x"); yield typed(command)
@attempt
def another_discipline():
    command = terminal(); yield
    call("ioctl", command, 0x5423, struct.pack("=i", 0)); yield True
""",
    "internet": r"""
def server(kind):
    found = socket.socket(socket.AF_INET, kind); found.bind(("127.0.0.1", 0)); found.settimeout(5)
    if kind == socket.SOCK_STREAM: found.listen()
    return found
@attempt
def tcp():
    here = server(socket.SOCK_STREAM); yield
    with socket.create_connection(here.getsockname()): here.accept(); yield True
@attempt
def udp():
    here = server(socket.SOCK_DGRAM); yield
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", here.getsockname())
    yield here.recv(1) == b"x"
@attempt
def ipv6():
    yield
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); yield True
""",
    "unix": r"""
def server(kind, name="s"):
    found = socket.socket(socket.AF_UNIX, kind); found.bind(name); found.settimeout(5)
    if kind == socket.SOCK_STREAM: found.listen()
    return found
@attempt
def path():
    here = server(socket.SOCK_STREAM); yield
    socket.socket(socket.AF_UNIX).connect("s"); here.accept(); yield True
@attempt
def abstract():
    name = b"\0placet-test-%d" % os.getpid(); here = server(socket.SOCK_STREAM, name); yield
    socket.socket(socket.AF_UNIX).connect(name); here.accept(); yield True
@attempt
def datagram_of_a_pair():
    here = server(socket.SOCK_DGRAM); yield
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", "s"); yield here.recv(1) == b"x"
@attempt
def pair_that_is_connected_anew():
    here = server(socket.SOCK_DGRAM); yield
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    one.connect("s"); one.send(b"x"); yield here.recv(1) == b"x"
@attempt
def raw_pair():
    here = server(socket.SOCK_DGRAM); yield
    socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", "s"); yield here.recv(1) == b"x"
""",
    "ipc": r"""
@attempt
def memory_by_its_number():
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(0, 4096, 0o1600); at = libc.shmat(number, None, 0)
    ctypes.memmove(at, b"secret", 6); libc.shmctl(number, 0, None); yield
    at = call("shmat", number, None, 0); yield ctypes.string_at(at, 6) == b"secret"
@attempt
def semaphore():
    yield
    number = call("semget", 0, 1, 0o1600); call("semctl", number, 0, 0); yield True
@attempt
def messages():
    yield
    number = call("msgget", 0, 0o1600); call("msgctl", number, 0, None); yield True
@attempt
def queue():
    yield
    name = b"placet-test-%d" % os.getpid()
    call("mq_open", name, 0o102, 0o600, None); call("mq_unlink", name); yield True
""",
    "shared": r"""
@attempt
def large_segment():
    yield
    number = call("shmget", 0, 1 << 20, 0o1600); call("shmctl", number, 0, None); yield True
@attempt
def segment_beyond_32_bits():
    yield
    number = call("shmget", 0, 1 << 33, 0o1600); call("shmctl", number, 0, None); yield True
""",
    "others": r"""
@attempt
def limit():
    other = subprocess.Popen(["sleep", "60"])
    try:
        yield
        resource.prlimit(other.pid, resource.RLIMIT_NOFILE, (7, 7))
        yield "Max open files            7 " in open(f"/proc/{other.pid}/limits").read()
    finally:
        other.kill()
""",
}

REFUSALS = {"EPERM", "ENOSYS", "EAFNOSUPPORT"}
ROOT_MAY = {"setuid", "keys", "namespaces", "unix", "ipc", "others", "terminal"}
"""Groups of which root can do all, without a filter; an ordinary user may be kept from some anyway."""


def make_attempts(group: str, folder: Path, code: bytes) -> dict[str, str]:
    """How each attempt of the group ends: `did`, or the name of an error."""
    folder.mkdir()
    column = MACHINES.index(os.uname().machine)
    numbers = json.dumps({name: pair[column] for name, pair in NUMBERS.items()})
    source = f"{RUNNER}\n{ATTEMPTS[group]}\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source, str(folder), landlock.__file__, numbers, code.hex()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@linux
@pytest.mark.parametrize("group", [*GROUPS, *UNSHARED])
def test_group_holds_and_nothing_else_does(group: str, tmp_path: Path) -> None:
    unshared = group in UNSHARED

    free = make_attempts(group, tmp_path / "free", b"")
    held = make_attempts(group, tmp_path / "held", program(unshared=unshared))
    left_out = make_attempts(group, tmp_path / "left out", program(unshared=unshared, without={group}))

    did = {name for name, result in free.items() if result == "did"}
    assert did, free
    if os.geteuid() == 0 and group in ROOT_MAY:
        assert set(free.values()) <= {"did", "ENOSYS"}, free
    assert {result for name, result in held.items() if name in did} <= REFUSALS, held
    assert "did" not in held.values()
    assert {name for name, result in left_out.items() if result == "did"} == did, left_out


def run_under(code: bytes, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    starter = (
        "import os, sys; names = {'__name__': 'landlock'}; "
        "exec(compile(open(sys.argv[1]).read(), 'landlock', 'exec'), names); "
        "names['filter_calls'](bytes.fromhex(sys.argv[2])); os.execvp(sys.argv[3], sys.argv[3:])"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", starter, landlock.__file__, code.hex(), *argv],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


THREADS = """
import concurrent.futures, os, socket, subprocess, tempfile, threading
heard = []
thread = threading.Thread(target=heard.append, args=(1,)); thread.start(); thread.join()
one, other = socket.socketpair(); one.send(b"x"); heard.append(other.recv(1))
heard.append(subprocess.run(["sh", "-c", "echo hi | cat"], capture_output=True).stdout)
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2) as pool: heard.append(pool.submit(abs, -3).result())
    with tempfile.TemporaryFile() as file: file.write(b"x")
    print(heard)
"""

ORDINARY = {
    "python": ("python3 t.py", "[1, b'x', b'hi\\n', 3]"),
    "git": (
        "git init -q r && cd r && git config user.email a@example.org && git config user.name a && "
        "echo 1 > a && git add a && git commit -qm one && git worktree add -q ../w && echo 2 > a && "
        "git stash -q && git gc -q && git log --format=%s",
        "one",
    ),
    "compiling": ("gcc -o hello hello.c && ./hello", "hello"),
    "compiling with a leak checker": ("gcc -fsanitize=address -o hello hello.c && ./hello", "hello"),
    "make": ("printf 'all: a b\\n%%:\\n\\techo $@ > $@\\n' > Makefile && make -s -j2 && cat a b", "a\nb"),
    "tar": (
        "mkdir d && echo 1 > d/f && chmod 750 d/f && tar cpf t.tar d && mv d e && tar xpf t.tar && "
        "stat -c %a d/f",
        "750",
    ),
    "cp": ("echo 1 > f && chmod 711 f && mkdir -m 1777 d && cp -p f d/ && stat -c %a d/f d", "711\n1777"),
    "shared folder": ("cd shared && mkdir a && echo 1 > a/f && cp -r a c && stat -c %a a a/f", "2755\n644"),
    "chmod": ("cp /bin/true t && chmod 600 t && chmod +x t && ./t && touch -d 2001-01-01 t && echo ok", "ok"),
    "strace": ("strace -o out true && grep -c exit_group out", "1"),
    "jobs": ("sleep 50 & kill $! ; wait $! ; echo $?", "143"),
}


@linux
@pytest.mark.parametrize("unshared", [False, True])
@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_programs_do_not_notice(name: str, unshared: bool, tmp_path: Path) -> None:
    command, expected = ORDINARY[name]
    (tmp_path / "t.py").write_text(THREADS)
    (tmp_path / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    (tmp_path / "shared").mkdir()
    # Made by somebody outside. What is made in it gets the bit from the kernel, without asking.
    (tmp_path / "shared").chmod(0o2775)
    if name == "strace" and shutil.which(name) is None:
        pytest.skip("it is not installed")

    done = run_under(program(unshared=unshared), tmp_path, "sh", "-c", f"umask 022; {command}")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected


@linux
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("unshared", [False, True])
def test_node_does_not_notice(unshared: bool, tmp_path: Path) -> None:
    source = """
    const fs = require('fs'), { execFileSync } = require('child_process');
    const { Worker } = require('worker_threads');
    fs.promises.writeFile('f', 'x').then(() => {
      const said = execFileSync('cat', ['f']).toString();
      new Worker('require("worker_threads").parentPort.postMessage(1)', { eval: true })
        .on('message', (n) => console.log(said, n));
    });
    """

    done = run_under(program(unshared=unshared), tmp_path, "node", "-e", source)

    assert (done.returncode, done.stdout) == (0, "x 1\n"), done.stderr


@linux
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it is about 32-bit calls of this processor")
def test_calls_with_the_numbers_of_another_machine_end_the_process(tmp_path: Path) -> None:
    """Number 15 is chmod there, and means something else to the filter."""
    (tmp_path / "old.c").write_text("""
    #include <sys/mman.h>
    #include <string.h>
    int main(void) {
        char *name = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        long result;
        strcpy(name, "f");
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(15), "b"(name), "c"(04755) : "memory");
        return result != 0;
    }
    """)
    subprocess.run(["gcc", "-o", "old", "old.c"], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "f").touch()
    free = subprocess.run(["./old"], cwd=tmp_path, check=False, timeout=60).returncode
    could = bool((tmp_path / "f").stat().st_mode & 0o4000)
    (tmp_path / "f").chmod(0o644)

    held = run_under(program(), tmp_path, "./old")

    assert could == (free == 0)
    assert held.returncode == (-signal.SIGSYS if could else free)
    assert (tmp_path / "f").stat().st_mode & 0o7777 == 0o644


@linux
def test_folder_gets_no_such_bit_from_mkdir(tmp_path: Path) -> None:
    """So the group `setuid` need not look at it."""
    before = os.umask(0)
    try:
        os.mkdir(tmp_path / "d", 0o6777)
    finally:
        os.umask(before)

    assert (tmp_path / "d").stat().st_mode & 0o7777 == 0o777


@linux
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_bubblewrap_takes_the_filter_and_all_inside_are_under_it(tmp_path: Path) -> None:
    """Also its own first process: were it not, it could be traced, and made to do what the others may not."""
    code = tmp_path / "code"
    code.write_bytes(program())
    look = "grep -h ^Seccomp: /proc/[0-9]*/status; touch /tmp/f; chmod 4755 /tmp/f; stat -c %a /tmp/f"
    with code.open("rb") as file:
        done = subprocess.run(
            [
                *("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--tmpfs", "/tmp"),
                *("--seccomp", str(file.fileno()), "sh", "-c", f"umask 022; {look}"),
            ],
            pass_fds=[file.fileno()],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    lines = done.stdout.split("\n")
    assert lines[-2:] == ["644", ""], done.stderr
    assert len(lines) >= 4
    assert set(lines[:-2]) == {"Seccomp:\t2"}
