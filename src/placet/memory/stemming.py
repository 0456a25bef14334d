"""English words cut to their stems, after the algorithm that M. F. Porter published in 1980.

As in his later version, a `y` after a vowel stays: `deploy` and `deployment` have the same stem. Only words
of a-z are cut; all others stay as they are.
"""

from __future__ import annotations

from functools import lru_cache

_VOWELS = frozenset("aeiou")
_SECOND = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("abli", "able"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"),
    ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"),
    ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_THIRD = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
)  # fmt: skip
_FOURTH = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize",
    "ion", "al", "er", "ic", "ou",
)  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a word in lower case.

    >>> [stem(word) for word in ("deployments", "deploying", "deployed", "relational", "happy", "sky")]
    ['deploy', 'deploy', 'deploy', 'relat', 'happi', 'ski']
    """
    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    word = _plurals(word)
    word = _past(word)
    if len(word) > 2 and word.endswith("y") and word[-2] not in _VOWELS:
        word = f"{word[:-1]}i"
    word = _replaced(word, _SECOND)
    word = _replaced(word, _THIRD)
    return _final(_suffix(word))


def _is_consonant(word: str, i: int) -> bool:
    letter = word[i]
    if letter in _VOWELS:
        return False
    return letter != "y" or i == 0 or not _is_consonant(word, i - 1)


def _has_vowel(word: str) -> bool:
    return any(not _is_consonant(word, i) for i in range(len(word)))


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    count, was_vowel = 0, False
    for i in range(len(word)):
        is_vowel = not _is_consonant(word, i)
        count += was_vowel and not is_vowel
        was_vowel = is_vowel
    return count


def _is_short(word: str) -> bool:
    """Whether it ends in consonant, vowel, consonant, the last of which is none of w, x and y."""
    return (
        len(word) >= 3
        and _is_consonant(word, len(word) - 3)
        and not _is_consonant(word, len(word) - 2)
        and _is_consonant(word, len(word) - 1)
        and word[-1] not in "wxy"
    )


def _plurals(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _has_vowel(word[: -len(ending)]):
            word = word[: -len(ending)]
            break
    else:
        return word
    if word.endswith(("at", "bl", "iz")):
        return f"{word}e"
    if len(word) > 1 and word[-1] == word[-2] and word[-1] not in "aeioulsz":
        return word[:-1]
    return f"{word}e" if _measure(word) == 1 and _is_short(word) else word


def _replaced(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, other in endings:
        if word.endswith(ending):
            base = word[: -len(ending)]
            return base + other if _measure(base) > 0 else word
    return word


def _suffix(word: str) -> str:
    for ending in _FOURTH:
        if word.endswith(ending):
            base = word[: -len(ending)]
            is_cut = _measure(base) > 1 and (ending != "ion" or base.endswith(("s", "t")))
            return base if is_cut else word
    return word


def _final(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        if _measure(base) > 1 or (_measure(base) == 1 and not _is_short(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
