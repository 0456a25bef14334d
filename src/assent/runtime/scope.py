"""On whose behalf a proposal runs."""

from __future__ import annotations

import msgspec

from assent.ir.json_value import JsonValue


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Caller, tenant and claims. The tenant's own namespace is used throughout."""

    caller_id: str | None = None
    tenant: str | None = None
    claims: dict[str, JsonValue] = {}
