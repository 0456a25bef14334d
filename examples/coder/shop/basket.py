"""What somebody is about to buy."""

from prices import discounted


class Basket:
    """Things with their prices."""

    def __init__(self) -> None:
        self._prices: list[int] = []

    def add(self, price: int, percent: int = 0) -> None:
        """Put something in, so many percent cheaper."""
        self._prices.append(discounted(price, percent))

    def total(self) -> int:
        """What all of it costs."""
        return sum(self._prices)
