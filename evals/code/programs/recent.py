"""A cache that keeps only what was used last."""


class Recent:
    """Holds up to `size` values by key. When it is full, the key unused for the longest time goes."""

    def __init__(self, size):
        self.size = size
        self.values = {}
        self.hits = 0
        self.misses = 0

    def get(self, key, default=None):
        """The value of a key, which counts as a use; the default if the key is not there."""
        if key not in self.values:
            self.misses += 1
            return default
        self.hits += 1
        value = self.values.pop(key)
        self.values[key] = value
        return value

    def put(self, key, value):
        """Keep a value under a key, which counts as a use of the key."""
        if key in self.values:
            self.values.pop(key)
        elif len(self.values) >= self.size:
            oldest = next(iter(self.values))
            self.values.pop(oldest)
        self.values[key] = value

    def keys(self):
        """All keys, the one used longest ago first."""
        return list(self.values)
