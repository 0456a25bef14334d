"""On whose behalf a proposal runs."""

from __future__ import annotations

import msgspec

from placet.ir.json_value import JsonValue, copy_json


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a proposal runs. State, approvals and events of a tenant are separate from those of
    others.
    """

    caller_id: str | None = None
    """The agent or user; selects the posture in `Permissions.agents`."""
    tenant: str | None = None
    """The tenant whose namespace is used. `None`: the shared one."""
    claims: dict[str, JsonValue] = {}
    """Further facts about the caller, as JSON; written to the log."""


def tenant_of(scope: Scope | None) -> str | None:
    """The tenant whose namespace is used, if there is one."""
    return scope.tenant if scope is not None else None


def scope_data(scope: Scope | None) -> dict[str, JsonValue]:
    """What the log says of a scope; nothing of an empty one.

    Raises:
        NotJson: the claims are not JSON.
    """
    data: dict[str, JsonValue] = {}
    if scope is not None and scope.caller_id is not None:
        data["caller_id"] = scope.caller_id
    if scope is not None and scope.tenant is not None:
        data["tenant"] = scope.tenant
    if scope is not None and scope.claims:
        data["claims"] = copy_json(scope.claims, "scope.claims")
    return data
