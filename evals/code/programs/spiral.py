"""Going round a table of numbers."""


def spiral(rows):
    """All numbers, read clockwise from the upper left corner towards the middle."""
    found = []
    while rows:
        found.extend(rows[0])
        rows = turned(rows[1:])
    return found


def turned(rows):
    """The table turned by a quarter to the left: its last column becomes the first row."""
    if not rows:
        return []
    result = []
    for column in range(len(rows[0]) - 1, -1, -1):
        result.append([row[column] for row in rows])
    return result


def ring_sum(rows, depth):
    """The sum of the numbers that are exactly `depth` steps away from the nearest edge; 0 is the edge."""
    total = 0
    for r, row in enumerate(rows):
        for c, number in enumerate(row):
            steps = min(r, c, len(rows) - 1 - r, len(row) - 1 - c)
            if steps == depth:
                total += number
    return total
