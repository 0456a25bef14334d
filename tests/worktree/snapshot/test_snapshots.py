"""Any tree, after any changes, is brought back."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placet.errors import ToolError, UsageError
from placet.sandbox.workspace import Workspace
from placet.worktree.snapshot.blobs import Blobs
from placet.worktree.snapshot.manifest import read_manifest
from placet.worktree.snapshot.store import Snapshots
from placet.worktree.snapshot.taking import Settings, now_ns
from placet.worktree.snapshot.tree import Bounds, TooMuch, Walk
from tests.worktree.snapshot.trees import told

NAMES = [b"a", b"b", b"c d", b"\xff\xfe", b'q"\n\\', "ä".encode()]
PATHS = [*NAMES, *(x + b"/" + y for x in NAMES[:4] for y in NAMES[:3]), b"a/b/c d", b"b/a/a"]

paths = st.sampled_from(PATHS)
modes = st.sampled_from([0o644, 0o600, 0o755, 0o444, 0o000])
folder_modes = st.sampled_from([0o755, 0o700, 0o555, 0o500])
data = st.sampled_from([b"", b"x", b"one\r\ntwo\n", b"\0" * 5000, b"x" * 40])

changes = st.one_of(
    st.tuples(st.just("write"), paths, data),
    st.tuples(st.just("append"), paths, data),
    st.tuples(st.just("delete"), paths),
    st.tuples(st.just("folder"), paths),
    st.tuples(st.just("move"), paths, paths),
    st.tuples(st.just("chmod"), paths, modes),
    st.tuples(st.just("folder_mode"), paths, folder_modes),
    st.tuples(st.just("link"), paths, st.sampled_from([b"a", b"..", b"/etc", b"nowhere"])),
    st.tuples(st.just("same"), paths, paths),
    st.tuples(st.just("swap"), paths),
)


def change(top: bytes, step: tuple[Any, ...]) -> None:
    """Do one thing to a tree, if it can be done."""
    kind, path, *rest = step
    path = os.path.join(top, path)
    with suppress(OSError, shutil.Error):
        match kind:
            case "write":
                with open(path, "wb") as file:
                    file.write(rest[0])
            case "append":
                times = os.stat(path)
                with open(path, "ab") as file:
                    file.write(rest[0])
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            case "delete":
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
            case "folder":
                os.makedirs(path)
            case "move":
                os.rename(path, os.path.join(top, rest[0]))
            case "chmod" | "folder_mode":
                if not os.path.islink(path) and os.path.isdir(path) == (kind == "folder_mode"):
                    os.chmod(path, rest[0])
            case "link":
                os.symlink(rest[0], path)
            case "same":
                os.link(path, os.path.join(top, rest[0]), follow_symlinks=False)
            case "swap":
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                    change(top, ("link", step[1], b"/tmp"))
                else:
                    os.unlink(path)
                    os.makedirs(path)


def tidy(folder: Path) -> None:
    """Make everything removable again."""
    for where, _, _ in os.walk(folder):
        with suppress(OSError):
            os.chmod(where, 0o755)
    shutil.rmtree(folder, ignore_errors=True)


@settings(max_examples=int(os.environ.get("PLACET_EXAMPLES", "40")))
@given(
    before=st.lists(changes, max_size=12), after=st.lists(changes, min_size=1, max_size=12), git=st.booleans()
)
@example(
    before=[("folder", b"a"), ("write", b"a/a", b"x")],
    after=[("delete", b"a"), ("link", b"a", b"..")],
    git=False,
)
@example(
    before=[("folder", b"a/b"), ("write", b"a/a", b"x"), ("folder_mode", b"a", 0o555)],
    after=[("folder_mode", b"a", 0o700), ("move", b"a", b"b"), ("write", b"a", b"y")],
    git=True,
)
def test_any_tree_is_brought_back_after_any_changes(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]], git: bool
) -> None:
    here = Path(tempfile.mkdtemp())
    try:
        top = here / "work"
        top.mkdir()
        if git:
            # All that makes it a repository, for whoever looks.
            for name in ("objects/pack", "refs/heads"):
                (top / ".git" / name).mkdir(parents=True)
            (top / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        for step in before:
            change(os.fsencode(top), step)
        was = told(top)
        snapshots = Snapshots(here / "kept")
        workspace = Workspace(top)
        taken = snapshots.take(workspace)
        assert told(top) == was

        for step in after:
            change(os.fsencode(top), step)
        first = snapshots.restore(taken.id, workspace)
        again = snapshots.restore(taken.id, workspace)

        unread = {os.fsencode(each.rpartition(": ")[0]) for each in taken.left_out}
        assert {k: v for k, v in told(top).items() if k not in unread} == {
            k: v for k, v in was.items() if k not in unread
        }
        assert list(first.problems) == list(again.problems) == []
        assert (again.changed, again.removed, again.brought_back) == (0, 0, 0)
        workspace.close()
    finally:
        tidy(here)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """An empty workspace."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def snapshots_in(tmp_path: Path, **fields: Any) -> Snapshots:
    return Snapshots(tmp_path / "kept", settings=Settings(**fields))


