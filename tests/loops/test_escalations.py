"""What a round leaves to a person: kept, decided later elsewhere, and carried out on exactly that."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import Runtime, SqlApprovals, open_database, tool
from placet.checks.contract import Check
from placet.errors import ApprovalDecided, UsageError
from placet.inference.messages import ToolCall
from placet.loops.acting import executor_tool, plan_of
from placet.loops.budget import LoopBudget
from placet.loops.copies import BaseMoved
from placet.loops.executors.record import RecordExecutor
from placet.loops.promotion import suggestion
from placet.loops.round import Later, Round
from placet.loops.spec import ExecutorSpec
from placet.tools.context import Cancel
from tests.coder.workbench import git
from tests.loops.bench import HONEST, Bench, request_stop, spec, used, verdict, write


@pytest.fixture
def bench(tmp_path: Path, database_url: str) -> Bench:
    """On both databases."""
    return Bench(tmp_path, database_url)


@pytest.fixture
def here(tmp_path: Path) -> Bench:
    """On one."""
    return Bench(tmp_path, str(tmp_path / "placet.db"))


async def escalated(bench: Bench, **more: Any) -> Round:
    """A round of L2 that waits."""
    with bench.engine(HONEST, spec("L2", **more)) as engine:
        round = await engine.run_round()
    assert round.is_waiting, (round.outcome, round.reason)
    return round


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Round, Path]:
    """A round of L2 that waits, and a copy of all that there is then."""
    folder = tmp_path_factory.mktemp("asking")
    bench = Bench(folder / "bench", str(folder / "bench" / "placet.db"))
    round = asyncio.run(escalated(bench))
    shutil.copytree(bench.folder, folder / "kept", symlinks=True)
    return bench, round, folder / "kept"


@pytest.fixture
def asking(scene: tuple[Bench, Round, Path]) -> tuple[Bench, Round]:
    """A round of L2 that waits, on one database; it was run once for all tests."""
    bench, round, kept = scene
    shutil.rmtree(bench.folder)
    shutil.copytree(kept, bench.folder, symlinks=True)
    return bench, msgspec.convert(msgspec.to_builtins(round), Round)


def show(bench: Bench, name: str) -> str:
    """A file as it was published."""
    return git(bench.repository, "show", name)


async def test_what_is_asked_names_the_loop_the_round_the_tree_and_the_verdict(bench: Bench) -> None:
    round = await escalated(bench)

    with open_database(bench.url) as database:
        asked = SqlApprovals(database).find(round.approval)

    given = asked.parameters
    assert (given["loop"], given["round"], given["tree"]) == ("tidy", round.id, round.tree)
    assert (given["base"], given["kind"], given["verdict"]) == (round.base, "tidying", "done")
    assert given["checks"] == {"right": "green"}
    assert given["files"] == ["a.txt"]
    assert asked.recovery is not None
    assert (asked.recovery.by, asked.recovery.command) == ("git", "git branch -D placet/tidy-1")


async def test_approved_later_it_is_carried_out_on_exactly_that_tree(bench: Bench) -> None:
    """The engine that carries it out has no model, and knows the round from the database alone."""
    round = await escalated(bench)
    (bench.home / round.id / "attempt-1" / "a.txt").write_text("evil\n")

    with bench.engine([], spec("L2", name="another")) as engine:
        ended = await engine.decide(round.id, "once", by="ann", reason="good")
        again = await engine.resume(round.id)
        assert (await engine.check(ended.receipt)).holds  # type: ignore[arg-type]

    assert (ended.outcome, [each.what for each in ended.later]) == ("escalated", ["approved"])
    assert (ended.later[0].by, ended.later[0].reason) == ("ann", "good")
    assert git(bench.repository, "rev-parse", "placet/tidy-1^{tree}").strip() == round.tree
    assert again.later == ended.later
    assert not (bench.home / round.id).exists()


async def test_a_round_is_read_once_more_when_it_is_held(
    asking: tuple[Bench, Round], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may have carried it out since it was found."""
    here, found = asking

    with here.engine([], spec("L2")) as engine:
        ended = await engine.decide(found.id, "once", by="ann")
        monkeypatch.setattr(engine.rounds, "find", lambda _: found)
        again = await engine.resume(found.id)
        kept = engine.rounds.get(found.id)

    assert [each.what for each in again.later] == ["approved"]
    assert kept is not None
    assert (kept.receipt, kept.later) == (ended.receipt, ended.later)


