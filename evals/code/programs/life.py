"""The game of life on a field without end; a living cell is a pair (row, column)."""


def around(cell):
    """The eight cells around a cell."""
    row, column = cell
    cells = []
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            if down != 0 or right != 0:
                cells.append((row + down, column + right))
    return cells


def step(alive):
    """The cells that live next: those with three living neighbours, and living ones with two."""
    counts = {}
    for cell in alive:
        for near in around(cell):
            counts[near] = counts.get(near, 0) + 1
    born = set()
    for cell, count in counts.items():
        if count == 3 or (count == 2 and cell in alive):
            born.add(cell)
    return born


def parse(lines):
    """The living cells of a drawing, in which '*' is a living cell."""
    alive = set()
    for row, line in enumerate(lines):
        for column, char in enumerate(line):
            if char == "*":
                alive.add((row, column))
    return alive
