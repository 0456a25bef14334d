"""All ways to choose."""


def subsets(items, size):
    """All lists of `size` of the items, in the order in which the items stand."""
    if size == 0:
        return [[]]
    if len(items) < size:
        return []
    first, rest = items[0], items[1:]
    with_first = [[first, *chosen] for chosen in subsets(rest, size - 1)]
    return with_first + subsets(rest, size)


def orders(items):
    """All orders in which the items can stand."""
    if not items:
        return [[]]
    found = []
    for index, item in enumerate(items):
        rest = items[:index] + items[index + 1 :]
        for order in orders(rest):
            found.append([item, *order])
    return found


def adding_up(numbers, total):
    """Whether some of the numbers, each used at most once, add up to the total."""
    if total == 0:
        return True
    if not numbers:
        return False
    return adding_up(numbers[1:], total) or adding_up(numbers[1:], total - numbers[0])
