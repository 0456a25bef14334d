"""Placet as an MCP server: another program is the client, and the runtime decides what it gets.

Keep true:
1. Whatever a client asks for is a proposal that goes through the runtime; no tool is called from here.
2. A client that takes a call back, or goes away, stops the run hard, and the run is put in order before the
   connection ends: what it did is recorded, and it can be resumed.
3. One connection is one session: rules over what has run see all of its calls.
4. A client resumes only what was begun in this way, by the same agent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from mcp import types
from mcp.server.lowlevel.server import Server

from placet import __version__
from placet.errors import NO_SUCH_TOOL, InputError, PlacetError, unknown_tool
from placet.events.event import Event
from placet.ir.action import Action
from placet.ir.proposal import Proposal, new_id
from placet.ir.result import ProposalResult
from placet.ir.stop_cause import StopCause
from placet.runtime.scope import Scope
from placet.runtime.shown import shown_result
from placet.server import offer
from placet.server.answer import CALL, Answers, refusal
from placet.server.offer import as_offered, offered_names, own_tools
from placet.tools.context import Cancel
from placet.tools.json_schema import MOST_SHOWN, cut
from placet.trace_context import join_trace

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from placet.app.app import App

SOURCE = "mcp"
"""The source of everything that comes in here, whatever a client says of it."""

_INSTRUCTIONS = (
    "Every call is checked against the person's policies and permissions, and recorded. A call may be "
    "denied, or wait for the person's approval; the answer says so. For several steps that belong together "
    f"use {offer.VERIFY}, then {offer.EXECUTE}."
)
_MOST_UNSENT = 100
"""Of more reports of progress than this that the client has not taken yet, the oldest are dropped."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends one report of progress to the client: how far, of how much, in which words."""


class Face:
    """The runtime of one app as one client meets it."""

    def __init__(self, app: App, *, agent: str | None = None, db: str | None = None) -> None:
        """`agent` is on whose behalf everything runs; `db` is the database as the person named it."""
        self._app = app
        self._runtime = app.runtime
        self._answers = Answers(app.spill, db)
        self._agent = agent
        self._scope = Scope(caller_id=agent) if agent is not None else None
        self._session = app.runtime.open_session()
        self.names = offered_names(app.runtime.tools.names())
        """Tools of the runtime by the names that the client uses."""
        self.ending = ""
        """Why everything ends, once it does."""
        schemas = {schema.name: schema for schema in app.runtime.tools.schemas()}
        self.tools = [as_offered(name, schemas[tool]) for name, tool in self.names.items()]
        self.tools += own_tools(can_resume=app.records is not None)

    async def answer(
        self, name: str, arguments: Mapping[str, Any], report: Report | None = None
    ) -> types.CallToolResult:
        """What a client gets for a call. Whatever is wrong with it is in the answer."""
        try:
            match name:
                case offer.VERIFY:
                    return self._verify(self._in_our_names(_plan(arguments)))
                case offer.EXECUTE:
                    plan = {**self._in_our_names(_plan(arguments)), "source": SOURCE}
                    return self._answers.of_plan(await self._execute(plan, report))
                case offer.RESUME if self._app.records is not None:
                    return await self._resume(_run_id(arguments), report)
                case _:
                    return await self._call(name, arguments, report)
        except PlacetError as error:
            return refusal(self._app.redactor.text(str(error)))

    async def _call(
        self, name: str, arguments: Mapping[str, Any], report: Report | None
    ) -> types.CallToolResult:
        # A name that nobody knows goes the same way: that it was asked for is recorded.
        tool = self.names.get(name, name)
        # A client has no earlier results to refer to, so a text that looks like a reference is a text.
        action = Action(id=CALL, tool=tool, parameters=dict(arguments), references=False)
        result = await self._execute(Proposal(source=SOURCE, actions=[action]), report)
        if tool not in self._runtime.tools:
            return refusal(self._app.redactor.text(self._unknown(name)))
        return self._answers.of_call(result)

    def _unknown(self, name: str) -> str:
        words = unknown_tool(name, [tool.name for tool in self.tools])
        return words.replace(NO_SUCH_TOOL, "tools/list gives the known ones")

    def _in_our_names(self, plan: dict[str, Any]) -> dict[str, Any]:
        """The plan with tools called as the runtime calls them; whatever else it is, is judged later."""

        def named(step: Any) -> Any:
            if not isinstance(step, dict):
                return step
            tool = step.get("tool")
            if isinstance(tool, str) and tool not in self._runtime.tools:
                step = {**step, "tool": self.names.get(tool, tool)}
            return {**step, "compensation": named(step["compensation"])} if "compensation" in step else step

        actions = plan.get("actions")
        return {**plan, "actions": [named(a) for a in actions]} if isinstance(actions, list) else plan

    def _verify(self, plan: dict[str, Any]) -> types.CallToolResult:
        report = self._runtime.verify(plan, session=self._session, scope=self._scope)
        return self._answers.of_report(self._app.redactor.value(msgspec.to_builtins(report)))

    async def _execute(self, proposal: Proposal | dict[str, Any], report: Report | None) -> ProposalResult:
        run_id = new_id()

        def start(cancel: Cancel) -> Awaitable[ProposalResult]:
            return self._runtime.execute(
                proposal, session=self._session, scope=self._scope, cancel=cancel, run_id=run_id
            )

        return await self._carried_out(run_id, start, report)

    async def _resume(self, run_id: str, report: Report | None) -> types.CallToolResult:
        records = self._app.records
        assert records is not None
        record = await asyncio.to_thread(records.journal.record, run_id)
        caller = record.scope.caller_id if record.scope is not None else None
        if record.proposal.source != SOURCE or caller != self._agent:
            return refusal(
                f"Run {run_id!r} was not begun by this client. A person can go on with it: placet resume."
            )

        def start(cancel: Cancel) -> Awaitable[ProposalResult]:
            return self._runtime.resume(run_id, session=self._session, cancel=cancel)

        result = await self._carried_out(run_id, start, report)
        if not self._runtime.events.query(kind="run_resumed", run=run_id, limit=1):
            # It had ended, perhaps in another process, which knew secrets that this one does not.
            kept = await asyncio.to_thread(records.journal.shown, run_id)
            result = shown_result(kept, self._app.redactor) if kept is not None else result
        is_call = [action.id for action in record.proposal.actions] == [CALL]
        return self._answers.of_call(result) if is_call else self._answers.of_plan(result)

    async def _carried_out(
        self, run_id: str, start: Callable[[Cancel], Awaitable[ProposalResult]], report: Report | None
    ) -> ProposalResult:
        """Run it to its end, whatever becomes of the client, and return what may be shown of it."""
        cancel = Cancel()
        progress = Progress(run_id, report) if report is not None else None
        if progress is not None:
            self._runtime.events.add_sink(progress)
        sending = asyncio.ensure_future(progress.send()) if progress is not None else None
        # A task of its own: the protocol's library cancels again and again until its handler gives in, and
        # the run needs time to put everything in order.
        running = asyncio.ensure_future(start(cancel))
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            cause = StopCause.SHUTDOWN if self.ending else StopCause.CALLER
            cancel.cancel(self.ending or "the client took the call back", hard=True, cause=cause)
            with anyio.CancelScope(shield=True):
                await asyncio.gather(running, return_exceptions=True)
                await self._runtime.events.settle()
            raise
        finally:
            if progress is not None:
                self._runtime.events.remove_sink(progress)
                progress.end()
            if sending is not None and not cancel.requested:
                await sending
            elif sending is not None:
                sending.cancel()
        return shown_result(result, self._app.redactor)


