"""Approvals as they may be shown: without secrets, with the number of places that are hidden, and how each
stands.

Keep true: secrets are taken out of the whole approval at once. A plan can make what runs look like a secret,
so whoever decides is told how many places are hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec

from placet.approvals.approval import Approval
from placet.errors import UsageError
from placet.ir.json_value import JsonValue
from placet.redaction import REDACTED, Redactor

SECRET = "[secret]"
"""In the place of a parameter that holds data marked as secret."""

ApprovalStatus = Literal["waiting", "expired", "revoked", "approved", "denied", "withdrawn"]


def status_of(approval: Approval, now: float) -> ApprovalStatus:
    """How an approval stands."""
    match approval.decision:
        case None:
            return "waiting" if approval.open_at(now) else "expired"
        case "always" | "edits" if approval.revoked_at is not None:
            return "revoked"
        case "once" | "always" | "edits":
            return "approved"
        case "deny":
            return "denied"
        case "withdrawn":
            return "withdrawn"


def without_secrets(approvals: Sequence[Approval], redactor: Redactor) -> list[Approval]:
    """The approvals as they may be shown."""
    for one in approvals:
        for name in one.secret:
            # What a preview or a compensation repeats of it is as secret.
            with suppress(UsageError):
                redactor.add_secrets_in(one.parameters.get(name))
    return [_shown(one, redactor) for one in approvals]


def _shown(approval: Approval, redactor: Redactor) -> Approval:
    fields = {name: _redacted(getattr(approval, name), redactor) for name in approval.__struct_fields__}
    # Null is never hidden, so each name is shown as it would be, and its place is free.
    secret = {name for name in approval.secret if name in approval.parameters}
    shown = redactor.value({**approval.parameters, **dict.fromkeys(secret)})
    assert isinstance(shown, dict)
    names = zip(approval.parameters, shown.items(), strict=True)
    fields["parameters"] = {key: SECRET if name in secret else item for name, (key, item) in names}
    return msgspec.structs.replace(approval, **fields)


def _redacted(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.convert(redactor.value(msgspec.to_builtins(value)), type(value))
    return redactor.value(value)


def hidden_places(approval: Approval, shown: Approval, names: Sequence[str] | None = None) -> int:
    """In how many places, of these fields or of all, something else is shown than what is there."""
    return sum(
        count_hidden(getattr(approval, name), getattr(shown, name))
        for name in names or approval.__struct_fields__
    )


def count_hidden(given: JsonValue, shown: JsonValue) -> int:
    """In how many places of a value something else is shown."""
    if given == shown:
        return 0
    match given, shown:
        case (dict(), dict()) if len(given) == len(shown):
            pairs = zip(given.items(), shown.items(), strict=True)
            return sum((key != other) + count_hidden(item, new) for (key, item), (other, new) in pairs)
        case (list() | tuple(), list() | tuple()) if len(given) == len(shown):
            return sum(map(count_hidden, given, shown))
        case str(), str():
            # A plan may write the mark itself: that hides nothing, and must not make this less than one.
            return max(shown.count(REDACTED) - given.count(REDACTED), 1)
        case _:
            return 1
