"""A workspace: paths as models write them, files replaced whole, folders that tools leave alone."""

from __future__ import annotations

import gc
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from placet.errors import ToolError, UsageError
from placet.sandbox.refusals import cannot
from placet.sandbox.workspace import Workspace
from tests.sandbox.canary import SECRET, Canary
from tests.sandbox.test_beneath import both_ways

OUTSIDE = "leads outside the workspace"


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path)


def make(canary: Canary, by_hand: bool) -> Workspace:
    return Workspace(canary.inside, by_hand=by_hand)


def refused(call: object, *args: object, **options: object) -> str:
    """The words of a refusal that trying again cannot help."""
    assert callable(call)
    with pytest.raises(ToolError) as caught:
        call(*args, **options)
    assert not caught.value.retry
    return str(caught.value)


# Paths


def test_a_path_is_taken_relative_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "spelled").symlink_to("real")
    workspace = Workspace(tmp_path / "spelled")

    assert workspace.folder == (tmp_path / "real").resolve()
    assert workspace.relative("a//b/./c/") == "a/b/c"
    assert workspace.relative("./") == workspace.relative(str(workspace.folder)) == "."
    assert workspace.relative(f"{workspace.folder}//x") == workspace.relative(f"{tmp_path}/spelled/x") == "x"
    assert workspace.relative("a/../b") == "a/../b", "where that leads depends on links"
    assert workspace.relative("~/x") == "~/x"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "The path is empty"),
        ("a\0b", "zero character"),
        ("a/\ud800", "half of a surrogate pair"),
        ("n" * 256, "is too long"),
        ("ü" * 128, "is too long"),
        ("a/" * 2048, "is too long"),
        ("/etc/passwd", OUTSIDE),
        ("/", OUTSIDE),
    ],
)
def test_a_path_that_is_none_is_explained(canary: Canary, path: str, says: str) -> None:
    workspace = Workspace(canary.inside)

    for call in (workspace.relative, workspace.list):
        assert says in refused(call, path)
    assert says in refused(workspace.read_bytes, path, 10)
    assert says in refused(workspace.write_bytes, path, b"")


def test_a_sibling_whose_name_begins_alike_is_outside(canary: Canary) -> None:
    assert OUTSIDE in refused(Workspace(canary.inside).relative, f"{canary.inside}-other/x")


def test_a_workspace_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for folder in ("file", "none"):
        with pytest.raises(UsageError, match="cannot be opened"):
            Workspace(tmp_path / folder)


def test_the_descriptor_is_given_back(tmp_path: Path) -> None:
    closed, dropped = Workspace(tmp_path), Workspace(tmp_path)
    fds = [closed.fd, dropped.fd]

    closed.close()
    closed.close()
    del dropped
    gc.collect()

    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    assert "bad file descriptor" in refused(closed.read_bytes, "x", 1)


@both_ways
@pytest.mark.parametrize("text", ["../canary", "{folder}", "../canary/../canary", "into/../../canary"])
def test_links_to_outside_are_refused_for_everything(canary: Canary, text: str, by_hand: bool) -> None:
    inside, workspace = canary.inside, make(canary, by_hand)
    (inside / "into").symlink_to(".")
    (inside / "out").symlink_to(text.format(folder=canary.folder))
    (inside / "secret").symlink_to(text.format(folder=canary.folder) + "/secret.txt")
    (inside / "new").symlink_to(text.format(folder=canary.folder) + "/new.txt")

    for path in ("out/secret.txt", "secret", "out/a/../secret.txt", "../canary/secret.txt"):
        assert OUTSIDE in refused(workspace.read_bytes, path, 1000)
        assert OUTSIDE in refused(workspace.write_bytes, path, b"mine", create_folders=True)
    for path in ("new", "out/new.txt", "out/more/new.txt", "../new.txt"):
        assert OUTSIDE in refused(workspace.write_bytes, path, b"mine", create_folders=True)
    for path in ("out", "out/a", "..", "into/.."):
        assert OUTSIDE in refused(workspace.list, path)
    canary.assert_untouched()


# Reading


