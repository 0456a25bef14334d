"""Asking people: a question is put where others can answer it, and the answer is waited for.

Keep true:
1. The question is on disk before anybody is said to be waited for.
2. An answer counts for exactly what was asked: the same call, of the same run, under the same policies.
3. However many runs wait, one look at a time goes through all of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from placet.approvals.approval import ANSWERS, GIVEN, Approval, Decision, fingerprint
from placet.approvals.ledger import ApprovalLedger
from placet.errors import ApprovalDecided, PlacetError, StorageError, UsageError
from placet.ir.action import Action
from placet.ir.call_facts import Confinement
from placet.ir.json_value import JsonValue
from placet.policy.gate import Objection
from placet.runtime.call_facts import UNCONFINED, RecoveryOf, confinement_of, facts_of, isolation_words
from placet.runtime.calls import words_of
from placet.truncation import truncate_repr
from placet.validator import undo_action, undo_of

if TYPE_CHECKING:
    from placet.policy.permission import Tier
    from placet.runtime.gated import Gated
    from placet.tools.tool import Tool

_LOOK_EVERY_S = 0.2
_LOOK_SELDOM_S = 5.0
_MOST_FAILED_LOOKS = 25
_MOST_ASKED = 1_000_000
_MOST_AGAIN = 1_000
"""So often an action may have been asked about in vain, before the ledger itself is doubted."""


class Reply(msgspec.Struct, frozen=True):
    """The answer of a person who is asked directly. A decision that does not exist is a `UsageError`."""

    decision: Decision
    """`"once"`, `"always"` (for every equal call), `"deny"`; or `"edits"`, where the approval offers it: this
    and all further edits of files in the run."""
    reason: str | None = None
    """Why; the model is told."""
    by: str = "the person who was asked"
    """Name that is recorded with the decision."""

    def __post_init__(self) -> None:
        """Refuse a word that is no decision where it is written, not where it is read.

        Raises:
            UsageError: it is none.
        """
        if self.decision not in ANSWERS:
            raise UsageError(
                f"Reply({truncate_repr(self.decision, 80)}) is no decision. Write Reply('once') to "
                "approve this call, "
                "Reply('always') to approve every equal call, or Reply('deny', 'reason')."
            )
        for name, text in (("reason", self.reason if self.reason is not None else ""), ("by", self.by)):
            if not isinstance(text, str):
                raise UsageError(f"Reply({name}={truncate_repr(text, 80)}) is no text.")


class Person(Protocol):
    """Function, async or not, that asks somebody directly: `Runtime(person=...)`.

    It is called with one question at a time. If it raises, or returns something else, that is recorded as an
    event (`sink_failed`, sink `person`) and counts as `None`: an error in asking is no decision about the
    action, so the run neither executes the action nor ends because of it.
    """

    def __call__(self, approval: Approval, /) -> Awaitable[Reply | None] | Reply | None:
        """Ask somebody.

        Args:
            approval: The question: the tool, its parameters, its risk and why it needs approval.

        Returns:
            The answer. `None`: leave the question open for others, who answer it in the approval store; if
                `Runtime` was given no `approvals`, there are none, and the action is denied.
        """
        ...


class Desk:
    """Where the runs of one runtime ask."""

    def __init__(
        self,
        ledger: ApprovalLedger,
        *,
        patience_s: float | None,
        expires_s: float | None,
        folder: str | None,
        person: Person | None = None,
        nobody_else: bool = False,
    ) -> None:
        """`patience_s` is how long a run waits for an answer before it lets go: None is for ever. A `person`
        is asked first, one question at a time; meanwhile anybody else may answer, too, unless there is
        `nobody_else`."""
        self.ledger = ledger
        self._patience_s = patience_s
        self._expires_s = expires_s
        self._person = person
        self._nobody_else = nobody_else
        self._in_turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        """A person hears one question at a time; a lock is of one event loop."""
        self._edits: dict[tuple[str, str], tuple[Approval, Reply, float]] = {}
        """By run and folder: who has allowed all edits, asked about what, and when. For questions that were
        asked before, and wait for their turn."""
        self.recovery: RecoveryOf | None = None
        """How calls can be undone from outside of their plans."""
        self.folder = folder
        self._waited_for: dict[str, list[asyncio.Future[Approval]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._askers: set[str] = set()
        """Runs that have asked something here."""
        self._being_put: set[asyncio.Future[Approval]] = set()

    def for_folder(self, folder: str | None, *, waits: bool = True, expires_s: float | None = None) -> Desk:
        """The same people, asked about work in another folder; without `waits` nobody waits for them."""
        spans = [each for each in (self._expires_s, expires_s) if each is not None]
        return Desk(
            self.ledger,
            patience_s=self._patience_s if waits else 0,
            expires_s=min(spans) if spans else None,
            folder=folder,
            person=self._one_at_a_time if self._person is not None else None,
            nobody_else=self._nobody_else,
        )

    def expiry(self, now: float) -> float | None:
        """Until when a question that is asked now can be answered."""
        return None if self._expires_s is None else now + self._expires_s

    async def known(self, approval: str, fingerprint: str) -> Approval | None:
        """What was asked under that id; or an answer to all such questions."""

        def look() -> Approval | None:
            found = self.ledger.get(approval)
            if found is None or found.open_at(time.time()):
                return self.ledger.standing(fingerprint) or found
            return found

        return await asyncio.to_thread(look)

    async def still_covers(self, grants: Sequence[Approval]) -> list[Approval]:
        """Those of the answers that allow all edits, and were not revoked meanwhile.

        Raises:
            StorageError: that cannot be read.
        """

        def look() -> list[Approval]:
            found = [self.ledger.get(each.id) for each in grants]
            return [each for each in found if each is not None and each.covers_edits]

        return await asyncio.to_thread(look)

    async def of_run(self, run_id: str) -> dict[str, list[Approval]]:
        """Everything that a run has asked so far, by the key of the action, newest first.

        Raises:
            StorageError: that cannot be read.
        """
        found: dict[str, list[Approval]] = {}
        for approval in await asyncio.to_thread(self.ledger.recent, _MOST_ASKED, run=run_id):
            found.setdefault(approval.key, []).append(approval)
        return found

    async def ask(self, question: Approval) -> Approval:
        """Put the question.

        Raises:
            StorageError: it cannot be kept.
        """
        self._askers.add(question.run_id)
        putting = asyncio.ensure_future(asyncio.to_thread(self.ledger.request, question))
        self._being_put.add(putting)
        putting.add_done_callback(self._being_put.discard)
        # Whoever asks may be stopped; what is being written is written.
        return await asyncio.shield(putting)

    async def answer(
        self, asked: Approval, failed: Callable[[str], None] = lambda error: None
    ) -> Approval | None:
        """The answer, once there is one, or the question's time is up; None if patience ran out before.
        `failed` is called if the person cannot be asked."""
        if not asked.open_at(time.time()):
            return asked
        if self._person is not None:
            answered = await self._in_person(asked, failed)
            if answered is not None:
                return answered
        if self._patience_s == 0:
            return None
        return await self._from_ledger(asked, self._patience_s)

    async def _in_person(self, asked: Approval, failed: Callable[[str], None]) -> Approval | None:
        """What the person says, or somebody else in the meantime; None if nobody does."""
        asking = asyncio.ensure_future(self._ask_person(asked, failed))
        elsewhere = asyncio.ensure_future(self._from_ledger(asked, None))
        try:
            await asyncio.wait((asking, elsewhere), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return elsewhere.result()
            return asking.result()
        finally:
            for task in (asking, elsewhere):
                task.cancel()
            await asyncio.gather(asking, elsewhere, return_exceptions=True)

    async def _one_at_a_time(self, asked: Approval) -> Reply | None:
        assert self._person is not None
        loop = asyncio.get_running_loop()
        if self._in_turn is None or self._in_turn[0] is not loop:
            self._in_turn = loop, asyncio.Lock()
        folder = asked.edit.folder if asked.offers_edits and asked.edit is not None else ""
        async with self._in_turn[1]:
            given = self._edits.get((asked.run_id, folder)) if folder else None
            if given is not None and asked.requested_at <= given[2]:
                why = f"all edits of this run were allowed with approval '{given[0].id}'"
                return Reply("once", why, given[1].by)
            answered = self._person(asked)
            reply = await answered if inspect.isawaitable(answered) else answered
            if folder and isinstance(reply, Reply) and reply.decision == "edits":
                self._edits[asked.run_id, folder] = asked, reply, time.time()
            return reply

    async def _ask_person(self, asked: Approval, failed: Callable[[str], None]) -> Approval | None:
        why = "nobody answered"
        try:
            reply = await self._one_at_a_time(asked)
            if reply is not None and not isinstance(reply, Reply):
                raise UsageError(f"person returned {truncate_repr(reply, 80)}; return a Reply, or None")
            if reply is not None and reply.decision == "edits" and not asked.offers_edits:
                raise UsageError("person answered 'edits', which this question does not offer")
        except Exception as error:
            # That asking failed says nothing about the action: the question stays open, or is a no.
            reply, words = None, f"{type(error).__name__}: {words_of(error)}"
            failed(words)
            why = f"the person could not be asked ({words})"
        if reply is None and self._nobody_else:
            reply = Reply("deny", f"{why}, and nobody else can be asked")
        if reply is None:
            return None

        def decide() -> Approval | None:
            try:
                return self.ledger.decide(
                    asked.id,
                    reply.decision,
                    by=reply.by,
                    reason=reply.reason,
                    fingerprint=asked.fingerprint,
                )
            except ApprovalDecided:
                return self.ledger.get(asked.id)  # Somebody was quicker, and theirs is the answer.

        return await asyncio.to_thread(decide)

    async def _from_ledger(self, asked: Approval, patience_s: float | None) -> Approval | None:
        future: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        waiting = self._waited_for.setdefault(asked.id, [])
        waiting.append(future)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        try:
            return await asyncio.wait_for(future, patience_s)
        except TimeoutError:
            return None
        finally:
            waiting.remove(future)
            if not waiting:
                self._waited_for.pop(asked.id, None)

    async def _look(self) -> None:
        failed = 0
        pause_s = _LOOK_EVERY_S
        while self._waited_for:
            await asyncio.sleep(pause_s)
            ids = list(self._waited_for)
            began = time.perf_counter()
            try:
                found = await asyncio.to_thread(lambda: [self.ledger.get(id) for id in ids])  # noqa: B023
            except StorageError as error:
                failed += 1
                if failed >= _MOST_FAILED_LOOKS:
                    self._give_up(error)
                    return
                continue
            failed = 0
            # Never more than a twentieth of the time, however many are waited for.
            pause_s = min(_LOOK_SELDOM_S, max(_LOOK_EVERY_S, 20 * (time.perf_counter() - began)))
            now = time.time()
            for approval in found:
                if approval is not None and not approval.open_at(now):
                    for future in self._waited_for.get(approval.id, ()):
                        if not future.done():
                            future.set_result(approval)

    def _give_up(self, error: StorageError) -> None:
        for futures in self._waited_for.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    def has_asked(self, run_id: str) -> bool:
        """Whether the run has asked something here since it was last taken back."""
        return run_id in self._askers

    async def take_back(
        self, run_id: str, reason: str, but: frozenset[str] = frozenset()
    ) -> Sequence[Approval]:
        """Nobody needs an answer to what a run has asked any more, except to `but`; returns the others."""
        self._askers.discard(run_id)
        if self._being_put:
            await asyncio.wait(set(self._being_put))

        def withdraw() -> list[Approval]:
            open_ones = [a for a in self.ledger.pending(run=run_id) if a.id not in but]
            taken_back = [self.ledger.withdraw(approval.id, reason) for approval in open_ones]
            # Somebody may have been quicker.
            return [approval for approval in taken_back if approval.decision == "withdrawn"]

        return await asyncio.to_thread(withdraw)


async def ask(
    x: Gated,
    i: int,
    action: Action,
    tool: Tool | None,
    objections: Sequence[Objection],
    *,
    ahead: bool = False,
) -> None:
    """Ask a person about an action that the gates do not let through by themselves, and go on as told.

    With `ahead` the plan waits already: the question is put, and nothing is started.
    """
    desk = x.services.desk
    assert desk is not None
    while True:
        try:
            confinement = await confinement_of(action, tool)
            about = partial(_question, x, i, action, tool, objections)
            known = await _covering(x, desk, tool, objections)
            is_covered = known is not None
            question = about(confinement)
            if known is None:
                question, known = await _known(desk, partial(about, confinement))
            if known is None and question.fingerprint != about(UNCONFINED).fingerprint:
                # What was approved without confinement is approved with it, and not the other way round.
                other, given = await _known(desk, partial(about, UNCONFINED))
                if given is not None and given.decision in GIVEN:
                    question, known = other, given
            if known is None:
                told = await facts_of(x, i, action, tool, confinement, desk.recovery)
                question = replace(
                    question,
                    recovery=told.recovery,
                    edit=told.edit,
                    preview=told.diff,
                    offers_edits=told.edit is not None and _asks_for_tier(objections, "sandbox_edit"),
                )
                known = await desk.ask(question)
                x.note("approval_requested", i, {**_asked_words(known), **trail_of(objections)})
            answer = known if ahead else await x.patiently(desk.answer(known, partial(_asking_failed, x, i)))
            # Before all is judged again: nothing may wait between that and the call.
            tool_now = x.services.tools.get(action.tool or "") if action.type == "tool_call" else None
            confinement = await confinement_of(action, tool_now)
        except (PlacetError, OSError) as error:
            # A ledger may be anybody's; whatever it raises, the action has not run.
            x.stop_unasked(i, f"it needs an approval, which cannot be asked for: {error}")
            return
        except asyncio.CancelledError:
            x.stopped(i, action, tool, begun=False)
            return
        if ahead or x.stop is not None:
            _let_go(x, i, answer or known, objections)
            return
        if answer is None:
            x.hold(i, known.id, _reasons(objections))
            return
        denial = denial_of(answer)
        x.note("approval_recorded", i, answer_words(answer))
        if denial is not None:
            x.remember_denial(i, answer)
            x.reject(i, action, True, denial)
            return
        if answer.decision == "edits" and not is_covered:
            x.grants.append(answer)
        # Time has passed: everything is judged again, and what is then asked must be what was answered.
        tool, objections = x.look_again(i, action)
        if any(o.kind != "ask" for o in objections):
            x.object(i, action, tool, objections)
            return
        if not objections or (is_covered and _covers(answer, x, tool, objections)):
            break
        if is_covered or tool is not tool_now:
            continue  # What asks now is something else.
        now = UNCONFINED if question.confinement is UNCONFINED else confinement
        if _question(x, i, action, tool, objections, now).fingerprint == question.fingerprint:
            break
    x.approve(i, answer)
    rest = x.admit(i, action, tool, x.now())
    if rest is not None:
        await rest


async def _covering(
    x: Gated, desk: Desk, tool: Tool | None, objections: Sequence[Objection]
) -> Approval | None:
    """The answer by which a person has allowed all edits of this run, where this is one of them."""
    found = [each for each in x.grants if _covers(each, x, tool, objections)]
    return next(iter(await desk.still_covers(found)), None) if found else None


def _covers(grant: Approval, x: Gated, tool: Tool | None, objections: Sequence[Objection]) -> bool:
    """Whether an action is an edit of files in the same folder that is asked about for its tier alone."""
    return (
        grant.edit is not None
        and tool is not None
        and tool.preview is not None
        and tool.confined_to == grant.edit.folder
        and grant.tenant == x.run.tenant
        and _asks_for_tier(objections, "sandbox_edit")
    )


def _asks_for_tier(objections: Sequence[Objection], tier: Tier) -> bool:
    return all(o.kind == "ask" and o.tier == tier for o in objections)


def _asking_failed(x: Gated, i: int, error: str) -> None:
    x.note("sink_failed", i, {"sink": "person", "error": error})


async def _known(desk: Desk, about: Callable[[int], Approval]) -> tuple[Approval, Approval | None]:
    """A question as it would be put now, and what the ledger knows of it."""
    for again in range(_MOST_AGAIN):
        question = about(again)
        known = await desk.known(question.id, question.fingerprint)
        if known is None or _is_about(known, question):
            return question, known
    raise UsageError("the ledger answers other questions than it is asked")


def _is_about(known: Approval, question: Approval) -> bool:
    """Whether what was found under the id, or holds for all, is that very question, and still one."""
    return (
        known.decision != "withdrawn"
        and known.revoked_at is None
        and known.fingerprint == question.fingerprint
    )


def _let_go(x: Gated, i: int, known: Approval, objections: Sequence[Objection]) -> None:
    """The plan has stopped, or waits for something else."""
    if x.stop is not None and x.stop.kind != "waiting":
        x.skip_stopped(i)
    elif known.open_at(time.time()):
        x.hold(i, known.id, _reasons(objections))
    else:
        x.leave(i)


def _question(
    x: Gated,
    i: int,
    action: Action,
    tool: Tool | None,
    objections: Sequence[Objection],
    confinement: Confinement,
    again: int = 0,
) -> Approval:
    desk = x.services.desk
    assert desk is not None
    undo = undo_action(x.graph, i)
    compensation: dict[str, JsonValue] | None = None
    if undo is not None:
        compensation = {"tool": undo.tool, "parameters": undo.parameters}
        if undo.type != "tool_call":
            compensation["type"] = undo.type
        if not undo.references:
            compensation["references"] = False
    name = action.tool if action.type == "tool_call" and action.tool else action.type
    mark = fingerprint(
        name,
        action.parameters,
        folder=desk.folder,
        tenant=x.run.tenant,
        policy_version=x.policy_version,
        compensation=compensation,
        isolation=isolation_words(confinement),
        agent=(x.run.caller, x.run.leader),
    )
    found = x.permission(action, tool)
    now = time.time()
    # The same when a run that was broken off asks again, and another when it asks about something else, or
    # when the id of a run comes again: no two runs share a trace.
    parts = (x.run.trace_id, x.key(i), mark, str(again))
    return Approval(
        id=hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12],
        run_id=x.run.run_id,
        action_id=action.id,
        tool=name,
        parameters=action.parameters,
        risk=tool.schema.risk if tool is not None else "idempotent",
        reversibility=undo_of(action, tool),
        fingerprint=mark,
        tenant=x.run.tenant,
        folder=desk.folder,
        requested_at=now,
        expires_at=desk.expiry(now),
        reasons=[o.reason for o in objections],
        tier=found[0] if found is not None else None,
        agent=x.run.caller,
        proposal_id=x.proposal.id,
        key=x.question_key(i),
        secret=[name for name in action.parameters if "secret" in x.inflow(i).at(name)],
        compensation=compensation,
        confinement=confinement,
    )


def from_before(asked: Sequence[Approval], objections: Sequence[Objection]) -> Sequence[Objection]:
    """What stands in the way of an action about which the run has asked before, and nobody has said no,
    whatever the rules say now."""
    given = next((a for a in asked if a.decision in GIVEN and a.revoked_at is None), None)
    if given is not None:
        if not objections:
            return ()
        was = f"approval '{given.id}' of {given.decided_by} was for other parameters, or under other rules"
        return [*objections, Objection("ask", was)]
    open_ones = [a for a in asked if a.decision is None]
    if objections or not open_ones:
        return objections
    return [Objection("ask", f"{why} (when it was first asked)") for why in open_ones[0].reasons]


def trail_of(objections: Sequence[Objection]) -> dict[str, JsonValue]:
    """For the log: how marked data came to an action, where that is what a rule objects to."""
    for objection in objections:
        if objection.mark is not None:
            return {"mark": objection.mark, "trail": list(objection.trail)}
    return {}


def _reasons(objections: Sequence[Objection]) -> str:
    return "; ".join(o.reason for o in objections)


def denial_of(answer: Approval) -> str | None:
    """Why the action does not run, or None if it may."""
    if answer.decision in GIVEN:
        return None
    if answer.decision is None:
        return f"approval '{answer.id}' was not given in time"
    if answer.decision == "withdrawn":
        return f"approval '{answer.id}' was withdrawn: {answer.reason or 'no reason was given'}"
    why = f": {answer.reason}" if answer.reason else ""
    return f"approval '{answer.id}' was denied by {answer.decided_by}{why}"


def _asked_words(approval: Approval) -> dict[str, JsonValue]:
    return {
        "approval": approval.id,
        "tool": approval.tool,
        "reasons": list(approval.reasons),
        "fingerprint": approval.fingerprint,
        "expires_at": approval.expires_at,
    }


def answer_words(answer: Approval) -> dict[str, JsonValue]:
    """What the log says of an answer."""
    return {
        "approval": answer.id,
        "decision": answer.decision or "expired",
        "by": answer.decided_by,
        "reason": answer.reason,
        "decided_at": answer.decided_at,
    }
