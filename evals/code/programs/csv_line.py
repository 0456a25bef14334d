"""Lines of values between commas."""


def split_line(line):
    """The values of a line. A value in double quotes may hold commas, and a quote written twice."""
    values = []
    value = ""
    quoted = False
    place = 0
    while place < len(line):
        char = line[place]
        if quoted and char == '"' and line[place + 1 : place + 2] == '"':
            value += '"'
            place += 1
        elif char == '"':
            quoted = not quoted
        elif char == "," and not quoted:
            values.append(value)
            value = ""
        else:
            value += char
        place += 1
    values.append(value)
    return values


def join_line(values):
    """The line that holds these values, with quotes only where they are needed."""
    parts = []
    for value in values:
        if "," in value or '"' in value:
            value = '"' + value.replace('"', '""') + '"'
        parts.append(value)
    return ",".join(parts)
