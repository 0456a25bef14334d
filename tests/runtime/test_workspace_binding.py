"""A plan bound to a folder leaves it as it was when it is aborted, and says what it could not take back."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from placet import Cancel, CostBudget, ReplanConfig, Runtime
from placet.approvals.memory import MemoryApprovals
from placet.durable.memory import MemoryJournal
from placet.errors import UsageError
from placet.policy.flow import DenyIrreversible
from placet.runtime.guards.idempotency import AnswerBook
from placet.tools import Tool
from placet.tools.builtin import basic_tools
from placet.worktree.snapshot.store import Snapshots
from placet.worktree.snapshot.taking import Settings
from placet.worktree.snapshot.tree import Bounds
from tests.runtime.plans import call, claim, data_of, kinds, plan, tool_of, undone_by
from tests.worktree.repositories import needs_bubblewrap
from tests.worktree.snapshot.trees import git, make_repository, told, views


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A workspace with two files."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    (folder / "b.txt").write_text("two")
    return folder


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where snapshots are."""
    return tmp_path / "kept"


def sh(folder: Path) -> Tool:
    """A tool that does what it likes, in the folder and elsewhere."""

    def run(command: str) -> str:
        done = subprocess.run(["sh", "-c", command], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout

    return tool_of("sh", run)


def files(folder: Path) -> list[Tool]:
    return basic_tools(folder, only=["read_file", "write_file"])


def snapshots_in(kept: Path) -> list[str]:
    """What is left there, but for the lock that stays."""
    return [name for name in os.listdir(kept) if name != "lock"]


def bound(top: Path, kept: Path, *tools: Tool, **options: Any) -> Runtime:
    return Runtime(tools=[sh(top), *tools], builtin=files(top), workspace=top, snapshots=kept, **options)


def put(id: str, path: str, text: str, **fields: Any) -> dict[str, Any]:
    return call(id, "write_file", {"path": path, "text": text}, **fields)


def fail(*after: str) -> dict[str, Any]:
    """What aborts the plan, once others have ended."""
    return claim("end", "never", 1, dependencies=list(after))


async def test_an_aborted_plan_leaves_the_folder_as_it_was(top: Path, kept: Path, schedule: Any) -> None:
    was = told(top)
    rt = bound(top, kept, schedule=schedule)

    result = await rt.execute(
        plan(
            put("w", "a.txt", "ONE"),
            call("s", "sh", {"command": "rm b.txt; mkdir d; ln -s /etc e"}),
            fail("w", "s"),
        )
    )

    assert result.outcome == "aborted"
    assert told(top) == was
    assert [r.rolled_back for r in result.results] == [True, True, False]
    assert snapshots_in(kept) == []
    (snapshot,) = data_of(rt, "workspace_snapshot")
    assert (snapshot["files"], snapshot["bytes"], snapshot["left_out"]) == (2, 6, [])
    (restored,) = data_of(rt, "workspace_restored")
    assert restored == {
        "snapshot": snapshot["snapshot"],
        "folder": str(top),
        "changed": 1,
        "removed": 2,
        "brought_back": 1,
        "left_out": [],
        "not_restored": [],
        "problems": [],
    }
    order = [k for k in kinds(rt) if k in ("workspace_snapshot", "action_executing", "state_rollback")]
    assert order[0] == "workspace_snapshot"
    assert kinds(rt).index("state_rollback") < kinds(rt).index("workspace_restored")


async def test_what_succeeds_stays_and_the_snapshot_goes(top: Path, kept: Path) -> None:
    rt = bound(top, kept)

    done = await rt.execute(plan(put("w", "a.txt", "ONE")))
    partly = await rt.execute(plan(put("w", "b.txt", "TWO"), claim("c", "k", 1, failure_behavior="skip")))

    assert (done.outcome, partly.outcome) == ("succeeded", "partial")
    assert ((top / "a.txt").read_text(), (top / "b.txt").read_text()) == ("ONE", "TWO")
    assert snapshots_in(kept) == []


async def test_a_plan_that_only_reads_needs_no_snapshot(top: Path, kept: Path) -> None:
    rt = bound(top, kept)

    await rt.execute(plan(call("r", "read_file", {"path": "a.txt"}), fail("r")))

    assert "workspace_snapshot" not in kinds(rt)
    assert "workspace_restored" not in kinds(rt)
    assert "kept" not in os.listdir(top.parent)


async def test_what_stays_in_the_folder_is_not_irreversible_and_what_goes_beyond_is(
    top: Path, kept: Path
) -> None:
    steps = (put("w", "a.txt", "ONE"), call("s", "sh", {"command": "true"}), fail("w", "s"))

    result = await bound(top, kept).execute(plan(*steps))
    unbound = await Runtime(tools=[sh(top)], builtin=files(top)).execute(plan(*steps))

    assert list(result.irreversible) == ["s"]
    assert list(unbound.irreversible) == ["w", "s"]


async def test_verify_and_execute_agree_about_what_can_be_taken_back(top: Path, kept: Path) -> None:
    rule = ("no way back", DenyIrreversible())
    rt = bound(top, kept, policies=[rule])
    unbound = Runtime(builtin=files(top), policies=[rule])
    write, shell = plan(put("w", "a.txt", "ONE")), plan(call("s", "sh", {"command": "true"}))
    strict = plan(put("w", "a.txt", "TWO", reversibility="irreversible"))

    assert (rt.verify(write).valid, (await rt.execute(write)).outcome) == (True, "succeeded")
    assert (rt.verify(shell).valid, (await rt.execute(shell)).outcome) == (False, "aborted")
    assert (rt.verify(strict).valid, (await rt.execute(strict)).outcome) == (False, "aborted")
    assert (unbound.verify(write).valid, (await unbound.execute(write)).outcome) == (False, "aborted")
    early = [i.message for i in rt.verify(plan(put("w", "a.txt", "x"), fail("w"))).issues]
    assert not [m for m in early if "irreversible" in m]


async def test_a_compensation_that_works_in_the_folder_is_taken_back_too(top: Path, kept: Path) -> None:
    was = told(top)
    seen: list[str] = []

    def undo_it() -> None:
        seen.append((top / "a.txt").read_text())
        (top / "a.txt").write_text("by the compensation")

    def do_it() -> None:
        (top / "a.txt").write_text("done")

    rt = bound(top, kept, tool_of("do", do_it, reversibility="compensable"), tool_of("undo", undo_it))

    result = await rt.execute(plan(call("a", "do", **undone_by("undo")), fail("a")))

    assert [c.status for c in result.compensations] == ["succeeded"]
    assert seen == ["done"]
    assert told(top) == was


async def test_a_replan_starts_from_what_the_abort_restored(top: Path, kept: Path) -> None:
    seen: list[str] = []

    def replan(_: Any) -> Any:
        seen.append((top / "a.txt").read_text())
        return plan(put("w2", "b.txt", "TWO"))

    rt = bound(top, kept, replan=replan, replan_config=ReplanConfig(max_replans=1))

    result = await rt.execute(plan(put("w", "a.txt", "ONE"), fail("w")))

    assert result.outcome == "succeeded"
    assert seen == ["one"]
    assert ((top / "a.txt").read_text(), (top / "b.txt").read_text()) == ("one", "TWO")
    assert snapshots_in(kept) == []


async def test_a_plan_after_a_partial_one_is_taken_back_to_where_it_began(top: Path, kept: Path) -> None:
    rt = bound(
        top,
        kept,
        replan=lambda _: plan(put("w2", "b.txt", "TWO"), fail("w2")),
        replan_config=ReplanConfig(max_replans=1),
    )

    await rt.execute(
        plan(put("w", "a.txt", "ONE"), claim("c", "k", 1, failure_behavior="retry", max_retries=0))
    )

    assert ((top / "a.txt").read_text(), (top / "b.txt").read_text()) == ("ONE", "two")


async def test_a_candidate_that_fails_leaves_nothing_for_the_next(top: Path, kept: Path) -> None:
    rt = bound(top, kept)

    result = await rt.plan_and_execute(
        [
            plan(put("w", "a.txt", "ONE"), call("s", "sh", {"command": "exit 1"}, failure_behavior="skip")),
            plan(put("w", "b.txt", "TWO"), call("s", "sh", {"command": "exit 1"}, failure_behavior="skip")),
        ]
    )

    assert result.outcome == "aborted"
    assert ((top / "a.txt").read_text(), (top / "b.txt").read_text()) == ("one", "two")


async def test_cancel_and_budget_keep_what_was_done(top: Path, kept: Path) -> None:
    rt = bound(top, kept)

    result = await rt.execute(
        plan(put("w", "a.txt", "ONE"), put("v", "b.txt", "TWO")), budget=CostBudget(max_tool_calls=1)
    )

    assert result.outcome == "budget"
    assert ((top / "a.txt").read_text(), (top / "b.txt").read_text()) == ("ONE", "two")
    assert snapshots_in(kept) == []


async def test_what_was_left_out_and_changed_is_told_in_the_result(top: Path, tmp_path: Path) -> None:
    (top / "node_modules").mkdir()
    (top / "node_modules/big").write_bytes(b"1" * 5000)
    snapshots = Snapshots(tmp_path / "kept", settings=Settings(bounds=Bounds(bytes=1000)))
    rt = Runtime(tools=[sh(top)], workspace=top, snapshots=snapshots)

    result = await rt.execute(plan(call("s", "sh", {"command": "echo x >> node_modules/big"}), fail("s")))

    assert "left out of the snapshot, and not as before: node_modules" in (result.error or "")
    assert data_of(rt, "workspace_restored")[0]["not_restored"] == ["node_modules"]
    assert data_of(rt, "workspace_snapshot")[0]["left_out"] == ["node_modules: ignored and large"]


async def test_a_pipe_that_the_plan_deleted_is_told_in_the_result(top: Path, kept: Path) -> None:
    os.mkfifo(top / "pipe")

    result = await bound(top, kept).execute(plan(call("s", "sh", {"command": "rm pipe"}), fail("s")))

    assert "left out of the snapshot, and not as before: pipe" in (result.error or "")


async def test_a_restore_that_fails_is_told_and_nothing_counts_as_taken_back(top: Path, kept: Path) -> None:
    rt = bound(top, kept, tool_of("spoil", lambda: shutil.rmtree(kept), risk="idempotent"))

    result = await rt.execute(
        plan(put("w", "a.txt", "ONE"), call("s", "spoil", dependencies=["w"]), fail("s"))
    )

    assert result.outcome == "aborted"
    assert "the workspace could not be restored wholly" in (result.error or "")
    assert "w" in result.irreversible
    assert (top / "a.txt").read_text() == "ONE"
    assert data_of(rt, "workspace_restored")[0]["problems"]


async def test_a_folder_that_cannot_be_kept_is_not_changed(top: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "kept", settings=Settings(most=Bounds(bytes=2)))
    rt = Runtime(builtin=files(top), workspace=top, snapshots=snapshots)

    result = await rt.execute(plan(put("w", "a.txt", "ONE")))

    assert result.outcome == "refused"
    assert "cannot be kept to be restored" in (result.error or "")
    # Once is enough: not for each action again.
    assert result["w"].error == "the workspace is not kept, so nothing was started"
    assert (top / "a.txt").read_text() == "one"


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_action_of_unknown_outcome_in_the_folder_is_taken_back(
    top: Path, kept: Path, is_known: bool
) -> None:
    """A tool that only says of itself that it works in the folder may have done something elsewhere."""

    async def slow() -> None:
        (top / "a.txt").write_text("half")
        await asyncio.sleep(60)

    made = tool_of("slow", slow, labels=["confined"])
    made.confined_to = str(top) if is_known else None
    rt = bound(top, kept, made)

    result = await rt.execute(plan(call("s", "slow", timeout_ms=50)))

    assert result["s"].status == "unknown"
    assert list(result.irreversible) == ([] if is_known else ["s"])
    assert (top / "a.txt").read_text() == "one"


# Which tools are taken back


async def test_a_tool_of_another_folder_is_refused(top: Path, kept: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(top)

    with pytest.raises(
        UsageError, match=r"'read_file' works in .*other, and this Runtime is bound to .*work"
    ):
        Runtime(builtin=files(tmp_path / "other"), workspace=top, snapshots=kept)

    rt = Runtime(builtin=files(tmp_path / "link"), workspace=top, snapshots=kept)
    assert rt.tools.require("write_file").schema.reversibility == "reversible"


async def test_a_tool_that_only_says_that_it_is_confined_stays_named(top: Path, kept: Path) -> None:
    def put_it() -> None:
        (top / "a.txt").write_text("ONE")

    label = {"labels": ["confined"]}
    says = tool_of("says", put_it, reversibility="reversible", **label)
    rt = bound(top, kept, tool_of("claims", put_it, **label), says)

    result = await rt.execute(plan(call("a", "claims"), call("b", "says"), fail("a", "b")))

    assert list(result.irreversible) == ["a"]
    assert (top / "a.txt").read_text() == "one"


# Others who work there


async def test_others_are_refused_while_a_run_is_at_work(top: Path, kept: Path, tmp_path: Path) -> None:
    (top / "in").mkdir()
    (tmp_path / "aside").mkdir()
    said: dict[str, str] = {}

    async def others() -> None:
        for name in ("work", "work/in", ".", "aside"):
            there = tmp_path / name
            other = Runtime(builtin=files(there), workspace=there, snapshots=kept)
            result = await other.execute(plan(put("w", "new.txt", "x"), put("v", "v.txt", "x")))
            said[name] = f"{result.outcome}: {result.error}"

    rt = bound(top, kept, tool_of("others", others))

    result = await rt.execute(plan(call("o", "others"), fail("o")), run_id="first")

    for name in ("work", "work/in", "."):
        assert said[name].startswith("refused: "), name
        assert "is taken: run 'first' (process" in said[name]
        assert "Wait until that run has ended" in said[name]
    assert said["aside"] == "succeeded: None"
    assert result.outcome == "aborted"
    assert (tmp_path / "aside/new.txt").exists()
    assert not (top / "new.txt").exists()
    # And afterwards it is free.
    assert (await bound(top, kept).execute(plan(put("w", "a.txt", "x")))).outcome == "succeeded"
    assert snapshots_in(kept) == []


async def test_one_run_at_a_time(top: Path, kept: Path) -> None:
    async def again() -> str:
        with pytest.raises(UsageError, match="One run at a time"):
            await rt.execute(plan(put("w", "a.txt", "x")))
        return "refused"

    rt = bound(top, kept, tool_of("again", again))

    result = await rt.execute(plan(call("a", "again")))

    assert result["a"].output == "refused"


async def test_a_run_that_breaks_off_without_a_journal_leaves_the_folder_as_it_was(
    top: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("our own fault")

    monkeypatch.setattr(AnswerBook, "adopt", fail)
    was = told(top)

    with pytest.raises(RuntimeError, match="our own fault"):
        await bound(top, kept).execute(plan(put("w", "a.txt", "ONE")))

    assert told(top) == was
    assert snapshots_in(kept) == []


async def test_a_task_that_is_cancelled_while_the_folder_is_kept_starts_nothing(
    top: Path, kept: Path
) -> None:
    holding, go_on = threading.Event(), threading.Event()

    class Slow(Snapshots):
        def take(self, *args: Any, **fields: Any) -> Any:
            holding.set()
            go_on.wait(30)
            return super().take(*args, **fields)

    rt = Runtime(builtin=files(top), workspace=top, snapshots=Slow(kept))
    task = asyncio.ensure_future(rt.execute(plan(put("w", "a.txt", "ONE"))))
    await asyncio.to_thread(holding.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert (top / "a.txt").read_text() == "one"
    assert snapshots_in(kept) == []


# With a journal


async def test_a_run_that_waits_keeps_its_snapshot_and_is_taken_back_later(top: Path, kept: Path) -> None:
    journal, approvals = MemoryJournal(), MemoryApprovals()
    options: dict[str, Any] = {"journal": journal, "approvals": approvals, "patience_s": 0.0}
    options["permissions"] = "balanced"
    steps = plan(
        put("w", "a.txt", "ONE"), call("s", "sh", {"command": "true"}, dependencies=["w"]), fail("s")
    )

    waits = await bound(top, kept, **options).execute(steps, run_id="r")
    assert waits.outcome == "waiting"
    assert (top / "a.txt").read_text() == "ONE"
    assert len(snapshots_in(kept)) == 1
    asked = waits.waiting[0].approval
    assert asked is not None
    approvals.decide(asked, "once", by="me")
    result = await bound(top, kept, **options).resume("r")

    assert result.outcome == "aborted"
    assert (top / "a.txt").read_text() == "one"
    assert snapshots_in(kept) == []


async def test_a_canceled_run_keeps_its_snapshot_until_it_has_ended(top: Path, kept: Path) -> None:
    journal, cancel = MemoryJournal(), Cancel()
    stop = tool_of("stop", lambda: cancel.cancel("enough"))
    steps = plan(put("w", "a.txt", "ONE"), call("s", "stop", dependencies=["w"]), fail("s"))

    first = await bound(top, kept, stop, journal=journal).execute(steps, run_id="r", cancel=cancel)
    assert first.outcome == "canceled"
    assert len(snapshots_in(kept)) == 1
    result = await bound(top, kept, stop, journal=journal).resume("r")

    assert result.outcome == "aborted"
    assert (top / "a.txt").read_text() == "one"
    assert snapshots_in(kept) == []


async def test_what_a_later_plan_did_is_not_undone_by_the_abort_of_an_earlier_one(
    top: Path, kept: Path
) -> None:
    """Resumed, the first plan is gone through again; its restore was noted, and is not done again."""
    journal, cancel = MemoryJournal(), Cancel()
    stop = tool_of("stop", lambda: cancel.cancel("enough"))
    options: dict[str, Any] = {
        "journal": journal,
        "replan": lambda _: plan(
            put("w2", "b.txt", "TWO"),
            call("s", "stop", dependencies=["w2"]),
            put("w3", "c.txt", "THREE", dependencies=["s"]),
        ),
        "replan_config": ReplanConfig(max_replans=1),
    }

    first = await bound(top, kept, stop, **options).execute(
        plan(put("w", "a.txt", "ONE"), fail("w")), run_id="r", cancel=cancel
    )
    assert first.outcome == "canceled"
    result = await bound(top, kept, stop, **options).resume("r")

    assert result.outcome == "succeeded"
    assert {name: (top / name).read_text() for name in os.listdir(top)} == {
        "a.txt": "one",
        "b.txt": "TWO",
        "c.txt": "THREE",
    }
    assert snapshots_in(kept) == []


async def test_a_run_goes_on_only_in_the_folder_that_it_is_bound_to(top: Path, kept: Path) -> None:
    journal, cancel = MemoryJournal(), Cancel()
    stop = tool_of("stop", lambda: cancel.cancel("enough"))
    steps = plan(call("s", "stop"), put("w", "a.txt", "ONE", dependencies=["s"]))
    await bound(top, kept, stop, journal=journal).execute(steps, run_id="r", cancel=cancel)
    unbound = Runtime(tools=[stop, sh(top)], builtin=files(top), journal=journal)

    with pytest.raises(UsageError, match=r"bound to .*work, and must go on so"):
        await unbound.resume("r")

    assert (await bound(top, kept, stop, journal=journal).resume("r")).outcome == "succeeded"


class Waits:
    """A run that has changed a file, and waits for an answer. That is given; going on, it is aborted."""

    def __init__(self, top: Path, kept: Path, run_id: str = "first", name: str = "a.txt") -> None:
        self._where = top, kept
        self._run_id = run_id
        self._name = name
        self._approvals = MemoryApprovals()
        self._options: dict[str, Any] = {
            "journal": MemoryJournal(),
            "approvals": self._approvals,
            "patience_s": 0.0,
            "permissions": "balanced",
        }

    async def begin(self) -> None:
        steps = plan(
            put("w", self._name, "by the run that waits"),
            call("s", "sh", {"command": "echo more >> more.txt"}, dependencies=["w"]),
            fail("s"),
        )
        waits = await bound(*self._where, **self._options).execute(steps, run_id=self._run_id)
        assert waits.outcome == "waiting"
        asked = waits.waiting[0].approval
        assert asked is not None
        self._approvals.decide(asked, "once", by="me")

    async def go_on(self) -> tuple[Any, Runtime]:
        rt = bound(*self._where, **self._options)
        return await rt.resume(self._run_id), rt


async def test_what_another_run_did_meanwhile_is_not_taken_back(top: Path, kept: Path) -> None:
    waits = Waits(top, kept)
    await waits.begin()
    other = await bound(top, kept).execute(plan(put("w", "b.txt", "by the other")), run_id="second")

    result, rt = await waits.go_on()

    assert (other.outcome, result.outcome) == ("succeeded", "aborted")
    assert (top / "b.txt").read_text() == "by the other"
    assert (top / "a.txt").read_text() == "by the run that waits"
    (restored,) = data_of(rt, "workspace_restored")
    assert "run 'second' has worked there since" in restored["problems"][0]
    assert "run 'second' has worked there since" in (result.error or "")
    assert list(result.irreversible) == ["w", "s"]
    # Whoever wants to know what it was like can look.
    assert f"kept in {kept}" in restored["problems"][0]
    assert len(snapshots_in(kept)) == 1


@pytest.mark.parametrize("how", ["aborted", "rejected", "only reads"])
async def test_another_run_that_left_nothing_is_no_hindrance(top: Path, kept: Path, how: str) -> None:
    waits = Waits(top, kept)
    await waits.begin()
    write = put("w", "b.txt", "by the other")
    if how == "aborted":
        await bound(top, kept).execute(plan(write, fail("w")))
    elif how == "rejected":
        rule = ("no way back", DenyIrreversible())
        step = call("s", "sh", {"command": "touch new"}, failure_behavior="skip")
        other = await bound(top, kept, policies=[rule]).execute(plan(step))
        assert other["s"].status == "rejected"
    else:
        await bound(top, kept).execute(plan(call("r", "read_file", {"path": "a.txt"})))

    result, _ = await waits.go_on()

    assert list(result.irreversible) == ["s"]
    assert {name: (top / name).read_text() for name in os.listdir(top)} == {"a.txt": "one", "b.txt": "two"}


async def test_of_two_that_wait_neither_takes_back_the_work_of_the_other(top: Path, kept: Path) -> None:
    first, second = Waits(top, kept), Waits(top, kept, "second", "b.txt")
    await first.begin()
    await second.begin()

    one, _ = await first.go_on()
    assert (top / "more.txt").read_text() == "more\n"
    two, _ = await second.go_on()

    assert "run 'second' has worked there since" in (one.error or "")
    assert "run 'first' has worked there since" in (two.error or "")
    assert ((top / "a.txt").read_text(), (top / "b.txt").read_text()) == ("by the run that waits",) * 2


async def test_a_run_that_waits_goes_on_only_when_the_folder_is_free(top: Path, kept: Path) -> None:
    waits = Waits(top, kept)
    await waits.begin()

    async def resume() -> str:
        with pytest.raises(UsageError, match="is taken: run 'second'"):
            await waits.go_on()
        return "refused"

    other = bound(top, kept, tool_of("resume", resume, risk="idempotent"))
    meanwhile = await other.execute(plan(call("r", "resume")), run_id="second")
    result, _ = await waits.go_on()

    assert meanwhile["r"].output == "refused"
    assert result.outcome == "aborted"


# A real repository


@needs_bubblewrap
async def test_abort_restores_a_repository_byte_for_byte(tmp_path: Path) -> None:
    """Whatever commands do in the sandbox, and with commits: files, status, index, branches, stash."""
    top = tmp_path / "repo"
    make_repository(top)
    said, staged = views(top), git(top, "ls-files", "--stage")
    was = told(top, besides=(b".git/",))
    config = (top / ".git/config").read_bytes()
    calls = [
        ("shell", "echo changed > pkg7/module_7.py; chmod 700 pkg8/module_8.py; mv pkg9 moved; rm -rf pkg10"),
        ("git_commit", ["pkg4", "pkg7", "pkg9", "moved"]),
        ("shell", "git add -A; git stash; git stash drop; git checkout -b mine; git branch -D other; true"),
        (
            "shell",
            "git gc --prune=now; git config a.b c; chmod 755 empty; rm -rf untracked.txt empty .git; true",
        ),
        ("git_commit", ["."]),
    ]
    rt = Runtime(builtin=basic_tools(top), workspace=top, snapshots=tmp_path / "kept")

    result = await rt.execute(
        plan(
            *(
                call(
                    f"s{n}",
                    tool,
                    {"command": given} if tool == "shell" else {"paths": given, "message": f"commit {n}"},
                    dependencies=[f"s{n - 1}"] if n else [],
                )
                for n, (tool, given) in enumerate(calls)
            ),
            claim("end", "never", 1, dependencies=[f"s{len(calls) - 1}"]),
        )
    )

    assert [r.error for r in result.results[:-1]] == [None] * len(calls)
    assert result.outcome == "aborted"
    assert told(top, besides=(b".git/",)) == was
    assert views(top) == said
    assert git(top, "ls-files", "--stage") == staged
    assert (top / ".git/config").read_bytes() == config
    assert git(top, "fsck", "--no-dangling") == ""
    [restored] = data_of(rt, "workspace_restored")
    assert restored["problems"] == restored.get("not_restored", []) == []
