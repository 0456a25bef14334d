"""What is attacked: a home with keys, other projects, a repository, listeners, processes, records of Placet.

All of it is made for one run and belongs to it. Modes are lax: it is to be the sandbox that says no, and not
that a file belongs to somebody else.

    base/home/                       keys and settings of a person
    base/home/projects/parent        a repository with hooks
    base/home/projects/work          the workspace: a linked worktree of it
    base/home/projects/other         another project
    base/outside/                    files and sockets of anybody
    base/records/                    where Placet keeps runs and approvals
    base/keep/                       what the sandbox never shows
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from placet.sandbox.other_user import UID
from tests.attacks.present import present
from tests.attacks.repositories import make_repositories
from tests.attacks.traces import (
    Seen,
    attributes,
    differences,
    one,
    read_bytes,
    read_text,
    seen,
    state,
    was_met,
)

_VICTIM = """
import ctypes, os, signal, time
kept = ctypes.create_string_buffer(os.environb[b"SECRET"])
def note(number, frame):
    os.write(2, b"%d\\n" % number)
for number in range(1, signal.NSIG):
    try:
        signal.signal(number, note)
    except (OSError, ValueError):
        pass
# As easy to look into as a process can be.
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
print(ctypes.addressof(kept), flush=True)
while True:
    time.sleep(1)
