"""The kernel counts for one command, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.sandbox.cgroup import NAME, Cgroup, Events, _mark, open_cgroup, why_not
from placet.sandbox.limits import MIB, Limits

LIMITS = Limits(memory_bytes=64 * MIB, processes=1)

JOIN = """
import os, sys, time
for path in sys.argv[1:]:
    with open(path, "wb", buffering=0) as file:
        file.write(b"0")
"""

# Neither goes on for ever, should no limit hold.
ALLOCATE = "held = [bytearray(os.urandom(1024) * 8192) for _ in range(40)]; print('had all')"
FORK = """
read_fd, write_fd = os.pipe()
made = 0
for _ in range(200):
    try:
        pid = os.fork()
    except BlockingIOError:
        break
    if not pid:
        os.close(write_fd)
        os.read(read_fd, 1)
        os._exit(0)
    made += 1
print(made)
"""


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    if why := why_not():
        pytest.skip(why)
    found = open_cgroup(LIMITS)
    assert found is not None
    yield found
    found.close()


def _run(cgroup: Cgroup, code: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-c", JOIN + code, *cgroup.joins]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def _start(cgroup: Cgroup, code: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-I", "-S", "-c", f"{JOIN}\nprint('in', flush=True)\n{code}", *cgroup.joins]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    return process


def test_who_uses_more_memory_is_killed_by_the_kernel(cgroup: Cgroup) -> None:
    assert cgroup.memory

    ended = _run(cgroup, ALLOCATE)

    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "")
    assert cgroup.events() == Events(memory=True, pids=False)


def test_a_process_too_many_is_not_started(cgroup: Cgroup) -> None:
    assert cgroup.pids

    ended = _run(cgroup, FORK)

    assert ended.returncode == 0
    assert int(ended.stdout) == 0, "it is the one process of the limit itself"
    assert cgroup.events() == Events(memory=False, pids=True)


def test_within_its_limits_a_command_notices_nothing(cgroup: Cgroup) -> None:
    ended = _run(cgroup, "print(open('/proc/self/cgroup').read())")

    assert all(os.path.basename(folder) in ended.stdout for folder in cgroup.folders.values())
    assert cgroup.events() == Events(memory=False, pids=False)


def test_this_process_is_not_moved(cgroup: Cgroup) -> None:
    assert NAME + "-" not in Path("/proc/self/cgroup").read_text()


def test_closing_ends_what_is_in_it_and_removes_the_folders(cgroup: Cgroup) -> None:
    """Also what has been put into a cgroup below it."""
    inner = [f"{folder}/inner" for folder in dict.fromkeys(cgroup.folders.values())]
    for folder in inner:
        os.mkdir(folder)
    plain = _start(cgroup, "time.sleep(60)")
    deeper = Cgroup(dict(zip(cgroup.folders, inner, strict=False)), memory=True, pids=True)
    below = _start(deeper, "time.sleep(60)")

    cgroup.close()

    for process in (plain, below):
        with process:
            try:
                assert process.wait(10) == -signal.SIGKILL
            finally:
                process.kill()
    assert not [folder for folder in cgroup.folders.values() if os.path.exists(folder)]
    cgroup.close()


def test_a_killed_host_leaves_nothing_once_another_opens(cgroup: Cgroup) -> None:
    code = """