def test_what_was_not_changed_is_not_written_again(top: Path, tmp_path: Path) -> None:
    for name in ("same", "other"):
        (top / name).write_text(name)
    inodes = {name: (top / name).stat().st_ino for name in ("same", "other")}
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    (top / "other").write_text("OTHER")

    restored = snapshots.restore(taken.id, workspace)

    assert (restored.changed, restored.removed, restored.brought_back) == (1, 0, 0)
    assert (top / "same").stat().st_ino == inodes["same"]
    assert (top / "other").stat().st_ino != inodes["other"]
    assert (top / "other").read_text() == "other"


def test_times_of_files_are_brought_back(top: Path, tmp_path: Path) -> None:
    (top / "old").write_text("1")
    (top / "touched").write_text("2")
    for name in ("old", "touched"):
        os.utime(top / name, ns=(10**18, 10**18 + 123_456_789))
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    (top / "old").write_text("changed")
    (top / "touched").touch()

    snapshots.restore(taken.id, workspace)

    assert {(top / name).stat().st_mtime_ns for name in ("old", "touched")} == {10**18 + 123_456_789}


def test_a_change_that_hides_behind_the_old_times_is_found(top: Path, tmp_path: Path) -> None:
    """Right after the snapshot, of the same size, and with the time put back: only the content tells."""
    file = top / "f"
    file.write_bytes(b"before")
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    # Where the clock that stamps files runs in steps, all of its times may stay the same.
    (young,) = (e for e in read_manifest(str(tmp_path / "kept" / taken.id)).tree.entries if e.path)
    assert young.inode == 0
    was = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"BEFORE")
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))

    snapshots.restore(taken.id, workspace)

    assert file.read_bytes() == b"before"


