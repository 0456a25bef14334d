"""A command in a real sandbox, through all its layers: what it gets, what is told of it, what is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from placet.errors import ToolError
from placet.sandbox.command import Finished, _environment_of_keeper, run_command
from placet.sandbox.hosts import HostFilter
from placet.sandbox.isolation import Facts
from placet.sandbox.limits import MIB, Limits
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.self_test import self_test
from placet.sandbox.workspace import Workspace
from tests.sandbox.programs import is_running, wait_until

Run = Callable[..., "asyncio.Future[Finished]"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


async def run(
    folder: Path, command: str | list[str], *, limits: Limits | None = None, **options: object
) -> Finished:
    workspace = Workspace(folder)
    try:
        sandbox = Sandbox(workspace, "bubblewrap", Facts(), **options)  # type: ignore[arg-type]
        argv = ["sh", "-c", command] if isinstance(command, str) else command
        return await run_command(
            argv, folder=workspace.fd, limits=limits or Limits(time_s=30), sandbox=sandbox
        )
    finally:
        workspace.close()


@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def test_what_it_makes_belongs_to_whoever_owns_the_workspace(work: Path) -> None:
    finished = await run(work, "echo text > made && mkdir folder && id -u && pwd")

    assert finished.exit_code == 0, finished.stderr
    assert (work / "made").read_text() == "text\n"
    owners = {(work / made).stat().st_uid for made in (".", "made", "folder")}
    assert len(owners) == 1
    assert finished.stdout.decode().splitlines()[1] == str(work)
    if os.geteuid() == 0:
        assert finished.stdout.split()[0] != b"0"


async def test_a_workspace_that_became_another_is_shown_as_it_is(work: Path) -> None:
    """Root's folders are prepared once: not those of before, and not as they belonged to others."""
    (work / "old").touch()
    before = await run(work, "ls; echo made > mine")
    os.rename(work, f"{work}-before")
    os.mkdir(work)
    (work / "new").touch()
    replaced = await run(work, "ls; echo made > mine")
    if os.geteuid() == 0:
        for name in ("", "new", "mine"):
            os.chown(work / name, 1234, 1235)
    handed_on = await run(work, "ls; echo again > mine")

    assert [each.stdout.split() for each in (before, replaced, handed_on)] == [
        [b"old"],
        [b"new"],
        [b"mine", b"new"],
    ]
    assert (work / "mine").read_text() == "again\n"
    assert (work / "mine").stat().st_uid == os.stat(work).st_uid


async def test_commands_see_no_terminal_of_each_other(work: Path) -> None:
    (work / "hold.py").write_text(
        "import os, pathlib, time\n"
        "ends = os.openpty(); pathlib.Path('held').touch()\n"
        "while not os.path.exists('seen'): time.sleep(0.01)\n"
        "os.write(ends[1], b'x')"
    )
    holding = asyncio.create_task(run(work, [sys.executable, "hold.py"]))
    await asyncio.to_thread(wait_until, lambda: (work / "held").exists())
    seen = await run(work, "ls /dev/pts; touch seen")

    assert (await holding).exit_code == 0
    assert seen.stdout.split() == [b"ptmx"]


async def test_exit_codes_and_streams_are_its_own(work: Path) -> None:
    finished = await run(work, "cat; echo out; echo err >&2; exit 7")

    assert (finished.exit_code, finished.stdout, finished.stderr) == (7, b"out\n", b"err\n")


@pytest.mark.parametrize("hosts", [None, HostFilter(allow=["example.org"])])
async def test_a_program_that_is_not_there_is_told_as_outside_of_a_sandbox(
    work: Path, hosts: HostFilter | None
) -> None:
    (work / "closed").write_text("#!/bin/sh\n")

    with pytest.raises(ToolError, match="There is no program 'nonesuch'"):
        await run(work, ["nonesuch"], hosts=hosts)
    with pytest.raises(ToolError, match=r"'\./closed' may not be run"):
        await run(work, ["./closed"], hosts=hosts)


