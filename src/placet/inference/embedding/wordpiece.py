"""Texts cut into the pieces that BERT models know ("uncased": without case and accents).

Keep true:
1. Whatever the text, the ids are those that the model was trained with; the one difference is meant: a text
   that spells a sign of the model's own, such as `[SEP]`, has it read as letters.
2. The work is bounded by the limit, not by the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from unicodedata import category, normalize

MOST_TOKENS = 256
"""Of a text, with the signs at both ends; the rest is not read."""
_MOST_CHARACTERS = 200 * MOST_TOKENS
"""Of a text that are looked at: far more than that many tokens have in any language."""
_LONGEST_WORD = 100
"""Characters; a longer one is unknown."""
_UNKNOWN, _BEGIN, _END = "[UNK]", "[CLS]", "[SEP]"
_UNSEEN = ("Cc", "Cf", "Co", "Cs")
"""Controls, marks of format, private signs, halves of characters. What is not assigned yet stays."""
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """A vocabulary, applied."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """`vocabulary` lists the pieces; the place of each is its id.

        Raises:
            ValueError: it has no sign for the unknown, the beginning or the end.
        """
        self._ids: Mapping[str, int] = {piece: number for number, piece in enumerate(vocabulary)}
        missing = [sign for sign in (_UNKNOWN, _BEGIN, _END) if sign not in self._ids]
        if missing:
            raise ValueError(f"the vocabulary lacks {' and '.join(missing)}")

    def ids(self, text: str, most: int = MOST_TOKENS) -> list[int]:
        """The ids of a text's pieces, at most `most`, between the signs for the beginning and the end.

        >>> WordPiece(["[UNK]", "[CLS]", "[SEP]", "play", "##ed", "!"]).ids("Pláyed!")
        [1, 3, 4, 5, 2]
        """
        found = [self._ids[_BEGIN]]
        for word in _words(_plain(text[:_MOST_CHARACTERS])):
            if len(found) >= most - 1:
                break
            found += self._pieces(word)
        return [*found[: most - 1], self._ids[_END]]

    def _pieces(self, word: str) -> list[int]:
        """The longest piece that the word begins with, then the same for the rest."""
        if len(word) > _LONGEST_WORD:
            return [self._ids[_UNKNOWN]]
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._ids.get(f"##{word[start:end]}" if start else word[:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._ids[_UNKNOWN]]
        return found


def _plain(text: str) -> str:
    """Without case, accents and what nobody sees; ideographs stand alone."""
    spaced = "".join(map(_cleaned, text))
    bare = (each for each in normalize("NFD", spaced) if category(each) != "Mn")
    # One by one: the whole text in lower case would treat some letters after their place in the word.
    return "".join(each.lower() for each in bare)


def _cleaned(character: str) -> str:
    kind = category(character)
    if character in "\t\n\r" or (character.isspace() and kind != "Cc"):
        return " "
    if character == "\ufffd" or kind in _UNSEEN:
        return ""
    code = ord(character)
    if code >= _IDEOGRAPHS[1][0] and any(low <= code <= high for low, high in _IDEOGRAPHS):
        return f" {character} "
    return character


def _words(text: str) -> Iterator[str]:
    """Words and punctuation marks, one at a time."""
    for chunk in text.split():
        begin = 0
        for place, character in enumerate(chunk):
            if _is_punctuation(character):
                if begin < place:
                    yield chunk[begin:place]
                yield character
                begin = place + 1
        if begin < len(chunk):
            yield chunk[begin:]


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return not character.isalnum() and character.isprintable() and character != " "
    return category(character)[0] == "P"
