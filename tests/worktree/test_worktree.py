"""A session's folder: attempts, exports, trees, what is published; and that the person's is untouched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from placet.errors import UsageError
from placet.worktree import objects as store
from placet.worktree.objects import MOST_DIFF
from placet.worktree.worktree import Changed, Worktree, find_repository
from tests.coder.repositories import FILES, files, fingerprint, make_repository, objects, outside, write
from tests.worktree.repositories import Inside, needs_bubblewrap


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "work")


async def opened(top: Path, home: Path | None = None) -> Worktree:
    workshop = Worktree(home or top.parent / "home", await find_repository(top))
    await workshop.open()
    return workshop


# Finding


async def test_a_repository_is_found_from_a_folder_below(work: Path) -> None:
    found = await find_repository(work / "tests")

    assert (found.top, found.git_dir, found.common) == (work, f"{work}/.git", f"{work}/.git")
    assert (found.head, found.branch) == (outside(work, "rev-parse", "HEAD").strip(), "main")


async def test_a_detached_head_is_on_no_branch(work: Path) -> None:
    outside(work, "checkout", "-q", "--detach")

    assert (await find_repository(work)).branch is None


async def test_what_cannot_be_worked_on_is_told(tmp_path: Path, work: Path) -> None:
    (tmp_path / "plain").mkdir()
    outside(tmp_path, "init", "-q", "new")
    outside(tmp_path, "init", "-q", "--bare", "bare.git")
    outside(tmp_path, "init", "-q", "half")
    outside(tmp_path / "half", "config", "core.bare", "true")
    outside(tmp_path, "init", "-q", "apart")
    outside(tmp_path / "apart", "config", "core.worktree", str(tmp_path / "plain"))
    (tmp_path / "apart/sub").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "link/.git").symlink_to(work / ".git")
    said = {
        "plain": "in no git repository",
        "new": "no commit yet",
        "bare.git": "bare",
        "half": "bare",
        "apart": "core.worktree is .*/plain",
        "apart/sub": "core.worktree is .*/plain",
        "link": "is a link",
        "nothing": "no folder",
    }

    for name, words in said.items():
        with pytest.raises(UsageError, match=words):
            await find_repository(tmp_path / name)


async def test_a_folder_without_a_repository_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=f"^{tmp_path} is in no git repository"):
        await find_repository(Path("."))


async def test_settings_are_read_anew_when_the_file_is_another(work: Path) -> None:
    """Though git is asked once about the same bytes."""
    sparse = (work / ".git/config").read_text() + "[core]\n\tsparseCheckout = true\n"
    plain = (work / ".git/config").read_text()
    found = await find_repository(work)

    for _ in range(2):
        (work / ".git/config").write_text(sparse)
        with pytest.raises(UsageError, match="sparse checkout"):
            await find_repository(work)
        (work / ".git/config").write_text(plain)
        assert await find_repository(work) == found


# Attempts


async def test_an_attempt_has_the_files_of_the_tree_and_nothing_of_the_person_changes(work: Path) -> None:
    before, held = fingerprint(work), objects(work)
    workshop = await opened(work)

    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)

    assert files(folder) == files(work) == dict(FILES)
    assert await workshop.tree_of(1) == base == outside(work, "rev-parse", "HEAD^{tree}").strip()
    assert sorted(await workshop.paths(base)) == sorted(FILES)
    assert (fingerprint(work), objects(work)) == (before, held)


async def test_what_changes_in_an_attempt_is_in_its_tree(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    write(folder, {"app.py": FILES["app.py"].replace("-", "+"), "new/ä b.py": "1\n", "x.log": "ignored"})
    (folder / "tests/test_app.py").unlink()
    (folder / "run").symlink_to("app.py")

    tree = await workshop.tree_of(1)

    assert await workshop.changed(base, tree) == [
        Changed("app.py", "modified"),
        Changed("new/ä b.py", "added"),
        Changed("run", "added"),
        Changed("tests/test_app.py", "deleted"),
    ]
    assert await workshop.tree_of(1) == tree
    assert files(work) == dict(FILES)


@pytest.mark.parametrize("remembered", [store._MOST_REMEMBERED, 5, 0])
async def test_texts_of_a_tree_are_those_of_its_files(
    work: Path, remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_MOST_REMEMBERED", remembered)
    workshop = await opened(work)
    folder = await workshop.check_out(1, await workshop.begin(False))
    texts = {"a": "one\n", "b": "one\n", "c": "", "d": "\n\n", "e": "two 4\n\nthree"}
    write(folder, {**texts, "long": "x" * (store._LONGEST_TEXT + 1)})
    (folder / "link").symlink_to("a")
    paths = [*texts, "link", "long", "nothing"]
    trees = [await workshop.tree_of(1)]
    write(folder, {"a": "four\n"})
    trees.append(await workshop.tree_of(1))

    for a, tree in [("one\n", trees[0]), ("four\n", trees[1])] * 2:
        assert await workshop.texts(tree, paths) == {**texts, "a": a}
        assert await workshop.texts(tree, paths, most=2) == {"a": a, "b": "one\n"}
        assert await workshop.texts(tree, ["long"]) == {}


async def test_each_of_many_trees_is_listed_as_it_is_however_often(work: Path) -> None:
    workshop = await opened(work)
    trees = [await workshop.begin(False)]
    folder = await workshop.check_out(1, trees[0])
    for number in range(6):
        write(folder, {f"new{number}.txt": "new\n"})
        trees.append(await workshop.tree_of(1))

    for _ in range(2):
        listed = [set(await workshop.paths(tree)) for tree in trees]
        news = [sorted(paths - listed[0]) for paths in listed]
        assert news == [[f"new{each}.txt" for each in range(number)] for number in range(7)]


async def test_a_change_that_keeps_size_and_time_is_seen(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    path = await workshop.check_out(1, base) / "app.py"
    was = path.stat()
    path.write_text(path.read_text().replace("-", "+"))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    assert [each.path for each in await workshop.changed(base, await workshop.tree_of(1))] == ["app.py"]


async def test_an_attempt_is_left_alone_unless_wanted_anew(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    write(folder, {"app.py": "changed\n", "deep/x.py": ""})

    again = await workshop.check_out(1, base)
    kept = files(again)
    anew = await workshop.check_out(1, base, anew=True)

    assert again == anew == folder
    assert kept["app.py"] == "changed\n"
    assert files(anew) == dict(FILES)
    assert await workshop.tree_of(1) == base


async def test_attempts_do_not_see_each_other(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    write(await workshop.check_out(1, base), {"one.py": ""})
    write(await workshop.check_out(2, base), {"two.py": ""})

    first, second = await workshop.tree_of(1), await workshop.tree_of(2)

    assert [each.path for each in await workshop.changed(base, first)] == ["one.py"]
    assert [each.path for each in await workshop.changed(base, second)] == ["two.py"]


async def test_git_in_an_attempt_shows_the_history_and_is_clean(work: Path) -> None:
    write(work, {"app.py": "mine\n"})
    workshop = await opened(work)

    folder = await workshop.check_out(1, await workshop.begin(True))

    assert outside(folder, "status", "--short") == ""
    assert outside(folder, "branch", "--show-current").strip() == "placet/work"
    assert outside(folder, "log", "--format=%s").splitlines()[-1] == "first"
    assert outside(folder, "remote") == ""
    outside(folder, "commit", "-q", "--allow-empty", "-m", "by a command")
    assert outside(folder, "log", "-1", "--format=%an <%ae>").strip() == "Ada <ada@example.org>"


@needs_bubblewrap
async def test_git_in_an_attempt_reads_in_the_sandbox(work: Path) -> None:
    workshop = await opened(work)
    folder = await workshop.check_out(1, await workshop.begin(False))
    write(folder, {"app.py": "new\n"})

    inside = Inside(folder)
    said = await inside.sh("git log --format=%s && git diff --stat && git status --short")
    await inside.sh("git commit -qam work", fails=True)

    assert said.startswith("first\n")
    assert "app.py" in said
    assert "read-only" in inside.note
    assert outside(folder, "log", "-1", "--format=%s").strip() == "first"


async def test_what_an_attempt_does_to_its_git_folder_means_nothing(work: Path, tmp_path: Path) -> None:
    """A filter, a hook, a monitor, an index that looks away: none is read."""
    canary = tmp_path / "canary"
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    outside(folder, "update-index", "--assume-unchanged", "app.py")
    evil = f'[filter "evil"]\nclean = touch {canary}; cat\n[core]\nfsmonitor = touch {canary}\n'
    write(folder, {".git/config": evil, ".gitattributes": "* filter=evil diff=evil\n", "app.py": "new\n"})

    tree = await workshop.tree_of(1)

    assert [each.path for each in await workshop.changed(base, tree)] == [".gitattributes", "app.py"]
    shutil.rmtree(folder / ".git")
    assert await workshop.tree_of(1) == tree
    assert not canary.exists()


async def test_files_in_a_repository_beneath_are_files(work: Path, tmp_path: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    make_repository(folder / "made", {"a.py": "1\n", "sub/b.py": "2\n", ".gitignore": "*.tmp\n"})
    write(folder, {"made/x.log": "ignored", "made/x.tmp": "ignored", "made/new.py": "3\n"})
    outside(folder, "init", "-q", "empty")
    write(folder, {"empty/c.py": "4\n"})
    # A folder with tracked files becomes a repository of its own.
    outside(folder / "tests", "init", "-q")
    write(folder, {"tests/test_more.py": "5\n"})

    tree = await workshop.tree_of(1)

    assert {each.path for each in await workshop.changed(base, tree)} == {
        "made/a.py",
        "made/sub/b.py",
        "made/.gitignore",
        "made/new.py",
        "empty/c.py",
        "tests/test_more.py",
    }


async def test_odd_things_in_an_attempt_do_no_harm(work: Path, tmp_path: Path) -> None:
    """A link in place of a folder, a folder in place of a file, a pipe, names that git must not hold."""
    write(work, {"pkg/a.py": "1\n", "pkg/b.py": "2\n", "c.py": "3\n", "d.py": "4\n"})
    outside(work, "add", "-A")
    outside(work, "commit", "-qm", "more")
    secret = tmp_path / "secret"
    write(secret, {"a.py": "secret\n"})
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    shutil.rmtree(folder / "pkg")
    (folder / "pkg").symlink_to(secret)
    (folder / "c.py").unlink()
    write(folder, {"c.py/inner.py": "5\n", "sub/.GIT/config": "6\n", "git~1": "7\n", "sub/ok.py": ""})
    (folder / "d.py").unlink()
    os.mkfifo(folder / "d.py")
    os.mkfifo(folder / "pipe")
    (folder / ".gitmodules").symlink_to("/etc/passwd")
    (folder / "app.py").chmod(0)

    tree = await workshop.tree_of(1)

    assert {(each.path, each.kind) for each in await workshop.changed(base, tree)} == {
        ("pkg", "added"),
        ("pkg/a.py", "deleted"),
        ("pkg/b.py", "deleted"),
        ("c.py", "deleted"),
        ("c.py/inner.py", "added"),
        ("d.py", "deleted"),
        ("sub/ok.py", "added"),
    }
    sealed = ["pkg/a.py", "pkg/b.py", "c.py", "d.py", "sub/ok.py", "pkg"]
    again = await workshop.with_base(tree, base, sealed)
    assert again == base
    await workshop.put_back(1, base, sealed)
    assert await workshop.tree_of(1) == base
    assert files(secret) == {"a.py": "secret\n"}
    assert not (folder / "sub/ok.py").exists()


async def test_paths_are_put_back_as_in_the_base(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    write(folder, {"app.py": "kept\n", "conftest.py": "cheat", "tests/test_app.py": "cheat", "a/b/c.py": "x"})
    changed = await workshop.tree_of(1)
    sealed = ["conftest.py", "tests/test_app.py", "a/b/c.py", "never/there.py"]

    tree = await workshop.with_base(changed, base, sealed)
    await workshop.put_back(1, base, sealed)

    assert await workshop.changed(base, tree) == [Changed("app.py", "modified")]
    assert await workshop.tree_of(1) == tree
    assert files(folder) == {**FILES, "app.py": "kept\n"}
    assert not (folder / "a").exists()
    for path in ("../x", "/etc/passwd", ".git/config", "a//b", ""):
        with pytest.raises(UsageError):
            await workshop.put_back(1, base, [path])
        with pytest.raises(UsageError):
            await workshop.with_base(tree, base, [path])


# The person's changes


async def test_changes_of_the_person_are_listed_and_taken_along_without_touching_them(work: Path) -> None:
    write(work, {"app.py": "staged\n"})
    outside(work, "add", "app.py")
    write(work, {"app.py": "later\n", "new ä.py": "new\n", "x.log": "ignored\n", "gone.py": "x"})
    outside(work, "add", "gone.py")
    (work / "gone.py").unlink()
    (work / "tests/test_app.py").unlink()
    outside(work, "stash", "push", "-q", "--keep-index", "--", "gone.py", fails=True)
    before, held = fingerprint(work), objects(work)
    workshop = await opened(work)

    listed = await workshop.changes()
    tree = await workshop.begin(True)

    assert set(listed) == {"app.py", "new ä.py", "tests/test_app.py"}
    assert files(await workshop.check_out(1, tree)) == {
        "app.py": "later\n",
        "new ä.py": "new\n",
        ".gitignore": FILES[".gitignore"],
    }
    assert (fingerprint(work), objects(work)) == (before, held)


async def test_a_clean_repository_has_no_changes(work: Path) -> None:
    # The index no longer remembers the file as it is, though it holds the same.
    os.utime(work / "app.py", (1, 1))
    workshop = await opened(work)

    assert await workshop.changes() == []
    assert await workshop.begin(True) == await workshop.begin(False)


async def test_a_merge_that_is_going_on_is_taken_as_the_files_are(work: Path) -> None:
    outside(work, "checkout", "-qb", "other")
    write(work, {"app.py": "other\n"})
    outside(work, "commit", "-qam", "other")
    outside(work, "checkout", "-q", "main")
    write(work, {"app.py": "main\n"})
    outside(work, "commit", "-qam", "main")
    outside(work, "merge", "-q", "other", fails=True)
    before = fingerprint(work)
    workshop = await opened(work)

    tree = await workshop.begin(True)

    assert await workshop.changes() == ["app.py"]
    assert "<<<<<<<" in (await workshop.check_out(1, tree) / "app.py").read_text()
    assert fingerprint(work) == before


async def test_what_the_person_ignores_everywhere_is_ignored(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "person", {".gitconfig": "[core]\nexcludesFile = ~/ignored\n", "ignored": "*.swp\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    write(work, {".git/info/exclude": "notes/\n", "a.swp": "", "notes/x": "", "seen": ""})
    workshop = await opened(work)

    assert await workshop.changes() == ["seen"]


# Exports


async def test_an_export_goes_away_whatever_was_done_in_it(work: Path, tmp_path: Path) -> None:
    write(work, {"run.sh": "#!/bin/sh\n", "link": ""})
    (work / "run.sh").chmod(0o755)
    (work / "link").unlink()
    (work / "link").symlink_to("app.py")
    workshop = await opened(work)
    tree = await workshop.begin(True)

    with pytest.raises(ZeroDivisionError):
        async with workshop.export(tree) as folder:
            seen = files(folder)
            is_program = os.access(folder / "run.sh", os.X_OK)
            has_git = (folder / ".git").exists()
            deep = folder / "/".join(["d" * 100] * 30)
            os.makedirs(deep)
            (folder / "out").symlink_to(tmp_path / "work")
            os.chmod(folder / ("d" * 100), 0o500)
            raise ZeroDivisionError

    assert seen == {**FILES, "run.sh": "#!/bin/sh\n", "link": "-> app.py"}
    assert (is_program, has_git) == (True, False)
    assert not folder.exists()
    assert os.listdir(workshop.home / "exports") == []
    assert (work / "app.py").exists()


async def test_opening_removes_what_is_left_and_not_what_is_in_use(work: Path) -> None:
    workshop = await opened(work)
    tree = await workshop.begin(False)
    write(workshop.home / "exports/0123456789abcdef", {"files/x": "left by one that was killed"})

    async with workshop.export(tree) as folder:
        await opened(work)
        left = files(folder)

    assert left == dict(FILES)
    assert os.listdir(workshop.home / "exports") == []


# The difference


async def test_a_diff_is_unified_and_names_binary_files_only(work: Path) -> None:
    write(work, {"data.bin": bytes(range(256)) * 8, "ä.txt": "one\n"})
    outside(work, "add", "-A")
    outside(work, "commit", "-qm", "more")
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    write(folder, {"data.bin": bytes(range(255)) * 9, "ä.txt": "two\n"})

    said = await workshop.diff(base, await workshop.tree_of(1))

    assert "Binary files a/data.bin and b/data.bin differ\n" in said
    assert "--- a/ä.txt\n+++ b/ä.txt\n@@ -1 +1 @@\n-one\n+two\n" in said
    assert await workshop.diff(base, base) == ""


async def test_a_long_diff_is_cut_and_says_so(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    write(folder, {f"{number}.txt": "a line of it\n" * 20_000 for number in range(6)})

    said = await workshop.diff(base, await workshop.tree_of(1))

    assert len(said.encode()) < MOST_DIFF + 200
    assert said.splitlines()[-1].endswith("further bytes of the diff are left out, with 2 more files.")
    assert said.splitlines()[-2] == "+a line of it"


# Publishing


async def test_publishing_makes_one_branch_and_changes_nothing_else(work: Path) -> None:
    outside(work, "pack-refs", "--all")
    write(work, {"app.py": "unfinished\n", ".git/hooks/post-checkout": "#!/bin/sh\nexit 1\n"})
    outside(work, "stash", "push", "-q")
    write(work, {"mine.txt": "untracked\n"})
    before = fingerprint(work)
    workshop = await opened(work)
    base = await workshop.begin(False)
    write(await workshop.check_out(1, base), {"app.py": "fixed\n", "more/new.py": "1\n"})
    tree, head = await workshop.tree_of(1), workshop.repository.head

    commit = await workshop.commit(tree, head, "Fix it\n\nWell.", when=1_700_000_000, author=None)
    same = await workshop.commit(tree, head, "Fix it\n\nWell.", when=1_700_000_000, author=None)
    other = await workshop.commit(tree, head, "Fix it", when=1_700_000_000, author="Bo B <b@example.org>")
    assert fingerprint(work) == before
    await workshop.publish(commit, "placet/abc")
    after = fingerprint(work)
    await workshop.publish(commit, "placet/abc")
    with pytest.raises(UsageError, match="is there already"):
        await workshop.publish(other, "placet/abc")

    assert commit == same != other
    assert fingerprint(work) == after
    new = {path for path in after if before.get(path) != after[path]}
    assert new == {
        ".git/refs/heads/placet",
        ".git/refs/heads/placet/abc",
        ".git/logs/refs/heads/placet",
        ".git/logs/refs/heads/placet/abc",
    }
    assert before.items() <= after.items()
    shutil.rmtree(workshop.home)
    outside(work, "fsck", "--strict", "--no-dangling")
    assert outside(work, "log", "--format=%an <%ae> %at %s", "placet/abc").splitlines()[0] == (
        "Ada <ada@example.org> 1700000000 Fix it"
    )
    assert outside(work, "diff", "--name-status", "main", "placet/abc").split() == [
        "M",
        "app.py",
        "A",
        "more/new.py",
    ]


async def test_many_objects_are_published_as_a_pack(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    write(await workshop.check_out(1, base), {f"f/{number}.txt": f"{number}\n" for number in range(250)})
    tree = await workshop.tree_of(1)

    commit = await workshop.commit(tree, workshop.repository.head, "Many", when=0, author="A <a@example.org>")
    await workshop.publish(commit, "placet/many")

    await workshop.remove()
    assert not workshop.home.exists()
    outside(work, "fsck", "--no-dangling")
    assert len(outside(work, "ls-tree", "--name-only", "placet/many:f").split()) == 250


async def test_names_that_no_branch_can_have_are_refused(work: Path) -> None:
    workshop = await opened(work)
    tree = await workshop.begin(False)
    commit = await workshop.commit(tree, workshop.repository.head, "x", when=0, author="A <a@example.org>")
    before = fingerprint(work)

    for branch in ("main/x", "a..b", "-x", "a b", "", "a\0b", "x.lock"):
        with pytest.raises(UsageError):
            await workshop.publish(commit, branch)

    assert fingerprint(work) == before
    for author in ("", "A", "A <a>\nB <b>", "<a@example.org>"):
        with pytest.raises(UsageError, match="author"):
            await workshop.commit(tree, workshop.repository.head, "x", when=0, author=author)


async def test_objects_that_are_gone_are_told(work: Path) -> None:
    write(work, {"app.py": "second\n"})
    outside(work, "commit", "-qam", "second")
    workshop = await opened(work)
    base = await workshop.begin(False)
    outside(work, "reset", "-q", "--hard", "HEAD~1")
    outside(work, "reflog", "expire", "--expire=now", "--all")
    outside(work, "gc", "-q", "--prune=now")

    with pytest.raises(UsageError, match="no longer has all objects"):
        await workshop.check_out(1, base)
    with pytest.raises(UsageError, match="no longer has all objects"):
        await Worktree(workshop.home, workshop.repository).begin(False)
    with pytest.raises(UsageError, match="is no name of"):
        await workshop.check_out(1, "--help")


# Killed in the middle

_SCRIPT = """
import asyncio, os, signal, sys
from pathlib import Path
from placet.worktree import git as trusted, objects, publish, worktree

