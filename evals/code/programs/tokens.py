"""Splitting a formula into tokens."""

SIGNS = "+-*/()"


def tokenize(text):
    """Pairs of a kind ('number', 'name' or 'sign') and the text of each token.

    A number may have one decimal point. Spaces are skipped. ValueError for any other character.
    """
    tokens = []
    place = 0
    while place < len(text):
        char = text[place]
        if char.isspace():
            place += 1
        elif char in SIGNS:
            tokens.append(("sign", char))
            place += 1
        elif char.isdigit():
            end = number_end(text, place)
            tokens.append(("number", text[place:end]))
            place = end
        elif char.isalpha():
            end = place + 1
            while end < len(text) and text[end].isalnum():
                end += 1
            tokens.append(("name", text[place:end]))
            place = end
        else:
            raise ValueError(char)
    return tokens


def number_end(text, start):
    """Where the number that begins at `start` ends."""
    end = start
    seen_point = False
    while end < len(text):
        if text[end] == "." and not seen_point:
            seen_point = True
        elif not text[end].isdigit():
            break
        end += 1
    return end
