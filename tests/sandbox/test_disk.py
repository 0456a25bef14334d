"""What a command writes is found, wherever it puts it, and what others write is not held against it."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placet.sandbox import disk
from placet.sandbox.disk import DiskWatch
from placet.sandbox.limits import KIB, MIB
from tests.sandbox.programs import own_descriptors


class OnFullDisk(DiskWatch):
    """Somebody fills the disk meanwhile, so that there is always a reason to look closely."""

    def has_fallen(self) -> bool:
        super().has_fallen()
        return True


@pytest.fixture(autouse=True)
def _no_descriptor_stays() -> Iterator[None]:
    before = own_descriptors()
    yield
    assert not own_descriptors() - before


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder that holds more than any limit here, from before."""
    work = tmp_path / "work"
    work.mkdir()
    _fill(work / "old", 4 * MIB)
    return work


@pytest.fixture
def watch(work: Path) -> Callable[[], DiskWatch]:
    """A watch that begins after all that was made so far."""

    def begin(limit: int = MIB) -> DiskWatch:
        # On a busy machine the coarse clock may be behind the times of files, by more than a tick. And what
        # was made in the same moment is not old yet.
        newest = max(path.lstat().st_ctime_ns for path in (work, *work.rglob("*")))
        while disk._now_ns() <= newest:
            pass
        return OnFullDisk([str(work)], limit)

    return begin


