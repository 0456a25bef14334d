"""A restore does no harm of its own: not to what others have, and not by giving up what it could not do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from placet.errors import ToolError
from placet.sandbox.workspace import Workspace
from placet.worktree.snapshot.store import Snapshots
from placet.worktree.snapshot.taking import Settings
from tests.worktree.snapshot.trees import git, told

ROOT = Path(__file__).parents[3]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A workspace with one file."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a").write_text("a")
    return folder


def snapshots_in(tmp_path: Path, **fields: Any) -> Snapshots:
    return Snapshots(tmp_path / "kept", settings=Settings(**fields))


def shell(folder: Path, command: str) -> None:
    subprocess.run(["sh", "-ec", command], cwd=folder, check=True)


def where_mounts_end(tmp_path: Path, code: str) -> dict[str, Any]:
    """Run Python where mounts are its own and go with it; what it leaves in `said`."""
    script = tmp_path / "child.py"
    start = (
        "import json, os, subprocess\nfrom pathlib import Path\n"
        "from placet.worktree.snapshot.store import Snapshots\n"
        "from placet.sandbox.workspace import Workspace\n"
        f"here = Path({str(tmp_path)!r})\nsaid = {{}}\n"
        "def sh(command):\n    subprocess.run(['sh', '-ec', command], cwd=here, check=True)\n"
    )
    script.write_text(start + code + "\nprint(json.dumps(said))\n")
    alone = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        alone += ["--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode != 0:
        pytest.skip("mounts cannot be made here")
    done = subprocess.run([*alone, sys.executable, str(script)], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# A full disk


@pytest.mark.parametrize(
    "done",
    [
        "rm -r precious zz; cat /dev/zero > big",
        "rm -r precious; cat /dev/zero > zz",
        "rm -r precious zz; mkdir zz; cat /dev/zero > zz/big",
        "head -c 10 /dev/zero 1<>precious/large; rm precious/small; cat /dev/zero > big",
    ],
)
def test_a_disk_that_was_filled_is_no_reason_to_fail(tmp_path: Path, done: str) -> None:
    said = where_mounts_end(
        tmp_path,
        f"""
top = here / "work"
top.mkdir()
sh("mount -t tmpfs -o size=40m,mode=755 none work")
sizes = {{"large": 25 << 20, "small": 10 << 20}}
(top / "precious").mkdir()
for name, size in sizes.items():
    (top / "precious" / name).write_bytes(b"x" * size)
# What comes later in the list must make room for what comes before.
(top / "zz").write_text("my notes")
snapshots, workspace = Snapshots(here / "kept"), Workspace(top)
taken = snapshots.take(workspace)
subprocess.run(["sh", "-c", {done!r}], cwd=top, stderr=subprocess.DEVNULL, check=False)
said["full"] = os.statvfs(top).f_bavail * os.statvfs(top).f_bsize < (10 << 20)
restored = snapshots.restore(taken.id, workspace)
said["problems"] = list(restored.problems)
said["names"] = sorted(os.listdir(top))
said["notes"] = (top / "zz").read_text()
said["whole"] = all((top / "precious" / n).read_bytes() == b"x" * size for n, size in sizes.items())
snapshots.drop(taken.id)
said["kept"] = os.listdir(here / "kept")
""",
    )

    assert said == {
        "full": True,
        "problems": [],
        "names": ["precious", "zz"],
        "notes": "my notes",
        "whole": True,
        "kept": [],
    }


def test_a_snapshot_that_could_not_be_restored_wholly_is_kept_and_named(top: Path, tmp_path: Path) -> None:
    (top / "d").mkdir()
    (top / "d/f").write_text("kept")
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    (top / "d/f").write_text("changed")
    spoiled = tmp_path / "kept" / taken.id / "store/objects"
    spoiled.rename(tmp_path / "aside")

    restored = snapshots.restore(taken.id, workspace)
    assert restored.problems[0] == f"the snapshot is kept in {tmp_path}/kept/{taken.id}, for 30 days"
    snapshots.drop(taken.id)
    snapshots_in(tmp_path).drop(taken.id)
    snapshots_in(tmp_path).prune()
    assert (tmp_path / "kept" / taken.id / "manifest").exists()

    (tmp_path / "aside").rename(spoiled)
    again = snapshots_in(tmp_path)
    assert list(again.restore(taken.id, workspace).problems) == []
    again.drop(taken.id)
    assert not (tmp_path / "kept" / taken.id).exists()


# Mounts


@pytest.mark.parametrize("kind", ["--bind usb", "-t tmpfs none"], ids=["bind", "tmpfs"])
def test_what_was_mounted_meanwhile_is_left_alone(tmp_path: Path, kind: str) -> None:
    said = where_mounts_end(
        tmp_path,
        f"""
