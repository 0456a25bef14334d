"""Query strings such as 'a=1&b=two+words'."""


def decode(text):
    """Plus signs become spaces, and %41 becomes A. A percent sign without two hex digits stays."""
    result = ""
    place = 0
    while place < len(text):
        char = text[place]
        code = text[place + 1 : place + 3]
        if char == "+":
            result += " "
        elif char == "%" and is_hex(code):
            result += chr(int(code, 16))
            place += 2
        else:
            result += char
        place += 1
    return result


def is_hex(code):
    """Whether this is exactly two hexadecimal digits."""
    return len(code) == 2 and all(char in "0123456789abcdef" for char in code.lower())


def parse(query):
    """A dictionary from each name to the list of its values, in order. A name alone has the value ''."""
    found = {}
    for part in query.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        found.setdefault(decode(name), []).append(decode(value))
    return found
