"""Agents, and what memory holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from placet.app.agents import find_agents
from placet.app.memory import memory_of
from placet.app.skills import folder_skills, skill_data, with_trials
from placet.errors import PlacetError
from placet.server.api.runs import Limit
from placet.server.endpoint import Call, Endpoint


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


class Agents(msgspec.Struct, frozen=True):
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


class Facts(msgspec.Struct, frozen=True):
    """Facts, the best or the newest first."""

    facts: list[dict[str, Any]]


class Skills(msgspec.Struct, frozen=True):
    """Skills that models are offered."""

    skills: list[dict[str, Any]]
    """As `placet skills --json` lists them: with `trial`, the outcomes of both arms."""
    problems: list[str]
    """Folders that are no skill, and why."""


def list_agents(call: Call) -> Agents:
    """The agents that are there."""
    site = call.site
    if call.token.tenant is not None:
        return Agents([], [])
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
                )
    return Agents(list(rows.values()), problems)


def list_facts(call: Call) -> Facts:
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
    return Facts(shown)


def list_skills(call: Call) -> Skills:
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
    return Skills(shown, [site.redactor.text(each) for each in problems] if is_whole else [])


ENDPOINTS = (
    Endpoint("GET", "/agents", list_agents, "see", Agents, "List agents."),
    Endpoint("GET", "/memory/facts", list_facts, "see", Facts, "List facts.", query=FactsQuery),
    Endpoint("GET", "/memory/skills", list_skills, "see", Skills, "List skills."),
)
