"""A search tree: smaller values are on the left, larger ones on the right."""


class Node:
    """One value, and the trees on its left and right, which may be None."""

    def __init__(self, value):
        self.value = value
        self.left = None
        self.right = None


def insert(node, value):
    """The tree with a value added. A value that is there already changes nothing."""
    if node is None:
        return Node(value)
    if value < node.value:
        node.left = insert(node.left, value)
    elif value > node.value:
        node.right = insert(node.right, value)
    return node


def values(node):
    """All values of a tree, sorted."""
    if node is None:
        return []
    return [*values(node.left), node.value, *values(node.right)]


def height(node):
    """How many values lie on the longest way down; 0 for no tree."""
    if node is None:
        return 0
    return 1 + max(height(node.left), height(node.right))


def next_above(node, value):
    """The smallest value in the tree that is larger than the given one, or None."""
    best = None
    while node is not None:
        if node.value > value:
            best = node.value
            node = node.left
        else:
            node = node.right
    return best
