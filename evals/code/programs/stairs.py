"""Numbers that follow from those before them."""


def climbs(steps, known=None):
    """In how many ways a stair can be climbed if one may take one, two or three steps at a time."""
    known = {} if known is None else known
    if steps < 0:
        return 0
    if steps == 0:
        return 1
    if steps not in known:
        known[steps] = climbs(steps - 1, known) + climbs(steps - 2, known) + climbs(steps - 3, known)
    return known[steps]


def collatz(number):
    """The numbers from this one down to 1: an even one is halved, an odd one is tripled, plus 1."""
    chain = [number]
    while number != 1:
        if number % 2 == 0:
            number = number // 2
        else:
            number = 3 * number + 1
        chain.append(number)
    return chain


def longest_rise(numbers):
    """The length of the longest run of neighbours in which each number is larger than the one before."""
    best = 0
    length = 0
    last = None
    for number in numbers:
        if last is not None and number > last:
            length += 1
        else:
            length = 1
        best = max(best, length)
        last = number
    return best