@both_ways
def test_only_regular_files_are_read(canary: Canary, by_hand: bool) -> None:
    workspace = make(canary, by_hand)
    os.mkfifo(canary.inside / "pipe")
    (canary.inside / "folder").mkdir()
    (canary.inside / "loop").symlink_to("loop")
    (canary.inside / "five").write_bytes(b"12345")

    assert workspace.read_bytes("five", 5) == b"12345"
    assert "5 bytes, and at most 4" in refused(workspace.read_bytes, "five", 4)
    assert "is no regular file" in refused(workspace.read_bytes, "pipe", 9)
    assert "it is a folder" in refused(workspace.read_bytes, "folder", 9)
    assert "no such file" in refused(workspace.read_bytes, "none", 9)
    assert "too many levels" in refused(workspace.read_bytes, "loop", 9)
    assert "not a directory" in refused(workspace.read_bytes, "five/x", 9)


@both_ways
def test_a_device_is_refused(by_hand: bool) -> None:
    workspace = Workspace("/dev", by_hand=by_hand)

    assert "is no regular file" in refused(workspace.read_bytes, "zero", 9)
    assert "is no regular file" in refused(workspace.write_bytes, "null", b"x")


@both_ways
def test_other_folders_are_read_where_that_was_allowed(canary: Canary, by_hand: bool) -> None:
    shared = canary.folder / "a"
    (canary.inside / "link").symlink_to(shared)
    workspace = Workspace(canary.inside, readable=[shared, canary.parent / "none"], by_hand=by_hand)

    assert SECRET in workspace.read_bytes(f"{shared}/b/file.txt", 100).decode()
    assert [entry.name for entry in workspace.list(str(shared))] == ["b", "file.txt"]
    assert OUTSIDE in refused(workspace.read_bytes, f"{shared}/../secret.txt", 100)
    assert OUTSIDE in refused(workspace.read_bytes, "link/file.txt", 100)
    assert OUTSIDE in refused(workspace.read_bytes, f"{canary.parent}/none/x", 100)
    assert OUTSIDE in refused(workspace.write_bytes, f"{shared}/file.txt", b"mine")
    assert OUTSIDE in refused(workspace.open, f"{shared}/file.txt", os.O_WRONLY)
    canary.assert_untouched()


# Writing


@both_ways
def test_a_file_is_made_with_its_folders(canary: Canary, by_hand: bool) -> None:
    workspace = make(canary, by_hand)
    umask = os.umask(0o027)
    try:
        made = workspace.write_bytes("a/b/new.txt", b"text", create_folders=True)
    finally:
        os.umask(umask)

    assert (made.path, made.created) == ("a/b/new.txt", True)
    assert (canary.inside / "a/b/new.txt").read_bytes() == b"text"
    assert stat.S_IMODE((canary.inside / "a/b/new.txt").stat().st_mode) == 0o640
    assert "does not exist" in refused(workspace.write_bytes, "c/new.txt", b"")
    assert not (canary.inside / "c").exists()


@both_ways
def test_a_file_is_replaced_and_keeps_its_mode_but_no_powers(canary: Canary, by_hand: bool) -> None:
    workspace = make(canary, by_hand)
    path = canary.inside / "run.sh"
    path.write_text("old")
    path.chmod(0o4751)
    os.link(path, canary.parent / "inside" / "second")

    made = workspace.write_bytes("run.sh", b"new")

    assert not made.created
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert (canary.inside / "second").read_text() == "old", "a second name keeps what it had"


@both_ways
def test_where_a_link_stands_the_file_it_leads_to_is_replaced(canary: Canary, by_hand: bool) -> None:
    inside, workspace = canary.inside, make(canary, by_hand)
    (inside / "a/b").mkdir(parents=True)
    (inside / "a/file").write_text("old")
    (inside / "a/b/link").symlink_to("../file")
    (inside / "link").symlink_to("folder/link")
    (inside / "folder").symlink_to("a/b/")
    (inside / "dangling").symlink_to("a/made")

    workspace.write_bytes("link", b"new")
    made = workspace.write_bytes("dangling", b"made")

    assert (inside / "a/file").read_bytes() == b"new"
    assert os.readlink(inside / "link") == "folder/link"
    assert made.created
    assert (inside / "a/made").read_bytes() == b"made"
    assert (inside / "dangling").is_symlink()


