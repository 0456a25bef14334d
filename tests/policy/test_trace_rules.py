"""Rules over what has run: which calls they are about, what counts as having run, and in which order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet import Cancel, CostBudget, DenyTool, ReplanConfig, Runtime, SqlJournal, ToolError, open_database
from placet.errors import RuleError
from placet.ir.result import ProposalResult
from placet.policy.calls import Calls
from placet.policy.trace import TraceRule
from placet.tools import Tool
from placet.verify.report import Report
from tests.runtime.conftest import schedule
from tests.runtime.plans import Fields, Recorder, call, plan, statuses, undone_by, write

__all__ = ["schedule"]

SCHEDULES = ("levels", "dataflow")
PATIENCE_S = 20.0

AFTER = TraceRule(tool="deploy", only_after=Calls(tool="test"))
NOT_YET = "policy 'r': tool 'test' has not run yet"


def tools(recorder: Recorder) -> list[Tool]:
    """Of every risk one, each with a label."""
    return [
        recorder.tool("test", "green", risk="read_only", labels=["checks"]),
        recorder.tool("read", "text", risk="read_only", labels=["files"]),
        recorder.tool("put", "ok", risk="idempotent", labels=["files"]),
        recorder.tool("send", "sent", risk="network", labels=["mail"]),
        recorder.tool("deploy", "up", risk="destructive", labels=["release"]),
        recorder.tool("book", "booked", reversibility="compensable"),
        recorder.tool("cancel", "gone", risk="idempotent", reversibility="reversible"),
        recorder.tool("boom", raises=ToolError("broken", retry=False), risk="read_only"),
    ]


def runtime(recorder: Recorder, *rules: Any, **options: Any) -> Runtime:
    return Runtime(tools=tools(recorder), policies=[("r", rule) for rule in rules], **options)


def row(*actions: Fields) -> Fields:
    """One after the other, and none of them stops the others."""
    return plan(*({"failure_behavior": "skip", **action} for action in actions))


def said(report: Report) -> dict[str, str]:
    """What verify says of each action it has an error for."""
    return {i.action_id or "": i.message for i in report.errors}


def wrong(result: ProposalResult) -> dict[str, str]:
    """What each action that was rejected was told."""
    return {r.action_id: r.error or "" for r in result.results if r.status == "rejected"}


async def judged(rt: Runtime, proposal: Fields, **options: Any) -> dict[str, str]:
    """Who is denied, and why: verify and execute must say the same."""
    report = rt.verify(proposal, **options)

    result = await rt.execute(proposal, **options)

    assert report.undecided == []
    found = said(report)
    assert found.keys() == {r.action_id for r in result.results if r.status != "succeeded"}
    assert {name: found[name] for name in wrong(result)} == wrong(result)
    return wrong(result)


# The four


@pytest.mark.parametrize("given", [{}, {"at_most": 1, "only_after": Calls()}], ids=["none", "two"])
def test_a_rule_says_exactly_one_thing(given: Any) -> None:
    with pytest.raises(RuleError, match="exactly one of"):
        TraceRule(**given)


FOUR: list[tuple[str, TraceRule, list[str], dict[int, str]]] = [
    ("after", AFTER, ["deploy", "test", "deploy", "deploy"], {0: "tool 'test' has not run yet"}),
    (
        "before",
        TraceRule(tool="put", only_before=Calls(tool="send")),
        ["put", "send", "put", "send"],
        {2: "tool 'send' has run"},
    ),
    (
        "never with",
        TraceRule(tool="send", never_with=Calls(tool="read")),
        ["test", "read", "send", "read"],
        {2: "tool 'read' has run"},
    ),
    (
        "never with, the other way",
        TraceRule(tool="send", never_with=Calls(tool="read")),
        ["send", "read", "send"],
        {1: "tool 'send' has run"},
    ),
    ("none", TraceRule(tool="put", at_most=0), ["put", "send"], {0: "0 have run, and no more may"}),
    ("one", TraceRule(tool="put", at_most=1), ["put", "put", "send"], {1: "1 have run, and no more may"}),
    (
        "three of a kind",
        TraceRule(risk=["idempotent", "destructive"], at_most=3),
        ["put", "deploy", "test", "put", "deploy", "put", "send"],
        {4: "3 have run, and no more may", 5: "3 have run, and no more may"},
    ),
    (
        "by risk",
        TraceRule(risk="network", only_before=Calls(risk=["destructive"])),
        ["send", "deploy", "send"],
        {2: "a destructive tool has run"},
    ),
    (
        "by label",
        TraceRule(label="mail", never_with=Calls(label="files")),
        ["put", "send"],
        {1: "a tool labelled 'files' has run"},
    ),
    (
        "by all",
        TraceRule(tool="de*", only_after=Calls(tool="*es*", risk="read_only", label="checks")),
        ["deploy", "read", "deploy", "test", "deploy"],
        {
            0: "read_only tool '*es*' labelled 'checks' has not run yet",
            2: "read_only tool '*es*' labelled 'checks' has not run yet",
        },
    ),
    (
        "its own words",
        TraceRule(tool="deploy", only_after=Calls(tool="test"), reason="test first"),
        ["deploy", "test", "deploy"],
        {0: "test first"},
    ),
    (
        "after one of its own",
        TraceRule(tool="put", only_after=Calls(tool="put")),
        ["put"],
        {0: "tool 'put' has not run yet"},
    ),
    (
        "never twice",
        TraceRule(tool="put", never_with=Calls(tool="put")),
        ["put", "put"],
        {1: "tool 'put' has run"},
    ),
]


@pytest.mark.parametrize(
    ("rule", "names", "denied"), [case[1:] for case in FOUR], ids=[case[0] for case in FOUR]
)
@pytest.mark.parametrize("how", ["listed", "chained"])
async def test_what_may_follow_what(
    recorder: Recorder, schedule: Any, rule: TraceRule, names: list[str], denied: dict[int, str], how: str
) -> None:
    """Whether the plan orders the calls or the rule does, it is the order in which they are listed."""
    rt = runtime(recorder, rule, schedule=schedule)
    actions = [call(f"a{i}", name, {"n": i}) for i, name in enumerate(names)]
    if how == "chained":
        # By conflicts, not by dependencies: those would skip what follows a call that is denied.
        actions = [{**a, "write_set": ["line"]} for a in actions]

    found = await judged(rt, row(*actions))

    assert found == {f"a{i}": f"policy 'r': {why}" for i, why in denied.items()}
    assert sorted(p["n"] for _, p in recorder.calls) == [i for i in range(len(names)) if i not in denied]


# Paths


PATHS: list[tuple[str, str, bool]] = [
    ("secrets/*", "secrets/x", True),
    ("secrets/*", "./a/../secrets/x", True),
    ("secrets/*", "secrets//x", True),
    ("secrets/*", "secrets/./x/../y", True),
    ("secrets/*", "/home/me/secrets/x", True),
    ("secrets/*", "../../secrets/deep/x", True),
    ("secrets/*", "secrets\\x", True),
    ("secrets/*", "C:\\work\\.\\secrets\\x", True),
    ("secrets/*", "secrets/../public/x", False),
    ("secrets/*", "my-secrets/x", False),
    ("secrets/*", "secretsx", False),
    ("*.key", "a/b.key", True),
    ("*.key", "a/b.keys", False),
    ("/etc/*", "/etc/passwd", True),
    ("/etc/*", "/var/../etc/./passwd", True),
    ("/etc/*", "//etc/passwd", True),
    ("/etc/*", "///etc/passwd", True),
    ("/etc/*", "home/etc/passwd", False),
    ("/etc/*", "/home/etc/passwd", False),
    ("a.txt", "x/a.txt", True),
    ("a.txt", "x/a.txt/", True),
]


@pytest.mark.parametrize(("pattern", "path", "fits"), PATHS)
async def test_a_path_is_read_as_the_system_would(
    recorder: Recorder, pattern: str, path: str, fits: bool
) -> None:
    rt = runtime(recorder, TraceRule(path=pattern, at_most=0))

    found = await judged(rt, row(call("a", "read", {"n": 1, "file": path})))

    assert found == ({"a": "policy 'r': 0 have run, and no more may"} if fits else {})


@pytest.mark.parametrize(
    "parameters",
    [{"x": ["secrets/a"]}, {"x": {"y": [{"z": "secrets/a"}]}}, {"x": {"secrets/a": 1}}],
    ids=["list", "deep", "name"],
)
async def test_a_path_may_stand_anywhere_in_the_parameters(recorder: Recorder, parameters: Fields) -> None:
    rt = runtime(recorder, TraceRule(risk="network", never_with=Calls(path="secrets/*")))

    found = await judged(rt, row(call("a", "read", parameters), call("b", "send")))

    assert found == {"b": "policy 'r': a tool on 'secrets/*' has run"}


async def test_only_calls_on_the_path_count(recorder: Recorder) -> None:
    rule = TraceRule(tool="send", path="out/*", never_with=Calls(tool="read", path="secrets/*"))
    rt = runtime(recorder, rule)
    actions = [
        call("public", "read", {"file": "public/x"}),
        call("a", "send", {"to": "elsewhere"}),
        call("secret", "read", {"file": "secrets/x"}),
        call("b", "send", {"to": "elsewhere"}),
        call("c", "send", {"to": "out/x"}),
    ]

    assert await judged(rt, row(*actions)) == {"c": "policy 'r': tool 'read' on 'secrets/*' has run"}


@pytest.mark.parametrize("answer", ["secrets/x", "public/x"])
@pytest.mark.parametrize("rule", ["subject", "other", "count"])
async def test_a_path_that_a_tool_chooses_is_decided_when_it_is_known(
    recorder: Recorder, schedule: Any, answer: str, rule: str
) -> None:
    rules = {
        "subject": TraceRule(tool="read", path="secrets/*", only_after=Calls(tool="test")),
        "other": TraceRule(tool="send", never_with=Calls(tool="read", path="secrets/*")),
        "count": TraceRule(tool="read", path="secrets/*", at_most=0),
    }
    rt = Runtime(
        tools=[*tools(recorder), recorder.tool("where", answer, risk="read_only")],
        policies=[("r", rules[rule])],
        schedule=schedule,
    )
    proposal = row(call("w", "where"), call("a", "read", {"file": "$w.output"}), call("b", "send"))

    report = rt.verify(proposal)
    result = await rt.execute(proposal)

    asked = "b" if rule == "other" else "a"
    assert report.valid
    assert asked in {i.action_id for i in report.undecided}
    assert list(wrong(result)) == ([asked] if answer.startswith("secrets") else [])


# What counts as having run


async def test_a_rejected_call_has_not_run(recorder: Recorder, schedule: Any) -> None:
    no = DenyTool(tool="test", path="no")
    rt = runtime(recorder, AFTER, schedule=schedule)
    rt.add_policy("no", no)
    rt.add_policy("once", TraceRule(tool="test", at_most=1))

    found = await judged(
        rt,
        row(
            call("a", "test", {"x": "no"}),
            call("b", "deploy"),
            call("c", "test"),
            call("d", "deploy"),
        ),
    )

    assert found == {"a": "policy 'no': tool 'test' is denied", "b": NOT_YET}


async def test_a_skipped_call_has_not_run(recorder: Recorder, schedule: Any) -> None:
    rt = runtime(recorder, AFTER, schedule=schedule)
    rt.add_policy("once", TraceRule(tool="test", at_most=1))
    rt.add_policy("no", DenyTool(tool="send"))
    actions = [
        call("n", "send"),
        call("a", "test", dependencies=["n"]),
        call("b", "deploy"),
        call("c", "test"),
        call("d", "deploy"),
    ]

    found = await judged(rt, row(*actions))

    assert found == {"n": "policy 'no': tool 'send' is denied", "b": NOT_YET}
    assert recorder.names == ["test", "deploy"]


@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        (TraceRule(tool="deploy", only_after=Calls(tool="boom")), "tool 'boom' has not run yet"),
        (TraceRule(tool="deploy", only_before=Calls(tool="boom")), "tool 'boom' has run"),
        (TraceRule(tool="deploy", never_with=Calls(tool="boom")), "tool 'boom' has run"),
        (TraceRule(tool="boom", never_with=Calls(tool="deploy")), "tool 'boom' has run"),
        (TraceRule(tool="*o*", at_most=1), "1 have run, and no more may"),
    ],
)
async def test_a_failed_call_has_run_but_nothing_may_rely_on_it(
    recorder: Recorder, schedule: Any, rule: TraceRule, denied: str
) -> None:
    rt = runtime(recorder, rule, schedule=schedule)

    result = await rt.execute(row(call("a", "boom"), call("b", "deploy")))

    assert wrong(result) == {"b": f"policy 'r': {denied}"}
    assert recorder.names == ["boom"]


async def test_a_retried_call_counts_once(recorder: Recorder) -> None:
    flaky = recorder.tool("flaky", "ok", raises=[ToolError("not yet"), None], risk="idempotent")
    rt = Runtime(tools=[flaky], policies=[("r", TraceRule(tool="flaky", at_most=2))])

    result = await rt.execute(
        plan(call("a", "flaky", {"n": 1}, failure_behavior="retry"), call("b", "flaky", {"n": 2}))
    )

    assert statuses(result) == {"a": "succeeded", "b": "succeeded"}
    assert len(recorder.calls) == 3


@pytest.mark.parametrize("memory", ["cached", "deduplicated"])
async def test_a_call_that_is_answered_from_memory_counts(recorder: Recorder, memory: str) -> None:
    """It has passed every gate, and the plan goes on as if it had been made."""
    options: dict[str, Any] = {"cache_ttl_secs": 3600.0} if memory == "cached" else {"idempotent": True}
    asked = recorder.tool("ask", "fine", risk="read_only", **options)
    rt = Runtime(tools=[asked, *tools(recorder)])
    first = call("a", "ask", idempotent=memory == "deduplicated")
    await rt.execute(plan(first))
    rt.add_policy("after", TraceRule(tool="deploy", only_after=Calls(tool="ask")))
    rt.add_policy("once", TraceRule(tool="ask", at_most=1))

    result = await rt.execute(row(call("x", "deploy"), first, call("b", "deploy"), {**first, "id": "c"}))

    assert wrong(result) == {
        "x": "policy 'after': tool 'ask' has not run yet",
        "c": "policy 'once': 1 have run, and no more may",
    }
    assert recorder.names == ["ask", "deploy"]


async def test_two_equal_calls_in_flight_count_as_two(recorder: Recorder) -> None:
    rt = runtime(recorder, TraceRule(tool="put", at_most=2), schedule="dataflow")
    same = {"parameters": {"n": 1}, "tool": "put", "idempotent": True, "failure_behavior": "skip"}

    result = await rt.execute(plan(*({"id": f"a{i}", **same} for i in range(3))))

    assert wrong(result) == {"a2": "policy 'r': 2 have run, and no more may"}
    assert recorder.names == ["put"]


async def test_a_call_for_which_no_budget_was_left_has_not_run(recorder: Recorder) -> None:
    rt = runtime(recorder)
    session = rt.open_session()
    rt.add_policy("once", TraceRule(tool="deploy", at_most=1), session=session)

    stopped = await rt.execute(plan(call("a", "deploy")), session=session, budget=CostBudget(max_actions=0))
    result = await rt.execute(plan(call("b", "deploy")), session=session)

    assert statuses(stopped) == {"a": "skipped"}
    assert statuses(result) == {"b": "succeeded"}
    assert recorder.names == ["deploy"]


async def test_compensations_count_as_what_they_are(recorder: Recorder) -> None:
    rt = runtime(recorder)
    session = rt.open_session()
    rt.add_policy("one", TraceRule(tool="cancel", at_most=1), session=session)
    aborts = [call("a", "book", **undone_by("cancel", n=1)), call("b", "book", **undone_by("cancel", n=2))]

    aborted = await rt.execute(plan(*aborts, call("z", "boom", dependencies=["a", "b"])), session=session)
    later = await rt.execute(plan(call("c", "cancel")), session=session)

    assert [(c.action_id, c.status) for c in aborted.compensations] == [("b", "succeeded"), ("a", "rejected")]
    assert aborted.compensations[1].error == "policy 'one': 1 have run, and no more may"
    assert wrong(later) == {"c": "policy 'one': 1 have run, and no more may"}
    assert recorder.calls[-1] == ("cancel", {"n": 2})


async def test_a_compensation_is_no_success_to_rely_on_once_the_plan_is_taken_back(
    recorder: Recorder,
) -> None:
    rt = runtime(recorder)
    session = rt.open_session()
    rt.add_policy("r", TraceRule(tool="deploy", only_after=Calls(tool="book")), session=session)

    await rt.execute(plan(call("a", "book", **undone_by("cancel")), call("b", "boom")), session=session)
    result = await rt.execute(plan(call("c", "deploy")), session=session)

    assert recorder.names == ["book", "boom", "cancel"]
    assert wrong(result) == {"c": "policy 'r': tool 'book' has not run yet"}


# Across replans


def replanning(recorder: Recorder, *answers: Fields, **options: Any) -> Runtime:
    left = list(answers)
    config = {"max_replans": len(answers), **options.pop("config", {})}
    return Runtime(
        tools=tools(recorder),
        replan=lambda context: left.pop(0),
        replan_config=ReplanConfig(**config),
        **options,
    )


@pytest.mark.parametrize("verified", [True, False], ids=["verified", "unverified"])
async def test_what_an_aborted_plan_did_is_no_longer_there_to_rely_on(
    recorder: Recorder, verified: bool
) -> None:
    rt = replanning(
        recorder,
        row(call("c", "deploy")),
        config={"verify_before_execute": verified},
        policies=[("r", AFTER)],
    )

    result = await rt.execute(plan(call("a", "test"), call("b", "boom", dependencies=["a"])))

    assert "deploy" not in recorder.names
    if verified:
        assert result.outcome == "aborted"
    else:
        assert wrong(result) == {"c": NOT_YET}


@pytest.mark.parametrize("verified", [True, False], ids=["verified", "unverified"])
async def test_what_stayed_counts_for_the_next_plan(recorder: Recorder, verified: bool) -> None:
    """The failed plan did not abort, so the tests it ran are there to rely on."""
    rt = replanning(
        recorder,
        row(call("c", "deploy")),
        config={"verify_before_execute": verified},
        policies=[("r", AFTER)],
    )

    result = await rt.execute(row(call("a", "test"), call("b", "boom", failure_behavior="retry")))

    assert statuses(result) == {"c": "succeeded"}
    assert recorder.names == ["test", "boom", "deploy"]


@pytest.mark.parametrize("verified", [True, False], ids=["verified", "unverified"])
async def test_counts_go_on_in_the_next_plan(recorder: Recorder, verified: bool) -> None:
    """Also what was taken back has run."""
    rt = replanning(
        recorder,
        row(call("c", "deploy"), call("d", "test")),
        config={"verify_before_execute": verified},
        policies=[("r", TraceRule(tool="deploy", at_most=1))],
    )

    result = await rt.execute(plan(call("a", "deploy"), call("b", "boom", dependencies=["a"])))

    assert recorder.names.count("deploy") == 1
    if not verified:
        assert wrong(result) == {"c": "policy 'r': 1 have run, and no more may"}


async def test_a_run_of_its_own_begins_from_nothing(recorder: Recorder) -> None:
    rt = runtime(recorder, TraceRule(tool="deploy", at_most=1))

    results = [await rt.execute(plan(call("a", "deploy"))) for _ in range(2)]

    assert [r.outcome for r in results] == ["succeeded", "succeeded"]


# Sessions


async def test_a_session_remembers_from_one_proposal_to_the_next(recorder: Recorder) -> None:
    """Another session, and runs without one, are not touched by it."""
    rt = runtime(recorder, AFTER)
    here, there = rt.open_session(), rt.open_session()

    await rt.execute(plan(call("a", "test")), session=here)
    proposal = row(call("b", "deploy"))
    found = [await judged(rt, proposal, session=session) for session in (here, there, None)]

    assert found == [{}, {"b": NOT_YET}, {"b": NOT_YET}]
    assert recorder.names == ["test", "deploy"]


async def test_a_rule_of_a_session_counts_there_alone(recorder: Recorder) -> None:
    rt = runtime(recorder)
    here, there = rt.open_session(), rt.open_session()
    rt.add_policy("r", TraceRule(tool="deploy", at_most=1), session=here)
    proposal = row(call("a", "deploy"))

    found = [await judged(rt, proposal, session=s) for s in (there, None, here, there, here)]

    assert found == [{}, {}, {}, {}, {"a": "policy 'r': 1 have run, and no more may"}]


async def test_verify_counts_nothing(recorder: Recorder) -> None:
    rt = runtime(recorder, AFTER)
    rt.add_policy("once", TraceRule(tool="deploy", at_most=1))
    session = rt.open_session()
    proposal = row(call("a", "test"), call("b", "deploy"))

    reports = [rt.verify(proposal, session=session) for _ in range(3)]
    opinions = [rt.opinions(proposal, session=session) for _ in range(2)]

    assert [r.valid for r in reports] == [True, True, True]
    assert opinions[0] == opinions[1]
    assert await judged(rt, proposal, session=session) == {}


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_two_proposals_at_once_under_one_session_do_not_both_slip_through(
    recorder: Recorder, schedule: Any
) -> None:
    rt = runtime(recorder, TraceRule(tool="deploy", at_most=1), schedule=schedule)
    session = rt.open_session()

    results = await asyncio.gather(
        *(rt.execute(row(call(f"a{i}", "deploy")), session=session) for i in range(5))
    )

    assert recorder.names == ["deploy"]
    assert sorted(r.results[0].status for r in results) == ["rejected"] * 4 + ["succeeded"]


# Resuming


class Disk:
    """A database in a folder, and what would be left of it if the process died now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "first.db"

    async def until_noted(self, *keys: str) -> None:
        """Wait until these actions (`PLAN-POSITION`) are on disk as ended."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not set(keys) <= self._ended():
            assert asyncio.get_running_loop().time() < deadline, "it was never noted"
            await asyncio.sleep(0.005)

    def _ended(self) -> set[str]:
        with closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute("SELECT note FROM journal").fetchall()
        notes = [msgspec.json.decode(note) for (note,) in rows]
        return {note["key"] for note in notes if note["note"] == "ended"}

    def image(self) -> Path:
        """A copy of what is on disk, whose runs nobody holds any more."""
        path = self.folder / "left.db"
        with closing(sqlite3.connect(self.path)) as old, closing(sqlite3.connect(path)) as new:
            old.backup(new)
            new.execute("UPDATE runs SET held_until = 0")
            new.commit()
        return path


async def killed(
    folder: Path,
    make: Callable[[SqlJournal], Runtime],
    proposal: Fields,
    hangs: asyncio.Event,
    *noted: str,
    prepare: Callable[[Runtime], Awaitable[Any]] | None = None,
    **options: Any,
) -> Path:
    """Run until a tool hangs and these actions are noted; then what a dead process leaves, as a database."""
    disk = Disk(folder)
    with open_database(str(disk.path)) as database:
        journal = SqlJournal(database)
        rt = make(journal)
        if prepare is not None:
            await prepare(rt)
        task = asyncio.create_task(rt.execute(proposal, run_id="k", **options))
        await hangs.wait()
        await disk.until_noted(*noted)
        image = disk.image()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        journal.close()
    return image


async def resumed(image: Path, make: Callable[[SqlJournal], Runtime], **options: Any) -> ProposalResult:
    """The run, taken up by another process."""
    with open_database(str(image)) as database:
        journal = SqlJournal(database)
        result = await make(journal).resume("k", **options)
        journal.close()
    return result


class Gate:
    """A tool that hangs the first time, and lets pass afterwards."""

    def __init__(self) -> None:
        self.hangs = asyncio.Event()
        self._open = False

    def tool(self, recorder: Recorder, name: str = "gate", risk: Any = "read_only", **schema: Any) -> Tool:
        async def answer(parameters: Fields) -> str:
            if self._open:
                return "open"
            self._open = True
            self.hangs.set()
            await asyncio.Event().wait()
            return ""

        return recorder.tool(name, answer, risk=risk, **schema)


@pytest.mark.parametrize(
    ("rule", "before", "denied"),
    [
        (AFTER, [call("a", "test")], False),
        (AFTER, [call("a", "read")], True),
        (TraceRule(tool="deploy", only_after=Calls(tool="boom")), [call("a", "boom")], True),
        (TraceRule(tool="deploy", only_before=Calls(tool="boom")), [call("a", "boom")], True),
        (TraceRule(tool="deploy", never_with=Calls(label="files")), [call("a", "read")], True),
        (TraceRule(tool="deploy", at_most=1), [call("a", "deploy")], True),
        (TraceRule(tool="deploy", at_most=2), [call("a", "deploy")], False),
        (
            TraceRule(tool="deploy", at_most=1),
            [call("x", "boom"), call("a", "deploy", dependencies=["x"])],
            False,
        ),
        (TraceRule(tool="deploy", at_most=1), [call("a", "deploy", preconditions=[{"key": "no"}])], False),
        (
            TraceRule(tool="deploy", never_with=Calls(path="secrets/*")),
            [call("w", "where"), call("a", "read", {"file": "$w.output"})],
            True,
        ),
    ],
    ids=[
        "after",
        "not after",
        "after a failure",
        "before a failure",
        "never with",
        "at most one",
        "at most two",
        "a skipped one",
        "a rejected one",
        "a path that was filled in",
    ],
)
async def test_what_ran_before_the_process_died_counts(
    recorder: Recorder, tmp_path: Path, rule: TraceRule, before: list[Fields], denied: bool
) -> None:
    gate = Gate()

    def make(journal: SqlJournal) -> Runtime:
        where = recorder.tool("where", "secrets/x", risk="read_only")
        return Runtime(
            tools=[*tools(recorder), gate.tool(recorder), where], policies=[("r", rule)], journal=journal
        )

    order = {"write_set": ["line"]}
    proposal = row(*({**a, **order} for a in (*before, call("g", "gate"), call("z", "deploy", {"n": 9}))))
    noted = [f"0-{i}" for i, a in enumerate(before) if "dependencies" not in a]  # What is skipped is not.
    image = await killed(tmp_path, make, proposal, gate.hangs, *noted)
    recorder.calls.clear()

    result = await resumed(image, make)

    assert ("z" in wrong(result)) is denied
    assert recorder.calls == [("gate", {})] + ([] if denied else [("deploy", {"n": 9})])


async def test_what_an_earlier_plan_ran_counts_after_the_process_died(
    recorder: Recorder, tmp_path: Path
) -> None:
    gate = Gate()
    after = row(call("g", "gate"), call("z", "deploy", dependencies=["g"]), call("y", "put"))
    rules = [("r", AFTER), ("one", TraceRule(tool="put", at_most=1))]

    def make(journal: SqlJournal) -> Runtime:
        rt = replanning(
            recorder, after, config={"verify_before_execute": False}, policies=rules, journal=journal
        )
        rt.tools.add(gate.tool(recorder))
        return rt

    first = row(call("a", "test"), call("p", "put"), call("b", "boom", failure_behavior="retry"))
    image = await killed(tmp_path, make, first, gate.hangs, "0-0", "0-1", "0-2", "1-2")
    recorder.calls.clear()

    result = await resumed(image, make)

    assert statuses(result) == {"g": "succeeded", "z": "succeeded", "y": "rejected"}
    assert recorder.names == ["gate", "deploy"]


async def test_under_a_session_a_run_that_is_taken_up_again_counts_once(
    recorder: Recorder, tmp_path: Path
) -> None:
    """Broken off by the person and taken up in the same session."""
    gate, cancel = Gate(), Cancel()
    with open_database(str(tmp_path / "runs.db")) as database:
        journal = SqlJournal(database)
        rt = Runtime(tools=[*tools(recorder), gate.tool(recorder)], journal=journal)
        session = rt.open_session()
        rt.add_policy("two", TraceRule(tool="deploy", at_most=2), session=session)
        proposal = row(
            call("a", "deploy"),
            call("g", "gate", dependencies=["a"]),
            call("z", "deploy", dependencies=["g"]),
        )
        task = asyncio.create_task(rt.execute(proposal, session=session, cancel=cancel, run_id="k"))
        await gate.hangs.wait()
        cancel.cancel("enough", hard=True)
        canceled = await task

        result = await rt.resume("k", session=session)
        journal.close()

    assert canceled.outcome == "canceled"
    assert statuses(result) == {"a": "succeeded", "g": "succeeded", "z": "succeeded"}
    assert recorder.names == ["deploy", "gate", "gate", "deploy"]


@pytest.mark.parametrize("choice", ["done", "fail", "retry"])
@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        (TraceRule(risk="destructive", at_most=1), {"done", "fail", "retry"}),
        (TraceRule(tool="deploy", never_with=Calls(tool="act")), {"done", "fail", "retry"}),
        (TraceRule(tool="deploy", only_after=Calls(tool="act")), {"fail"}),
        (TraceRule(tool="deploy", never_with=Calls(tool="act", path="secrets/*")), {"done", "fail", "retry"}),
    ],
    ids=["at most", "never with", "after", "on a path"],
)
async def test_what_a_person_decided_about_counts_as_having_run(
    recorder: Recorder, tmp_path: Path, rule: TraceRule, denied: set[str], choice: Any
) -> None:
    """It was in flight when the process died: it had passed every gate, and may have happened."""
    gate = Gate()

    def make(journal: SqlJournal) -> Runtime:
        rt = Runtime(
            tools=[*tools(recorder), recorder.tool("where", "secrets/x", risk="read_only")],
            policies=[("r", rule)],
            journal=journal,
        )
        rt.tools.add(gate.tool(recorder, "act", risk="destructive"))
        return rt

    order = {"write_set": ["line"]}
    proposal = row(
        call("w", "where", **order),
        call("a", "act", {"file": "$w.output"}, **order),
        call("z", "deploy", {"n": 9}, **order),
    )
    image = await killed(tmp_path, make, proposal, gate.hangs, "0-0")

    result = await resumed(image, make, decide={"a": choice})

    assert ("z" in wrong(result)) is (choice in denied), wrong(result)


async def test_compensations_that_ran_before_the_process_died_count(
    recorder: Recorder, tmp_path: Path
) -> None:
    gate = Gate()

    def make(journal: SqlJournal) -> Runtime:
        rt = runtime(recorder, TraceRule(tool="cancel", at_most=1), journal=journal)
        rt.tools.add(gate.tool(recorder))
        return rt

    undo = {"a": undone_by("cancel", n="a"), "b": undone_by("gate"), "c": undone_by("cancel", n="c")}
    books = [call(name, "book", {"n": name}, write_set=["line"], **undo[name]) for name in "abc"]
    proposal = plan(*books, call("z", "boom", dependencies=["a", "b", "c"]))
    image = await killed(tmp_path, make, proposal, gate.hangs, "0-0", "0-1", "0-2", "0-2-undo")
    recorder.calls.clear()

    result = await resumed(image, make)

    assert [(c.action_id, c.status) for c in result.compensations] == [
        ("c", "succeeded"),
        ("b", "succeeded"),
        ("a", "rejected"),
    ]
    assert recorder.names == ["gate"]


# The order that a rule makes


class Overlap:
    """Tools that write down who was inside together; each stays inside for as long as others can start."""

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.together: set[frozenset[str]] = set()
        self.order: list[str] = []

    def tool(self, name: str, **schema: Any) -> Tool:
        async def answer(parameters: Fields) -> str:
            own = parameters["id"]
            self.order.append(own)
            self.together |= {frozenset((own, other)) for other in self.inside}
            self.inside.add(own)
            for _ in range(50):
                await asyncio.sleep(0)
            self.inside.remove(own)
            return "done"

        return Recorder().tool(name, answer, **schema)


def inside(name: str, tool: str, **more: Any) -> Fields:
    return call(name, tool, {"id": name}, failure_behavior="skip", **more)


@pytest.mark.parametrize(
    ("rule", "names", "ran"),
    [
        (TraceRule(tool="b", only_after=Calls(tool="a")), "abab", [0, 1, 2, 3]),
        (TraceRule(tool="a", only_before=Calls(tool="b")), "aab", [0, 1, 2]),
        (TraceRule(tool="a", never_with=Calls(tool="b")), "abba", [0, 3]),
        (TraceRule(tool="a", at_most=2), "aaaa", [0, 1]),
    ],
    ids=["after", "before", "never with", "at most"],
)
async def test_calls_that_a_rule_orders_do_not_overlap(
    schedule: Any, rule: TraceRule, names: str, ran: list[int]
) -> None:
    seen = Overlap()
    rt = Runtime(
        tools=[seen.tool(name, risk="read_only") for name in "ab"],
        policies=[("r", rule)],
        schedule=schedule,
    )
    actions = [inside(f"{i}{name}", name) for i, name in enumerate(names)]

    await rt.execute(plan(*actions))

    assert [int(name[0]) for name in seen.order] == ran
    subjects = {f"{i}{name}" for i, name in enumerate(names) if name == rule.tool}
    assert not [pair for pair in seen.together if pair & subjects]


@pytest.mark.parametrize("pair", ["unrelated", "only counted", "another path"])
async def test_calls_that_no_rule_orders_still_overlap(recorder: Recorder, schedule: Any, pair: str) -> None:
    """Both must be inside at once, or neither gets out."""
    barrier = asyncio.Barrier(2)

    async def meet(parameters: Fields) -> str:
        async with asyncio.timeout(PATIENCE_S):
            await barrier.wait()
        return "met"

    names = {"unrelated": ("x", "y"), "only counted": ("test", "test"), "another path": ("deploy", "x")}[pair]
    rule = {
        "unrelated": AFTER,
        "only counted": AFTER,
        "another path": TraceRule(tool="*", path="secrets/*", at_most=1),
    }[pair]
    rt = Runtime(
        tools=[recorder.tool(name, meet, risk="read_only") for name in sorted({*names})],
        policies=[("r", rule)],
        schedule=schedule,
    )

    result = await rt.execute(plan(*(call(f"a{i}", name, {"n": i}) for i, name in enumerate(names))))

    assert result.outcome == "succeeded"


async def test_the_order_is_that_of_the_list_unless_the_plan_says_otherwise(
    recorder: Recorder, schedule: Any
) -> None:
    rt = runtime(recorder, AFTER, schedule=schedule)

    assert await judged(rt, row(call("d", "deploy"), call("t", "test"))) == {"d": NOT_YET}
    assert await judged(rt, row(call("d", "deploy", dependencies=["t"]), call("t", "test"))) == {}


async def test_state_and_other_actions_are_not_what_a_rule_is_about(
    recorder: Recorder, schedule: Any
) -> None:
    rt = runtime(recorder, TraceRule(at_most=0), schedule=schedule)

    assert await judged(rt, row(write("w", "k", "secrets/x"))) == {}
