"""Sorting by hand."""


def merge(left, right):
    """One sorted list of two sorted ones. Of equal items, those of the left come first."""
    merged = []
    i = 0
    j = 0
    while i < len(left) and j < len(right):
        if right[j] < left[i]:
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    return merged + left[i:] + right[j:]


def merge_sort(items):
    """The items, sorted; equal items keep their order."""
    if len(items) <= 1:
        return list(items)
    middle = len(items) // 2
    return merge(merge_sort(items[:middle]), merge_sort(items[middle:]))


def smallest(items, count):
    """The smallest items, sorted; all of them if there are fewer than `count`."""
    kept = []
    for item in items:
        place = len(kept)
        while place > 0 and kept[place - 1] > item:
            place -= 1
        kept.insert(place, item)
        if len(kept) > count:
            kept.pop()
    return kept
