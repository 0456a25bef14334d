"""Lists within lists."""


def flatten(items):
    """All items that are not lists, in order, however deep they are."""
    flat = []
    for item in items:
        if isinstance(item, list):
            flat.extend(flatten(item))
        else:
            flat.append(item)
    return flat


def depth(items):
    """How deep the lists go: 0 for something that is no list, 1 for a list without lists in it."""
    if not isinstance(items, list):
        return 0
    deepest = 0
    for item in items:
        deepest = max(deepest, depth(item))
    return deepest + 1


def weighted_sum(items, level=1):
    """The sum of all numbers, each multiplied by the depth at which it stands; the outer list is 1."""
    total = 0
    for item in items:
        if isinstance(item, list):
            total += weighted_sum(item, level + 1)
        else:
            total += item * level
    return total
