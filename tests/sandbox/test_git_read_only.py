"""Inside the sandbox git reads a repository, and nothing writes one, by whatever way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from placet.sandbox.landlock import abi
from tests.worktree.repositories import Inside, everything, make_repository, needs_bubblewrap, outside

pytestmark = needs_bubblewrap
needs_landlock = pytest.mark.skipif(abi() < 1, reason="this kernel has no Landlock")

WAYS = {
    "git": """
git commit -qam x; git stash; git checkout -q other; git tag t; git config a.b c; git gc -q
git reset -q HEAD~1; git update-ref HEAD HEAD~1; git branch -D other; git reflog expire --expire=now --all
""",
    "by name": """
echo x > .git/config; rm -f .git/HEAD; mkdir .git/hooks/x; touch .git/index; chmod 777 .git; rm -rf .git
""",
    "renames": """
mv .git away; mv -T sub .git; mv .git/HEAD head; cp a.txt .git/objects/x; mv a.txt .git/config
""",
    "links": """
ln -s .git l; echo x > l/config; ln a.txt .git/hooks/h; ln -sf a.txt .git/HEAD; cd l && rm HEAD
""",
    "hard links": "ln .git/config c && echo x >> c; ln .git/HEAD h && echo x > h",
    "GIT_DIR": """
GIT_DIR=$PWD/.git git config a.b c; GIT_DIR=.git GIT_WORK_TREE=/tmp git update-ref HEAD HEAD~1
GIT_COMMON_DIR=$PWD/.git git tag t
""",
    "an index elsewhere": "GIT_INDEX_FILE=/tmp/i git read-tree HEAD; GIT_INDEX_FILE=/tmp/i git commit -qm x",
    "objects": """
GIT_OBJECT_DIRECTORY=$PWD/o git hash-object -w a.txt; echo $PWD/o > .git/objects/info/alternates
git hash-object -w --stdin < /dev/null
""",
    "other spellings": """
echo x > ./.git/../.git/config; echo x > //$PWD/.git//config; echo x > /proc/self/cwd/.git/config
echo x > /proc/1/cwd/.git/config; exec 9<.git; echo x > /proc/self/fd/9/config
""",
    "a mount": """
mount --bind sub .git; umount .git; mount -o remount,rw .git
unshare -Urm sh -c 'mount -o remount,rw .git; echo > .git/x'
""",
    "worktrees": """
git worktree add -q ../w; git worktree add -q w; git submodule add ./sub s; git init -q .
echo "gitdir: $PWD/sub" > .git
""",
}


@pytest.fixture(params=["main", "linked", "submodule"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A workspace that is the top of a checkout."""
    main = make_repository(tmp_path / "main")
    if request.param == "linked":
        outside(main, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "work"))
        return tmp_path / "work"
    if request.param == "submodule":
        make_repository(tmp_path / "library")
        allow = ("-c", "protocol.file.allow=always")
        outside(main, *allow, "submodule", "add", "-q", str(tmp_path / "library"), "lib")
        return main / "lib"
    return main


def git_folders(tmp_path: Path) -> dict[str, tuple[int, bytes]]:
    return {name: found for name, found in everything(tmp_path).items() if ".git" in name.split("/")}


async def test_git_reads(work: Path, tmp_path: Path) -> None:
    before = git_folders(tmp_path)
    (work / "a.txt").write_text("one\nmore\nand more\n")

    said = await Inside(work).sh(
        "git status --short && git diff && git log --format=%s && git show --stat HEAD && git blame a.txt "
        "&& git stash list && git branch --show-current"
    )

    assert said.startswith(" M a.txt\n")
    assert "+and more" in said
    assert "first\n" in said
    assert git_folders(tmp_path) == before


async def test_nothing_writes_it(work: Path, tmp_path: Path) -> None:
    before = git_folders(tmp_path)

    for way, script in WAYS.items():
        await Inside(work).sh(f"for i in 1; do ({script}) 2>&1; done; {script}", fails=None)

        assert git_folders(tmp_path) == before, way
        # Else the next way would meet what the last one has left.
        outside(work, "checkout", "-q", "--", ".")
        outside(work, "clean", "-qfdx")


async def test_whoever_tries_is_told(tmp_path: Path) -> None:
    inside = Inside(make_repository(tmp_path / "work"))

    for script in (
        "git commit -qam x",
        "git tag t",
        "echo x > .git/config",
        "mv .git away",
        "git config a.b c",
    ):
        await inside.sh(f"echo more >> a.txt; {script}", fails=True)
        assert ".git is read-only inside" in inside.note, script
    await inside.sh("echo x > sub/c.txt; git status")
    assert inside.note == ""