async def test_denied_it_is_never_carried_out(bench: Bench) -> None:
    round = await escalated(bench)

    with bench.engine([], spec("L2")) as engine:
        ended = await engine.decide(round.id, "deny", by="ann", reason="not now")
        with pytest.raises(UsageError, match="asks nothing"):
            await engine.decide(round.id, "once", by="ann")

    assert [(each.what, each.reason) for each in ended.later] == [("denied", "not now")]
    assert git(bench.repository, "branch", "--list", "placet/*") == ""


async def test_what_was_approved_is_carried_out_on_no_other_tree(asking: tuple[Bench, Round]) -> None:
    """Whoever has changed the round meanwhile: it is asked anew, and the act itself looks once more."""
    here, shown = asking
    git(here.repository, "update-index", "--force-remove", "a.txt")
    other = msgspec.structs.replace(shown, tree=git(here.repository, "write-tree").strip())
    executor = RecordExecutor()

    async def applies() -> None:
        pytest.fail("it has begun")

    act = executor_tool(executor, lambda: other, lambda: pytest.fail("it has begun"), applies, time.time)
    refused = await Runtime(tools=[act]).execute(plan_of(shown, executor, ""))
    with here.engine([], spec("L2")) as engine:
        engine.rounds.put(other)
        asked = await engine.decide(shown.id, "once", by="ann")

    assert "another tree than the round has" in (refused.results[0].error or "")
    assert asked.is_waiting
    assert asked.approval != shown.approval
    assert git(here.repository, "branch", "--list", "placet/*") == ""


def expire(bench: Bench, approval: str) -> None:
    """As if nobody had answered in time."""
    with open_database(bench.url) as database:
        asked = msgspec.structs.replace(SqlApprovals(database).find(approval), expires_at=time.time() - 1)
        row = (asked.expires_at, msgspec.json.encode(asked).decode(), approval)
        change = "UPDATE approvals SET expires_at = ?, asked = ? WHERE id = ?"
        database.write(lambda t: t.execute(change, row)).result(30)


async def test_an_escalation_that_expired_is_closed(asking: tuple[Bench, Round]) -> None:
    here, round = asking
    expire(here, round.approval)

    with here.engine([], spec("L2")) as engine:
        with pytest.raises(ApprovalDecided):
            await engine.decide(round.id, "once", by="ann")
        ended = await engine.resume(round.id)

    assert [each.what for each in ended.later] == ["expired"]
    assert git(here.repository, "branch", "--list", "placet/*") == ""


async def test_the_next_round_carries_out_what_was_only_decided(asking: tuple[Bench, Round]) -> None:
    """A page, or a program, may record an answer and do nothing else."""
    here, round = asking
    with open_database(here.url) as database:
        SqlApprovals(database).decide(round.approval, "once", by="ann")

    with here.engine(HONEST, spec("L2")) as engine:
        await engine.run_round()
        before = engine.rounds.find(round.id)

    assert [each.what for each in before.later] == ["approved"]
    assert git(here.repository, "rev-parse", "placet/tidy-1^{tree}").strip() == round.tree


async def test_nobody_has_decided_and_it_still_waits(asking: tuple[Bench, Round]) -> None:
    here, round = asking

    with here.engine([], spec("L2")) as engine:
        same = await engine.resume(round.id)

    assert same.is_waiting
    assert same.approval == round.approval


def move_on(bench: Bench, text: str) -> None:
    """The person commits something."""
    (bench.repository / "a.txt").write_text(text)
    git(bench.repository, "commit", "-qam", "moved on")


async def test_a_base_that_moved_refuses_what_no_longer_applies_and_a_rebase_asks_anew(
    asking: tuple[Bench, Round],
) -> None:
    here, round = asking
    move_on(here, "another one\n")

    with here.engine(HONEST, spec("L2")) as engine:
        with pytest.raises(BaseMoved, match="no longer applies"):
            await engine.decide(round.id, "once", by="ann")
        assert engine.rounds.find(round.id).is_waiting
        made = await engine.rebase(round.id, by="ann")

    assert made.is_waiting
    assert made.base == git(here.repository, "rev-parse", "HEAD").strip()
    assert made.maker is not None
    assert "no longer fits" in made.maker.prompt
    assert "+right" in made.maker.prompt
    with here.engine([], spec("L2")) as engine:
        assert [each.what for each in engine.rounds.find(round.id).later] == ["superseded"]
        await engine.decide(made.id, "once", by="ann")
    assert show(here, "placet/tidy-2:a.txt") == "right\n"


