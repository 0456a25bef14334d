"""Checking brackets."""

PAIRS = {")": "(", "]": "[", "}": "{"}


def first_problem(text):
    """The index of the first bracket that does not fit, or -1 if all fit.

    If brackets are left open at the end, it is the index of the last one opened.
    """
    opened = []
    for index, char in enumerate(text):
        if char in PAIRS.values():
            opened.append(index)
        elif char in PAIRS:
            if not opened or text[opened[-1]] != PAIRS[char]:
                return index
            opened.pop()
    if opened:
        return opened[-1]
    return -1


def depth(text):
    """How many brackets are open at the same time at most, in a text whose brackets fit."""
    now = 0
    deepest = 0
    for char in text:
        if char in PAIRS.values():
            now += 1
            deepest = max(deepest, now)
        elif char in PAIRS:
            now -= 1
    return deepest
