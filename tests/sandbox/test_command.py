"""A command gets what is meant for it, is read to the limit, and ends with everything that it started."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest

from placet.errors import ToolError, UsageError
from placet.sandbox import command, keeper, processes
from placet.sandbox.command import ending, run_command
from placet.sandbox.finished import read_report
from placet.sandbox.limits import MOST, Limits
from tests.sandbox.programs import Program, own_children, own_descriptors

Make = Callable[[str], Program]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Program] = []

    def one(name: str) -> Program:
        folder = tmp_path / f"program{len(made)}"
        folder.mkdir()
        made.append(Program(name, folder))
        return made[-1]

    yield one
    for program in made:
        program.clear()


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    before, children = own_descriptors(), own_children()
    yield
    assert own_children() == children
    # Those of the test's own event loop are closed by now, or will be.
    more = {each for each in own_descriptors() - before if "eventpoll" not in each and "socket" not in each}
    assert not more


async def test_exit_code_and_streams_are_told_apart(tmp_path: Path) -> None:
    finished = await run_command(["sh", "-c", "echo out; echo err >&2; exit 3"], folder=str(tmp_path))

    assert (finished.exit_code, finished.stdout, finished.stderr) == (3, b"out\n", b"err\n")
    assert (finished.ended_by, finished.signal, finished.left_behind, finished.note) == ("itself", "", 0, "")
    assert ending(finished, Limits()) == ""


async def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    finished = await run_command(["printf", "%s|", "$HOME", "a b", "; ls", "é\udcff"], folder=str(tmp_path))

    assert finished.stdout == b"$HOME|a b|; ls|\xc3\xa9\xff|"


async def test_it_runs_in_the_folder_by_path_or_by_descriptor(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    number = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    moved = tmp_path / "moved"

    by_path = await run_command(["/bin/pwd"], folder=str(inside))
    inside.rename(moved)
    by_number = await run_command(["/bin/pwd"], folder=number)
    os.close(number)

    assert by_path.stdout.decode().strip() == str(inside.resolve())
    assert by_number.stdout.decode().strip() == str(moved.resolve())


async def test_a_large_input_comes_back_whole(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)

    finished = await run_command(["cat"], folder=str(tmp_path), stdin=data)

    assert finished.stdout == data


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_output_is_cut_at_exactly_the_limit(tmp_path: Path, stream: str) -> None:
    to = "" if stream == "stdout" else " >&2"
    limits = Limits(output_bytes=100_000)

    just = await run_command(
        ["sh", "-c", f"head -c 100000 /dev/zero{to}"], folder=str(tmp_path), limits=limits
    )
    over = await run_command(
        ["sh", "-c", f"head -c 100001 /dev/zero{to}"], folder=str(tmp_path), limits=limits
    )
    flood = await run_command(["sh", "-c", f"echo begin; yes{to}"], folder=str(tmp_path), limits=limits)

    assert (just.ended_by, just.exit_code, len(getattr(just, stream))) == ("itself", 0, 100_000)
    assert (over.ended_by, over.exit_code, len(getattr(over, stream))) == ("output", None, 100_000)
    assert (flood.ended_by, len(getattr(flood, stream))) == ("output", 100_000)
    assert flood.stdout.startswith(b"begin\n")
    assert ending(flood, limits) == "it was ended for writing more than 100000 bytes; the rest is lost"


async def test_the_environment_is_what_was_given_and_nothing_else(tmp_path: Path) -> None:
    finished = await run_command(
        ["env"], folder=str(tmp_path), environment={"PATH": os.environ["PATH"], "A": "1\n2"}
    )

    assert finished.stdout.decode() == f"PATH={os.environ['PATH']}\nA=1\n2\n"


async def test_a_secret_of_the_host_reaches_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sesame")
    look = "env; cat /proc/$$/environ /proc/$PPID/environ /proc/$PPID/cmdline"

    finished = await run_command(["sh", "-c", look], folder=str(tmp_path))

    assert b"PATH=" in finished.stdout
    assert b"sesame" not in finished.stdout


async def test_no_signal_is_ignored_or_blocked_in_the_command(tmp_path: Path) -> None:
    finished = await run_command(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"], folder=str(tmp_path))

    # 32 and 33 are the C library's own: nobody can set them, and who started the tests may have them ignored.
    _, blocked, _, ignored = finished.stdout.split()
    assert [int(each, 16) & ~(0b11 << 31) for each in (blocked, ignored)] == [0, 0]


async def test_only_the_descriptors_that_were_passed_are_open(tmp_path: Path) -> None:
    read_fd, write_fd = os.pipe()
    folder = os.open(tmp_path, os.O_PATH)

    none = await run_command(["ls", "/proc/self/fd"], folder=folder)
    passed = await run_command(
        ["sh", "-c", f"echo hello > /dev/fd/{write_fd}"], folder=folder, pass_fds=[write_fd]
    )
    os.close(write_fd)
    heard = os.read(read_fd, 100)
    os.close(read_fd)
    os.close(folder)

    assert none.stdout.split() == [b"0", b"1", b"2", b"3"], "3 is its own look at the folder"
    assert passed.exit_code == 0
    assert heard == b"hello\n"


async def test_it_has_a_session_of_its_own_and_leaves_no_core(tmp_path: Path) -> None:
    finished = await run_command(["sh", "-c", "ulimit -c; ps -o sid= -p $$; echo $$"], folder=str(tmp_path))

    core, session, pid = finished.stdout.split()
    assert core == b"0"
    assert session == pid


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program"], "There is no program 'no-such-program'"),
        (["./no-such"], "There is no program './no-such'"),
        (["/"], "'/' may not be run"),
        (["echo", "a\0b"], "null character"),
        (["echo", "x" * 200_000], "more arguments than a program can take"),
    ],
)
async def test_what_cannot_be_started_is_said(tmp_path: Path, argv: list[str], says: str) -> None:
    with pytest.raises(ToolError) as caught:
        await run_command(argv, folder=str(tmp_path))

    assert says in str(caught.value)
    assert not caught.value.retry
    assert not caught.value.unknown


async def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"cannot be started in the folder .*missing: No such file"):
        await run_command(["ls"], folder=str(tmp_path / "missing"))


async def test_a_bad_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be the name of a variable"):
        await run_command(["ls"], folder=str(tmp_path), environment={"A=B": "1"})


@pytest.mark.parametrize("argv", [[], "ls -l"])
async def test_a_call_without_a_list_is_misuse(tmp_path: Path, argv: list[str]) -> None:
    with pytest.raises(UsageError, match="It is a list"):
        await run_command(argv, folder=str(tmp_path))


@pytest.mark.parametrize(
    "limits",
    [
        {"memory_bytes": 99999999999999999999999},
        {"memory_bytes": 10**9000},
        {"time_s": 1e300},
        {"time_s": float("nan")},
        {"time_s": 0},
        {"time_s": "1"},
        {"time_s": None},
        {"output_bytes": 2**30 + 1},
        {"output_bytes": None},
        {"output_bytes": 1.5},
        {"processes": True},
        {"processes": 2**22 + 1},
    ],
    ids=lambda limits: next(iter(limits)),
)
def test_limits_that_no_command_can_be_held_to_are_misuse(limits: Any) -> None:
    with pytest.raises(UsageError, match=f"Limits: {next(iter(limits))} is "):
        Limits(**limits)


async def test_the_largest_limits_are_taken_by_the_system(tmp_path: Path) -> None:
    finished = await run_command(["echo", "well"], folder=str(tmp_path), limits=Limits(**MOST))
    endless = await run_command(["echo", "well"], folder=str(tmp_path), limits=Limits(time_s=inf))

    assert finished.stdout == endless.stdout == b"well\n"


async def test_a_signal_is_named(tmp_path: Path) -> None:
    finished = await run_command(["sh", "-c", "kill -SEGV $$"], folder=str(tmp_path))

    assert (finished.ended_by, finished.signal, finished.exit_code) == ("signal", "SIGSEGV", None)
    assert ending(finished, Limits()) == "it was ended by SIGSEGV"


async def test_a_program_that_is_asked_to_end_has_time_to_clean_up(make: Make, tmp_path: Path) -> None:
    program = make("cleans up")
    limits = Limits(time_s=0.5)

    finished = await run_command(program.argv, folder=str(tmp_path), limits=limits)

    assert (finished.ended_by, finished.exit_code, finished.stdout) == ("time", None, b"ready")
    assert program.cleaned.exists()
    assert ending(finished, limits) == "it was ended after 0.5 s, the time it had"


async def test_what_ends_right_after_the_command_is_not_left_behind(make: Make, tmp_path: Path) -> None:
    program = make("ends with a late child")

    finished = await run_command(program.argv, folder=str(tmp_path))

    assert (finished.stdout, finished.left_behind) == (b"early late", 0)


async def test_memory_counts_for_all_processes_together(make: Make, tmp_path: Path) -> None:
    program = make("eats memory in parts")

    finished = await run_command(program.argv, folder=str(tmp_path), limits=Limits(memory_bytes=100_000_000))

    assert finished.ended_by == "memory"
    assert program.seen()
    assert program.running() == []


async def test_memory_that_is_shared_counts_once(make: Make, tmp_path: Path) -> None:
    program = make("shares memory")

    finished = await run_command(program.argv, folder=str(tmp_path), limits=Limits(memory_bytes=150_000_000))

    assert (finished.ended_by, finished.stdout) == ("itself", b"done")


async def test_more_processes_than_allowed_end_it(make: Make, tmp_path: Path) -> None:
    program = make("forks")
    limits = Limits(processes=20)

    finished = await run_command(program.argv, folder=str(tmp_path), limits=limits)

    assert finished.ended_by == "processes"
    assert ending(finished, limits) == "it was ended for running more than 20 processes at a time"
    assert program.seen()
    assert program.running() == []


async def test_without_limits_nothing_is_counted(tmp_path: Path) -> None:
    limits = Limits(memory_bytes=None, processes=None)

    finished = await run_command(["sh", "-c", "sleep 0.1; ulimit -d"], folder=str(tmp_path), limits=limits)

    assert finished.stdout == b"unlimited\n"


async def test_a_command_that_kills_what_watches_over_it_dies_too(make: Make, tmp_path: Path) -> None:
    program = make("kills its keeper")

    finished = await run_command(program.argv, folder=str(tmp_path))
    await program.until_gone()

    assert (finished.ended_by, finished.signal, finished.exit_code) == ("signal", "SIGKILL", None)
    assert finished.stdout == b"ready"
    assert "what watches over the command was killed" in finished.note


async def test_what_watches_is_not_the_first_to_go_when_memory_runs_out(tmp_path: Path) -> None:
    look = f"cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj /proc/{os.getpid()}/oom_score_adj"

    finished = await run_command(["sh", "-c", look], folder=str(tmp_path))

    theirs, keepers, hosts = map(int, finished.stdout.split())
    assert theirs >= 500
    assert keepers == hosts


@pytest.mark.parametrize("length", ["one byte", "a whole report"])
async def test_a_forged_report_means_that_nobody_knows(make: Make, tmp_path: Path, length: str) -> None:
    program = make("takes the socket of its keeper")
    argv = [*program.argv, *(["whole"] if length == "a whole report" else [])]

    finished = await run_command(argv, folder=str(tmp_path))

    if not finished.stdout:
        pytest.skip("only root can take it")
    assert (finished.ended_by, finished.exit_code, finished.signal) == ("signal", None, "")
    assert ending(finished, Limits()) == (
        "how it ended is not known; what came as its report was forged or damaged; "
        "what the command had started may still run"
    )


def test_only_a_whole_report_with_its_token_is_one() -> None:
    token = bytes(range(keeper.TOKEN_BYTES))
    good = keeper.REPORT.pack(token, 0, 7 << 8, 0, 2, 0, b"")
    report = read_report(good, token)

    assert report is not None
    assert (report.kind, report.number, report.reason, report.left_behind) == ("ended", 7 << 8, None, 2)
    assert read_report(good, bytes(keeper.TOKEN_BYTES)) is None
    for bad in (b"", good[:-1], good + b"x", good + good, good[1:] + b"x"):
        assert read_report(bad, token) is None
    for kind, reason in ((-1, 0), (len(keeper.KINDS), 0), (0, -1), (0, len(keeper.REASONS))):
        assert read_report(keeper.REPORT.pack(token, kind, 0, reason, 0, 0, b""), token) is None


async def test_memory_is_refused_to_one_that_asks_for_a_lot_at_once(make: Make, tmp_path: Path) -> None:
    """It never touches it, so a look at what is used would not find it."""
    program = make("asks for a lot at once")
    few, many = Limits(memory_bytes=50_000_000), Limits(memory_bytes=None)

    limited = await run_command(program.argv, folder=str(tmp_path), limits=few)
    free = await run_command(program.argv, folder=str(tmp_path), limits=many)

    assert (limited.stdout, free.stdout) == (b"refused", b"got it")


async def test_a_command_that_stops_what_watches_over_it_gains_nothing(make: Make, tmp_path: Path) -> None:
    program = make("stops its keeper")

    finished = await run_command(program.argv, folder=str(tmp_path), limits=Limits(time_s=0.5))

    assert finished.ended_by == "time"
    assert len(program.seen()) == 2
    assert program.running() == []


async def test_one_that_never_lets_it_go_on_is_ended_all_the_same(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "PATIENCE_S", 1.5)
    program = make("keeps its keeper stopped")

    finished = await run_command(program.argv, folder=str(tmp_path), limits=Limits(time_s=0.5))
    await program.until_gone()

    assert finished.ended_by in ("time", "signal"), "whoever was quicker"
    assert len(program.seen()) == 2


async def test_processes_are_found_with_and_without_the_kernels_list(make: Make, tmp_path: Path) -> None:
    program = make("leaves a chain")
    task = asyncio.create_task(run_command(program.argv, folder=str(tmp_path)))
    await program.until_seen(9)

    listed = processes.descendants(os.getpid())
    scanned = processes.descendants(os.getpid(), by_scan=True)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert set(program.seen()) < set(listed)
    assert set(listed) == set(scanned)


async def test_cancelling_ends_all_before_it_goes_on(make: Make, tmp_path: Path) -> None:
    program = make("leaves a chain")
    task = asyncio.create_task(run_command(program.argv, folder=str(tmp_path)))
    await program.until_seen(9)

    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel("once more")
    with pytest.raises(asyncio.CancelledError):
        await task

    assert program.running() == []


async def test_cancelling_before_anything_has_begun_leaves_nothing(make: Make, tmp_path: Path) -> None:
    program = make("leaves a chain")
    task = asyncio.create_task(run_command(program.argv, folder=str(tmp_path)))
    await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert program.running() == []


async def test_many_run_at_once(tmp_path: Path) -> None:
    commands = [
        run_command(["sh", "-c", f"cat; exit {n}"], folder=str(tmp_path), stdin=b"%d" % n) for n in range(12)
    ]

    finished = await asyncio.gather(*commands)

    assert [(each.exit_code, each.stdout) for each in finished] == [(n, b"%d" % n) for n in range(12)]


def test_it_works_in_an_event_loop_of_another_thread(tmp_path: Path) -> None:
    answers: list[bytes] = []

    def work() -> None:
        finished = asyncio.run(run_command(["echo", "hello"], folder=str(tmp_path)))
        answers.append(finished.stdout)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert answers == [b"hello\n"]


@pytest.mark.parametrize("closed", ["pipes", "everything"])
async def test_a_call_whose_descriptors_something_else_closed_ends_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    monkeypatch.setattr(command, "PATIENCE_S", 0.2)
    before = set(os.listdir("/proc/self/fd"))
    waits = ["sh", "-c", "echo out; touch begun; until [ -e go ]; do sleep 0.01; done"]
    running = asyncio.ensure_future(run_command(waits, folder=str(tmp_path), limits=Limits(time_s=2.0)))
    while not (tmp_path / "begun").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    # Something else has their numbers at once, and cannot be read: nobody's descriptors get mixed up here.
    with open(os.devnull, "wb", buffering=0) as nothing:  # noqa: ASYNC230
        for each in set(os.listdir("/proc/self/fd")) - before:
            with suppress(OSError):
                kind = os.readlink(f"/proc/self/fd/{each}")
                if kind.startswith("pipe:") or (closed == "everything" and kind.startswith("socket:")):
                    os.dup2(nothing.fileno(), int(each))
    (tmp_path / "go").touch()

    with pytest.raises(ToolError) as failed:
        await asyncio.wait_for(running, 60)

    assert failed.value.unknown
    assert (await run_command(["true"], folder=str(tmp_path))).exit_code == 0
