"""Coding sessions in memory, SQLite and Postgres keep the same promises; and the arrows of their states."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.checks.contract import CheckResult, contract_of
from placet.coder.coder import Coder
from placet.coder.events import Event, StateChanged
from placet.coder.session import OPEN, Attempt, CodeLimits, Iteration, Question, Session, State
from placet.coder.store import MemorySessions, Sessions
from placet.coder.store_sql import MIGRATIONS, SqlSessions, has_sessions
from placet.errors import StorageDamaged, StorageNewer, UsageError
from placet.inference.messages import ToolCall, ToolResult
from placet.inference.model import Request
from placet.inference.usage import Usage
from placet.storage.location import open_database
from placet.storage.migrate import Migrations, migrate
from placet.testing import FakeClock
from placet.tools.context import Cancel
from tests.coder.repositories import fingerprint
from tests.coder.workbench import Workbench, git
from tests.properties.effort import UNHURRIED, examples
from tests.storage.children import ask, run, say

START = 1_000.0
STATES: tuple[State, ...] = get_args(State)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def sessions(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[Sessions]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield MemorySessions(clock=clock)
        return
    url = (
        f"sqlite://{tmp_path}/s.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    with open_database(url) as database:
        yield SqlSessions(database, clock=clock)


def session(id: str = "abc", **changes: Any) -> Session:
    return Session(**{"id": id, "intent": "mend it", "repository": "/r", "created_at": START, **changes})


def question(id: str = "q", **changes: Any) -> Question:
    given = {"id": id, "session": "abc", "text": "which?", "asked_at": START, "until": START + 60, **changes}
    return Question(**given)


def test_what_ended_before_a_moment_can_be_dropped(database_url: str) -> None:
    with open_database(database_url) as database:
        sessions = SqlSessions(database, clock=FakeClock(START))
        sessions.put(session("old", state="merged", changed_at=START + 10))
        sessions.put(session("late", state="failed", changed_at=START + 60))
        sessions.put(session("open", state="needs_approval", changed_at=START + 10))
        for name in ("old", "open"):
            sessions.ask(question(f"q-{name}", session=name))

        found = [each.id for each in sessions.ended_before(START + 60)]
        sessions.drop("old")

        assert found == ["old"]
        assert [each.id for each in sessions.listed()] == ["open", "late"]
        assert sessions.question("q-old") is None
        assert [each.id for each in sessions.questions()] == ["q-open"]


def test_sessions_are_listed_by_the_folder_of_their_repository(database_url: str) -> None:
    with open_database(database_url) as database:
        sessions = SqlSessions(database, clock=FakeClock(START))
        for n, folder in enumerate(["/w/a", "/w/a/b", "/w/ab", "/w"]):
            sessions.put(session(f"s{n}", repository=folder, created_at=START + n, state="merged"))

        assert [each.id for each in sessions.listed(folder="/w/a")] == ["s1", "s0"]
        assert [each.id for each in sessions.listed(folder="/w/a", limit=1)] == ["s1"]
        assert sessions.elsewhere("/w/a") == sessions.elsewhere("/w/a", state="merged") == 2
        assert sessions.elsewhere("/w/a", state="failed") == 0


def test_sessions_of_the_first_tables_get_their_repository_and_can_be_read_as_they_are(
    database_url: str,
) -> None:
    old = session("old", repository="/w/é x", intent='says "repository":"/elsewhere"')
    with open_database(database_url) as database:
        migrate(database, Migrations("coding", MIGRATIONS.steps[:1]))
        data = msgspec.json.encode(old).decode()
        database.write(
            lambda t: t.execute(
                "INSERT INTO coding_sessions (id, state, created, data) VALUES ('old', 'created', 1, ?)",
                (data,),
            )
        ).result()

    with open_database(database_url, read_only=True) as database:
        assert SqlSessions(database).listed(folder="/w") == [old]
        assert SqlSessions(database).find("o") == old
    with open_database(database_url) as database:
        assert SqlSessions(database).listed(folder="/w") == [old]
        assert ask(database, "SELECT id, repository FROM coding_sessions") == [("old", "/w/é x")]


class TestKept:
    def test_everything_comes_back(self, sessions: Sessions) -> None:
        result = CheckResult(name="c", command="false", passed=False, exit_code=1, output="\0 \U0001f600 é")
        iteration = Iteration(
            number=1, run_id="abc.1.1", status="success", tree="t", sealed=["tests/x"], results=[result]
        )
        whole = session(
            intent="null \0 and é",
            state="running",
            contract=contract_of(["false"], "x"),
            limits=CodeLimits(tokens=5, time_s=1.5),
            attempts=[Attempt(number=1, iterations=[iteration])],
            baseline=[result],
            drafting=Usage(input=1, output=2),
        )
        sessions.put(whole)
        assert sessions.get("abc") == whole
        assert sessions.listed() == [whole]

    def test_what_was_kept_does_not_change_with_what_is_at_hand(self, sessions: Sessions) -> None:
        mine = session(attempts=[Attempt(number=1)])
        sessions.put(mine)
        mine.attempts[0].ended = "later"
        found = sessions.get("abc")
        assert found is not None
        found.attempts[0].iterations.append(Iteration(number=1, run_id="x"))
        assert sessions.get("abc") == session(attempts=[Attempt(number=1)])

    def test_put_again_it_takes_the_place_of_the_first(self, sessions: Sessions) -> None:
        sessions.put(session())
        sessions.put(session(state="running", reason="why"))
        assert [(each.state, each.reason) for each in sessions.listed()] == [("running", "why")]
        assert sessions.listed(state="created") == []

    def test_nothing_of_that_name(self, sessions: Sessions) -> None:
        assert sessions.get("abc") is None
        for name in ("abc", "", "a%", "\0"):
            with pytest.raises(UsageError, match="no coding session"):
                sessions.find(name)

    def test_found_by_the_beginning_of_its_id(self, sessions: Sessions) -> None:
        for name in ("abc", "abcd", "xyz", "%yz"):
            sessions.put(session(name))
        assert sessions.find("abc").id == "abc"
        assert sessions.find("x").id == "xyz"
        assert sessions.find("%").id == "%yz"
        with pytest.raises(UsageError, match="abcd"):
            sessions.find("ab")

    def test_listed_newest_first(self, sessions: Sessions) -> None:
        for number, state in enumerate(STATES):
            sessions.put(session(f"s{number}", state=state, created_at=START + number % 4))
        listed = [each.id for each in sessions.listed()]
        assert listed == ["s7", "s3", "s6", "s2", "s5", "s1", "s4", "s0"]
        assert [each.id for each in sessions.listed(limit=3)] == listed[:3]
        assert [each.id for each in sessions.listed(state="merged")] == ["s5"]


class TestQuestions:
    def test_put_again_it_is_what_it_has_become(self, sessions: Sessions) -> None:
        assert sessions.ask(question()) == question()
        sessions.answer("q", "this one", "Ada")
        again = sessions.ask(question(asked_at=START + 5, until=START + 500))
        assert (again.answer, again.by, again.until) == ("this one", "Ada", START + 60)
        assert sessions.question("q") == again

    def test_those_that_wait_oldest_first(self, sessions: Sessions, clock: FakeClock) -> None:
        sessions.ask(question("late", asked_at=START + 2))
        sessions.ask(question("early", asked_at=START + 1, until=START + 10))
        sessions.ask(question("other", session="x"))
        sessions.ask(question("answered"))
        sessions.answer("answered", "a", "Ada")
        assert [each.id for each in sessions.questions()] == ["other", "early", "late"]
        assert [each.id for each in sessions.questions("abc")] == ["early", "late"]
        clock.advance(11)
        assert [each.id for each in sessions.questions("abc")] == ["late"]

    @pytest.mark.parametrize(
        ("text", "after_s", "words"),
        [("again", 0.0, "answered before, by Ada"), ("late", 61.0, "any longer"), (" \n", 0.0, "word")],
    )
    def test_refused(
        self, sessions: Sessions, clock: FakeClock, text: str, after_s: float, words: str
    ) -> None:
        sessions.ask(question())
        if text == "again":
            sessions.answer("q", "first", "Ada")
        before = sessions.question("q")
        clock.advance(after_s)
        with pytest.raises(UsageError, match=words):
            sessions.answer("q", text, "Bob")
        assert sessions.question("q") == before

    def test_no_such_question_and_no_valid_text(self, sessions: Sessions) -> None:
        assert sessions.question("q") is None
        with pytest.raises(UsageError, match="no question"):
            sessions.answer("q", "a", "Ada")
        sessions.ask(question())
        with pytest.raises(UsageError, match="valid"):
            sessions.answer("q", "\udc80", "Ada")

    def test_of_many_at_once_one_is_heard(self, sessions: Sessions) -> None:
        for number in range(5):
            name = f"q{number}"
            sessions.ask(question(name))
            heard, refused = _answered_at_once(sessions, name, "abcd")
            found = sessions.question(name)
            assert found is not None
            assert [found.by] == heard
            assert len(refused) == 3
            assert all("answered before" in words for words in refused)


def _answered_at_once(sessions: Sessions, name: str, people: str) -> tuple[list[str], list[str]]:
    """Who was heard, and what the others were told."""
    heard: list[str] = []
    refused: list[str] = []
    ready = threading.Barrier(len(people))

    def answer(by: str) -> None:
        ready.wait()
        try:
            heard.append(sessions.answer(name, f"from {by}", by).by or "")
        except UsageError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=answer, args=(by,)) for by in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return heard, refused


class TestDatabase:
    @pytest.mark.parametrize(
        ("table", "data"),
        [
            ("sessions", "{"),
            ("sessions", '{"id": 1}'),
            ("sessions", '{"id": "abc", "intent": "", "repository": "", "state": "lost"}'),
            ("sessions", '{"id": "abc", "intent": "", "repository": "", "limits": {"iterations": 0}}'),
            ("sessions", "[" * 100_000),
            ("questions", "{}"),
        ],
    )
    def test_damaged_rows_are_named(self, database_url: str, table: str, data: str) -> None:
        with open_database(database_url) as database:
            sessions = SqlSessions(database)
            sessions.put(session())
            sessions.ask(question("abc", until=1e12))
            say(database, f"UPDATE coding_{table} SET data = ?", (data,))
            looks: dict[str, list[Callable[[], object]]] = {
                "sessions": [lambda: sessions.get("abc"), lambda: sessions.find("a"), sessions.listed],
                "questions": [
                    lambda: sessions.question("abc"),
                    sessions.questions,
                    lambda: sessions.answer("abc", "a", "b"),
                    lambda: sessions.ask(question("abc")),
                ],
            }
            for look in looks[table]:
                with pytest.raises(StorageDamaged, match="'abc'"):
                    look()

    def test_an_older_database_gets_the_tables_and_a_newer_one_is_left_alone(self, database_url: str) -> None:
        with open_database(database_url) as database:
            say(database, "CREATE TABLE mine (n BIGINT)")
            assert not has_sessions(database)
            SqlSessions(database).put(session())
            assert has_sessions(database)
            SqlSessions(database)
            assert SqlSessions(database).get("abc") == session()
            assert ask(database, "SELECT n FROM mine") == []
            newer = len(MIGRATIONS.steps) + 1
            say(database, "UPDATE schema_parts SET version = ? WHERE part = 'coding'", (newer,))
            with pytest.raises(StorageNewer):
                SqlSessions(database)

    def test_a_session_of_an_older_version_is_read(self, database_url: str) -> None:
        """One that was kept before it said what drafting took."""
        old = '{"id": "abc", "intent": "mend it", "repository": "/r", "created_at": 1000.0}'
        with open_database(database_url) as database:
            sessions = SqlSessions(database)
            say(
                database,
                "INSERT INTO coding_sessions (id, state, created, data) VALUES ('abc', 'created', 1000, ?)",
                (old,),
            )
            assert sessions.get("abc") == session()

    def test_another_process_answers(self, database_url: str) -> None:
        with open_database(database_url) as database:
            sessions = SqlSessions(database)
            sessions.put(session())
            sessions.ask(question(until=1e12))
            run(
                """
                import sys
                from placet.coder.store_sql import SqlSessions
                from placet.storage.location import open_database

                with open_database(sys.argv[1]) as database:
                    sessions = SqlSessions(database)
                    (waiting,) = sessions.questions("abc")
                    sessions.answer(waiting.id, "this", "Ada")
                """,
                database_url,
            )
            found = sessions.question("q")
            assert found is not None
            assert (found.answer, found.by) == ("this", "Ada")


class TestArrows:
    def test_only_along_them(self) -> None:
        allowed = set()
        for before, after in product(STATES, STATES):
            made = session(state=before)
            try:
                made.moved(after, "why")
            except UsageError:
                assert (made.state, made.reason) == (before, "")
            else:
                assert (made.state, made.reason) == (after, "why")
                allowed.add((before, after))
        assert not [pair for pair in allowed if pair[0] not in OPEN], "what has ended stays as it is"
        assert [pair for pair in allowed if pair[1] == "merged"] == [("needs_approval", "merged")]
        assert [pair for pair in allowed if pair[1] == "needs_approval"] == [("running", "needs_approval")]
        # What is open can always be given up.
        assert {pair[0] for pair in allowed if pair[1] == "abandoned"} == set(OPEN)


OPERATIONS = ("run", "resume", "resume and approve", "stop", "approve", "deny", "cancel", "answer")
PUBLISHES = ("approve", "resume and approve")


class Walk:
    """One session, with which people do what comes to their minds."""

    def __init__(self, here: Workbench, number: int, *, drafts: bool, succeeds: bool, asks: bool) -> None:
        self.here = here
        self.name = f"walk{number}"
        self.way: list[str] = ["created"]
        """The states that it went through."""
        self._drafts = drafts
        self._succeeds = succeeds
        self._asks = asks

    def _model(self, request: Request) -> Any:
        if "A person wants a program changed" in request.messages[0].text:  # type: ignore[union-attr]
            return '{"description": "", "checks": [{"name": "ok", "command": "test -f ok.txt"}]}'
        done = sum(isinstance(each, ToolResult) for each in request.messages)
        steps = [ToolCall(name="ask_user", arguments={"question": "which?"})] if self._asks else []
        if self._succeeds:
            steps.append(ToolCall(name="write_file", arguments={"path": "ok.txt", "text": self.name}))
        return steps[done] if done < len(steps) else "done"

    def _watch(self, event: Event) -> None:
        if isinstance(event, StateChanged):
            self.way.append(event.state)

    def do(self, operation: str) -> Session | None:
        """Do it; the session as it is kept then, if there is one."""
        limits = CodeLimits(iterations=1)
        with self.here.coder(self._model, limits=limits, ask_s=0.02) as coder:
            with suppress(UsageError):
                asyncio.run(self._done(coder, operation))
            return coder._sessions.get(self.name)

    async def _done(self, coder: Coder, operation: str) -> None:
        match operation:
            case "run":
                checks = [] if self._drafts else ["test -f ok.txt"]
                await coder.run("make it", checks, session_id=self.name, watch=self._watch)
            case "resume":
                await coder.resume(self.name, watch=self._watch)
            case "resume and approve":
                await coder.resume(self.name, approve=True, watch=self._watch)
            case "stop":
                cancel = Cancel()
                cancel.cancel("enough")
                await coder.resume(self.name, cancel=cancel, watch=self._watch)
            case "approve":
                await coder.approve(self.name, watch=self._watch)
            case "deny":
                await coder.deny(self.name, watch=self._watch)
            case "cancel":
                self.way += ["abandoned"] if (await coder.cancel(self.name)).state == "abandoned" else []
            case "answer":
                coder._sessions.answer(f"{self.name}.1.1.t1c1", "this", "Ada")


@UNHURRIED
def test_in_whatever_order_things_are_done_it_stays_on_the_arrows(tmp_path: Path) -> None:
    here = Workbench(tmp_path, {"a.txt": "a\n"})
    numbers = count()
    ends: set[str] = set()

    @examples(8)
    @example(False, True, True, ["stop", "approve", "cancel"])
    @example(True, True, False, ["approve", "stop", "answer", "resume and approve", "deny"])
    @example(True, False, True, ["resume", "approve", "resume", "run", "cancel"])
    @given(
        drafts=st.booleans(),
        succeeds=st.booleans(),
        asks=st.booleans(),
        operations=st.lists(st.sampled_from(OPERATIONS), min_size=2, max_size=5),
    )
    def walks(drafts: bool, succeeds: bool, asks: bool, operations: list[str]) -> None:
        walk = Walk(here, next(numbers), drafts=drafts, succeeds=succeeds, asks=asks)
        branch = f"placet/{walk.name}"
        before = fingerprint(here.repository)
        known: Session | None = None
        for operation in ["run", *operations]:
            now = walk.do(operation)
            assert now is not None
            if known is not None and not known.is_open:
                assert now == known, "what has ended stays as it is"
            assert walk.way[-1] == now.state
            is_there = branch in git(here.repository, "branch", "--list", "--format=%(refname:short)").split()
            assert is_there is (now.state == "merged")
            if now.state == "merged" and (known is None or known.state != "merged"):
                assert operation in PUBLISHES
                assert now.is_green
            if now.state != "merged":
                assert fingerprint(here.repository) == before
            known = now
        for one, other in pairwise(walk.way):
            session(state=one).moved(other)  # type: ignore[arg-type]
        ends.add(walk.way[-1])

    walks()
    assert {"merged", "abandoned", "failed"} <= ends
