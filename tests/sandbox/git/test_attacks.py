"""What a command writes into its git folder runs nothing outside, and changes nothing but what it may."""

from __future__ import annotations

import os
import zlib
from collections.abc import AsyncIterator, Callable
from hashlib import sha1
from pathlib import Path

import pytest

from placet.errors import ToolError
from placet.sandbox.git import quarantine
from placet.sandbox.git.checkout import read_checkout
from placet.sandbox.git.folder import Folder
from placet.sandbox.git.writing import Writing
from tests.sandbox.git.repositories import Inside, everything, make_repository, needs_bubblewrap, outside

pytestmark = needs_bubblewrap

Attack = Callable[[Inside], None]


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[Inside]:
    opened = await Inside.open(make_repository(tmp_path / "work"), tmp_path / "home")
    yield opened
    opened.view.close()


@pytest.fixture
async def linked(tmp_path: Path) -> AsyncIterator[Inside]:
    make_repository(tmp_path / "work")
    outside(tmp_path / "work", "worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    opened = await Inside.open(tmp_path / "linked", tmp_path / "home")
    yield opened
    opened.view.close()


def _program(tmp_path: Path) -> tuple[Path, Path]:
    """A program, and the file that it makes when somebody runs it."""
    program, canary = tmp_path / "evil", tmp_path / "canary"
    program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    program.chmod(0o755)
    return program, canary


def _put(folder: Path, data: bytes, kind: str = "blob") -> str:
    """Write a loose object as git would, with a name that fits or any other."""
    whole = f"{kind} {len(data)}".encode() + b"\0" + data
    name = sha1(whole).hexdigest()
    _put_as(folder, name, whole)
    return name


def _put_as(folder: Path, name: str, whole: bytes) -> None:
    path = folder / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))


def _commit(folder: Path, tree: str) -> str:
    text = f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n"
    return _put(folder, text.encode(), "commit")


@pytest.fixture(params=["main", "linked"])
def here(request: pytest.FixtureRequest) -> Inside:
    found = request.getfixturevalue("linked" if request.param == "linked" else "inside")
    assert isinstance(found, Inside)
    return found


