"""Counting words."""


def words_of(text):
    """The words of a text in lower case. Signs at either end of a word are cut off."""
    found = []
    for part in text.lower().split():
        word = part.strip(".,;:!?\"'()")
        if word:
            found.append(word)
    return found


def most_common(text, count):
    """The most frequent words with their numbers, the most frequent first; equals are sorted by word."""
    numbers = {}
    for word in words_of(text):
        numbers[word] = numbers.get(word, 0) + 1
    pairs = sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0]))
    return pairs[:count]


def longest(text):
    """The longest word, the first of several; '' if there is no word."""
    best = ""
    for word in words_of(text):
        if len(word) > len(best):
            best = word
    return best
