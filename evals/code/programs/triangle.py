"""Pascal's triangle: each number is the sum of the two above it."""


def row(number):
    """One row of the triangle; row 0 is [1]."""
    numbers = [1]
    for _ in range(number):
        numbers = [left + right for left, right in zip([0, *numbers], [*numbers, 0], strict=True)]
    return numbers


def choose(total, picked):
    """How many ways there are to pick some of a number of things; 0 if there are too few."""
    if picked < 0 or picked > total:
        return 0
    ways = 1
    for step in range(1, picked + 1):
        ways = ways * (total - step + 1) // step
    return ways


def drawing(height):
    """The first rows as lines of text, in the middle of the width of the last row."""
    lines = []
    for number in range(height):
        lines.append(" ".join(str(value) for value in row(number)))
    width = max((len(line) for line in lines), default=0)
    return [line.center(width).rstrip() for line in lines]