async def test_nothing_that_is_written_anywhere_in_the_git_folder_runs_outside(
    here: Inside, tmp_path: Path
) -> None:
    program, canary = _program(tmp_path)
    host = tmp_path / "work/.git"
    kept = {"config", "hooks", "info", "description"}
    before = {name: found for name, found in everything(host).items() if name.split("/")[0] in kept}
    inner = here.folder / here.view.repository.inner
    evil = f"""
        [core]
        fsmonitor = {program}
        hooksPath = {tmp_path}
        sshCommand = {program}
        pager = {program}
        editor = {program}
        alternateRefsCommand = {program}
        worktree = /
        [filter "evil"]
        clean = {program}
        smudge = {program}
        process = {program}
        required = true
        [diff "evil"]
        command = {program}
        textconv = {program}
        [merge "evil"]
        driver = {program}
        [diff]
        external = {program}
        [gpg]
        program = {program}
        [commit]
        gpgSign = true
        [extensions]
        worktreeConfig = true
        [include]
        path = {tmp_path}/more
        """
    (tmp_path / "more").write_text(f'[alias]\nstatus = "!{program}"\n')
    (here.workspace / "a.txt").write_text("one and more\n")
    (here.workspace / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    await here.view.refresh()
    here.only_run("git", "add", ".")
    here.only_run("git", "commit", "-qm", "with attributes")
    (here.workspace / "b.txt").write_text("staged\n")
    here.only_run("git", "add", ".")
    for name in ("config", "config.worktree", "info/attributes", "info/grafts"):
        (here.folder / name).write_text(evil if "config" in name else "* filter=evil diff=evil\n")
    (inner / "config.worktree").write_text(evil)
    for name in ("reference-transaction", "post-index-change", "update", "post-commit", "pre-auto-gc"):
        (here.folder / "hooks" / name).symlink_to(program)
        (tmp_path / name).symlink_to(program)
    if here.view.repository.is_linked:
        (inner / "commondir").write_text(str(tmp_path))
        (inner / "gitdir").write_text(str(tmp_path / "elsewhere"))
    (here.folder / "modules").mkdir()
    (here.folder / "objects/info/alternates").write_text("/\n")

    said = await here.bring_over()
    await here.view.refresh()
    again = await here.bring_over()

    assert "Brought over" in said
    assert again == ""
    assert not canary.exists()
    assert before == {name: found for name, found in everything(host).items() if name.split("/")[0] in kept}
    assert outside(here.workspace, "log", "-1", "--format=%s") == "with attributes\n"
    assert outside(here.workspace, "status", "--porcelain") == "A  b.txt\n"
    assert not (host / "modules").exists()
    assert not canary.exists()


async def test_the_canary_would_be_seen(inside: Inside, tmp_path: Path) -> None:
    """The same settings in the repository itself do run the program: the case above would notice."""
    program, canary = _program(tmp_path)
    outside(inside.workspace, "config", "core.fsmonitor", str(program))

    outside(inside.workspace, "status")

    assert canary.exists()


async def test_trusted_git_runs_nothing_that_the_repository_itself_names(
    inside: Inside, tmp_path: Path
) -> None:
    """A repository may include settings from its work tree, where a command can write."""
    program, canary = _program(tmp_path)
    outside(inside.workspace, "config", "include.path", "../shared.config")
    (inside.workspace / "shared.config").write_text(
        f"[core]\nfsmonitor={program}\nhooksPath={tmp_path}/hooks\nsshCommand={program}\n"
        f'[filter "evil"]\nclean={program}\nsmudge={program}\n[alias]\nupdate-ref="!{program}"\n'
    )
    (inside.workspace / ".gitattributes").write_text("* filter=evil\n")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/reference-transaction").symlink_to(program)

    await inside.sh("echo x > a.txt; git add a.txt; git commit -qm one; git checkout -q -b two; git tag t")

    assert "two" in " ".join(inside.said)
    assert not canary.exists()


def _link_refs(here: Inside) -> None:
    target = here.folder.parent.parent / "refs-elsewhere"
    target.mkdir()
    (target / "x").write_text("a" * 40)
    (here.folder / "refs/heads").rename(target / "heads")
    (here.folder / "refs/heads").symlink_to(target)


def _head(text: str) -> Attack:
    def attack(here: Inside) -> None:
        (here.folder / "HEAD").write_text(text)

    return attack


def _packed(text: bytes) -> Attack:
    def attack(here: Inside) -> None:
        with open(here.folder / "packed-refs", "ab") as file:
            file.write(text)

    return attack


def _replace(name: str, make: Callable[[Path], object]) -> Attack:
    def attack(here: Inside) -> None:
        path = here.folder / name
        if path.is_dir() and not path.is_symlink():
            path.rename(here.folder / "moved-away")
        elif os.path.lexists(path):
            path.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)

    return attack


