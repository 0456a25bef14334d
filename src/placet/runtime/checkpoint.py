"""A runtime's memory in a file: state, events, tool schemas, the names of policies.

Keep true:
1. A file is there whole or not at all.
2. A damaged or unfitting file is refused before anything of the running state is touched.
3. A file never changes a tool that the runtime knows: what its own code declares wins.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from placet.errors import CheckpointError, NotJson, ToolDeclarationError
from placet.events.event import Event
from placet.events.log import EventLog
from placet.ir.json_value import JsonValue, copy_json
from placet.ir.proposal import new_id
from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import ToolSchema
from placet.policy.engine import PolicySet
from placet.runtime.marks import Kept, MarkBook
from placet.state.store import StateStore
from placet.tools.registry import Registry
from placet.tools.tool import Tool

FORMAT = 1


class Checkpoint(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of what a runtime remembers."""

    id: str
    """Id of the checkpoint."""
    created: datetime
    """When it was made, in UTC."""
    state: dict[str, JsonValue]
    """The shared state, by key."""
    tenants: dict[str, dict[str, JsonValue]] = {}
    """The state of each tenant."""
    events: Sequence[Event] = ()
    """The events in memory."""
    tools: Sequence[ToolSchema] = ()
    """Schemas of the registered tools."""
    policies: Sequence[str] = ()
    """Names of the policies. Rules and functions are not stored: a file is not trusted to define them."""
    metadata: dict[str, JsonValue] = {}
    """The JSON values passed to `Runtime.checkpoint`."""
    marks: Kept = {}
    """Marks on keys of `state`."""
    tenant_marks: dict[str, Kept] = {}
    """The same for each tenant."""


def take(
    state: StateStore,
    marks: MarkBook,
    events: EventLog,
    tools: Registry,
    policies: PolicySet,
    metadata: Mapping[str, JsonValue],
) -> Checkpoint:
    """What a runtime made of these remembers, now."""
    return Checkpoint(
        id=new_id(),
        created=datetime.now(UTC),
        state=state.snapshot(),
        tenants={t: state.scoped(t).snapshot() for t in state.tenants()},
        events=list(events),
        tools=tools.schemas(),
        policies=policies.names(),
        metadata=copy_json(dict(metadata), "metadata"),
        marks=marks.kept(None),
        tenant_marks={t: marks.kept(t) for t in marks.tenants()},
    )


def put_back(
    checkpoint: Checkpoint,
    origin: str,
    state: StateStore,
    marks: MarkBook,
    events: EventLog,
    tools: Registry,
    policies: PolicySet,
) -> None:
    """Make them hold what the checkpoint holds. `origin` names it in messages.

    Raises:
        CheckpointError: it holds what cannot be restored, or names a policy that is not there; nothing has
            changed then.
    """
    missing = [name for name in checkpoint.policies if name not in policies.names()]
    if missing:
        names = ", ".join(f"'{n}'" for n in missing)
        raise CheckpointError(
            f"The checkpoint was taken under policies that this runtime does not have: {names}. "
            "Add them with add_policy() before restoring."
        )
    added = restorable(checkpoint, tools, origin)
    named = {schema.name for schema in checkpoint.tools}
    for name in tools.names():
        while name not in named and name in tools:
            tools.remove(name)
    for made in added:
        tools.add(made)
    state.replace_all(checkpoint.state)
    for tenant in {*checkpoint.tenants, *state.tenants()}:
        state.scoped(tenant).replace_all(checkpoint.tenants.get(tenant, {}))
    marks.replace(None, checkpoint.marks)
    for tenant in {*checkpoint.tenant_marks, *marks.tenants()}:
        marks.replace(tenant, checkpoint.tenant_marks.get(tenant, {}))
    events.replace(checkpoint.events)


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    sha256: str
    checkpoint: msgspec.Raw


def restorable(checkpoint: Checkpoint, known: Container[str], origin: str) -> list[Tool]:
    """Its tools that are not `known`, by schema alone, once everything in it has proved usable.

    `origin` names the checkpoint in messages.

    Raises:
        CheckpointError: some value is not JSON that a state can hold, or a tool's schema does not compile.
    """
    try:
        _check_values(checkpoint.state, "state")
        for tenant, values in checkpoint.tenants.items():
            _check_values(values, f"tenants['{tenant}']")
        return [Tool.from_schema(schema, None) for schema in checkpoint.tools if schema.name not in known]
    except (NotJson, ToolDeclarationError) as error:
        raise CheckpointError(f"{origin} cannot be restored: {error} Use an older one.") from None


def _check_values(values: Mapping[str, JsonValue], place: str) -> None:
    for key, value in values.items():
        copy_json(value, f"{place}['{key}']")


def save(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write the file whole: to a temporary name first, then renamed.

    Raises:
        CheckpointError: it cannot be written there; an older file of that name is untouched.
    """
    try:
        _write(checkpoint, Path(path))
    except (OSError, ValueError) as error:
        # ValueError: a path with a null character in it.
        problem = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"Checkpoint {path} cannot be written: {problem}. Name a file in a folder that exists and may be "
            "written to."
        ) from None


def _write(checkpoint: Checkpoint, target: Path) -> None:
    body = msgspec.json.encode(checkpoint)
    data = msgspec.json.encode(
        _File(format=FORMAT, sha256=hashlib.sha256(body).hexdigest(), checkpoint=msgspec.Raw(body))
    )
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
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise CheckpointError(f"Checkpoint {path} cannot be read: {problem}.") from None
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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"Checkpoint {path} is damaged: {error}. Use an older one.") from None
