"""Lengths of time such as '1h30m'."""

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def to_seconds(text):
    """The seconds of a text such as '2h5m' or '90s'; ValueError if it is no length of time."""
    total = 0
    digits = ""
    for char in text:
        if char.isdigit():
            digits += char
        elif char in SECONDS and digits:
            total += int(digits) * SECONDS[char]
            digits = ""
        else:
            raise ValueError(text)
    if digits or not text:
        raise ValueError(text)
    return total


def to_text(seconds):
    """The shortest text of a number of seconds, largest unit first; '0s' for none."""
    if seconds == 0:
        return "0s"
    text = ""
    for unit, size in SECONDS.items():
        count = seconds // size
        seconds = seconds % size
        if count > 0:
            text += str(count) + unit
    return text
