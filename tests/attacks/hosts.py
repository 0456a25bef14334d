"""Machines to run attacks on: this one, as whoever tests or as an ordinary user, and poorer ones.

What a poorer machine lacks is really not there for what runs on it: it is taken away in a mount namespace of
its own, by a filter of system calls, or by giving up a right. This machine stays as it is.

Keep true:
1. Whatever is mounted is mounted in a namespace that ends with the process. It sees only its own processes:
   attacks that nothing holds meet nobody else's.
2. An ordinary user is a user without an entry anywhere, whose home is its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.attacks.run import Asked, Outcome, Report

REPOSITORY = Path(__file__).parents[2]
USER = 61234
"""Nobody's number: no account has to be made."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, and who works on it."""

    name: str
    is_user: bool
    """Whether an ordinary user works there; else whoever tests."""
    lacks: tuple[str, ...] = ()
    """What was taken away."""


IS_ROOT = os.geteuid() == 0
HERE = Host(name="root" if IS_ROOT else "user", is_user=not IS_ROOT)
AS_USER = Host(name="user", is_user=True)
WHOLE = [HERE, AS_USER] if IS_ROOT else [HERE, Host(name="root", is_user=False)]

TAKEN_AWAY = {
    # By commands of root, before it becomes somebody.
    "bubblewrap": "for path in /usr/bin/bwrap /usr/local/bin/bwrap; do "
    "[ ! -e $path ] || mount --bind /dev/null $path; done",
    "cgroups": "mount -t tmpfs tmpfs /sys/fs/cgroup",
}
REFUSED = ("user namespaces", "landlock")
"""By a filter of system calls: `refuse.py` knows how."""
GIVEN_UP = {"sys_admin": "--bounding-set -sys_admin --inh-caps -sys_admin"}


def can_be(host: Host) -> None:
    """Skip the test where nobody can be that; in CI, fail."""
    if host == HERE or IS_ROOT:
        return
    why = f"only root can test as {host.name!r} with {host.lacks or 'nothing'} taken away"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def ask_facts(host: Host, shared: Path) -> Report:
    """What a machine says of itself, asked once."""
    (line,) = _once(host, [Asked(what="facts")], shared)
    return msgspec.json.decode(line, type=Report)


def ask_once(host: Host, asked: Asked, shared: Path) -> dict[str, Outcome]:
    """Run cases on a machine; what came of each, by its name.

    Only one of the processes that test together really does it. `shared` is a folder that all of them have.
    """
    return {outcome.name: outcome for outcome in ask_each_once(host, [asked], shared)}


def ask_each_once(host: Host, asked: Sequence[Asked], shared: Path) -> list[Outcome]:
    """As `ask_once`, one after the other in one process; what came of each case, in order."""
    return [msgspec.json.decode(line, type=Outcome) for line in _once(host, asked, shared)]


def _once(host: Host, asked: Sequence[Asked], shared: Path) -> list[bytes]:
    key = hashlib.sha256(msgspec.json.encode((host, asked))).hexdigest()[:24]
    path = shared / f"attacks-{key}.json"
    failed = path.with_suffix(".failed")
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists() and not failed.exists():
            try:
                path.write_bytes(b"\n".join(_lines(host, asked)))
            except Exception as error:
                # Remembered too: a hundred tests may ask, and each would have it fail anew.
                failed.write_text(str(error), encoding="utf-8")
    if failed.exists():
        raise AssertionError(failed.read_text(encoding="utf-8"))
    return path.read_bytes().splitlines()


