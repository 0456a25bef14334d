"""Prices in cents."""


def discounted(price: int, percent: int) -> int:
    """The price less so many percent, rounded down."""
    return price - price * percent // 10
