"""Breaking text into lines."""


def wrap(text, width):
    """Lines of at most `width` characters, broken between words.

    A word that is longer than the width stands alone on a line of its own.
    """
    lines = []
    line = ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def centred(lines, width):
    """Each line with spaces on the left, so that it stands in the middle.

    If the spaces cannot be shared evenly, the left side gets fewer.
    """
    result = []
    for line in lines:
        space = max(0, width - len(line)) // 2
        result.append(" " * space + line)
    return result