import sys, time
from placet.sandbox.cgroup import open_cgroup
from placet.sandbox.limits import Limits
made = open_cgroup(Limits())
print(*dict.fromkeys(made.folders.values()), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        folders = host.stdout.readline().split()
        alive = open_cgroup(LIMITS)
        assert alive is not None
        alive.close()
        # Its maker lives: it is left alone.
        assert folders
        assert all(map(os.path.exists, folders))
        host.kill()

    with open_cgroup(LIMITS) or pytest.fail("there was one before"):
        assert not any(map(os.path.exists, folders))
        assert all(map(os.path.exists, cgroup.folders.values()))


def test_a_number_that_came_again_is_not_taken_for_the_maker(cgroup: Cgroup) -> None:
    parent = os.path.dirname(cgroup.folders["pids"])
    pid, began, namespace = _mark(os.getpid()).split("-")
    stale = f"{parent}/{NAME}-{pid}-{int(began) - 1}-{namespace}-00"
    foreign = f"{parent}/{NAME}-{pid}-{int(began) - 1}-{int(namespace) + 1}-00"
    for folder in (stale, foreign):
        os.mkdir(folder)

    try:
        with open_cgroup(LIMITS) or pytest.fail("there was one before"):
            # The other one's maker is counted in another namespace: nobody here knows whether it lives.
            assert (os.path.exists(stale), os.path.exists(foreign)) == (False, True)
    finally:
        os.rmdir(foreign)


def test_what_cannot_be_removed_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1")

    Cgroup({"memory": str(tmp_path), "pids": "/nowhere"}, memory=True, pids=True).close()

    assert tmp_path.exists()


# From here on trees that only look like the kernel's: what is chosen, and what is written where.

V2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


class Tree:
    """A folder that looks like / as far as cgroups go."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc/self").mkdir(parents=True)

    def lay(self, own: str, mounts: str, folders: dict[str, str]) -> None:
        (self.root / "proc/self/cgroup").write_text(own)
        (self.root / "proc/self/mountinfo").write_text(mounts)
        for name, handed_on in folders.items():
            folder = self.root / "sys/fs/cgroup" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").write_text("")
            (folder / "cgroup.subtree_control").write_text(handed_on)

    def made(self) -> dict[str, str]:
        """What was written into cgroups that are new, by path without the part that is chance."""
        found = {}
        for path in (self.root / "sys").rglob(f"{NAME}-*/*"):
            folder = path.parent.parent.relative_to(self.root / "sys/fs/cgroup")
            found[f"{folder}/{path.name}"] = path.read_text()
        return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


def test_version_2_makes_one_beside_our_own(tree: Tree) -> None:
    tree.lay(
        "0::/app.slice/run-1.scope\n", V2, {"app.slice": "cpu memory pids\n", "app.slice/run-1.scope": ""}
    )

    found = open_cgroup(LIMITS, root=str(tree.root))

    assert found is not None
    assert (found.memory, found.pids, len(found.joins)) == (True, True, 1)
    assert tree.made() == {
        "app.slice/memory.max": str(64 * MIB),
        "app.slice/memory.swap.max": "0",
        "app.slice/memory.oom.group": "1",
        "app.slice/pids.max": "1",
    }
    assert why_not(root=str(tree.root)) == ""


def test_version_2_gives_no_more_than_our_own_cgroup_may_have(tree: Tree) -> None:
    tree.lay("0::/a/own\n", V2, {"a": "memory pids", "a/own": ""})
    (tree.root / "sys/fs/cgroup/a/own/memory.max").write_text(f"{MIB}\n")
    (tree.root / "sys/fs/cgroup/a/own/pids.max").write_text("max\n")

    open_cgroup(LIMITS, root=str(tree.root))

    assert (tree.made()["a/memory.max"], tree.made()["a/pids.max"]) == (str(MIB), "1")


def test_only_what_is_handed_on_is_held(tree: Tree) -> None:
    tree.lay("0::/a/own\n", V2, {"a": "cpu pids", "a/own": ""})

    found = open_cgroup(LIMITS, root=str(tree.root))

    assert found is not None
    assert (found.memory, found.pids) == (False, True)
    assert tree.made() == {"a/pids.max": "1"}
    assert "no limit of memory:" in why_not(root=str(tree.root))


def test_what_version_2_counts_is_read(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 21\noom 1\noom_kill 1\noom_group_kill 0\n")
    (tmp_path / "pids.events").write_text("max 0\n")
    found = Cgroup({"memory": str(tmp_path), "pids": str(tmp_path)}, memory=True, pids=True)

    assert found.events() == Events(memory=True, pids=False)


def test_the_root_of_all_may_hold_processes_and_hand_on(tree: Tree) -> None:
    tree.lay("0::/\n", V2, {".": "memory pids"})

    assert open_cgroup(LIMITS, root=str(tree.root)) is not None
    assert tree.made()["./memory.max"] == str(64 * MIB)


def test_each_resource_is_looked_for_in_its_own_tree(tree: Tree) -> None:
    """As on a host that has both versions, and in a container that sees a part of the tree."""
    mounts = (
        "31 20 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 20 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 20 0:33 / /sys/fs/cgroup/uni\\040fied rw shared:3 - cgroup2 cgroup2 rw\n"
    )
    own = "4:memory:/docker/abc/deeper\n3:cpu,cpuacct:/\n0::/a/own\n"
    tree.lay(own, mounts, {"memory/deeper": "", "uni fied/a": "pids", "uni fied/a/own": ""})

    found = open_cgroup(LIMITS, root=str(tree.root))

    assert found is not None
    assert len(found.joins) == 2
    assert tree.made() == {
        "memory/deeper/memory.limit_in_bytes": str(64 * MIB),
        "memory/deeper/memory.memsw.limit_in_bytes": str(64 * MIB),
        "uni fied/a/pids.max": "1",
    }


@pytest.mark.parametrize(
    ("own", "mounts", "folders"),
    [
        ("0::/session-1.scope\n", V2, {".": "", "session-1.scope": ""}),
        ("0::/../outside\n", V2, {".": "memory pids", "outside": ""}),
        ("0::/other\n", V2.replace(" / /", " /docker/abc /"), {".": "memory pids"}),
        ("0::/a/own\n", "", {"a": "memory pids", "a/own": ""}),
        ("", "", {}),
    ],
    ids=["nothing handed on", "outside of our namespace", "not what is mounted", "not mounted", "no cgroups"],
)
def test_where_nothing_can_be_made_it_is_said_and_nothing_is_made(
    tree: Tree, own: str, mounts: str, folders: dict[str, str]
) -> None:
    tree.lay(own, mounts, folders)

    assert open_cgroup(LIMITS, root=str(tree.root)) is None
    assert why_not(root=str(tree.root)).startswith("The kernel holds no limit of memory and processes")
    assert tree.made() == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cgroup_that_is_not_ours_to_write_is_left_alone(tree: Tree) -> None:
    tree.lay("0::/a/own\n", V2, {"a": "memory pids", "a/own": ""})
    (tree.root / "sys/fs/cgroup/a").chmod(0o555)

    assert open_cgroup(LIMITS, root=str(tree.root)) is None
    assert "systemd-run --user --scope" in why_not(root=str(tree.root))


def test_without_limits_there_is_no_cgroup(tree: Tree) -> None:
    tree.lay("0::/a/own\n", V2, {"a": "memory pids", "a/own": ""})

    assert open_cgroup(Limits(memory_bytes=None, processes=None), root=str(tree.root)) is None
    assert tree.made() == {}


def test_the_largest_limits_are_numbers_that_the_kernel_takes(cgroup: Cgroup) -> None:
    found = open_cgroup(Limits(memory_bytes=1024**2 * 1024 * MIB, processes=4 * MIB))

    assert found is not None
    with found:
        assert (found.memory, found.pids) == (True, True)