class Progress:
    """What the tools of one run report, on its way to the client. A sink of events."""

    def __init__(self, run_id: str, report: Report) -> None:
        self._run_id = run_id
        self._report = report
        self._unsent: deque[tuple[float, float | None, str | None]] = deque(maxlen=_MOST_UNSENT)
        self._news = asyncio.Event()
        self._last = -1.0
        self._over = False

    def write(self, events: Sequence[Event]) -> None:
        """Take note of what concerns the run."""
        for event in events:
            if event.kind == "action_progress" and event.run_id == self._run_id:
                self._note(event)
        if self._unsent:
            self._news.set()

    def _note(self, event: Event) -> None:
        done, total, message = (event.data.get(name) for name in ("done", "total", "message"))
        words = str(message) if message else None
        if event.action_id != CALL:
            # Several actions count for themselves; to the client it is one call, so the reports are counted.
            done, total, words = None, None, f"{event.action_id}: {words or 'at work'}"
        at = float(done) if isinstance(done, int | float) else self._last + 1
        if at <= self._last:
            return  # The protocol wants each report to be further than the one before.
        self._last = at
        self._unsent.append((at, float(total) if isinstance(total, int | float) else None, words))

    def end(self) -> None:
        """Nothing more will come."""
        self._over = True
        self._news.set()

    async def send(self) -> None:
        """Send what comes, until the end."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._unsent:
                await self._report(*self._unsent.popleft())
            if self._over:
                return


def make_server(face: Face) -> Server[Any]:
    """The server that shows this face, over whatever transport it is run."""

    async def list_tools(
        _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=face.tools)

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        token = context.meta.get("progress_token") if context.meta is not None else None
        report = context.session.report_progress if token is not None else None
        with join_trace(context.meta.get("traceparent") if context.meta is not None else None):
            return await face.answer(params.name, params.arguments or {}, report)

    return Server(
        "placet",
        version=__version__,
        title="Placet",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _plan(arguments: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_more_than("plan", arguments)
    plan = arguments.get("plan")
    if not isinstance(plan, dict):
        raise InputError("'plan' must be an object, the proposal itself: {\"actions\": [...]}.")
    return plan


def _run_id(arguments: Mapping[str, Any]) -> str:
    _refuse_more_than("run_id", arguments)
    run_id = arguments.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise InputError("'run_id' must be the id of a run, as the answer that spoke of waiting named it.")
    return run_id


def _refuse_more_than(known: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what the schema does not let in either: a client that writes it expects something of it."""
    if more := [name for name in arguments if name != known]:
        raise InputError(f"{cut(more[0], MOST_SHOWN)!r} is unknown. The only parameter is {known!r}.")
