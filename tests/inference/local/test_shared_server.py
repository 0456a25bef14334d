"""One server for all processes, and gone with the last: real servers, real processes, real kills.

The model is a few kilobytes, so that starting one takes a moment; everything else is as with a large one.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from placet.errors import ContextTooLong, ModelMissing, ModelTimeout, ModelUnavailable, RequestRefused
from placet.extras import install_command
from placet.inference.local.lock_file import LockFile
from placet.inference.local.model import LocalModel
from placet.inference.local.server import is_memory_short
from placet.inference.local.server_folder import server_folder
from placet.inference.local.shared import Lease, Served, is_serving, lease, serving, stop
from placet.inference.messages import Image, Text, User
from placet.inference.model import Piece, Request, Result, Words
from tests.inference.local.tiny_gguf import write_tiny_model

ROOT = Path(__file__).resolve().parents[3]

USER = """
import asyncio, os, sys
from pathlib import Path
from placet.inference.local.shared import Served, lease
served = Served(name="tiny", path=Path(sys.argv[1]), id="tiny", memory=0)
held = asyncio.run(lease(served, os.environ))
print(held.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "PYTHONPATH": str(ROOT / "src")}


@pytest.fixture
def served(tmp_path: Path, environment: dict[str, str]) -> Iterator[Served]:
    served = Served(name="tiny", path=write_tiny_model(tmp_path / "tiny.gguf"), id="tiny", memory=0)
    yield served
    # Whatever a test did: with it, its server is gone.
    until(lambda: not is_serving(served, environment))


