"""What is answered over HTTP: JSON that steers nothing, and errors with a stable code.

Keep true: a text that came from a plan, a tool or a model leaves as JSON text, in which whatever steers a
terminal or turns the reading direction is an escape.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from placet.errors import (
    ApprovalDecided,
    InputError,
    PlacetError,
    RunExists,
    RunHeld,
    StorageError,
    UnknownApproval,
    UnknownRun,
    UsageError,
)
from placet.safe_text import clean, clean_json

_encode = msgspec.json.Encoder().encode


class NotFound(UsageError):
    """What was asked for is not there, or is another tenant's."""

    code = "not_found"


class Forbidden(UsageError):
    """The token does not allow that."""

    code = "forbidden"


class Conflict(UsageError):
    """It can no longer be done so."""

    code = "conflict"


class TooMany(PlacetError):
    """Somebody guesses."""

    code = "too_many"

    def __init__(self, message: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class Draining(PlacetError):
    """The server ends, and begins nothing more."""

    code = "draining"


def to_json(value: Any) -> bytes:
    """A value as JSON that is safe to show."""
    return clean_json(_encode(value).decode()).encode()


def answer(value: Any, status: int = 200) -> Response:
    """A result."""
    return Response(
        to_json(value), status, media_type="application/json", headers={"cache-control": "no-store"}
    )


def failure(status: int, code: str, message: str, *, retry_s: float = 0.0) -> Response:
    """An error. Also an ASGI application that answers with it."""
    found = answer({"error": {"code": code, "message": clean(message, 2000)}}, status)
    if retry_s > 0:
        found.headers["retry-after"] = str(int(retry_s) + 1)
    if status == 401:
        found.headers["www-authenticate"] = "Bearer"
    return found


def of_error(error: PlacetError, message: str) -> Response:
    """What a caller gets for an error; the message comes without secrets."""
    wait_s = error.wait_s if isinstance(error, TooMany) else 0.0
    return failure(status_of_error(error), error.code, message, retry_s=wait_s)


def status_of_error(error: PlacetError) -> int:
    """The HTTP status of an error."""
    match error:
        case NotFound() | UnknownRun() | UnknownApproval():
            return 404
        case Forbidden():
            return 403
        case ApprovalDecided() | RunHeld() | RunExists() | Conflict():
            return 409
        case TooMany():
            return 429
        case StorageError() | Draining():
            return 503
        case InputError() | UsageError():
            return 400
        case _:
            return 422