top = here / "work"
sh("mkdir -p work/data work/old usb; echo a > work/a; echo d > work/data/d; echo o > work/old/o")
snapshots, workspace = Snapshots(here / "kept"), Workspace(top)
taken = snapshots.take(workspace)
sh('''
mkdir -p work/new/deep; rm -r work/old; touch work/old work/new/aside
for n in 1 2 3 4 5 6 7 8; do mkdir work/new/$n; touch work/new/$n/x; done
for each in work/data work/new/deep; do mount {kind} $each; done
echo img > work/data/photo; chmod 500 work/data; echo img > work/new/deep/photo
mkdir work/new/deep/below; echo other > work/a
''')
restored = snapshots.restore(taken.id, workspace)
said["problems"] = sorted(each.partition(":")[0] for each in restored.problems[1:])
said["words"] = restored.problems[1]
said["photos"] = [(top / name / "photo").read_text() for name in ("data", "new/deep")]
said["below"] = (top / "new/deep/below").is_dir()
said["mode"] = oct((top / "data").stat().st_mode & 0o777)
said["restored"] = [(top / "a").read_text(), (top / "old/o").read_text(), *os.listdir(top / "new")]
""",
    )

    assert said["photos"] == ["img\n", "img\n"]
    assert said["below"]
    assert said["mode"] == "0o500"
    assert said["problems"] == ["data", "new"]
    assert said["words"].endswith("something else is mounted there, and it was left alone")
    assert said["restored"] == ["a\n", "o\n", "deep"]


def test_files_and_objects_that_were_mounted_over_are_left_alone(tmp_path: Path) -> None:
    said = where_mounts_end(
        tmp_path,
        """
top = here / "work"
sh('mkdir -p work usb/objects; echo a > work/a; echo a > usb/a; chmod 600 usb/a; git init -q work/within')
sh('cd work/within; echo f | git hash-object -w --stdin')
snapshots, workspace = Snapshots(here / "kept"), Workspace(top)
taken = snapshots.take(workspace)
sh('mount --bind usb/a work/a; mount --bind usb/objects work/within/.git/objects')
restored = snapshots.restore(taken.id, workspace)
said["problems"] = sorted({each.partition(":")[0] for each in restored.problems[1:]})
said["mode"] = oct((here / "usb/a").stat().st_mode & 0o777)
said["objects"] = os.listdir(here / "usb/objects")
""",
    )

    assert said == {"problems": ["a", "within/.git/objects"], "mode": "0o600", "objects": []}


def test_what_is_mounted_already_is_left_out(tmp_path: Path) -> None:
    said = where_mounts_end(
        tmp_path,
        """