@both_ways
def test_what_is_no_file_is_not_replaced(canary: Canary, by_hand: bool) -> None:
    workspace = make(canary, by_hand)
    (canary.inside / "folder").mkdir()
    (canary.inside / "to_folder").symlink_to("folder")
    os.mkfifo(canary.inside / "pipe")

    for path in ("folder", "to_folder", "folder/..", "x/.."):
        assert "folder" in refused(workspace.write_bytes, path, b"x")
    for path in (".", "new/", "new/."):
        assert "names a folder" in refused(workspace.write_bytes, path, b"x")
    assert "is no regular file" in refused(workspace.write_bytes, "pipe", b"x")
    assert sorted(os.listdir(canary.inside)) == ["folder", "pipe", "to_folder"]
    assert os.listdir(canary.inside / "folder") == []


def test_a_file_that_changed_meanwhile_is_not_replaced(canary: Canary) -> None:
    workspace = Workspace(canary.inside)
    path = canary.inside / "file"
    path.write_text("one")
    _, seen = workspace.read("file", 100)
    os.utime(path, ns=(seen.mtime_ns, seen.mtime_ns + 1))

    with pytest.raises(ToolError, match="changed meanwhile") as caught:
        workspace.write_bytes("file", b"two", if_unchanged=seen)

    assert caught.value.retry
    assert path.read_text() == "one"
    assert os.listdir(canary.inside) == ["file"]
    path.unlink()
    with pytest.raises(ToolError, match="changed meanwhile"):
        workspace.write_bytes("file", b"two", if_unchanged=seen)
    assert os.listdir(canary.inside) == []


@both_ways
def test_a_file_that_nobody_may_write_is_left(canary: Canary, by_hand: bool) -> None:
    workspace = make(canary, by_hand)
    path = canary.inside / "file"
    path.write_text("old")
    path.chmod(0o555)
    (canary.inside / "link").symlink_to("file")
    was = path.stat().st_ino

    for name in ("file", "link"):
        assert "mode 0555 lets nobody write it" in refused(workspace.write_bytes, name, b"new"), name
    assert "chmod u+w" in refused(workspace.write_bytes, "new/../file", b"new", create_folders=True)

    assert (path.read_text(), path.stat().st_ino) == ("old", was)
    path.chmod(0o200)
    workspace.write_bytes("file", b"new")
    assert path.read_bytes() == b"new"


@both_ways
def test_a_refused_write_leaves_no_folders_behind(canary: Canary, by_hand: bool) -> None:
    inside, workspace = canary.inside, make(canary, by_hand)
    (inside / ".git").mkdir()
    (inside / "alias").symlink_to(".git")
    (inside / "out").symlink_to("../canary")
    (inside / "old").mkdir()
    (inside / "file").touch()
    paths = {
        "new/../../canary/x": OUTSIDE,
        "new/more/../../out/x": OUTSIDE,
        "new/../alias/x": ".git or .placet",
        "new/../alias/more/x": ".git or .placet",
        "new/../alias": ".git or .placet",
        "new/more/../../old": "is a folder",
        "old/new/../../file/x": "not a directory",
        "new/more/..": "folder",
    }

    for path, says in paths.items():
        assert says in refused(workspace.write_bytes, path, b"x", create_folders=True), path

        assert sorted(path.name for path in inside.rglob("*")) == [".git", "alias", "file", "old", "out"]
    workspace.write_bytes("new/../old/x", b"x", create_folders=True)
    assert (inside / "new").is_dir()
    canary.assert_untouched()


