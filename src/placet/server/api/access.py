"""Tokens, for whoever manages them."""

from __future__ import annotations

import msgspec

from placet.server.endpoint import ApiCall, Endpoint
from placet.server.tokens import Right


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without the token itself."""

    name: str
    tenant: str | None
    rights: list[str]
    created_at: float


class TokenList(msgspec.Struct, frozen=True):
    """All tokens."""

    tokens: list[TokenRow]


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to make."""

    name: str
    tenant: str | None = None
    rights: tuple[Right, ...] = ("see",)


class TokenMade(msgspec.Struct, frozen=True):
    """A token. It is not kept, and cannot be shown again."""

    name: str
    token: str


class TokenGone(msgspec.Struct, frozen=True):
    """A token that was revoked."""

    name: str


def list_tokens(call: ApiCall) -> TokenList:
    """All tokens."""
    return TokenList(
        [
            TokenRow(name=t.name, tenant=t.tenant, rights=list(t.rights), created_at=t.created_at)
            for t in call.site.tokens.listed()
        ]
    )


def add(call: ApiCall) -> TokenMade:
    """Make one."""
    said: NewToken = call.body
    return TokenMade(said.name, call.site.tokens.add(said.name, tenant=said.tenant, rights=said.rights))


def rotate(call: ApiCall) -> TokenMade:
    """Replace one."""
    name = call.path["name"]
    return TokenMade(name, call.site.tokens.rotate(name))


def revoke(call: ApiCall) -> TokenGone:
    """End one."""
    name = call.path["name"]
    call.site.tokens.revoke(name)
    return TokenGone(name)


ENDPOINTS = (
    Endpoint("GET", "/tokens", list_tokens, "admin", TokenList, "List tokens."),
    Endpoint("POST", "/tokens", add, "admin", TokenMade, "Make a token.", body=NewToken, status=201),
    Endpoint("POST", "/tokens/{name}/rotate", rotate, "admin", TokenMade, "Replace a token."),
    Endpoint("DELETE", "/tokens/{name}", revoke, "admin", TokenGone, "Revoke a token."),
)
