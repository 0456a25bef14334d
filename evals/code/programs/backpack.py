"""Packing what is worth most."""


def best_value(things, room):
    """The greatest worth of things that fit together in the room.

    A thing is a pair (weight, worth); each can be packed once.
    """
    best = [0] * (room + 1)
    for weight, worth in things:
        for space in range(room, weight - 1, -1):
            best[space] = max(best[space], best[space - weight] + worth)
    return best[room]


def greedy(things, room):
    """The things packed if the one with the most worth for its weight is always taken next.

    Things that no longer fit are passed over.
    """
    packed = []
    for weight, worth in sorted(things, key=lambda thing: thing[1] / thing[0], reverse=True):
        if weight <= room:
            packed.append((weight, worth))
            room -= weight
    return packed
