"""Averages of numbers."""


def median(numbers):
    """The number in the middle of the sorted numbers; between two of them, the mean of both."""
    if not numbers:
        raise ValueError("no numbers")
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def modes(numbers):
    """The numbers that come most often, sorted."""
    counts = {}
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1
    most = max(counts.values(), default=0)
    return sorted(number for number, count in counts.items() if count == most)


def moving(numbers, width):
    """The mean of each `width` numbers that follow each other."""
    means = []
    total = 0
    for index, number in enumerate(numbers):
        total += number
        if index >= width:
            total -= numbers[index - width]
        if index >= width - 1:
            means.append(total / width)
    return means
