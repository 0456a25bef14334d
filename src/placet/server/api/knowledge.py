"""Agents, and what memory holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

from placet.agents.registry import AgentEntry
from placet.agents.versions import StoredReport, digest_of
from placet.app.agents import find_agents
from placet.app.memory import memory_of
from placet.app.skills import folder_skills, skill_data, with_trials
from placet.engine.embedded import EmbeddedEngine
from placet.errors import PlacetError, UsageError
from placet.server.answers import NotFound
from placet.server.api.runs import Limit
from placet.server.api.starting import engine_of
from placet.server.endpoint import ApiCall, Endpoint


class ScenarioRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario went."""

    name: str
    passed: bool
    """Whether all runs passed: pass^k."""
    times: int
    """Runs that passed."""
    of: int
    failures: list[str]


class AgentTestRow(msgspec.Struct, frozen=True, kw_only=True):
    """The newest test of an agent on all its scenarios."""

    at: float
    k: int
    """How often each scenario ran."""
    model: str
    passed: int
    """Scenarios that passed in all their runs."""
    of: int
    seconds: float
    is_current: bool
    """Whether the agent's file is still the one that was tested."""
    scenarios: list[ScenarioRow]


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and how its runs went."""

    id: str
    where: str
    """`user`, or the folder of its project."""
    path: str
    error: str | None
    """Why its file cannot be used."""
    spec: dict[str, Any] | None
    runs: int
    succeeded: int
    test: AgentTestRow | None
    testing: bool
    """Whether it is being tested by this server."""


class AgentTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test of an agent on all its scenarios."""

    folder: str
    """Where it is tested; its rules and settings hold."""
    k: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    """How often each scenario runs."""
    model: str | None = None


class AgentTestStarted(msgspec.Struct, frozen=True):
    """A test that has begun; its end is the event `agent_tested`."""

    agent: str
    k: int


class AgentPage(msgspec.Struct, frozen=True):
    """The agents of the folders that were named at launch, and the person's own."""

    agents: list[AgentRow]
    problems: list[str]
    """Folders whose agents cannot be read, and why."""


class FactsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which facts."""

    q: str | None = None
    """A question; without it the newest."""
    past: bool = False
    """Also facts that are not believed any more."""
    limit: Limit = 100


class FactPage(msgspec.Struct, frozen=True):
    """Facts, the best or the newest first."""

    facts: list[dict[str, Any]]


class SkillPage(msgspec.Struct, frozen=True):
    """Skills that models are offered."""

    skills: list[dict[str, Any]]
    """As `placet skills --json` lists them: with `trial`, the outcomes of both arms."""
    problems: list[str]
    """Folders that are no skill, and why."""


def list_agents(call: ApiCall) -> AgentPage:
    """The agents that are there."""
    site = call.site
    if call.token.tenant is not None:
        return AgentPage([], [])
    rows: dict[str, AgentRow] = {}
    problems: list[str] = []
    for folder in site.folders or (str(Path.cwd()),):
        try:
            found = find_agents(os.environ, Path(folder), site.records.agents)
        except PlacetError as error:
            problems.append(site.redactor.text(f"{folder}: {error}"))
            continue
        for place in found.places:
            records = site.records.agents.records(place.key)
            reports = site.records.agents.reports(place.key)
            for entry in found.entries():
                if entry.place is not place or str(entry.path) in rows:
                    continue
                record = records.get(entry.id)
                spec = msgspec.to_builtins(entry.spec) if entry.spec is not None else None
                rows[str(entry.path)] = AgentRow(
                    id=entry.id,
                    where=place.key,
                    path=str(entry.path),
                    error=site.redactor.text(str(entry.error)) if entry.error is not None else None,
                    spec=site.redactor.value(spec),
                    runs=record.runs if record is not None else 0,
                    succeeded=record.succeeded if record is not None else 0,
                    test=_test_row(reports.get(entry.id), entry),
                    testing=site.agent_tests.is_running(str(entry.path)),
                )
    return AgentPage(list(rows.values()), problems)


def _test_row(stored: StoredReport | None, entry: AgentEntry) -> AgentTestRow | None:
    if stored is None:
        return None
    report = stored.report
    return AgentTestRow(
        at=stored.at,
        k=report.k,
        model=report.model,
        passed=report.passed,
        of=len(report.scenarios),
        seconds=report.seconds,
        is_current=stored.digest == digest_of(entry.text),
        scenarios=[
            ScenarioRow(
                name=each.name,
                passed=each.passed,
                times=each.times,
                of=len(each.trials),
                failures=each.failures,
            )
            for each in report.scenarios
        ],
    )


def start_test(call: ApiCall) -> AgentTestStarted:
    """Test an agent on its scenarios."""
    wanted: AgentTest = call.body
    if call.token.tenant is not None:
        raise NotFound("A tenant has no agents.")
    engine = engine_of(call)
    if not isinstance(engine, EmbeddedEngine):
        raise UsageError("Agents are tested by `placet serve --folder PATH`, or with `placet agent test`.")
    folder = engine.check_folder(wanted.folder)
    agent = call.path["agent"]
    call.site.agent_tests.start(agent, folder, k=wanted.k, model=wanted.model)
    return AgentTestStarted(agent, wanted.k)


def list_facts(call: ApiCall) -> FactPage:
    """What memory holds, in all scopes."""
    query: FactsQuery = call.query
    memory = memory_of(call.site.records, with_embedder=False)
    tenant = call.token.tenant
    if query.q:
        facts = list(memory.query_sync(query.q, tenant=tenant, limit=query.limit).facts)
    elif query.past:
        facts = memory.store.listed(None, tenant=tenant, limit=query.limit)
    else:
        where = msgspec.structs.replace(memory.filter(tenant=tenant), scope=None)
        facts = memory.store.listed(where, limit=query.limit)
    shown = call.site.redactor.value([each.to_dict() for each in facts])
    assert isinstance(shown, list)
    return FactPage(shown)


def list_skills(call: ApiCall) -> SkillPage:
    """The skills of the folders that were named at launch, of the person, and of the store."""
    site = call.site
    shelf = memory_of(site.records, with_embedder=False).skills
    found = [folder_skills(Path(folder), os.environ) for folder in site.folders or (str(Path.cwd()),)]
    if call.token.tenant is None:
        by_source = {skill.source: skill for each in found for skill in each.skills}
        shelf.folders = tuple(by_source.values())
    data = [skill_data(skill, trial) for skill, trial in with_trials(shelf, call.token.tenant)]
    shown = site.redactor.value(data)
    assert isinstance(shown, list)
    problems = dict.fromkeys(problem for each in found for problem in each.problems)
    is_whole = call.token.tenant is None
    return SkillPage(shown, [site.redactor.text(each) for each in problems] if is_whole else [])


ENDPOINTS = (
    Endpoint("GET", "/agents", list_agents, "see", AgentPage, "List agents."),
    Endpoint(
        "POST",
        "/agents/{agent}/test",
        start_test,
        "start",
        AgentTestStarted,
        "Test an agent on its scenarios.",
        body=AgentTest,
        status=202,
    ),
    Endpoint("GET", "/memory/facts", list_facts, "see", FactPage, "List facts.", query=FactsQuery),
    Endpoint("GET", "/memory/skills", list_skills, "see", SkillPage, "List skills."),
)
