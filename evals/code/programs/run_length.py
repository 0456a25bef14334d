"""Run-length coding of texts."""


def encode(text):
    """Pairs of a character and how many times it stands in a row, in the order of the text."""
    runs = []
    for char in text:
        if runs and runs[-1][0] == char:
            runs[-1] = (char, runs[-1][1] + 1)
        else:
            runs.append((char, 1))
    return runs


def decode(runs):
    """The text that such pairs stand for."""
    parts = []
    for char, count in runs:
        parts.append(char * count)
    return "".join(parts)


def shorten(text):
    """Like 'a3bc2': a count follows a character only if it is more than 1."""
    short = ""
    for char, count in encode(text):
        short += char
        if count > 1:
            short += str(count)
    return short
