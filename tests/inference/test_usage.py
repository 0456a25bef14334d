"""What an answer costs: nothing is made up, and a length decides one price for the whole of it."""

from __future__ import annotations

from math import isclose

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.inference.usage import Beyond, Price, Usage
from tests.properties.effort import UNHURRIED, examples

pytestmark = UNHURRIED

DOLLARS = st.integers(0, 10_000).map(lambda cents: cents / 100)
TOKENS = st.integers(0, 3_000_000)
PLAIN = st.builds(
    Price, input=DOLLARS, output=DOLLARS, cached=st.none() | DOLLARS, cache_written=st.none() | DOLLARS
)
KNOWN = st.builds(
    lambda fresh, cached, written, output: Usage(
        input=fresh + cached + written, output=output, cached=cached, cache_written=written
    ),
    TOKENS,
    TOKENS,
    TOKENS,
    TOKENS,
)


def test_every_kind_of_token_has_its_price() -> None:
    price = Price(input=1, output=10, cached=0.1, cache_written=2)

    cost = price.cost(Usage(input=1_000_000, output=200_000, cached=300_000, cache_written=100_000))

    assert cost == pytest.approx(0.6 * 1 + 0.3 * 0.1 + 0.1 * 2 + 0.2 * 10)


def test_cached_tokens_cost_as_much_as_others_where_nothing_else_is_said() -> None:
    price = Price(input=2, output=0)

    assert price.cost(Usage(input=1_000_000, output=0, cached=400_000, cache_written=100_000)) == 2


@pytest.mark.parametrize("usage", [None, Usage(), Usage(input=5), Usage(output=5)])
def test_what_is_not_known_is_not_zero(usage: Usage | None) -> None:
    price = Price(input=2, output=0, beyond=Beyond(tokens=0, price=Price(input=4, output=0)))

    assert price.cost(usage) is None


def test_the_dearest_of_several_lengths_holds() -> None:
    price = Price(
        input=1,
        output=0,
        beyond=Beyond(
            tokens=100,
            price=Price(input=2, output=0, beyond=Beyond(tokens=200, price=Price(input=4, output=0))),
        ),
    )

    costs = [price.cost(Usage(input=count, output=0)) for count in (100, 101, 200, 201)]

    assert costs == [pytest.approx(c / 1_000_000) for c in (100, 202, 400, 804)]


@examples(200)
@given(PLAIN, PLAIN, TOKENS, KNOWN)
def test_one_price_holds_for_the_whole_answer(short: Price, long: Price, tokens: int, usage: Usage) -> None:
    price = msgspec.structs.replace(short, beyond=Beyond(tokens=tokens, price=long))

    assert price.cost(usage) == (long if (usage.input or 0) > tokens else short).cost(usage)


@examples(200)
@given(PLAIN, KNOWN, KNOWN)
def test_two_answers_cost_as_much_as_both(price: Price, one: Usage, other: Usage) -> None:
    both = Usage(**{name: getattr(one, name) + getattr(other, name) for name in msgspec.structs.asdict(one)})
    costs = [price.cost(each) for each in (one, other, both)]

    assert all(cost is not None and cost >= 0 for cost in costs)
    assert isclose((costs[0] or 0) + (costs[1] or 0), costs[2] or 0, abs_tol=1e-9)


@examples(100)
@given(PLAIN, PLAIN, TOKENS)
def test_a_price_can_be_written_and_read(short: Price, long: Price, tokens: int) -> None:
    price = msgspec.structs.replace(short, beyond=Beyond(tokens=tokens, price=long))

    assert msgspec.json.decode(msgspec.json.encode(price), type=Price) == price