"""
_SHARED = ("/dev/shm", "/var/tmp", "/tmp", "/run")
"""Folders of the machine in which everybody may write, more or less."""
_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory")
_ADD_KEY, _KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
_SHARED_BYTES = 4096


class Scene:
    """Everything that an attack must leave as it was. Use it as a context manager."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.parent = self.home / "projects" / "parent"
        self.work = self.home / "projects" / "work"
        self.other = self.home / "projects" / "other"
        self.outside = base / "outside"
        self.records = base / "records"
        self.keep = base / "keep"
        self.mark = f"placet-attack-{os.urandom(6).hex()}"
        self.secrets = {"host": os.environ.get("PLACET_TEST_TOKEN", "no-token-was-given")}
        self.has = {""}
        """What this machine has to attack."""
        self._stack = ExitStack()
        self._listeners: dict[str, socket.socket] = {}
        self.victims: list[subprocess.Popen[bytes]] = []
        self._addresses: list[str] = []
        self._log = base / "victims.log"
        self._mounts = ""
        self._before: Seen = {}
        self._files: dict[str, bytes] = {}
        self._shared: ctypes.Array[ctypes.c_char] | None = None
        self.shared_key = 0

    def __enter__(self) -> Scene:
        old = os.umask(0)
        try:
            self._make()
        finally:
            os.umask(old)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for folder in _SHARED:
            for left in Path(folder).glob(f"{self.mark}*"):
                with suppress(OSError):
                    left.unlink()
        for path in self.base.iterdir():
            if path.name != "tmp":
                shutil.rmtree(path, ignore_errors=True)

    def secret(self, name: str) -> str:
        """A text that nobody else has; to see it inside is to have read it."""
        return self.secrets.setdefault(name, f"secret-{name}-{os.urandom(8).hex()}")

    # What is there

    def _make(self) -> None:
        for folder in (self.home, self.parent, self.other, self.outside, self.records, self.base / "run"):
            folder.mkdir(parents=True, exist_ok=True)
        self.keep.mkdir(mode=0o700, exist_ok=True)
        self._make_home()
        self._make_repository()
        self._make_files()
        self._listen()
        self._make_victims()
        self._make_key()
        self._make_shared()
        self._make_terminal()
        self.has |= present(self.victims[0].pid, self._addresses[0], self.base)
        self._mounts = read_text("/proc/self/mountinfo")
        self._before = self._look()

    def _make_home(self) -> None:
        ssh = self.secret("ssh")
        for name, text in {
            ".ssh/id_ed25519": f"-----BEGIN KEY-----\n{ssh}\n",
            ".ssh/config": "Host *\n",
            ".aws/credentials": f"[default]\naws_secret_access_key = {self.secret('aws')}\n",
            ".netrc": f"machine example.org password {self.secret('netrc')}\n",
            ".cargo/credentials.toml": f'token = "{self.secret("cargo")}"\n',
            ".cargo/bin/tool": "#!/bin/sh\necho a tool of the home\n",
            ".gitconfig": f"[user]\nname = Anna\nemail = anna@example.org\n"
            f"[http]\nextraHeader = Authorization: {self.secret('gitconfig')}\n",
            ".config/gh/hosts.yml": f"oauth_token: {self.secret('gh')}\n",
            ".bash_history": f"export KEY={self.secret('history')}\n",
            ".bashrc": "# nothing\n",
            ".profile": "# nothing\n",
        }.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.home / ".cargo/bin/tool").chmod(0o777)

    def _make_repository(self) -> None:
        make_repositories(self.base)
        self._files = {path.name: path.read_bytes() for path in self.work.iterdir() if path.name != ".git"}
        records = self.work / ".placet"
        records.mkdir()
        _make_database(records / "runs.db", self.secret("runs"))
        (self.other / "key.txt").write_text(self.secret("other"))

    def _make_files(self) -> None:
        self._make_outside()
        (self.records / "placet").mkdir()
        _make_database(self.records / "placet" / "approvals.db", self.secret("records"))
        os.mkfifo(self.outside / "fifo", 0o666)
        self._fifo = os.open(self.outside / "fifo", os.O_RDWR | os.O_NONBLOCK)
        self._stack.callback(os.close, self._fifo)
        for folder in _SHARED:
            # What lies in the shared folders of the machine.
            path = Path(folder, f"{self.mark}-there")
            with suppress(OSError):
                path.write_text(self.secret(f"in {folder}"))
                path.chmod(0o666)
                self._stack.callback(path.unlink, missing_ok=True)

    def _make_outside(self) -> None:
        for name in ("file", "named", "doomed", "target"):
            (self.outside / name).write_text("as it was\n")
        (self.outside / "secret").write_text(self.secret("outside"))
        (self.outside / "folder").mkdir()
        (self.outside / "folder" / "inner").write_text("as it was\n")

    def _listen(self) -> None:
        def listener(name: str, family: int, kind: int, address: object) -> socket.socket:
            made = self._stack.enter_context(socket.socket(family, kind))
            made.bind(address)  # type: ignore[arg-type]
            if kind != socket.SOCK_DGRAM:
                made.listen(16)
            made.setblocking(False)
            self._listeners[name] = made
            return made

        tcp = listener("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.tcp = tcp.getsockname()[1]
        self.udp = listener("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)).getsockname()[1]
        self.tcp6 = 0
        with suppress(OSError):
            self.tcp6 = listener("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)).getsockname()[1]
            self.has.add("ipv6")
        self.address = _own_address()
        self.far = 0
        if self.address:
            self.has.add("address")
            far = listener("far", socket.AF_INET, socket.SOCK_STREAM, (self.address, 0))
            self.far = far.getsockname()[1]
        unix = socket.AF_UNIX
        listener("unix", unix, socket.SOCK_STREAM, str(self.outside / "socket"))
        listener("datagram", unix, socket.SOCK_DGRAM, str(self.outside / "datagram"))
        listener("service", unix, socket.SOCK_STREAM, str(self.base / "run" / "service"))
        listener("agent", unix, socket.SOCK_STREAM, str(self.home / ".ssh" / "agent"))
        listener("abstract", unix, socket.SOCK_STREAM, f"\0{self.mark}")
        listener("abstract datagram", unix, socket.SOCK_DGRAM, f"\0{self.mark}-datagram")
        path = f"/run/{self.mark}-socket"
        with suppress(OSError):
            listener("run", unix, socket.SOCK_STREAM, path)
            os.chmod(path, 0o777)
            self._stack.callback(os.unlink, path)
            self.has.add("run")

    def _make_victims(self) -> None:
        log = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC, 0o600)
        # As root, commands run as another user: what that user runs besides is attacked too.
        for user in (None, UID) if os.geteuid() == 0 else (None,):
            python = sys.executable if user is None else "/usr/bin/python3"
            victim = subprocess.Popen(
                [python, "-I", "-S", "-c", _VICTIM],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"SECRET": self.secret("victim")},
                cwd="/",
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                start_new_session=True,
            )
            assert victim.stdout is not None
            self._addresses.append(victim.stdout.readline().decode().strip())
            self.victims.append(victim)
            self._stack.callback(_end, victim)
        os.close(log)

    def _make_key(self) -> None:
        """A key that the kernel keeps for the session."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall.restype = ctypes.c_long
        text = self.secret("keyring").encode()
        if not _has_own_session():
            return
        key = libc.syscall(_ADD_KEY, b"user", b"placet-attack", text, len(text), -3)
        if key > 0 and libc.syscall(_KEYCTL, 5, key, 0x3F3F3F3F) == 0:
            self.has.add("keyring")

    def _make_shared(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.shared_key = int.from_bytes(os.urandom(3), "big") + 1
        number = libc.shmget(self.shared_key, _SHARED_BYTES, 0o1666)
        if number < 0:
            return
        self._stack.callback(libc.shmctl, number, 0, None)
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(number, None, 0)
        self._shared = (ctypes.c_char * _SHARED_BYTES).from_address(address)
        text = self.secret("shared").encode()
        self._shared[: len(text)] = text
        self.has.add("shared memory")

    def _make_terminal(self) -> None:
        self._terminal, other = os.openpty()
        self.terminal = os.ttyname(other)
        for number in (self._terminal, other):
            self._stack.callback(os.close, number)
        os.set_blocking(self._terminal, False)
        with suppress(OSError):
            os.chmod(self.terminal, 0o666)

    # What an attack gets to know, and what became of it

    def environment(self) -> dict[str, str]:
        """What an attack is told, so that it need not search."""
        return {
            "OUTSIDE": str(self.outside),
            "VICTIM_HOME": str(self.home),
            "WORK": str(self.work),
            "PARENT": str(self.parent),
            "OTHER": str(self.other),
            "RECORDS": str(self.records),
            "BASE": str(self.base),
            "MARK": self.mark,
            "VICTIMS": " ".join(str(victim.pid) for victim in self.victims),
            "ADDRESSES": " ".join(self._addresses),
            "RUNNER": str(os.getpid()),
            "PYTHON": sys.executable,
            "TCP": str(self.tcp),
            "TCP6": str(self.tcp6),
            "UDP": str(self.udp),
            "FAR": f"{self.address} {self.far}",
            "SHARED": str(self.shared_key),
            "TERMINAL": self.terminal,
            "HOST": os.uname().nodename,
        }

    def children(self) -> list[int]:
        """The processes that this one has started, but for the victims."""
        known = {victim.pid for victim in self.victims}
        return [
            pid
            for pid in map(int, read_text(f"/proc/self/task/{os.getpid()}/children").split())
            if pid not in known
        ]

    def effects(self, said: bytes, *, is_left_ended: bool = True) -> list[str]:
        """What an attack did, in words; empty if all is as it was. `said` is what it wrote to its streams."""
        found = [f"changed: {path}" for path in differences(self._before, self._look())]
        found += [f"met: {name}" for name, each in self._listeners.items() if was_met(each)]
        found += [
            f"ended: victim {number}" for number, each in enumerate(self.victims) if each.poll() is not None
        ]
        if noted := self._log.read_text().split():
            found.append(f"signalled: {' '.join(noted)}")
        found += [f"left running: {name}" for name in self._left(is_left_ended)]
        found += self._made_in_work(said)
        if self._shared is not None and self._shared.value.decode(errors="replace") != self.secret("shared"):
            found.append("changed: shared memory")
        if read_text("/proc/self/mountinfo") != self._mounts:
            found.append("changed: mounts")
        for name, number in (("fifo", self._fifo), ("terminal", self._terminal)):
            with suppress(BlockingIOError):
                os.read(number, 4096)
                found.append(f"met: {name}")
        for folder in (
            "/",
            "/tmp",
            "/var/tmp",
            "/dev/shm",
            "/run",
            "/etc",
            "/usr/bin",
            "/usr/local/bin",
            "/opt",
        ):
            if os.path.lexists(path := os.path.join(folder, f"{self.mark}-made")):
                found.append(f"made: {path}")
        return found

    def mend(self, effects: list[str]) -> bool:
        """Make good what an attack did, if that is little; whether it was."""
        if not effects:
            self.clear_work()
            return True
        changed = [effect for effect in effects if effect.startswith(("changed", "ended", "made", "hung"))]
        if any(not effect.startswith(f"changed: {self.outside}") for effect in changed):
            return False
        if any(effect.startswith(("ended", "left running")) for effect in effects):
            return False
        old = os.umask(0)
        try:
            for path in self.outside.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.is_symlink() or path.is_file():
                    path.unlink()
            self._make_outside()
        finally:
            os.umask(old)
        os.truncate(self._log, 0)
        self.clear_work()
        self._before = self._look()
        return True

    def clear_work(self) -> None:
        """Bring back the workspace, which an attack may write, but for what `effects` looks at."""
        for name in set(os.listdir(self.work)) - {".git", ".placet"}:
            path = self.work / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        for name, text in self._files.items():
            path = self.work / name
            path.write_bytes(text)
            path.chmod(0o666)

    def _look(self) -> Seen:
        found: Seen = {}
        for folder in (self.home, self.outside, self.records, self.base / "run", self.base / "remote.git"):
            found |= seen(folder, leave_out={str(self.work)})
        found |= seen(self.work / ".placet")
        pointer = self.work / ".git"
        found[str(pointer)] = (pointer.read_bytes() if pointer.is_file() else b"gone",)
        for folder in _SHARED:
            with suppress(OSError):
                path = Path(folder, f"{self.mark}-there")
                found[str(path)] = one(str(path))
        for victim in self.victims:
            found[f"process {victim.pid}"] = state(victim.pid)
        found["settings of the kernel"] = tuple(map(read_text, _SETTINGS))
        return found

    def _left(self, is_ended: bool) -> Iterator[str]:
        mark = f"MARK={self.mark}".encode()
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with suppress(OSError):
                    if mark in read_bytes(f"/proc/{name}/environ"):
                        if is_ended:
                            os.kill(int(name), signal.SIGKILL)
                        yield name

    def _made_in_work(self, said: bytes) -> Iterator[str]:
        texts = [("it said", said)]
        for folder, folders, files in os.walk(self.work):
            if folder == str(self.work):
                folders[:] = [name for name in folders if name not in (".git", ".placet")]
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                status = os.lstat(path)
                if "security.capability" in attributes(path):
                    yield f"capability: {name}"
                if stat.S_ISREG(status.st_mode):
                    if status.st_mode & 0o6000:
                        yield f"setuid: {name}"
                    if status.st_size < 1 << 20:
                        texts.append((name, Path(path).read_bytes()))
                if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
                    yield f"device: {name}"
        for where, text in texts:
            for name, secret in self.secrets.items():
                if secret.encode() in text:
                    yield f"told: the secret {name!r} ({where})"
        with suppress(OSError):
            for line in (self.work / "reached").read_text().splitlines():
                yield f"reached: {line}"


@cache
def _has_own_session() -> bool:
    """Begin a session of keys, once: what the commands are forked from stays in the one it was started in."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    joined: int = libc.syscall(_KEYCTL, 1, None)
    return joined >= 0


def _own_address() -> str:
    """An address of this machine that is not loopback; empty if it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made, suppress(OSError):
        made.connect(("192.0.2.1", 9))
        address: str = made.getsockname()[0]
        return "" if address.startswith("127.") else address
    return ""


def _make_database(path: Path, secret: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("create table approvals (id text, status text, secret text)")
        database.execute("insert into approvals values ('1', 'waiting', ?)", (secret,))
    database.close()
    path.chmod(0o666)


def _end(victim: subprocess.Popen[bytes]) -> None:
    victim.kill()
    victim.wait()
    if victim.stdout is not None:
        victim.stdout.close()