async def test_a_program_that_fails_like_bubblewrap_is_not_taken_for_it(work: Path) -> None:
    finished = await run(work, "echo 'bwrap: execvp sh: No such file or directory' >&2; exit 1")

    assert finished.exit_code == 1


async def test_a_sandbox_that_cannot_be_made_is_told_and_nothing_runs(work: Path) -> None:
    with pytest.raises(ToolError, match="its sandbox could not be made"):
        await run(work, "touch ran", without={"user"})
    assert not (work / "ran").exists()


async def test_allowed_hosts_are_reached_and_others_are_named(work: Path) -> None:
    async with server(b"hello") as port:
        url = f"http://127.0.0.1:{port}/"
        program = (
            "import urllib.request as r, sys\n"
            "for url in sys.argv[1:]:\n"
            "    try: print(r.urlopen(url).read().decode())\n"
            "    except Exception as error: print(type(error).__name__)\n"
        )
        argv = ["env", "no_proxy=", "NO_PROXY=", sys.executable, "-c", program, url, "http://other.test/"]
        hosts = HostFilter(allow=[f"127.0.0.1:{port}"])
        reached = await run(work, argv, hosts=hosts)
        cut_off = await run(work, argv)

    assert reached.stdout == b"hello\nHTTPError\n"
    assert reached.note == "it was not let through to other.test:80"
    assert cut_off.stdout == b"URLError\nURLError\n"


async def test_a_loopback_of_its_own_works(work: Path) -> None:
    program = (
        "import socket, threading\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "threading.Thread(target=lambda: server.accept()[0].sendall(b'hi')).start()\n"
        "print(socket.create_connection(server.getsockname()).recv(2).decode())\n"
    )
    assert (await run(work, [sys.executable, "-c", program])).stdout == b"hi\n"


@pytest.mark.parametrize(
    ("command", "limits", "ended_by"),
    [
        ("sleep 60 & sleep 60", Limits(time_s=0.5), "time"),
        ("yes", Limits(output_bytes=1000), "output"),
        ("for n in $(seq 40); do sleep 60 & done; wait", Limits(processes=10, time_s=20), "processes"),
        (
            "python3 -c 'a = [bytearray(b\"x\" * 1000000) for _ in range(400)]; print(len(a))'",
            Limits(memory_bytes=64 * MIB, time_s=20),
            "memory",
        ),
        (
            "for n in 1 2 3 4 5 6; do head -c 3000000 /dev/urandom > f$n; done; sync; sleep 20",
            Limits(disk_bytes=8 * MIB, time_s=20),
            "disk",
        ),
    ],
)
async def test_limits_end_it_with_all_that_it_started(
    work: Path, command: str, limits: Limits, ended_by: str
) -> None:
    finished = await run(work, command, limits=limits)

    assert (finished.ended_by, finished.exit_code) == (ended_by, None)
    left = subprocess.run(["pgrep", "-f", str(work)], capture_output=True, text=True).stdout  # noqa: ASYNC221
    assert left == ""


async def test_a_large_file_is_cut_by_the_kernel(work: Path) -> None:
    await run(work, "head -c 3000000 /dev/zero > large", limits=Limits(disk_bytes=MIB, time_s=20))

    assert (work / "large").stat().st_size <= MIB


async def test_on_time_out_it_may_clean_up_first(work: Path) -> None:
    finished = await run(
        work,
        "trap 'echo bye > said; exit 0' TERM; while true; do sleep 0.05; done",
        limits=Limits(time_s=0.5),
    )

    assert finished.ended_by == "time"
    assert (work / "said").read_text() == "bye\n"


async def test_cancelling_leaves_nothing(work: Path) -> None:
    task = asyncio.create_task(run(work, "echo > began; exec sleep 1000"))
    await asyncio.to_thread(wait_until, lambda: (work / "began").exists())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert subprocess.run(["pgrep", "-fx", "sleep 1000"], capture_output=True).stdout == b""  # noqa: ASYNC221


