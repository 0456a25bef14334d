"""A real Postgres server on loopback, for tests, benchmarks and soak runs.

    with PostgresServer() as server:
        url = server.create_database()

`python -m tests.servers.postgres` makes sure the programs are there and prints their version.

Between this process and the server stands a keeper: this same file, run as a small process of its own. It
starts the server, passes signals on, and ends the server when the process that asked for it is gone.

Keep true:
1. No server outlives the process that started it, however that process ends.
2. Only processes and folders made here are signalled or removed; a cluster of the machine is never touched.
3. The server listens on 127.0.0.1 alone, and never runs as root.
4. A start that fails says why: the end of the server's own log is in the message.
5. `restart` and `kill` keep data and port, so a URL stays good; `stop` leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import random
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

# The keeper runs without site-packages, so that it starts at once: psycopg is imported where it is used.
if TYPE_CHECKING:
    import psycopg

PLACES = ("/usr/lib/postgresql/*/bin",)
"""Where Debian and Ubuntu put the programs; they leave them off PATH."""
CLUSTER_DEFAULTS = Path("/etc/postgresql-common/createcluster.d")
"""Read by Debian's package when it decides whether to make a cluster."""
START_LIMIT_S = 30.0
STOP_LIMIT_S = 30.0
USER = "placet"

INITDB = (f"--username={USER}", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # What a crash of the server may lose is under test; what a crash of the machine may lose is not.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "shared_buffers": "16MB",
    "max_connections": "100",
    # Segments live in the data folder, so they go with it and a small /dev/shm is enough.
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

_CUT_OFF = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY = """
    SET lock_timeout = '5s';
    DO $$ DECLARE each name; BEGIN
        FOR each IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$' LOOP
            EXECUTE format('DROP SCHEMA %I CASCADE', each);
        END LOOP;
    END $$;
    CREATE SCHEMA public AUTHORIZATION pg_database_owner;
    GRANT USAGE ON SCHEMA public TO PUBLIC
"""

Mode = Literal["fast", "immediate"]
SIGNALS: dict[Mode, str] = {"fast": "SIGINT", "immediate": "SIGQUIT"}


class PostgresMissing(RuntimeError):
    """There are no Postgres programs here, and they could not be installed."""

    def __init__(self, *, places: Sequence[str], because: str) -> None:
        super().__init__(
            f"No Postgres server here: initdb and postgres are neither on PATH nor in {', '.join(places)}. "
            f"{because} Install it with `apt-get install postgresql` (Debian, Ubuntu), "
            "`dnf install postgresql-server` (Fedora) or `brew install postgresql` (macOS), or put the "
            "folder that holds both programs on PATH."
        )


class PostgresFailed(RuntimeError):
    """Postgres did not do what was asked; the message ends with the last lines of its log."""

    def __init__(self, what: str, *, log: str) -> None:
        super().__init__(f"{what} The end of its log:\n{log or '(empty)'}")


# --- The programs ---


def programs(
    *,
    path: str | None = None,
    places: Sequence[str] = PLACES,
    install: Callable[[], str] | None = None,
) -> Path:
    """The folder with initdb and postgres; installs them first where it may.

    `path` is searched instead of PATH, then `places`, newest version first. `install` returns what it did or
    why it did nothing, as a sentence; without one it is apt-get, for root only.

    Raises:
        PostgresMissing: still not there; the message says what to install.
    """
    if found := _find(path, places):
        return found
    with _one_at_a_time():
        # Look again: another test worker may have installed them while this one waited.
        if found := _find(path, places):
            return found
        if install is None:
            said = install_with_apt(apt=shutil.which("apt-get"), root=os.geteuid() == 0)
        else:
            said = install()
    if found := _find(path, places):
        return found
    raise PostgresMissing(places=places, because=said)


def version(folder: Path) -> str:
    """What `postgres --version` prints."""
    asked = subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, text=True)
    return asked.stdout.strip()


def _find(path: str | None, places: Sequence[str]) -> Path | None:
    on_path = shutil.which("initdb", path=path)
    # A link on PATH may stand for one program of a folder; its target has the others beside it.
    candidates = [Path(on_path).resolve().parent] if on_path else []
    for place in places:
        candidates += sorted(Path("/").glob(place.lstrip("/")), key=_age, reverse=True)
    for folder in candidates:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    return None


