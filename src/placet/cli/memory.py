"""`placet memory`: facts that are stored here, found, shown, exported, imported and forgotten.

Keep true:
1. What is added goes through the runtime: the rules of the project and the person hold.
2. A fact that is shown has no secrets in it, as far as secrets can be told; an export has what was stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import Moment, Subject, count_option, db_option, json_option, single
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.memory.fact import Fact, FactScope
    from placet.memory.memory import Memory

tenant_option = single("--tenant", metavar="NAME", help="The tenant whose facts these are.")
everywhere_option = click.option(
    "--all", "is_all", is_flag=True, help="Facts of every person, project and agent of the tenant."
)
_JUDGED_AT_ONCE = 1_000
"""Facts of an import that rules judge as one plan."""
_EMPTY = "Nothing is stored in memory here. Add a fact: placet memory add SUBJECT TEXT"


@click.group(cls=Subject, short_help="Facts: add, query, show, forget, export, import.")
def memory() -> None:
    """Facts that stay true: with their source, their times and who they are for.

    Without a command: the newest facts.
    """


@memory.command(short_help="List facts, or show one.")
@click.argument("id", metavar="[ID]", required=False)
@click.option("--past", "with_past", is_flag=True, help="Also facts that are not believed any more.")
@count_option("--limit", 50)
@everywhere_option
@tenant_option
@db_option
@json_option
@click.pass_obj
def show(
    output: Output,
    id: str | None,
    with_past: bool,
    limit: int,
    is_all: bool,
    tenant: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """List the newest facts, or show the fact ID with all that is known about it.

    Exit codes: 0 shown, also if there are none, 2 there is no such fact.
    """
    from msgspec.structs import replace

    from placet.app.memory import open_memory
    from placet.cli.memory_view import fact_lines, fact_row

    with open_memory(db, with_embedder=False) as memory:
        if id is not None:
            fact = _found(memory, id, tenant)
            if as_json:
                output.show_json(fact.to_dict())
            else:
                output.show("\n".join(fact_lines(fact)))
            return 0
        facts: list[Fact] = []
        if memory is not None and with_past:
            facts = memory.store.listed(None, tenant=tenant)
            facts = [each for each in facts if is_all or each.scope.covers(memory.scope)][:limit]
        elif memory is not None:
            where = memory.filter(tenant=tenant)
            facts = memory.store.listed(replace(where, scope=None) if is_all else where, limit=limit)
    if as_json:
        output.show_json({"facts": [fact.to_dict() for fact in facts]})
        return 0
    for fact in facts:
        output.show(fact_row(fact))
    if not facts:
        output.talk(_EMPTY)
    return 0


def _found(memory: Memory | None, id: str, tenant: str | None) -> Fact:
    from placet.errors import UsageError
    from placet.safe_text import clean

    fact = memory.get_sync(id, tenant=tenant) if memory is not None else None
    if fact is None:
        raise UsageError(f"There is no fact '{clean(id, 80)}'. List them: placet memory show --all --past")
    return fact


@memory.command(short_help="Store a fact.")
@click.argument("subject", metavar="SUBJECT")
@click.argument("body", metavar="TEXT")
@single("--key", metavar="KEY", help="Which property of SUBJECT it states, such as birthday.")
@single("--kind", metavar="KIND", help="fact, identity, constraint, or one of your own. Default: fact.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag to filter by. Several may be given.")
@click.option("--alias", "aliases", multiple=True, metavar="WORDS", help="Other words by which it is found.")
@single("--source", metavar="TEXT", help="Where it comes from. Default: you.")
@click.option("--confidence", type=click.FloatRange(0, 1), default=1.0, help="How sure it is, from 0 to 1.")
@click.option("--untrusted", is_flag=True, help="Somebody whom you do not trust wrote it.")
@click.option("--secret", is_flag=True, help="No outsider may see it: it is never put into a context.")
@click.option("--link", "links", multiple=True, metavar="ID", help="A fact that belongs to it.")
@click.option("--supersedes", multiple=True, metavar="ID", help="A fact that it replaces.")
@click.option("--replace", "replaces_key", is_flag=True, help="Replace what is known of SUBJECT and --key.")
@click.option("--valid-from", type=Moment(), metavar="WHEN", help="When it begins to hold.")
@click.option("--valid-until", type=Moment(), metavar="WHEN", help="When it ceases to hold.")
@single(
    "--for",
    "scope",
    type=click.Choice(["everyone", "person", "project"]),
    metavar="WHOM",
    help="everyone, person (you, anywhere) or project (anybody, in this one). Default: you, in this project.",
)
@tenant_option
@db_option
@json_option
@click.pass_obj
def add(
    output: Output,
    /,
    subject: str,
    body: str,
    kind: str | None,
    untrusted: bool,
    secret: bool,
    tenant: str | None,
    db: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Store one fact about SUBJECT. It is an action as any other: rules that deny `remember` hold.

    Exit codes: 0 stored, 2 bad input, 3 a rule refused it.
    """
    output.claim()
    from placet.app.app import NOWHERE, database_url, open_app
    from placet.app.memory import person_here
    from placet.app.options import RunOptions
    from placet.cli.output import OPENING
    from placet.cli.trust import terminal_question
    from placet.memory.memory import Memory
    from placet.runtime.scope import Scope

    labels = [name for name, is_set in (("untrusted", untrusted), ("secret", secret)) if is_set]
    given["replaces"] = given.pop("supersedes")
    parameters = {"subject": subject, "body": body, "kind": kind or "fact", "labels": labels, **given}
    kept = {name: list(v) if isinstance(v, tuple) else v for name, v in parameters.items() if v is not None}
    if database_url(db) == NOWHERE:
        raise click.UsageError("--db none stores nothing. Name a database.")
    opening = open_app(
        RunOptions(permissions="full_access"), db=db, memory=True, confirm=terminal_question(output)
    )
    with output.opened(opening, OPENING) as app:
        output.redactor = app.redactor
        assert isinstance(app.runtime.memory, Memory)
        app.runtime.memory.told_by = f"person:{person_here() or 'unknown'}"
        plan = {
            "source": "placet memory add",
            "actions": [{"id": "add", "tool": "remember", "parameters": kept, "references": False}],
        }
        result = app.runtime.execute_sync(plan, scope=Scope(tenant=tenant) if tenant else None)
        done = result["add"]
        of_run = (event.kind for event in app.runtime.events if event.run_id == result.run_id)
        is_denied = "policy_violation" in of_run
    if done.status != "succeeded" or not isinstance(done.output, dict):
        if as_json:
            output.show_json({"error": {"code": "memory.refused", "message": done.error}})
        else:
            output.talk(f"Not stored: {done.error}")
        return 3 if is_denied else 2
    if as_json:
        output.show_json(done.output)
    else:
        output.write(f"{done.output['id']}\n")
    return 0