async def test_what_the_run_was_started_with_cannot_be_changed_and_records_are_not_seen(work: Path) -> None:
    (work / ".placet").mkdir()
    (work / ".placet" / "secret").write_text("record")
    (work / "plan.json").write_text("{}")
    (work / "keys").mkdir()
    (work / "keys" / "key").write_text("private")
    workspace = Workspace(work, closed=[work / "keys"], sealed=[work / "plan.json"])
    sandbox = Sandbox(workspace, "bubblewrap", Facts())

    finished = await run_command(
        [
            "sh",
            "-c",
            "cat .placet/* keys/*; echo x > plan.json; rm plan.json; mv .placet away; mv keys away; "
            "echo x > .placet/made; cat plan.json",
        ],
        folder=workspace.fd,
        sandbox=sandbox,
    )

    assert finished.stdout == b"{}"
    assert (work / "plan.json").read_text() == "{}"
    assert (work / ".placet" / "secret").read_text() == "record"
    assert sorted(os.listdir(work)) == [".placet", "keys", "plan.json"]
    workspace.close()


async def test_the_interpreter_that_runs_us_is_not_written_even_in_the_workspace(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / ".venv").mkdir()
    monkeypatch.setattr(sys, "prefix", str(work / ".venv"))

    await run(work, "echo x > .venv/made; mv .venv away; mkdir .venv; touch .venv/made")

    assert list((work / ".venv").iterdir()) == []


