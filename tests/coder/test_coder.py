"""The coding loop with real git, real commands in the real sandbox, and a model that follows a script."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from placet import Assistant, MemoryJournal, Runtime
from placet.checks.contract import Check, Contract
from placet.coder.coder import Coder
from placet.coder.events import CheckCompleted, IterationStarted
from placet.coder.session import WORDS, CodeLimits
from placet.errors import EnvironmentBroken, ModelError, UsageError
from placet.inference import Scripted
from placet.inference.messages import ToolResult
from placet.inference.model import Request
from placet.render.coding import state_words, tail_lines
from placet.tools.context import Cancel
from placet.worktree.worktree import Worktree
from tests.coder.workbench import Workbench, call, git, shell, user_text, write


def bench(tmp_path: Path, **files: str) -> Workbench:
    return Workbench(
        tmp_path, {name.replace("__", "."): text for name, text in files.items()} or {"a.txt": "a\n"}
    )


class TestSeedBehaviours:
    """What the first coding loop was tested for, in our terms."""

    async def test_edits_checks_and_passes(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        with here.coder([write("hello.txt", "hello coder"), "the file is made"]) as coder:
            session = await coder.run(
                "create hello.txt that says hello coder",
                ["grep -q 'hello coder' hello.txt"],
                watch=here.watch,
            )
        assert session.state == "needs_approval"
        assert session.is_green
        assert session.iterations == 1
        told = [
            kind
            for kind in here.told()
            if kind in ("iteration", "call", "result", "plan", "check_started", "check_completed")
        ]
        # First the baseline, then the iteration.
        assert told == [
            "check_started",
            "check_completed",
            "iteration",
            "call",
            "result",
            "plan",
            "check_started",
            "check_completed",
        ]
        assert not (here.repository / "hello.txt").exists()

    async def test_repairs_after_red_checks(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        script = [write("x.txt", "wrong"), "done", write("x.txt", "right"), "fixed"]
        with here.coder(script) as coder:
            session = await coder.run("write right into x.txt", ["grep -q right x.txt"])
        assert session.is_green
        assert session.iterations == 2

    async def test_question_reaches_the_person_and_the_answer_the_model(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        asked: list[str] = []

        async def answer(question: Any) -> str:
            asked.append(question.text)
            return "use port 8080"

        def model(request: Request) -> Any:
            last = request.messages[-1]
            if len(request.messages) == 2:
                return call("ask_user", question="which port?")
            if isinstance(last, ToolResult) and "8080" in last.text:
                return write("answer.txt", last.text)
            return "done"

        with here.coder(model, ask_s=60, ask=answer) as coder:
            session = await coder.run("record the port", ["grep -q 8080 answer.txt"], watch=here.watch)
        assert asked == ["which port?"]
        assert session.is_green
        assert "question" in here.told()

    async def test_nobody_to_ask(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted([call("ask_user", question="which port?"), write("answer.txt", "1"), "done"])
        with here.coder(model) as coder:
            session = await coder.run("record", ["test -f answer.txt"])
        assert session.is_green
        assert all(tool.name != "ask_user" for tool in model.requests[0].tools)
        answer = next(each for each in model.requests[1].messages if isinstance(each, ToolResult))
        assert answer.is_error

    async def test_cancelled_before_it_begins(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        cancel = Cancel()
        cancel.cancel("enough")
        model = Scripted([])
        with here.coder(model) as coder:
            session = await coder.run("x", ["false"], cancel=cancel)
        assert session.iterations == 0
        assert session.reason == "enough"
        assert model.requests == []

    async def test_three_failures_in_a_row_end_it_and_one_costs_a_turn(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        script = [
            ModelError("down"),
            ModelError("down"),
            write("x.txt", "x"),
            "made",
            *[ModelError("off")] * 9,
        ]
        model = Scripted(script)
        with here.coder(model) as coder:
            session = await coder.run("x", ["test -f y.txt"])
        assert session.state == "failed"
        assert "3 times in a row" in session.reason
        assert len(model.requests) == 7

    async def test_failures_are_counted_over_iterations(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted([write("x.txt", "x"), ModelError("off"), ModelError("off"), ModelError("off"), "no"])
        limits = CodeLimits(turns=2)
        with here.coder(model, limits=limits) as coder:
            session = await coder.run("x", ["test -f y.txt"])
        # One failure in the last turn of the first iteration, two in the second.
        assert len(model.requests) == 4
        assert session.iterations == 2
        assert session.state == "failed"

    async def test_feedback_tells_of_failed_checks_alone(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted(["first", write("ok.txt", "x"), "second"])
        with here.coder(model) as coder:
            session = await coder.run(
                "make ok.txt",
                [
                    Check(name="good", command="echo fine"),
                    Check(name="bad", command="test -f ok.txt || { echo assertion failed; exit 3; }"),
                ],
            )
        assert session.is_green
        said = user_text(model.requests[1])
        assert "bad (exit code 3" in said
        assert "assertion failed" in said
        assert "good" not in said

    async def test_system_text_carries_the_contract(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted([write("ok.txt", "x"), "done"])
        with here.coder(model) as coder:
            await coder.run("make ok.txt", ["test -f ok.txt"])
        system = model.requests[0].messages[0].text  # type: ignore[union-attr]
        assert "test -f ok.txt" in system


class TestBaseline:
    async def test_green_before_any_work(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted([])
        with here.coder(model) as coder:
            session = await coder.run("x", ["true"])
        assert session.state == "abandoned"
        assert "nothing" in session.reason
        assert model.requests == []

    async def test_green_before_any_work_and_wanted_all_the_same(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        with here.coder([write("b.txt", "b"), "added"]) as coder:
            session = await coder.run("add b.txt", ["true"], even_if_green=True)
        assert session.state == "needs_approval"

    async def test_red_baseline_is_the_first_feedback(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted([write("ok.txt", "x"), "done"])
        with here.coder(model) as coder:
            await coder.run("make it", ["test -f ok.txt || { echo no ok yet; exit 7; }"])
        assert "no ok yet" in user_text(model.requests[0])
        assert "exit code 7" in user_text(model.requests[0])


class TestStops:
    async def test_same_failure_three_times(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        with here.coder(lambda request: "I did it") as coder:
            session = await coder.run("x", ["echo broken; exit 1"])
        assert session.state == "failed"
        assert "same failure came back 3 times" in session.reason
        assert session.iterations == 3

    async def test_checks_run_when_turns_ran_out(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        limits = CodeLimits(turns=1, iterations=2)
        with here.coder([write("ok.txt", "x")], limits=limits) as coder:
            session = await coder.run("x", ["test -f ok.txt"])
        assert session.is_green
        assert session.attempts[0].iterations[0].status == "max_turns"

    async def test_iterations_run_out(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        count = iter(range(100))
        with here.coder(
            lambda request: (
                "no" if isinstance(request.messages[-1], ToolResult) else write("n.txt", str(next(count)))
            ),
            limits=CodeLimits(iterations=4),
        ) as coder:
            session = await coder.run("x", ["cat n.txt; exit 1"])
        assert session.state == "failed"
        assert session.iterations == 4
        assert "4 iterations" in session.reason


class TestApproval:
    async def test_publishes_one_commit_on_a_branch_of_its_own(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        head = git(here.repository, "rev-parse", "HEAD")
        with here.coder([write("ok.txt", "x\n"), "made the file"]) as coder:
            session = await coder.run("make ok.txt", ["test -f ok.txt"])
            diff = await coder.diff(session.id)
            assert "+x" in diff
            assert git(here.repository, "branch", "--list", "placet/*") == ""
            session = await coder.approve(session.id)
        assert session.state == "merged"
        assert git(here.repository, "rev-parse", "HEAD") == head
        assert git(here.repository, "rev-parse", f"placet/{session.id}^") == head
        assert git(here.repository, "show", f"placet/{session.id}:ok.txt") == "x\n"
        assert git(here.repository, "status", "--porcelain") == ""

    async def test_broken_off_when_it_was_published_it_is_that_commit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Died(BaseException):
            pass

        async def dies(self: Worktree, commit: str, branch: str) -> None:
            await publish(self, commit, branch)
            raise Died

        here = bench(tmp_path)
        publish = Worktree.publish
        with here.coder([write("ok.txt", "x\n"), "made the file"]) as coder:
            session = await coder.run("make ok.txt", ["test -f ok.txt"])
            monkeypatch.setattr(Worktree, "publish", dies)
            with pytest.raises(Died):
                await coder.approve(session.id)
            monkeypatch.undo()
            published = git(here.repository, "rev-parse", f"placet/{session.id}").strip()
            # A commit that is made later has another time, and so is another one.
            monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
            session = await coder.approve(session.id)
        assert (session.state, session.commit) == ("merged", published)

    async def test_denied(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        with here.coder([write("ok.txt", "x"), "done"]) as coder:
            session = await coder.run("make ok.txt", ["test -f ok.txt"])
            session = await coder.deny(session.id, "not like this")
        assert session.state == "abandoned"
        assert "not like this" in session.reason
        assert git(here.repository, "branch", "--list", "placet/*") == ""

    async def test_drafted_contract_waits_for_a_person(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        drafted = (
            '{"description": "there is an ok.txt", "checks": [{"name": "ok", "command": "test -f ok.txt"}]}'
        )
        with here.coder([drafted]) as coder:
            session = await coder.run("make ok.txt")
            assert session.state == "contract_proposed"
            assert session.contract is not None
            session = await coder.approve(session.id)
            assert session.state == "contract_confirmed"
        with here.coder([write("ok.txt", "x"), "done"]) as coder:
            session = await coder.resume(session.id)
            assert session.state == "needs_approval"


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"intent": " "}, "no intent"),
            ({"candidates": 0}, "candidates"),
            ({"contract": Contract(description="", checks=())}, "check"),
        ],
    )
    async def test_bad_input(self, tmp_path: Path, options: dict[str, Any], words: str) -> None:
        here = bench(tmp_path)
        given: dict[str, Any] = {"intent": "x", "checks": ["true"], **options}
        if "contract" in options:
            del given["checks"]
        with here.coder([]) as coder, pytest.raises(UsageError, match=words):
            await coder.run(**given)

    async def test_a_branch_in_the_way_is_told_before_any_work(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, {"x.txt": "wrong\n"})
        git(here.repository, "branch", "placet")
        model = Scripted([])

        with here.coder(model) as coder, pytest.raises(UsageError, match="git branch -m placet NAME"):
            await coder.run("mend it", ["grep -q right x.txt"])
        assert model.requests == []

    async def test_a_session_whose_repository_is_gone_can_be_ended(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, {"x.txt": "wrong\n"})
        with here.coder([write("x.txt", "right"), "done"]) as coder:
            session = await coder.run("mend it", ["grep -q right x.txt"])
            here.repository.rename(tmp_path / "elsewhere")

            with pytest.raises(UsageError, match="There is no folder"):
                await coder.approve(session.id)
            ended = await coder.cancel(session.id, "moved away")
        assert (ended.state, ended.reason) == ("abandoned", "cancelled: moved away")

    async def test_no_repository(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        here.repository = tmp_path
        with here.coder([]) as coder, pytest.raises(UsageError, match="repository"):
            await coder.run("x", ["true"])


async def test_watching_hears_the_numbers(tmp_path: Path) -> None:
    here = bench(tmp_path)
    with here.coder([write("ok.txt", "x"), "done"]) as coder:
        await coder.run("x", ["test -f ok.txt"], watch=here.watch)
    started = [event for event in here.seen if isinstance(event, IterationStarted)]
    assert [(event.number, event.most) for event in started] == [(1, 8)]
    assert [event.result.passed for event in here.seen if isinstance(event, CheckCompleted)] == [False, True]


class TestWithoutAJournal:
    async def test_work_that_nobody_could_approve_does_not_begin(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted([write("ok.txt", "x"), "made"])
        coder = Coder(Runtime(), model, here.repository, home=here.home, isolation=here.isolation)

        for checks in (["test -f ok.txt"], []):
            with pytest.raises(UsageError, match=r"no journal.*journal=MemoryJournal\(\)"):
                await coder.run("make ok.txt", checks)
        assert model.requests == []
        assert not here.home.exists()

        session = await coder.run("make ok.txt", ["test -f ok.txt"], approve=True)
        assert session.state == "merged"

    async def test_a_journal_in_memory_is_enough_to_approve(self, tmp_path: Path) -> None:
        here = bench(tmp_path)
        runtime = Runtime(journal=MemoryJournal())
        model = Scripted([write("ok.txt", "x"), "made"])
        coder = Coder(runtime, model, here.repository, home=here.home, isolation=here.isolation)

        session = await coder.run("make ok.txt", ["test -f ok.txt"])
        assert (await coder.approve(session.id)).state == "merged"


class TestProgramsThatAreNotThere:
    @pytest.mark.parametrize(
        "check", ["pytset -q", "CI=1 timeout 9 pytset", "cd . && env pytset -x", "sh -c 'pytset'"]
    )
    async def test_no_model_is_asked_to_mend_that(self, check: str, tmp_path: Path) -> None:
        here = bench(tmp_path)
        model = Scripted([])
        with here.coder(model) as coder, pytest.raises(EnvironmentBroken) as broken:
            await coder.run("x", [check])
        assert broken.value.missing == "pytset"
        assert model.requests == []

    @pytest.mark.parametrize("check", ["./run.sh", "sh run.sh", "bash run.sh", 'PATH="$PWD:$PATH" run.sh'])
    async def test_one_that_is_to_be_made_is_worked_on(self, check: str, tmp_path: Path) -> None:
        here = bench(tmp_path)
        made = shell("printf '#!/bin/sh\\nexit 0\\n' > run.sh; chmod +x run.sh")
        with here.coder([made, "made"]) as coder:
            session = await coder.run("x", [check])
        assert session.is_green, session.reason

    async def test_what_a_program_of_the_repository_calls_is_its_own_affair(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, {"run.sh": "pytset -q\n", "lib/tool": ""})
        for check in ("sh run.sh", "tool"):
            with here.coder(["no idea"], limits=CodeLimits(iterations=1)) as coder:
                session = await coder.run("x", [check])
            assert session.iterations == 1


async def test_a_limit_that_cannot_be_kept_says_so(tmp_path: Path) -> None:
    here = bench(tmp_path)
    with here.coder([write("b.txt", "b"), "done"], limits=CodeLimits(cost_usd=1.0)) as coder:
        session = await coder.run("x", ["test -f ok.txt"])
    assert session.state == "failed"
    assert "does not say what it used, so the limit on money counts as reached ($1)" in session.reason


@pytest.mark.filterwarnings("error")
async def test_run_sync_inside_a_loop_says_what_to_await(tmp_path: Path) -> None:
    here = bench(tmp_path)
    with here.coder([]) as coder:
        with pytest.raises(UsageError, match=r"Use `await coder\.run\(\.\.\.\)` there"):
            coder.run_sync("x", ["true"])
        with pytest.raises(UsageError, match=r"Use `await assistant\.run\(\.\.\.\)` there"):
            Assistant(coder.runtime, Scripted([])).run_sync("x")


def test_a_state_has_the_same_words_everywhere() -> None:
    assert {state: state_words(state) for state in WORDS} == WORDS


def test_what_a_check_wrote_names_files_from_the_top() -> None:
    place = "/root/.local/state/placet/code/4f0c2a9be771/exports/0123456789abcdef/files"

    lines = list(
        tail_lines(f'  File "{place}/tests/test_a.py", line 3\n{place}/b.py:4: in x\nsee /etc/exports/a\n')
    )

    assert lines == ['  │   File "tests/test_a.py", line 3', "  │ b.py:4: in x", "  │ see /etc/exports/a"]
