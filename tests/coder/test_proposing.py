"""A small model in the loop: what it doubts is tried, the most surprising first, shared by the candidates."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import open_database
from placet.coder.angles import BLANK
from placet.coder.attempt import AttemptLoop
from placet.coder.changes import Change
from placet.coder.context import Chosen
from placet.coder.events import IterationStarted, Noted
from placet.coder.leads import change_words
from placet.coder.proposing import NO_IDEA, NOTHING_LEFT, Proposals, Proposing
from placet.coder.python_source import Function
from placet.coder.repairs import Repairs
from placet.coder.session import CodeLimits
from placet.errors import BudgetSpent, ContextTooLong, ModelCancelled, ModelUnavailable, RequestRefused
from placet.inference import Scripted
from placet.inference.model import Piece, Request, Result
from placet.inference.passage import Beside, Doubt
from placet.inference.usage import Usage
from placet.policy.budget import Budget, CostBudget
from placet.tools.context import Cancel
from tests.coder.workbench import Workbench, call, git, user_text

PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"
CHECK = f"{sys.executable} -S test_prices.py"
"""As much of a traceback as from pytest, at a tenth of what it costs to start."""
FILES = {
    "prices.py": "START = 1\n\n\ndef total(prices):\n    whole = START\n    for price in prices:\n"
    "        whole += price\n    return whole\n",
    "test_prices.py": (
        "from prices import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3, total([1, 2])\n\n\n"
        "if __name__ == '__main__':\n    test_total()\n"
    ),
}
USAGE = Usage(input=10, output=1)


class Reader(Scripted):
    """A scripted model that also reads: of each line it says what `doubts` has for it."""

    reads_passages = True

    def __init__(self, doubts: dict[str, list[Doubt]], answer: Any = "I do not know.", **more: Any) -> None:
        super().__init__(answer if callable(answer) else lambda _: answer, **more)
        self.doubts = doubts
        self.read: list[str] = []
        """The lines, in order, without the one that is only begun."""
        self.beside: Sequence[Beside] = ()
        """What was shown with the latest."""

    async def generate(self, request: Request) -> Result:
        if request.passage is None:
            return msgspec.structs.replace(await super().generate(request), usage=USAGE, cost=0.0)
        await asyncio.sleep(0)
        line = request.passage.line.strip()
        if line != "if":
            self.read.append(line)
        self.beside = request.passage.beside
        return Result(text=msgspec.json.encode(self.doubts.get(line, [])).decode(), usage=USAGE, cost=0.0)


def doubt(at: int, instead: str, surprise: float) -> Doubt:
    return Doubt(at=at, instead=instead, surprise=surprise)


DOUBTS = {
    "whole = START": [doubt(12, "    whole = 0", 3.0)],
    "whole += price": [doubt(14, "        whole -= price", 7.0)],
    "return whole": [doubt(11, "    return prices", 5.0)],
}


RIGHT = {"whole = START": DOUBTS["whole = START"]}
"""What helps alone, for what is not about the order."""


def changed(diff: str) -> list[str]:
    """The lines that a diff takes away and adds."""
    return [line for line in diff.split("\n") if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]


class TestLoop:
    async def test_what_surprises_most_is_tried_first_and_the_checks_decide(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)
        model = Reader(DOUBTS)
        with here.coder(model, style="small") as coder:
            session = await coder.run("mend total", [PYTEST], watch=here.watch)
            diff = await coder.diff(session.id)
        assert session.is_green, session.reason
        notes = [each.text for each in here.seen if isinstance(each, Noted)]
        assert notes == ["reading total in prices.py, 5 lines"]
        assert changed(diff) == ["-    whole = START", "+    whole = 0"]
        # Three doubts, one an iteration.
        assert session.iterations == 3
        assert model.read == ["whole = START", "for price in prices:", "whole += price", "return whole"]
        assert len(model.requests) == 0
        read = session.attempts[0].iterations[0].usage
        assert read == Usage(input=50, output=5)

    async def test_candidates_share_what_was_read(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)
        model = Reader(DOUBTS)
        with here.coder(model, style="small") as coder:
            session = await coder.run("mend total", [CHECK], candidates=3)
            diff = await coder.diff(session.id)
        assert session.is_green, session.reason
        assert changed(diff) == ["-    whole = START", "+    whole = 0"]
        assert len(model.read) == 4
        trees = [each.tree for attempt in session.attempts for each in attempt.iterations if each.tree]
        begun = [each for each in trees if each != session.base]
        assert len(begun) == len(set(begun)), "something was tried twice"

    async def test_after_all_doubts_it_is_asked_about_lines_that_are_shown(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)

        def answer(request: Request) -> Any:
            if request.schema is None:
                return "I do not know."
            code = "whole = 0" if "This line is wrong:\nwhole = START" in user_text(request) else "pass"
            return msgspec.json.encode({"code": code}).decode()

        model = Reader({}, answer)
        with here.coder(model, style="small") as coder:
            session = await coder.run("mend total", [CHECK])
        assert session.is_green, session.reason
        assert not any(BLANK in user_text(each) for each in model.requests)

    @pytest.mark.parametrize("candidates", [1, 3])
    async def test_what_helped_against_the_same_failure_is_tried_first(
        self, tmp_path: Path, candidates: int
    ) -> None:
        here = Workbench(tmp_path, FILES)
        for is_known in (False, True):
            model = Reader(DOUBTS)
            with here.coder(model, style="small") as coder:
                session = await coder.run("mend total", [CHECK], candidates=candidates)
                diff = await coder.diff(session.id)
            assert session.is_green, session.reason
            assert changed(diff) == ["-    whole = START", "+    whole = 0"]
            # Who works beside the one that tries it reads meanwhile.
            assert bool(model.read) == (not is_known) or candidates > 1
        won = session.won
        assert won is not None
        assert (won.number, won.tried) == (1, Change("prices.py", 5, 5, "    whole = 0", is_remembered=True))
        with open_database(str(here.folder / "placet.db")) as database:
            (repair,) = Repairs(database).entries(session.repository_key)
        assert (repair.wins, repair.losses) == (2, 0), "what only looks elsewhere is no trial of it"

    async def test_where_it_no_longer_fits_it_is_beside_what_is_read(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)
        for end in ("", "  # at first"):
            (here.repository / "prices.py").write_text(FILES["prices.py"].replace("= START", f"= START{end}"))
            git(here.repository, "commit", "-qam", "as before", "--allow-empty")
            model = Reader({f"whole = START{end}": [doubt(12, "    whole = 0", 3.0)]})
            with here.coder(model, style="small") as coder:
                session = await coder.run("mend total", [CHECK])
            assert session.is_green, session.reason
            assert model.read
        (lead,) = model.beside[1:]
        assert lead.text.endswith(
            " def total(prices):\n-    whole = START\n+    whole = 0\n     for price in prices:"
        )

    async def test_what_helped_against_another_failure_is_not(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)
        with here.coder(Reader(RIGHT), style="small") as coder:
            session = await coder.run("mend total", [PYTEST])
            assert session.is_green, session.reason
        wrong = FILES["prices.py"].replace("whole += price", "whole += prise")
        (here.repository / "prices.py").write_text(wrong)
        git(here.repository, "commit", "-qam", "another")
        model = Reader({})
        with here.coder(model, style="small", limits=CodeLimits(iterations=2)) as coder:
            session = await coder.run("mend total", [PYTEST])
        assert session.attempts[0].iterations[1].hint, "a coarse hint is told in words"
        assert [each.path for each in model.beside] == ["test_prices.py"]

    async def test_what_the_check_runs_is_not_read(self, tmp_path: Path) -> None:
        files = {
            "prices.py": FILES["prices.py"],
            "verify.py": "from prices import total\n\n\ndef close(found, wanted):\n"
            "    left = found - wanted\n    assert left == 0, left\n\n\nclose(total([1, 2]), 3)\n",
        }
        here = Workbench(tmp_path, files)
        model = Reader({**DOUBTS, "left = found - wanted": [doubt(11, "    left = 0", 9.0)]})
        with here.coder(model, style="small") as coder:
            session = await coder.run("mend total", [f"{sys.executable} verify.py"])
        assert session.is_green, session.reason
        assert "left = found - wanted" not in model.read

    @pytest.mark.parametrize(
        "source",
        [
            b"# coding: cp1252\n# \x85\ndef total(prices):\n    return sum(prices) + 1\n",
            b"ONE = 1\rdef total(prices):\n    return sum(prices) + ONE\n",
        ],
        ids=["another encoding", "another end of lines"],
    )
    async def test_what_could_not_be_written_is_not_read(self, tmp_path: Path, source: bytes) -> None:
        here = Workbench(tmp_path, FILES)
        (here.repository / "prices.py").write_bytes(source)
        git(here.repository, "commit", "-qam", "odd")
        model = Reader(DOUBTS)
        with here.coder(model, style="small", limits=CodeLimits(iterations=2)) as coder:
            session = await coder.run("mend total", [CHECK])
        assert model.read == []
        assert session.iterations == 2

    async def test_a_hint_is_one_trial_and_what_was_learned_is_about_where_it_began(
        self, tmp_path: Path
    ) -> None:
        here = Workbench(tmp_path, FILES)
        with here.coder(Reader(RIGHT), style="small") as coder:
            session = await coder.run("mend total", [CHECK])
            assert session.is_green, session.reason
        # It fits, and helps no more.
        source = (
            FILES["prices.py"].replace("START = 1", "START = 0").replace("return whole", "return whole + 1")
        )
        (here.repository / "prices.py").write_text(source)
        git(here.repository, "commit", "-qam", "another way to be wrong")
        doubts = [doubt(11, "    return wohle", 6.0), doubt(16, "    return whole", 5.0)]
        with here.coder(Reader({"return whole + 1": doubts}), style="small") as coder:
            session = await coder.run("mend total", [CHECK])
            assert session.is_green, session.reason
        assert session.iterations == 4
        with open_database(str(here.folder / "placet.db")) as database:
            first, second = sorted(Repairs(database).entries(session.repository_key), key=lambda e: e.made)
        assert (first.wins, first.losses) == (1, 1), "it wins nothing by what was found after it"
        assert (second.wins, second.losses) == (1, 0)

    async def test_a_remembered_change_that_fails_in_another_way_loses_and_the_next_is_tried(
        self, tmp_path: Path
    ) -> None:
        here = Workbench(tmp_path, FILES)
        with here.coder(Reader(RIGHT), style="small") as coder:
            session = await coder.run("mend total", [CHECK])
        with open_database(str(here.folder / "placet.db")) as database:
            repairs = Repairs(database)
            (right,) = repairs.entries(session.repository_key)
            diff = "+++ b/prices.py\n@@ -5 +5 @@\n-    whole = START\n+    whole = nothing\n"
            for _ in range(2):
                repairs.learned(session.repository_key, right.signature, change_words(diff), hint=None)
        for _ in range(2):
            model = Reader({})
            with here.coder(model, style="small") as coder:
                session = await coder.run("mend total", [CHECK])
            if session.is_green:
                break
        assert session.is_green, session.reason
        assert model.read == []
        with open_database(str(here.folder / "placet.db")) as database:
            found = {each.id == right.id: each for each in Repairs(database).entries(session.repository_key)}
        assert found[False].losses > 0
        assert (found[True].wins, found[True].losses) == (2, 0)

    async def test_stopped_at_any_question_it_goes_on_and_nothing_is_tried_twice(
        self, tmp_path: Path
    ) -> None:
        class Stops(Reader):
            left = asked = 0
            cancel = Cancel()

            async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
                self.left -= 1
                if self.left == 0:
                    self.cancel.cancel("enough")
                    raise ModelCancelled("enough")
                async for piece in super().stream(request):
                    yield piece
                # Of one that was broken off in the middle nobody knows what it took.
                self.asked += 1

        here = Workbench(tmp_path, FILES)
        model = Stops(DOUBTS)
        session = None
        for stop_at in (2, 4, 3, 5, 0):
            model.left, model.cancel = stop_at, Cancel()
            with here.coder(model, style="small") as coder:
                if session is None:
                    session = await coder.run("mend total", [CHECK], cancel=model.cancel, candidates=2)
                else:
                    session = await coder.resume(session.id, cancel=model.cancel)
            assert session.tokens == model.asked * USAGE.total
        assert session.is_green, session.reason
        tried = [each.tried for attempt in session.attempts for each in attempt.iterations if each.tried]
        assert len({(each.first, each.text) for each in tried}) == len(tried)

    async def test_what_was_kept_and_not_heard_before_a_crash_is_not_lost(self, tmp_path: Path) -> None:
        class Died(BaseException):
            pass

        async def dies(self: AttemptLoop, *what: Any) -> None:
            await said(self, *what)
            raise Died

        here = Workbench(tmp_path, FILES)
        said = AttemptLoop._said
        with pytest.MonkeyPatch.context() as patch, here.coder(Reader(RIGHT), style="small") as coder:
            patch.setattr(AttemptLoop, "_said", dies)
            with pytest.raises(Died):
                await coder.run("mend total", [CHECK], session_id="s")
        model = Reader(RIGHT, "{}")
        with here.coder(model, style="small") as coder:
            session = await coder.resume("s")
        assert session.is_green, session.reason
        assert model.read == []

    async def test_it_stops_when_nothing_is_left_to_try(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)
        model = Reader({"return whole": [doubt(11, "    return prices", 5.0)]}, "{}")
        with here.coder(model, style="small", limits=CodeLimits(iterations=50)) as coder:
            session = await coder.run("mend total", [CHECK])
        assert session.state == "failed"
        assert "there is nothing left to try" in session.reason
        # One doubt, four lines that are asked about two at a time, then none, and at last the whole.
        assert session.iterations == 5
        assert model.requests[-1].schema is None

    async def test_alone_it_sees_the_whole_at_last_wherever_the_model_says_that_it_is(
        self, tmp_path: Path
    ) -> None:
        here = Workbench(tmp_path, FILES)
        anew = "def total(prices):\n    return sum(prices)\n"
        model = Reader(DOUBTS, call("replace_function", path="src/main.py", name="total", source=anew))
        with here.coder(model, style="small", limits=CodeLimits(iterations=2)) as coder:
            session = await coder.run("mend total", [CHECK])
            diff = await coder.diff(session.id)
        assert session.is_green, session.reason
        assert session.iterations == 2
        assert "+    return sum(prices)" in changed(diff)

    async def test_an_iteration_that_is_gone_on_with_is_told_of(self, tmp_path: Path) -> None:
        class Stops(Reader):
            is_stopped = False

            async def generate(self, request: Request) -> Result:
                if len(self.read) == 2 and not self.is_stopped:
                    self.is_stopped = True
                    cancel.cancel("enough")
                    raise ModelCancelled("enough")
                return await super().generate(request)

        here = Workbench(tmp_path, FILES)
        cancel = Cancel()
        model = Stops(DOUBTS)
        with here.coder(model, style="small") as coder:
            session = await coder.run("mend total", [CHECK], cancel=cancel)
            resumed = await coder.resume(session.id, watch=here.watch)
        assert resumed.is_green, resumed.reason
        started = [each.number for each in here.seen if isinstance(each, IterationStarted)]
        assert started == [1, 2, 3]

    async def test_second_thoughts_come_when_all_is_read(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)
        model = Reader(
            {
                "whole = START": [doubt(12, "    whole = 0", -1.0), doubt(12, "    whole = None", -0.5)],
                "return whole": [doubt(11, "    return prices", 5.0)],
            }
        )
        with here.coder(model, style="small") as coder:
            session = await coder.run("mend total", [CHECK])
        assert session.is_green, session.reason
        assert session.iterations == 3

    async def test_a_limit_on_tokens_holds_between_two_lines(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)
        model = Reader(DOUBTS)
        with here.coder(model, style="small", limits=CodeLimits(tokens=25)) as coder:
            session = await coder.run("mend total", [CHECK])
        assert not session.is_green
        assert "25" in session.reason
        assert len(model.read) == 3

    async def test_a_model_that_does_not_read_is_asked_place_by_place(self, tmp_path: Path) -> None:
        here = Workbench(tmp_path, FILES)

        def answer(request: Request) -> Any:
            row = user_text(request).rstrip().rpartition("\n")[2]
            if request.schema is None:
                return call(
                    "replace_function", path="prices.py", name="total", source="def total(p):\n    return 9"
                )
            return msgspec.json.encode({"code": "whole = 0" if "whole =" in row else "return -1"}).decode()

        model = Scripted(answer)
        with here.coder(model, style="small") as coder:
            session = await coder.run("mend total", [CHECK])
            diff = await coder.diff(session.id)
        assert session.is_green, session.reason
        # Each iteration begins with the files as they were.
        assert changed(diff) == ["-    whole = START", "+    whole = 0"]
        rows = [user_text(each).rstrip().rpartition(": ")[2] for each in model.requests[1:]]
        assert rows[0] == f"for price in {BLANK}:"
        assert rows[-1] == f"whole = {BLANK}"


def function(name: str, *rows: str, first: int = 1) -> Function:
    source = "\n".join([f"def {name}():", *(f"    {row}" for row in rows)])
    return Function(path="x.py", name=name, first=first, last=first + len(rows), source=source)


CHOSEN = Chosen(text="", functions=(function("f", "a = 1", "b = 2"), function("g", "c = 3", first=4)))


def proposing(model: Any, proposals: Proposals, budget: Budget | None = None, **more: Any) -> Proposing:
    return Proposing(
        model,
        budget or Budget(),
        proposals=proposals,
        chosen=CHOSEN,
        words=lambda angle: angle.row,
        rules="Mend it.",
        said=nothing,
        note=lambda text: None,
        **more,
    )


async def nothing(change: Change) -> None:
    """Nobody has to know."""


def plus(row: str, n: int = 1) -> list[Doubt]:
    """Doubts of a line such as `a = 1`."""
    return [doubt(8, f"    {row[:4]}{9 + m}", 1.0 + m) for m in range(n)]


async def proposed(model: Proposing) -> str:
    result = await model.generate(Request(messages=()))
    return str(result.calls[0].arguments["text"]).strip() if result.calls else result.text


class TestProposals:
    async def test_one_function_is_read_and_tried_before_the_next(self) -> None:
        model = Reader({"a = 1": plus("a = 1"), "b = 2": plus("b = 2", 2), "c = 3": plus("c = 3")})
        budget = Budget()
        asked = proposing(model, Proposals(), budget)
        assert [await proposed(asked) for _ in range(3)] == ["b = 10", "a = 9", "b = 9"]
        assert model.read == ["a = 1", "b = 2"]
        assert await proposed(asked) == "c = 9"
        assert budget.spent.tokens == 55

    async def test_second_thoughts_of_all_functions_come_last(self) -> None:
        second = [doubt(8, "    a = 7", -2.0)], [doubt(8, "    c = 8", -1.0), doubt(8, "    c = 9", 1.0)]
        model = Reader({"a = 1": second[0], "c = 3": second[1]})
        asked = proposing(model, Proposals())
        assert [await proposed(asked) for _ in range(3)] == ["c = 9", "c = 8", "a = 7"]

    async def test_what_was_tried_before_a_crash_is_passed_over(self) -> None:
        model = Reader({"a = 1": plus("a = 1", 2), "c = 3": plus("c = 3")})
        had = [Change("x.py", 2, 2, "    a =  9"), Change("y.py", 2, 2, "    a = 10")]
        asked = proposing(model, Proposals(had))
        assert [await proposed(asked) for _ in range(2)] == ["a = 10", "c = 9"]

    async def test_what_was_proposed_and_maybe_not_heard_is_proposed_again(self) -> None:
        model = Reader({"a = 1": plus("a = 1")})
        change = Change("x.py", 2, 2, "    a = 5")
        assert await proposed(proposing(model, Proposals([change]), first=change)) == "a = 5"
        assert model.read == []

    async def test_who_was_stopped_while_reading_leaves_what_was_read(self) -> None:
        class Fails(Reader):
            async def generate(self, request: Request) -> Result:
                if request.passage is not None and "b" in request.passage.line and len(self.read) == 1:
                    self.read.append("-")
                    raise ModelUnavailable("it is gone")
                return await super().generate(request)

        model = Fails({"a = 1": plus("a = 1")})
        proposals = Proposals()
        with pytest.raises(ModelUnavailable):
            await proposed(proposing(model, proposals))
        assert await proposed(proposing(model, proposals)) == "a = 9"
        assert model.read == ["a = 1", "-", "b = 2"]

    async def test_several_at_once_get_something_else_each(self) -> None:
        model = Reader({"a = 1": plus("a = 1", 3)})
        proposals = Proposals()
        found = await asyncio.gather(*(proposed(proposing(model, proposals)) for _ in range(3)))
        assert sorted(found) == ["a = 10", "a = 11", "a = 9"]
        assert model.read == ["a = 1", "b = 2"]

    async def test_what_is_too_long_to_be_read_is_passed_over(self) -> None:
        class Short(Reader):
            async def generate(self, request: Request) -> Result:
                if request.passage is not None and "a = 1" in request.passage.line:
                    raise ContextTooLong("too long")
                return await super().generate(request)

        assert await proposed(proposing(Short({"b = 2": plus("b = 2")}), Proposals())) == "b = 9"

    async def test_a_line_that_cannot_be_read_says_nothing_about_the_others(self) -> None:
        class Odd(Reader):
            async def generate(self, request: Request) -> Result:
                if request.passage is not None and "a = 1" in request.passage.line:
                    return Result(text="a poem", usage=USAGE, cost=0.0)
                return await super().generate(request)

        assert await proposed(proposing(Odd({"b = 2": plus("b = 2")}), Proposals())) == "b = 9"

    async def test_a_model_that_does_not_read_after_all_is_asked(self) -> None:
        class Odd(Reader):
            async def generate(self, request: Request) -> Result:
                if request.passage is None:
                    return await super().generate(request)
                self.read.append("-")
                raise RequestRefused("no")

        model = Odd({}, '{"code": "a = 9"}')
        asked = proposing(model, Proposals())
        assert await proposed(asked) == "a = 9"
        await proposed(asked)
        assert len(model.read) == 3

    async def test_what_a_turn_without_an_answer_took_is_not_forgotten(self) -> None:
        class Fails(Reader):
            async def generate(self, request: Request) -> Result:
                if self.read:
                    raise ModelUnavailable("it is gone")
                return await super().generate(request)

        asked = proposing(Fails({}), Proposals())
        with pytest.raises(ModelUnavailable):
            await proposed(asked)
        assert asked.spare.usage == USAGE

    async def test_what_is_not_told_is_not_nothing(self) -> None:
        class Silent(Reader):
            async def generate(self, request: Request) -> Result:
                return msgspec.structs.replace(await super().generate(request), usage=None, cost=None)

        asked = proposing(Silent({"a = 1": plus("a = 1")}), Proposals())
        result = await asked.generate(Request(messages=()))
        assert (result.usage, result.cost) == (None, None)

    async def test_nothing_is_read_once_the_budget_is_used_up(self) -> None:
        budget = Budget(CostBudget(max_tokens=1))
        budget.spend(1, 0.0)
        model = Reader(DOUBTS)

        with pytest.raises(BudgetSpent):
            await proposed(proposing(model, Proposals(), budget))

        assert model.read == []

    async def test_where_nothing_comes_to_its_mind_it_says_so(self) -> None:
        model = Scripted(lambda _: "{}")
        assert await proposed(proposing(model, Proposals())) == NO_IDEA
        assert len(model.requests) == 2

    async def test_the_same_is_not_proposed_twice_in_whatever_way_it_comes(self) -> None:
        model = Reader({"a = 1": plus("a = 1")}, '{"code": "a = 9"}')
        asked = proposing(model, Proposals())
        results = [await asked.generate(Request(messages=())) for _ in range(4)]
        found = [each.calls[0].arguments["first"] if each.calls else each.text for each in results]
        # First it doubts line 2; asked about lines 2, 3 and 5, it says the same of each.
        assert found == [2, 3, 5, NOTHING_LEFT]
