"""What a plan or a model can do with a memory: remember, recall, search the conversation, consolidate, trust.

Keep true:
1. A fact that a call stores keeps the labels of what went into the call; no parameter takes them away.
2. What this run has recalled is not stored again.
3. The log gets ids, never bodies: what is in a log cannot be forgotten.
4. The source of a fact that a call stores is its run, whatever the call says.
5. Facts that are recalled label the output of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from placet.errors import PlacetError, StorageError, ToolError, UsageError
from placet.events.log import EventLog
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Mark
from placet.memory.context import day_of, labels_from_memory
from placet.memory.conversations import SEARCH
from placet.memory.fact import MOST_NAME, FactScope
from placet.memory.retrieval import Hit
from placet.policy.case import Rule
from placet.policy.rule import DenyTool
from placet.tools.context import ToolContext
from placet.tools.tool import Tool, tool
from placet.truncation import truncate

if TYPE_CHECKING:
    from placet.memory.memory import Memory

TRUST_RULE = "memory.trust"
"""Name of the rule by which a person is asked before an untrusted fact is trusted."""
For = Literal["everyone", "person", "project", "agent"]
Texts = Annotated[list[str], msgspec.Meta(max_length=20)]


def memory_rules() -> list[tuple[str, Rule]]:
    """Rules that must hold where a memory is attached."""
    reason = "an untrusted fact becomes a trusted one only when a person has approved it"
    return [(TRUST_RULE, DenyTool(tool="memory.trust", reason=reason, unless_approved=True))]


def memory_tools(memory: Memory, events: EventLog) -> list[Tool]:
    """The tools that use a memory."""
    remember = _remember(memory)
    recall = _recall(memory)
    search = _search(memory)
    remember.unlogged = frozenset({"subject", "key", "body", "tags", "aliases", "source"})
    recall.unlogged = frozenset({"query"})
    search.unlogged = frozenset({"query"})
    recall.may_label = search.may_label = True  # As the facts and messages are labelled that are found.
    made = [remember, recall, search, _trust(memory), _consolidate(memory, events)]
    for each in made:
        # They change nothing but the memory that the person has attached.
        each.trusted = True
    return made


def call_scope(memory: Memory, context: ToolContext) -> FactScope:
    """The scope in which a call asks: that of the memory, and the agent that calls."""
    scope = memory.scope
    return msgspec.structs.replace(scope, agent=context.caller or scope.agent)


def _stored_scope(scope: FactScope, whose: For | None) -> FactScope:
    """Who a fact is for that a call stores."""
    match whose:
        case None:
            return msgspec.structs.replace(scope, agent=None)
        case "everyone":
            return FactScope()
        case "person" | "project" | "agent":
            if (name := getattr(scope, whose)) is None:
                raise ToolError(f"This memory knows no {whose}. Leave scope out.", retry=False)
            return FactScope(**{whose: name})


def _remember(memory: Memory) -> Tool:
    @tool(risk="idempotent", idempotent=True, labels=["memory", "confined"])
    async def remember(
        subject: str,
        body: str,
        context: ToolContext,
        key: str | None = None,
        kind: str = "fact",
        tags: Texts = [],  # noqa: B006
        aliases: Texts = [],  # noqa: B006
        source: str | None = None,
        replaces: Texts = [],  # noqa: B006
        replaces_key: bool = False,
        links: Texts = [],  # noqa: B006
        valid_from: float | None = None,
        valid_until: float | None = None,
        confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0,
        labels: Annotated[list[Mark], msgspec.Meta(max_length=2)] = [],  # noqa: B006
        scope: For | None = None,
    ) -> dict[str, JsonValue]:
        """Store one fact that will be useful later, in one sentence that can be understood by itself.

        Args:
            subject: What the fact is about, such as a person, a project or a service.
            body: The fact, as one sentence.
            key: Which property of the subject it states, such as birthday.
            kind: fact, identity, constraint, or a kind of your own.
            tags: Tags to filter by.
            aliases: Other words by which somebody may ask for it.
            source: Where you have it from. It is stored as a claim, beside the id of this run.
            replaces: Ids of facts that it replaces.
            replaces_key: Replace what is known about this subject and key.
            links: Ids of facts that belong to it.
            valid_from: When it begins to hold, in seconds since the epoch.
            valid_until: When it ceases to hold.
            confidence: How sure it is, from 0 to 1.
            labels: untrusted if an outsider wrote it, secret if no outsider may see it.
            scope: Who it is for.
        """
        if await memory.was_recalled(context.run_id, body, tenant=context.tenant):
            raise ToolError("Memory holds this already: the run has recalled it.", retry=False)
        try:
            fact = await memory.add(
                subject,
                body,
                source=_source(memory, context, source),
                key=key,
                kind=kind,
                tags=tags,
                aliases=aliases,
                confidence=confidence,
                labels=sorted({*labels, *context.labels_of()}),
                tenant=context.tenant,
                scope=_stored_scope(call_scope(memory, context), scope),
                links=links,
                valid_from=valid_from,
                valid_until=valid_until,
                supersedes=replaces,
                supersedes_key=replaces_key,
            )
        except (UsageError, StorageError) as error:
            raise _failed(error) from error
        return {"id": fact.id, "labels": list(fact.labels)}

    return remember


def _source(memory: Memory, context: ToolContext, claim: str | None) -> str:
    """Where a fact comes from that a call stores: its run. What the call says itself is only a claim."""
    if memory.told_by is not None:
        return claim or memory.told_by
    run = f"run:{context.run_id}"
    return truncate(f"{run}, which names: {' '.join(claim.split())}", MOST_NAME, "…") if claim else run


def _recall(memory: Memory) -> Tool:
    @tool(risk="read_only", labels=["memory"])
    async def recall(
        query: str,
        context: ToolContext,
        limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 10,
        as_of: float | None = None,
    ) -> dict[str, JsonValue]:
        """Find facts in memory that answer a question. An empty list means that nothing is known.

        Facts with the label `secret` are left out.

        Args:
            query: The question.
            limit: The most facts to return.
            as_of: Ask what was believed at this time, in seconds since the epoch.
        """
        try:
            found = await memory.query(
                query,
                limit=limit,
                as_of=as_of,
                tenant=context.tenant,
                scope=call_scope(memory, context),
                with_secret=False,
            )
            quoted = [id for hit in found.hits for id in hit.quoted]
            await memory.note_recalled(context.run_id, quoted, tenant=context.tenant)
        except (UsageError, StorageError) as error:
            raise _failed(error) from error
        context.label_output(labels_from_memory(label for hit in found.hits for label in sorted(hit.labels)))
        return {"facts": [_shown(hit) for hit in found.hits]}

    return recall


def _search(memory: Memory) -> Tool:
    @tool(name=SEARCH, risk="read_only", labels=["memory"])
    async def search(
        query: str, context: ToolContext, limit: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    ) -> dict[str, JsonValue]:
        """Find earlier messages of this conversation, also those that were left out to make room.

        Args:
            query: What to look for.
            limit: The most messages to return.
        """
        found = memory.conversations.search(context.run_id, query, limit)
        context.label_output(memory.conversations.labels(context.run_id))
        return {
            "messages": [{"position": each.position, "role": each.role, "text": each.text} for each in found]
        }

    return search


def _trust(memory: Memory) -> Tool:
    @tool(name="memory.trust", risk="destructive", reversibility="irreversible", labels=["memory"])
    async def trust(id: str, context: ToolContext) -> dict[str, JsonValue]:
        """Make an untrusted fact a trusted one. A person is always asked first.

        Args:
            id: Id of the fact.
        """
        return {"id": id, "changed": await memory.trust(id, tenant=context.tenant)}

    def explain(parameters: Mapping[str, JsonValue], tenant: str | None) -> str:
        id = str(parameters.get("id"))
        found = memory.store.get(memory.tenant if tenant is None else tenant, [id])
        if not found:
            return f"There is no fact '{id}'."
        fact = found[0]
        body = "[secret]" if "secret" in fact.labels else fact.body
        return f"subject: {fact.subject}\nkey: {fact.key or '-'}\nbody: {body}\nsource: {fact.source}"

    trust.explain = explain
    return trust


def _consolidate(memory: Memory, events: EventLog) -> Tool:
    @tool(name="memory.consolidate", risk="idempotent", idempotent=True, labels=["memory", "confined"])
    async def consolidate(context: ToolContext) -> dict[str, JsonValue]:
        """Take facts that are not believed any more out of the indexes, and embed those without a vector."""
        try:
            done = await memory.consolidate(tenant=context.tenant)
        except StorageError as error:
            raise _failed(error) from error
        report: dict[str, JsonValue] = done.to_dict()
        events.append("consolidated", run_id=context.run_id, tenant=context.tenant, data=report)
        return report

    return consolidate


def _shown(hit: Hit) -> dict[str, JsonValue]:
    fact = hit.fact
    shown: dict[str, JsonValue] = {"id": fact.id, "subject": fact.subject, "body": fact.body}
    if fact.key is not None:
        shown["key"] = fact.key
    shown |= {"learned": day_of(fact.learned), "source": fact.source}
    if fact.labels:
        shown["labels"] = list(fact.labels)
    if hit.conflicts:
        shown["contradicted_by"] = [
            {"id": each.id, "body": each.body, "learned": day_of(each.learned)} for each in hit.conflicts
        ]
    return shown


def _failed(error: PlacetError) -> ToolError:
    return ToolError(str(error), retry=isinstance(error, StorageError))