@memory.command(short_help="Ask for facts.")
@click.argument("question", metavar="QUESTION")
@count_option("--limit", 10, most=100)
@click.option("--as-of", type=Moment(), metavar="WHEN", help="What was believed then: 2026-01-31, or 7d ago.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only facts of this kind.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only facts with this tag.")
@click.option("--agent", metavar="NAME", help="Ask as this agent.")
@click.option("--explain", is_flag=True, help="Show the scores of each hit, and what came next.")
@everywhere_option
@tenant_option
@db_option
@json_option
@click.pass_obj
def query(
    output: Output,
    question: str,
    limit: int,
    as_of: float | None,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
    agent: str | None,
    explain: bool,
    is_all: bool,
    tenant: str | None,
    db: str | None,
    as_json: bool,
) -> int:
    """Find the facts that answer QUESTION, the best first. The answer ends where the scores drop.

    Exit codes: 0 there are some, 1 nothing is known, 2 bad input.
    """
    from placet.app.memory import open_memory
    from placet.cli.memory_view import hit_lines, result_data
    from placet.memory.retrieval import QueryResult

    with open_memory(db) as memory:
        found = QueryResult(hits=())
        if memory is not None:
            found = memory.query_sync(
                question,
                limit=limit,
                as_of=as_of,
                kinds=kinds,
                tags=tags,
                tenant=tenant,
                scope=_scope(memory, agent),
                everywhere=is_all,
            )
    if as_json:
        output.show_json(result_data(found, explain=explain))
    else:
        for number, hit in enumerate(found.hits, start=1):
            output.show("\n".join(hit_lines(number, hit, explain=explain)))
        if explain and found.left_out:
            output.talk("After the gap in the scores:")
            for hit in found.left_out:
                output.talk("\n".join(hit_lines(0, hit, explain=True)))
        if not found.hits:
            output.talk("Nothing is known about that.")
    return 0 if found.hits else 1