async def test_what_comes_of_a_rebase_is_asked_whatever_the_level(asking: tuple[Bench, Round]) -> None:
    here, round = asking
    move_on(here, "another one\n")

    with here.engine(HONEST, spec("L3")) as engine:
        made = await engine.rebase(round.id, by="ann")

    assert (made.outcome, made.verified, made.is_waiting) == ("escalated", True, True)
    assert "asked anew" in made.reason
    assert made.id.startswith("round-")
    assert git(here.repository, "branch", "--list", "placet/*") == ""


@pytest.mark.parametrize("how", ["failed", "budget_exhausted", "stopped", "L1"])
async def test_a_rebase_that_comes_to_nothing_leaves_the_question(
    asking: tuple[Bench, Round], how: str
) -> None:
    here, round = asking
    move_on(here, "another one\n")
    loop = spec(
        "L1" if how == "L1" else "L2",
        budget=LoopBudget(total_tokens=1 if how == "budget_exhausted" else None),
    )
    turns = [used(write(), 10, 10)] if how != "failed" else []
    cancel = Cancel()
    if how == "stopped":
        cancel.cancel("the person left")

    with here.engine(turns, loop) as engine:
        made = await engine.rebase(round.id, by="ann", cancel=cancel)
        old = engine.rounds.find(round.id)
        assert made.outcome == {"stopped": None, "L1": "failed"}.get(how, how), made.reason
        assert (old.is_waiting, old.later) == (True, [])
        assert (here.home / round.id).exists()
    with open_database(here.url) as database:
        assert SqlApprovals(database).find(round.approval).open_at(time.time())
    if how == "stopped":
        with here.engine(HONEST, loop) as engine:
            gone_on = await engine.resume(made.id)
            assert gone_on.is_waiting
            [said] = engine.rounds.find(round.id).later
            assert (said.what, said.by) == ("superseded", "ann")


async def test_a_base_that_moved_elsewhere_is_no_hindrance(asking: tuple[Bench, Round]) -> None:
    here, round = asking
    (here.repository / "new.txt").write_text("new\n")
    git(here.repository, "add", "new.txt")
    git(here.repository, "commit", "-qm", "elsewhere")

    with here.engine([], spec("L2")) as engine:
        ended = await engine.decide(round.id, "once", by="ann")

    assert ended.receipt is not None
    assert git(here.repository, "rev-parse", "placet/tidy-1^{tree}").strip() == round.tree


# Executors and their receipts


async def proceeded(bench: Bench, **executor: Any) -> Round:
    """A round of L3 that acted."""
    with bench.engine(HONEST, spec(executor=ExecutorSpec(**executor))) as engine:
        round = await engine.run_round()
    assert round.outcome == "proceeded", round.reason
    return round


async def check(bench: Bench, round: Round, **changed: Any) -> tuple[bool, str]:
    """What comes of looking at a receipt, as it is or with something changed in it."""
    assert round.receipt is not None
    receipt = msgspec.structs.replace(round.receipt, **changed)
    with bench.engine([], spec()) as engine:
        found = await engine.check(receipt)
    return found.holds, found.why


async def test_a_commit_is_found_again_and_a_false_receipt_is_not(here: Bench) -> None:
    round = await proceeded(here, use="commit", branch="loops/{loop}/{number}")
    receipt = round.receipt
    assert receipt is not None
    forged = msgspec.structs.replace(receipt, summary="something else").sealed()

    assert (await check(here, round))[0]
    assert await check(here, round, summary="x") == (False, "it was changed: its digest does not fit")
    false = {"summary": forged.summary, "digest": forged.digest}
    assert await check(here, round, **false) == (False, "no round has given such a receipt")
    git(here.repository, "branch", "-D", "loops/tidy/1")
    assert "no branch has commit" in (await check(here, round))[1]


