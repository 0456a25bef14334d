"""A document that decodes means one thing; every other one ends in one clear error."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Proposal
from placet.errors import DecodeError
from placet.ir.codec import decode_json, decode_proposal, encode
from tests.properties.documents import Speller, places, proposals, values
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.properties.test_serialisability import exactly

pytestmark = UNHURRIED

seeds = st.integers(0, 2**32)
LISTS = {"preconditions", "assumptions"}


def meaning(proposal: Proposal) -> str:
    """A proposal as text, so that two can be compared to the digit, defaults filled in."""
    return exactly(_plain(proposal))


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def test_every_way_in_gives_the_same_proposal() -> None:
    """Text however it is spelled, a dictionary, a Proposal, and what was written out again."""
    tally = Tally()

    @examples(200)
    @given(proposals, seeds)
    def check(document: dict[str, Any], seed: int) -> None:
        document.setdefault("timestamp", "2026-01-02T03:04:05Z")
        text = Speller(seed).write(document)

        decoded = decode_proposal(text)

        tally.add(actions=bool(document.get("actions")), escaped="\\u" in text, plain="\\u003" not in text)
        assert meaning(decode_proposal(document)) == meaning(decoded)
        assert meaning(decode_proposal(text.encode())) == meaning(decoded)
        assert meaning(decode_proposal(encode(decoded))) == meaning(decoded)
        assert meaning(decode_proposal(decoded)) == meaning(decoded)
        assert meaning(decode_proposal(Proposal(**_fields(decoded)))) == meaning(decoded)
        again = decode_proposal(encode(decoded))
        assert encode(decode_proposal(encode(again))) == encode(again)
        _means_what_was_written(document, decoded)

    check()
    tally.require({"actions": FIFTH, "escaped": FIFTH, "plain": FIFTH})


def _fields(proposal: Proposal) -> dict[str, Any]:
    return {name: getattr(proposal, name) for name in proposal.__struct_fields__}


def _means_what_was_written(document: dict[str, Any], decoded: Proposal) -> None:
    for name in ("id", "source", "context"):
        if name in document:
            assert exactly(getattr(decoded, name)) == exactly(document[name])
    assert len(decoded.actions) == len(document.get("actions", ()))
    ids = [a.id for a in decoded.actions]
    assert all(ids)
    given_ids = [a.get("id", "") for a in document.get("actions", ())]
    assert all(g == i for g, i in zip(given_ids, ids, strict=True) if g)
    assert len(set(ids)) == len(ids) or len({*filter(None, given_ids)}) < len([*filter(None, given_ids)])
    for written, action in zip(document.get("actions", ()), decoded.actions, strict=True):
        for name in written.keys() - LISTS - {"id", "compensation"}:
            assert exactly(getattr(action, name)) == exactly(written[name]), name
        for name in LISTS & written.keys():
            for one, item in zip(written[name], getattr(action, name), strict=True):
                assert all(exactly(getattr(item, field)) == exactly(one[field]) for field in one)
        if written.get("compensation"):
            undo = written["compensation"]
            assert all(
                exactly(getattr(action.compensation, f)) == exactly(undo[f]) for f in undo if f != "type"
            )


def test_a_key_that_stands_twice_is_always_caught() -> None:
    """In any object, with any escapes and whitespace, whatever the two values are."""
    tally = Tally()

    @examples(350)
    @given(proposals, seeds, st.data())
    def check(document: dict[str, Any], seed: int, data: st.DataObject) -> None:
        where = data.draw(st.sampled_from([o for o in places(document) if o]))
        text = Speller(seed, twice_in=where).write(document)

        with pytest.raises(DecodeError, match="twice") as caught:
            decode_proposal(text)

        assert caught.value.place
        with pytest.raises(DecodeError, match="twice"):
            decode_json(text)
        undo = "compensation" in text and where is not document
        tally.add(
            nested=where is not document,
            escaped="\\u" in text,
            plain="\\u003" not in text,
            with_compensation=undo,
        )

    check()
    tally.require({"nested": 0.1, "escaped": FIFTH, "plain": FIFTH, "with_compensation": 0.01})


@pytest.mark.parametrize("extra", [0, 1, 2, 5])
def test_a_field_left_to_its_default_does_not_hide_a_key_that_stands_twice(extra: int) -> None:
    undone = '{"id":"x%d","tool":"t","compensation":{"type":"tool","tool":"u"}}'
    actions = [undone % n for n in range(extra)] + ['{"id":"last","id":"again","tool":"t"}']

    with pytest.raises(DecodeError, match="'id' stands twice"):
        decode_proposal(f'{{"actions":[{",".join(actions)}]}}')


def is_json(text: str) -> bool:
    """Whether a text is JSON as we want it, by the standard library."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError
        return dict(pairs)

    def refuse(constant: str) -> Any:
        raise ValueError

    def finite(digits: str) -> float:
        return float(digits) if math.isfinite(float(digits)) else refuse(digits)

    try:
        value = json.loads(text, object_pairs_hook=distinct, parse_constant=refuse, parse_float=finite)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def test_damaged_text_ends_in_a_decode_error_and_nothing_else() -> None:
    tally = Tally()
    bits = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\u", b"\\ud83d", b"0", b"-", b"e9", b"1" * 30]
    bits += [
        b"NaN",
        b"Infinity",
        b"null",
        b"true",
        b" ",
        b"\n",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc3",
        b'"id":1,',
    ]
    bits += [b"a", b"b", b" ", b"1"] * 5
    edits = st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([0, 0, 1, 6]), st.sampled_from(bits)),
        min_size=1,
        max_size=3,
    )

    @examples(400)
    @given(proposals, seeds, edits)
    def check(document: dict[str, Any], seed: int, edits: list[tuple[float, int, bytes]]) -> None:
        data = Speller(seed).write(document).encode()
        for at, length, piece in edits:
            start = int(at * len(data))
            data = data[:start] + piece + data[start + length :]

        try:
            decode_proposal(data)
        except DecodeError:
            tally.add(refused=True)
            return
        tally.add(accepted=True)
        assert is_json(data.decode()), "it was accepted, and is no JSON that means one thing"

    check()
    tally.require({"refused": FIFTH, "accepted": 0.01})


