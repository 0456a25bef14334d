"""Git works inside as it does outside, and what was done there is seen outside afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sandbox.git.repositories import Inside, everything, make_repository, needs_bubblewrap, outside

pytestmark = needs_bubblewrap


@pytest.fixture(params=["main", "linked"])
async def inside(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Inside]:
    workspace = make_repository(tmp_path / "work")
    if request.param != "main":
        outside(workspace, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
        workspace = tmp_path / "linked"
    opened = await Inside.open(workspace, tmp_path / "home")
    yield opened
    outside(workspace, "fsck", "--strict", "--no-dangling")
    opened.view.close()


async def test_looking_changes_nothing(inside: Inside, tmp_path: Path) -> None:
    before = everything(tmp_path / "work/.git")

    status = await inside.git("status", "--short", "--branch")
    log = await inside.git("log", "--oneline", "--decorate")
    (inside.workspace / "a.txt").write_text("changed\n")
    diff = await inside.git("diff")
    stash = await inside.git("stash", "list")

    assert status.startswith("## ")
    assert "second" in log
    assert "+changed" in diff
    assert stash == ""
    assert inside.said == []
    assert everything(tmp_path / "work/.git") == before


async def test_a_commit_is_seen_outside(inside: Inside) -> None:
    (inside.workspace / "a.txt").write_text("inside\n")

    await inside.git("commit", "-qam", "from inside")

    assert (
        outside(inside.workspace, "log", "-1", "--format=%s %an %ae") == "from inside Ada ada@example.org\n"
    )
    assert outside(inside.workspace, "status", "--porcelain") == ""
    assert await inside.git("status", "--porcelain") == ""
    assert len(inside.said) == 0
    commit = outside(inside.workspace, "rev-parse", "HEAD").strip()
    assert not (inside.folder / "objects" / commit[:2] / commit[2:]).exists()


async def test_adding_is_seen_outside(inside: Inside) -> None:
    (inside.workspace / "new.txt").write_text("new\n")
    await inside.sh("git add new.txt; git rm -q --cached a.txt; chmod +x sub/b.txt; git add sub/b.txt")

    status = outside(inside.workspace, "status", "--porcelain")

    assert status == "D  a.txt\nA  new.txt\nM  sub/b.txt\n?? a.txt\n"
    assert await inside.git("status", "--porcelain") == status
    assert outside(inside.workspace, "show", ":new.txt") == "new\n"


async def test_amending_branching_and_detaching(inside: Inside) -> None:
    await inside.git("commit", "-q", "--amend", "-m", "amended")
    amended = outside(inside.workspace, "log", "-1", "--format=%s")
    await inside.git("checkout", "-q", "-b", "feature/new")
    (inside.workspace / "f.txt").write_text("f\n")
    await inside.sh("git add f.txt; git commit -qm feature")
    head = outside(inside.workspace, "symbolic-ref", "HEAD")
    feature = outside(inside.workspace, "log", "-1", "--format=%s")
    await inside.git("checkout", "-q", "--detach", "HEAD~1")

    assert amended == "amended\n"
    assert (head, feature) == ("refs/heads/feature/new\n", "feature\n")
    assert outside(inside.workspace, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD\n"
    assert outside(inside.workspace, "log", "-1", "--format=%s") == "amended\n"
    assert outside(inside.workspace, "status", "--porcelain") == ""
    assert outside(inside.workspace, "log", "-1", "--format=%s", "feature/new") == "feature\n"


async def test_a_stash_works_from_one_command_to_the_next(inside: Inside) -> None:
    (inside.workspace / "a.txt").write_text("put away\n")
    await inside.git("stash", "push", "-q", "-m", "mine")
    clean = (inside.workspace / "a.txt").read_text()
    listed = await inside.git("stash", "list")
    seen = outside(inside.workspace, "stash", "list")
    await inside.git("stash", "pop", "-q")

    assert clean == "one\nmore\n"
    assert "mine" in listed
    assert ("mine" in seen) == (not inside.view.repository.is_linked)
    assert (inside.workspace / "a.txt").read_text() == "put away\n"
    assert outside(inside.workspace, "stash", "list") == ""
    assert await inside.git("stash", "list") == ""


async def test_a_stash_of_two_that_loses_the_older_one(inside: Inside) -> None:
    for name in ("older", "newer"):
        (inside.workspace / "a.txt").write_text(name)
        await inside.git("stash", "push", "-q", "-m", name)
    await inside.git("stash", "drop", "-q", "stash@{1}")

    listed = await inside.git("stash", "list")

    assert "newer" in listed
    assert "older" not in listed
    if not inside.view.repository.is_linked:
        assert outside(inside.workspace, "stash", "list") == listed


async def test_a_merge_with_a_conflict_can_be_ended_on_either_side(inside: Inside) -> None:
    await inside.sh(
        "git checkout -q -b side HEAD~1; echo side > a.txt; git commit -qam side; git checkout -q -"
    )
    await inside.git("merge", "side", fails=True)
    unmerged = outside(inside.workspace, "status", "--porcelain")
    merging = outside(inside.workspace, "rev-parse", "MERGE_HEAD")
    (inside.workspace / "a.txt").write_text("merged\n")
    await inside.sh("git add a.txt; git commit -qm merged")

    assert unmerged == "UU a.txt\n"
    assert merging == outside(inside.workspace, "rev-parse", "HEAD^2")
    assert outside(inside.workspace, "status", "--porcelain") == ""
    outside(inside.workspace, "rev-parse", "-q", "--verify", "MERGE_HEAD", fails=True)

    await inside.git("reset", "-q", "--hard", "HEAD~1")
    await inside.git("merge", "side", fails=True)
    (inside.workspace / "a.txt").write_text("merged outside\n")
    outside(inside.workspace, "commit", "-qam", "by a person")

    assert "by a person" in await inside.git("log", "-1")
    assert await inside.git("status", "--porcelain") == ""


async def test_a_rebase_comes_over_when_it_has_ended(inside: Inside) -> None:
    branch = outside(inside.workspace, "rev-parse", "--abbrev-ref", "HEAD").strip()
    await inside.sh(
        "git checkout -q -b base HEAD~1; echo base > a.txt; git commit -qam base; git checkout -q " + branch
    )
    before = outside(inside.workspace, "rev-parse", "HEAD")
    await inside.git("rebase", "base", fails=True)
    said = " ".join(inside.said)
    during = outside(inside.workspace, "rev-parse", "HEAD")
    (inside.workspace / "a.txt").write_text("both\n")
    await inside.sh("git add a.txt; git rebase --continue")

    assert "a rebase is going on" in said
    assert during == before
    assert not list((inside.workspace / ".git").glob("rebase-*"))
    assert outside(inside.workspace, "log", "--format=%s") == "second\nbase\nfirst\n"
    assert outside(inside.workspace, "rev-parse", "--abbrev-ref", "HEAD").strip() == branch
    assert outside(inside.workspace, "status", "--porcelain") == ""


async def test_collecting_garbage_inside_harms_nothing(inside: Inside) -> None:
    objects = everything(Path(inside.view.repository.objects))
    (inside.workspace / "a.txt").write_text("put away\n")
    await inside.git("stash", "push", "-q")
    await inside.git("gc", "-q", "--prune=now")
    (inside.workspace / "a.txt").write_text("after\n")
    await inside.sh("git commit -qam after; git gc -q")
    now = everything(Path(inside.view.repository.objects))

    assert objects.items() <= now.items()
    assert outside(inside.workspace, "log", "-1", "--format=%s") == "after\n"
    assert "WIP" in await inside.git("stash", "list")
    assert await inside.git("fsck") == ""


async def test_tags_and_deleted_branches(inside: Inside) -> None:
    is_linked = inside.view.repository.is_linked
    before = outside(inside.workspace, "rev-parse", "other")

    await inside.sh("git tag mine; git tag -a -m words v2; git branch -D other; git branch fresh HEAD~1")

    tags = outside(inside.workspace, "tag").split()
    assert tags == (["v1"] if is_linked else ["mine", "v1", "v2"])
    assert "fresh" in outside(inside.workspace, "branch")
    if is_linked:
        assert outside(inside.workspace, "rev-parse", "other") == before
    else:
        outside(inside.workspace, "rev-parse", "-q", "--verify", "other", fails=True)
        assert before[:12] in " ".join(inside.said)
    assert set((await inside.git("tag")).split()) == {"mine", "v1", "v2"}


async def test_what_a_person_does_meanwhile_is_seen_inside(inside: Inside) -> None:
    await inside.git("status")
    (inside.workspace / "a.txt").write_text("by a person\n")
    outside(inside.workspace, "commit", "-qam", "by a person")
    outside(inside.workspace, "tag", "theirs")
    outside(inside.workspace, "branch", "-D", "other")

    assert "by a person" in await inside.git("log", "-1")
    assert await inside.git("status", "--porcelain") == ""
    assert "theirs" in await inside.git("tag")
    assert "other" not in await inside.git("branch", "--list", "other")


async def test_many_objects_come_as_a_pack(inside: Inside) -> None:
    for number in range(300):
        (inside.workspace / f"n{number}.txt").write_text(f"{number}\n")

    await inside.sh("git add .; git commit -qm many")

    assert outside(inside.workspace, "status", "--porcelain") == ""
    assert len(outside(inside.workspace, "ls-tree", "-r", "--name-only", "HEAD").split()) == 302


async def test_a_view_that_is_opened_again_knows_what_was_only_inside(inside: Inside, tmp_path: Path) -> None:
    await inside.sh("git tag mine; echo x > a.txt; git stash push -q -m kept")
    inside.view.close()

    again = await Inside.open(inside.workspace, tmp_path / "home")

    assert "mine" in await again.git("tag")
    assert "kept" in await again.git("stash", "list")
    again.view.close()


async def test_much_in_one_command(inside: Inside) -> None:
    """Branches that move, go away and get new names, and HEAD that ends up somewhere else."""
    branch = outside(inside.workspace, "rev-parse", "--abbrev-ref", "HEAD").strip()
    await inside.sh("echo x > a.txt; git commit -qam moved; git checkout -q --detach HEAD~1")
    subjects = [outside(inside.workspace, "log", "-1", "--format=%s", name) for name in ("HEAD", branch)]
    await inside.sh(f"git checkout -q {branch}; git branch -m trunk")
    after = outside(inside.workspace, "symbolic-ref", "HEAD")
    gone = outside(inside.workspace, "branch", "--list", branch)
    await inside.sh("git checkout -q --detach; git branch -D trunk; git checkout -q -b trunk/sub")
    await inside.git("status")

    assert subjects == ["second\n", "moved\n"]
    assert (after, gone) == ("refs/heads/trunk\n", "")
    assert outside(inside.workspace, "symbolic-ref", "HEAD") == "refs/heads/trunk/sub\n"
    assert outside(inside.workspace, "status", "--porcelain") == ""
