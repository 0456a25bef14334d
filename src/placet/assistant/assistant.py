"""An assistant: a person's task, a model, and a runtime that asks before it goes far.

Keep true:
1. What the model may do without asking is decided here, before it runs: by an approval policy, else by the
   list of gated tools, else by the tier of the call. A policy of the runtime that denies beats all of them.
2. A run that was broken off goes on as it began: with the same words, tools and limits, and asking no less.
3. What cannot go on so is refused before anything of it has changed.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, overload

import msgspec

from placet.assistant.chat import Chat
from placet.assistant.consent import UNTOLD, Consent, names_of_tools
from placet.assistant.going_on import GoingOn
from placet.assistant.kept import LEADER, Kept, kept_of
from placet.assistant.prompt import SMALL_SYSTEM, SYSTEM
from placet.errors import UsageError
from placet.inference.messages import Image, Text, User
from placet.inference.model import Intent, Model
from placet.inference.named import ModelLike, make_ready, model_given
from placet.inference.profile import ModelProfile, ProfileLike, profile_given, profile_of
from placet.ir.proposal import new_id
from placet.ir.provenance import MessageText, Provenance, parts_of, text_of, typed
from placet.policy.permission import UNASKED, Posture, StanceOf
from placet.runtime.given import check_runtime
from placet.runtime.journal import Choice, Decision
from placet.runtime.stop_requests import linked
from placet.runtime.sync import refuse_inside_loop, run_sync
from placet.tools.context import Cancel
from placet.tools.deps import check_deps
from placet.truncation import truncate_repr
from placet.turns.basis import Router, router_for
from placet.turns.calls import Offer
from placet.turns.ending import Ending, Event, Watch
from placet.turns.guided import guided
from placet.turns.leading import end, ending_of, say_started
from placet.turns.limits import TurnLimits
from placet.turns.loop import TurnLoop
from placet.turns.memory import ONLY_WITH_MEMORY, turn_memory
from placet.turns.output import OutputType
from placet.turns.told import plain_text
from placet.turns.watching import watched

if TYPE_CHECKING:
    # The default makes an assistant without an output type an `Assistant[None]`. Only checkers need it, and
    # 3.11's typing lacks it.
    from typing_extensions import TypeVar

    from placet.runtime.open_run import OpenRun
    from placet.runtime.runtime import Runtime
    from placet.runtime.scope import Scope
    from placet.runtime.spill import Spill
    from placet.turns.recording import RunRecording

    OutputT = TypeVar("OutputT", default=None)
    OtherT = TypeVar("OtherT")
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")
    OtherT = TypeVar("OtherT")

__all__ = ["LEADER", "Assistant", "kept_of"]

_MODEL_LABEL = "model"
"""Of tools that ask a model: an assistant is one already."""
_NOT_OFFERED = "tool '{tool}' is not offered to you"


class Assistant(Generic[OutputT]):
    """Does tasks with a model and the tools of a runtime.

    Every tool call of the model is an action of one run: policies, permissions, approvals, limits, log and
    journal hold for it as for any plan.

    >>> from placet import Assistant, Runtime
    >>> from placet.inference import Scripted
    >>> assistant = Assistant(Runtime(), Scripted(["Hello."]))
    >>> assistant.run_sync("Say hello.").summary
    'Hello.'

    With an `output_type`, the answer is a value of that type, for type checkers too:

    >>> assistant = Assistant(Runtime(), Scripted(["[6, 7]"]), output_type=list[int])
    >>> assistant.run_sync("Two factors of 42?").output
    [6, 7]
    """

    def __init__(
        self,
        runtime: Runtime,
        model: ModelLike,
        *,
        output_type: type[OutputT] | None = None,
        system: str = SYSTEM,
        tools: Iterable[str] | None = None,
        limits: TurnLimits | None = None,
        posture: Posture | str | None = None,
        gated_tools: Iterable[str] = (),
        approval_policy: StanceOf | None = None,
        name: str = LEADER,
        failures: int = 1,
        spill: Spill | None = None,
        nobody: str = UNASKED,
        memory: bool = False,
        profile: ProfileLike | None = None,
    ) -> None:
        """Whether a call needs approval is decided in this order: `approval_policy`, `gated_tools`, then the
        tier of the call by `posture` or the runtime's permissions. A policy of the runtime that denies wins
        over all of them.

        Args:
            runtime: Executes the calls; people are asked through it.
            model: The model, or its name, such as `"openai:gpt-5"`; a name is opened, with `os.environ`, when
                a run begins.
            output_type: Type `T` of every answer, such as a Struct, a dataclass or a pydantic model. The
                assistant is then an `Assistant[T]`, and `run` returns an `Ending[T]`. An answer that does not
                fit is asked for once more. `None`: answers are text, and `Ending.output` is `None`.
                Conversations of `chat` are text in any case.
            system: System prompt.
            tools: Names of the tools that the model is offered. `None`: all of the runtime's, except those
                that ask a model themselves.
            limits: Limits on each run.
            posture: The answer to each tier of call: a `Posture` or the name of one. `None`: the runtime's
                permissions; without any, every call that does more than read needs approval.
            gated_tools: Names of tools that always need approval.
            approval_policy: Function of a tool's name and its parameters that is asked first; it returns
                `"allow"`, `"ask"`, `"deny"`, a `Stance`, or `None` to leave it to the others. One that raises
                denies.
            name: Name in the log and in `placet log costs`.
            failures: How many times in a row the model may give no answer before the run ends.
            spill: Folder for results that are too long for a model.
            nobody: Message to the model about a call that needs approval, if there is nobody to ask.
            memory: Give the model, with each message, what the runtime's memory holds about it; and offer
                `conversation.search`, which finds messages that were left out to make room.
            profile: How the model is guided: `"small"`, `"large"` or a `ModelProfile`. `None`: the profile
                of the model. A small model gets few tools, chosen by the task, and what the task names is
                read for it.

        Raises:
            UsageError: the runtime does not have a named tool, or an argument is not a runtime, a model or a
                posture.
        """
        check_runtime(runtime, "Assistant")
        self.runtime = runtime
        """The runtime that executes the calls."""
        self.model: Model = model_given(model, "Assistant")
        """The model; one that was given by name is opened when it is first needed."""
        self.name = name
        """Name in the log."""
        if limits is not None and not isinstance(limits, TurnLimits):
            raise UsageError(f"Assistant(limits={truncate_repr(limits, 80)}): write limits=TurnLimits(...).")
        self.limits: TurnLimits = limits or TurnLimits()
        """Limits on each run."""
        self._output_type = output_type
        self._system = system
        self._tools = None if tools is None else names_of_tools(runtime.tools, "tools", tools)
        if failures < 1:
            raise UsageError("Assistant(failures=...) must be at least 1.")
        self._failures = failures
        self._spill = spill
        self._memory = memory
        if memory:
            turn_memory(runtime, "Assistant(memory=True)")
        self._profile = profile_given(profile)
        self._consent = Consent(
            approval_policy,
            frozenset(names_of_tools(runtime.tools, "gated_tools", gated_tools)),
            Posture.named(posture) if isinstance(posture, str) else posture,
            nobody,
        )

    # One task

    @overload
    async def run(
        self,
        task: MessageText,
        *,
        images: Sequence[Image] = (),
        run_id: str | None = None,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OutputT]: ...

    @overload
    async def run(
        self,
        task: MessageText,
        *,
        output_type: type[OtherT],
        images: Sequence[Image] = (),
        run_id: str | None = None,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OtherT]: ...

    async def run(
        self,
        task: MessageText,
        *,
        images: Sequence[Image] = (),
        output_type: Any = None,
        run_id: str | None = None,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[Any]:
        """Do a task and return how it ended.

        Args:
            task: The task in words. A `str` counts as typed by the person; of a list of `SourcedText`, only
                the parts that the person typed do.
            images: Images that belong to the task.
            output_type: Type of this answer, if it is another than the assistant's.
            run_id: Id of the run in the log and in the journal. `None`: a new one.
            scope: On whose behalf the assistant acts.
            session: Session of the runtime whose policies also hold.
            cancel: Request to stop.
            deps: Your own objects for tools that take a `ToolContext[Deps]`. `None`: those of the runtime.
            watch: Function that is called with every event as it happens.
            record: File to record the run in, for `placet replay`.

        Raises:
            InputError: the recording file cannot be used; nothing has run.
            DepsError: a tool asks for `deps` that are not there; nothing has run.
            UsageError: the task is empty, or the runtime is in use in another thread.
            RunExists: the journal has a run with this id.
            StorageError: the run cannot be recorded; nothing has run.
            ModelError: the model was given by name and cannot be opened, such as `KeyMissing`; nothing has
                run.
        """
        parts = parts_of(task)
        text, provenance = text_of(parts), Provenance.of(parts)
        message = _message(text, images)
        make_ready(self.model)
        output = self._output(output_type)
        kept = msgspec.structs.replace(self._kept(is_chat=False), task=message, provenance=provenance)
        if output is not None:
            kept = msgspec.structs.replace(
                kept, system=f"{kept.system}\n\n{output.request()}", output=output.schema
            )
        router = self._router(kept)
        async with (
            self._recording(record, router) as recording,
            self._opened(kept, run_id, scope, session, cancel, deps) as (run, inner),
        ):
            say_started(run, task=text, model=kept.model, tools=kept.tools, limits=kept.limits)
            loop = self._loop(run, kept, inner, watch, output, recording=recording, router=router)
            return await end(run, await loop.say(message, provenance))

    @overload
    def run_sync(
        self,
        task: MessageText,
        *,
        images: Sequence[Image] = (),
        run_id: str | None = None,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OutputT]: ...

    @overload
    def run_sync(
        self,
        task: MessageText,
        *,
        output_type: type[OtherT],
        images: Sequence[Image] = (),
        run_id: str | None = None,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OtherT]: ...

    def run_sync(self, task: MessageText, **options: Any) -> Ending[Any]:
        """`run` for code without an event loop.

        Takes the arguments of `run`.

        Args:
            options: Further arguments of `run`.

        Raises:
            UsageError: this thread runs an event loop; await `run` there.
        """
        refuse_inside_loop("run", of="assistant")
        return run_sync(self.run(task, **options))

    @overload
    def stream(
        self,
        task: MessageText,
        *,
        images: Sequence[Image] = (),
        run_id: str | None = None,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        record: str | PathLike[str] | None = None,
    ) -> AsyncGenerator[Event[OutputT], None]: ...

    @overload
    def stream(
        self,
        task: MessageText,
        *,
        images: Sequence[Image] = (),
        output_type: type[OtherT],
        run_id: str | None = None,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        record: str | PathLike[str] | None = None,
    ) -> AsyncGenerator[Event[OtherT], None]: ...

    async def stream(self, task: MessageText, **options: Any) -> AsyncGenerator[Event[Any], None]:
        """Do a task and yield events as they happen; the last one is `RunFinished`. Iterate over it with
        `async for`.

        Closing the generator stops the run, which can be resumed. Raises the errors of `run`.

        Takes the arguments of `run`.

        Args:
            options: Further arguments of `run`.
        """
        happens = watched(lambda watch: self.run(task, watch=watch, **options))
        # Closed with this one: it has stopped by the time that this is closed.
        async with aclosing(happens):
            async for event in happens:
                yield event

    @overload
    async def resume(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        widen: bool = False,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OutputT]: ...

    @overload
    async def resume(
        self,
        run_id: str,
        *,
        output_type: type[OtherT],
        decide: Mapping[str, Decision | Choice] | None = None,
        widen: bool = False,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OtherT]: ...

    async def resume(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        output_type: Any = None,
        widen: bool = False,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[Any]:
        """Resume a run that was interrupted or waits. If it has ended, return how it ended.

        No answered turn is asked again, and no completed call is made again. What needed approval when the
        run began still does, besides what this assistant asks about.

        Takes the arguments of `run` and `Runtime.resume`.

        Args:
            run_id: Id of the run.
            output_type: Type of the answer, if it is another than the assistant's; the one that the run began
                with.
            widen: Only the rules of this assistant decide what needs approval, not those with which the run
                began.
            record: File of the recording, if the run was recorded.

        Raises:
            InputError: the file holds another run, or none.
            UnknownRun: the journal has no such run.
            RunHeld: another process is executing it.
            UsageError: it is not a run of an assistant, or is a chat; the output type or approval policy of
                the run is missing; or its answer does not fit the output type.
        """
        output = self._output(output_type)
        going_on = self._going_on(run_id, widen, has_output=output is not None)
        router = self._router(self._kept(is_chat=False))
        async with (
            self._recording(record, router, resumed=run_id) as recording,
            self._reopened(going_on, decide, session, cancel, deps) as (run, kept, inner),
        ):
            if run.ended is not None:
                return ending_of(run.ended, output)
            make_ready(self.model)
            loop = self._loop(run, kept, inner, watch, output, recording=recording, router=router)
            ending = await loop.go_on()
            if ending is None:
                assert kept.task is not None
                known = kept.provenance or typed(plain_text(kept.task))
                ending = await loop.say(kept.task, known)
            return await end(run, ending)

    @overload
    def resume_sync(
        self,
        run_id: str,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        widen: bool = False,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OutputT]: ...

    @overload
    def resume_sync(
        self,
        run_id: str,
        *,
        output_type: type[OtherT],
        decide: Mapping[str, Decision | Choice] | None = None,
        widen: bool = False,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        record: str | PathLike[str] | None = None,
    ) -> Ending[OtherT]: ...

    def resume_sync(self, run_id: str, **options: Any) -> Ending[Any]:
        """`resume` for code without an event loop. Also raises the errors of `run_sync`.

        Takes the arguments of `resume`.

        Args:
            options: Further arguments of `resume`.
        """
        refuse_inside_loop("resume", of="assistant")
        return run_sync(self.resume(run_id, **options))

    @asynccontextmanager
    async def _recording(
        self,
        record: str | PathLike[str] | None,
        router: Router | None,
        *,
        resumed: str | None = None,
    ) -> AsyncIterator[RunRecording | None]:
        if record is None:
            yield None
            return
        from placet.turns.recording import RunRecording

        recording = RunRecording(self._guided(self.model, router), record, resumed=resumed)
        try:
            yield recording
        finally:
            await recording.close()

    @asynccontextmanager
    async def _reopened(
        self,
        going_on: GoingOn,
        decide: Mapping[str, Decision | Choice] | None,
        session: str | None,
        cancel: Cancel | None,
        deps: Any,
    ) -> AsyncIterator[tuple[OpenRun, Kept, Cancel | None]]:
        with linked(cancel) as inner:
            async with self.runtime.reopen_run(
                going_on.run_id,
                decide=decide,
                session=session,
                cancel=inner,
                by_call=going_on.by_call,
                deps=deps,
            ) as run:
                kept = kept_of(run.about) if run.ended is None else self._kept(is_chat=False)
                if run.ended is None:
                    self._check_deps(kept, deps)
                async with run.stopping_on_request(inner):
                    yield run, kept, inner

    def _going_on(
        self, run_id: str, widen: bool, *, is_chat: bool = False, has_output: bool = False
    ) -> GoingOn:
        return GoingOn(run_id, self._consent, self.runtime.permissions, widen, is_chat, has_output)

    @asynccontextmanager
    async def _opened(
        self,
        kept: Kept,
        run_id: str | None,
        scope: Scope | None,
        session: str | None,
        cancel: Cancel | None,
        deps: Any,
    ) -> AsyncIterator[tuple[OpenRun, Cancel | None]]:
        self._check_deps(kept, deps)
        standing = self.runtime.budget
        is_timed = kept.limits.time_s is not None or (
            standing is not None and standing.max_duration_ms is not None
        )
        # A run that nothing can stop does with less.
        needs_one = cancel is not None or is_timed
        with linked(cancel) if needs_one else nullcontext() as inner:
            async with (
                self.runtime.open_run(
                    kept.about(run_id or new_id(), self.name),
                    scope=scope,
                    session=session,
                    cancel=inner,
                    run_id=run_id,
                    budget=kept.limits.budget,
                    by_call=self._consent.by_call,
                    deps=deps,
                ) as run,
                run.stopping_on_request(inner),
            ):
                yield run, inner

    # Several messages

    @asynccontextmanager
    async def chat(
        self,
        run_id: str | None = None,
        *,
        decide: Mapping[str, Decision | Choice] | None = None,
        resume: bool = False,
        widen: bool = False,
        scope: Scope | None = None,
        session: str | None = None,
        cancel: Cancel | None = None,
        deps: Any = None,
        watch: Watch | None = None,
        before_effect: Callable[[], Awaitable[None]] | None = None,
        record: str | PathLike[str] | None = None,
    ) -> AsyncIterator[Chat]:
        """Open a conversation, for use with `async with`. It is saved when it is left, and can be resumed
        under the same id.

        Raises the errors of `run` and `resume`, and `UsageError` if the run is not a conversation or has
        ended.

        Takes the arguments of `run` and `resume`.

        Args:
            run_id: Id of the run. `None`: a new one; required to resume.
            resume: Resume the conversation `run_id`.
            before_effect: Awaited before each call that may change something.
        """
        make_ready(self.model)
        router = self._router(self._kept(is_chat=True))
        lead = partial(self._guided, router=router)
        if resume:
            if run_id is None:
                raise UsageError("chat(resume=True) needs the run_id of the conversation.")
            going_on = self._going_on(run_id, widen, is_chat=True)
            async with (
                self._recording(record, router, resumed=run_id) as recording,
                self._reopened(going_on, decide, session, cancel, deps) as (run, kept, inner),
            ):
                if run.ended is not None and run.ended.outcome != "waiting":
                    raise UsageError(
                        f"Run '{run_id}' has ended ({run.ended.outcome}): nothing more can be said in it."
                    )
                loop = self._loop(run, kept, inner, watch, None, before_effect, recording, router)
                chat = Chat(run, loop, lead)
                if run.ended is None:
                    await chat.go_on()
                yield chat
                await chat.leave()
            return
        kept = self._kept(is_chat=True)
        async with (
            self._recording(record, router) as recording,
            self._opened(kept, run_id, scope, session, cancel, deps) as (run, inner),
        ):
            say_started(run, task="", model=kept.model, tools=kept.tools, limits=kept.limits)
            loop = self._loop(run, kept, inner, watch, None, before_effect, recording, router)
            chat = Chat(run, loop, lead)
            yield chat
            await chat.leave()

    # Parts

    def _check_deps(self, kept: Kept, deps: Any) -> None:
        check_deps(self.runtime.tools, kept.tools, self.runtime.deps if deps is None else deps)

    def _output(self, given: Any) -> OutputType[Any] | None:
        wanted = self._output_type if given is None else given
        return None if wanted is None else OutputType.of(wanted)

    def offered(self) -> list[str]:
        """Return the names of the tools that the model is offered."""
        if self._tools is not None:
            return self._tools
        named = [each.name for each in self.runtime.tools if _MODEL_LABEL not in each.schema.labels]
        return named if self._memory else [name for name in named if name not in ONLY_WITH_MEMORY]

    def _router(self, kept: Kept) -> Router | None:
        return router_for(self.runtime.tools, kept.tools)

    @property
    def profile(self) -> ModelProfile:
        """How the model is guided."""
        return self._profile or profile_of(self.model)

    def _guided(self, model: Model, router: Router | None) -> Model:
        return guided(model, self._profile or profile_of(model), router)

    def _kept(self, *, is_chat: bool) -> Kept:
        is_own = self._system == SYSTEM and self.profile.strength == "small"
        return Kept(
            is_chat=is_chat,
            system=SMALL_SYSTEM if is_own else self._system,
            tools=self.offered(),
            limits=self.limits,
            model=str(getattr(self.model, "name", "")),
            posture=self._consent.posture or (UNTOLD if self.runtime.permissions is None else None),
            gated=sorted(self._consent.gated),
            memory=self._memory,
            has_policy=self._consent.policy is not None,
        )

    def _loop(
        self,
        run: OpenRun,
        kept: Kept,
        cancel: Cancel | None,
        watch: Watch | None,
        output: OutputType[Any] | None,
        before_effect: Callable[[], Awaitable[None]] | None = None,
        recording: RunRecording | None = None,
        router: Router | None = None,
    ) -> TurnLoop:
        tools = self.runtime.tools
        call_s = kept.limits.call_s
        offer = Offer(
            tools=tools,
            offered=frozenset(kept.tools),
            not_offered=_NOT_OFFERED,
            source=run.about.source,
            timeout_ms=max(1, int(call_s * 1000)) if call_s is not None else None,
        )
        found = (tools.get(name) for name in kept.tools)
        model = self._guided(self.model, router)
        made = partial(TurnLoop, run, model) if recording is None else partial(recording.loop, run)
        return made(
            offer,
            system=kept.system,
            schemas=[each.schema for each in found if each is not None],
            limits=kept.limits,
            failures=self._failures,
            output=output,
            intent=Intent(task="chat", requires=("tools",)),
            cancel=cancel,
            spill=self._spill,
            watch=watch,
            before_effect=before_effect,
            unrecorded=typed,
            memory=turn_memory(self.runtime, "The run") if kept.memory else None,
            router=router,
        )


def _message(task: str, images: Sequence[Image]) -> User:
    if not task.strip():
        raise UsageError("There is no task. Say in a sentence what is to be done.")
    return User((Text(task), *images)) if images else User(task)