def _age(folder: Path) -> list[int]:
    """Orders 9.6 before 15 before 16, which text would not."""
    return [int(digits) for digits in re.findall(r"\d+", str(folder))]


def install_with_apt(*, apt: str | None, root: bool, defaults: Path = CLUSTER_DEFAULTS) -> str:
    """Install with that apt-get, if there is one and we are root; what came of it, as a sentence."""
    # Only now: the keeper runs this file by itself, and finds nothing beside it.
    from tests.servers.apt import install

    with _no_cluster_of_its_own(defaults):
        return install("postgresql", apt=apt, root=root)


@contextlib.contextmanager
def _no_cluster_of_its_own(defaults: Path) -> Iterator[None]:
    """Keep Debian's package from starting a cluster; afterwards the machine's defaults hold again."""
    note = defaults / "placet-tests.conf"
    try:
        defaults.mkdir(parents=True, exist_ok=True)
        note.write_text("create_main_cluster = false\n")
    except OSError as error:
        print(f"Debian may start a cluster of its own: {error}", file=sys.stderr)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Held by one process of this user at a time; the kernel lets go of it if that process dies."""
    place = Path(tempfile.gettempdir()) / f"placet-postgres-{os.geteuid()}.lock"
    lock = os.open(place, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


# --- The server ---


class PostgresServer:
    """One server with a data folder of its own. Starts with `start` or `with`, not when built."""

    def __init__(self, *, settings: dict[str, str] | None = None) -> None:
        """`settings` are added to those above, e.g. `{"max_connections": "20"}`."""
        self._settings = SETTINGS | (settings or {})
        self._folder: Path | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the postmaster, the parent of every other process of the server."""
        if not self.running:
            raise RuntimeError("The Postgres server is not running; call start() first.")
        return self._pid

    @property
    def port(self) -> int:
        """Chosen at the first start, kept until `stop`."""
        if not self._port:
            raise RuntimeError("The Postgres server has no port yet; call start() first.")
        return self._port

    @property
    def folder(self) -> Path:
        """Holds `data` and `server.log`, from the first start until `stop`."""
        if self._folder is None:
            raise RuntimeError("The Postgres server has no folder yet; call start() first.")
        return self._folder

    def start(self) -> None:
        """Start, and return once it answers. After `kill` it recovers what was committed.

        Raises:
            PostgresMissing: there is nothing to start.
            PostgresFailed: it did not come up within 30 s; the folder is gone, unless it held data before.
        """
        if self.running:
            return
        deadline = time.monotonic() + START_LIMIT_S
        fresh = self._folder is None
        try:
            if fresh:
                self._folder = _make_folder()
                _fill(self.folder, programs())
            self._launch(deadline, choose_port=fresh)
        except BaseException:
            if fresh:
                self.stop("immediate")
            raise

    def stop(self, mode: Mode = "fast") -> None:
        """End the server and remove its folder. Does nothing if there is none."""
        crashed = not self.running
        self._end(SIGNALS[mode])
        if self._folder is not None:
            if crashed:
                _release_shared_memory(self._folder / "data")
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self._port = None, 0

    def restart(self, mode: Mode = "immediate") -> None:
        """End the server and start it on the same data and port; "immediate" leaves it to recover."""
        self._end(SIGNALS[mode])
        self.start()

    def kill(self) -> None:
        """SIGKILL every process of the server. The data stays: `start` recovers it, `stop` removes it."""
        self._end("SIGKILL")

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"placet_{secrets.token_hex(6)}"
        self._command(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database that `create_database` made, and every connection to it."""
        name = url.removeprefix(self.url(""))
        if not re.fullmatch(r"placet_[0-9a-f]{12}", name):
            raise ValueError(f"{url!r} was not made by this server's create_database().")
        self._command(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def empty_database(self, url: str) -> bool:
        """Cut off whoever is connected to a database, and remove all that is in it; whether it could."""
        import psycopg

        try:
            with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
                connection.execute(_CUT_OFF)
                connection.execute(_EMPTY)
        except psycopg.Error:
            return False
        return True

    def log(self, lines: int = 30) -> str:
        """The end of the server's log."""
        try:
            text = (self.folder / "server.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _connect(self, timeout_s: float) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        # connect_timeout counts whole seconds, and takes anything under two for two.
        return psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=max(2, int(timeout_s)))

    def _command(self, statement: str) -> None:
        with self._connect(START_LIMIT_S) as connection:
            connection.execute(statement)

    def _launch(self, deadline: float, *, choose_port: bool) -> None:
        attempts = 5 if choose_port else 1
        for attempt in range(1, attempts + 1):
            if choose_port:
                self._port = _free_port()
            self._run_keeper()
            try:
                self._wait_until_ready(deadline)
                return
            except BaseException as error:
                self._end("SIGKILL")
                # Somebody took the port between the look and the start: another one will do.
                taken = isinstance(error, PostgresFailed) and "Address already in use" in str(error)
                if not taken or attempt == attempts:
                    raise

    def _run_keeper(self) -> None:
        options = [f"--{name}={value}" for name, value in (self._settings | {"port": str(self.port)}).items()]
        order = {
            "parent": os.getpid(),
            "folder": str(self.folder),
            "command": [str(programs() / "postgres"), "-D", str(self.folder / "data"), *options],
            "account": _account(),
        }
        with (self.folder / "server.log").open("ab") as log:
            # A failed start shows its own words, not those of an earlier one.
            log.truncate(0)
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, "--keep", json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                # Ctrl-C in a terminal goes to the whole group; the keeper has work to do after it.
                start_new_session=True,
            )
        assert self._keeper.stdout is not None
        self._pid = int(self._keeper.stdout.readline() or 0)

    def _wait_until_ready(self, deadline: float) -> None:
        import psycopg

        while True:
            if not self.running:
                raise PostgresFailed("Postgres ended while it was starting.", log=self.log())
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise PostgresFailed(f"Postgres did not answer within {START_LIMIT_S:g} s.", log=self.log())
            with contextlib.suppress(psycopg.OperationalError), self._connect(left_s) as connection:
                row = connection.execute("SHOW data_directory").fetchone()
                # Whoever took the port a moment earlier may be a Postgres too.
                if row is not None and Path(row[0]).resolve() == (self.folder / "data").resolve():
                    return
            time.sleep(0.02)

    def _end(self, name: str) -> None:
        """Pass a signal on and wait until every process of the server is gone."""
        keeper, self._keeper, self._pid = self._keeper, None, 0
        if keeper is None:
            return
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        try:
            for order in (name, "SIGKILL"):
                with contextlib.suppress(BrokenPipeError):
                    keeper.stdin.write(f"{order}\n".encode())
                with contextlib.suppress(subprocess.TimeoutExpired):
                    keeper.wait(STOP_LIMIT_S)
                    return
        finally:
            keeper.stdin.close()
            keeper.stdout.close()
        raise PostgresFailed(f"Postgres did not end within {2 * STOP_LIMIT_S:g} s.", log=self.log())


