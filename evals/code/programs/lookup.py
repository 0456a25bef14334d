"""Searching in sorted lists by halving."""


def first_at_least(items, wanted):
    """The index of the first item that is not smaller than `wanted`; the length if there is none."""
    low = 0
    high = len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def index_of(items, wanted):
    """The index of the first item equal to `wanted`, or -1."""
    place = first_at_least(items, wanted)
    if place < len(items) and items[place] == wanted:
        return place
    return -1


def count_between(items, low, high):
    """How many items are at least `low` and smaller than `high`."""
    if high <= low:
        return 0
    return first_at_least(items, high) - first_at_least(items, low)
