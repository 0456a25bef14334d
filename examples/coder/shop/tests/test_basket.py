"""The shop does its sums."""

import unittest

from basket import Basket


class Baskets(unittest.TestCase):
    """Baskets, full and empty."""

    def test_a_discount_is_in_percent(self) -> None:
        basket = Basket()
        basket.add(100)
        basket.add(200, 10)
        assert basket.total() == 280

    def test_nothing_costs_nothing(self) -> None:
        assert Basket().total() == 0