async def test_what_is_borrowed_is_read(tmp_path: Path) -> None:
    make_repository(tmp_path / "first")
    outside(tmp_path, "clone", "-q", "--shared", "first", "second")
    outside(tmp_path, "clone", "-q", "--shared", "second", "third")
    for by in ("bubblewrap", "landlock"):
        await Inside(tmp_path / "third", by).git("log", fails=True)

    (tmp_path / "second/.git/placet-lends").write_text(f"{tmp_path}/third\n")

    for by in ("bubblewrap", "landlock"):
        said = await Inside(tmp_path / "third", by).git("log", "--format=%s")
        assert said == "second\nfirst\n"


async def test_a_repository_that_a_command_made_borrows_from_nobody(tmp_path: Path) -> None:
    """Else it could read the objects of any repository on the machine."""
    secret = make_repository(tmp_path / "secret")
    head = outside(secret, "rev-parse", "HEAD").strip()
    work = tmp_path / "work"
    work.mkdir()
    inside = Inside(work)

    await inside.sh(
        "git init -q .; git init -q lender; mkdir -p .git/objects/info lender/.git/objects/info\n"
        f"echo {secret}/.git/objects > lender/.git/objects/info/alternates; pwd > lender/.git/placet-lends\n"
        f"(echo {secret}/.git/objects; echo $PWD/lender/.git/objects) > .git/objects/info/alternates"
    )
    assert "it made a repository here" in inside.note

    for by in ("bubblewrap", "landlock"):
        await Inside(work, by).sh(f"git cat-file -p {head}", fails=True)
        await Inside(work, by).sh(f"ls {secret}/.git/objects", fails=True)


async def test_alternates_show_nothing_but_objects(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("hidden")
    (work / ".git/objects/info/alternates").write_text(f"{tmp_path}/secret\n")

    await Inside(work).sh(f"cat {tmp_path}/secret/key", fails=True)


async def test_a_forged_pointer_shows_nothing(tmp_path: Path) -> None:
    secret = make_repository(tmp_path / "secret")
    work = tmp_path / "work"
    work.mkdir()
    (work / ".git").write_text(f"gitdir: {secret}/.git\n")

    for by in ("bubblewrap", "landlock"):
        await Inside(work, by).sh(f"cat {secret}/.git/HEAD", fails=True)


async def test_no_password_of_a_config_is_shown(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")
    key = "http.https://example.org/.extraheader"
    outside(work, "config", key, "AUTHORIZATION: basic c2VjcmV0")
    before = (work / ".git/config").read_bytes()

    inside = Inside(work)
    said = await inside.sh("cat .git/config; git remote -v; git config --list")

    assert "secret" not in said
    assert "c2VjcmV0" not in said
    assert "https://example.org/a.git" in said
    assert (work / ".git/config").read_bytes() == before


@needs_landlock
async def test_by_landlock_git_reads_a_linked_worktree_and_writes_nothing_there(tmp_path: Path) -> None:
    main = make_repository(tmp_path / "main")
    outside(main, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "work"))
    before = everything(main)
    inside = Inside(tmp_path / "work", "landlock")

    said = await inside.sh("echo x > a.txt; git log --format=%s; git status --short")
    for script in WAYS.values():
        if "mount" not in script:
            await inside.sh(script, fails=None)

    assert said == "second\nfirst\n M a.txt\n"
    assert everything(main) == before
    await inside.sh(f"cat {main}/a.txt", fails=True)


@needs_landlock
@pytest.mark.parametrize(
    "script",
    [
        "git config core.fsmonitor evil",
        "echo x > .git/hooks/pre-commit",
        "rm -rf .git",
        "mv .git old; git init",
    ],
)
async def test_by_landlock_a_change_of_what_git_obeys_is_told(script: str, tmp_path: Path) -> None:
    """Landlock cannot keep a folder in a writable one read-only."""
    inside = Inside(make_repository(tmp_path / "work"), "landlock")
    await inside.sh("git status; echo x > new; git log")
    assert inside.note == ""

    await inside.sh(script)

    assert "look at that before you run git" in inside.note


async def test_a_workspace_below_the_top_sees_no_repository(tmp_path: Path) -> None:
    work = make_repository(tmp_path / "work")

    await Inside(work / "sub").git("status", fails=True)


async def test_a_copied_git_folder_is_a_folder_like_any_other(tmp_path: Path) -> None:
    """Only what git outside would obey is protected."""
    work = make_repository(tmp_path / "work")
    shutil.copytree(work / ".git", work / "sub/copy.git")

    await Inside(work).sh(
        "git --git-dir=sub/copy.git config a.b c; git init -q made; git -C made config a.b c"
    )

    assert (work / "made/.git").is_dir()
