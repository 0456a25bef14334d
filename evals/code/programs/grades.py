"""Marks of pupils."""

LIMITS = [(90, "A"), (80, "B"), (70, "C"), (60, "D")]


def grade(points):
    """The letter for 0 to 100 points; below all limits it is F. ValueError for other numbers."""
    if points < 0 or points > 100:
        raise ValueError(points)
    for limit, letter in LIMITS:
        if points >= limit:
            return letter
    return "F"


def mean_without_worst(points):
    """The mean of all marks but the lowest one; of a single mark, that mark."""
    if len(points) == 1:
        return points[0]
    return (sum(points) - min(points)) / (len(points) - 1)


def ranking(marks):
    """Pairs of a place and a name, the best first. Equal marks share a place; the next place is skipped.

    Of pupils with equal marks, the name that comes first in the alphabet is named first.
    """
    ordered = sorted(marks, key=lambda name: (-marks[name], name))
    places = []
    place = 0
    for index, name in enumerate(ordered):
        if index == 0 or marks[name] != marks[ordered[index - 1]]:
            place = index + 1
        places.append((place, name))
    return places