def test_a_file_is_on_the_disk_before_it_takes_its_name_and_the_name_after(
    canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a crash of the machine shows whether the disk was asked, so this test watches the asking."""
    workspace = Workspace(canary.inside)
    path = canary.inside / "sub/file"
    asked: list[tuple[str, bool]] = []

    def watched(opened: int) -> None:
        what = os.fstat(opened)
        is_file = stat.S_ISREG(what.st_mode)
        assert is_file or os.path.samestat(what, path.parent.stat())
        asked.append(("file" if is_file else "folder", path.exists() and path.read_text() == "new"))

    monkeypatch.setattr(os, "fsync", watched)
    workspace.write_bytes("sub/file", b"new", create_folders=True)

    assert asked == [("file", False), ("folder", True)]


_FAILING_WRITES = """
import os, resource, sys
from placet.errors import ToolError
from placet.sandbox.workspace import Workspace

workspace = Workspace(sys.argv[1])
workspace.list(".")  # imports what it needs while it still may
if sys.argv[2] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
elif os.geteuid() == 0:
    os.setuid(65534)
else:
    os.chmod(sys.argv[1], 0o555)
for path in ("file", "new", "more/new"):
    try:
        workspace.write_bytes(path, b"x" * 10_000, create_folders=True)
    except ToolError as error:
        print(error.retry, error)
"""


@pytest.mark.parametrize(("what", "says"), [("full", "file too large"), ("denied", "permission denied")])
def test_a_write_that_fails_leaves_everything_as_it_was(canary: Canary, what: str, says: str) -> None:
    (canary.inside / "file").write_text("old")
    canary.inside.chmod(0o755)

    done = subprocess.run(
        [sys.executable, "-c", _FAILING_WRITES, canary.inside, what],
        capture_output=True,
        text=True,
        check=True,
    )

    canary.inside.chmod(0o755)
    assert not (canary.inside / "more").exists()
    assert re.fullmatch(rf"(False Cannot write '[\w/]+': {says}\. .*\n){{3}}", done.stdout), done
    assert os.listdir(canary.inside) == ["file"]
    assert (canary.inside / "file").read_text() == "old"


# Folders that tools leave alone


@both_ways
def test_git_and_placet_are_not_written_by_any_name(canary: Canary, by_hand: bool) -> None:
    inside, workspace = canary.inside, make(canary, by_hand)
    for folder in (".git/hooks", ".placet", "sub/.git", "meta"):
        (inside / folder).mkdir(parents=True)
    (inside / ".git/config").write_text("mine")
    (inside / "worktree").mkdir()
    (inside / "worktree/.git").write_text("gitdir: elsewhere")
    (inside / "alias").symlink_to(".git")
    (inside / "hooks").symlink_to(".git/hooks")
    (inside / "config").symlink_to(".git/config")
    (inside / "linked").mkdir()
    (inside / "linked/.git").symlink_to("../meta")
    (inside / "bare").mkdir()
    (inside / "bare/.placet").symlink_to("real")
    (inside / "bare/real/deep").mkdir(parents=True)
    paths = [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/new/folder/x",
        ".placet/policy.toml",
        "sub/.git/config",
        "sub/../sub/.git/x",
        "worktree/.git",
        "alias/config",
        "alias/hooks/../config",
        "hooks/pre-commit",
        "config",
        "linked/.git/x",
        "bare/real/x",
        "bare/real/deep/x",
        "fresh/.git/config",
        "fresh/.Git/config",
        ".GIT/config",
        ".placet",
        f"{inside}/.git/config",
    ]

    for path in paths:
        assert ".git or .placet" in refused(workspace.write_bytes, path, b"x", create_folders=True), path

    assert (inside / ".git/config").read_text() == "mine"
    assert [p for p in inside.rglob("*") if p.is_file() and p.read_bytes() == b"x"] == []
    assert workspace.read_bytes(".git/config", 100) == b"mine", "reading is no harm"
    workspace.write_bytes(".gitignore", b"x")
    workspace.write_bytes("meta.git", b"x")


@both_ways
def test_a_link_to_itself_does_not_lock_a_folder(canary: Canary, by_hand: bool) -> None:
    (canary.inside / ".git").symlink_to(".")

    make(canary, by_hand).write_bytes("file", b"x")

    assert (canary.inside / "file").read_bytes() == b"x"


@both_ways
def test_the_records_of_placet_are_not_read_but_long_outputs_are(canary: Canary, by_hand: bool) -> None:
    inside, workspace = canary.inside, make(canary, by_hand)
    (inside / ".placet/data/spill/run").mkdir(parents=True)
    (inside / ".placet/data/spill/run/output.txt").write_text("long")
    (inside / ".placet/data/placet.db").write_text("record")
    (inside / ".placet/policy.toml").write_text("rules")
    (inside / "alias").symlink_to(".placet/data")
    (inside / "db").symlink_to(".placet/data/placet.db")
    (inside / "spilled").symlink_to(".placet/data/spill/run/output.txt")

    for path in (".placet/data/placet.db", "alias/placet.db", "db", ".placet/data/spill/../placet.db"):
        assert "keeps its records" in refused(workspace.read_bytes, path, 100)
    for path in (".placet/data", "alias", ".placet/data/spill/.."):
        assert "keeps its records" in refused(workspace.list, path)
    assert workspace.read_bytes(".placet/data/spill/run/output.txt", 100) == b"long"
    assert workspace.read_bytes("spilled", 100) == b"long"
    assert [entry.name for entry in workspace.list(".placet/data/spill")] == ["run"]
    assert workspace.read_bytes(".placet/policy.toml", 100) == b"rules"
    assert "not write" in refused(workspace.write_bytes, ".placet/data/spill/run/output.txt", b"x")


@both_ways
def test_what_is_closed_is_neither_read_nor_written(canary: Canary, by_hand: bool) -> None:
    inside = canary.inside
    (inside / "home/placet").mkdir(parents=True)
    (inside / "home/placet/mcp.json").write_text("mine")
    (inside / "runs.db").write_text("mine")
    (inside / "alias").symlink_to("home/placet")
    workspace = Workspace(inside, closed=[inside / "home/placet", inside / "runs.db"], by_hand=by_hand)

    for path in ("home/placet/mcp.json", "alias/mcp.json", "runs.db", "home/../runs.db"):
        assert "keeps its records" in refused(workspace.read_bytes, path, 100)
        assert "keeps its records" in refused(workspace.write_bytes, path, b"x")
    assert "keeps its records" in refused(workspace.write_bytes, "alias/new/file", b"x", create_folders=True)
    assert "keeps its records" in refused(workspace.list, "home/placet")
    assert [entry.name for entry in workspace.list("home")] == ["placet"]
    assert os.listdir(inside / "home/placet") == ["mcp.json"]


@both_ways
def test_what_is_closed_and_not_there_yet_is_not_made(canary: Canary, by_hand: bool) -> None:
    inside = canary.inside
    (inside / "config").mkdir()
    workspace = Workspace(inside, closed=[inside / "config/placet", inside / "new.db"], by_hand=by_hand)

    for path in ("config/placet/settings.toml", "config/placet", "new.db", "config/../new.db"):
        assert "keeps its records" in refused(workspace.write_bytes, path, b"x", create_folders=True), path
    workspace.write_bytes("config/other/file", b"x", create_folders=True)

    assert sorted(path.name for path in inside.rglob("*")) == ["config", "file", "other"]


@both_ways
def test_the_records_of_projects_further_down_are_not_read_either(canary: Canary, by_hand: bool) -> None:
    inside, workspace = canary.inside, make(canary, by_hand)
    for folder in ("sub/.placet/data/spill", "a/b/c/.placet/data/runs", "sub/real/data", "sub/plain/data"):
        (inside / folder).mkdir(parents=True)
        (inside / folder / "file").write_text("mine")
    (inside / "sub/.placet/policy.toml").write_text("rules")
    (inside / "sub/linked").mkdir()
    (inside / "sub/linked/.placet").symlink_to("../real")
    (inside / "alias").symlink_to("sub/.placet/data")

    for path in ("sub/.placet/data/spill/file", "alias/spill/file", "a/b/c/.placet/data/runs/file"):
        assert "keeps its records" in refused(workspace.read_bytes, path, 100), path
    for path in ("sub/.placet/data", "alias", "a/b/c/.placet/data/runs/..", "sub/linked/../.placet/data"):
        assert "keeps its records" in refused(workspace.list, path), path
    assert workspace.read_bytes("sub/.placet/policy.toml", 100) == b"rules"
    assert workspace.read_bytes("sub/plain/data/file", 100) == b"mine"


# Workspaces in such folders


@both_ways
@pytest.mark.parametrize(
    "where", [".git", ".git/hooks", ".placet", ".placet/more/and/more", "meta/deep", ".GIT/x"]
)
def test_a_workspace_in_git_or_placet_is_not_written(canary: Canary, where: str, by_hand: bool) -> None:
    folder = canary.inside / where
    folder.mkdir(parents=True)
    if where.startswith("meta"):
        (canary.inside / ".git").symlink_to("meta")
    (folder / "file").write_text("mine")
    workspace = Workspace(folder, by_hand=by_hand)

    for path in ("file", "new", "a/b/new", f"{folder}/file"):
        said = refused(workspace.write_bytes, path, b"x", create_folders=True)
        assert "lies in a folder .git or .placet" in said, path

    assert workspace.read_bytes("file", 100) == b"mine"
    assert os.listdir(folder) == ["file"]
    with pytest.raises(ToolError, match="lies in a folder"):
        workspace.open("new", os.O_WRONLY | os.O_CREAT, 0o600)
    assert os.listdir(folder) == ["file"]


@both_ways
def test_a_workspace_in_a_closed_folder_is_neither_read_nor_written(canary: Canary, by_hand: bool) -> None:
    inside = canary.inside
    (inside / "config/placet/deep").mkdir(parents=True)
    (inside / "config/placet/deep/file").write_text("mine")
    (inside / "spelled").symlink_to("config")
    closed = [inside / "spelled/placet", inside / "none"]
    workspace = Workspace(inside / "config/placet/deep", closed=closed, by_hand=by_hand)

    assert "lies where Placet keeps" in refused(workspace.read_bytes, "file", 100)
    assert "lies where Placet keeps" in refused(workspace.list, ".")
    assert "lies where Placet keeps" in refused(workspace.write_bytes, "new/x", b"x", create_folders=True)
    assert os.listdir(inside / "config/placet/deep") == ["file"]
    assert Workspace(inside / "config", closed=[inside / "other"]).list(".")[0].name == "placet"


@both_ways
def test_a_workspace_among_the_records_reads_nothing_but_long_outputs(canary: Canary, by_hand: bool) -> None:
    inside, data = canary.inside, canary.inside / ".placet/data"
    (data / "spill/run").mkdir(parents=True)
    (data / "other").mkdir()
    for folder in (data, data / "spill", data / "spill/run", data / "other"):
        (folder / "file").write_text("mine")

    for folder in (data, data / "other"):
        assert "keeps its records" in refused(Workspace(folder, by_hand=by_hand).read_bytes, "file", 100)
    assert "keeps its records" in refused(Workspace(data.parent, by_hand=by_hand).read_bytes, "data/file", 9)
    for folder in (data / "spill", data / "spill/run"):
        workspace = Workspace(folder, by_hand=by_hand)
        assert workspace.read_bytes("file", 100) == b"mine"
        assert "lies in a folder" in refused(workspace.write_bytes, "file", b"x")
    (inside / "sub").mkdir()
    workspace = Workspace(inside / "sub", readable=[data / "spill", data / "spill/none"], by_hand=by_hand)
    assert workspace.read_bytes(f"{data}/spill/run/file", 100) == b"mine"


@both_ways
def test_a_readable_folder_does_not_open_what_is_closed_in_it(canary: Canary, by_hand: bool) -> None:
    shared, inner = canary.folder, canary.folder / "a"
    workspace = Workspace(
        canary.inside, readable=[shared, canary.parent / "x"], closed=[inner], by_hand=by_hand
    )
    kept = Workspace(canary.inside, readable=[inner / "b"], closed=[inner], by_hand=by_hand)

    assert SECRET in workspace.read_bytes(f"{shared}/file.txt", 100).decode()
    assert "keeps its records" in refused(workspace.read_bytes, f"{inner}/file.txt", 100)
    assert SECRET in kept.read_bytes(f"{inner}/b/file.txt", 100).decode(), "it was allowed by name"


# Turns


_HOLDS = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("held", [".", "sub"])
def test_a_write_waits_for_other_processes_but_not_for_ever(canary: Canary, held: str) -> None:
    workspace = Workspace(canary.inside, wait_s=0.05)
    (canary.inside / "sub").mkdir()
    (canary.inside / "sub/file").write_text("old")
    command = [sys.executable, "-c", _HOLDS, canary.inside / held]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"

        with pytest.raises(ToolError, match="is busy") as caught:
            workspace.write_bytes("sub/file", b"new")

        assert caught.value.retry
        assert (canary.inside / "sub/file").read_text() == "old"
        assert os.listdir(canary.inside / "sub") == ["file"]
        other.communicate()
    workspace.write_bytes("sub/file", b"new")
    assert (canary.inside / "sub/file").read_text() == "new"


def test_a_turn_may_be_taken_again_by_its_holder_and_is_given_back(canary: Canary) -> None:
    one, two = (Workspace(canary.inside, wait_s=0.05) for _ in range(2))

    with one.lock as held:
        assert isinstance(held, int)
        with one.lock:
            one.write_bytes("file", b"one")
        with pytest.raises(ToolError, match="is busy"):
            two.write_bytes("file", b"two")
        # As after a fork: another process has what we have opened, and must not keep the turn.
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[held])
    two.write_bytes("file", b"two")
    child.communicate()

    assert (canary.inside / "file").read_bytes() == b"two"


_UNREADABLE = """
import os, sys
from placet.sandbox.workspace import Workspace

workspace = Workspace(sys.argv[1])
workspace.list(".")  # imports what it needs while it still may
os.chmod(sys.argv[1], 0o333)
if os.geteuid() == 0:
    os.setuid(65534)
workspace.write_bytes("file", b"new")
try:
    workspace.list(".")
except PermissionError:
    print("it may not be read")
"""


def test_a_folder_that_may_not_be_read_is_written_without_a_turn(canary: Canary) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _UNREADABLE, canary.inside], capture_output=True, text=True, check=False
    )

    canary.inside.chmod(0o755)
    assert (done.stdout, done.stderr) == ("it may not be read\n", "")
    assert (canary.inside / "file").read_bytes() == b"new"


@both_ways
def test_what_the_work_was_started_with_is_read_and_not_written(canary: Canary, by_hand: bool) -> None:
    inside = canary.inside
    (inside / "rules").mkdir()
    (inside / "rules/a.toml").write_text("rule")
    (inside / "plan.json").write_text("{}")
    workspace = Workspace(
        inside, sealed=[inside / "rules", inside / "plan.json", inside / "run.jsonl"], by_hand=by_hand
    )

    for path in ("rules/a.toml", "rules/new.toml", "plan.json", "run.jsonl", "rules/../plan.json"):
        assert "was started with" in refused(workspace.write_bytes, path, b"x", create_folders=True), path
    assert workspace.read_bytes("rules/a.toml", 100) == b"rule"
    assert sorted(os.listdir(inside)) == ["plan.json", "rules"]


# Listing


@both_ways
def test_a_folder_is_listed_by_name_with_kinds_and_sizes(canary: Canary, by_hand: bool) -> None:
    workspace = make(canary, by_hand)
    (canary.inside / "folder").mkdir()
    (canary.inside / "b.txt").write_text("12345")
    (canary.inside / "a").symlink_to("/etc")
    os.mkfifo(canary.inside / "pipe")
    (canary.inside / os.fsdecode(b"\xff")).touch()

    found = [(entry.name, entry.kind) for entry in workspace.list(".")]

    assert found == [
        ("a", "link"),
        ("b.txt", "file"),
        ("folder", "folder"),
        ("pipe", "other"),
        ("\udcff", "file"),
    ]
    assert workspace.list(".")[1].size == 5
    with pytest.raises(OSError, match="Not a directory") as caught:
        workspace.list("b.txt")
    assert str(cannot("list", "b.txt", caught.value)).startswith("Cannot list 'b.txt': not a directory. ")
