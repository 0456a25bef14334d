"""A shop's stock."""


class Stock:
    """Numbers of items, and their prices in cents."""

    def __init__(self):
        self.counts = {}
        self.prices = {}

    def add(self, item, count, price):
        """Put items in; the price of all of this kind becomes the given one."""
        self.counts[item] = self.counts.get(item, 0) + count
        self.prices[item] = price

    def take(self, item, count):
        """Take items out and return what they cost; KeyError, and nothing is taken, if there are too few."""
        if self.counts.get(item, 0) < count:
            raise KeyError(item)
        self.counts[item] -= count
        if self.counts[item] == 0:
            del self.counts[item]
        return self.prices[item] * count

    def value(self):
        """What everything in stock costs."""
        total = 0
        for item, count in self.counts.items():
            total += count * self.prices[item]
        return total

    def scarce(self, limit):
        """The names of all items of which there are fewer than the limit, sorted."""
        return sorted(item for item, count in self.counts.items() if count < limit)
