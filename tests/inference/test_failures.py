"""The words of errors, and what the headers of an answer say."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from typing import get_args

import pytest
from rich.pretty import pretty_repr

from placet.errors import ContextTooLong, KeyRefused, ModelError, QuotaSpent, RateLimited, UnknownModel
from placet.inference.failures import failure
from placet.inference.http_headers import retry_after, unpacker, wants_retry
from placet.inference.providers import endpoint
from placet.inference.wire.format import Kind, Refusal, Unreadable

KEY = "sk-proj-abcdefghijklmnop"
MODEL = endpoint("openai:gpt-x", {"OPENAI_API_KEY": KEY})


def told(kind: str, message: str = "no", **more: float) -> ModelError:
    return failure(Refusal(kind=kind, message=message), MODEL, status=400, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_names_the_model_and_what_the_server_said(kind: str) -> None:
    error = told(kind, "because of this")

    assert "openai:gpt-x" in str(error)
    assert str(error).endswith("It says (status 400): because of this")
    assert error.status == 400


@pytest.mark.parametrize(
    ("kind", "error", "hint"),
    [
        ("key", KeyRefused, "OPENAI_API_KEY"),
        ("model", UnknownModel, "https://api.openai.com/v1"),
        ("context", ContextTooLong, "Shorten it"),
        ("quota", QuotaSpent, "Add credit"),
        ("rate", RateLimited, "left alone for 2.5 s"),
    ],
)
def test_each_says_what_to_do(kind: str, error: type[ModelError], hint: str) -> None:
    found = told(kind, retry_after_s=2.5)

    assert type(found) is error
    assert hint in str(found)
    assert found.retry_after_s == 2.5


def test_a_servers_words_do_not_steer_a_terminal_nor_fill_it() -> None:
    error = str(told("request", "a\x1b[2J\r\nb\u202e" + "x" * 100_000))

    assert error.isprintable()
    assert "a\\e[2J b\\u202e" in error
    assert len(error) < 800


def test_a_key_that_a_server_repeats_is_taken_out() -> None:
    error = str(told("key", f"Incorrect key {KEY}; header 'Bearer {KEY}'"))

    assert "abcdef" not in error
    assert "Incorrect key" in error


def test_a_short_key_is_taken_out_as_well() -> None:
    short = endpoint("vllm:m", {"VLLM_API_KEY": "abc"})

    assert "abc" not in str(failure(Refusal(kind="key", message="not abc"), short))


def test_what_a_server_refused_is_not_in_a_repr() -> None:
    refusal = Refusal(kind="key", message=f"Incorrect key {KEY}")

    assert KEY not in repr(refusal) + pretty_repr(refusal)
    assert "key" in repr(refusal)


NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon, 16 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "Mon, 99 Nov 99999999 12:00:30 GMT"}, None),
    ],
)
def test_when_to_come_again(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_the_servers_own_clock_counts() -> None:
    headers = {"retry-after": "Mon, 16 Nov 2020 12:00:30 GMT", "date": "Mon, 16 Nov 2020 12:00:10 GMT"}

    assert retry_after(headers) == 20.0


def test_whether_to_come_again_is_the_servers_to_say() -> None:
    assert wants_retry({"x-should-retry": "true"}) is True
    assert wants_retry({"x-should-retry": "False"}) is False
    assert wants_retry({"x-should-retry": "maybe"}) is None
    assert wants_retry({}) is None


def test_a_packed_body_is_unpacked_in_pieces() -> None:
    packed = gzip.compress(b"hello" * 100)
    unpack = unpacker("GZIP")

    assert b"".join(unpack(bytes([each]), 1000) for each in packed) + unpack(None, 1000) == b"hello" * 100


def test_a_small_body_does_not_become_a_large_one() -> None:
    unpack = unpacker("gzip")

    assert len(unpack(gzip.compress(b"\0" * 50_000_000), 1000)) == 1001


def test_a_packed_body_that_is_damaged_or_odd_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="damaged"):
        unpacker("gzip")(b"no gzip at all", 1000)
    with pytest.raises(Unreadable, match="broke off"):
        unpacker("gzip")(None, 1000)
    with pytest.raises(Unreadable, match="'zstd', which was not asked for"):
        unpacker("zstd")