def _fill(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.write(os.urandom(64 * KIB) * (size // (64 * KIB)))


def _looks(watch: DiskWatch, pids: list[int] | None = None) -> bool:
    """What a look finds, without the rest before it."""
    watch.rest_until = 0.0
    return watch.exceeded(pids or [])


def test_more_than_the_limit_is_found_and_less_is_not(work: Path) -> None:
    """With the real free space: the margin is for others, who may delete something meanwhile."""
    watch = DiskWatch([str(work)], 8 * MIB)
    _fill(work / "little", 2 * MIB)
    assert not watch.exceeded([])

    (work / "folder").mkdir()
    _fill(work / "folder" / "much", 48 * MIB)

    assert _looks(watch)


def test_while_there_is_space_nobody_looks_closely(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = DiskWatch([str(work)], 10**15)
    monkeypatch.setattr(watch, "_sizes", None)
    _fill(work / "much", 2 * MIB)

    assert not watch.exceeded([])


def test_space_that_others_free_makes_no_room(work: Path) -> None:
    """The fall is measured from the highest that was seen, not from the start."""
    watch = DiskWatch([str(work)], 8 * MIB)
    ((device, (folder, free)),) = watch.free.items()
    watch.free[device] = folder, free - 1024 * MIB

    assert not watch.has_fallen()
    assert watch.free[device][1] > free - 512 * MIB
    _fill(work / "much", 48 * MIB)

    assert watch.has_fallen()


def test_what_others_write_elsewhere_does_not_count(
    work: Path, tmp_path: Path, watch: Callable[[], DiskWatch]
) -> None:
    looking = watch()
    _fill(tmp_path / "of another program", 4 * MIB)

    assert not _looks(looking)


def test_what_was_there_before_does_not_count_until_it_changes(
    work: Path, watch: Callable[[], DiskWatch]
) -> None:
    looking = watch()
    assert not _looks(looking)

    with (work / "old").open("ab") as file:
        file.write(b"more")

    assert _looks(looking)


def test_a_time_that_is_set_back_hides_nothing(work: Path, watch: Callable[[], DiskWatch]) -> None:
    looking = watch()
    _fill(work / "much", 2 * MIB)
    os.utime(work / "much", (0, 0))

    assert _looks(looking)


def test_many_small_files_count_together(work: Path, watch: Callable[[], DiskWatch]) -> None:
    looking = watch()
    for number in range(20):
        (work / f"{number}").mkdir()
        _fill(work / f"{number}" / "file", 64 * KIB)

    assert _looks(looking)


def test_links_lead_nowhere_and_a_second_name_is_not_counted_again(
    work: Path, tmp_path: Path, watch: Callable[[], DiskWatch]
) -> None:
    looking = watch()
    outside = tmp_path / "outside"
    outside.mkdir()
    _fill(outside / "much", 4 * MIB)
    (work / "folder").symlink_to(outside)
    (work / "file").symlink_to(outside / "much")
    (work / "loop").symlink_to(work)
    _fill(work / "one", 512 * KIB)
    for number in range(8):
        (work / f"one again {number}").hardlink_to(work / "one")

    assert not _looks(looking)


def test_a_hole_in_a_file_takes_no_space(work: Path, watch: Callable[[], DiskWatch]) -> None:
    looking = watch()
    with (work / "sparse").open("wb") as file:
        file.truncate(1024 * MIB)

    assert not _looks(looking)


@pytest.mark.parametrize("kept", ["open", "mapped", "never named"])
def test_a_deleted_file_counts_while_a_process_keeps_it(
    work: Path, watch: Callable[[], DiskWatch], kept: str
) -> None:
    code = f"""
import mmap, os, sys
if {kept!r} == "never named":
    fd = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)
else:
    fd = os.open(sys.argv[1] + "/gone", os.O_CREAT | os.O_RDWR)
    os.unlink(sys.argv[1] + "/gone")
os.write(fd, os.urandom(2 << 20))
if {kept!r} == "mapped":
    held = mmap.mmap(fd, 0)
    # Also the descriptor that the object has of its own.
    os.closerange(3, 100)
print("ready", flush=True)
sys.stdin.read()
"""
    looking = watch()
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(work)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip("this file system has no files without a name")

        assert _looks(looking, [process.pid])
        assert not _looks(looking, [os.getpid()])

    assert not _looks(looking, [process.pid])


def test_a_mapped_file_is_told_from_one_that_has_its_name(work: Path) -> None:
    with (work / "old").open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert str(work / "old") in Path("/proc/self/maps").read_text()
        assert not [
            each for each in disk._mapped_files(os.getpid()) if each[1][1] == os.fstat(file.fileno()).st_ino
        ]


def test_a_file_in_memory_takes_no_disk(work: Path, watch: Callable[[], DiskWatch]) -> None:
    looking = watch()
    fd = os.memfd_create("in memory")
    os.write(fd, bytes(2 * MIB))

    assert not _looks(looking, [os.getpid()])
    os.close(fd)


def test_a_large_tree_is_seen_whole_over_several_looks(
    work: Path, watch: Callable[[], DiskWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the command lays it out, what it hides behind many entries is come to."""
    monkeypatch.setattr(disk, "SLICE", 10)
    looking = watch()
    for number in range(30):
        folder = work / f"{number}"
        folder.mkdir()
        (folder / "small").touch()
    with os.scandir(work) as entries:
        last = [entry.path for entry in entries if entry.is_dir()][-1]
    _fill(Path(last) / "much", 2 * MIB)

    looks = 1
    while not _looks(looking):
        looks += 1
        assert looks < 20

    assert looks > 1


def test_after_a_look_there_is_a_rest(work: Path, watch: Callable[[], DiskWatch]) -> None:
    looking = watch()
    assert not looking.exceeded([])
    _fill(work / "much", 2 * MIB)
    looking.rest_until += 3600

    assert not looking.exceeded([])
    assert _looks(looking)


def test_what_lies_too_deep_to_be_looked_at_is_too_much(work: Path, watch: Callable[[], DiskWatch]) -> None:
    looking = watch()
    fd = os.open(work, os.O_RDONLY)
    for _ in range(disk.DEPTH + 1):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)

    assert _looks(looking)


def test_a_folder_that_may_not_be_looked_into_is_too_much_only_if_the_command_closed_it(
    tmp_path: Path,
) -> None:
    """As an ordinary user: root looks into every folder."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "closed").mkdir(mode=0)
    code = """
import os, sys
if os.geteuid() == 0:
    # Reached by descriptor: the way there is closed to others.
    fd = os.open(sys.argv[2], os.O_RDONLY)
    os.fchown(fd, 65530, 65530)
    os.fchdir(fd)
    os.chown("closed", 65530, 65530)
names = {"__name__": "bare"}
with open(sys.argv[1]) as file:
    exec(compile(file.read(), "disk", "exec"), names)
if os.geteuid() == 0:
    os.setresuid(65530, 65530, 65530)
else:
    os.chdir(sys.argv[2])
watch = names["DiskWatch"](["."], 1 << 20)
watch.has_fallen = lambda: True
while names["_now_ns"]() <= watch.began_ns:
    pass
watch.began_ns = names["_now_ns"]()
for _ in range(2):
    watch.rest_until = 0
    print(watch.exceeded([]))
    os.chmod("closed", 0o100)
    os.chmod("closed", 0)
"""

    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, disk.__file__, str(work)], capture_output=True, text=True
    )

    assert (said.stdout.split(), said.stderr) == (["False", "True"], "")


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    watch = OnFullDisk([str(tmp_path / "missing")], MIB)

    assert not watch.exceeded([2**22 + 1])
