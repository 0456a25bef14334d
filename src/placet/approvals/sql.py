"""Approvals in SQLite or Postgres: asked in one process, answered in another.

Keep true:
1. A decision is one conditional statement, and so is a revocation: of two at once the database lets one
   through.
2. What was asked is written once and never touched again; the answer stands beside it. A revocation adds
   to the answer and changes nothing in it.
3. An `always` that was revoked stays an answer: as the latest it keeps older ones from standing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from placet.approvals.approval import (
    Approval,
    Decision,
    asked,
    asked_again,
    check_answer,
    check_offered,
    check_person,
    not_standing,
    only_one,
    refusal,
)
from placet.errors import StorageDamaged, UnknownApproval
from placet.ir.json_value import copy_json
from placet.storage.database import Database
from placet.storage.migrate import Migrations, migrate
from placet.storage.transaction import Transaction, Value, searchable

MIGRATIONS = Migrations(
    "approvals",
    [
        [
            "CREATE TABLE approvals (id TEXT NOT NULL PRIMARY KEY, run_id TEXT NOT NULL, tenant TEXT,"
            " fingerprint TEXT NOT NULL, requested_at DOUBLE PRECISION NOT NULL, expires_at DOUBLE PRECISION,"
            " asked TEXT NOT NULL, decision TEXT, decided_at DOUBLE PRECISION, answer TEXT,"
            " answered BIGINT)",
            "CREATE INDEX approvals_open ON approvals (requested_at, id) WHERE decision IS NULL",
            "CREATE INDEX approvals_answers ON approvals (fingerprint, answered) WHERE decision IS NOT NULL",
            "CREATE INDEX approvals_order ON approvals (answered)",
        ]
    ],
)

_SELECT = "SELECT asked, decision, decided_at, answer FROM approvals"
_NEWEST_FIRST = "ORDER BY requested_at DESC, id DESC"
_OPEN = "decision IS NULL AND (expires_at IS NULL OR expires_at > ?)"

# Two servers' processes may answer in the same instant and get one number: in doubt the denial, and of two
# `always` one, the same whenever it is looked for.
_LATEST = (
    "fingerprint = ? AND decision IN ('always', 'deny')"
    " ORDER BY answered DESC, decision DESC, id DESC LIMIT 1"
)
_LATEST_OF_EACH = (
    "decision = 'always' AND NOT EXISTS (SELECT 1 FROM approvals AS other"
    " WHERE other.fingerprint = approvals.fingerprint AND other.decision IN ('always', 'deny')"
    " AND (other.answered, other.decision, other.id)"
    " > (approvals.answered, approvals.decision, approvals.id)) ORDER BY answered DESC, id DESC"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Approval).decode


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    """As JSON, since a text of a person may hold what a column cannot."""

    by: str | None
    reason: str | None
    holds_until: float | None = None
    revoked_by: str | None = None
    revoked_at: float | None = None
    revoked_reason: str | None = None


def has_approvals(database: Database) -> bool:
    """Whether anybody has asked anything there. Whoever only reads cannot make the tables to find out."""
    return database.has_table("approvals")


class SqlApprovals:
    """Approvals in a database, shared by all processes that use it. Each call waits for the disk."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        """Create the tables if they are missing.

        Args:
            database: From `open_database`.
            clock: Returns seconds since the epoch.

        Raises:
            StorageError: the tables cannot be created.
        """
        self._database = database
        self._clock = clock
        migrate(database, MIGRATIONS)

    def request(self, approval: Approval) -> Approval:
        """Ask."""
        new = asked(approval)
        row: Sequence[Value] = (
            searchable(new.id),
            searchable(new.run_id),
            searchable(new.tenant),
            searchable(new.fingerprint),
            new.requested_at,
            new.expires_at,
            _encode(new).decode(),
        )

        def work(t: Transaction) -> Approval:
            t.execute(
                "INSERT INTO approvals (id, run_id, tenant, fingerprint, requested_at, expires_at, asked)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                row,
            )
            (stored,) = self._find(t, "id = ?", (row[0],))
            return asked_again(stored, new)

        return self._database.write(work).result()

    def get(self, approval: str) -> Approval | None:
        """The approval with that id."""
        found = self._database.read(lambda t: self._find(t, "id = ?", (searchable(approval),)))
        return found[0] if found else None

    def find(self, prefix: str) -> Approval:
        """The approval whose id is, or begins with, `prefix`."""
        start = searchable(prefix) or ""

        def work(t: Transaction) -> list[Approval]:
            exact = self._find(t, "id = ?", (start,))
            return exact or self._find(
                t, f"substr(id, 1, ?) = ? {_NEWEST_FIRST} LIMIT 6", (len(start), start)
            )

        return only_one(self._database.read(work) if start else [], prefix)

    def decide(
        self,
        approval: str,
        decision: Decision,
        *,
        by: str,
        reason: str | None = None,
        holds_until: float | None = None,
        fingerprint: str | None = None,
    ) -> Approval:
        """Answer."""
        id, now = searchable(approval), self._clock()
        check_answer(decision, by=by, reason=reason, holds_until=holds_until, now=now)
        answer = _encode(_Answer(by, reason, holds_until)).decode()
        seen = "" if fingerprint is None else " AND fingerprint = ?"
        values = [decision, now, answer, id, now, *([] if fingerprint is None else [searchable(fingerprint)])]

        def work(t: Transaction) -> Approval:
            known = self._find(t, "id = ?", (id,)) if decision == "edits" else []
            if known and known[0].open_at(now) and fingerprint in (None, known[0].fingerprint):
                # What was asked never changes, so looking first is as good as a condition.
                check_offered(known[0], decision)
            won = t.execute(
                "UPDATE approvals SET decision = ?, decided_at = ?, answer = ?,"
                " answered = (SELECT coalesce(max(answered), 0) + 1 FROM approvals)"
                f" WHERE id = ? AND {_OPEN}{seen} RETURNING id",
                values,
            )
            found = self._find(t, "id = ?", (id,))
            if not found:
                raise UnknownApproval(approval)
            if not won:
                raise refusal(found[0], now=now, fingerprint=fingerprint)
            return found[0]

        return self._database.write(work).result()

    def withdraw(self, approval: str, reason: str) -> Approval:
        """Take a question back."""
        id, now = searchable(approval), self._clock()
        answer = _encode(_Answer(None, copy_json(reason, "reason"))).decode()

        def work(t: Transaction) -> Approval:
            # Not among the answers, which are numbered: nothing stands or falls with it.
            t.execute(
                "UPDATE approvals SET decision = 'withdrawn', decided_at = ?, answer = ?"
                " WHERE id = ? AND decision IS NULL",
                (now, answer, id),
            )
            found = self._find(t, "id = ?", (id,))
            if not found:
                raise UnknownApproval(approval)
            return found[0]

        return self._database.write(work).result()

    def revoke(self, approval: str, *, by: str, reason: str | None = None) -> Approval:
        """End an `always`, or an `edits`."""
        check_person(by, reason)
        id, now = searchable(approval), self._clock()

        def look(t: Transaction) -> tuple[Approval, Approval | None]:
            found = self._find(t, "id = ?", (id,))
            if not found:
                raise UnknownApproval(approval)
            latest = self._find(t, _LATEST, (searchable(found[0].fingerprint),))
            return found[0], latest[0] if latest else None

        def work(t: Transaction) -> Approval:
            stored, latest = look(t)
            if stored.stands_at(now) or stored.covers_edits:
                ((answer,),) = t.execute("SELECT answer FROM approvals WHERE id = ?", (id,))
                said = msgspec.json.decode(answer, type=_Answer)
                ended = replace(said, revoked_by=by, revoked_at=now, revoked_reason=reason)
                # Whoever is quicker changes the answer: before it was read here, and then it says so, or
                # after, and then it is another than the one that is compared.
                latest_only = (
                    "" if stored.covers_edits else f" AND id = (SELECT id FROM approvals WHERE {_LATEST})"
                )
                named = () if stored.covers_edits else (searchable(stored.fingerprint),)
                won = said.revoked_at is None and t.execute(
                    f"UPDATE approvals SET answer = ? WHERE id = ? AND answer = ?{latest_only} RETURNING id",
                    (_encode(ended).decode(), id, answer, *named),
                )
                stored, latest = look(t)
                if won:
                    return stored
            raise not_standing(stored, latest, now=now)

        return self._database.write(work).result()

    def pending(self, *, run: str | None = None, tenant: str | None = None) -> list[Approval]:
        """Those that can be decided now."""
        where = [_OPEN]
        values: list[Value] = [self._clock()]
        for column, wanted in (("run_id", run), ("tenant", tenant)):
            if wanted is not None:
                where.append(f"{column} = ?")
                values.append(searchable(wanted))
        condition = f"{' AND '.join(where)} ORDER BY requested_at, id"
        return self._database.read(lambda t: self._find(t, condition, values))

    def recent(self, limit: int, *, run: str | None = None) -> list[Approval]:
        """What was asked last."""
        condition = "1 = 1" if run is None else "run_id = ?"
        values = [] if run is None else [searchable(run)]
        return self._database.read(
            lambda t: self._find(t, f"{condition} {_NEWEST_FIRST} LIMIT {max(limit, 0):d}", values)
        )

    def standing(self, fingerprint: str) -> Approval | None:
        """The `always` that is in force."""
        found = self._database.read(lambda t: self._find(t, _LATEST, (searchable(fingerprint),)))
        return found[0] if found and found[0].stands_at(self._clock()) else None

    def standing_ones(self) -> list[Approval]:
        """Every `always` that is in force."""
        now = self._clock()
        found = self._database.read(lambda t: self._find(t, _LATEST_OF_EACH, ()))
        return [one for one in found if one.stands_at(now)]

    def _find(self, t: Transaction, condition: str, values: Sequence[Value]) -> list[Approval]:
        try:
            return [_approval(*row) for row in t.execute(f"{_SELECT} WHERE {condition}", values)]
        except msgspec.DecodeError as error:
            raise StorageDamaged(
                self._database.name,
                f"holds an approval that cannot be read ({error})",
                "Somebody has changed it by hand; restore it from a copy.",
            ) from None


def _approval(body: str, decision: Decision | None, decided_at: float | None, answer: str | None) -> Approval:
    approval = _decode(body)
    if decision is None or answer is None:
        return approval
    said = msgspec.json.decode(answer, type=_Answer)
    return replace(
        approval,
        decision=decision,
        reason=said.reason,
        decided_by=said.by,
        decided_at=decided_at,
        holds_until=said.holds_until,
        revoked_by=said.revoked_by,
        revoked_at=said.revoked_at,
        revoked_reason=said.revoked_reason,
    )
