"""Secret writing by shifting letters."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def shift(char, places):
    """A letter moved along the alphabet, from z on to a; the case stays. Other characters stay."""
    place = LETTERS.find(char.lower())
    if place == -1:
        return char
    moved = LETTERS[(place + places) % len(LETTERS)]
    return moved.upper() if char.isupper() else moved


def encrypt(text, key):
    """Each letter is shifted by the letter of the key at its turn: a by 0, b by 1 and so on.

    The key is repeated as needed. It moves on only at letters.
    """
    secret = ""
    turn = 0
    for char in text:
        places = LETTERS.index(key[turn % len(key)])
        secret += shift(char, places)
        if char.isalpha():
            turn += 1
    return secret


def decrypt(secret, key):
    """The text that was encrypted with the key."""
    back = ""
    for letter in key:
        back += LETTERS[-LETTERS.index(letter)]
    return encrypt(secret, back)
