"""Exact fractions."""


def common_divisor(a, b):
    """The largest number that divides both; of 0 and a number it is the number."""
    if b == 0:
        return a
    return common_divisor(b, a % b)


class Ratio:
    """A fraction of whole numbers, always in lowest terms and with a positive lower number."""

    def __init__(self, top, bottom):
        if bottom == 0:
            raise ValueError("division by zero")
        if bottom < 0:
            top, bottom = -top, -bottom
        shared = common_divisor(abs(top), bottom)
        self.top = top // shared
        self.bottom = bottom // shared

    def plus(self, other):
        """The sum of two fractions."""
        top = self.top * other.bottom + other.top * self.bottom
        return Ratio(top, self.bottom * other.bottom)

    def times(self, other):
        """The product of two fractions."""
        return Ratio(self.top * other.top, self.bottom * other.bottom)

    def is_less(self, other):
        """Whether this fraction is smaller than the other."""
        return self.top * other.bottom < other.top * self.bottom

    def text(self):
        """Like '3/4', or like '2' if the lower number is 1."""
        if self.bottom == 1:
            return str(self.top)
        return f"{self.top}/{self.bottom}"
