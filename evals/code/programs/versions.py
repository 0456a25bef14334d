"""Version numbers such as '1.10.2' or '2.0-beta'."""


def parse(version):
    """The numbers of a version, and its tag ('' if it has none). Zeros at the end are dropped."""
    text, _, tag = version.partition("-")
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers, tag


def compare(left, right):
    """-1 if left is older, 1 if it is newer, 0 if both are the same.

    A version with a tag is older than the same version without one; tags compare as texts.
    """
    left_numbers, left_tag = parse(left)
    right_numbers, right_tag = parse(right)
    if left_numbers != right_numbers:
        return -1 if left_numbers < right_numbers else 1
    if left_tag == right_tag:
        return 0
    if not left_tag:
        return 1
    if not right_tag:
        return -1
    return -1 if left_tag < right_tag else 1


def newest(versions):
    """The newest of some versions, the first of equals; None if there are none."""
    best = None
    for version in versions:
        if best is None or compare(version, best) > 0:
            best = version
    return best
