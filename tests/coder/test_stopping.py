"""A coding session that is stopped, held, limited, or out of luck: it stays whole, and can go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placet import SqlApprovals, SqlEvents, SqlJournal, open_database
from placet.coder.events import (
    Asked,
    Called,
    CallEnded,
    CheckStarted,
    Event,
    IterationStarted,
    StateChanged,
)
from placet.coder.session import CodeLimits, Question, Session
from placet.coder.store_sql import SqlSessions
from placet.errors import IsolationMissing, StorageError, StorageFull, UsageError
from placet.inference import Scripted
from placet.inference.messages import ToolResult
from placet.inference.model import Request, Result
from placet.inference.usage import Usage
from placet.policy.rule import DenyTool
from placet.sandbox.confinement import Isolation
from placet.storage.lease import StopRequest
from placet.tools.context import Cancel
from tests.coder.nursery import PATIENCE_S, Nursery, read_trace, running, until_nothing_runs
from tests.coder.repositories import fingerprint
from tests.coder.workbench import Workbench, _known, call, git, make_repository, shell, write
from tests.properties.effort import SOAK
from tests.sandbox.test_confinement import weak

FOREVER = "sleep 987{mark}"


@pytest.fixture
def here(tmp_path: Path) -> Workbench:
    # `go` is what gates are opened with, also in folders that are just being made.
    return Workbench(tmp_path, {"a.txt": "a\n", ".gitignore": "go\n"})


@pytest.fixture
def mark() -> str:
    """A number that stands in the command line of one test alone."""
    return str(int.from_bytes(os.urandom(4), "big"))


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with tempfile.TemporaryDirectory(prefix="k") as temporary:
        made = Nursery(Path(temporary))
        yield made
        made.close()


@contextmanager
def store(here: Workbench) -> Iterator[SqlSessions]:
    """The sessions, as another process sees them."""
    with open_database(str(here.folder / "placet.db")) as database:
        yield SqlSessions(database)


def request_stop(here: Workbench, session: str, reason: str) -> None:
    """Ask for a session to stop, as another process does."""
    with open_database(str(here.folder / "placet.db")) as database:
        SqlJournal(database).request_stop(session, StopRequest(reason=reason))


def kept(here: Workbench, session: str) -> Session:
    with store(here) as sessions:
        found = sessions.get(session)
    assert found is not None
    return found


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--list", "--format=%(refname:short)", "placet/*").split()


async def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def wait_for(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Gate:
    """Lets commands go on that wait for a file `go` beside them: `WAITS` does."""

    WAITS = "until test -e go; do sleep 0.02; done; rm go"

    def __init__(self, home: Path) -> None:
        self._home = home
        self._over = threading.Event()
        self.is_open = False
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def _keep(self) -> None:
        while not self._over.wait(0.01):
            if self.is_open:
                for folder in self._home.glob("*/exports/*/files"):
                    try:
                        (folder / "go").touch()
                    except OSError:
                        continue

    def close(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def gate(here: Workbench) -> Iterator[Gate]:
    made = Gate(here.home)
    yield made
    made.close()


class TestCancel:
    async def test_stopped_in_one_place_after_the_other_it_goes_on_to_the_end(
        self, here: Workbench, gate: Gate, mark: str
    ) -> None:
        """In the baseline, a question, between turns, in a call, in a check: what ran is gone each time."""
        before = fingerprint(here.repository)
        began = git(here.repository, "rev-parse", "HEAD").strip()
        check = f"{Gate.WAITS}; test -f ok.txt # {mark}"
        asked: list[str] = []

        def model(request: Request) -> Any:
            results = [each for each in request.messages if isinstance(each, ToolResult)]
            asked.append(f"{len(request.messages)}")
            if not results:
                return call("ask_user", question="may I?")
            if not any("ran" in each.text for each in results):
                # What was stopped did not happen.
                return shell(FOREVER.format(mark=mark) if len(results) == 1 else "echo ran")
            if "ok.txt" not in results[-1].text:
                return write("ok.txt", "x")
            return "done"

        stops: list[tuple[str, Callable[[Event], bool], bool]] = [
            ("baseline", lambda event: isinstance(event, CheckStarted), False),
            ("question", lambda event: isinstance(event, Asked), True),
            ("between turns", lambda event: isinstance(event, CallEnded), True),
            ("call", lambda event: isinstance(event, Called) and event.tool == "shell", True),
            ("check", lambda event: isinstance(event, CheckStarted) and event.attempt == 1, False),
        ]
        name = "stopped"
        for what, is_there, is_open in stops:
            gate.is_open = is_open
            cancel = Cancel()
            met = asyncio.Event()

            def watch(event: Event, met: asyncio.Event = met, is_there: Any = is_there) -> None:
                if is_there(event):
                    met.set()

            with here.coder(model, ask_s=600) as coder:
                if what == "baseline":
                    work = coder.run("make ok.txt", [check], session_id=name, cancel=cancel, watch=watch)
                else:
                    work = coder.resume(name, cancel=cancel, watch=watch)
                going = asyncio.create_task(work)
                await asyncio.wait([going, asyncio.create_task(met.wait())], return_when="FIRST_COMPLETED")
                assert not going.done(), what
                if what in ("baseline", "call", "check"):
                    await until(lambda: running(mark))
                cancel.cancel(f"enough of the {what}")
                session = await asyncio.wait_for(going, PATIENCE_S)
            assert session.is_open, what
            assert session.reason == f"enough of the {what}"
            assert session.state == ("contract_confirmed" if what == "baseline" else "running")
            until_nothing_runs(mark)
            assert fingerprint(here.repository) == before
            if what == "baseline":
                # The person goes on meanwhile; what was begun from is what it will be published on.
                (here.repository / "more.txt").write_text("more\n")
                git(here.repository, "add", "-A")
                git(here.repository, "commit", "-qm", "more")
                before = fingerprint(here.repository)
            if what == "question":
                with store(here) as sessions:
                    (question,) = sessions.questions(name)
                    sessions.answer(question.id, "yes", "Ada")
        gate.is_open = True
        answers = len(asked)
        with here.coder(model, ask_s=600) as coder:
            session = await coder.resume(name, approve=True)
        assert session.state == "merged"
        assert len(asked) == answers, "only the checks were missing"
        assert git(here.repository, "rev-parse", f"placet/{name}^").strip() == began
        assert git(here.repository, "diff", "--name-only", began, f"placet/{name}").split() == ["ok.txt"]
        assert [each.is_green for each in session.attempts[0].iterations] == [True]

    async def test_ended_from_elsewhere(self, here: Workbench, mark: str) -> None:
        with here.coder([shell(FOREVER.format(mark=mark))]) as coder, here.coder([]) as other:
            going = asyncio.create_task(coder.run("x", ["false"], session_id="live"))
            await until(lambda: running(mark))
            said = await other.cancel("live", "enough")
            session = await asyncio.wait_for(going, PATIENCE_S)
            assert said.id == "live"
            assert (session.state, session.reason) == ("abandoned", "cancelled: enough")
            until_nothing_runs(mark)
            assert kept(here, "live").state == "abandoned"
            assert not list((here.home / "live").glob("attempt-*"))
            with pytest.raises(UsageError, match="has ended"):
                await other.cancel("live")

            # One that nobody is at work on ends at once.
            cancel = Cancel()
            cancel.cancel("later")
            paused = await coder.run("x", ["false"], session_id="idle", cancel=cancel)
            assert paused.state == "contract_confirmed"
            assert (await other.cancel("idle", "\udc80")).state == "abandoned"
            assert (await coder.resume("idle")).state == "abandoned"

    async def test_ended_from_elsewhere_when_it_is_green_it_waits_for_nobody(self, here: Workbench) -> None:
        def watch(event: Event) -> None:
            if isinstance(event, StateChanged) and event.state == "needs_approval":
                request_stop(here, event.session, "enough")

        with here.coder([write("ok.txt", "x"), "done"]) as coder:
            session = await coder.run("make ok.txt", ["test -f ok.txt"], watch=watch)
        assert (session.state, session.reason) == ("abandoned", "enough")
        assert kept(here, session.id).state == "abandoned"


class TestLimits:
    async def test_time(self, here: Workbench) -> None:
        async def model(request: Request) -> Any:
            await asyncio.Event().wait()

        with here.coder(model, limits=CodeLimits(time_s=0.7)) as coder:
            session = await asyncio.wait_for(coder.run("x", ["false"]), PATIENCE_S)
            assert session.state == "failed"
            assert "limit on time was reached (0.7 s)" in session.reason
            assert (await coder.resume(session.id)).state == "failed"
        assert not list((here.home / session.id).glob("attempt-*"))

    async def test_copies_that_are_wanted_stay_when_time_is_over(self, here: Workbench) -> None:
        async def model(request: Request) -> Any:
            await asyncio.Event().wait()

        # Long enough for a busy machine to begin within it.
        with here.coder(model, limits=CodeLimits(time_s=5.0)) as coder:
            session = await asyncio.wait_for(coder.run("x", ["false"], keep=True), PATIENCE_S)
        assert session.state == "failed"
        assert list((here.home / session.id).glob("attempt-*"))

    async def test_the_time_of_a_person_is_not_that_of_the_session(self, here: Workbench) -> None:
        async def person(question: Question) -> str:
            await asyncio.sleep(6.0)
            return "yes"

        model = Scripted([call("ask_user", question="which?"), write("ok.txt", "x"), "done"])
        with here.coder(model, limits=CodeLimits(time_s=5.0), ask_s=60.0, ask=person) as coder:
            session = await asyncio.wait_for(coder.run("x", ["test -f ok.txt"]), PATIENCE_S)
        assert session.is_green, session.reason

    async def test_only_the_clock_says_that_time_is_over(self, here: Workbench) -> None:
        cancel = Cancel()

        async def model(request: Request) -> Any:
            cancel.cancel("the time is over")
            await asyncio.Event().wait()

        with here.coder(model, limits=CodeLimits(time_s=3600)) as coder:
            session = await asyncio.wait_for(coder.run("x", ["false"], cancel=cancel), PATIENCE_S)
        assert (session.state, session.reason) == ("running", "the time is over")

    async def test_who_gives_no_reason_has_stopped_it_all_the_same(self, here: Workbench) -> None:
        cancel = Cancel()
        cancel.cancel("")
        with here.coder(["done"]) as coder:
            session = await coder.run("x", ["false"], cancel=cancel)
        assert (session.is_open, session.reason) == (True, "it was stopped")

    @pytest.mark.parametrize(
        ("limits", "usage", "cost", "words"),
        [
            (CodeLimits(cost_usd=2.0), Usage(input=9, output=1), 0.5, "money was reached"),
            (CodeLimits(tokens=40), None, None, "tokens"),
            (CodeLimits(tokens=40), Usage(input=9, output=1), 0.5, "tokens was reached"),
        ][: 3 if SOAK else 2],
    )
    async def test_candidates_share_what_they_may_use(
        self, here: Workbench, limits: CodeLimits, usage: Usage | None, cost: float | None, words: str
    ) -> None:
        answers: list[float | None] = []

        async def model(request: Request) -> Result:
            answers.append(request.temperature)
            await asyncio.sleep(0.01)
            return Result(calls=[call("list_dir", path=".")], usage=usage, cost=cost, stop="calls")

        with here.coder(model, limits=limits) as coder:
            session = await coder.run("x", ["false"], candidates=3)
        assert session.state == "failed"
        assert words in session.reason
        # Four are within the limit, or one where nothing is told; each candidate may be at one more.
        assert len(answers) <= (4 if usage is not None else 1) + 3 - 1
        if usage is not None:
            assert len(answers) >= 4
            assert session.tokens == 10 * len(answers)
            # Not known, if one was being asked something when the limit was reached.
            assert session.cost_usd in (0.5 * len(answers), None)

    @pytest.mark.parametrize(
        "usage", [Usage(input=9, output=1), None] if SOAK else [Usage(input=9, output=1)]
    )
    async def test_what_was_used_before_counts(self, here: Workbench, usage: Usage | None) -> None:
        answers = 0
        cancel = Cancel()

        def model(request: Request) -> Result:
            nonlocal answers
            answers += 1
            return Result(calls=[call("list_dir", path=".")], usage=usage, cost=0.5, stop="calls")

        def watch(event: Event) -> None:
            if isinstance(event, CallEnded) and (answers == 2 or usage is None):
                cancel.cancel("enough")

        limits = CodeLimits(cost_usd=1.5) if usage is not None else CodeLimits(tokens=40)
        with here.coder(model, limits=limits) as coder:
            paused = await coder.run("x", ["false"], cancel=cancel, watch=watch)
            assert paused.state == "running"
        with here.coder(model, limits=limits) as coder:
            session = await coder.resume(paused.id)
        assert session.state == "failed"
        assert answers == (3 if usage is not None else 1)

    async def test_what_earlier_iterations_used_counts(self, here: Workbench) -> None:
        answers = 0
        cancel = Cancel()

        def model(request: Request) -> Result:
            nonlocal answers
            answers += 1
            return Result(text="done", usage=Usage(input=9, output=1), cost=0.5)

        def watch(event: Event) -> None:
            if isinstance(event, IterationStarted) and answers == 1:
                cancel.cancel("enough")

        with here.coder(model, limits=CodeLimits(cost_usd=1.0)) as coder:
            paused = await coder.run("x", ["false"], cancel=cancel, watch=watch)
            assert (paused.state, answers) == ("running", 1)
        with here.coder(model, limits=CodeLimits(cost_usd=1.0)) as coder:
            session = await coder.resume(paused.id)
        assert "money was reached" in session.reason
        assert answers == 2


class TestQuestions:
    async def test_answered_from_elsewhere_while_somebody_is_asked_here(self, here: Workbench) -> None:
        """Whoever is first is heard; the other one is asked no longer."""
        given_up: list[bool] = []

        async def never(question: Question) -> str:
            with store(here) as sessions:
                sessions.answer(question.id, "from elsewhere", "Ada")
            try:
                return await asyncio.Event().wait() and ""
            except asyncio.CancelledError:
                given_up.append(True)
                raise

        def model(request: Request) -> Any:
            heard = [each.text for each in request.messages if isinstance(each, ToolResult)]
            if not heard:
                return call("ask_user", question="which?")
            return write("ok.txt", heard[0]) if len(heard) == 1 else "done"

        with here.coder(model, ask_s=PATIENCE_S, ask=never) as coder:
            session = await coder.run("x", ["grep -q 'from elsewhere' ok.txt"])
        assert session.is_green
        assert given_up == [True]

    def test_killed_while_it_waits_the_answer_that_came_meanwhile_is_used(
        self, tmp_path: Path, nursery: Nursery
    ) -> None:
        repository = make_repository(tmp_path / "repository", {"a.txt": "a\n"})
        trace, out = tmp_path / "trace", tmp_path / "out"
        job = {
            "folder": str(tmp_path),
            "trace": str(trace),
            "out": str(out),
            "known": _known(),
            "id": "s",
            "candidates": 1,
            "drafts": False,
            "ask_s": 600.0,
        }
        pid = nursery.start(job)
        wait_for(lambda: any(line[0] == "question" for line in read_trace(trace)))
        os.kill(pid, signal.SIGKILL)
        assert nursery.code() == -signal.SIGKILL
        with open_database(f"sqlite://{tmp_path}/placet.db") as database:
            sessions = SqlSessions(database)
            (question,) = sessions.questions("s-0")
            sessions.answer(question.id, "the right one", "Ada")
            nursery.start(job)
            assert nursery.code() == 0, out.read_text()
            assert json.loads(out.read_text())["state"] == "merged"
            # None if the process was killed before the log was on disk.
            assert len(SqlEvents(database).query(kind="coding_question_asked")) <= 1
            assert sessions.questions() == []
        assert [line[1:] for line in read_trace(trace) if line[0] == "ask"][:2] == [[1, 1, 1], [1, 1, 2]]
        assert git(repository, "show", "placet/s-0:x.txt") == "the right one"


class TestProcesses:
    def test_one_works_and_the_others_are_refused(self, tmp_path: Path, nursery: Nursery, mark: str) -> None:
        """And of two who approve at once one publishes."""
        repository = make_repository(tmp_path / "repository", {"a.txt": "a\n"})
        job = {
            "folder": str(tmp_path),
            "trace": str(tmp_path / "trace"),
            "known": _known(),
            "id": "s",
            "candidates": 1,
            "drafts": False,
            "do": "wait",
        }
        outs = iter(tmp_path / f"out-{number}" for number in range(10))

        def start(**changes: Any) -> Path:
            out = next(outs)
            nursery.start({**job, "out": str(out), **changes})
            return out

        def said(out: Path) -> str:
            wait_for(out.exists)
            return out.read_text()

        pid = nursery.start(
            {**job, "beside": True, "out": str(tmp_path / "first"), "long": FOREVER.format(mark=mark)}
        )
        wait_for(lambda: running(mark))
        refused = said(start(id="s-0", do="resume"))
        assert refused.startswith(f"RunHeld: Run 's-0' is being worked on by process {pid}."), refused
        assert nursery.code() == 70
        os.kill(pid, signal.SIGKILL)
        until_nothing_runs(mark)

        # It is not known what came of the command, so the model is told to look; this one makes it again.
        assert json.loads(said(start(id="s-0", do="resume")))["state"] == "needs_approval"
        assert nursery.code() == 0
        both = [start(beside=True, id="s-0", do="approve") for _ in range(2)]
        answers = sorted(said(out) for out in both)
        merged = [each for each in answers if each.startswith("{")]
        assert [json.loads(each)["state"] for each in merged] == ["merged"]
        (other_one,) = [each for each in answers if not each.startswith("{")]
        assert other_one.startswith(("RunHeld: Run 's-0'", "UsageError: Session 's-0' is published")), (
            other_one
        )
        assert branches(repository) == ["placet/s-0"]


class TestPolicies:
    async def test_what_is_denied_or_not_answered_is_told_to_the_model_which_goes_on(
        self, here: Workbench
    ) -> None:
        model = Scripted(
            [call("ask_user", question="which?"), shell("touch ok.txt"), write("ok.txt", "x"), "done"]
        )
        with here.coder(model, ask_s=0.05) as coder:
            coder.runtime.add_policy("no commands", DenyTool(tool="shell", reason="not today"))
            session = await coder.run("x", ["test -f ok.txt"])
            with store(here) as sessions:
                assert sessions.questions() == []
        assert session.state == "needs_approval"
        unanswered, denied, _ = [each for each in model.requests[3].messages if isinstance(each, ToolResult)]
        assert unanswered.is_error
        assert "nobody answered within 0.05 s" in unanswered.text
        assert denied.is_error
        assert "not today" in denied.text

    async def test_who_ends_a_session_takes_back_what_its_turns_asked(self, here: Workbench) -> None:
        with here.coder([shell("touch ok.txt")]) as coder:
            coder.runtime.add_policy("ask", DenyTool(tool="shell", reason="ask me", unless_approved=True))
            session = await coder.run("x", ["test -f ok.txt"])
            assert session.state == "running"
            assert (await coder.cancel(session.id)).state == "abandoned"
        with open_database(str(here.folder / "placet.db")) as database:
            assert SqlApprovals(database).pending() == []
            (asked,) = SqlApprovals(database).recent(5)
        assert (asked.decision, asked.reason) == ("withdrawn", "its coding session is abandoned")

    async def test_an_approval_is_waited_for_by_nobody(self, here: Workbench) -> None:
        asked = DenyTool(tool="shell", reason="ask me", unless_approved=True)
        with here.coder([shell("touch ok.txt")]) as coder:
            coder.runtime.add_policy("ask", asked)
            session = await coder.run("x", ["test -f ok.txt"])
        assert session.state == "running"
        assert "waits for a person" in session.reason
        with open_database(str(here.folder / "placet.db")) as database:
            journal = SqlJournal(database)
            assert {row.run_id: row.status for row in journal.runs()}[session.id] == "waiting"
            journal.close()
            approvals = SqlApprovals(database)
            (waiting,) = approvals.pending()
            assert waiting.run_id.startswith(session.id)
            approvals.decide(waiting.id, "once", by="Ada")
        with here.coder(["done"]) as coder:
            coder.runtime.add_policy("ask", asked)
            session = await coder.resume(session.id)
            assert session.state == "needs_approval"
            assert session.is_green

            # Somebody wants it to end, in a moment in which nobody looks: then it is not published.
            request_stop(here, session.id, "cancelled")
            with pytest.raises(UsageError, match="abandoned"):
                await coder.approve(session.id)
        assert kept(here, session.id).state == "abandoned"
        assert branches(here.repository) == []


class TestTrouble:
    async def test_isolation_that_is_missing_leaves_nothing_behind(self, here: Workbench) -> None:
        nothing = weak(Isolation("process"))
        with here.coder([], isolation=nothing) as coder:
            with pytest.raises(IsolationMissing):
                await coder.run("x", ["false"])
            with store(here) as sessions:
                assert sessions.listed() == []
        assert not here.home.exists()
        with open_database(str(here.folder / "placet.db")) as database:
            journal = SqlJournal(database)
            assert journal.runs() == []
            journal.close()
        cancel = Cancel()
        cancel.cancel("later")
        with here.coder([]) as coder:
            session = await coder.run("x", ["false"], cancel=cancel)
        with here.coder([], isolation=nothing) as coder, pytest.raises(IsolationMissing):
            await coder.resume(session.id)
        assert kept(here, session.id) == session

    @pytest.mark.parametrize("bad", range(1, 13) if SOAK else (1, 2))
    async def test_a_disk_that_is_full_for_a_while(self, here: Workbench, bad: int) -> None:
        """The session cannot be kept, once, somewhere on the way: it says so, and goes on later."""
        (here.repository / "mine.txt").write_text("not committed\n")
        before = fingerprint(here.repository)

        class Full(SqlSessions):
            puts = 0

            def put(self, session: Session) -> None:
                Full.puts += 1
                if Full.puts == bad:
                    raise StorageFull("placet.db", "is full", "Make room.")
                super().put(session)

        def model(request: Request) -> Any:
            return "done" if isinstance(request.messages[-1], ToolResult) else write("ok.txt", "x")

        with open_database(str(here.folder / "placet.db")) as database:
            sessions = Full(database)
            with here.coder(model, sessions=sessions) as coder:
                with pytest.raises(StorageError, match="is full"):
                    await coder.run(
                        "x", ["test -f ok.txt"], session_id="s", include_changes=True, approve=True
                    )
                if not sessions.listed():
                    assert bad == 1
                    return
                session = await coder.resume("s", approve=True)
        assert session.state == "merged"
        assert branches(here.repository) == ["placet/s"]
        assert git(here.repository, "show", "placet/s:mine.txt") == "not committed\n"
        after = fingerprint(here.repository)
        changed = {name for name in before.keys() | after if before.get(name) != after.get(name)}
        assert {name.partition("refs/heads/")[2] for name in changed} == {"placet", "placet/s"}

    async def test_a_name_that_is_no_text_is_put_back_and_told(self, here: Workbench) -> None:
        spoil = "mkdir -p tests && touch \"$(printf 'tests/test_\\377.py')\""
        with here.coder([shell(spoil), "done", write("ok.txt", "x"), "done"]) as coder:
            session = await coder.run("x", ["test -f ok.txt"])
        first, second = session.attempts[0].iterations
        assert len(first.sealed) == 1
        assert not second.sealed
        assert session.is_green

    @pytest.mark.parametrize("name", ["../x", "a/b", "", "-a", ".", "a" * 65, "a\n", "é"])
    async def test_an_id_that_names_no_folder_and_no_branch(self, here: Workbench, name: str) -> None:
        with here.coder([]) as coder, pytest.raises(UsageError, match="id of a session"):
            await coder.run("x", ["false"], session_id=name)
