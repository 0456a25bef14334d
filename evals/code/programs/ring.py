"""A buffer of fixed size that forgets the oldest."""


class Ring:
    """Keeps the last `size` values that were put in."""

    def __init__(self, size):
        self.slots = [None] * size
        self.start = 0
        self.count = 0

    def push(self, value):
        """Put a value in; the value that had to go for it, or None."""
        end = (self.start + self.count) % len(self.slots)
        lost = None
        if self.count == len(self.slots):
            lost = self.slots[self.start]
            self.start = (self.start + 1) % len(self.slots)
        else:
            self.count += 1
        self.slots[end] = value
        return lost

    def pull(self):
        """Take the oldest value out; IndexError if there is none."""
        if self.count == 0:
            raise IndexError("empty")
        value = self.slots[self.start]
        self.start = (self.start + 1) % len(self.slots)
        self.count -= 1
        return value

    def values(self):
        """All values, the oldest first."""
        return [self.slots[(self.start + place) % len(self.slots)] for place in range(self.count)]
