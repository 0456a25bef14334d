"""What a server answered to a call, as JSON.

Keep true:
1. Structured content goes before prose: it is the same answer, made for programs.
2. Bytes are counted, and handed on only where they are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placet.ir.json_value import JsonValue
from placet.safe_text import clean
from placet.truncation import truncate

if TYPE_CHECKING:
    from mcp_types import CallToolResult

DATA_AT_MOST = 1024 * 1024
"""Bytes of an image, a sound or a file that are handed on; of a larger one only the size."""
_WORDS_AT_MOST = 4_000


def answer_of(result: CallToolResult) -> JsonValue:
    """The output of a tool: its structured content; else its text; else a list of what it holds."""
    if result.structured_content is not None:
        structured: JsonValue = result.structured_content
        return structured
    blocks: list[JsonValue] = [_block(block) for block in result.content]
    match blocks:
        case []:
            return None
        case [{"type": "text", "text": str() as text}]:
            return text
    return blocks


def words_of(result: CallToolResult) -> str:
    """What an answer that reports a failure says."""
    texts = [block.text for block in result.content if block.type == "text"]
    text = "\n".join(texts).strip()
    shown = clean(truncate(text, _WORDS_AT_MOST), lines=True, tabs=True)
    return shown + ("…" if len(text) > _WORDS_AT_MOST else "")


def _block(block: Any) -> dict[str, JsonValue]:
    match block.type:
        case "text":
            return {"type": "text", "text": block.text}
        case "image" | "audio":
            return {"type": block.type, "mime_type": block.mime_type, **_data(block.data)}
        case "resource":
            held = block.resource
            found: dict[str, JsonValue] = {"type": "resource", "uri": str(held.uri)}
            if held.mime_type is not None:
                found["mime_type"] = held.mime_type
            text = getattr(held, "text", None)
            return {**found, **({"text": text} if text is not None else _data(held.blob))}
        case _:
            link: dict[str, JsonValue] = block.model_dump(
                mode="json", exclude_none=True, exclude={"meta", "icons", "annotations"}
            )
            return link


def _data(encoded: str) -> dict[str, JsonValue]:
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return {"bytes": size, "data": encoded} if size <= DATA_AT_MOST else {"bytes": size}