top = here / "work"
sh("mkdir -p work/data usb; echo a > work/a; mount --bind usb work/data; echo img > work/data/photo")
snapshots, workspace = Snapshots(here / "kept"), Workspace(top)
taken = snapshots.take(workspace)
said["left_out"] = list(taken.left_out)
sh("echo more > usb/more; echo b > work/b")
restored = snapshots.restore(taken.id, workspace)
said["problems"], said["not_restored"] = list(restored.problems), list(restored.not_restored)
said["names"] = sorted(os.listdir(top)) + sorted(os.listdir(here / "usb"))
""",
    )

    assert said == {
        "left_out": ["data: on another file system, or mounted there"],
        "problems": [],
        "not_restored": ["data"],
        "names": ["a", "data", "more", "photo"],
    }


# Another folder of the same name


def test_another_folder_of_the_same_name_is_not_restored(top: Path, tmp_path: Path) -> None:
    taken = snapshots_in(tmp_path).take(Workspace(top))
    top.rename(tmp_path / "moved")
    top.mkdir()
    (top / "mine").write_text("new")
    later = snapshots_in(tmp_path)

    with pytest.raises(ToolError, match=r"another folder .* The snapshot is kept in .*/kept/"):
        later.restore(taken.id, Workspace(top))
    later.drop(taken.id)

    assert os.listdir(top) == ["mine"]
    shutil.rmtree(top)
    (tmp_path / "moved").rename(top)
    (top / "a").unlink()
    later.restore(taken.id, Workspace(top))
    assert (top / "a").read_text() == "a"


# Other worktrees


# What was left out


@pytest.mark.parametrize(
    "kind", ["ln -s a pipe", "mkdir pipe", "echo x > pipe", "mkfifo other; ln other pipe"]
)
def test_a_pipe_that_became_another_thing_is_told(top: Path, tmp_path: Path, kind: str) -> None:
    os.mkfifo(top / "pipe")
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    os.rename(top / "pipe", tmp_path / "away")
    shell(top, kind)

    assert list(snapshots.restore(taken.id, workspace).not_restored) == ["pipe"]


def test_a_folder_of_placets_that_came_since_is_told(top: Path, tmp_path: Path) -> None:
    (top / ".placet").mkdir()
    (top / "in").mkdir()
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    shell(top, "mkdir in/.placet .PLACET; echo x > in/.placet/tools.py; echo more > .placet/record")

    restored = snapshots.restore(taken.id, workspace)

    assert sorted(restored.not_restored) == [".PLACET", "in/.placet"]
    assert (top / "in/.placet/tools.py").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("change", ["chmod 600 secret; echo x > secret", "rm -f secret", "mv secret a"])
def test_a_file_that_could_not_be_read_is_told_when_it_changed(
    top: Path, tmp_path: Path, change: str
) -> None:
    (top / "secret").write_text("s")
    (top / "secret").chmod(0o200)
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    assert list(taken.left_out) == ["secret: may not be read"]
    shell(top, change)

    assert list(snapshots.restore(taken.id, workspace).not_restored) == ["secret"]


# Objects


def test_objects_of_a_repository_within_are_brought_back_when_they_were_overwritten(
    top: Path, tmp_path: Path
) -> None:
    within = top / "within"
    within.mkdir()
    git(within, "init", "-q")
    (within / "f").write_text("\n".join(map(str, range(300))))
    git(within, "add", "f")
    git(within, "commit", "-q", "-m", "one")
    was = told(top)
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    taken = snapshots.take(workspace)
    for path in (within / ".git/objects").glob("??/*"):
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.write(b"\0" * path.stat().st_size)

    restored = snapshots.restore(taken.id, workspace)

    assert list(restored.problems) == []
    assert {k: v[2] for k, v in told(top).items()} == {k: v[2] for k, v in was.items()}
    assert git(within, "fsck", "--no-dangling") == ""


# What is left lying about


def test_what_nobody_will_ask_for_goes_when_the_next_is_taken(top: Path, tmp_path: Path) -> None:
    snapshots, workspace = snapshots_in(tmp_path), Workspace(top)
    here = snapshots.take(workspace).id
    gone = []
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            taken = snapshots.take(workspace).id
            shutil.copytree(tmp_path / "kept" / taken, tmp_path / "kept" / f"new-{taken}")
            os.write(writer, taken.encode())
            os._exit(0)
        os.waitpid(child, 0)
        gone.append(os.read(reader, 100).decode())
        os.close(reader)
        os.close(writer)
    old = time.time() - 31 * 86400
    for name in (here, gone[0], gone[1]):
        for file in ("owner", "manifest"):
            os.utime(tmp_path / "kept" / name / file, (old, old))
    # The restore of the second failed, a short time ago.
    (tmp_path / "kept" / gone[1] / "wanted").touch()

    last = snapshots.take(workspace).id

    left = [name for name in os.listdir(tmp_path / "kept") if name != "lock"]
    assert sorted(left) == sorted([here, gone[1], gone[2], last])
