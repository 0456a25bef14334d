"""Whatever a command does, the runtime stays well, the result says what happened, and nothing runs on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import Cancel, Runtime, ToolSchema
from placet.ir.result import ActionResult
from placet.sandbox.confinement import Isolation
from placet.sandbox.limits import Limits
from placet.sandbox.workspace import Workspace
from placet.testing import action, proposal
from placet.tools.builtin.shell import shell_tools
from placet.tools.subprocess import CommandSpec, command_tool
from tests.sandbox.programs import Program, is_running, own_children, own_descriptors, wait_until

ROOT = Path(__file__).resolve().parents[2]


class Bench:
    """A runtime with one misbehaving program as a tool, and a shell."""

    def __init__(self, name: str, folder: Path, risk: Any = "destructive", **limits: Any) -> None:
        self.program = Program(name, folder)
        self.workspace = Workspace(folder)
        self.rt = Runtime()
        spec = CommandSpec(argv=self.program.argv, folder=self.workspace.fd, limits=Limits(**limits))
        for tool in (
            command_tool(ToolSchema(name="program", risk=risk), spec),
            *shell_tools(self.workspace, isolation=Isolation("none")),
        ):
            self.rt.tools.add(tool)

    async def run(self, *, cancel: Cancel | None = None, **fields: Any) -> ActionResult:
        plan = proposal(action("a", "program", **fields))
        return (await self.rt.execute(plan, cancel=cancel))["a"]

    async def assert_well(self, processes: int) -> None:
        """All of it has ended, and the next call works."""
        assert len(self.program.seen()) >= processes
        assert self.program.running() == []
        call = action("next", "shell", parameters={"command": "echo well"})
        result = await self.rt.execute(proposal(call))
        assert result["next"].output == {
            "exit_code": 0,
            "stdout": "well\n",
            "stderr": "",
            "isolation": "none",
        }


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[Any]:
    made: list[Bench] = []
    before, children = own_descriptors(), own_children()

    def make(name: str, **limits: Any) -> Bench:
        made.append(Bench(name, tmp_path, **limits))
        return made[-1]

    yield make
    for bench in made:
        bench.workspace.close()
        bench.program.clear()
    more = {each for each in own_descriptors() - before if "eventpoll" not in each and "socket" not in each}
    assert not more
    assert own_children() == children


@pytest.mark.parametrize(
    "name", ["ignores every signal it can", "stops", "leaves a chain", "closes stdin and hangs"]
)
async def test_its_time_ends_whatever_it_is_up_to(benches: Any, name: str) -> None:
    bench = benches(name, time_s=0.5)

    result = await bench.run(parameters={"text": "x" * 1_000_000})

    assert result.status == "unknown", "its effect may have happened"
    assert "it was ended after 0.5 s, the time it had" in result.error
    await bench.assert_well(9 if name == "leaves a chain" else 1)


async def test_a_daemon_that_holds_the_output_open_is_not_waited_for(benches: Any) -> None:
    bench = benches("leaves a daemon")

    result = await bench.run()

    assert result.status == "failed"
    assert "malformed JSON" in result.error, "what it said was read to the end: 'up done'"
    await bench.assert_well(2)


async def test_a_daemon_is_told_of_by_the_shell(benches: Any) -> None:
    bench = benches("leaves a daemon")
    words = " ".join(f"'{part}'" for part in bench.program.argv if "\n" not in part and part != "-c")
    source = bench.workspace.folder / "program.py"
    source.write_text(bench.program.argv[4])
    command = words.replace(f"'{bench.program.pids}'", f"program.py '{bench.program.pids}'")

    result = await bench.rt.execute(proposal(action("a", "shell", parameters={"command": command})))

    output = result["a"].output
    assert output["exit_code"] == 0
    assert output["stdout"] in ("up done", "doneup "), "two processes wrote it, in whichever order"
    assert output["note"] == "1 process that it had started was still running and was ended"
    await bench.assert_well(2)


async def test_a_flood_is_cut(benches: Any) -> None:
    bench = benches("hangs")
    flood = action("a", "shell", parameters={"command": "echo $$; yes"})

    result = await bench.rt.execute(proposal(flood))

    output = result["a"].output
    assert (output["exit_code"], output["ended_by"], len(output["stdout"])) == (None, "output", 10 * 1024**2)
    assert not is_running(int(output["stdout"].split("\n")[0]))
    await bench.assert_well(0)


async def test_a_closed_or_unread_input_harms_nobody(benches: Any) -> None:
    bench = benches("closes stdin")
    unread = action("a", "shell", parameters={"command": "true", "stdin": "x" * 3_000_000})

    result = await bench.rt.execute(proposal(unread))
    closed = await bench.run(parameters={"text": "x" * 3_000_000})

    assert result["a"].output["exit_code"] == 0
    assert "Cannot read the answer" in (closed.error or ""), "it said 'done', which is no JSON"
    await bench.assert_well(1)


@pytest.mark.parametrize("name", ["eats memory", "eats memory in parts"])
async def test_memory_is_limited(benches: Any, name: str) -> None:
    bench = benches(name, memory_bytes=80_000_000)

    result = await bench.run()

    assert result.status == "unknown"
    assert "it was ended for using more than 80000000 bytes of memory" in result.error
    await bench.assert_well(1)


async def test_processes_are_limited(benches: Any) -> None:
    bench = benches("forks", processes=20)

    result = await bench.run()

    assert "it was ended for running more than 20 processes at a time" in result.error
    await bench.assert_well(1)


@pytest.mark.parametrize("name", ["ignores every signal it can", "leaves a chain"])
async def test_a_hard_cancel_ends_it_all(benches: Any, name: str) -> None:
    bench = benches(name)
    cancel = Cancel()
    running = asyncio.create_task(bench.run(cancel=cancel))
    await bench.program.until_seen(9 if name == "leaves a chain" else 1)

    cancel.cancel("stop it", hard=True)
    result = await running

    assert result.status == "unknown"
    assert result.error is not None
    assert result.error.startswith("canceled: stop it; it was stopped in flight")
    assert bench.program.running() == []
    await bench.assert_well(1)


async def test_the_time_of_the_action_ends_it_all(benches: Any) -> None:
    bench = benches("leaves a chain")

    result = await bench.run(timeout_ms=500)

    assert result.status == "unknown"
    assert result.error == "action timed out after 500 ms"
    (event,) = bench.rt.events.query(kind="action_unknown", action="a")
    assert "left_behind" not in event.data
    await bench.assert_well(9)


async def test_many_that_hang_are_ended_together(benches: Any) -> None:
    bench = benches("leaves a chain", risk="read_only")
    cancel = Cancel()
    plan = proposal(*(action(f"a{n}", "program") for n in range(5)))
    running = asyncio.create_task(bench.rt.execute(plan, cancel=cancel))
    await bench.program.until_seen(45)

    cancel.cancel("stop it", hard=True)
    result = await running

    assert result.outcome == "canceled"
    await bench.assert_well(45)


HOST = """
import asyncio, json, os, sys, time
from placet import Runtime, ToolSchema
from placet.sandbox.limits import Limits
from placet.testing import action, proposal
from placet.tools.subprocess import CommandSpec, command_tool

