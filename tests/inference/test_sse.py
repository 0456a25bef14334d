"""Events out of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.inference import sse
from placet.inference.sse import Event, EventDecoder, TooLong
from tests.properties.effort import examples


def decoded(*chunks: bytes) -> list[Event]:
    """All events of a stream that came in these chunks."""
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + list(decoder.finish())


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_in_any_of_three_ways(end: bytes) -> None:
    lines = [b"event: a", b"data: 1", b"", b"data:2", b"data:  3", b"data", b"", b""]

    assert decoded(end.join(lines)) == [Event("a", "1"), Event("", "2\n 3\n")]


def test_ends_of_lines_may_be_mixed() -> None:
    assert decoded(b"data: 1\rdata: 2\r\ndata: 3\n\rdata: 4\n\n") == [Event("", "1\n2\n3"), Event("", "4")]


def test_what_is_no_data_is_left_out() -> None:
    stream = b"\xef\xbb\xbfdata: 1\n\n: a comment\nid: 7\nretry: 10\nnonsense\n\nevent: alone\n\ndata: 2\n\n"

    assert decoded(stream) == [Event("", "1"), Event("", "2")]


def test_a_mark_of_byte_order_counts_only_at_the_beginning() -> None:
    assert decoded(b"data: \xef\xbb\xbf1\n\n") == [Event("", "\ufeff1")]
    assert decoded(b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [Event("", "1")]


def test_a_last_event_without_an_empty_line_counts() -> None:
    assert decoded(b"data: 1\n\ndata: 2") == [Event("", "1"), Event("", "2")]
    assert decoded(b"data: 1\r") == [Event("", "1")]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert decoded(b"event: \xff\ndata: \xc3\n\n") == [Event("\ufffd", "\ufffd")]


ALPHABET = [
    b"data: ",
    b"data",
    b":",
    b"event: x",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    "ü€".encode(),
    b"\xff",
    b"a",
]


@examples(500)
@given(st.lists(st.sampled_from(ALPHABET), max_size=40), st.data())
def test_where_the_bytes_are_cut_does_not_matter(tokens: list[bytes], data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + b"".join(tokens)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert decoded(*chunks) == decoded(stream) == decoded(*(bytes([each]) for each in stream))


@pytest.mark.parametrize(
    "chunk", [b"x" * 1000, b"data: x\n" * 125, b"data\n" * 200], ids=["line", "lines", "empty"]
)
def test_an_event_without_end_is_refused(chunk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MOST_BYTES", 10_000)
    decoder = EventDecoder()

    with pytest.raises(TooLong):
        for _ in range(100):
            list(decoder.feed(chunk))


def test_many_events_in_one_chunk_are_not_one_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MOST_BYTES", 100)

    assert len(decoded(b"data: 12345678\n\n" * 1000)) == 1000
