"""A heap: the smallest item is always at hand."""


class Heap:
    """Items in a list in which none is smaller than the one at half its place."""

    def __init__(self, items=()):
        self.items = []
        for item in items:
            self.push(item)

    def push(self, item):
        """Put an item in."""
        self.items.append(item)
        place = len(self.items) - 1
        while place > 0:
            parent = (place - 1) // 2
            if self.items[parent] <= self.items[place]:
                break
            self.swap(parent, place)
            place = parent

    def pop(self):
        """Take the smallest item out; IndexError if there is none."""
        if not self.items:
            raise IndexError("empty")
        self.swap(0, len(self.items) - 1)
        smallest = self.items.pop()
        place = 0
        while 2 * place + 1 < len(self.items):
            child = 2 * place + 1
            if child + 1 < len(self.items) and self.items[child + 1] < self.items[child]:
                child += 1
            if self.items[place] <= self.items[child]:
                break
            self.swap(place, child)
            place = child
        return smallest

    def swap(self, a, b):
        """Exchange the items at two places."""
        self.items[a], self.items[b] = self.items[b], self.items[a]
