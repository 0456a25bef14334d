"""What Landlock keeps a process from, and what it leaves open, tried in processes that restrict themselves.

The test itself is what is outside: its files, its sockets, and the processes that it starts.
"""

from __future__ import annotations

import ast
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from placet.sandbox import landlock
from placet.sandbox.landlock import NEWEST, abi, restrict, uncovered
from placet.sandbox.seccomp import is_known_machine, program

pytestmark = pytest.mark.skipif(abi() < 1, reason="this kernel has no Landlock")
since_6 = pytest.mark.skipif(abi() < 6, reason="this kernel's Landlock knows no scopes")

SYSTEM = [path for path in ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc") if Path(path).exists()]
SOMEBODY = 1234

BEGIN = r"""
import ast, ctypes, errno, fcntl, os, resource, signal, socket, struct, subprocess, sys, time, traceback
landlock = {"__name__": "landlock"}
exec(compile(open(sys.argv[1]).read(), "landlock", "exec"), landlock)
assert not any(name.startswith(("placet", "msgspec")) for name in sys.modules)
os.umask(0o022)

def attempt(options, source):
    # Before it becomes another user, who may not be let through the folders above.
    os.chdir(options["folder"])
    if options["uid"] is not None:
        os.setgroups([]); os.setgid(options["uid"]); os.setuid(options["uid"])
    code = compile(source, "source", "exec")
    landlock["restrict"](
        options["write"], options["read"], network=options["network"], version=options["version"]
    )
    if options["filter"]:
        landlock["filter_calls"](options["filter"])
    try:
        exec(code, globals())
        print("did")
    except OSError as error:
        print(errno.errorcode[error.errno])

while asked := sys.stdin.readline():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(writer, 1)
        os.close(writer)
        code = 1
        try:
            attempt(*ast.literal_eval(asked))
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader) as said:
        words = said.read()
    print(repr((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), words)), flush=True)
"""
"""Makes attempts, each in a process of its own that is forked from a bare interpreter."""


class Place:
    """Folders of which `inside` and `inside2` may be written, `shown` may be read, and `outside` neither."""

    def __init__(self, folder: Path, forking: subprocess.Popen[str]) -> None:
        self.folder = folder
        self._forking = forking
        for name in ("inside", "inside2", "shown", "outside"):
            (folder / name / "sub").mkdir(parents=True)
            (folder / name / "file").write_text(f"content of {name}")
            (folder / name / "gone").write_text("to be removed")
        (folder / "shown/program").write_text("#!/bin/sh\necho ran\n")
        (folder / "shown/program").chmod(0o755)

    def attempt(
        self,
        source: str,
        *,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        network: bool = False,
        version: int | None = None,
        uid: int | None = None,
        code: bytes = b"",
    ) -> str:
        """How the source ends in a process that is restricted: `did`, or the name of an error."""
        options = {
            "folder": str(self.folder),
            "write": ["inside", "inside2", *write],
            "read": ["shown", *read],
            "network": network,
            "version": version,
            "uid": uid,
            "filter": code,
        }
        asked, told = self._forking.stdin, self._forking.stdout
        assert asked is not None
        assert told is not None
        asked.write(f"{(options, source)!r}\n")
        asked.flush()
        code, words = ast.literal_eval(told.readline())
        assert code == 0, words
        return str(words).strip()

    def picture(self, name: str) -> dict[str, tuple[int, bytes]]:
        """Every path below a folder, its mode and its content."""
        found: dict[str, tuple[int, bytes]] = {}
        for path in sorted((self.folder / name).rglob("*")):
            mode = path.lstat().st_mode
            found[str(path)] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
        return found


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", BEGIN, landlock.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as found:
        yield found


@pytest.fixture
def place(tmp_path: Path, forking: subprocess.Popen[str]) -> Place:
    return Place(tmp_path, forking)


@pytest.fixture
def neighbour() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside, of the same user, with a secret in its environment."""
    with subprocess.Popen(
        ["sleep", "60"], env={"PATH": os.environ["PATH"], "SECRET": "open sesame"}
    ) as found:
        try:
            yield found
        finally:
            found.kill()


CHANGES = {
    "write": "open('{0}/file', 'w').write('x')",
    "append": "open('{0}/file', 'a').write('x')",
    "make": "open('{0}/new', 'w').write('x')",
    "cut short": "os.truncate('{0}/file', 1)",
    "remove": "os.unlink('{0}/gone')",
    "make a folder": "os.mkdir('{0}/folder')",
    "remove a folder": "os.rmdir('{0}/sub')",
    "rename": "os.rename('{0}/gone', '{0}/renamed')",
    "move into a folder": "os.rename('{0}/gone', '{0}/sub/gone')",
    "move in": "os.rename('inside/gone', '{0}/sub/moved')",
    "move out": "os.rename('{0}/gone', 'inside/sub/moved')",
    "exchange": "os.replace('inside/file', '{0}/file')",
    "link into it": "os.link('inside/file', '{0}/sub/linked')",
    "link out of it": "os.link('{0}/file', 'inside/sub/linked')",
    "make a link": "os.symlink('/', '{0}/link')",
    "make a pipe": "os.mkfifo('{0}/pipe')",
}


@pytest.mark.parametrize("folder", ["outside", "shown"])
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_outside_is_changed(change: str, folder: str, place: Place) -> None:
    before = place.picture(folder)

    result = place.attempt(CHANGES[change].format(folder))

    assert result in ("EACCES", "EXDEV")
    assert place.picture(folder) == before


@pytest.mark.parametrize("change", CHANGES)
def test_all_of_it_works_inside_and_between_two_folders(change: str, place: Place) -> None:
    if abi() < 2 and change in (
        "move into a folder",
        "move in",
        "move out",
        "link into it",
        "link out of it",
    ):
        pytest.skip("this kernel's Landlock never lets a file change its folder")
    before = place.picture("inside2"), place.picture("inside")

    result = place.attempt(CHANGES[change].format("inside2"))

    assert result == "did"
    assert (place.picture("inside2"), place.picture("inside")) != before


WAYS_OUT = {
    "plainly": "open('outside/file').read()",
    "upwards": "open('inside/../outside/file').read()",
    "by a link": "os.symlink('../outside/file', 'inside/link'); open('inside/link').read()",
    "by /proc": "open('/proc/self/cwd/outside/file').read()",
    "by the root in /proc": "open('/proc/self/root' + os.getcwd() + '/outside/file').read()",
    "as a folder": "os.listdir('outside')",
    "the folder above": "os.listdir('.')",
    "by running it": (
        "if subprocess.run(['cat', 'outside/file'], capture_output=True).returncode: "
        "raise OSError(errno.EACCES, '')"
    ),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_is_not_listed_is_not_read(way: str, place: Place) -> None:
    result = place.attempt(WAYS_OUT[way], read=SYSTEM)

    assert result == "EACCES"


@pytest.mark.parametrize("name", ["inside/file", "shown/file"])
def test_what_is_listed_is_read(name: str, place: Place) -> None:
    assert place.attempt(f"assert open({name!r}).read() == 'content of ' + {name.split('/')[0]!r}") == "did"


def test_programs_run_where_they_may_be_read_and_only_there(place: Place) -> None:
    ways = {
        "shown": place.attempt("os.execv('shown/program', ['p'])", read=SYSTEM),
        "a program of the system that is not listed": place.attempt("os.execv('/bin/true', ['t'])"),
    }

    assert ways == {"shown": "ran", "a program of the system that is not listed": "EACCES"}


def test_single_files_and_devices_can_be_listed(place: Place) -> None:
    ask = "fcntl.ioctl(os.open('/dev/null', os.O_RDONLY), 0x5401, b'0' * 60)"

    assert place.attempt("open('/dev/null', 'w').write('x')", write=["/dev/null"]) == "did"
    assert place.attempt("open('/dev/null', 'w').write('x')", read=["/dev/null"]) == "EACCES"
    assert place.attempt("open('outside/file', 'w').write('x')", write=["outside/file"]) == "did"
    assert (place.folder / "outside/file").read_text() == "x"
    if abi() >= 5:
        # What the device itself says, and what Landlock says before it is asked.
        assert place.attempt(ask, write=["/dev/null"]) == "ENOTTY"
        assert place.attempt(ask, read=["/dev/null"]) == "EACCES"


@since_6
def test_no_process_outside_is_signalled(place: Place, neighbour: subprocess.Popen[bytes]) -> None:
    ways = [
        f"os.kill({neighbour.pid}, signal.SIGKILL)",
        f"os.kill({os.getpid()}, 0)",
        f"signal.pidfd_send_signal(os.pidfd_open({neighbour.pid}), signal.SIGKILL)",
    ]

    assert [place.attempt(way) for way in ways] == ["EPERM"] * 3
    assert neighbour.poll() is None


def test_its_own_processes_are_signalled(place: Place) -> None:
    source = "p = subprocess.Popen(['sleep', '60']); p.kill(); assert p.wait() == -9"

    assert place.attempt(source, read=SYSTEM, write=["/dev/null"]) == "did"


@since_6
def test_no_abstract_socket_outside_is_reached(place: Place) -> None:
    name = f"\0placet-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()

        result = place.attempt(f"socket.socket(socket.AF_UNIX).connect({name!r})")

    assert result == "EPERM"


@pytest.mark.skipif(abi() < 4, reason="this kernel's Landlock knows no network")
@pytest.mark.parametrize("network", [False, True])
def test_tcp_is_refused_unless_granted(network: bool, place: Place) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        ways = [
            f"socket.socket().connect({server.getsockname()!r})",
            "socket.socket().bind(('127.0.0.1', 0))",
        ]

        results = [place.attempt(way, network=network) for way in ways]

    assert results == (["did"] * 2 if network else ["EACCES"] * 2)


def test_new_privileges_are_off(place: Place) -> None:
    assert place.attempt("assert 'NoNewPrivs:\\t1' in open('/proc/self/status').read()", read=SYSTEM) == "did"


@since_6
@pytest.mark.parametrize("who", ["this user", "an ordinary user"])
@pytest.mark.parametrize("what", ["environ", "mem", "fd/0", "root", "maps", "ptrace"])
def test_what_a_neighbour_holds_is_not_read(what: str, who: str, place: Place) -> None:
    """But by root: the kernel lets it look into any process for measuring, and does not ask Landlock then."""
    uid = SOMEBODY if who == "an ordinary user" and os.geteuid() == 0 else None
    place.folder.chmod(0o755)
    source = {
        "environ": "assert b'open sesame' in open('/proc/{0}/environ', 'rb').read()",
        "mem": "os.open('/proc/{0}/mem', os.O_RDONLY)",
        "fd/0": "os.readlink('/proc/{0}/fd/0')",
        "root": "os.readlink('/proc/{0}/root')",
        "maps": "assert open('/proc/{0}/maps').read()",
        "ptrace": "if ctypes.CDLL(None).ptrace(16, {0}, 0, 0): raise OSError(errno.EPERM, '')",
    }[what]
    environment = {"PATH": os.environ["PATH"], "SECRET": "open sesame"}
    with subprocess.Popen(["sleep", "60"], env=environment, user=uid) as other:
        try:
            result = place.attempt(source.format(other.pid), read=SYSTEM, uid=uid)
        finally:
            other.kill()

    is_root = os.geteuid() == 0 and uid is None
    if is_root and what in ("environ", "maps", "mem"):
        # Depends on the kernel: `uncovered` warns of it.
        assert result in ("did", "EACCES", "EPERM")
    else:
        assert result in ("EACCES", "EPERM")


OPEN = {
    "the mode, owner": "os.chmod('outside/file', 0o606); assert os.stat('outside/file').st_mode & 6 == 6",
    "times": "os.utime('outside/file', (1, 1)); assert os.stat('outside/file').st_mtime == 1",
    "whether a file exists": "assert os.path.exists('outside/file') and not os.path.exists('outside/none')",
    "sockets that have a path": "socket.socket(socket.AF_UNIX).connect('outside/socket')",
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "a notice when it changes": "assert ctypes.CDLL(None).inotify_add_watch("
    "ctypes.CDLL(None).inotify_init(), b'outside', 0x100) >= 0",
}


@pytest.mark.parametrize("what", OPEN)
def test_what_is_said_to_be_open_is_open(what: str, place: Place) -> None:
    """If this fails, the kernel has learned something: it can be asked for, and the words can go."""
    assert any(what in words for words in uncovered(abi()))
    with socket.socket(socket.AF_UNIX) as server:
        # The path of a socket is short; so is the name that the child uses.
        here = os.open(place.folder / "outside", os.O_PATH)
        server.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        server.listen()

        assert place.attempt(OPEN[what]) == "did"


@pytest.mark.parametrize("version", range(1, min(abi(), NEWEST) + 1))
def test_older_kernels_hold_what_is_not_said_to_be_open(
    version: int, place: Place, neighbour: subprocess.Popen[bytes]
) -> None:
    said = " ".join(uncovered(version))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        attempts = {
            "write": "open('outside/file', 'r+').write('x')",
            "remove": "os.unlink('outside/gone')",
            "read": "open('outside/file').read()",
            "cut short": "os.truncate('outside/file', 1)",
            "TCP": f"socket.socket().connect({server.getsockname()!r})",
            "signals": f"os.kill({neighbour.pid}, 0)",
        }

        did = {name for name, source in attempts.items() if place.attempt(source, version=version) == "did"}

    is_open = {"cut short": version < 3, "TCP": version < 4, "signals": version < 6}
    assert did == {name for name, value in is_open.items() if value}
    assert ("cut short" in said, "signals to" in said) == (version < 3, version < 6)
    assert ("TCP" in uncovered(version)) == (version < 4)
    assert place.attempt("open('inside/new', 'w').write('x')", version=version) == "did"
    assert place.attempt("os.rename('inside/new', 'inside/newer')", version=version) == "did"


def test_without_landlock_nothing_is_claimed(place: Place) -> None:
    assert uncovered(0) == ["everything: this kernel has no Landlock"]
    with pytest.raises(OSError, match="no Landlock"):
        restrict([], [], network=False, version=0)


def test_path_that_does_not_exist_is_named_and_nothing_is_restricted(place: Place) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        restrict([str(place.folder)], [str(place.folder / "no such folder")], network=False)

    (place.folder / "outside/file").write_text("still mine")


both = pytest.mark.skipif(
    not is_known_machine() or abi() < 6, reason="this kernel or processor lacks one of them"
)

TOGETHER = {
    "net by TCP": "socket.socket().connect({tcp!r})",
    "net by UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', {udp!r})",
    "socket with a path": "socket.socket(socket.AF_UNIX).connect('outside/socket')",
    "datagram to a path": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect('outside/socket')",
    "stream pair led to a path": "socket.socketpair()[0].connect('outside/socket')",
    "packet pair led to a path": (
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0].connect('outside/packets')"
    ),
    "signal": "os.kill({pid}, signal.SIGKILL)",
    "limit": "resource.prlimit({pid}, resource.RLIMIT_CPU, (0, 0))",
    "write": "open('outside/file', 'w').write('x')",
    "read": "open('outside/file').read()",
}


@both
@pytest.mark.parametrize("way", TOGETHER)
def test_with_the_filter_of_calls_all_of_this_is_held(
    way: str, place: Place, neighbour: subprocess.Popen[bytes]
) -> None:
    with (
        socket.socket() as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as packets,
    ):
        for server in (tcp, udp):
            server.bind(("127.0.0.1", 0))
        udp.settimeout(0.0)
        here = os.open(place.folder / "outside", os.O_PATH)
        unix.bind(f"/proc/self/fd/{here}/socket")
        packets.bind(f"/proc/self/fd/{here}/packets")
        os.close(here)
        for server in (tcp, unix, packets):
            server.settimeout(0.0)
            server.listen()
        before = place.picture("outside")
        source = TOGETHER[way].format(tcp=tcp.getsockname(), udp=udp.getsockname(), pid=neighbour.pid)

        result = place.attempt(source, read=["/usr"], code=program(unshared=True))

        assert result in ("EPERM", "EACCES", "EISCONN", "EINVAL")
        for server in (tcp, unix, packets):
            with pytest.raises(BlockingIOError):
                server.accept()
        with pytest.raises(BlockingIOError):
            udp.recv(1)
    assert neighbour.poll() is None
    assert place.picture("outside") == before
