"""Filling in texts."""


def fill(text, values):
    """The text with each {name} replaced by its value; KeyError if a name has none.

    A doubled brace stands for a single one.
    """
    result = ""
    place = 0
    while place < len(text):
        pair = text[place : place + 2]
        if pair == "{{" or pair == "}}":
            result += pair[0]
            place += 2
        elif text[place] == "{":
            end = text.index("}", place)
            result += str(values[text[place + 1 : end].strip()])
            place = end + 1
        else:
            result += text[place]
            place += 1
    return result


def join_words(words, last="and"):
    """Like 'a, b and c'."""
    if not words:
        return ""
    if len(words) == 1:
        return words[0]
    return ", ".join(words[:-1]) + " " + last + " " + words[-1]


def counted(count, noun):
    """Like '1 cup' or '3 cups'; nouns that end in s, x or z get 'es'."""
    if count == 1:
        return f"{count} {noun}"
    ending = "es" if noun[-1] in "sxz" else "s"
    return f"{count} {noun}{ending}"
