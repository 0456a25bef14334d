"""How far two words are apart."""


def distance(left, right):
    """The fewest letters to insert, delete or replace to make one word of the other."""
    above = list(range(len(right) + 1))
    for row, a in enumerate(left, start=1):
        line = [row]
        for column, b in enumerate(right, start=1):
            replaced = above[column - 1] + (0 if a == b else 1)
            deleted = above[column] + 1
            inserted = line[column - 1] + 1
            line.append(min(replaced, deleted, inserted))
        above = line
    return above[-1]


def nearest(word, known, limit=2):
    """The known word that is nearest, the first of several; None if all are further than the limit."""
    best = None
    least = limit + 1
    for other in known:
        far = distance(word, other)
        if far < least:
            best = other
            least = far
    return best
