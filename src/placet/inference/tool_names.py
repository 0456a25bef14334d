"""Names of tools as providers take them, and back again.

A tool may be called `infer.grounded` or `files/read`; providers take 64 letters, digits, `_` and `-`.

Keep true:
1. Two tools of one request never get the same name, and a name that is fine stays.
2. What comes back has the names that were asked with; a name that nobody gave comes back as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from hashlib import sha256
from itertools import count

import msgspec

from placet.inference.messages import Assistant, Message, ToolCall, ToolResult
from placet.inference.model import Request, Result

_FINE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def sent_names(request: Request) -> dict[str, str]:
    """What to call the tools that a provider would not take, also those that only the conversation names."""
    names = dict.fromkeys(each.name for each in request.tools)
    for message in request.messages:
        if isinstance(message, Assistant):
            names.update(dict.fromkeys(each.name for each in message.calls))
        elif isinstance(message, ToolResult):
            names[message.name] = None
    odd = [name for name in names if not _FINE.fullmatch(name)]
    taken = names.keys() - set(odd)
    found: dict[str, str] = {}
    for name in odd:
        plain = _OTHER.sub("_", name)
        plain = plain if _FINE.match(plain) else f"_{plain}"
        taken.add(sent := _free(plain, name, taken))
        found[name] = sent
    return found


def _free(plain: str, name: str, taken: Set[str]) -> str:
    """The plain name where nobody has it, else one made of the real name: the same in every request, so that
    a provider's cache of the beginning stays good."""
    if len(plain) <= 64 and plain not in taken:
        return plain
    for attempt in count():
        # Somebody may have called a tool just so.
        text = f"{name}\0{attempt}" if attempt else name
        sent = f"{plain[:51]}_{sha256(text.encode(errors='replace')).hexdigest()[:12]}"
        if sent not in taken:
            return sent
    raise AssertionError("counting never ends")


def with_sent_names(request: Request, names: Mapping[str, str]) -> Request:
    """The request as it is sent."""
    if not names:
        return request
    tools = [msgspec.structs.replace(each, name=names.get(each.name, each.name)) for each in request.tools]
    return msgspec.structs.replace(
        request, tools=tools, messages=[_renamed(each, names) for each in request.messages]
    )


def with_own_names(result: Result, names: Mapping[str, str]) -> Result:
    """The result with the names that the tools have here."""
    if not names or not result.calls:
        return result
    back = {sent: own for own, sent in names.items()}
    return msgspec.structs.replace(result, calls=tuple(_call(each, back) for each in result.calls))


def _renamed(message: Message, names: Mapping[str, str]) -> Message:
    if isinstance(message, ToolResult):
        return msgspec.structs.replace(message, name=names.get(message.name, message.name))
    if isinstance(message, Assistant):
        return msgspec.structs.replace(message, calls=[_call(each, names) for each in message.calls])
    return message


def _call(call: ToolCall, names: Mapping[str, str]) -> ToolCall:
    return msgspec.structs.replace(call, name=names.get(call.name, call.name))
