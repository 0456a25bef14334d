"""Roman numerals."""

VALUES = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
]


def to_roman(number):
    """The Roman numeral of a whole number from 1 to 3999; ValueError for any other number."""
    if number < 1 or number > 3999:
        raise ValueError("out of range")
    text = ""
    for value, letters in VALUES:
        while number >= value:
            text += letters
            number -= value
    return text


def from_roman(text):
    """The number that a Roman numeral stands for; the empty text is 0."""
    digits = {letters: value for value, letters in VALUES}
    total = 0
    last = 0
    for letter in reversed(text.upper()):
        value = digits[letter]
        if value < last:
            total -= value
        else:
            total += value
            last = value
    return total
