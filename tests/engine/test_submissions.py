"""The table of submissions: every change of state, without a worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from placet import tool
from placet.app.app import open_records
from placet.app.options import RunOptions
from placet.app.work import Place, PlanJob, Stored, TaskJob
from placet.engine import kinds, sql
from placet.engine.embedded import LocalTransport
from placet.engine.protocol import SubmitOptions, Ticket
from placet.engine.queue_engine import QueueEngine, submission_data
from placet.engine.sql import SqlSubmissions
from placet.engine.submission import Inbox, Submission, WorkerInfo
from placet.engine.worker import Worker
from placet.errors import RunHeld, UsageError
from placet.events.stream import StreamEvent, ToolCallStarted
from placet.ir.stop_cause import StopCause
from placet.runtime.journal import Decision
from placet.runtime.runtime import Runtime
from placet.runtime.scope import Scope
from placet.runtime.sync import run_sync
from placet.storage.lease import StopRequest, holder
from placet.storage.location import open_database
from placet.tools.context import Cancel


@tool
def act() -> None:
    """Nothing."""


NEW = Submission(run_id="r", kind="plan", request="{}", queue="q")


@pytest.fixture
def table(database_url: str) -> Iterator[SqlSubmissions]:
    with open_database(database_url) as database:
        yield SqlSubmissions(database)


def stand(table: SqlSubmissions) -> Submission:
    found = table.get("r")
    assert found is not None
    return found


def claimed(table: SqlSubmissions, worker: str = "w") -> Submission:
    found = table.claim(stand(table).ticket("1"), worker)
    assert found is not None
    return found


def killed(table: SqlSubmissions, name: str = "w") -> int:
    """A worker that works on something has died; how many runs were taken from it."""
    table.heartbeat(replace(up(table, name), state="gone"))
    return table.give_up_dead("me", is_durable=True)[name]


def up(table: SqlSubmissions, name: str) -> WorkerInfo:
    made = WorkerInfo(id=name, holder=holder(""), queue="q", concurrency=1, version="1")
    table.heartbeat(made)
    return made


def test_outdated_ticket_is_claimed_by_nobody(table: SqlSubmissions) -> None:
    table.add(NEW)
    old = stand(table).ticket("1")
    table.bounce(old)

    assert table.claim(old, "w") is None
    assert table.claim(stand(table).ticket("1"), "w") is not None


@pytest.mark.parametrize("worker", ["w", "other"])
def test_ticket_that_is_delivered_twice_is_claimed_once(table: SqlSubmissions, worker: str) -> None:
    table.add(NEW)
    ticket = stand(table).ticket("1")
    claimed(table)

    assert table.claim(ticket, worker) is None


def test_worker_that_was_given_up_writes_nothing(table: SqlSubmissions) -> None:
    table.add(NEW)
    mine = claimed(table, "frozen")
    killed(table, "frozen")
    other = claimed(table, "other")

    late = table.finish(mine, "ended", outcome="succeeded")

    assert late is None
    assert stand(table) == replace(other, changed=stand(table).changed)


def test_fourth_attempt_is_not_made(table: SqlSubmissions) -> None:
    table.add(NEW)
    for _ in range(3):
        claimed(table)
        killed(table)

    fourth = table.claim(stand(table).ticket("1"), "w")

    assert fourth is None
    assert stand(table).state == "dead"
    assert stand(table).error
    assert table.retry("r")
    assert claimed(table).attempts == 1


def test_orderly_stop_forgets_the_attempts(table: SqlSubmissions) -> None:
    table.add(NEW)
    for _ in range(2):
        claimed(table)
        killed(table)
    mine = claimed(table)
    table.finish(mine, "waiting")
    table.wake("r")

    assert claimed(table).attempts == 1


def test_decision_while_it_is_about_to_wait_is_not_lost(table: SqlSubmissions) -> None:
    table.add(NEW)
    mine = claimed(table)

    woken = table.wake_waiting("r")
    state = table.finish(mine, "waiting")

    assert woken
    assert state == "queued"
    assert stand(table).number == mine.number + 1


def test_decision_about_what_has_ended_wakes_nothing(table: SqlSubmissions) -> None:
    table.add(NEW)
    table.finish(claimed(table), "ended", outcome="succeeded")

    assert not table.wake_waiting("r")
    assert not table.wake_waiting("unknown")
    assert stand(table).state == "ended"


def test_what_is_told_is_there_when_it_goes_on(table: SqlSubmissions) -> None:
    table.add(NEW)
    table.finish(claimed(table), "waiting")
    table.wake("r", Inbox(decide={"a": Decision(choice="done")}))
    table.wake("r", Inbox(decide={"b": Decision(choice="fail")}))

    mine = claimed(table)

    assert {name: each.choice for name, each in mine.inbox.decide.items()} == {"a": "done", "b": "fail"}
    with pytest.raises(RunHeld):
        table.wake("r", Inbox(text="hello"))


def test_failure_is_tried_again_and_then_set_aside(table: SqlSubmissions) -> None:
    table.add(NEW)

    states = [table.give_back(claimed(table), error="it broke", is_failure=True) for _ in range(3)]

    assert states == ["queued", "queued", "dead"]
    assert stand(table).error == "it broke"


def test_key_of_another_job_is_refused(table: SqlSubmissions) -> None:
    first = table.add(replace(NEW, key="k"))

    assert table.add(replace(NEW, run_id="s", key="k")).run_id == first.run_id
    with pytest.raises(UsageError):
        table.add(replace(NEW, run_id="s", key="k", request="[]"))
    with pytest.raises(UsageError):
        table.add(NEW)
    assert table.get("s") is None


def test_dead_workers_run_is_queued_again_under_a_new_ticket(table: SqlSubmissions) -> None:
    table.add(NEW)
    mine = claimed(table, "dead")

    taken = [killed(table, "dead") for _ in range(2)]

    assert taken == [1, 0]
    assert (stand(table).state, stand(table).number) == ("queued", mine.number + 1)
    assert table.to_place("me", "q", 10) != []


def test_dead_workers_run_goes_before_all_that_wait(table: SqlSubmissions) -> None:
    table.add(replace(NEW, priority=5))
    claimed(table, "dead")
    for n in range(3):
        table.add(replace(NEW, run_id=f"first{n}", priority=1))

    killed(table, "dead")

    (placed,) = table.to_place("me", "q", 1)
    assert placed.run_id == "r"
    assert placed.ticket("1").priority < min(
        each.ticket("1").priority for each in table.to_place("me", "q", 9)
    )


def test_only_a_worker_that_offers_the_name_takes_what_was_left(table: SqlSubmissions) -> None:
    table.add(NEW)
    table.leave(claimed(table), ["tool mail"], "no mail here")
    lacking, able = up(table, "lacking"), replace(up(table, "able"), offers=("tool mail",))

    taken = [table.take_left(each) for each in (lacking, able)]

    assert taken == [0, 1]
    assert stand(table).channel == "q!able"


def test_what_was_left_is_found_behind_any_number_of_others(
    table: SqlSubmissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_TAKEN_AT_ONCE", 1)
    able = replace(up(table, "able"), offers=("tool mail",))
    for n, name in enumerate(("fax", "mail", "mail", "mail")):
        mine = table.claim(table.add(replace(NEW, run_id=f"r{n}")).ticket("1"), "w")
        assert mine is not None
        table.leave(mine, [f"tool {name}"], "not here")

    taken = [table.take_left(able, {"r2"}) for _ in range(3)]

    assert taken == [1, 1, 0]
    assert {each.run_id for each in table.listed(["unplaced"])} == {"r0", "r2"}


def test_worker_whose_row_cannot_be_read_keeps_no_other_from_taking_over(table: SqlSubmissions) -> None:
    table.add(NEW)
    claimed(table, "odd")
    up(table, "odd")
    up(table, "dead")
    table._write(lambda t: t.execute("UPDATE workers SET holder = '[', offers = '3' WHERE id = 'odd'"))
    listed = {each.id: each.state for each in table.workers()}
    before = table.give_up_dead("me", is_durable=True)

    table._write(lambda t: t.execute("UPDATE workers SET until = until - 60"))
    after = table.give_up_dead("me", is_durable=True)

    assert listed == {"odd": "up", "dead": "up"}
    assert (before, after) == ({}, {"odd": 1, "dead": 0})


def test_pruned_submissions_are_those_of_dropped_runs_and_those_that_never_began(
    table: SqlSubmissions,
) -> None:
    def made(name: str) -> Submission:
        mine = table.claim(table.add(replace(NEW, run_id=name, key=name)).ticket("1"), "w")
        assert mine is not None
        return mine

    for name in ("dropped", "kept"):
        mine = made(name)
        table.begun(mine, "1")
        table.finish(mine, "ended", outcome="succeeded")
    table.finish(made("refused"), "refused", error="no")
    table.add(replace(NEW, run_id="queued"))

    early, late = table.prune(0.0, []), table.prune(2e12, ["dropped", "queued", "unknown"])

    assert (early, late) == (0, 1)
    assert {each.run_id for each in table.listed()} == {"kept", "queued"}
    assert table.add(replace(NEW, run_id="anew", key="dropped")).run_id == "anew"


def test_run_of_a_worker_that_was_forgotten_is_taken_over(table: SqlSubmissions) -> None:
    table.add(NEW)
    claimed(table, "forgotten")
    table.add(replace(NEW, run_id="s", target="forgotten"))
    table.to_place("other", "q", 10)
    up(table, "me")

    table.give_up_dead("me", is_durable=True)

    assert {each.run_id: each.channel for each in table.to_place("me", "q", 10)} == {"r": "q", "s": "q"}
    assert stand(table).attempts == 1


def test_ticket_names_queue_host_and_version() -> None:
    run = replace(NEW, host="h", tenant="t", version="0.9")

    assert run.ticket("1.0") == Ticket(run_id="r", number=1, queue="q@h", tenant="t", version="0.9")
    assert replace(run, host=None, version=None).ticket("1.0").version == "1.0"


def test_runs_of_another_queue_do_not_keep_others_from_being_placed(table: SqlSubmissions) -> None:
    for n in range(5):
        table.add(replace(NEW, run_id=f"other{n}", queue="other", priority=1))
    table.add(replace(NEW, host="elsewhere", run_id="s"))
    table.add(NEW)

    placed = table.to_place("me", "q", 2, lambda run: run.host is None)

    assert [each.run_id for each in placed] == ["r"]


@pytest.mark.parametrize(
    ("column", "value"), [("needs", "["), ("needs", "3"), ("inbox", '{"text": 3}'), ("priority", -7)]
)
def test_row_that_cannot_be_read_is_dead_and_keeps_no_other_from_its_place(
    table: SqlSubmissions, column: str, value: str | int
) -> None:
    table.add(replace(NEW, priority=1))
    table.add(replace(NEW, run_id="s"))
    table._write(lambda t: t.execute(f"UPDATE submissions SET {column} = ? WHERE run_id = 'r'", (value,)))
    listed = {each.run_id: each.state for each in table.listed()}

    placed = table.to_place("me", "q", 10)

    assert listed == {"r": "dead", "s": "queued"}
    assert [each.run_id for each in placed] == ["s"]
    assert table.depth()["q"] == {"dead": 1, "queued": 1}
    assert "cannot be read" in (stand(table).error or "")


def test_row_that_cannot_be_read_any_more_is_dead_when_its_worker_releases_it(table: SqlSubmissions) -> None:
    table.add(NEW)
    mine = claimed(table)
    table._write(lambda t: t.execute("UPDATE submissions SET needs = '['"))

    assert table.finish(mine, "ended") is None
    assert table.depth()["q"] == {"dead": 1}


def test_of_two_workers_that_take_what_was_left_one_gets_it(
    database_url: str, table: SqlSubmissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.add(NEW)
    table.leave(claimed(table), ["tool mail"], "no mail here")
    first, second = (replace(up(table, name), offers=("tool mail",)) for name in ("first", "second"))
    look, taken = sql._could, []
    other_looks = threading.Thread(target=lambda: taken.append(other.take_left(second)))

    def could(worker: WorkerInfo, run: Submission) -> bool:
        """The second looks while the first has looked and not written."""
        if worker.id == "first":
            other_looks.start()
            if database_url.startswith("postgres"):  # SQLite has it wait.
                other_looks.join()
        return look(worker, run)

    with open_database(database_url) as database:
        other = SqlSubmissions(database)
        monkeypatch.setattr(sql, "_could", could)
        taken.append(table.take_left(first))
        other_looks.join()

    assert sorted(taken) == [0, 1]
    assert stand(table).target == "first"


def test_ticket_that_is_lost_is_replaced_unless_its_run_was_claimed(table: SqlSubmissions) -> None:
    for name in ("r", "s"):
        table.add(replace(NEW, run_id=name))
    table.to_place("me", "q", 10)
    found = table.placed_before("q", 0.0, (0.0, ""), 10)
    tickets = [each.ticket("1") for each in found]
    table.claim(tickets[1], "w")

    renewed = table.renew(tickets)

    assert [each.run_id for each in found] == ["r", "s"]
    assert table.placed_before("q", 0.0, (0.0, ""), 10, by="other") == []
    assert table.placed_before("other", 0.0, (0.0, ""), 10) == []
    assert renewed == 1
    assert [each.run_id for each in table.to_place("me", "q", 10)] == ["r"]
    assert stand(table).number == 2


def test_ticket_of_a_run_that_was_queued_long_ago_is_not_lost_before_it_is_enqueued(
    table: SqlSubmissions,
) -> None:
    table.add(NEW)
    table.database.write(
        lambda t: t.execute("UPDATE submissions SET changed = changed - 100, due = due - 100")
    ).result()

    placed = table.to_place("me", "q", 10)

    assert [each.run_id for each in placed] == ["r"]
    assert table.placed_before("q", 30.0, (0.0, ""), 10) == []
    assert len(table.placed_before("q", 0.0, (0.0, ""), 10)) == 1


def test_tenants_have_keys_of_their_own(table: SqlSubmissions) -> None:
    made = {tenant: table.add(replace(NEW, run_id=tenant, key="k", tenant=tenant)) for tenant in ("s", "t")}

    assert [made[tenant].run_id for tenant in ("s", "t")] == ["s", "t"]
    assert table.add(replace(NEW, run_id="u", key="k", tenant="t")) == made["t"]
    with pytest.raises(UsageError):
        table.add(replace(NEW, run_id="s", key="k"))


def test_what_cannot_be_enqueued_lets_others_go_first(table: SqlSubmissions) -> None:
    table.add(replace(NEW, run_id="poison", priority=1))
    table.add(NEW)
    table.to_place("me", "q", 10)

    table.unplace(["poison"], delay_s=60.0)
    table.unplace(["r"])

    assert [each.run_id for each in table.to_place("me", "q", 1)] == ["r"]


def test_scan_right_after_a_claim_leaves_the_run_to_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    with open_records(url, create=True, writes=True) as records:
        table = SqlSubmissions(records.database)
        worker = Worker(table, records, LocalTransport(), place=Place(url), queue="q", concurrency=1)
        table.add(NEW)
        led: list[Submission] = []

        def claim(ticket: Ticket, by: str) -> Submission | None:
            mine = SqlSubmissions.claim(table, ticket, by)
            worker._scan()
            return mine

        monkeypatch.setattr(table, "claim", claim)
        monkeypatch.setattr(worker, "_lead", lambda at_work: led.append(stand(table)))
        worker.work(stand(table).ticket("1"))

        assert [(each.state, each.worker, each.number) for each in led] == [("running", worker.id, 1)]


@pytest.mark.parametrize("column", ["request", "options"])
def test_job_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path, column: str) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    with open_records(url, create=True, writes=True) as records:
        table = SqlSubmissions(records.database)
        worker = Worker(table, records, LocalTransport(), place=Place(url), queue="q", concurrency=1)
        table.add(replace(NEW, **{column: "{"}))  # type: ignore[arg-type]

        worker.work(stand(table).ticket("1"))

        assert stand(table).state == "refused"
        assert "cannot be read" in (stand(table).error or "")


@pytest.mark.parametrize("is_changed", [False, True])
def test_policies_that_differ_from_those_of_the_submission_apply_and_are_reported(
    tmp_path: Path, is_changed: bool
) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    policies = tmp_path / "rules.toml"
    policies.write_text('[[rule]]\nname = "x"\nkind = "deny_tool"\ntool = "shell"\n')
    heard: list[dict[str, object]] = []
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        plan = {"actions": [{"id": "a", "tool": "write_file", "parameters": {"path": "a", "text": "b"}}]}
        job = PlanJob(folder=str(tmp_path), plan=plan)
        options = RunOptions(folder=str(tmp_path), policies=str(policies), permissions="full_access")
        engine.add(job, SubmitOptions(queue="q", run_id="r", run=options))
        worker = Worker(
            engine.submissions,
            records,
            LocalTransport(),
            place=Place(url),
            queue="q",
            concurrency=1,
            report=lambda kind, data: heard.append({"event": kind, **data}),
        )
        if is_changed:
            policies.write_text(policies.read_text().replace("shell", "write_file"))

        worker.work(stand(engine.submissions).ticket("1"))

        data = submission_data(engine, stand(engine.submissions))
    assert data["outcome"] == ("aborted" if is_changed else "succeeded")
    assert (tmp_path / "a").exists() is not is_changed
    assert data["has_other_policies"] is is_changed
    assert ("has_other_policies" in heard[-1]) is is_changed


def test_id_of_a_run_that_was_not_submitted_is_refused(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    plan = {"actions": [{"id": "a", "tool": "act"}]}
    with open_records(url, create=True, writes=True) as records:
        Runtime([act], journal=records.journal).execute_sync(plan, run_id="r")
        engine = QueueEngine(records)
        job = PlanJob(folder=str(tmp_path), plan=plan)
        made = engine.add(job, SubmitOptions(run_id="s", key="k"))
        Runtime([act], journal=records.journal).execute_sync(plan, run_id="s")

        with pytest.raises(UsageError, match="'r' already"):
            engine.add(job, SubmitOptions(run_id="r", scope=Scope(tenant="other")))

        assert engine.add(job, SubmitOptions(run_id="s", key="k")) == made


def test_worker_that_cannot_use_what_it_offers_takes_a_run_once(tmp_path: Path) -> None:
    """The run brings a file of tools of its own, which takes the place of the worker's."""
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    (tmp_path / "own.py").write_text("from placet import tool\n\n@tool\ndef fax() -> None:\n    'Fax.'\n")
    job = PlanJob(folder=str(tmp_path), plan={"actions": [{"id": "a", "tool": "mail"}]})
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions
        worker = Worker(
            table,
            records,
            LocalTransport(),
            place=Place(url, leaves=True),
            queue="q",
            concurrency=1,
            offers=["tool mail"],
        )
        options = RunOptions(folder=str(tmp_path), tools=str(tmp_path / "own.py"))
        engine.add(job, SubmitOptions(queue="q", run_id="r", run=options))
        worker.work(stand(table).ticket("1"))
        left = stand(table)

        worker._scan()

        assert left.needs == ("tool mail",)
        assert stand(table).state == "unplaced"