async def test_a_commit_that_was_reverted_lowers_the_level(here: Bench) -> None:
    round = await proceeded(here, use="commit")
    git(here.repository, "merge", "-q", "placet/tidy-1")
    git(here.repository, "revert", "--no-edit", "HEAD")

    with here.engine(HONEST, spec()) as engine:
        ended = await engine.run_round()
        standing = engine.rounds.standing(round.key)
        assert round.receipt is not None
        found = await engine.check(round.receipt)
        before = engine.rounds.find(round.id)

    assert standing is not None
    assert (standing.level, ended.level, ended.outcome) == ("L2", "L2", "escalated")
    assert [(each.what, each.by) for each in before.later] == [("reversed", "git")]
    assert "was reverted by" in standing.reason
    # A round that has been taken back since has no say any more, and its receipt does not hold.
    assert not found.holds


async def test_what_is_taken_back_after_a_person_raised_the_loop_lowers_it_again(here: Bench) -> None:
    first, second = [await proceeded(here, use="commit") for _ in range(2)]

    with here.engine([], spec()) as engine:
        with pytest.raises(UsageError, match="was not lowered"):
            await engine.raise_again(by="ann", because="why not")
        await engine.reverse(first.id, by="ann")
        lowered = engine.rounds.standing(first.key)
        raised = await engine.raise_again(by="ann", because="it was looked into")
        # What was known when it was raised is no news.
        await engine.reverse(first.id, by="ben")
        assert engine.rounds.standing(first.key) == raised
        await engine.reverse(second.id, by="ben", reason="wrong too")
        again = engine.rounds.standing(first.key)

    assert lowered is not None
    assert (lowered.level, lowered.lowers) == ("L2", True)
    assert not raised.lowers
    assert again is not None
    assert (again.level, again.reason) == ("L2", "round 2 was taken back: wrong too")


async def test_a_patch_is_applied_to_the_persons_files_and_only_if_they_are_as_they_were(here: Bench) -> None:
    round = await proceeded(here, use="apply_patch")
    assert (here.repository / "a.txt").read_text() == "right\n"
    assert (await check(here, round))[0]
    (here.repository / "a.txt").write_text("mine\n")
    assert await check(here, round) == (False, "a.txt is another by now")

    with here.engine(HONEST, spec(executor=ExecutorSpec(use="apply_patch"))) as engine:
        again = await engine.run_round()

    assert again.outcome == "failed"
    assert "was changed since the round began" in again.reason
    assert (here.repository / "a.txt").read_text() == "mine\n"


