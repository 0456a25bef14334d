"""Calls of tools in what a model wrote.

Tags such as `<tool_call>` say that a call is meant: there it is one wherever it stands. JSON without them, in
a code fence or not, is as often an example. It is a call only where the text ends with it: whoever calls a
tool waits for the result, and whoever gives an example goes on.

Keep true:
1. Only a declared tool, with arguments that it takes, is a call, and only in such a place. An example in
   tags, or at the very end, cannot be told from one.
2. A text in which there is no call comes back as it is, to the character.
3. Tags around one call, and a code fence, hold one JSON document. With a second one, or with anything but
   white space behind the first inside the tags, there is no call but a refusal: which of the two was meant,
   or what became of the end of the first, nobody knows.
4. The work is bounded by the length of the text, whatever stands in it.
5. A call begins where `START` matches and nowhere else: whoever streams a text can let go of all before that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import msgspec

from placet.errors import DecodeError
from placet.inference.messages import ToolCall
from placet.inference.tool_modes.arguments import Checks, refused
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema

MOST_TRIES = 1000
"""Places of one text at which JSON is looked for."""
MOST_READ = 8
"""Times the length of the text: what may be read in all those tries together."""

_OPENING = r"(?:```[\w+-]{0,20}+ | <\|?(?:tool_calls?|function_call|tool|python_tag)\|?> | \[TOOL_CALLS?\])"
_CLOSING = {
    "`": re.compile(r"\s{0,20}+```(?![\w+-])"),
    "<": re.compile(r"\s{0,20}+<(?:/|\|/|/\|)(?:tool_calls?|function_call|tool)\|?>"),
    "[": re.compile(r"\s{0,20}+\[/TOOL_CALLS?\]"),
}
"""By the first character of what they close."""
START = re.compile(
    rf'(?:{_OPENING}\s{{0,20}}+){{0,2}}(?P<json>(?:\[\s{{0,20}}+)?\{{\s{{0,20}}+")', re.VERBOSE
)
LONGEST_START = 130
"""At a place from which so many characters are known, `START` matches or never will."""
MAY_START = re.compile(r"[`<\[{]")

_WRAPPER = re.compile(_OPENING, re.VERBOSE)
_OF_ONE = re.compile(r"<\|?(?:tool_call|function_call|tool)\|?>")
"""Tags around one call; the others stand around several."""
_BETWEEN = re.compile(r"[\s,;]*")
_TAG = r"(?:<\|?(?:tool_calls?|function_call|tool|python_tag)\|?>|\[TOOL_CALLS?\])"
_END_TAG = r"(?:<(?:/|\|/|/\|)(?:tool_calls?|function_call|tool)\|?>|\[/TOOL_CALLS?\])"
_CLOSED = re.compile(_END_TAG)
_AFTER_ONE = re.compile(rf"\s*+(?:\Z|{_END_TAG})|[\s,;]*+{_TAG}")
"""Right behind the JSON of a call: its tags end, or those of another call begin."""
_AFTER_SEVERAL = re.compile(rf"[\s,;]*+(?:\Z|{_END_TAG}|{_TAG}|```|\[?\s*+\{{\s*+\")")
_NAMES = frozenset({"name", "tool", "tool_name", "function", "action"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input", "tool_input", "action_input"})
_ASIDE = frozenset({"id", "call_id", "type", "index"})
_decoder = json.JSONDecoder()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a text holds."""

    text: str
    """The text without the calls."""
    calls: list[ToolCall]
    tries: int
    """Places at which JSON was looked for."""
    read: int
    """Characters that were read in doing so."""


class _Block(msgspec.Struct, frozen=True):
    """Calls that stand together in one JSON, from the tags or fences around it to their end."""

    start: int
    end: int
    calls: list[ToolCall]
    is_tagged: bool
    is_joined: bool
    """Whether nothing but blanks and commas parts it from the one before."""


def find_calls(text: str, tools: Mapping[str, ToolSchema], *, only_alone: bool = False) -> Found:
    """The calls in a text, in order, and what else it says.

    With `only_alone`, JSON without tags is a call only in a text of nothing but calls.
    """
    blocks, tries, read = _blocks(text, tools)
    meant = _meant(text, blocks, only_alone)
    if not meant:
        return Found(text=text, calls=[], tries=tries, read=read)
    kept: list[str] = []
    kept_from = 0
    for block in meant:
        before = text[kept_from : block.start]
        if not kept or not _BETWEEN.fullmatch(before):
            kept.append(before)
        kept_from = block.end
    left = "".join([*kept, text[kept_from:]]).rstrip()
    # What stood before the first call was perhaps told already, and stays as it was.
    left = left if kept[0].strip() else left.lstrip()
    return Found(text=left, calls=[call for block in meant for call in block.calls], tries=tries, read=read)


def _meant(text: str, blocks: list[_Block], only_alone: bool) -> list[_Block]:
    """Those that are no examples."""
    ends_with = len(blocks)
    if blocks and not text[blocks[-1].end :].strip():
        ends_with -= 1
        while ends_with and blocks[ends_with].is_joined:
            ends_with -= 1
        if only_alone and (ends_with or text[: blocks[0].start].strip()):
            ends_with = len(blocks)
    return [block for number, block in enumerate(blocks) if block.is_tagged or number >= ends_with]