argv, copy = json.loads(sys.argv[1]), sys.argv[2]

async def fork_later():
    # A child that is a copy of the host holds the same pipes open when the host is dead.
    await asyncio.sleep(0.3)
    if copy and os.fork() == 0:
        time.sleep(60)
        os._exit(0)

async def main():
    rt = Runtime()
    # Without limits nobody looks from time to time: the death of the host must be heard.
    limits = Limits(memory_bytes=None, processes=None) if copy else Limits()
    rt.tools.add(command_tool(ToolSchema(name="program"), CommandSpec(argv=argv, folder=".", limits=limits)))
    await asyncio.gather(rt.execute(proposal(action("a", "program"))), fork_later())

asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["ignores every signal it can", "leaves a chain"])
def test_when_the_host_is_killed_so_is_its_command(tmp_path: Path, name: str) -> None:
    program = Program(name, tmp_path)
    host = _start_host(program, tmp_path, copy="")
    try:
        wait_until(lambda: len(program.seen()) >= (9 if name == "leaves a chain" else 1))
        host.kill()
        host.wait()

        wait_until(lambda: not program.running())
    finally:
        host.kill()
        host.wait()
        program.clear()


@pytest.mark.parametrize("first", ["host", "what it is forked from"])
def test_also_when_it_is_killed_with_what_commands_are_forked_from(tmp_path: Path, first: str) -> None:
    program = Program("leaves a chain", tmp_path)
    host = _start_host(program, tmp_path, copy="")
    try:
        wait_until(lambda: len(program.seen()) >= 9)
        children = Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()
        assert len(children) == 1
        both = [host.pid, int(children[0])]
        for pid in both if first == "host" else reversed(both):
            os.kill(pid, signal.SIGKILL)
        host.wait()

        wait_until(lambda: not program.running())
    finally:
        host.kill()
        host.wait()
        program.clear()


