"""A model of a few kilobytes that the real server loads at once: what it says means nothing.

Starting, sharing and ending a server is the same for it as for a gigabyte, so tests of that need not wait.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

_WIDTH, _INNER, _CONTEXT = 32, 64, 8192
_ALIGNMENT = 32
_U32, _F32, _TEXT, _LIST, _I32 = 4, 6, 8, 9, 5

Value = int | float | str | list[str] | list[float] | list[int]


def write_tiny_model(path: Path) -> Path:
    """Write the model there."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [2, 3, 3, *[6] * 256]
    about: dict[str, Value] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": _CONTEXT,
        "llama.embedding_length": _WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": _INNER,
        "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": "{% for m in messages %}{{ m.content }}\n{% endfor %}",
    }
    vocabulary = len(tokens)
    square = (_WIDTH, _WIDTH)
    tensors: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (_WIDTH, vocabulary),
        "output_norm.weight": (_WIDTH,),
        "output.weight": (_WIDTH, vocabulary),
        "blk.0.attn_norm.weight": (_WIDTH,),
        **{f"blk.0.attn_{name}.weight": square for name in ("q", "k", "v", "output")},
        "blk.0.ffn_norm.weight": (_WIDTH,),
        "blk.0.ffn_gate.weight": (_WIDTH, _INNER),
        "blk.0.ffn_up.weight": (_WIDTH, _INNER),
        "blk.0.ffn_down.weight": (_INNER, _WIDTH),
    }
    head = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(about)))
    for key, value in about.items():
        head += _text(key) + _value(value)
    numbers = random.Random(7)
    body = bytearray()
    for name, shape in tensors.items():
        head += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", 0, len(body))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        body += struct.pack(f"<{count}f", *(numbers.gauss(0, 0.3) for _ in range(count)))
        body += bytes(-len(body) % _ALIGNMENT)
    head += bytes(-len(head) % _ALIGNMENT)
    path.write_bytes(head + body)
    return path


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    match value:
        case int():
            return struct.pack("<II", _U32, value)
        case float():
            return struct.pack("<If", _F32, value)
        case str():
            return struct.pack("<I", _TEXT) + _text(value)
    kind = {str: _TEXT, float: _F32, int: _I32}[type(value[0])]
    start = struct.pack("<IIQ", _LIST, kind, len(value))
    if kind == _TEXT:
        return start + b"".join(_text(str(each)) for each in value)
    return start + struct.pack(f"<{len(value)}{'f' if kind == _F32 else 'i'}", *value)