def _blocks(text: str, tools: Mapping[str, ToolSchema]) -> tuple[list[_Block], int, int]:
    """All that may be calls, and how much was tried and read to find them."""
    blocks: list[_Block] = []
    checks = Checks(tools)
    still_open: list[str] = []
    tries = read = position = 0
    last_end = max((match.start() for match in _CLOSED.finditer(text)), default=-1)
    while tries < MOST_TRIES and read <= MOST_READ * len(text) and (start := START.search(text, position)):
        begin = start.start("json")
        end, looked_at = _end_of_json(text, begin)
        tries, read = tries + 1, read + looked_at
        is_joined = bool(blocks) and _BETWEEN.fullmatch(text, blocks[-1].end, start.start()) is not None
        if end is None:
            position = begin + 1
            if is_joined and begin <= last_end and any(map(_is_tag, still_open)):
                position = _end_of_tags(text, begin)
                blocks[-1] = _refused(blocks[-1], text, position)
            continue
        position = end
        calls = _calls_in(text[begin:end], tools, checks)
        opened = _WRAPPER.findall(text, start.start(), begin)
        if is_joined and not opened and still_open and not any(map(_is_tag, still_open)):
            position = _close(text, end, still_open)
            blocks[-1] = _refused(blocks[-1], text, position)
            continue
        if not calls:
            continue  # Whatever is in it is part of it.
        if not is_joined:
            still_open = []
        still_open += opened
        is_tagged = any(map(_is_tag, still_open))
        position = _close(text, position, still_open)
        block = _Block(start.start(), position, calls, is_tagged, is_joined)
        if _holds_more(text, position, still_open, last_end):
            position = _end_of_tags(text, position)
            block = _refused(block, text, position)
            still_open = []
        blocks.append(block)
    return blocks, tries, read


def _is_tag(opening: str) -> bool:
    return not opening.startswith("`")


def _holds_more(text: str, position: int, still_open: list[str], last_end: int) -> bool:
    """Whether something else stands behind a call in the same tags, such as a second document.

    Tags around several calls are often not closed. Then what follows are words.
    """
    if any(map(_OF_ONE.fullmatch, still_open)):
        return _AFTER_ONE.match(text, position) is None
    is_closed_later = position <= last_end and any(map(_is_tag, still_open))
    return is_closed_later and _AFTER_SEVERAL.match(text, position) is None


def _end_of_tags(text: str, position: int) -> int:
    closing = _CLOSED.search(text, position)
    return closing.end() if closing is not None else len(text)


def _refused(block: _Block, text: str, end: int) -> _Block:
    """The block, with all that stands in its tags up to `end`, as one call that cannot be made."""
    problem = (
        "its tags or its code fence hold more than one JSON document; write each call in tags of its own"
    )
    call = ToolCall(name=block.calls[0].name, problem=problem, raw=text[block.start : end])
    return msgspec.structs.replace(block, end=end, calls=[call])


def _close(text: str, position: int, still_open: list[str]) -> int:
    """Where what was opened around a call is closed; what is not closed there stays in the list."""
    depth = len(still_open)
    while depth:
        depth -= 1
        if closing := _CLOSING[still_open[depth][0]].match(text, position):
            position = closing.end()
            del still_open[depth:]  # What was opened further in was never closed.
    return position


def _end_of_json(text: str, begin: int) -> tuple[int | None, int]:
    """Where the JSON that begins there ends, if it does, and how much was read to find out."""
    all_of_it = len(text) - begin
    try:
        _, end = _decoder.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        # Of a text without an end, the error names the beginning.
        is_endless = error.msg.startswith("Unterminated")
        return None, all_of_it if is_endless else error.pos - begin + 1
    except (RecursionError, ValueError):
        return None, all_of_it
    return end, end - begin


def _calls_in(text: str, tools: Mapping[str, ToolSchema], checks: Checks) -> list[ToolCall]:
    try:
        value = decode_json(text)
    except DecodeError:
        return []
    if isinstance(value, dict) and value.keys() == {"tool_calls"}:
        value = value["tool_calls"]
    found = [_call_of(each, tools, checks) for each in (value if isinstance(value, list) else [value])]
    whole = [call for call in found if call is not None]
    return whole if len(whole) == len(found) else []


def _call_of(value: JsonValue, tools: Mapping[str, ToolSchema], checks: Checks) -> ToolCall | None:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        if value.keys() - _ASIDE != {"function"}:
            return None
        value = value["function"]
    if not isinstance(value, dict):
        return None
    named, given = value.keys() & _NAMES, value.keys() & _ARGUMENTS
    if len(named) != 1 or len(given) != 1 or value.keys() - named - given - _ASIDE:
        return None
    name, arguments = value[named.pop()], value[given.pop()]
    if isinstance(arguments, str):
        try:
            arguments = decode_json(arguments)
        except DecodeError:
            return None
    if not isinstance(name, str) or name not in tools or not isinstance(arguments, dict):
        return None
    if arguments.get("type") == "object" and isinstance(arguments.get("properties"), dict):
        return None  # The tool's declaration, repeated.
    if problem := checks.unusable(name):
        return refused(name, problem, arguments)
    if checks.misfit(name, arguments) is not None:
        return None
    return ToolCall(name=name, arguments=arguments)