def _huge(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


def _wrong_hash(here: Inside) -> None:
    name = _commit(here.folder, "0" * 40)
    whole = b"commit 4\0evil"
    _put_as(here.folder, name, whole)
    (here.folder / "refs/heads/main").write_text(name)


def _missing(here: Inside) -> None:
    (here.folder / "refs/heads/main").write_text("1234" * 10)


def _missing_tree(here: Inside) -> None:
    (here.folder / "refs/heads/main").write_text(_commit(here.folder, "1234" * 10))


def _bad_pack(here: Inside) -> None:
    (here.folder / f"objects/pack/pack-{'1' * 40}.pack").write_bytes(b"PACK\0\0\0\2\0\0\0\1garbage")
    (here.folder / f"objects/pack/pack-{'1' * 40}.idx").write_bytes(b"\xfftOc" + b"\0" * 2000)
    (here.folder / "refs/heads/main").write_text("1" * 40)


def _bomb(here: Inside) -> None:
    name = "ab" * 20
    path = here.folder / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    packer = zlib.compressobj()
    piece = b"\0" * (1 << 20)
    with open(path, "wb") as file:
        file.write(packer.compress(b"blob 9999999999\0"))
        for _ in range(64):
            file.write(packer.compress(piece))
        file.write(packer.flush())
    (here.folder / "refs/heads/main").write_text(name)


def _tree_for_branch(here: Inside) -> None:
    tree = outside(here.workspace, "rev-parse", "HEAD^{tree}").strip()
    (here.folder / "refs/heads/main").write_text(tree)


def _tree_with_dot_git(here: Inside) -> None:
    blob = _put(here.folder, b"[core]\n")
    inner = _put(here.folder, b"100644 config\0" + bytes.fromhex(blob), "tree")
    tree = _put(here.folder, b"40000 .git\0" + bytes.fromhex(inner), "tree")
    (here.folder / "refs/heads/main").write_text(_commit(here.folder, tree))


def _bad_index(here: Inside) -> None:
    (here.folder / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\5garbage")


def _index_with_dot_git(here: Inside) -> None:
    # Git refuses such a path, so it is put in place of one of the same length.
    data = (here.folder / "index").read_bytes()
    assert b"sub/b.txt" in data
    data = data[:-20].replace(b"sub/b.txt", b".git/b.xx")
    (here.folder / "index").write_bytes(data + sha1(data).digest())


def _broken_log(here: Inside) -> None:
    head = outside(here.workspace, "rev-parse", "HEAD").strip()
    (here.folder / "refs/stash").write_text(head)
    (here.folder / "logs/refs").mkdir(parents=True, exist_ok=True)
    (here.folder / "logs/refs/stash").write_text(f"{'0' * 40} {'1' * 40} A <a@b> 1 +0000\tx\n")


def _named(name: str) -> Attack:
    def attack(here: Inside) -> None:
        (here.folder / "refs/heads" / name).write_text(outside(here.workspace, "rev-parse", "other").strip())

    return attack


ATTACKS: dict[str, Attack] = {
    "refs is a link": _link_refs,
    "HEAD leads out by dots": _head("ref: refs/heads/../../config\n"),
    "HEAD is on something else than a branch": _head("ref: refs/remotes/origin/main\n"),
    "HEAD is on no ref": _head("ref: config\n"),
    "HEAD is garbage": _head("\x1b[31mred\n"),
    "HEAD is on a missing commit": _head("1234" * 10),
    "HEAD is a link": _replace("HEAD", lambda path: path.symlink_to("/etc/passwd")),
    "HEAD is a pipe": _replace("HEAD", lambda path: os.mkfifo(path)),
    "HEAD is gone": _replace("HEAD", lambda path: None),
    "HEAD is huge": _replace("HEAD", _huge),
    "packed-refs holds garbage": _packed(b"garbage\n"),
    "packed-refs holds a name with dots": _packed(b"1234" * 10 + b" refs/heads/../../x\n"),
    "packed-refs holds a name outside of refs": _packed(b"1234" * 10 + b" HEAD\n"),
    "packed-refs is gone": _replace("packed-refs", lambda path: None),
    "packed-refs is huge": _replace("packed-refs", _huge),
    "packed-refs is a link": _replace("packed-refs", lambda path: path.symlink_to("config")),
    "a branch is a link": _replace("refs/heads/main", lambda path: path.symlink_to("/etc/hostname")),
    "a branch is a pipe": _replace("refs/heads/main", lambda path: os.mkfifo(path)),
    "a branch is huge": _replace("refs/heads/main", _huge),
    "a branch is garbage": _replace("refs/heads/main", lambda path: path.write_text("garbage")),
    "a branch points to another": _replace(
        "refs/heads/main", lambda path: path.write_text("ref: refs/heads/other")
    ),
    "a branch points to a missing commit": _missing,
    "a commit lacks its tree": _missing_tree,
    "a branch points to a tree": _tree_for_branch,
    "a commit holds a folder .git": _tree_with_dot_git,
    "an object is not what its name says": _wrong_hash,
    "a pack is broken": _bad_pack,
    "an object unpacks to a lot": _bomb,
    "the index is broken": _bad_index,
    "the index holds .git": _index_with_dot_git,
    "the index is a link": _replace("index", lambda path: path.symlink_to("../../work/.git/index")),
    "the index is a pipe": _replace("index", lambda path: os.mkfifo(path)),
    "the index is a folder": _replace("index", lambda path: path.mkdir()),
    "the index is huge": _replace("index", _huge),
    "MERGE_HEAD is a link": _replace("MERGE_HEAD", lambda path: path.symlink_to("/etc/passwd")),
    "MERGE_HEAD is garbage": _replace("MERGE_HEAD", lambda path: path.write_text("garbage")),
    "MERGE_HEAD is missing its commit": _replace("MERGE_HEAD", lambda path: path.write_text("1234" * 10)),
    "MERGE_MSG is a link": _replace("MERGE_MSG", lambda path: path.symlink_to("/etc/passwd")),
    "the stash and its log do not fit": _broken_log,
    "objects is a link": _replace("objects", lambda path: path.symlink_to("/")),
    "the folder of refs is gone": _replace("refs", lambda path: None),
    "a rebase with a command is going on": _replace(
        "rebase-merge/git-rebase-todo", lambda path: path.write_text("exec touch canary\n")
    ),
    "a branch is called HEAD": _named("HEAD"),
    "a branch is called like an option": _named("-f"),
    "a branch has a command for a name": _named("$(touch${IFS}canary)"),
}

SILENT = [ATTACKS["objects is a link"], ATTACKS["a rebase with a command is going on"]]
"""Of these nothing would be brought over anyway."""


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
async def test_nothing_is_brought_over_by_halves(
    attack: Attack, inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repository stays byte for byte as it was."""
    monkeypatch.setattr(quarantine, "MOST_UNPACKED", 16 << 20)
    before = everything(tmp_path / "work")
    host = everything(tmp_path / "work/.git")

    attack(inside)
    said = await inside.bring_over()

    assert everything(tmp_path / "work/.git") == host
    assert everything(tmp_path / "work") == before
    assert "not" in said.casefold() or attack in SILENT
    assert "\x1b" not in said
    assert not [path for path in (tmp_path / "home").iterdir() if path.name.startswith("quarantine")]
    outside(tmp_path / "work", "fsck", "--strict")


@pytest.mark.parametrize(
    "name", [name for name in ATTACKS if "HEAD" in name or "packed" in name or "refs is" in name]
)
async def test_a_folder_that_was_destroyed_is_made_anew(name: str, inside: Inside) -> None:
    ATTACKS[name](inside)
    await inside.bring_over()

    (inside.workspace / "a.txt").write_text("again\n")
    if name not in ("HEAD is on a missing commit", "MERGE_HEAD is missing its commit"):
        await inside.git("commit", "-qam", "works again")

        assert outside(inside.workspace, "log", "-1", "--format=%s") == "works again\n"


async def test_a_link_in_the_git_folder_is_not_written_through(inside: Inside, tmp_path: Path) -> None:
    """What is refreshed goes into the view, whatever was put in the way."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "heads").mkdir(parents=True)
    (elsewhere / "file").write_text("mine")
    before = everything(elsewhere)
    for name in ("refs", "logs", "objects/info", "info"):
        if (inside.folder / name).exists():
            (inside.folder / name).rename(inside.folder / f"{name.replace('/', '-')}-away")
        (inside.folder / name).symlink_to(elsewhere)
    (inside.folder / "index").unlink()
    (inside.folder / "index").symlink_to(elsewhere / "file")
    outside(inside.workspace, "branch", "fresh")
    outside(inside.workspace, "checkout", "-q", "fresh")

    await inside.view.refresh()

    assert everything(elsewhere) == before
    assert "fresh" in await inside.git("branch", "--show-current")


@pytest.mark.parametrize(
    "name", ["refs/replace", "refs/remotes/origin", "refs/notes", "refs/bisect", "refs/x"]
)
async def test_other_refs_stay_inside(name: str, inside: Inside, tmp_path: Path) -> None:
    before = everything(tmp_path / "work/.git")
    head = outside(inside.workspace, "rev-parse", "HEAD").strip()

    await inside.git("update-ref", f"{name}/{head}", "HEAD~1")

    assert everything(tmp_path / "work/.git") == before


async def test_a_linked_worktree_changes_nothing_of_others(linked: Inside, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "a.txt").write_text("put away by a person\n")
    outside(work, "stash", "push", "-q", "-m", "a person's")
    own = ("objects", "worktrees/linked", "refs/heads/topic", "refs/heads/mine", "logs/refs/heads")
    before = everything(work / ".git", own)

    await linked.sh(
        "echo x > a.txt; git stash push -q; git stash drop -q; git tag t; git tag -d v1; "
        "git update-ref refs/heads/main HEAD~1; git update-ref -d refs/heads/other; "
        "git config core.fsmonitor /bin/false; git branch mine; git stash clear; "
        "echo y > a.txt; git commit -qam mine"
    )

    assert everything(work / ".git", own) == before
    assert outside(linked.workspace, "log", "-1", "--format=%s") == "mine\n"
    assert "main was not brought over" in " ".join(linked.said)
    assert "a person's" in outside(work, "stash", "list")
    assert outside(work, "status", "--porcelain") == ""


async def test_a_branch_of_others_is_not_moved_in_two_steps(linked: Inside, tmp_path: Path) -> None:
    before = outside(tmp_path / "work", "rev-parse", "other")

    await linked.git("checkout", "-q", "other")
    await linked.sh("echo y > a.txt; git commit -qam mine")
    said = " ".join(linked.said)
    await linked.sh("git checkout -q -b mine")

    assert outside(tmp_path / "work", "rev-parse", "other") == before
    assert "other" in said
    assert outside(linked.workspace, "log", "-1", "--format=%s") == "mine\n"
    assert outside(linked.workspace, "status", "--porcelain") == ""


async def test_pointers_cannot_be_changed_inside(linked: Inside) -> None:
    linked.only_run("sh", "-c", "echo 'gitdir: /tmp' > .git", fails=True)
    linked.only_run("sh", "-c", "rm -f .git", fails=True)
    linked.only_run("sh", "-c", "mv .git other", fails=True)
    linked.only_run("sh", "-c", f"touch {linked.view.repository.common}/shared-objects/x", fails=True)


async def test_the_index_cannot_hide_a_change(inside: Inside) -> None:
    """Git outside would believe an index that says: this file is as it was."""
    path = inside.workspace / "a.txt"
    await inside.git("update-index", "--assume-unchanged", "a.txt")
    await inside.git("update-index", "--skip-worktree", "sub/b.txt")
    path.write_text("hidden\n")
    (inside.workspace / "sub/b.txt").write_text("hidden\n")
    (inside.workspace / "c.txt").write_text("added\n")
    await inside.git("add", "c.txt")

    assert outside(inside.workspace, "status", "--porcelain") == " M a.txt\nA  c.txt\n M sub/b.txt\n"


async def test_a_new_submodule_is_not_brought_over(inside: Inside, tmp_path: Path) -> None:
    """Git outside looks into submodules, and obeys the settings that it finds there."""
    program, canary = _program(tmp_path)
    before = outside(inside.workspace, "rev-parse", "HEAD")
    await inside.sh(
        "git init -q nested; cd nested; git commit -q --allow-empty -m x; "
        f"git config core.fsmonitor {program}; cd ..; git add nested"
    )
    staged = " ".join(inside.said)
    await inside.sh("git commit --allow-empty -qm nested; git branch hidden; git tag hidden")

    assert "submodule" in staged
    assert outside(inside.workspace, "rev-parse", "HEAD") == before
    assert "hidden" not in outside(inside.workspace, "branch") + outside(inside.workspace, "tag")
    outside(inside.workspace, "status")
    assert not canary.exists()


async def test_a_folder_put_in_place_of_a_submodule_is_told(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    head = outside(work, "rev-parse", "HEAD").strip()
    outside(work, "update-index", "--add", "--cacheinfo", f"160000,{head},libs/module")
    inside = await Inside.open(work, tmp_path / "home")

    await inside.sh("mv libs away; mkdir -p libs/module; git init -q libs/module")

    assert "libs/module/.git was put there" in " ".join(inside.said)
    inside.view.close()


async def test_removing_all_of_git_inside_harms_nothing(inside: Inside, tmp_path: Path) -> None:
    before = everything(tmp_path / "work/.git")
    await inside.view.refresh()
    inside.only_run("sh", "-c", "rm -rf .git; mv .git away", fails=True)

    said = await inside.bring_over()

    assert "Nothing was brought over" in said
    assert everything(tmp_path / "work/.git") == before
    assert await inside.git("status", "--porcelain") == ""


async def test_nobody_makes_a_repository_where_a_submodule_belongs(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    head = outside(work, "rev-parse", "HEAD").strip()
    outside(work, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    outside(work, "commit", "-qm", "with a submodule")
    (work / "module").mkdir()
    inside = await Inside.open(work, tmp_path / "home")

    await inside.run("git", "init", "-q", "module", fails=True)
    await inside.sh("echo x > a.txt; git commit -qam more")

    assert outside(work, "log", "-1", "--format=%s") == "more\n"
    assert list((work / "module").iterdir()) == []
    inside.view.close()


async def test_what_a_person_has_changed_is_not_overwritten(inside: Inside) -> None:
    await inside.view.refresh()
    (inside.workspace / "a.txt").write_text("inside\n")
    inside.only_run("git", "commit", "-qam", "inside")
    inside.only_run("git", "branch", "fresh")
    outside(inside.workspace, "commit", "-qam", "outside")
    head = outside(inside.workspace, "rev-parse", "HEAD")

    said = await inside.bring_over()

    assert "changed outside meanwhile" in said
    assert outside(inside.workspace, "rev-parse", "HEAD") == head
    assert "fresh" in outside(inside.workspace, "branch")
    assert await inside.git("rev-parse", "HEAD") == head
    assert "inside" in await inside.git("log", "-1", "refs/kept/heads/main")
    assert await inside.git("status", "--porcelain") == ""


async def test_a_branch_that_both_have_moved_is_the_persons(inside: Inside) -> None:
    await inside.view.refresh()
    own = outside(inside.workspace, "rev-parse", "main")
    inside.only_run("git", "branch", "-f", "other", "main")
    theirs = outside(inside.workspace, "commit-tree", "-m", "theirs", "main^{tree}")
    outside(inside.workspace, "update-ref", "refs/heads/other", theirs.strip())

    said = await inside.bring_over()

    assert "other was not brought over" in said
    assert "changed outside meanwhile" in said
    assert outside(inside.workspace, "rev-parse", "other") == theirs
    assert await inside.git("rev-parse", "other", "refs/kept/heads/other") == theirs + own


async def test_a_ref_that_moves_in_the_last_moment_is_not_overwritten(inside: Inside) -> None:
    repository = inside.view.repository
    first, second = outside(inside.workspace, "rev-parse", "main~1", "main").encode().split()
    with Folder(repository.common) as host:
        writing = Writing(repository, host, read_checkout(host, ""), inside.view.lock_note)

        with pytest.raises(ToolError, match="refs/heads/other"):
            await writing.move_refs({b"refs/heads/new": (None, first), b"refs/heads/other": (second, second)})
        with pytest.raises(ToolError, match="refs/heads/main"):
            await writing.move_refs({b"refs/heads/main": (None, first)})

    assert outside(inside.workspace, "rev-parse", "other", "main").encode().split() == [first, second]
    assert "new" not in outside(inside.workspace, "branch")


async def test_a_person_who_only_looks_is_no_conflict(inside: Inside) -> None:
    await inside.view.refresh()
    (inside.workspace / "a.txt").write_text("inside\n")
    inside.only_run("git", "commit", "-qam", "inside")
    (inside.workspace / "sub/b.txt").touch()
    outside(inside.workspace, "update-index", "-q", "--refresh")
    (inside.workspace / "theirs.txt").write_text("theirs\n")
    outside(inside.workspace, "add", "theirs.txt")

    await inside.bring_over()

    assert outside(inside.workspace, "log", "-1", "--format=%s") == "inside\n"
    assert outside(inside.workspace, "status", "--porcelain") == "A  theirs.txt\n"
    assert await inside.git("status", "--porcelain") == "A  theirs.txt\n"


async def test_a_lock_outside_is_respected(inside: Inside) -> None:
    before = outside(inside.workspace, "rev-parse", "HEAD")
    lock = inside.workspace / ".git/index.lock"
    await inside.view.refresh()
    inside.only_run("sh", "-c", "echo x > a.txt; git commit -qam locked")
    lock.write_text("")

    said = await inside.bring_over()
    during = outside(inside.workspace, "rev-parse", "HEAD")
    lock.unlink()
    await inside.git("status")

    assert "index.lock" in said
    assert during == before
    assert outside(inside.workspace, "log", "-1", "--format=%s") == "locked\n"
    assert outside(inside.workspace, "status", "--porcelain") == ""


async def test_no_password_of_a_remote_is_shown(inside: Inside) -> None:
    shown = await inside.git("config", "--list")

    assert "example.org/a.git" in shown
    assert "secret" not in shown
    assert not [name for name, (_, data) in everything(inside.folder).items() if b"secret" in data]
