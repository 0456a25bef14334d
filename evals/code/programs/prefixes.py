"""Words by how they begin."""


class Words:
    """A set of words that quickly finds all that begin alike."""

    def __init__(self, words=()):
        self.root = {}
        for word in words:
            self.add(word)

    def add(self, word):
        """Put a word in."""
        node = self.root
        for char in word:
            node = node.setdefault(char, {})
        node["end"] = True

    def find(self, prefix):
        """The part of the tree below a prefix, or None if no word begins with it."""
        node = self.root
        for char in prefix:
            if char not in node:
                return None
            node = node[char]
        return node

    def has(self, word):
        """Whether exactly this word is in the set."""
        node = self.find(word)
        return node is not None and "end" in node

    def starting(self, prefix):
        """All words that begin with the prefix, sorted."""
        node = self.find(prefix)
        if node is None:
            return []
        return sorted(self.below(node, prefix))

    def below(self, node, start):
        """The words at a part of the tree, to which `start` leads."""
        words = []
        for char, child in node.items():
            if char == "end":
                words.append(start)
            else:
                words.extend(self.below(child, start + char))
        return words