def _account() -> tuple[int, int] | None:
    """Whom to run as: nobody else, unless we are root, as whom Postgres refuses to run."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise RuntimeError(
        "Postgres does not run as root, and there is no user 'postgres' or 'nobody' to run it as."
    )


def _run_as(account: Sequence[int] | None) -> dict[str, Any]:
    """What makes subprocess run a program as that account, and with nothing of ours in its environment."""
    place = {"env": {"PATH": os.defpath, "LC_ALL": "C"}, "stdin": subprocess.DEVNULL}
    if account is None:
        return place
    return place | {"user": account[0], "group": account[1], "extra_groups": []}


def _make_folder() -> Path:
    account = _account()
    parent = Path(tempfile.gettempdir())
    # root's own temporary folder may be closed to the account that has to work in it.
    if account and not all(place.stat().st_mode & 0o001 for place in (parent, *parent.parents)):
        parent = Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="placet-postgres-", dir=parent))
    if account:
        os.chown(folder, *account)
    return folder


def _fill(folder: Path, tools: Path) -> None:
    """Make `folder/data`: unpacked from what initdb made once, which takes a fifth of the time.

    One archive and not a folder, because cleaners of /tmp remove old files one by one.
    """
    account = _account()
    kind = hashlib.sha256(repr((str(tools), version(tools), INITDB, account)).encode()).hexdigest()[:12]
    template = Path(tempfile.gettempdir()) / f"placet-postgres-{os.geteuid()}-{kind}.tar"
    with _one_at_a_time():
        if not _is_ours(template):
            _initdb(folder, tools, account)
            # Renamed when complete: whoever finds it, finds all of it.
            part = template.with_suffix(".part")
            part.unlink(missing_ok=True)
            # "x" follows no link that somebody may have put there.
            with part.open("xb") as file, tarfile.open(fileobj=file, mode="w") as archive:
                archive.add(folder / "data", "data")
            part.replace(template)
            return
    with tarfile.open(template) as archive:
        # As the argument `filter`, Python 3.11 knows it only from 3.11.4 on.
        archive.extraction_filter = lambda member, _: member
        archive.extractall(folder, numeric_owner=True)


def _is_ours(file: Path) -> bool:
    """Anyone may put a file of that name into /tmp; only our own is unpacked."""
    try:
        return file.lstat().st_uid == os.geteuid() and file.is_file() and not file.is_symlink()
    except FileNotFoundError:
        return False


def _initdb(folder: Path, tools: Path, account: tuple[int, int] | None) -> None:
    ran = subprocess.run(
        [tools / "initdb", "-D", folder / "data", *INITDB],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=START_LIMIT_S,
        **_run_as(account),
    )
    if ran.returncode != 0:
        raise PostgresFailed(f"initdb failed with exit code {ran.returncode}.", log=ran.stdout[-4000:])


def _free_port() -> int:
    """A port nobody listens on.

    From below the range the kernel hands out to outgoing connections: nobody is given it during a restart.
    """
    for _ in range(100):
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise RuntimeError("Found no free port on 127.0.0.1 between 15000 and 32000.")


def _release_shared_memory(data: Path) -> None:
    """Give back the few bytes of System V memory that a killed postmaster leaves for good."""
    with contextlib.suppress(OSError, IndexError):
        # The seventh line of the lock file is "key id"; a server that ended in order has removed the file.
        segment = (data / "postmaster.pid").read_text().splitlines()[6].split()[1]
        subprocess.run(["ipcrm", "-m", segment], capture_output=True)


# --- The keeper ---


def _keep(order: dict[str, Any]) -> int:
    """Run the server until it ends; end it when the process that asked for it is gone.

    A line on stdin is a signal to pass on. The end of stdin, or another parent than the one that asked, means
    that nobody needs the server any more. The second sign is for a parent whose own forks hold the pipe open.

    A death signal (PR_SET_PDEATHSIG) was not used: it comes at the end of the thread that started the server,
    and it leaves the folder.
    """
    # Every process of the server inherits the writing end; none writes. It ends with the last of them.
    life, held_by_server = os.pipe()
    server = subprocess.Popen(
        order["command"],
        stdout=sys.stderr,
        stderr=sys.stderr,
        cwd=order["folder"],
        pass_fds=[held_by_server],
        **_run_as(order["account"]),
    )
    os.close(held_by_server)
    print(server.pid, flush=True)

    while True:
        ready, _, _ = select.select([0, life], [], [], 1.0)
        if life in ready:
            return server.wait()
        lines = os.read(0, 4096).decode().split() if 0 in ready else []
        if (0 in ready and not lines) or os.getppid() != order["parent"]:
            break
        for name in lines:
            _signal(server, name)

    # In order first, which also gives back shared memory.
    for name in ("SIGQUIT", "SIGKILL"):
        _signal(server, name)
        if select.select([life], [], [], 8.0)[0]:
            break
    shutil.rmtree(order["folder"], ignore_errors=True)
    return server.wait()


def _signal(server: subprocess.Popen[bytes], name: str) -> None:
    if name != "SIGKILL":
        server.send_signal(signal.Signals[name])
        return
    # Each process of Postgres leads a group of its own, so there is no group to kill. A stopped postmaster
    # starts no further ones and reaps none: the list is complete, and every id on it is still its child's.
    server.send_signal(signal.SIGSTOP)
    for pid in [*_children(server.pid), server.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _children(parent: int) -> list[int]:
    """Empty without /proc, where the children of a killed postmaster still end at their next wait."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name, which may hold anything and ends with the last bracket: state, then parent.
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def main(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "--keep":
        return _keep(json.loads(arguments[1]))
    try:
        folder = programs()
    except PostgresMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(f"{version(folder)} in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
