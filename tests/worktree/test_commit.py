"""git_commit commits its paths alone, as the person, and runs nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from placet import Runtime, basic_tools
from placet.errors import ToolError, UsageError
from placet.sandbox.confinement import Isolation
from placet.worktree.commit import commit, is_repository, show
from tests.worktree.repositories import everything, make_repository, outside


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "work")


def status(work: Path) -> str:
    return outside(work, "status", "--porcelain")


async def test_paths_are_committed_and_all_else_stays(work: Path) -> None:
    (work / "a.txt").write_text("changed\n")
    (work / "sub/b.txt").unlink()
    (work / "sub/new.txt").write_text("new\n")
    (work / "staged.txt").write_text("staged\n")
    outside(work, "add", "staged.txt")
    (work / "staged.txt").write_text("staged and changed\n")
    (work / "untracked.txt").write_text("untracked\n")

    made = await commit(work, ["sub", "a.txt"], "Change some\n\nBecause.")

    assert list(made.paths) == ["a.txt", "sub/b.txt", "sub/new.txt"]
    assert outside(work, "rev-parse", "HEAD", "HEAD~1").split() == [made.commit, made.parent]
    assert outside(work, "show", "--format=%B", "--name-status").split("\n")[:3] == [
        "Change some",
        "",
        "Because.",
    ]
    assert outside(work, "branch", "--show-current").strip() == made.branch == "main"
    assert status(work) == "AM staged.txt\n?? untracked.txt\n"
    assert outside(work, "show", ":staged.txt") == "staged\n"
    outside(work, "fsck", "--strict", "--no-dangling")


async def test_it_is_the_persons_commit(work: Path) -> None:
    (work / "a.txt").write_text("changed\n")

    await commit(work, ["a.txt"], "x")

    named = outside(work, "log", "-1", "--format=%an <%ae> %cn <%ce>").strip()
    assert named == "Ada <ada@example.org> Ada <ada@example.org>"
    assert "placet git_commit: x" in outside(work, "reflog", "-1")


async def test_what_is_staged_of_a_path_gives_way_to_the_file(work: Path) -> None:
    (work / "a.txt").write_text("staged\n")
    outside(work, "add", "a.txt")
    (work / "a.txt").write_text("as it is\n")

    await commit(work, ["a.txt"], "x")

    assert outside(work, "show", "HEAD:a.txt") == "as it is\n"
    assert status(work) == ""


async def test_modes_links_and_odd_names(work: Path) -> None:
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("a.txt")
    (work / "-odd \n*name").write_text("x")

    await commit(work, ["."], "all of it")

    listed = outside(work, "ls-tree", "-z", "HEAD").split("\0")
    assert {line.split("\t")[1]: line[:6] for line in listed if line} == {
        "-odd \n*name": "100644",
        "a.txt": "100644",
        "link": "120000",
        "run.sh": "100755",
        "sub": "040000",
    }


async def test_a_name_that_is_no_text_is_told_as_nearly_as_can_be(work: Path) -> None:
    (work / os.fsdecode(b"n\xff")).write_text("x")
    runtime = Runtime(builtin=basic_tools(work, isolation=Isolation("none")))

    result = await runtime.execute(
        {"actions": [{"id": "c", "tool": "git_commit", "parameters": {"paths": ["."], "message": "x"}}]}
    )

    assert result["c"].output["paths"] == ["n\ufffd"]


async def test_nothing_of_the_repository_is_run(work: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    evil.chmod(0o755)
    names = ("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "reference-transaction")
    for name in (*names, "post-index-change"):
        (work / ".git/hooks" / name).symlink_to(evil)
    for key in ("core.fsmonitor", "diff.external", "gpg.program", "core.editor", "diff.evil.textconv"):
        outside(work, "config", key, str(evil))
    outside(work, "config", "commit.gpgSign", "true")
    (work / ".gitattributes").write_text("* diff=evil filter=evil\n")
    (work / "a.txt").write_text("changed\n")

    await show(work, ["a.txt"])
    await commit(work, ["a.txt"], "x")

    assert not canary.exists()


@pytest.mark.parametrize(
    ("spoil", "paths", "says"),
    [
        ("", ["a.txt"], "Nothing to commit: these paths"),
        ("", ["sub/no"], "sub/no is neither in .*/work nor in its last commit"),
        ("", ["no", "a.txt", "nor"], "no, nor are neither .*; the other paths are as in"),
        ("echo x > x.log; echo '*.log' > .git/info/exclude", ["x.log"], "git ignores"),
        ("echo x > a.txt", ["../a.txt"], "no path in the repository"),
        ("echo x > a.txt", ["/etc/passwd"], "no path in the repository"),
        ("echo x > a.txt", [".git/config"], "Nothing to commit"),
        ("echo x > a.txt", ["\ud800"], "no path in the repository"),
        ("mkdir -p sub/.placet; echo x > sub/.placet/x", ["sub"], "Placet's own"),
        ("echo x > a.txt; git rev-parse HEAD > .git/MERGE_HEAD", ["a.txt"], "a merge is going on"),
        ("echo x > a.txt; git config --unset user.email", ["a.txt"], "git config user.name"),
        ("echo x > a.txt; touch .git/index.lock", ["a.txt"], "index.lock"),
        ("echo x > a.txt; touch .git/refs/heads/main.lock", ["a.txt"], "cannot lock ref"),
    ],
)
async def test_what_cannot_be_committed_changes_nothing(
    spoil: str, paths: list[str], says: str, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    _run(spoil, work)
    head = outside(work, "rev-parse", "HEAD")

    with pytest.raises(ToolError, match=says):
        await commit(work, paths, "x")

    assert outside(work, "rev-parse", "HEAD") == head


async def test_a_file_that_goes_through_a_filter_is_left_to_the_person(work: Path) -> None:
    outside(work, "config", "filter.lfs.clean", "cat")
    (work / ".gitattributes").write_text("*.bin filter=lfs\n")
    (work / "x.bin").write_text("large")

    with pytest.raises(UsageError, match=r"filter of git.*x\.bin"):
        await commit(work, ["."], "x")
    # A filter elsewhere is nobody's business.
    await commit(work, [".gitattributes"], "attributes")


@pytest.mark.parametrize("where", ["repository", "person"])
async def test_a_filter_counts_wherever_it_is_named(
    where: str, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (home / ".gitconfig").write_text('[filter "strip"]\n\tclean = sed s/secret//\n')
    named = work / ".git/info/attributes" if where == "repository" else home / ".config/git/attributes"
    named.parent.mkdir(exist_ok=True)
    named.write_text("*.ipynb filter=strip\n")
    (work / "x.ipynb").write_text("secret")

    with pytest.raises(UsageError, match=r"filter of git.*x\.ipynb"):
        await commit(work, ["x.ipynb"], "x")
    # What stands beside the file goes before what the person says of all files, as in git itself.
    (work / ".gitattributes").write_text("*.ipynb -filter\n")
    if where == "person":
        await commit(work, ["x.ipynb"], "x")
        assert outside(work, "show", "HEAD:x.ipynb") == "secret"


async def test_what_commands_do_not_see_is_not_committed(work: Path) -> None:
    for name in (".placet/records.db", "sub/.Placet/x", "kept/key"):
        (work / name).parent.mkdir()
        (work / name).write_text("hidden")
    (work / "a.txt").write_text("changed\n")

    made = await commit(work, ["."], "x", closed=[str(work / "kept")])

    assert list(made.paths) == ["a.txt"]


async def test_a_commit_is_made_as_it_was_shown_or_not_at_all(work: Path) -> None:
    made = tool(work)
    (work / "a.txt").write_text("shown\n")
    asked = {"paths": ["a.txt"], "message": "x"}
    await _aside(made.explain, asked)
    (work / "a.txt").write_text("not shown\n")

    with pytest.raises(ToolError, match="since the diff of this commit was shown"):
        await made.fn(**asked)
    assert outside(work, "show", "HEAD:a.txt") == "one\nmore\n"

    await _aside(made.explain, asked)
    await made.fn(**asked)
    assert outside(work, "show", "HEAD:a.txt") == "not shown\n"


async def test_a_linked_worktree_commits_to_its_own_branch(work: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    outside(work, "worktree", "add", "-q", "-b", "mine", str(linked))
    (linked / "a.txt").write_text("linked\n")
    main = outside(work, "rev-parse", "main")

    made = await commit(linked, ["a.txt"], "x")

    assert made.branch == "mine"
    assert outside(work, "rev-parse", "main", "mine").split() == [main.strip(), made.commit]
    assert status(linked) == status(work) == ""


def tool(work: Path) -> Any:
    isolation = Isolation("none")
    return {each.name: each for each in basic_tools(work, isolation=isolation)}.get("git_commit")


async def test_the_tool_is_offered_where_the_workspace_is_a_repository(work: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()

    assert tool(work) is not None
    assert tool(work / "sub") is None
    assert tool(plain) is None
    assert not is_repository(str(plain))
    with pytest.raises(UsageError, match="git repository"):
        basic_tools(plain, only=["git_commit"])


async def test_the_tool_shows_the_diff_and_is_undone_by_a_reset(work: Path) -> None:
    (work / "a.txt").write_text("changed\n")
    made = tool(work)
    before = everything(work / ".git")

    shown = await _aside(made.explain, {"paths": ["a.txt"], "message": "x"})
    nothing = await _aside(made.explain, {"paths": ["sub"], "message": "x"})

    assert "-one\n" in shown
    assert "+changed\n" in shown
    assert "Nothing to commit" in nothing
    assert everything(work / ".git") == before
    assert made.recovery().command.endswith(f"reset {outside(work, 'rev-parse', 'HEAD').strip()}")


def _run(script: str, folder: Path) -> None:
    subprocess.run(["sh", "-c", script], cwd=folder, check=True)


async def _aside(explain: Any, parameters: dict[str, Any]) -> str:
    import asyncio

    said: str = await asyncio.to_thread(explain, parameters, None)
    return said


async def test_an_aborted_plan_names_the_reset(work: Path) -> None:
    (work / "a.txt").write_text("changed\n")
    runtime = Runtime(builtin=basic_tools(work, isolation=Isolation("none")))

    result = await runtime.execute(
        {
            "actions": [
                {"id": "c", "tool": "git_commit", "parameters": {"paths": ["a.txt"], "message": "x"}},
                {"id": "d", "tool": "read_file", "parameters": {"path": "none"}, "depends_on": ["c"]},
            ]
        }
    )

    assert result["c"].status == "succeeded"
    assert result["c"].output["paths"] == ["a.txt"]
    assert list(result.irreversible) == ["c"]
    undo, tip = result.undo_commands["c"], outside(work, "rev-parse", "HEAD")
    assert os.path.basename(work) in undo
    outside(work, "commit", "-q", "--allow-empty", "-m", "theirs")
    with pytest.raises(subprocess.CalledProcessError):
        _run(undo, work)
    assert outside(work, "rev-parse", "HEAD~1") == tip
    outside(work, "reset", "-q", "HEAD~1")
    _run(undo, work)
    assert outside(work, "rev-parse", "HEAD").strip() == result["c"].output["parent"]
    assert (work / "a.txt").read_text() == "changed\n"