top, place = Path(sys.argv[1]), Path(sys.argv[2])
real, rename = trusted.git, os.rename
turn, left = "", 0

def is_turn(name):
    global left
    left -= name == turn
    return name == turn and left == 0

async def watched(argv, **more):
    if is_turn(argv[0]):
        running = asyncio.ensure_future(real(argv, **more))
        await asyncio.sleep(0.03)
        os.kill(os.getpid(), signal.SIGKILL)
    return await real(argv, **more)

def renamed(*args, **more):
    if is_turn("rename"):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*args, **more)

async def work(home, branch):
    shop = worktree.Worktree(home, await worktree.find_repository(top))
    await shop.open()
    base = await shop.begin(True)
    folder = await shop.check_out(1, base)
    (folder / "app.py").write_text(f"fixed in {branch}\\n")
    tree = await shop.tree_of(1)
    commit = await shop.commit(tree, shop.repository.head, "Fix", when=5, author="A <a@example.org>")
    await shop.publish(commit, branch)
    return commit

publish.git = objects.git = watched
os.rename = renamed
turns = [("rename", 1), ("read-tree", 1), ("rename", 2), ("unpack-objects", 1), ("update-ref", 1)]
for number, (name, count) in enumerate(turns):
    home, branch = place / str(number), f"placet/{number}"
    child = os.fork()
    if child == 0:
        turn, left = name, count
        asyncio.run(work(home, branch))
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    commit = asyncio.run(work(home, branch))
    print(ended, commit, os.listdir(home / "exports"), sorted(os.listdir(home)), flush=True)