def _scope(memory: Memory, agent: str | None) -> FactScope:
    from msgspec.structs import replace

    return replace(memory.scope, agent=agent)


@memory.command(short_help="Delete facts for good.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@tenant_option
@db_option
@json_option
@click.pass_obj
def forget(output: Output, ids: tuple[str, ...], tenant: str | None, db: str | None, as_json: bool) -> int:
    """Delete facts, also from every index and with their vectors. This cannot be undone.

    Stored plans and results of runs that have ended lose the text, too. The log holds ids of facts and
    nothing of what they say.

    Exit codes: 0 deleted, 2 there is no such fact; nothing is deleted then.
    """
    from contextlib import suppress

    from placet.app.app import open_records
    from placet.app.memory import memory_of
    from placet.errors import StorageDamaged

    bodies: list[str] = []
    with open_records(db, create=True, writes=True) as records:
        memory = memory_of(records, with_embedder=False)
        for id in ids:
            with suppress(StorageDamaged):  # A fact that cannot be read can be forgotten.
                bodies.append(_found(memory, id, tenant).body)
        records.journal.forget_bodies(bodies, tenant=tenant)
        count = memory.forget_sync(*ids, tenant=tenant)
    if as_json:
        output.show_json({"forgotten": count})
    else:
        output.talk(f"{count} forgotten.")
    return 0


@memory.command(short_help="Trust a fact from an untrusted source.")
@click.argument("id", metavar="ID")
@tenant_option
@db_option
@json_option
@click.pass_obj
def trust(output: Output, id: str, tenant: str | None, db: str | None, as_json: bool) -> int:
    """Remove the label `untrusted` from the fact ID: from then on it counts as yours.

    Exit codes: 0 it is trusted, 2 there is no such fact.
    """
    from placet.app.memory import open_memory

    with open_memory(db, writes=True, with_embedder=False) as memory:
        _found(memory, id, tenant)
        assert memory is not None
        changed = memory.trust_sync(id, tenant=tenant)
    if as_json:
        output.show_json({"id": id, "changed": changed})
    else:
        output.talk("It is trusted." if changed else "It was trusted before.")
    return 0


@memory.command("export", short_help="Write all facts as lines of JSON.")
@single("--to", "path", metavar="FILE", help="Write to this file, readable by you alone. Default: stdout.")
@click.option("--with-secret", is_flag=True, help="Also facts with the label secret.")
@tenant_option
@db_option
@click.pass_obj
def export_facts(
    output: Output, path: str | None, with_secret: bool, tenant: str | None, db: str | None
) -> int:
    """Write every fact of the tenant, also those that are not believed any more, one to a line.

    Exit codes: 0 written, 2 bad input.
    """
    from placet.app.files import write_lines
    from placet.app.memory import open_memory
    from placet.memory.transfer import to_lines

    with open_memory(db, with_embedder=False) as memory:
        facts = memory.store.listed(None, tenant=tenant) if memory is not None else []
    chosen = [fact for fact in reversed(facts) if with_secret or "secret" not in fact.labels]
    if path is None:
        output.write("".join(to_lines(chosen)))
    else:
        write_lines(path, to_lines(chosen), is_private=True)
    left = len(facts) - len(chosen)
    output.talk(f"{len(chosen):,} facts written" + (f"; {left:,} secret ones left out." if left else "."))
    return 0


@memory.command("import", short_help="Add facts from lines of JSON.")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@tenant_option
@db_option
@json_option
@click.pass_obj
def import_facts(output: Output, path: str, tenant: str | None, db: str | None, as_json: bool) -> int:
    """Add the facts in FILE, as `placet memory export` writes them: all of them, or none.

    A fact whose id is known is left as it is. Facts have no vectors until `placet memory consolidate`. Rules
    about `remember` hold for each fact; where one needs an approval, add that fact with `placet memory add`.

    Exit codes: 0 added, 2 a line cannot be used, 3 a rule refused a fact; nothing is added then.
    """
    output.claim()
    from pathlib import Path

    from placet.app.app import NOWHERE, database_url, open_app
    from placet.app.options import RunOptions
    from placet.cli.output import OPENING
    from placet.memory.memory import Memory
    from placet.memory.transfer import as_plan, from_lines
    from placet.runtime.scope import Scope
    from placet.safe_text import clean

    facts = from_lines(Path(path).read_bytes(), clean(path), tenant=tenant)
    if database_url(db) == NOWHERE:
        raise click.UsageError("--db none stores nothing. Name a database.")
    opening = open_app(RunOptions(permissions="full_access"), db=db, memory=True)
    with output.opened(opening, OPENING) as app, output.waiting("adding facts"):
        output.redactor = app.redactor
        scope = Scope(tenant=tenant) if tenant else None
        for start in range(0, len(facts), _JUDGED_AT_ONCE):
            judged = app.runtime.verify(as_plan(facts[start : start + _JUDGED_AT_ONCE]), scope=scope)
            for issue in (*judged.errors, *judged.undecided):
                if as_json:
                    output.show_json({"error": {"code": "memory.refused", "message": issue.message}})
                else:
                    output.talk(f"Nothing was imported: {issue.message}")
                return 3
        assert isinstance(app.runtime.memory, Memory)
        added = app.runtime.memory.store.add(facts)
    if as_json:
        output.show_json({"added": len(added), "known": len(facts) - len(added)})
    else:
        output.talk(f"{len(added):,} facts added, {len(facts) - len(added):,} known before.")
    return 0


@memory.command(short_help="Tidy the indexes, and make missing vectors.")
@tenant_option
@db_option
@json_option
@click.pass_obj
def consolidate(output: Output, tenant: str | None, db: str | None, as_json: bool) -> int:
    """Take facts that are not believed any more out of the indexes, and embed those that have no vector.

    No fact is deleted: questions with --as-of find what they found before.

    Exit codes: 0 done, 2 bad input.
    """
    from placet.app.app import open_records
    from placet.app.memory import memory_of

    with open_records(db, create=True, writes=True) as records, output.waiting("tidying memory") as pulse:
        memory = memory_of(records)
        from placet.runtime.sync import run_sync

        done = run_sync(
            memory.consolidate(
                tenant=tenant, on_progress=lambda count: pulse.wait(f"{count:,} facts embedded")
            )
        )
        records.note("consolidated", tenant=tenant, data=done.to_dict())
    if as_json:
        output.show_json(done.to_dict())
        return 0
    output.show(
        f"{done.expired:,} expired and {done.superseded:,} superseded facts left the indexes, "
        f"{done.vectors_removed:,} vectors were removed, {done.embedded:,} facts embedded; "
        f"{done.total:,} facts in all."
    )
    return 0
