"""The resident process that commands are forked from: whatever happens to it, none is lost or repeated."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from placet import Cancel, Runtime, ToolSchema
from placet.errors import ToolError
from placet.sandbox import supervisor as module
from placet.sandbox.command import ending, run_command
from placet.sandbox.isolation import By, Facts
from placet.sandbox.limits import Limits
from placet.sandbox.processes import _children
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.supervisor import Supervisor, supervisor
from placet.sandbox.workspace import Workspace
from placet.testing import action, proposal
from placet.tools.subprocess import CommandSpec, command_tool
from tests.sandbox.programs import Program, is_running, own_children, own_descriptors, wait_until


@pytest.fixture
def resident() -> Iterator[Supervisor]:
    """The resident process that the next command comes from."""
    module._close_all()
    yield supervisor({})
    module._close_all()


async def test_all_commands_come_from_one_process(resident: Supervisor, tmp_path: Path) -> None:
    before = own_children()
    for _ in range(5):
        await run_command(["true"], folder=str(tmp_path))

    assert supervisor({}) is resident
    assert own_children() == before


# Less time than the program takes: one that nobody ends in between is ended for that, not from outside.
@pytest.mark.parametrize("limits", [Limits(), Limits(time_s=20, memory_bytes=None, processes=None)])
async def test_when_it_is_killed_its_commands_end_and_the_next_one_runs(
    resident: Supervisor, tmp_path: Path, limits: Limits
) -> None:
    program = Program("leaves a chain", tmp_path)
    task = asyncio.create_task(run_command(program.argv, folder=str(tmp_path), limits=limits))
    await program.until_seen(9)

    resident.process.kill()
    finished = await task
    after = await run_command(["echo", "again"], folder=str(tmp_path))

    assert (finished.ended_by, finished.exit_code) == ("cancel", None)
    assert "forked from was killed" in ending(finished, limits)
    assert program.running() == []
    assert (after.stdout, after.note) == (b"again\n", "")
    assert supervisor({}) is not resident


@pytest.mark.parametrize("by", ["bubblewrap", "landlock"])
async def test_when_it_is_killed_confined_commands_end_too(
    resident: Supervisor, tmp_path: Path, by: By
) -> None:
    # Nobody else's, also where the tests are run twice at once.
    mark = f"1003.{os.getpid()}"
    command = f"trap '' TERM HUP; setsid sleep {mark} & sleep {mark} & : > began; wait"
    with closing(Workspace(tmp_path)) as workspace:
        sandbox = Sandbox(workspace, by, Facts())
        task = asyncio.create_task(run_command(["sh", "-c", command], folder=workspace.fd, sandbox=sandbox))
        await asyncio.to_thread(wait_until, lambda: (tmp_path / "began").exists())
        await asyncio.to_thread(wait_until, lambda: len(_running(f"sleep {mark}")) == 2)

        resident.process.kill()
        finished = await task
        after = await run_command(["echo", "again"], folder=workspace.fd, sandbox=sandbox)

    assert (finished.ended_by, finished.exit_code) == ("cancel", None)
    assert _running(f"sleep {mark}") == []
    assert after.stdout == b"again\n"


def _running(command: str) -> list[int]:
    """Processes with these words as their command line."""
    found = subprocess.run(["pgrep", "-fx", command], capture_output=True, text=True, check=False)
    return [pid for pid in map(int, found.stdout.split()) if is_running(pid)]


async def test_runtimes_of_one_process_share_it_and_nothing_else(
    resident: Supervisor, tmp_path: Path
) -> None:
    program = Program("hangs", tmp_path)
    hangs = CommandSpec(argv=program.argv, folder=str(tmp_path))
    waits = CommandSpec(argv=["sh", "-c", "cat go; echo 1"], folder=str(tmp_path))
    os.mkfifo(tmp_path / "go")
    one, other = Runtime(), Runtime()
    one.tools.add(command_tool(ToolSchema(name="program"), hangs))
    other.tools.add(command_tool(ToolSchema(name="program"), waits))
    cancel = Cancel()
    plan = proposal(action("a", "program"))
    canceled = asyncio.create_task(one.execute(plan, cancel=cancel))
    stays = asyncio.create_task(other.execute(plan))
    await program.until_seen(1)

    cancel.cancel("stop it", hard=True)
    outcome = (await canceled).outcome
    await asyncio.to_thread((tmp_path / "go").write_text, "")

    assert outcome == "canceled"
    assert program.running() == []
    assert (await stays)["a"].output == 1
    assert supervisor({}) is resident


async def test_one_that_was_never_started_is_started_by_the_next(
    resident: Supervisor, tmp_path: Path
) -> None:
    os.kill(resident.process.pid, signal.SIGSTOP)
    task = asyncio.create_task(run_command(["sh", "-c", "echo x >> ran"], folder=str(tmp_path)))
    await asyncio.sleep(0.05)

    resident.process.kill()
    finished = await task

    assert finished.exit_code == 0
    assert (tmp_path / "ran").read_text() == "x\n"


async def test_one_that_is_stopped_is_woken(resident: Supervisor, tmp_path: Path) -> None:
    os.kill(resident.process.pid, signal.SIGSTOP)

    finished = await run_command(["echo", "x"], folder=str(tmp_path), limits=Limits(time_s=30))

    assert finished.stdout == b"x\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("generation", [1, 2])
async def test_one_that_waits_for_the_next_command_may_be_killed_or_stopped(
    resident: Supervisor, tmp_path: Path, number: int, generation: int
) -> None:
    """Generation 1 is the keeper that waits, 2 the process below it that would become the command."""
    await run_command(["true"], folder=str(tmp_path))

    def waiting() -> list[int]:
        pids = [resident.process.pid]
        for _ in range(generation):
            pids = [child for pid in pids for child in _children(pid)]
        return pids

    await asyncio.to_thread(wait_until, lambda: len(waiting()) == 1)
    for pid in waiting():
        os.kill(pid, number)
    finished = await run_command(["echo", "x"], folder=str(tmp_path), limits=Limits(time_s=20))

    assert finished.stdout == b"x\n"


async def test_where_none_can_be_started_the_call_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module._close_all()
    monkeypatch.setattr(module, "INTERPRETER", "/nowhere/python")

    with pytest.raises(ToolError) as caught:
        await run_command(["true"], folder=str(tmp_path))

    assert caught.value.retry
    assert not caught.value.unknown


async def test_what_a_killed_keeper_leaves_behind_is_ended(resident: Supervisor, tmp_path: Path) -> None:
    command = (
        "(setsid sleep 60 & echo $! >> pids); (sleep 61 & echo $! >> pids); echo $PPID > keeper; sleep 62"
    )
    task = asyncio.create_task(run_command(["sh", "-c", command], folder=str(tmp_path)))
    await asyncio.to_thread(wait_until, lambda: (tmp_path / "keeper").exists())

    os.kill(int((tmp_path / "keeper").read_text()), signal.SIGKILL)
    await task

    left = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(left) == 2
    await asyncio.to_thread(wait_until, lambda: not any(map(is_running, left)))


async def test_two_hundred_at_once(tmp_path: Path) -> None:
    before = own_descriptors()
    command = ["sh", "-c", "sleep 0.1; echo $$"]

    done = await asyncio.gather(*(run_command(command, folder=str(tmp_path)) for _ in range(200)))

    assert [each.exit_code for each in done] == [0] * 200
    assert len({each.stdout for each in done}) == 200
    assert {each for each in own_descriptors() - before if "pipe" in each or "memfd" in each} == set()


def test_every_thread_may_start_commands(tmp_path: Path) -> None:
    outputs: list[bytes] = []

    def work(number: int) -> None:
        for _ in range(5):
            outputs.append(asyncio.run(run_command(["echo", str(number)], folder=str(tmp_path))).stdout)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(outputs) == sorted(b"%d\n" % number for number in range(8) for _ in range(5))


async def test_it_is_open_to_no_command(tmp_path: Path) -> None:
    finished = await run_command(["sh", "-c", "ls /proc/self/fd"], folder=str(tmp_path))

    # 3 is that of ls itself.
    assert finished.stdout.split() == [b"0", b"1", b"2", b"3"]


async def test_descriptors_have_the_numbers_that_they_have_here(tmp_path: Path) -> None:
    pairs = [os.pipe() for _ in range(4)]
    # Down to the lowest that are free, in which the resident process has its own.
    numbers = [read for read, _ in reversed(pairs)]
    try:
        for k, (_, write) in enumerate(reversed(pairs)):
            os.write(write, b"%d" % k)
        finished = await run_command(
            [sys.executable, "-c", f"import os; [os.write(1, os.read(n, 1)) for n in {numbers}]"],
            folder=str(tmp_path),
            pass_fds=numbers,
        )
    finally:
        for number in (end for pair in pairs for end in pair):
            os.close(number)

    assert finished.stdout == b"0123"


async def test_files_get_the_permissions_that_they_would_get_here(tmp_path: Path) -> None:
    modes = []
    before = os.umask(0o077)
    try:
        for mask, name in ((0o077, "a"), (0o002, "b")):
            os.umask(mask)
            await run_command(["touch", name], folder=str(tmp_path))
            modes.append(stat.S_IMODE((tmp_path / name).stat().st_mode))
    finally:
        os.umask(before)

    assert modes == [0o600, 0o664]


async def test_a_folder_is_found_from_where_the_host_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    await run_command(["true"], folder=str(tmp_path))
    monkeypatch.chdir(tmp_path)

    finished = await run_command(["pwd"], folder="here")

    assert finished.stdout.decode().strip() == str(tmp_path / "here")


HOST = """
import asyncio, os, sys
from placet.sandbox.command import run_command
from placet.sandbox.supervisor import supervisor
async def main(n):
    return (await run_command(["sh", "-c", "echo $PPID"], folder=sys.argv[1])).stdout