def _lines(host: Host, asked: Sequence[Asked]) -> list[bytes]:
    with _folder(host) as base:
        words = [
            msgspec.json.encode(msgspec.structs.replace(each, base=str(base))).decode() for each in asked
        ]
        home = base / "home"
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(base / "tmp"),
            "LANG": "C.UTF-8",
            "XDG_DATA_HOME": str(base / "records"),
            "SSH_AUTH_SOCK": str(home / ".ssh" / "agent"),
            "PLACET_TEST_TOKEN": f"secret-host-{os.urandom(8).hex()}",
            "PYTHONDONTWRITEBYTECODE": "1",
            # The code beside these tests, also where another is installed, as in a copy with a defect.
            "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}",
        }
        python = [sys.executable, "-m", "tests.attacks.run", *words]
        with _alone(asked):
            done = subprocess.run(
                _argv(host, base, python),
                cwd=REPOSITORY,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=400,
            )
        if done.returncode:
            raise AssertionError(f"on {host.name}: {done.stderr.decode(errors='replace')[-3000:]}")
        return done.stdout.splitlines()


@contextmanager
def _alone(asked: Sequence[Asked]) -> Iterator[None]:
    """Keep attacks that are not held, or not wholly, from those of another process of this user."""
    if IS_ROOT:
        yield
        return
    is_held = all(each.by == "bubblewrap" and not each.without for each in asked)
    with open(Path(tempfile.gettempdir(), f"placet-attacks-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if is_held else fcntl.LOCK_EX)
        yield


@contextmanager
def _folder(host: Host) -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="placet-attacks-")).resolve()
    try:
        base.chmod(0o755)
        for name in ("home", "tmp"):
            (base / name).mkdir()
            (base / name).chmod(0o755)
        if host.is_user and IS_ROOT:
            for path in (base, base / "home", base / "tmp"):
                os.chown(path, USER, USER)
        yield base
    finally:
        # An attack may have made folders that nobody may enter.
        shutil.rmtree(base, ignore_errors=True)


def _argv(host: Host, base: Path, command: Sequence[str]) -> list[str]:
    """How to start `command` on a machine."""
    refused = [name for name in host.lacks if name in REFUSED]
    if refused:
        command = [
            sys.executable,
            "-I",
            "-S",
            str(Path(__file__).parent / "refuse.py"),
            *refused,
            "--",
            *command,
        ]
    if host == HERE:
        return list(command)
    # Terminals, too, are its own.
    terminals = "mount -t devpts -o ptmxmode=0666,mode=620 devpts /dev/pts"
    lines = ["set -e", terminals, *(TAKEN_AWAY[name] for name in host.lacks if name in TAKEN_AWAY)]
    become = [GIVEN_UP[name] for name in host.lacks if name in GIVEN_UP]
    if host.is_user:
        lines += _open_ways(base)
        become.append(f"--reuid {USER} --regid {USER} --clear-groups --inh-caps=-all")
    words = " ".join(map(shlex.quote, command))
    # Not by `exec`: the first process of a namespace of processes would have to look after the others.
    lines += [f"setpriv {' '.join(become)} -- {words}" if become else words, "exit $?"]
    own = ["--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc", "--kill-child"]
    return ["unshare", *own, "sh", "-c", "\n".join(lines)]


def _open_ways(base: Path) -> Iterator[str]:
    """Commands that let an ordinary user reach the interpreter where it is, also below a closed home.

    The closed folder is covered by an empty one, and in it only what is needed is shown.
    """
    needed = dict.fromkeys(
        os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, str(REPOSITORY), str(base))
    )
    closed: dict[str, list[str]] = {}
    for path in needed:
        for folder in reversed(Path(path).parents):
            if not folder.stat().st_mode & 0o001:
                closed.setdefault(str(folder), []).append(path)
                break
    for number, (folder, paths) in enumerate(closed.items()):
        aside = [f"{base}/aside-{number}-{index}" for index in range(len(paths))]
        for path, place in zip(paths, aside, strict=True):
            yield f"mkdir {place} && mount --rbind {shlex.quote(path)} {place}"
        yield f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(folder)}"
        for path, place in zip(paths, aside, strict=True):
            yield f"mkdir -p {shlex.quote(path)} && mount --move {place} {shlex.quote(path)} && rmdir {place}"
