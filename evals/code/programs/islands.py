"""Islands on a map of text lines, in which 'x' is land."""


def flood(land, start):
    """Remove the place `start`, and all land that it touches, from a set of places; how many these were."""
    if start not in land:
        return 0
    land.remove(start)
    row, column = start
    size = 1
    for place in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        size += flood(land, place)
    return size


def sizes(lines):
    """The sizes of all islands, the largest first. Land touches at sides, not at corners."""
    land = set()
    for row, line in enumerate(lines):
        for column, char in enumerate(line):
            if char == "x":
                land.add((row, column))
    found = []
    while land:
        found.append(flood(land, min(land)))
    return sorted(found, reverse=True)


def coast(lines):
    """How many sides of land have water, or the edge of the map, beside them."""
    total = 0
    for row, line in enumerate(lines):
        for column, char in enumerate(line):
            if char != "x":
                continue
            total += 4
            if row > 0 and lines[row - 1][column] == "x":
                total -= 2
            if column > 0 and line[column - 1] == "x":
                total -= 2
    return total