"""


def test_killed_in_the_middle_it_goes_on(work: Path, tmp_path: Path) -> None:
    """While git makes files, or takes objects or the branch; and before a folder is in place."""
    write(work, {"mine.txt": "mine\n"})
    before = fingerprint(work)

    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(work), str(tmp_path / "homes")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert [ended for ended, _, _ in lines] == ["-9"] * 5
    for number, (_, commit, _) in enumerate(lines):
        assert outside(work, "rev-parse", f"placet/{number}").strip() == commit
    names = "[] ['attempt-1', 'attempt-1.index', 'exports', 'repository']"
    assert {left for _, _, left in lines} == {names}
    after = fingerprint(work)
    new = {path for path in after if before.get(path) != after[path]}
    assert before.keys() <= after.keys()
    assert all("/placet" in path and not path.endswith(".lock") for path in new)
    outside(work, "fsck", "--no-dangling")


async def test_a_lock_that_a_killed_process_left_is_removed_and_no_other(work: Path) -> None:
    workshop = await opened(work)
    tree = await workshop.begin(False)
    commit = await workshop.commit(tree, workshop.repository.head, "x", when=0, author="A <a@example.org>")
    lock = work / ".git/refs/heads/placet/x.lock"
    write(lock.parent, {lock.name: ""})

    # Nobody of ours was at work on it, so it is somebody else's.
    for _ in range(2):
        with pytest.raises(UsageError, match="Another git process"):
            await workshop.publish(commit, "placet/x")
        assert lock.exists()
    (workshop.home / "publishing.note").write_text("refs/heads/placet/x")
    await workshop.publish(commit, "placet/x")

    assert not lock.exists()
    assert outside(work, "rev-parse", "placet/x").strip() == commit


async def test_attempts_can_be_removed(work: Path) -> None:
    workshop = await opened(work)
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    with suppress(OSError):
        os.chmod(folder / "tests", 0)

    await workshop.remove_attempts()

    assert sorted(os.listdir(workshop.home)) == ["exports", "repository"]
    assert files(await workshop.check_out(1, base)) == dict(FILES)
