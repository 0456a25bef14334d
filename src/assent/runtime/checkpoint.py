"""A runtime's memory in a file: state, events, tool schemas, the names of policies.

Keep true:
1. A file is there whole or not at all.
2. A damaged or unfitting file is refused before anything of the running state is touched.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from assent.errors import CheckpointError
from assent.events.event import Event
from assent.ir.json_value import JsonValue
from assent.ir.tool_spec import ToolSchema
from assent.tools.tool import Tool

FORMAT = 1


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept."""

    id: str
    created: datetime
    state: dict[str, JsonValue]
    tenants: dict[str, dict[str, JsonValue]] = {}
    events: Sequence[Event] = ()
    tools: Sequence[ToolSchema] = ()
    policies: Sequence[str] = ()
    """Names only: a rule or function cannot be trusted out of a file."""
    metadata: dict[str, JsonValue] = {}


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    sha256: str
    checkpoint: msgspec.Raw


def with_handler(schema: ToolSchema, known: Tool | None) -> Tool:
    """A tool out of a checkpoint: with the function of the one known by that name, if there is one."""
    if known is None:
        return Tool.from_schema(schema, None)
    if known.schema == schema:
        return known
    return Tool.from_schema(schema, known.fn, cheap=known.cheap, timeout_ms=known.timeout_ms)


def save(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write the file whole: to a temporary name first, then renamed."""
    body = msgspec.json.encode(checkpoint)
    data = msgspec.json.encode(
        _File(format=FORMAT, sha256=hashlib.sha256(body).hexdigest(), checkpoint=msgspec.Raw(body))
    )
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a file that `save` wrote.

    Raises:
        CheckpointError: it is missing, damaged, or of another format.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"Checkpoint {path} cannot be read: {error.strerror or error}.") from None
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.format != FORMAT:
            raise CheckpointError(
                f"Checkpoint {path} has format {file.format}, this version reads {FORMAT}. "
                "Use the version that wrote it."
            )
        body = bytes(file.checkpoint)
        if hashlib.sha256(body).hexdigest() != file.sha256:
            raise CheckpointError(f"Checkpoint {path} is damaged: its digest does not fit. Use an older one.")
        return msgspec.json.decode(body, type=Checkpoint)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"Checkpoint {path} is damaged: {error}. Use an older one.") from None