@pytest.fixture
def start(served: Served, environment: dict[str, str]) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start a process that uses the model until it is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", USER, str(served.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def keeper_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def server_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def ask(held: Lease, path: str, key: str | None) -> int:
    """The status of an answer."""
    parts = urlsplit(held.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
        return connection.getresponse().status
    finally:
        connection.close()


# --- Whose it is ---


def test_two_processes_share_a_server_and_it_goes_with_the_last_however_they_end(
    start: Callable[[], subprocess.Popen[str]],
) -> None:
    first, second = start(), start()
    pid = server_of(first)
    assert server_of(second) == pid
    keeper = keeper_of(pid)

    # The one that started it goes first.
    first.kill()
    first.wait()
    third = start()
    assert server_of(third) == pid
    for process in (second, third):
        assert not is_gone(pid)
        process.kill()
        process.wait()

    until(lambda: is_gone(pid) and is_gone(keeper))


async def test_within_a_process_the_last_lease_counts(served: Served, environment: dict[str, str]) -> None:
    first = await lease(served, environment)
    second = await lease(served, environment)
    assert first.pid == second.pid
    assert first.key == second.key

    first.close()
    first.close()
    assert ask(second, "/health", None) == 200
    assert is_serving(served, environment)
    second.close()

    until(lambda: is_gone(second.pid))


async def test_a_server_lingers_after_its_last_user_and_then_ends(
    served: Served, environment: dict[str, str]
) -> None:
    lingering = msgspec.structs.replace(served, linger_s=1.5)
    first = await lease(lingering, environment)
    first.close()

    second = await lease(lingering, environment)

    assert second.pid == first.pid
    assert ask(second, "/health", None) == 200
    second.close()
    assert is_serving(served, environment)
    until(lambda: is_gone(first.pid))


async def test_a_lingering_server_ends_when_it_is_stopped(
    served: Served, environment: dict[str, str]
) -> None:
    held = await lease(msgspec.structs.replace(served, linger_s=600.0), environment)
    held.close()

    assert stop(served, environment)
    until(lambda: is_gone(held.pid))
    assert not stop(served, environment)
    again = await lease(served, environment)
    assert again.pid != held.pid
    again.close()


async def test_a_use_between_two_looks_begins_the_time_anew(
    served: Served, environment: dict[str, str]
) -> None:
    lingering = msgspec.structs.replace(served, linger_s=3.0)
    pids = set()
    for _ in range(4):
        held = await lease(lingering, environment)
        pids.add(held.pid)
        held.close()
        await asyncio.sleep(1.2)

    assert len(pids) == 1
    stop(served, environment)


def test_memory_that_others_need_is_seen(tmp_path: Path) -> None:
    told = tmp_path / "meminfo"
    for available, is_short in ((100_000, True), (9_000_000, False)):
        told.write_text(f"MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n")
        assert is_memory_short(str(told)) is is_short
    told.write_text("nonsense")
    assert not is_memory_short(str(told))


async def test_whoever_comes_while_it_goes_gets_one_that_stays(
    served: Served, environment: dict[str, str]
) -> None:
    pids = []
    for pause in (0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.1):
        held = await lease(served, environment)
        await asyncio.sleep(pause)
        assert ask(held, "/v1/models", held.key) == 200
        pids.append(held.pid)
        held.close()
        await asyncio.sleep(pause)

    assert len({*pids, (await lease(served, environment)).pid}) > 1


def test_a_starter_that_is_killed_while_it_starts_leaves_nothing(
    start: Callable[[], subprocess.Popen[str]], served: Served, environment: dict[str, str]
) -> None:
    starter = start()
    until(lambda: is_serving(served, environment))
    starter.kill()
    starter.wait()

    until(lambda: not is_serving(served, environment))
    assert server_of(start()) > 0


async def test_a_server_whose_keeper_is_killed_goes_with_it(
    served: Served, environment: dict[str, str]
) -> None:
    held = await lease(served, environment)
    os.kill(keeper_of(held.pid), signal.SIGKILL)

    until(lambda: is_gone(held.pid))
    again = await lease(served, environment, dead=held.key)

    assert again.pid != held.pid
    assert ask(again, "/health", None) == 200
    held.close()
    again.close()


async def test_a_server_that_is_known_to_be_dead_is_not_handed_out_again(
    served: Served, environment: dict[str, str]
) -> None:
    held = await lease(served, environment)
    keeper = keeper_of(held.pid)
    # A keeper that is slow to notice: the note of the dead server still lies there.
    os.kill(keeper, signal.SIGSTOP)
    os.kill(held.pid, signal.SIGKILL)
    asking = asyncio.create_task(lease(served, environment, dead=held.key))
    await asyncio.sleep(0.2)
    is_handed_out = asking.done()
    os.kill(keeper, signal.SIGCONT)
    again = await asking

    assert not is_handed_out
    assert again.key != held.key
    assert ask(again, "/health", None) == 200
    held.close()
    again.close()


async def test_a_server_that_only_hung_up_is_handed_out_again(
    served: Served, environment: dict[str, str]
) -> None:
    held = await lease(served, environment)

    again = await lease(served, environment, dead=held.key, start_s=30)

    assert again.pid == held.pid
    held.close()
    again.close()


# --- What others see of it ---


async def test_only_whoever_has_the_key_is_answered_and_nobody_else_can_see_it(
    served: Served, environment: dict[str, str]
) -> None:
    held = await lease(served, {**environment, "ANTHROPIC_API_KEY": "someone-elses"})
    folder = server_folder(served, environment)

    assert ask(held, "/v1/models", None) == 401
    assert ask(held, "/v1/models", held.key[:-1]) == 401
    assert ask(held, "/v1/models", held.key) == 200
    for path in ("/", "/slots", "/metrics"):
        assert ask(held, path, held.key) in (404, 501)
    for pid in (held.pid, keeper_of(held.pid)):
        assert held.key.encode() not in shown_of(pid)
        assert b"someone-elses" not in shown_of(pid)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert held.key not in (folder / "server.log").read_text()
    assert held.key not in repr(held)
    # Another address of this machine is not its own.
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", port_of(held))):
        pass
    held.close()


def shown_of(pid: int) -> bytes:
    """What the list of processes tells of one."""
    return Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()


def port_of(held: Lease) -> int:
    return urlsplit(held.url).port or 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_a_folder_of_somebody_else_is_not_trusted(served: Served, environment: dict[str, str]) -> None:
    folder = server_folder(served, environment)
    folder.mkdir(parents=True)
    os.chown(folder, 12345, 12345)

    with pytest.raises(ModelMissing, match="belongs to somebody else"):
        await lease(served, environment)


def test_a_runtime_folder_that_is_not_there_is_not_used(
    served: Served, environment: dict[str, str], tmp_path: Path
) -> None:
    mine = {"XDG_DATA_HOME": str(tmp_path / "data")}

    there = server_folder(served, {**mine, "XDG_RUNTIME_DIR": environment["XDG_RUNTIME_DIR"]})
    gone = server_folder(served, {**mine, "XDG_RUNTIME_DIR": str(tmp_path / "none")})

    assert there == Path(environment["XDG_RUNTIME_DIR"]) / "placet" / "tiny-tiny"
    assert gone == server_folder(served, mine) == tmp_path / "data" / "placet" / "run" / "tiny-tiny"


async def test_what_a_link_leads_to_is_left_alone(
    served: Served, environment: dict[str, str], tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (Path(environment["XDG_RUNTIME_DIR"]) / "placet").symlink_to(elsewhere)

    with pytest.raises(ModelMissing, match="is no folder, or a link"):
        await lease(served, environment)

    assert elsewhere.stat().st_mode & 0o777 == 0o755
    assert list(elsewhere.iterdir()) == []


def open_to_others(run: Path) -> None:
    run.chmod(0o755)


def no_folder(run: Path) -> None:
    run.rmdir()
    run.write_text("")


@pytest.mark.parametrize("spoil", [open_to_others, no_folder])
def test_a_runtime_folder_that_is_none_or_open_to_others_is_not_used(
    served: Served, environment: dict[str, str], tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(Path(environment["XDG_RUNTIME_DIR"]))

    found = server_folder(served, {**environment, "XDG_DATA_HOME": str(tmp_path / "data")})

    assert found == tmp_path / "data" / "placet" / "run" / "tiny-tiny"


async def test_who_uses_it_and_which_file_can_be_told(
    start: Callable[[], subprocess.Popen[str]], served: Served, environment: dict[str, str]
) -> None:
    assert serving(served, environment) is None
    process = start()
    pid = server_of(process)

    found = serving(served, environment)

    assert found is not None
    assert (found.pid, found.path, found.users) == (pid, served.path, (process.pid,))


# --- What others do meanwhile ---

FORKS = """
import asyncio, os, sys
from pathlib import Path
from placet.inference.local.lock_file import LockFile
from placet.inference.local.shared import Served, is_serving, lease
served = Served(name="tiny", path=Path(sys.argv[1]), id="tiny", memory=0)
lock = LockFile(Path(sys.argv[2]))
assert lock.try_lock()
held = asyncio.run(lease(served, os.environ))
parent_reads, child_writes = os.pipe()
child = os.fork()
if child == 0:
    held.close()
    lock.close()
    os.write(child_writes, b"closed")
    sys.stdin.read()
    os._exit(0)
os.read(parent_reads, 10)
other = LockFile(Path(sys.argv[2]))
print(held.is_held, other.try_lock(), is_serving(served, os.environ), held.pid, flush=True)
os._exit(0)
"""


def test_a_forked_child_neither_keeps_a_lock_nor_lets_it_go(
    served: Served, environment: dict[str, str], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS, str(served.path), str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    *found, pid = process.stdout.readline().split()
    process.wait()

    # The child still lives: it waits for the end of what it can read.
    until(lambda: is_gone(int(pid)))

    assert found == ["True", "False", "True"]
    lock = LockFile(tmp_path / "lock")
    assert lock.try_lock()
    lock.close()
    process.communicate()


async def test_one_that_hangs_while_it_starts_is_named(served: Served, environment: dict[str, str]) -> None:
    folder = server_folder(served, environment)
    folder.mkdir(mode=0o700, parents=True)
    starting = LockFile(folder / "starting.lock")
    assert starting.try_lock()
    starting.sign()

    with pytest.raises(ModelTimeout, match=f"by process {os.getpid()}, .*kill {os.getpid()}"):
        await lease(served, environment, start_s=0.2)

    starting.close()


async def test_one_that_hangs_after_it_has_started_holds_up_nobody(
    served: Served, environment: dict[str, str]
) -> None:
    held = await lease(served, environment)
    starting = LockFile(server_folder(served, environment) / "starting.lock")
    assert starting.try_lock()

    again = await lease(served, environment)

    assert again.pid == held.pid
    for each in (starting, held, again):
        each.close()


# --- What stops it ---


async def test_a_server_that_cannot_say_where_it_is_does_not_blame_the_model(
    served: Served, environment: dict[str, str]
) -> None:
    """As where the folder has no space left."""
    (server_folder(served, environment) / "server.part").mkdir(mode=0o700, parents=True)

    with pytest.raises(ModelMissing, match="cannot write to its folder") as caught:
        await lease(served, environment)

    assert "model pull" not in str(caught.value)


async def test_a_file_that_is_no_model_is_told_with_the_servers_own_words(
    served: Served, environment: dict[str, str]
) -> None:
    served.path.write_bytes(b"GGUF, not")

    with pytest.raises(ModelUnavailable) as caught:
        await lease(served, environment)

    assert "did not start" in str(caught.value)
    # Its library says more on a thread of its own, which may not come to it before the process ends.
    assert "Failed to init server" in str(caught.value) or "failed to load model" in str(caught.value)
    assert "placet model pull tiny" in str(caught.value)
    assert not is_serving(served, environment)


async def test_without_its_file_it_is_missing(served: Served, environment: dict[str, str]) -> None:
    served.path.unlink()

    with pytest.raises(ModelMissing, match="placet model pull tiny"):
        await lease(served, environment)


async def test_with_too_little_memory_nothing_is_started(served: Served, environment: dict[str, str]) -> None:
    hungry = msgspec.structs.replace(served, memory=2_300_000_000)

    with pytest.raises(ModelMissing, match=r"needs 2,300 MB of memory, and 1,000 MB are free"):
        await lease(hungry, environment, available=lambda: 1_000_000_000)

    assert not is_serving(served, environment)


# --- The model on it ---

QUESTION = Request(messages=[User("hello")], max_tokens=8)


async def test_a_model_asks_and_lets_go(served: Served, environment: dict[str, str]) -> None:
    model = LocalModel(environment, served=served)

    assert not is_serving(served, environment)
    result = await model.generate(QUESTION)
    pieces: list[Piece] = [piece async for piece in model.stream(QUESTION)]

    assert result.model == "tiny"
    assert result.usage is not None
    assert result.usage.output
    assert result.cost == 0.0
    assert isinstance(pieces[-1], Result)
    words = "".join(piece.text for piece in pieces if isinstance(piece, Words))
    assert (words, pieces[-1].text) == (result.text, result.text)
    assert is_serving(served, environment)
    await model.close()
    until(lambda: not is_serving(served, environment))


@pytest.mark.parametrize("kills_keeper", [False, True])
async def test_a_server_that_was_killed_is_replaced_at_the_next_question(
    served: Served, environment: dict[str, str], kills_keeper: bool
) -> None:
    model = LocalModel(environment, served=served)
    first = await model.generate(QUESTION)
    watching = await lease(served, environment)
    os.kill(keeper_of(watching.pid) if kills_keeper else watching.pid, signal.SIGKILL)

    again = await model.generate(QUESTION)
    os.kill((await lease(served, environment)).pid, signal.SIGKILL)
    pieces = [piece async for piece in model.stream(QUESTION)]

    assert again.text == first.text
    assert isinstance(pieces[-1], Result)
    watching.close()
    await model.close()


async def test_an_image_is_refused_before_anything_is_started(
    served: Served, environment: dict[str, str]
) -> None:
    model = LocalModel(environment, served=served)
    image = Image(data=b"\x89PNG")

    with pytest.raises(RequestRefused, match="'local' reads no images"):
        await model.generate(Request(messages=[User([Text("What is this?"), image])]))
    with pytest.raises(RequestRefused, match="'local' reads no images"):
        _ = [piece async for piece in model.stream(Request(messages=[User([image])]))]

    assert not is_serving(served, environment)


async def test_it_is_called_by_its_one_name(served: Served, environment: dict[str, str]) -> None:
    model = LocalModel(environment, served=served)

    with pytest.raises(ContextTooLong) as caught:
        await model.generate(Request(messages=[User("hello " * 3_000)]))

    assert "tiny" in str(caught.value)
    assert "local:" not in str(caught.value)
    await model.close()


async def test_what_is_missing_is_told_with_the_command_that_gets_it(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LocalModel({**environment, "PLACET_MODELS": str(tmp_path)})

    with pytest.raises(ModelMissing, match=r"1,117 MB.*placet model pull local"):
        await model.generate(QUESTION)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelMissing, match=re.escape(install_command("local"))):
        await model.generate(QUESTION)