async def test_a_patch_is_written_through_no_link_and_clears_up_after_a_kill(here: Bench) -> None:
    outside = here.folder / "outside"
    outside.mkdir()
    (outside / "victim").write_text("precious\n")
    # Names that could be guessed, and a folder of the person's that leads out by now.
    (here.repository / ".a.txt.placet-new").symlink_to(outside / "victim")
    round = await proceeded(here, use="apply_patch")
    assert (here.repository / "a.txt").read_text() == "right\n"
    assert not (here.repository / "a.txt").is_symlink()
    mark = f".placet-{hashlib.sha256(b'round-k').hexdigest()[:12]}-"
    (here.repository / f"{mark}left").write_text("half")
    git(here.repository, "checkout", "-q", "a.txt")
    apply = spec(executor=ExecutorSpec(use="apply_patch"))

    with here.engine(HONEST, apply) as engine:
        again = await engine.run_round(round_id="round-k")

    assert again.outcome == "proceeded", again.reason
    assert not list(here.repository.glob(".placet-*-*"))
    git(here.repository, "checkout", "-q", "a.txt")
    (here.repository / "notes" / "b.txt").unlink()
    (here.repository / "notes").rmdir()
    (here.repository / "notes").symlink_to(outside)
    turns = [write(), write("notes/new.txt"), *HONEST[1:]]

    with here.engine(turns, apply) as engine:
        refused = await engine.run_round()

    assert (refused.outcome, round.outcome) == ("failed", "proceeded")
    assert "goes through a link" in refused.reason
    assert [each.name for each in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text() == "precious\n"
    assert (here.repository / "a.txt").read_text() == "one\n"


async def test_a_patch_takes_files_away_and_lets_folders_take_their_places(here: Bench) -> None:
    @tool(risk="idempotent")
    def reorder() -> str:
        """Put folders in the place of files."""
        [files] = here.home.glob("*/attempt-1")
        subprocess.run(["/bin/sh", "-ec", change], cwd=files, check=True)
        return "done"

    change = "rm -r notes && echo flat > notes && rm a.txt && mkdir a.txt && echo right > a.txt/in"
    checks = (Check(name="right", command="grep -q right a.txt/in"),)
    made = spec(executor=ExecutorSpec(use="apply_patch"), checks=checks)

    with here.engine(
        [ToolCall(name="reorder", arguments={}), *HONEST[1:]], made, maker_tools=[reorder]
    ) as engine:
        round = await engine.run_round()
        assert round.receipt is not None, round.reason
        assert (await engine.check(round.receipt)).holds

    assert (here.repository / "notes").read_text() == "flat\n"
    assert (here.repository / "a.txt" / "in").read_text() == "right\n"


async def test_a_command_gets_the_change_and_the_key(here: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = f'cat a.txt > {out}; echo "$PLACET_ROUND $PLACET_TREE $PLACET_KEY" >> {out}'

    round = await proceeded(here, use="command", command=command, check=f"grep -q $PLACET_TREE {out}")

    assert round.receipt is not None
    assert out.read_text() == f"right\n{round.id} {round.tree} {round.receipt.key}\n"
    assert (await check(here, round)) == (True, "its check says so")
    out.unlink()
    assert (await check(here, round)) == (False, "its check says no")


@pytest.fixture
def server() -> Iterator[Any]:
    """A host that keeps what it is sent."""
    got: list[tuple[dict[str, str], Any]] = []

    class Keeps(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((dict(self.headers), json.loads(body)))
            if self.path == "/slow":
                time.sleep(1.5)
            self.send_response(500 if self.path == "/bad" else 204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    made = HTTPServer(("127.0.0.1", 0), Keeps)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", got
    made.shutdown()
    thread.join()
    made.server_close()


async def test_a_webhook_gets_the_change_with_its_key_and_only_at_a_host_that_is_named(
    here: Bench, server: Any
) -> None:
    url, got = server

    round = await proceeded(here, use="webhook", url=f"{url}/take", hosts=("127.0.0.1",))
    with here.engine(HONEST, spec(executor=ExecutorSpec(use="webhook", url=url, hosts=("a.example",)))) as e:
        refused = await e.run_round()
    bad = ExecutorSpec(use="webhook", url=f"{url}/bad", hosts=("127.0.0.1",))
    with here.engine(HONEST, spec(executor=bad)) as engine:
        failed = await engine.run_round()

    headers, body = got[0]
    assert round.receipt is not None
    assert headers["Idempotency-Key"] == round.receipt.key
    assert (body["round"], body["tree"]) == (round.id, round.tree)
    assert "+right" in body["diff"]
    assert refused.outcome == "failed"
    assert "none of the allowed ones" in refused.reason
    assert "executor.hosts" in refused.reason
    assert "settings.toml" not in refused.reason
    assert failed.outcome == "failed"
    assert "status 500" in failed.reason
    assert len(got) == 2


# What the record speaks for


def rounds(level: str, count: int, *, verified: bool = True, later: str = "") -> list[Round]:
    """Rounds that went well, or as it says."""
    made = []
    for number in range(count):
        round = Round(id=f"r{number}", loop="tidy", repository="/r", spec=spec(level), level=level)  # type: ignore[arg-type]
        round.outcome = "reported" if level == "L1" else "escalated"
        round.verified = verified
        round.later = [Later(what=later, at=0.0)] if later else []  # type: ignore[arg-type]
        made.append(round)
    return made


def test_promotion_is_suggested_from_the_record() -> None:
    def says(found: list[Round], level: str) -> str | None:
        made = suggestion(found, level, has_checks=True)  # type: ignore[arg-type]
        return made.level if made is not None else None

    approved = rounds("L2", 20, later="approved")
    failed = rounds("L1", 10)
    failed[3].outcome = "failed"

    assert says(rounds("L1", 9), "L1") is None
    assert says(rounds("L1", 10), "L1") == "L2"
    assert says(failed, "L1") is None
    assert says(approved, "L2") == "L3"
    assert says(approved[:-1] + rounds("L2", 1, later="denied"), "L2") is None
    assert says(approved[:-1] + rounds("L2", 1, later="reversed"), "L2") is None
    assert says(rounds("L2", 20, verified=False, later="approved"), "L2") is None
    assert suggestion(approved, "L2", has_checks=False) is None
    assert says(rounds("L3", 99), "L3") is None


async def test_an_escalation_of_nothing_changed_is_only_noted_when_approved(here: Bench) -> None:
    with here.engine(["looked", verdict("blocked", "a.txt is wrong"), "x"], spec("L2")) as engine:
        round = await engine.run_round()
        ended = await engine.decide(round.id, "once", by="ann")

    assert round.outcome == "escalated"
    assert ended.receipt is not None
    assert ended.receipt.executor == "record"
    assert git(here.repository, "branch", "--list", "placet/*") == ""


async def test_nothing_changed_and_verified_is_reported_at_l2(here: Bench) -> None:
    move_on(here, "right\n")

    with here.engine([write(), "looked", verdict("done"), "x"], spec("L2")) as engine:
        round = await engine.run_round()

    assert (round.outcome, round.approval) == ("reported", "")


@pytest.mark.parametrize(("choice", "runs"), [("done", 1), ("retry", 2), ("fail", 1)])
async def test_a_command_that_was_stopped_while_it_ran_is_asked_about(
    here: Bench, tmp_path: Path, choice: Any, runs: int
) -> None:
    """Nobody knows whether it had done its work; that it failed would be a guess."""
    ran, go_on = tmp_path / "ran", tmp_path / "go-on"
    os.mkfifo(go_on)
    command = f"echo ran >> {ran}; test -e {tmp_path}/quick || cat {go_on}"
    loop = spec(executor=ExecutorSpec(use="command", command=command))

    with here.engine(HONEST, loop) as engine:
        running = asyncio.create_task(engine.run_round(round_id="r1"))
        # Opened once the command reads from it, so it has begun.
        writer = await asyncio.to_thread(open, go_on, "w")
        try:
            request_stop(engine, "r1", "the person says so")
            stopped = await running
        finally:
            writer.close()
    assert stopped.outcome == "escalated", stopped.reason
    assert [each.what for each in stopped.later] == ["unknown"]
    assert "placet resume r1 --decide act=done|retry|fail" in stopped.reason
    (tmp_path / "quick").touch()
    with here.engine([], loop) as engine:
        assert (await engine.resume("r1")).is_waiting
        decided = await engine.resume("r1", decide={"act": choice})

    assert ran.read_text() == "ran\n" * runs
    assert (decided.receipt is None) == (choice == "fail")
    assert not decided.is_waiting


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("use", ["command", "webhook"])
async def test_of_an_act_that_ran_out_of_its_own_time_nobody_knows_whether_it_was_done(
    here: Bench, tmp_path: Path, server: Any, use: Any, idempotent: bool
) -> None:
    """One that may be done twice has simply failed."""
    url, got = server
    ran = tmp_path / "ran"
    given = {
        "webhook": {"url": f"{url}/slow", "hosts": ("127.0.0.1",)},
        "command": {"command": f"echo ran >> {ran}; exec sleep 600"},
    }
    made = ExecutorSpec(use=use, timeout_s=1.0, idempotent=idempotent, **given[use])  # type: ignore[arg-type]

    with here.engine(HONEST, spec(executor=made)) as engine:
        round = await engine.run_round()
        with pytest.raises(UsageError, match="asks nothing about its act"):
            await engine.resume(round.id, decide={"act": "done"})

    assert (len(got) if use == "webhook" else len(ran.read_text().split())) == 1
    assert (round.outcome, round.receipt) == ("failed", None)
    assert ("is not known" in round.reason and "Look before" in round.reason) == (not idempotent)


async def test_a_host_that_could_not_be_reached_has_got_nothing(here: Bench) -> None:
    made = ExecutorSpec(use="webhook", url="http://127.0.0.1:1/", hosts=("127.0.0.1",))

    with here.engine(HONEST, spec(executor=made)) as engine:
        round = await engine.run_round()

    assert round.outcome == "failed"
    assert "failed: " in round.reason
    assert "is not known" not in round.reason


async def test_a_command_that_says_nothing_is_told_with_its_exit_code(here: Bench) -> None:
    with here.engine(HONEST, spec(executor=ExecutorSpec(use="command", command="exit 3"))) as engine:
        round = await engine.run_round()

    assert "it ended with exit code 3" in round.reason


async def test_a_check_that_does_not_end_says_nothing_about_the_world(here: Bench) -> None:
    round = await proceeded(here, use="command", command="true", check="exec sleep 600", timeout_s=0.5)

    holds, why = await check(here, round)

    assert not holds
    assert why.startswith("its check did not come to an end: it was ended after 0.5 s")
