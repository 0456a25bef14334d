"""The library's memory: stores facts, finds them again, and says why.

Keep true:
1. A call that returned an id has stored the fact; what the embedder does cannot change that.
2. Nothing here decides who may store or forget: tools and commands go through the runtime for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from placet.errors import UsageError
from placet.inference.model import Embedder, Model
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import Mark
from placet.memory.analysis import embedded_text
from placet.memory.conversations import Conversations
from placet.memory.embedding import Embedding
from placet.memory.fact import Fact, FactScope, check_fact, new_fact_id, repeats, replaces
from placet.memory.in_memory import MemoryFacts
from placet.memory.retrieval import Found, QueryResult, answer
from placet.memory.store import ANYWHERE, FactFilter, FactStore
from placet.memory.vectors import VectorIndex, VectorsUnusable
from placet.runtime.sync import refuse_inside_loop, run_sync
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.events.log import EventLog
    from placet.memory.consolidation import Consolidation
    from placet.memory.context import MemoryContext
    from placet.memory.conversing import ConversationMemory
    from placet.memory.skills.learner import Learner
    from placet.memory.skills.shelf import Judgement, SkillShelf
    from placet.memory.skills.store import OutcomeSource
    from placet.policy.budget import CostBudget
    from placet.policy.case import Rule
    from placet.runtime.trajectory import TrajectoryStore
    from placet.storage.database import Database
    from placet.tools.context import ToolContext
    from placet.tools.tool import Tool

EMBEDDED_AT_ONCE = 256
"""Facts of one call that are embedded right away; `consolidate` embeds the others."""
LIMIT = 10
BUDGET_TOKENS = 1_000


class Memory:
    """Facts with their sources and times, found by full text, meaning and links.

    >>> from placet import Memory
    >>> memory = Memory()
    >>> fact = memory.add_sync("ann", "Ann prefers tea over coffee.", source="person:ann")
    >>> [hit.fact.body for hit in memory.query_sync("what does Ann like to drink, coffee?").hits]
    ['Ann prefers tea over coffee.']
    """

    def __init__(
        self,
        store: FactStore | Database | None = None,
        *,
        embedder: Embedder | None = None,
        embedder_name: str | None = None,
        tenant: str | None = None,
        scope: FactScope | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a memory.

        Args:
            store: Where facts are stored: a database from `open_database`, or a store of your own. `None`: in
                this process alone.
            embedder: Model that makes vectors, to find facts by their meaning. `None`: full text alone.
            embedder_name: Name under which vectors are stored. `None`: the embedder's own name.
            tenant: Tenant of all facts, unless a call names another.
            scope: Scope of all facts and queries, unless a call names another.
            clock: Returns seconds since the epoch.

        Raises:
            StorageError: the database cannot be used.
        """
        from placet.storage.database import Database

        self._database: Database | None = None
        if isinstance(store, Database):
            from placet.memory.sql import SqlFacts

            self._database = store
            store = SqlFacts(store)
        self.store: FactStore = MemoryFacts() if store is None else store
        """The store."""
        self.embedding = Embedding(embedder, embedder_name)
        self.tenant = tenant
        """Tenant of calls that name none."""
        self.scope: FactScope = scope or ANYWHERE
        """Scope of calls that name none."""
        self.told_by: str | None = None
        """Who gives the calls of `remember` in person, such as `"person:ann"`, so that their `source` is
        stored as it is. `None`: a plan or a model, whose facts have their run as the source."""
        self.clock = clock
        self.conversations = Conversations()
        self._indexes: dict[tuple[str | None, bool], VectorIndex] = {}
        self._events: EventLog | None = None
        self._learner: Learner | None = None

    @cached_property
    def skills(self) -> SkillShelf:
        """The skills. Where `store` is a database they are in it; otherwise in this process alone."""
        from placet.memory.skills.in_memory import MemorySkills
        from placet.memory.skills.shelf import SkillShelf
        from placet.memory.skills.sql import SqlSkills
        from placet.memory.skills.store import SkillStore

        store: SkillStore = MemorySkills() if self._database is None else SqlSkills(self._database)
        return SkillShelf(store, tenant=self.tenant, clock=self.clock)

    async def record_outcome(
        self, run_id: str, succeeded: bool, *, by: OutcomeSource, tenant: str | None = None
    ) -> list[Judgement]:
        """Record whether a run did what it was for, and judge the skills that it matched.

        Where the runtime learns (`auto_distill`), skills are distilled, repaired or evolved then. A model's
        own ending is no outcome.

        Args:
            run_id: Id of the run.
            succeeded: Whether it did.
            by: Who says so.
            tenant: The tenant. `None`: that of the memory.
        """
        from placet.memory.skills.skill import titled

        found = await self.skills.record_outcome(run_id, succeeded, by=by, tenant=tenant)
        if found and all((each.run.succeeded, each.run.by) != (succeeded, by) for each in found):
            return found  # A stronger source has spoken.
        if self._events is not None:
            data: dict[str, JsonValue] = {"succeeded": succeeded, "by": by}
            data["skills"] = [
                f"{titled(each.run.name, each.run.version)}, {each.run.arm}: {each.state}"
                + (", degraded" if each.trial.is_degraded else "")
                for each in found
            ]
            self._events.append("skill_outcome", run_id=run_id, tenant=tenant, data=data)
        if self._learner is not None:
            await self._learner.after_outcome(run_id, succeeded, found, tenant)
        return found

    # Storing

    async def add(
        self,
        subject: str,
        body: str,
        *,
        source: str,
        key: str | None = None,
        kind: str = "fact",
        tags: Sequence[str] = (),
        aliases: Sequence[str] = (),
        confidence: float = 1.0,
        labels: Iterable[Mark] = (),
        tenant: str | None = None,
        scope: FactScope | None = None,
        links: Sequence[str] = (),
        conversation: str | None = None,
        position: int = 0,
        valid_from: float | None = None,
        valid_until: float | None = None,
        supersedes: Sequence[str] = (),
        supersedes_key: bool = False,
    ) -> Fact:
        """Store a fact and return it. A believed fact that says the same is returned instead.

        Args:
            subject: What the fact is about.
            body: The statement.
            source: Where it comes from, such as `"person:ann"` or a URL.
            key: Which property of the subject it states.
            kind: Kind of statement.
            tags: Tags to filter by.
            aliases: Other words by which it is found.
            confidence: How sure the source is, from 0 to 1.
            labels: `"untrusted"` for text that an outsider chose, `"secret"` for text that no outsider may
                see.
            tenant: The tenant. `None`: that of the memory.
            scope: Who it is for. `None`: that of the memory.
            links: Ids of facts that belong to it.
            conversation: Id of the conversation that it was said in.
            position: Position in the conversation.
            valid_from: When it begins to hold, in seconds since the epoch.
            valid_until: When it ceases to hold.
            supersedes: Ids of facts that it replaces.
            supersedes_key: Replace the facts of the same scope with this subject and key.

        Raises:
            UsageError: a field cannot be stored; names it.
            StorageError: it cannot be stored; nothing has changed.
        """
        fact = Fact(
            id=new_fact_id(),
            subject=subject,
            key=key,
            body=body,
            kind=kind,
            tags=tuple(tags),
            aliases=tuple(aliases),
            source=source,
            confidence=confidence,
            labels=tuple(dict.fromkeys(labels)),
            tenant=self._tenant(tenant),
            scope=scope or self.scope,
            links=tuple(links),
            conversation=conversation,
            position=position,
            valid_from=valid_from,
            valid_until=valid_until,
            learned=self.clock(),
            supersedes=tuple(supersedes),
            supersedes_key=supersedes_key,
        )
        check_fact(fact)
        await self._check_ids(fact)
        if conversation is None and (known := await self._known(fact)) is not None:
            return known
        await self.add_facts([fact])
        return fact

    async def _check_ids(self, fact: Fact) -> None:
        named = [*fact.supersedes, *fact.links]
        found = await asyncio.to_thread(self.store.get, fact.tenant, named) if named else []
        scopes = {each.id: each.scope for each in found}
        for field, ids in (("supersedes", fact.supersedes), ("links", fact.links)):
            for id in ids:
                if id not in scopes or (field == "supersedes" and scopes[id] != fact.scope):
                    missing = f"there is no fact '{clean(id, 80)}' in its scope"
                    raise UsageError(f"The fact cannot be stored: {field}: {missing}.")

    async def _known(self, fact: Fact) -> Fact | None:
        """A believed fact that says the same, in the same words, of no worse provenance."""
        if fact.key is None or fact.supersedes:
            return None
        where = FactFilter(tenant=fact.tenant, at=fact.learned, scope=None)
        found = await asyncio.to_thread(self.store.believed_values, where, fact.subject, fact.key)
        same = ("body", "scope", "labels", "kind", "valid_from", "valid_until")
        alike = [each for each in found if all(getattr(each, name) == getattr(fact, name) for name in same)]
        others = [each for each in found if each not in alike and replaces(fact, each)]
        return alike[0] if alike and not others else None

    async def add_facts(self, facts: Sequence[Fact]) -> list[str]:
        """Store facts that are complete, all or none, and return the ids that were new.

        Up to 256 facts are embedded right away; `consolidate` embeds the others.

        Args:
            facts: The facts.

        Raises:
            UsageError: one of them cannot be stored.
            StorageError: they cannot be stored; nothing has changed.
        """
        for fact in facts:
            check_fact(fact)
        added = await asyncio.to_thread(self.store.add, facts)
        if self.embedding.is_there and added:
            new = set(added)
            await self.embed([fact for fact in facts if fact.id in new][:EMBEDDED_AT_ONCE])
        return added

    async def embed(self, facts: Sequence[Fact]) -> int:
        """Make the vectors of facts, and return how many were made."""
        by_tenant: dict[str | None, dict[str, str]] = {}
        for fact in facts:
            by_tenant.setdefault(fact.tenant, {})[fact.id] = embedded_text(fact)
        count = 0
        for tenant, texts in by_tenant.items():
            vectors = await self.embedding.of_facts(texts)
            if vectors is None:
                return count
            await asyncio.to_thread(self.store.put_vectors, tenant, self.embedding.model, vectors)
            count += len(vectors)
        return count

    # Finding

    async def query(
        self,
        text: str,
        *,
        limit: int = LIMIT,
        as_of: float | None = None,
        tenant: str | None = None,
        scope: FactScope | None = None,
        kinds: Sequence[str] = (),
        tags: Sequence[str] = (),
        with_secret: bool = True,
        cut: bool = True,
        everywhere: bool = False,
    ) -> QueryResult:
        """Return the facts that answer a question.

        Args:
            text: The question, or words.
            limit: Maximum number of hits.
            as_of: Ask what was believed at this time, in seconds since the epoch. `None`: now.
            tenant: The tenant. `None`: that of the memory.
            scope: Scope of the question. `None`: that of the memory.
            kinds: Only facts of these kinds.
            tags: Only facts with all of these tags.
            with_secret: Whether facts with the label `secret` may be returned.
            cut: End the answer at a gap in the scores; otherwise return up to `limit` hits.
            everywhere: Search the facts of every scope of the tenant.

        Raises:
            UsageError: the question is empty, or `limit` is below 1.
            StorageError: the store cannot be read.
        """
        if not text.strip():
            raise UsageError("The query is empty. Ask a question, or give some words.")
        if limit < 1:
            raise UsageError("limit must be at least 1.")
        where = self.filter(
            as_of=as_of, tenant=tenant, scope=scope, kinds=kinds, tags=tags, with_secret=with_secret
        )
        if everywhere:
            where = msgspec.structs.replace(where, scope=None)
        vector = await self.embedding.query(text) if self.embedding.is_there else None
        return await asyncio.to_thread(self._answer, text, where, vector, limit, cut)

    def _answer(self, text: str, where: FactFilter, vector: Any, limit: int, cut: bool) -> QueryResult:
        found = Found(self.store, where, text)
        found.by_text()
        used_vectors = False
        if vector is not None:
            try:
                found.by_vector(self._index(where.tenant, where.is_past), vector)
                used_vectors = True
            except VectorsUnusable as error:
                self.embedding.fail(str(error))
        return answer(found, limit=limit, cut=cut, used_vectors=used_vectors, note=self.embedding.problem)

    def _index(self, tenant: str | None, with_past: bool) -> VectorIndex:
        found = self._indexes.get((tenant, with_past))
        if found is None:
            found = VectorIndex(self.store, tenant, self.embedding.model, with_past=with_past)
            self._indexes[tenant, with_past] = found
        return found

    def drop_index(self, tenant: str | None) -> None:
        """Read the vectors of a tenant again at the next query.

        Args:
            tenant: The tenant.
        """
        for with_past in (False, True):
            self._indexes.pop((tenant, with_past), None)

    def filter(
        self,
        *,
        as_of: float | None = None,
        tenant: str | None = None,
        scope: FactScope | None = None,
        kinds: Sequence[str] = (),
        tags: Sequence[str] = (),
        with_secret: bool = True,
    ) -> FactFilter:
        """The filter of a query."""
        return FactFilter(
            tenant=self._tenant(tenant),
            at=self.clock() if as_of is None else as_of,
            is_past=as_of is not None,
            scope=scope or self.scope,
            kinds=tuple(kinds),
            tags=tuple(tags),
            with_secret=with_secret,
        )

    async def get(self, id: str, *, tenant: str | None = None) -> Fact | None:
        """Return the fact with this id, whether it is believed or not; `None` if there is none.

        Args:
            id: Id of the fact.
            tenant: The tenant. `None`: that of the memory.
        """
        found = await asyncio.to_thread(self.store.get, self._tenant(tenant), [id])
        return found[0] if found else None

    async def build_context(
        self,
        query: str,
        budget_tokens: int = BUDGET_TOKENS,
        *,
        tenant: str | None = None,
        scope: FactScope | None = None,
        skills: Mapping[str, str] | None = None,
        events: Sequence[str] = (),
        with_secret: bool = False,
    ) -> MemoryContext:
        """Return what a model should know for a question: identity and constraints, facts, skills, events.

        The same facts give the same text, so that providers can cache it. Facts with the label `secret` are
        left out.

        Args:
            query: The question.
            budget_tokens: Maximum length of the text, in tokens of about four characters.
            tenant: The tenant. `None`: that of the memory.
            scope: Scope of the question. `None`: that of the memory.
            skills: Skills that the model can load, by name with their descriptions.
            events: Recent events, oldest first, one line each.
            with_secret: Whether facts with the label `secret` may be in it.
        """
        from placet.memory.context import build_context

        return await build_context(
            self,
            query,
            budget_tokens,
            tenant=tenant,
            scope=scope,
            skills=skills or {},
            events=events,
            with_secret=with_secret,
        )

    # What a run has read

    async def note_recalled(self, run_id: str, ids: Sequence[str], *, tenant: str | None = None) -> None:
        """Record that a run has read facts: it may not store them again.

        Args:
            run_id: Id of the run.
            ids: Ids of the facts.
            tenant: The tenant. `None`: that of the memory.
        """
        await asyncio.to_thread(
            self.store.note_recalled, self._tenant(tenant), run_id, list(ids), self.clock()
        )

    async def was_recalled(self, run_id: str, body: str, *, tenant: str | None = None) -> bool:
        """Return whether a text equals, or is contained in, a fact that a run has read, as it was shown.

        Args:
            run_id: Id of the run.
            body: The text.
            tenant: The tenant. `None`: that of the memory.
        """
        found = await asyncio.to_thread(self.store.recalled, self._tenant(tenant), run_id)
        return any(repeats(body, each.text) for each in found)

    # Changing

    async def invalidate(self, id: str, *, tenant: str | None = None) -> bool:
        """Record that a fact is not true any more, and return whether it was believed. It stays in the past.

        Args:
            id: Id of the fact.
            tenant: The tenant. `None`: that of the memory.
        """
        return await asyncio.to_thread(self.store.invalidate, self._tenant(tenant), id, self.clock())

    async def trust(self, id: str, *, tenant: str | None = None) -> bool:
        """Remove the label `untrusted` from a fact, and return whether it had one. A person's decision.

        Args:
            id: Id of the fact.
            tenant: The tenant. `None`: that of the memory.
        """
        return await asyncio.to_thread(self.store.trust, self._tenant(tenant), id)

    async def forget(self, *ids: str, tenant: str | None = None) -> int:
        """Delete facts for good, also from indexes and vectors. Return how many there were.

        Args:
            ids: Ids of the facts.
            tenant: The tenant. `None`: that of the memory.
        """
        return await asyncio.to_thread(self.store.forget, self._tenant(tenant), ids)

    async def consolidate(
        self, *, tenant: str | None = None, on_progress: Callable[[int], None] | None = None
    ) -> Consolidation:
        """Take what is not believed any more out of the indexes, and embed facts that have no vector.

        Where the runtime learns (`auto_distill`), weak domains get new skills.

        No fact is deleted: questions about the past find what they found before.

        Args:
            tenant: The tenant. `None`: that of the memory.
            on_progress: Called with the number of facts that were embedded so far.
        """
        from placet.memory.consolidation import consolidate

        done = await consolidate(self, self._tenant(tenant), on_progress)
        if self._learner is None:
            return done
        evolved = await self._learner.evolve(tenant)
        return msgspec.structs.replace(done, domains_evolved=tuple(evolved))

    # For a runtime

    def runtime_tools(self, events: EventLog) -> list[Tool]:
        """Return the tools that use this memory: `remember`, `recall`, `load_skill` and others.

        Args:
            events: Log that receives the event `consolidated`.
        """
        from placet.memory.skills.tools import skill_tools
        from placet.memory.tools import memory_tools

        self._events = events
        return [*memory_tools(self, events), *skill_tools(self)]

    def runtime_rules(self) -> list[tuple[str, Rule]]:
        """Return the rules, with names, by which `memory.trust` and `skill.trust` always need an approval."""
        from placet.memory.skills.tools import skill_rules
        from placet.memory.tools import memory_rules

        return [*memory_rules(), *skill_rules()]

    def learn_with(
        self,
        model: Model,
        events: EventLog,
        *,
        budget: CostBudget | None,
        trajectories: TrajectoryStore | None,
    ) -> Learner:
        """Make skills from runs from now on, and return what does. `Runtime(auto_distill=True)` calls this.

        Args:
            model: The model that writes them.
            events: Log that receives `skill_distilled` and `evolution_triggered`.
            budget: What learning may use. `None`: 50,000 tokens.
            trajectories: The store that trajectories are handed on to.
        """
        from placet.memory.skills.learner import BUDGET, Learner

        self._learner = Learner(
            self.skills, model, events, budget=budget or BUDGET, trajectories=trajectories
        )
        return self._learner

    def turn_memory(self, budget_tokens: int = BUDGET_TOKENS) -> ConversationMemory:
        """Return what a turn loop asks of a memory.

        Args:
            budget_tokens: Maximum length of what is added to a message, in tokens.
        """
        from placet.memory.conversing import ConversationMemory

        return ConversationMemory(self, budget_tokens)

    async def ground(self, prompt: str, context: ToolContext) -> str:
        """Return what a model should know for a prompt, for `infer.grounded`; empty if there is nothing.

        Args:
            prompt: The prompt.
            context: The call that asks; its output is labelled as the facts are.
        """
        from placet.memory.context import labels_from_memory
        from placet.memory.tools import call_scope

        found = await self.build_context(prompt, tenant=context.tenant, scope=call_scope(self, context))
        await self.note_recalled(context.run_id, found.quoted, tenant=context.tenant)
        context.label_output(labels_from_memory(found.labels))
        return found.text

    def _tenant(self, tenant: str | None) -> str | None:
        return self.tenant if tenant is None else tenant

    # Without an event loop

    def add_sync(self, subject: str, body: str, *, source: str, **more: Any) -> Fact:
        """`add` for code without an event loop.

        Takes the arguments of `add`.

        Args:
            more: Other arguments of `add`.

        Raises:
            UsageError: this thread runs an event loop; await `add` there.
        """
        refuse_inside_loop("add", of="memory")
        return run_sync(self.add(subject, body, source=source, **more))

    def add_facts_sync(self, facts: Sequence[Fact]) -> list[str]:
        """`add_facts` for code without an event loop.

        Takes the arguments of `add_facts`.
        """
        refuse_inside_loop("add_facts", of="memory")
        return run_sync(self.add_facts(facts))

    def query_sync(self, text: str, **more: Any) -> QueryResult:
        """`query` for code without an event loop.

        Takes the arguments of `query`.

        Args:
            more: Other arguments of `query`.
        """
        refuse_inside_loop("query", of="memory")
        return run_sync(self.query(text, **more))

    def build_context_sync(
        self, query: str, budget_tokens: int = BUDGET_TOKENS, **more: Any
    ) -> MemoryContext:
        """`build_context` for code without an event loop.

        Takes the arguments of `build_context`.

        Args:
            more: Other arguments of `build_context`.
        """
        refuse_inside_loop("build_context", of="memory")
        return run_sync(self.build_context(query, budget_tokens, **more))

    def get_sync(self, id: str, *, tenant: str | None = None) -> Fact | None:
        """`get` for code without an event loop.

        Takes the arguments of `get`.
        """
        refuse_inside_loop("get", of="memory")
        return run_sync(self.get(id, tenant=tenant))

    def invalidate_sync(self, id: str, *, tenant: str | None = None) -> bool:
        """`invalidate` for code without an event loop.

        Takes the arguments of `invalidate`.
        """
        refuse_inside_loop("invalidate", of="memory")
        return run_sync(self.invalidate(id, tenant=tenant))

    def trust_sync(self, id: str, *, tenant: str | None = None) -> bool:
        """`trust` for code without an event loop.

        Takes the arguments of `trust`.
        """
        refuse_inside_loop("trust", of="memory")
        return run_sync(self.trust(id, tenant=tenant))

    def forget_sync(self, *ids: str, tenant: str | None = None) -> int:
        """`forget` for code without an event loop.

        Takes the arguments of `forget`.
        """
        refuse_inside_loop("forget", of="memory")
        return run_sync(self.forget(*ids, tenant=tenant))

    def consolidate_sync(self, *, tenant: str | None = None) -> Consolidation:
        """`consolidate` for code without an event loop.

        Takes the arguments of `consolidate`.
        """
        refuse_inside_loop("consolidate", of="memory")
        return run_sync(self.consolidate(tenant=tenant))