def test_worker_outlasts_what_it_cannot_read(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    heard: list[tuple[str, object]] = []
    with open_records(url, create=True, writes=True) as records:
        table = SqlSubmissions(records.database)
        worker = Worker(
            table,
            records,
            LocalTransport(),
            place=Place(url),
            queue="q",
            concurrency=1,
            report=lambda kind, data: heard.append((kind, data.get("run_id"))),
        )
        table.add(NEW)
        table._write(lambda t: t.execute("INSERT INTO day_budgets VALUES ('q', '[')"))

        worker.work(stand(table).ticket("1"))

        assert heard == [("problem", "r")]
        assert stand(table).state == "queued"


@pytest.mark.parametrize("leaves", [True, False])
def test_run_whose_model_failed_is_tried_again_where_nobody_sits_before_it(
    tmp_path: Path, leaves: bool
) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    model = tmp_path / "model.json"
    model.write_text('{"turns": [{"calls": [{"name": "calculate", "arguments": {"expression": "1"}}]}]}')
    job = TaskJob(folder=str(tmp_path), text="go", model=f"scripted:{model}", permissions="full_access")
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions
        place = Place(url, leaves=leaves)
        worker = Worker(table, records, LocalTransport(), place=place, queue="q", concurrency=1)
        engine.add(job, SubmitOptions(queue="q", run_id="r"))

        worker.work(stand(table).ticket("1"))
        after = stand(table)
        is_busy = table.is_busy("q")
        model.write_text('{"turns": [{"text": "done"}]}')
        worker.work(after.ticket("1"))

        assert (after.state, after.attempts) == (("queued", 1) if leaves else ("canceled", 0))
        assert "inference failed" in (after.error or "")
        assert is_busy is leaves
        assert stand(table).outcome == ("succeeded" if leaves else "canceled")


STAND = '''
import asyncio

from placet import tool


@tool(risk="read_only")
async def stand() -> str:
    """Stand until somebody stops it."""
    await asyncio.Event().wait()
    return ""
'''


def test_run_whose_journal_is_asked_to_stop_is_not_tried_again(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    model, tools = tmp_path / "model.json", tmp_path / "stand.py"
    model.write_text('{"turns": [{"calls": [{"name": "stand", "arguments": {}}]}, {"text": "done"}]}')
    tools.write_text(STAND)
    job = TaskJob(folder=str(tmp_path), text="go", model=f"scripted:{model}", permissions="full_access")
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions

        def watch(run_id: str, tenant: str | None, event: StreamEvent[Any]) -> None:
            if isinstance(event, ToolCallStarted):
                records.journal.request_stop(run_id, StopRequest(reason="enough"))

        place = Place(url, leaves=True, tools=str(tools))
        worker = Worker(table, records, LocalTransport(), place=place, queue="q", concurrency=1, watch=watch)
        engine.add(job, SubmitOptions(queue="q", run_id="r"))

        worker.work(stand(table).ticket("1"))

        assert (stand(table).state, stand(table).error) == ("canceled", "enough")


def test_request_to_stop_is_done_with_once_somebody_wants_the_run_to_go_on(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions

        def left() -> tuple[str | None, str | None]:
            """Requests that the next worker would find: of the submission, and of the journal."""
            ((stop,),) = records.database.select("SELECT stop FROM runs WHERE run_id = 'r'")
            return stand(table).stop, stop

        def stopped() -> None:
            mine = table.claim(stand(table).ticket("1"), "w")
            assert mine is not None
            assert table.begun(mine, "1")
            assert table.cancel("r", "enough") == "running"
            records.journal.request_stop("r", StopRequest(reason="enough"))
            assert table.finish(mine, "canceled", outcome="canceled") == "canceled"

        new = engine.add(sum_job(tmp_path), SubmitOptions(queue="q", run_id="r"))
        stop = Cancel()
        stop.cancel("enough", cause=StopCause.PERSON)
        run_sync(kinds.begin(new.request, new.options, "r", Place(url), stop))

        stopped()
        assert engine.retry("r")
        retried = left()
        stopped()
        run_sync(engine.wake("r"))
        woken = left()

        assert (retried, woken) == ((None, None), (None, None))


def test_run_that_is_to_stop_ends_on_a_worker_that_lacks_what_it_needs(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    plan = {"actions": [{"id": "a", "tool": "nowhere", "parameters": {}}]}
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions
        place = Place(url, leaves=True)
        worker = Worker(table, records, LocalTransport(), place=place, queue="q", concurrency=1)
        engine.add(PlanJob(folder=str(tmp_path), plan=plan), SubmitOptions(queue="q", run_id="r"))
        mine = table.claim(stand(table).ticket("1"), "gone")
        assert mine is not None
        assert table.begun(mine, worker.info.version)
        table.give_back(mine)
        run_sync(engine.cancel("r", "enough"))

        worker.work(stand(table).ticket("1"))

        assert (stand(table).state, stand(table).error) == ("canceled", "enough")


def test_run_that_is_claimed_while_its_worker_is_drained_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions
        worker = Worker(table, records, LocalTransport(), place=Place(url), queue="q", concurrency=1)
        engine.add(sum_job(tmp_path), SubmitOptions(queue="q", run_id="r"))

        def claim(ticket: Ticket, by: str) -> Submission | None:
            mine = SqlSubmissions.claim(table, ticket, by)
            worker.drain()
            return mine

        monkeypatch.setattr(table, "claim", claim)
        worker.work(stand(table).ticket("1"))

        assert (stand(table).state, stand(table).attempts, stand(table).version) == ("queued", 0, None)
        assert records.journal.runs() == []


def test_worker_that_was_given_up_before_it_began_a_run_does_not_begin_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions
        worker = Worker(table, records, LocalTransport(), place=Place(url), queue="q", concurrency=1)
        engine.add(sum_job(tmp_path), SubmitOptions(queue="q", run_id="r"))

        def claim(ticket: Ticket, by: str) -> Submission | None:
            mine = SqlSubmissions.claim(table, ticket, by)
            killed(table, by)
            return mine

        monkeypatch.setattr(table, "claim", claim)
        worker.work(stand(table).ticket("1"))

        assert (stand(table).state, stand(table).number, stand(table).version) == ("queued", 2, None)
        assert records.journal.runs() == []


def test_run_that_its_former_worker_began_after_all_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    with open_records(url, create=True, writes=True) as records:
        engine = QueueEngine(records)
        table = engine.submissions
        worker = Worker(table, records, LocalTransport(), place=Place(url), queue="q", concurrency=1)
        new = engine.add(sum_job(tmp_path), SubmitOptions(queue="q", run_id="r"))
        stopped = Cancel()
        stopped.cancel("another worker has taken it over", cause=StopCause.LEASE_LOST)
        run_sync(kinds.begin(new.request, new.options, "r", Place(url), stopped))
        looks = iter([True])

        def stored(run_id: str) -> Stored | None:
            """Not there yet when it is first looked for."""
            return None if next(looks, False) else Worker._stored(worker, run_id)

        monkeypatch.setattr(worker, "_stored", stored)
        worker.work(new.ticket("1"))

        assert (stand(table).state, stand(table).outcome) == ("ended", "succeeded")


def sum_job(folder: Path) -> PlanJob:
    plan = {"actions": [{"id": "a", "tool": "calculate", "parameters": {"expression": "1"}}]}
    return PlanJob(folder=str(folder), plan=plan)