async def test_a_folder_of_programs_may_be_a_link(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an environment that is on PATH and was not activated."""
    tools = tmp_path / "tools"
    for name in ("bin", "lib"):
        (tools / name).mkdir(parents=True)
    (tools / "lib64").symlink_to("lib")
    (tools / "lib" / "words").write_text("found\n")
    (tools / "bin" / "tell").write_text(f"#!/bin/sh\ncat {tools}/lib64/words\n")
    (tools / "bin" / "tell").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}/bin:{os.environ['PATH']}")

    finished = await run(work, "tell")

    assert (finished.stdout, finished.exit_code) == (b"found\n", 0), finished.stderr


def test_it_ends_when_the_host_is_killed(work: Path, tmp_path: Path) -> None:
    # Nobody else's, also where the tests are run twice at once.
    command = f"sleep 1001.{os.getpid()}"
    program = (
        "import asyncio, sys\n"
        "from placet.sandbox.command import run_command\n"
        "from placet.sandbox.isolation import Facts\n"
        "from placet.sandbox.sandbox import Sandbox\n"
        "from placet.sandbox.workspace import Workspace\n"
        "w = Workspace(sys.argv[1])\n"
        "asyncio.run(run_command(['sh', '-c', f'echo > began; exec {sys.argv[2]}'], folder=w.fd,\n"
        "    sandbox=Sandbox(w, 'bubblewrap', Facts())))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(work), command]) as host:
        wait_until(lambda: (work / "began").exists())
        found = subprocess.run(["pgrep", "-fx", command], capture_output=True, text=True, check=True)
        pid = int(found.stdout.split()[0])
        host.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_running(pid))


def git(folder: Path, *arguments: str) -> str:
    """Git as whoever owns the repository runs it."""
    named = ["-c", "user.name=Host", "-c", "user.email=host@example.org"]
    return subprocess.run(
        ["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


async def test_what_is_kept_cannot_be_moved_away_with_the_folder_around_it(work: Path) -> None:
    (work / "conf" / "sub").mkdir(parents=True)
    (work / "conf" / "sub" / "rules.toml").write_text("mine")
    workspace = Workspace(work, sealed=[work / "conf" / "sub" / "rules.toml"])

    await run_command(
        [
            "sh",
            "-c",
            "mv conf away; mv conf/sub away2; mkdir -p conf/sub; echo evil > conf/sub/rules.toml; "
            "rm -rf conf; echo new > conf/sub/beside",
        ],
        folder=workspace.fd,
        sandbox=Sandbox(workspace, "bubblewrap", Facts()),
    )

    assert (work / "conf" / "sub" / "rules.toml").read_text() == "mine"
    assert (work / "conf" / "sub" / "beside").read_text() == "new\n"
    workspace.close()


@pytest.mark.parametrize("name", [".placet", ".git", ".venv"])
async def test_what_is_kept_must_not_be_a_link(
    work: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (work / name).symlink_to(tmp_path / "elsewhere")
    if name == ".venv":
        monkeypatch.setattr(sys, "prefix", str(work / ".venv"))

    with pytest.raises(ToolError, match=f"{name} in the workspace is a link"):
        await run(work, "touch ran")
    assert not (work / "ran").exists()


async def test_a_tool_in_the_home_does_not_show_the_home(work: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("private key")
    program = home / "tool.sh"
    program.write_text(f"#!/bin/sh\ncat {home}/.ssh/id; echo ran\n")
    program.chmod(0o755)
    workspace = Workspace(work)
    sandbox = Sandbox(workspace, "bubblewrap", Facts(), environment={**os.environ, "HOME": str(home)})

    finished = await run_command([str(program)], folder=workspace.fd, sandbox=sandbox, readable=[str(home)])

    assert finished.stdout == b"ran\n"
    workspace.close()


async def test_a_bare_repository_is_read_only(work: Path) -> None:
    git(work, "init", "-q", "--bare", ".")

    await run(work, "echo evil > hooks/post-receive; echo evil >> config")

    assert not (work / "hooks" / "post-receive").exists()
    assert "evil" not in (work / "config").read_text()


async def test_git_is_not_there_in_a_part_of_a_repository(work: Path) -> None:
    git(work, "init", "-q")
    (work / "secret").write_text("of the rest\n")
    (work / "part").mkdir()
    (work / "part" / "mine").write_text("mine\n")

    finished = await run(work / "part", "cat ../secret; git add .; cat mine")

    assert finished.stdout == b"mine\n"
    assert not (work / ".git" / "index").exists()


async def test_a_loopback_host_that_is_allowed_is_reached_through_the_proxy(work: Path) -> None:
    async with server(b"hello") as port:
        program = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/').read().decode())"
        hosts = HostFilter(allow=[f"127.0.0.1:{port}"])
        finished = await run(work, [sys.executable, "-c", program], hosts=hosts)

    assert finished.stdout == b"hello\n"


async def test_the_first_process_does_not_tell_where_things_are_outside(work: Path) -> None:
    finished = await run(work, "tr '\\0' ' ' < /proc/1/cmdline")

    assert str(work).encode() not in finished.stdout
    assert b"--tmpfs" not in finished.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's commands are held by a cgroup here")
async def test_a_command_that_uses_too_much_has_run(work: Path) -> None:
    finished = await run(
        work,
        "echo did > effect; head -c 300000000 /dev/zero > /dev/shm/f; echo went on",
        limits=Limits(memory_bytes=96 * MIB, time_s=20),
    )

    assert (work / "effect").exists()
    assert finished.ended_by in ("memory", "itself")
    assert b"went on" not in finished.stdout or finished.stderr


def test_the_keeper_loads_nothing_that_a_command_has_written(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{work}/lib::relative:/usr/lib")

    assert _environment_of_keeper(str(work)) == {"LD_LIBRARY_PATH": "/usr/lib"}


_FORKS = """
import os
read_fd, write_fd = os.pipe()
made = 0
try:
    for _ in range(40):
        if os.fork() == 0:
            os.close(write_fd)
            os.read(read_fd, 1)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("without", [{"watch"}, {"watch", "cgroups"}], ids=["cgroup", "no cgroup"])
async def test_what_is_claimed_of_processes_is_what_holds(work: Path, without: set[str]) -> None:
    """`kernel` means that the kernel refuses the process after the last one allowed; nobody watches here."""
    tested = await self_test("bubblewrap", without=without - {"watch"})
    workspace = Workspace(work)
    sandbox = Sandbox(workspace, "bubblewrap", tested.facts, without=without)

    finished = await run_command(
        [sys.executable, "-I", "-S", "-c", _FORKS],
        folder=workspace.fd,
        limits=Limits(time_s=30, processes=10),
        sandbox=sandbox,
    )
    workspace.close()

    held = 1 + int(finished.stdout) == 10
    assert (finished.facts.enforced.pids == "kernel") is held
    assert finished.facts.enforced.pids == (
        "watchdog" if "cgroups" in without else tested.facts.enforced.pids
    )
