"""A runtime with everything around it: tools, policies, and where its runs are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from placet.app.files import load_state, unusable
from placet.app.options import RunOptions
from placet.app.tool_file import load_with_reach
from placet.storage.lease import LEASE_S

if TYPE_CHECKING:
    from placet.agents.sql import SqlAgents
    from placet.app.governance import Question
    from placet.app.isolation import Required
    from placet.app.models import Attached
    from placet.app.reach import Reach
    from placet.approvals.approval import Approval
    from placet.approvals.ledger import ApprovalLedger
    from placet.approvals.sql import SqlApprovals
    from placet.coder.repairs import Repairs
    from placet.coder.store_sql import SqlSessions
    from placet.durable.sql import SqlJournal
    from placet.events.costs import RunPlace
    from placet.events.jsonl import JsonlSink
    from placet.events.log import EventLog
    from placet.events.sql import SqlEvents
    from placet.inference.choice import Chosen
    from placet.ir.json_value import JsonValue
    from placet.loops.sql import SqlRounds
    from placet.loops.timetable_sql import SqlTimetable
    from placet.memory.memory import Memory
    from placet.redaction import Redactor
    from placet.runtime.asking import Person
    from placet.runtime.runtime import Runtime
    from placet.runtime.spill import Spill
    from placet.runtime.sql import SqlTrajectories
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace
    from placet.storage.database import Database
    from placet.tools.tool import Tool
    from placet.verify.names import NameWarning
    from placet.worktree.snapshot.store import Snapshots

SHORTEST_SECRET = 8
"""Of the environment: a variable that holds less may well hold a word that stands everywhere."""

BUILT_IN = "built in"
"""Where the tools are from that come with Placet."""

NOWHERE = "none"
"""What a person writes for a database that is not wanted."""


class Records:
    """What is kept of runs: their events, and what it takes to resume them.

    A program may keep only one of the two, so each is opened when it is asked for.
    """

    def __init__(
        self,
        database: Database,
        context: Mapping[str, JsonValue],
        anchor: Path,
        redactor: Redactor | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        self.database = database
        self._context = context
        self._anchor = anchor
        self._redactor = redactor
        self._lease_s = lease_s

    @cached_property
    def events(self) -> SqlEvents:
        """What happened."""
        from placet.events.anchor import Anchor
        from placet.events.sql import SqlEvents

        return SqlEvents(self.database, anchor=Anchor(self._anchor))

    @cached_property
    def journal(self) -> SqlJournal:
        """The runs, and what it takes to resume them."""
        from placet.durable.sql import SqlJournal

        return SqlJournal(
            self.database, context=self._context, redactor=self._redactor, lease_s=self._lease_s
        )

    @cached_property
    def approvals(self) -> SqlApprovals:
        """What people were asked, and what they said."""
        from placet.approvals.sql import SqlApprovals

        return SqlApprovals(self.database)

    @cached_property
    def sessions(self) -> SqlSessions:
        """The coding sessions."""
        from placet.coder.store_sql import SqlSessions

        return SqlSessions(self.database)

    @cached_property
    def repairs(self) -> Repairs:
        """What helped when checks failed."""
        from placet.coder.repairs import Repairs

        return Repairs(self.database, redactor=self._redactor)

    @cached_property
    def trajectories(self) -> SqlTrajectories:
        """What runs went through, for learning from them."""
        from placet.runtime.sql import SqlTrajectories

        return SqlTrajectories(self.database, self._redactor)

    @cached_property
    def agents(self) -> SqlAgents:
        """Versions of agents, and how their runs went."""
        from placet.agents.sql import SqlAgents

        return SqlAgents(self.database)

    @cached_property
    def rounds(self) -> SqlRounds:
        """The rounds of loops."""
        from placet.loops.sql import SqlRounds

        return SqlRounds(self.database)

    @cached_property
    def timetable(self) -> SqlTimetable:
        """When loops run, and whether they may."""
        from placet.loops.timetable_sql import SqlTimetable

        return SqlTimetable(self.database)

    def note_answer(self, approval: Approval) -> None:
        """Let the log know of an answer when it is given, not only when the run acts on it."""
        from placet.runtime.asking import answer_words

        self.note(
            "approval_recorded",
            run_id=approval.run_id,
            proposal_id=approval.proposal_id or None,
            action_id=approval.action_id,
            tenant=approval.tenant,
            data=answer_words(approval),
        )

    def note(self, kind: str, **more: Any) -> None:
        """Let the log know of something that a person has done outside of a run."""
        with self.log() as log:
            log.append(kind, **more)

    @contextmanager
    def log(self) -> Iterator[EventLog]:
        """The log, for what a person does outside of a run; on disk at the end."""
        from placet.events.log import EventLog
        from placet.redaction import Redactor

        log = EventLog(sinks=[self.events], redactor=Redactor(known_secrets(os.environ)))
        yield log
        log.flush()

    def run_id(self, given: str) -> str:
        """The whole id of a run; one that only the log knows must be given whole.

        Raises:
            UnknownRun: there is none, or several begin so.
        """
        from placet.errors import StorageUnavailable, UnknownRun

        try:
            return self.journal.find(given).run_id
        except (UnknownRun, StorageUnavailable):
            if self.events.query(run=given, limit=1):
                return given
            raise

    def places(self, ids: Collection[str]) -> Mapping[str, RunPlace]:
        """Where runs belong, as far as they are kept."""
        from placet.errors import StorageUnavailable

        try:
            return self.journal.places(ids)
        except StorageUnavailable:
            return {}  # A program may keep events and no runs.

    def close(self) -> None:
        """Finish what is being written, and let go."""
        if "journal" in self.__dict__:
            self.journal.close()
        self.database.close()


def database_url(named: str | None) -> str:
    """Which database: the named one, or the default of this folder and person."""
    from placet.storage.location import default_url

    return named or default_url(os.environ, Path.cwd())


def database_files(named: str | None) -> dict[str, str | None]:
    """The files of the database, by what they are to the person; nothing else may be written there."""
    from placet.storage.location import is_server, sqlite_path

    url = database_url(named)
    if url == NOWHERE or is_server(url):
        return {}
    path = os.path.realpath(sqlite_path(url))  # SQLite keeps its other files beside that one.
    return {
        "the database": path,
        **{f"the database's {end}": f"{path}{end}" for end in ("-wal", "-shm", "-journal")},
    }


def has_records(db: str | None) -> bool:
    """Whether there is anything to open: the default database is not made before something is recorded. One
    that is named should be there."""
    path = database_files(db).get("the database")
    return db is not None or path is None or os.path.exists(path)


@contextmanager
def open_records(
    db: str | None,
    *,
    create: bool = False,
    writes: bool = False,
    options: RunOptions | None = None,
    anchor: Path | None = None,
    redactor: Redactor | None = None,
    lease_s: float = LEASE_S,
) -> Iterator[Records]:
    """What is kept in the database `db`, or in the default one. Whoever begins runs brings a `redactor`, and
    the `options` that are stored with them; its runs can be taken over after `lease_s` seconds without a sign
    of life.

    Raises:
        StorageError: it cannot be opened, or is not there and `create` is false.
        TrustError: it is the default of a project, and somebody else has made it.
        UsageError: it is none, or of no known kind.
    """
    from contextlib import ExitStack

    from placet.app.own_database import check_own, note_log
    from placet.errors import UsageError
    from placet.storage.location import is_server, open_database, project_database, sqlite_path, user_folder

    url = database_url(db)
    if url == NOWHERE:
        raise UsageError("'none' keeps nothing, so there is nothing to look at; name a database.")
    if not db and (of_project := project_database(os.environ, Path.cwd())) is not None:
        check_own(of_project, os.environ, create=create and writes)
    with ExitStack() as stack:
        file = sqlite_path(url) if writes and not is_server(url) else None
        if file is not None:
            stack.callback(note_log, file, os.environ)
        database = stack.enter_context(open_database(url, create=create, read_only=not writes))
        if file is not None:
            note_log(file, os.environ)
        anchors = anchor or user_folder(os.environ) / "anchors"
        context = {} if options is None else msgspec.to_builtins(options)
        records = Records(database, context, anchors, redactor, lease_s)
        try:
            yield records
        finally:
            records.close()


class App:
    """A runtime, and what has to be closed when it is done."""

    def __init__(
        self,
        runtime: Runtime,
        sink: JsonlSink | None,
        records: Records | None,
        *,
        options: RunOptions,
        spill: Spill,
        sources: Mapping[str, str],
        reach: Mapping[str, Reach],
        required: Required,
        workspace: Workspace,
        attached: Attached,
        attach: Callable[[str], Attached],
        confined: Isolation,
        sealed: Sequence[str] = (),
        trusted: Iterable[str] = (),
        uses_memory: bool = False,
    ) -> None:
        self.runtime = runtime
        self.sink = sink
        self.records = records
        self.options = options
        """The options it was opened with."""
        self.spill = spill
        """Where outputs are kept that are too long to be shown."""
        self.sources = sources
        """Where each tool that does not come with Placet is from: a file, or an MCP server."""
        self.reach = reach
        """Where each tool runs that has to be asked about; the others come with Placet."""
        self.required = required
        """The isolation that commands must have."""
        self.workspace = workspace
        """Where tools work."""
        self.attached = attached
        """The models that are set up."""
        self.attach = attach
        """The models as they are if the person names one; raises what `attach` of `app.models` raises."""
        self.confined = confined
        """How commands are kept in."""
        self.uses_memory = uses_memory
        """Whether assistants get what memory holds about each message."""
        self.sealed = sealed
        """Files that the run was started with, which no snapshot touches."""
        self.unknown_trusted = sorted(name for name in trusted if name not in runtime.tools)
        """Names that the person trusts, and that no tool has here."""

    @property
    def redactor(self) -> Redactor:
        """What keeps secrets out of everything that is shown."""
        return self.runtime.events.redactor

    @property
    def chosen(self) -> Chosen | None:
        """The model that answers where a plan names none; None where no model is set up."""
        return self.attached.chosen

    def source_of(self, tool: str) -> str:
        """Where a tool is from."""
        return self.sources.get(tool, BUILT_IN)

    def reach_of(self, tool: str) -> Reach:
        """Where a tool runs."""
        from placet.app.reach import BUILT_IN

        return self.reach.get(tool, BUILT_IN)

    def trusted_warnings(self) -> list[NameWarning]:
        """Names in `trusted_tools` that no tool has, one of which may be misspelt.

        Only where a tool is withheld: in other folders those tools are simply not there.
        """
        from difflib import get_close_matches

        from placet.verify.names import NameWarning

        withheld = list(self.runtime.tools.withheld)
        found: list[NameWarning] = []
        for name in self.unknown_trusted if withheld else ():
            near = get_close_matches(name, withheld, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            found.append(
                NameWarning(
                    kind="unknown_tool",
                    name=name,
                    nearest=near[0] if near else None,
                    rule="trusted_tools",
                    message=f"trusted_tools in your settings names '{name}', and no tool here has that name."
                    f"{hint}",
                )
            )
        return found

    def close(self) -> None:
        """Hand over what is not written yet, and close the log."""
        self.runtime.events.flush()
        if self.sink is not None:
            self.sink.close()


@contextmanager
def open_app(
    options: RunOptions = RunOptions(),  # noqa: B008  (frozen)
    *,
    db: str | None = NOWHERE,
    create: bool = True,
    log: str | None = None,
    wait_s: float | None = 0,
    on_paper: bool = False,
    binds: bool = True,
    memory: bool = False,
    person: Person | None = None,
    confirm: Callable[[Question], bool] | None = None,
    lease_s: float = LEASE_S,
) -> Iterator[App]:
    """A runtime made from files, closed afterwards; with a database, one whose runs can be resumed: their
    options are stored with them.

    File tools write none of the files that the options name. With a workspace tools work in that folder and
    plans are bound to it, unless it does not bind: loops of turns keep what they have done. Rules, settings
    and records stay those of the options' folder.

    A run waits `wait_s` for a person's answer before it suspends, to be resumed; None is as long as it takes.
    `on_paper` is for apps that run nothing: it is enough to know that somebody could be asked. A `person` can
    be asked right here, and `confirm` asks whether to trust what the folder brings. With `memory` the runtime
    has the memory of the database, also where the settings do not ask for it; without a database, an empty
    one.

    Raises:
        InputError: one of the files cannot be used, or the folder is not trusted and wants to be.
        IsolationMissing: this machine enforces less than is required. Nothing is kept or started then.
        StorageError: the database cannot be used.
    """
    from contextlib import ExitStack

    from placet.app.governance import gather
    from placet.app.isolation import check_isolation, hosts_of_http, isolation_for, required, way_out
    from placet.app.mcp_servers import known_mcp_tools, load_mcp_tools, load_servers
    from placet.app.models import MODEL_TOOLS, attach
    from placet.app.reach import MODEL, SERVER, Reach
    from placet.app.recovery import FolderRecovery
    from placet.approvals.memory import MemoryApprovals
    from placet.events.log import EventLog
    from placet.policy.permission import Permissions, Posture
    from placet.redaction import Redactor
    from placet.runtime.runtime import Runtime
    from placet.sandbox.confinement import withheld_words
    from placet.tools.builtin import basic_tools
    from placet.tools.builtin.git import NAME as GIT_COMMIT
    from placet.tools.builtin.git import why_no_commits
    from placet.tools.given import tools_given

    with ExitStack() as stack:
        here = Path(options.folder) if options.folder is not None else Path.cwd()
        rules = gather(here, os.environ, policies=options.policies, tools=options.tools, confirm=confirm)
        spill = spill_here(here)
        needed = required(
            rules.folder, rules.isolation, os.environ, asked=options.isolation, began_with=options.required
        )
        confined = isolation_for(needed, rules, os.environ)
        sealed = [*options.files, *([log] if log is not None else ())]
        place = _workspace(options, rules.folder, here, db, spill, sealed)
        stack.callback(place.close)
        if needed.is_checked and not on_paper:
            check_isolation(confined, place, way_out(needed, rules.isolation, options.isolation))
        found: Sequence[Tool[..., Any]] = ()
        names = rules.own.command_host_names
        reach = {"shell": Reach("nothing" if needed.level == "none" else "sandbox", names)}
        own: Mapping[str, Reach] = {}
        if rules.tools is not None:
            found, own = load_with_reach(rules.tools, rules.tools_source, place, confined, names)
        servers = load_servers(os.environ)
        served, hang_up = load_mcp_tools(os.environ, servers)
        stack.callback(hang_up)
        tools_given([*found, *served])  # A tool of a file must not stand in for one of a server.
        sources = {tool.name: f"MCP server {tool.name.partition('.')[0]}" for tool in served}
        sources |= {tool.name: rules.tools or "" for tool in found}
        attached = attach(options.model, rules.own.models, os.environ)
        reach |= dict.fromkeys(MODEL_TOOLS, MODEL)
        reach |= {**dict.fromkeys((tool.name for tool in served), SERVER), **own}
        granted = rules.permissions
        if options.permissions is not None:
            granted = Permissions(standing=Posture.named(options.permissions))
        values = load_state(options.state) if options.state is not None else {}
        redactor = Redactor(known_secrets(os.environ))
        records = None
        if db != NOWHERE and database_url(db) != NOWHERE:
            stored = options.settled(required=needed.level, policies_sha256=rules.policies_sha256)
            records = stack.enter_context(
                open_records(
                    db, create=create, writes=True, options=stored, redactor=redactor, lease_s=lease_s
                )
            )
        events = EventLog(redactor=redactor)
        if records is not None:
            events.add_sink(records.events)
        if rules.own.otel is not None and not on_paper:
            from placet.app.telemetry import export_traces

            stack.callback(export_traces(events, rules.own.otel))
        attached_memory: Memory | None = None
        if records is not None and (memory or rules.own.memory):
            from placet.app.memory import memory_of

            attached_memory = memory_of(records, start=here)
        elif memory:
            from placet.memory.memory import Memory

            attached_memory = Memory()  # Nothing is kept, so it lasts as long as this process.
        own_tools = basic_tools(place, hosts=hosts_of_http(needed, rules), isolation=confined)
        if attached_memory is not None:
            from placet.app.skills import folder_skills
            from placet.memory.skills.tools import script_tools

            attached_memory.skills.folders = folder_skills(here, os.environ).skills
            own_tools += script_tools(attached_memory, place, confined)
        ledger: ApprovalLedger | None = records.approvals if records is not None else None
        if on_paper:
            ledger = MemoryApprovals()
        runtime = Runtime(
            tools=found,
            state=values,
            policies=rules.policies,
            permissions=granted,
            schedule=options.schedule,
            events=events,
            journal=records.journal if records is not None else None,
            approvals=ledger,
            patience_s=wait_s if records is not None else None,
            approvals_expire_s=options.expires_s,
            folder=str(rules.folder if options.workspace is None else place.folder),
            # Without a ledger that is kept, what is asked here is known to this process alone.
            person=person,
            builtin=[*own_tools, *served],
            # Where nothing can be missing nobody has to wait for the self-test.
            isolation=confined if needed.is_checked or needed.lowering is not None else None,
            workspace=place if options.workspace is not None and binds else None,
            snapshots=snapshots_but(sealed) if options.workspace is not None and binds else None,
            model=attached.models,
            memory=attached_memory,
            trajectories=records.trajectories if records is not None and rules.own.auto_distill else None,
            auto_distill=rules.own.auto_distill
            and attached_memory is not None
            and attached.models is not None,
        )
        runtime.recovery = FolderRecovery(place)
        runtime.tools.hints.update(attached.hints)
        if GIT_COMMIT not in runtime.tools:
            runtime.tools.hints[GIT_COMMIT] = why_no_commits(str(place.folder))
        runtime.tools.elsewhere |= known_mcp_tools(servers)
        runtime.policies.general = rules.general
        for name in runtime.tools.withheld:
            # Only here is it known what each of them is.
            runtime.tools.withheld[name] = withheld_words(name, reach[name].outside)
        app = App(
            runtime,
            None,
            records,
            options=options,
            spill=spill,
            sources=sources,
            reach=reach,
            required=needed,
            workspace=place,
            attached=attached,
            attach=lambda name: attach(name, rules.own.models, os.environ),
            confined=confined,
            sealed=sealed,
            trusted=rules.own.trusted_tools,
            uses_memory=rules.own.memory and attached_memory is not None,
        )
        stack.callback(app.close)
        if log is not None:
            app.sink = _open_log(log)
            app.runtime.events.add_sink(app.sink)
        yield app


def _workspace(
    options: RunOptions, project: Path, start: Path, db: str | None, spill: Spill, sealed: Sequence[str]
) -> Workspace:
    """Where tools work, and what of it they leave alone."""
    from placet.sandbox.workspace import Workspace
    from placet.storage.location import config_folder, project_folders, user_folder

    closed = [config_folder(os.environ), user_folder(os.environ)]
    for url in (db, None):
        # Also where nothing is kept this time: the default one holds what was approved before.
        closed += [Path(each) for each in database_files(url).values() if each]
    if options.record is not None:
        # It holds whole answers, with what is taken out of all else.
        closed.append(Path(options.record))
    if options.workspace is not None:
        # The rules that hold are not those of the workspace, and may well lie in it.
        closed += project_folders(start)
    return Workspace(options.workspace or project, readable=[spill.folder], closed=closed, sealed=sealed)


def snapshots_but(sealed: Iterable[str]) -> Snapshots:
    """Where snapshots of bound workspaces are kept. What a run was started with is not put back by it."""
    from placet.storage.location import user_folder
    from placet.worktree.snapshot.store import Snapshots

    return Snapshots(user_folder(os.environ) / "snapshots", leave_alone=sealed)


def spill_here(start: Path | None = None) -> Spill:
    """Where long outputs are kept: in the data of the project around `start`, else in the person's."""
    from placet.runtime.spill import Spill
    from placet.storage.location import project_folder, user_folder

    project = project_folder(start or Path.cwd())
    if project is None:
        return Spill(user_folder(os.environ), "spill")
    return Spill(project.parent, project.name, "data", "spill")


def known_secrets(environment: Mapping[str, str]) -> list[str]:
    """What is to be taken out of everything shown and recorded: secrets of the environment, and what the
    person has named for MCP servers."""
    from placet.app.mcp_servers import secrets_of_servers

    return [*secrets_of(environment), *secrets_of_servers(environment)]


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Values of variables whose names, or shapes, say that they are secret."""
    from placet.redaction import Redactor

    known = Redactor()
    return [
        value
        for name, value in environment.items()
        if len(value) >= SHORTEST_SECRET
        and name not in ("PWD", "OLDPWD")
        and known.value({name: value}) != {name: value}
    ]


def _open_log(path: str) -> JsonlSink:
    from placet.events.jsonl import JsonlSink

    try:
        return JsonlSink(path)
    except (OSError, ValueError) as error:
        raise unusable("write the log", path, error) from None