@examples(300)
@given(st.binary(max_size=40) | st.text(max_size=40) | values)
def test_any_input_at_all_ends_in_a_proposal_or_a_decode_error(given: Any) -> None:
    for decode in (decode_proposal, decode_json):
        if decode is decode_json and not isinstance(given, str | bytes):
            continue
        with suppress(DecodeError):
            decode(given)


DIGITS = "1" * 5000


@pytest.mark.parametrize(
    "text",
    [
        f'{{"context":{{"a":{DIGITS}}}}}',
        f'{{"context":{{"\\u003a":{DIGITS}}}}}',
        f'{{"context":{{"a":{DIGITS},}}}}',
        f'{{"actions":[{{"id":"a","max_retries":{DIGITS}}}]}}',
        "[" * 100_000,
        '{"context":' + '{"a":' * 100_000,
        '{"context":' + '{"\\u003a":' * 900 + "1" + "}" * 900 + "}",
        '{"context":' + '{"a":1,"a":' * 900 + "1" + "}" * 900 + "}",
    ],
    ids=range(8),
)
def test_what_python_itself_stumbles_over_is_a_decode_error(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_proposal(text)
    with pytest.raises(DecodeError):
        decode_json(text)


PLACES = {
    "context": ('{"context":%s}', 1),
    "parameters": ('{"actions":[{"id":"a","parameters":%s}]}', 3),
    "metadata": ('{"actions":[{"id":"a","metadata":%s}]}', 3),
    "effects": ('{"actions":[{"id":"a","expected_effects":%s}]}', 3),
    "precondition": ('{"actions":[{"id":"a","preconditions":[{"key":"k","value":%s}]}]}', 5),
    "assumption": ('{"actions":[{"id":"a","assumptions":[{"key":"k","expected_value":%s}]}]}', 5),
    "compensation": ('{"actions":[{"id":"a","compensation":{"type":"tool","tool":"t","parameters":%s}}]}', 4),
    "unknown field": ('{"actions":[{"id":"a","nonsense":%s}]}', 3),
    "unknown field on top": ('{"nonsense":%s}', 1),
}
"""Where values may stand, and how many containers are around them there."""


@pytest.mark.parametrize(
    ("where", "way"),
    [
        (where, way)
        for where in PLACES
        for way in ("text", "spelled", "dictionary", "proposal")
        if not ("unknown" in where and way == "proposal")  # A Proposal has no place for those.
    ],
)
def test_a_hundred_deep_is_fine_and_one_more_is_not(where: str, way: str) -> None:
    place, around = PLACES[where]

    _decode(place % _nest(100 - around), way)

    with pytest.raises(DecodeError, match="more than 100 deep"):
        _decode(place % _nest(101 - around), way)


def _nest(depth: int) -> str:
    """An object `depth` containers deep, in both kinds of containers."""
    inner = "1"
    for level in range(depth - 1):
        inner = f"[{inner}]" if level % 2 else f'{{"a":{inner}}}'
    return f'{{"a":{inner}}}'


def _decode(text: str, way: str) -> None:
    match way:
        case "text":
            decode_proposal(text)
        case "spelled":
            decode_proposal(Speller(3).write(json.loads(text)))
        case "dictionary":
            decode_proposal(json.loads(text))
        case "proposal":
            decode_proposal(msgspec.convert(json.loads(text), Proposal))
