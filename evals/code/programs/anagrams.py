"""Words made of the same letters."""


def letters_of(word):
    """The letters of a word, in lower case and sorted, as one text. Everything else is left out."""
    return "".join(sorted(char for char in word.lower() if char.isalpha()))


def groups(words):
    """Lists of words that are made of the same letters, if there are at least two of them.

    The words keep their order; the longest list comes first.
    """
    by_letters = {}
    for word in words:
        by_letters.setdefault(letters_of(word), []).append(word)
    found = [group for group in by_letters.values() if len(group) > 1]
    return sorted(found, key=len, reverse=True)


def can_spell(word, letters):
    """Whether the letters are enough to write the word, each used once."""
    left = list(letters)
    for char in word:
        if char not in left:
            return False
        left.remove(char)
    return True
