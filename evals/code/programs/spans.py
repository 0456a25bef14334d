"""Spans of whole numbers: pairs of a start and an end, where the end is not part of the span."""


def merge(spans):
    """The same numbers in as few spans as possible, sorted. Spans that touch become one."""
    merged = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def covered(spans):
    """How many numbers are in at least one of the spans."""
    total = 0
    for start, end in merge(spans):
        total += end - start
    return total


def gaps(spans):
    """The spans between the first and the last number that none of the spans covers."""
    found = []
    merged = merge(spans)
    for index in range(1, len(merged)):
        found.append((merged[index - 1][1], merged[index][0]))
    return found