def test_also_when_a_copy_of_the_host_lives_on(tmp_path: Path) -> None:
    program = Program("leaves a chain", tmp_path)
    host = _start_host(program, tmp_path, copy="copy")
    copies: list[int] = []
    try:
        wait_until(lambda: len(program.seen()) >= 9)
        wait_until(lambda: copies.extend(_forked(host.pid)) or copies)
        host.kill()
        host.wait()

        wait_until(lambda: not program.running())
        assert is_running(copies[0]), "it held the pipes open all the time"
    finally:
        host.kill()
        host.wait()
        for pid in copies:
            os.kill(pid, signal.SIGKILL)
        program.clear()


TELLING_HOST = """
import asyncio, ctypes, json, os, sys
from placet.sandbox.command import run_command

if sys.argv[2:]:
    # Root may do everything: give its rights away (24 is PR_CAPBSET_DROP) and be a user like any other.
    for right in range(41):
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
    os.execv(sys.executable, sys.orig_argv[:-1])
finished = asyncio.run(run_command(json.loads(sys.argv[1]), folder="."))
print(json.dumps([finished.exit_code, finished.ended_by, finished.stdout.decode(), finished.note]))
"""


@pytest.mark.parametrize("rights", ["those of the test", "none"])
def test_no_command_can_write_what_its_host_believes(tmp_path: Path, rights: str) -> None:
    """Neither through the descriptors of the keeper nor through those of the host."""
    program = Program("writes wherever it can", tmp_path)

    told = _run_in_host(program, tmp_path, rights)

    assert told == [3, "itself", "tried", ""]


def test_nobody_of_the_same_user_can_look_into_a_keeper(tmp_path: Path) -> None:
    program = Program("looks into its keeper", tmp_path)

    told = _run_in_host(program, tmp_path, "none")

    assert told == [0, "itself", "- - - - ", ""]


def _run_in_host(program: Program, folder: Path, rights: str) -> Any:
    """What a host of its own says of how a program ended."""
    argv = [
        sys.executable,
        "-c",
        TELLING_HOST,
        json.dumps(program.argv),
        *(["none"] if rights == "none" else []),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    out = folder / "out"
    # Into a file: one of the programs writes into every pipe that it finds.
    with out.open("wb") as file:
        subprocess.run(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
        )
    return json.loads(out.read_text())


def _start_host(program: Program, folder: Path, copy: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", HOST, json.dumps(program.argv), copy]
    return subprocess.Popen(argv, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


def _forked(host: int) -> list[int]:
    """Children of the host that are the same program as the host."""
    line = Path(f"/proc/{host}/cmdline").read_bytes()
    children = Path(f"/proc/{host}/task/{host}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes() == line]