def test_a_file_that_is_surely_unchanged_is_not_even_read(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time of change is older than the snapshot, so nothing can hide behind it."""
    for name in ("same", "other"):
        (top / name).write_text(name)
    snapshots, workspace = snapshots_in(tmp_path, settle_s=0.0), Workspace(top)
    while now_ns() <= (top / "other").stat().st_ctime_ns:
        time.sleep(0.001)
    taken = snapshots.take(workspace)
    (top / "other").write_text("OTHER")
    compared: list[bytes] = []
    is_same = Blobs.is_same

    def seen(self: Blobs, content: bytes, opened: int) -> bool:
        compared.append(os.pread(opened, 100, 0))
        return is_same(self, content, opened)

    monkeypatch.setattr(Blobs, "is_same", seen)
    snapshots.restore(taken.id, workspace)

    assert compared == [b"OTHER"]
    assert (top / "other").read_text() == "other"


def test_damaged_contents_are_not_written(top: Path, tmp_path: Path) -> None:
    (top / "file").write_text("kept" * 1000)
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    (blob,) = (tmp_path / "kept" / taken.id / "store/objects").glob("??/*")
    blob.write_bytes(blob.read_bytes().replace(b"keptkept", b"KEPTkept", 1))
    (top / "file").write_text("changed")

    restored = snapshots.restore(taken.id, workspace)

    assert [each.partition(":")[0] for each in restored.problems[1:]] == ["file"]
    assert (top / "file").read_text() == "changed"
    assert [path.name for path in top.iterdir()] == ["file"]


def test_without_a_repository_contents_are_kept_by_no_git_process(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> str:
        raise ToolError("git was not found", retry=False)

    for name in ("git", "snapshot.taking"):
        monkeypatch.setattr(f"placet.worktree.{name}.program", absent)
    (top / "one").write_bytes(b"same")
    (top / "two").write_bytes(b"same")
    (top / "large").write_bytes(os.urandom(3 << 20))
    (top / "empty").touch()
    before = told(top)
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)

    taken = snapshots.take(workspace)
    for name in ("one", "large", "empty"):
        (top / name).write_bytes(b"changed")
    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == []
    assert told(top) == before
    assert len([*(tmp_path / "kept" / taken.id / "store/objects").glob("??/*")]) == 3


def test_large_folders_that_can_be_made_again_are_left_out_and_named(top: Path, tmp_path: Path) -> None:
    for name in ("node_modules/x", "small/node_modules", "src"):
        (top / name).mkdir(parents=True)
    (top / "node_modules/x/big").write_bytes(b"1" * 2000)
    (top / "small/node_modules/file").write_bytes(b"1" * 10)
    (top / "src/big").write_bytes(b"1" * 2000)
    snapshots, workspace = snapshots_in(tmp_path, bounds=Bounds(bytes=1000)), Workspace(top)

    taken = snapshots.take(workspace)
    (top / "node_modules/x/big").write_bytes(b"2")
    (top / "small/node_modules/file").write_bytes(b"2")
    (top / "src/big").write_bytes(b"2")
    restored = snapshots.restore(taken.id, workspace)

    assert list(taken.left_out) == ["node_modules: ignored and large"]
    assert list(restored.left_out) == list(restored.not_restored) == ["node_modules"]
    assert (top / "node_modules/x/big").read_bytes() == b"2"
    assert (top / "small/node_modules/file").read_bytes() == b"1" * 10
    assert (top / "src/big").read_bytes() == b"1" * 2000


def test_what_was_left_out_is_never_removed_and_goes_home(top: Path, tmp_path: Path) -> None:
    (top / "app/node_modules").mkdir(parents=True)
    (top / "app/node_modules/big").write_bytes(b"1" * 2000)
    (top / "app/main.js").write_text("main")
    snapshots, workspace = snapshots_in(tmp_path, bounds=Bounds(bytes=1000)), Workspace(top)
    taken = snapshots.take(workspace)

    (top / "app").rename(top / "moved")
    (top / "moved/extra").write_text("new")
    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == []
    assert not (top / "moved").exists()
    assert (top / "app/main.js").read_text() == "main"
    assert (top / "app/node_modules/big").read_bytes() == b"1" * 2000


def test_a_left_out_folder_that_is_gone_is_told(top: Path, tmp_path: Path) -> None:
    (top / "node_modules").mkdir()
    (top / "node_modules/big").write_bytes(b"1" * 2000)
    snapshots, workspace = snapshots_in(tmp_path, bounds=Bounds(bytes=1000)), Workspace(top)
    taken = snapshots.take(workspace)
    shutil.rmtree(top / "node_modules")

    assert list(snapshots.restore(taken.id, workspace).not_restored) == ["node_modules"]


def test_pipes_are_left_out_and_named(top: Path, tmp_path: Path) -> None:
    os.mkfifo(top / "pipe")
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)

    taken = snapshots.take(workspace)
    snapshots.restore(taken.id, workspace)

    assert list(taken.left_out) == ["pipe: a named pipe"]
    assert stat.S_ISFIFO((top / "pipe").lstat().st_mode)


def test_placets_own_records_are_not_touched(top: Path, tmp_path: Path) -> None:
    (top / ".placet/data").mkdir(parents=True)
    (top / ".placet/data/log").write_text("one")
    (top / "run.log").write_text("one")
    workspace = Workspace(top)
    snapshots = Snapshots(top / "kept", leave_alone=[top / "run.log", top / "later.log"])
    taken = snapshots.take(workspace)
    for name in (".placet/data/log", "run.log", "later.log"):
        with (top / name).open("a") as file:
            file.write("two")

    restored = snapshots.restore(taken.id, workspace)

    assert (top / ".placet/data/log").read_text() == "onetwo"
    assert (top / "run.log").read_text() == "onetwo"
    assert (top / "later.log").read_text() == "two"
    assert (restored.changed, restored.removed, list(restored.problems)) == (0, 0, [])
    assert os.listdir(top / "kept") == [taken.id]


def test_nothing_is_written_or_removed_through_a_link(top: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("not yours")
    (outside / "more").write_text("nor this")
    (top / "folder").mkdir()
    (top / "folder/file").write_text("mine")
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    shutil.rmtree(top / "folder")
    (top / "folder").symlink_to(outside)
    os.link(outside / "file", top / "hard")

    snapshots.restore(taken.id, workspace)

    assert told(outside) == {
        b"": ("folder", 0o755, b""),
        b"file": ("file", 0o644, b"not yours"),
        b"more": ("file", 0o644, b"nor this"),
    }
    assert (top / "folder/file").read_text() == "mine"
    assert not (top / "hard").exists()


def test_rights_of_a_file_elsewhere_are_not_changed_through_a_second_name(top: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("the same words")
    outside.chmod(0o600)
    (top / "file").write_text("the same words")
    (top / "file").chmod(0o644)
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    (top / "file").unlink()
    os.link(outside, top / "file")

    snapshots.restore(taken.id, workspace)

    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
    assert stat.S_IMODE((top / "file").stat().st_mode) == 0o644


def test_a_very_deep_tree_is_removed(top: Path, tmp_path: Path) -> None:
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == []
    assert os.listdir(top) == []


def test_too_much_is_refused_with_what_to_do(top: Path, tmp_path: Path) -> None:
    (top / "f").write_bytes(b"1" * 2000)
    snapshots = snapshots_in(tmp_path, most=Bounds(bytes=1000))

    with pytest.raises(UsageError, match=r"more than 1,000 bytes.*Bind a smaller folder"):
        snapshots.take(Workspace(top))

    assert os.listdir(tmp_path / "kept") == []


def test_a_snapshot_is_private_and_gone_when_it_is_dropped(top: Path, tmp_path: Path) -> None:
    (top / "secret").write_text("s")
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace, run_id="r", durable=True)
    assert {stat.S_IMODE((tmp_path / "kept" / n).stat().st_mode) for n in (".", taken.id)} == {0o700}

    snapshots.drop(taken.id)
    snapshots.drop(taken.id)

    assert os.listdir(tmp_path / "kept") == []
    with pytest.raises(ToolError, match="cannot be read"):
        snapshots.restore(taken.id, workspace)


def test_snapshots_of_processes_that_are_gone_are_pruned_unless_they_are_needed(
    top: Path, tmp_path: Path
) -> None:
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    here = snapshots.take(workspace, run_id="here").id
    gone = {}
    for run_id in ("needed", "over"):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, snapshots.take(workspace, run_id=run_id).id.encode())
            os._exit(0)
        os.waitpid(child, 0)
        gone[run_id] = os.read(reader, 100).decode()
        os.close(reader)
        os.close(writer)

    removed = snapshots.prune(lambda run_id: run_id == "needed")

    assert removed == [gone["over"]]
    assert sorted(os.listdir(tmp_path / "kept")) == sorted([here, gone["needed"], "lock"])


# Who else works there


def test_a_folder_and_what_is_around_and_beneath_it_is_claimed_by_one(top: Path, tmp_path: Path) -> None:
    (top / "in").mkdir()
    (tmp_path / "works").mkdir()
    snapshots = snapshots_in(tmp_path)
    held = snapshots.claim(Workspace(top), "first")

    for other in (top, top / "in", tmp_path):
        with pytest.raises(UsageError, match=r"is taken: run 'first' \(process \d+\) is at work in"):
            snapshots.claim(Workspace(other), "second")
    snapshots.claim(Workspace(tmp_path / "works"), "third").release()

    held.release()
    held.release()
    snapshots.claim(Workspace(tmp_path), "second").release()
    assert os.listdir(tmp_path / "kept") == ["lock"]


def test_a_claim_goes_with_its_process(top: Path, tmp_path: Path) -> None:
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    child = os.fork()
    if child == 0:
        snapshots.claim(workspace, "killed")
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    assert len(os.listdir(tmp_path / "kept")) == 2

    snapshots.prune()
    assert os.listdir(tmp_path / "kept") == ["lock"]
    snapshots.claim(workspace, "next").release()


def test_a_snapshot_since_which_another_run_worked_there_is_not_restored(top: Path, tmp_path: Path) -> None:
    (top / "in").mkdir()
    (tmp_path / "aside").mkdir()
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace, run_id="first")
    beneath, aside = Workspace(top / "in"), Workspace(tmp_path / "aside")
    later = snapshots.take(beneath, run_id="second")

    snapshots.overtake("0" * 16, aside, "elsewhere")
    snapshots.overtake(taken.id, workspace, "first", own=[later.id])
    (top / "f").write_text("x")
    snapshots.restore(taken.id, workspace)
    assert not (top / "f").exists()

    snapshots.overtake(later.id, beneath, "second")
    snapshots.adopt(taken.id, "first")
    (top / "f").write_text("x")
    with pytest.raises(ToolError, match="run 'second' has worked there since"):
        snapshots.restore(taken.id, workspace)
    assert (top / "f").read_text() == "x"

    snapshots.withdraw(later.id)
    snapshots.restore(taken.id, workspace)
    assert not (top / "f").exists()


# What was left out


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("true", []),
        ("rm in/pipe", ["in/pipe"]),
        ("rm in/pipe && echo x > in/pipe", ["in/pipe"]),
        ("mv in/pipe elsewhere", []),
        ("rm -r in", ["in/pipe"]),
        ("echo x 1<>in/pipe; cat < /dev/null 1<>in/pipe", []),
    ],
)
def test_a_pipe_that_is_not_what_it_was_is_told(
    top: Path, tmp_path: Path, change: str, told: list[str]
) -> None:
    (top / "in").mkdir()
    os.mkfifo(top / "in/pipe")
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)

    subprocess.run(["sh", "-c", change], cwd=top, check=True)
    restored = snapshots.restore(taken.id, workspace)

    assert list(taken.left_out) == ["in/pipe: a named pipe"]
    assert (list(restored.not_restored), list(restored.problems)) == (told, [])
    assert (top / "in/pipe").exists() == (change != "rm in/pipe" and change != "rm -r in")


def test_a_huge_tree_is_refused_before_it_is_walked_whole(top: Path, tmp_path: Path) -> None:
    for number in range(30):
        (top / f"d{number:02}").mkdir()
        (top / f"d{number:02}/f").write_text("x")
    seen: list[str] = []

    class Watched:
        def __contains__(self, _: object) -> bool:
            seen.append("looked")
            return False

    walk = Walk(Watched(), lambda path, name: False, Bounds(), 0, Bounds(entries=10))
    opened = os.open(top, os.O_RDONLY)
    with pytest.raises(TooMuch, match="10 files and folders"):
        walk.all(opened)
    os.close(opened)
    assert len(seen) < 12

    with pytest.raises(UsageError, match=r"more than 10 files and folders.*Bind a smaller folder"):
        snapshots_in(tmp_path, most=Bounds(entries=10)).take(Workspace(top))


def test_what_can_be_made_again_does_not_count(top: Path, tmp_path: Path) -> None:
    (top / "node_modules").mkdir()
    for number in range(30):
        (top / f"node_modules/f{number}").write_text("x" * 100)
    (top / "z").write_text("kept")

    for most in (Bounds(entries=10), Bounds(bytes=500)):
        taken = snapshots_in(tmp_path, most=most).take(Workspace(top))
        assert (taken.files, list(taken.left_out)) == (1, ["node_modules: ignored and large"])
