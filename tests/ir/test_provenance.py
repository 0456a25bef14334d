"""Text with its provenance: parts, how they are recorded, and what a record without them means."""

from __future__ import annotations

from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from placet.ir.provenance import (
    LONGEST_PATH,
    UNRECORDED,
    Origin,
    Provenance,
    SourcedText,
    further,
    joined,
    parts_of,
    separated,
    text_of,
    typed,
    typed_in,
)

LABELS = st.dictionaries(st.sampled_from(["untrusted", "secret"]), st.just(("a1 (fetch)",)))
PARTS = st.lists(st.builds(SourcedText, st.text(), st.sampled_from(get_args(Origin)), LABELS), max_size=5)


@given(parts=PARTS, typed=st.lists(st.text(), max_size=3))
def test_a_message_is_read_back_with_the_same_parts(parts: list[SourcedText], typed: list[str]) -> None:
    made = Provenance.of(parts, typed)

    again = msgspec.json.decode(msgspec.json.encode(made), type=Provenance)

    assert list(again.parts(text_of(parts))) == [part for part in parts if part.text]
    assert {*again.typed, *typed_in(parts)} == {text for text in (*typed, *typed_in(parts)) if text}


@given(text=st.text(min_size=1))
def test_a_text_counts_as_typed_only_where_that_is_recorded(text: str) -> None:
    assert typed_in(typed(text).parts(text)) == (text,)
    assert typed_in(typed(text).parts(text + "!")) == (), "another text than the one that was recorded"
    assert typed_in(UNRECORDED.parts(text)) == ()
    assert all("untrusted" in part.labels for part in UNRECORDED.parts(text))


def test_a_labelled_part_is_never_typed() -> None:
    assert not SourcedText("x", "person", {"secret": ("vault",)}).is_typed
    assert not SourcedText("x", "agent").is_typed
    assert SourcedText("x").is_typed


def test_a_plain_text_is_the_persons() -> None:
    assert parts_of("x") == (SourcedText("x", "person"),)
    assert parts_of(SourcedText("x", "agent")) == (SourcedText("x", "agent"),)


def test_what_stands_between_blocks_is_nobodys() -> None:
    made = separated([(SourcedText("a"),), (SourcedText("b"), SourcedText("c", "agent"))])

    assert text_of(made) == "a\n\nbc"
    assert typed_in(made) == ("a", "b")


def test_labels_that_were_not_recorded_are_untrusted() -> None:
    assert set(joined({"secret": ("vault",)}, None)) == {"secret", "untrusted"}
    assert joined({}, {}) == {}


def test_a_path_keeps_its_source_however_long_it_gets() -> None:
    labels: dict[str, tuple[str, ...]] = {"untrusted": ("page",)}
    for step in range(50):
        labels = further(labels, f"s{step}")  # type: ignore[arg-type, assignment]

    path = labels["untrusted"]
    assert len(path) == LONGEST_PATH
    assert (path[0], path[-1]) == ("page", "s49")
    assert further(labels, "s49") == labels, "the same step twice is one"  # type: ignore[arg-type]