first = asyncio.run(main(1))
child = os.fork()
if child == 0:
    second = asyncio.run(main(2))
    print(supervisor({}).process.pid, flush=True)
    os._exit(0 if second else 1)
assert os.waitpid(child, 0)[1] == 0
third = asyncio.run(main(3))
print(supervisor({}).process.pid, flush=True)
"""


def test_a_fork_of_the_host_has_its_own_and_none_stays(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOST, str(tmp_path)], capture_output=True, text=True, check=True
    )

    theirs, ours = map(int, done.stdout.split())
    assert theirs != ours
    wait_until(lambda: not is_running(theirs) and not is_running(ours))


def _in_a_host(code: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = f"import asyncio, os, resource, sys\nfrom placet.sandbox.command import run_command\n{code}"
    argv = [sys.executable, *options, "-c", program, str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)


ECHO = """
def echo():
    return asyncio.run(run_command(["echo", "x"], folder=sys.argv[1])).stdout.decode().strip()
"""


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    few = "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\nprint(echo(), echo())"

    assert _in_a_host(ECHO + few, tmp_path).stdout == "x x\n"


def test_a_host_that_closes_its_descriptors_gets_another(tmp_path: Path) -> None:
    closes = """
first = echo()
os.closerange(3, 256)
mine = os.pipe()
print(first, echo(), os.fstat(mine[0]).st_size)
"""

    assert _in_a_host(ECHO + closes, tmp_path).stdout == "x x 0\n"


def test_a_fork_of_the_host_lets_go_of_it_without_a_warning(tmp_path: Path) -> None:
    forks = """
print(echo(), flush=True)
child = os.fork()
if not child:
    print(echo(), flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    done = _in_a_host(ECHO + forks, tmp_path, "-X", "dev", "-W", "error")

    assert (done.stdout, done.stderr) == ("x\nx\n", "")


def test_when_the_host_ends_one_that_is_stopped_ends_too(tmp_path: Path) -> None:
    host = f"""
import asyncio, os, signal, sys
from placet.sandbox.command import run_command
from placet.sandbox.supervisor import supervisor
async def main():
    task = asyncio.create_task(run_command(["sleep", "60"], folder={str(tmp_path)!r}))
    await asyncio.sleep(0.5)
    print(supervisor({{}}).process.pid, flush=True)
    supervisor({{}}).process.send_signal(signal.SIGSTOP)
    os._exit(0)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", host], capture_output=True, text=True, check=True)

    wait_until(lambda: not is_running(int(done.stdout)))
