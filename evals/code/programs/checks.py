"""Check digits: they tell when a number was copied wrongly."""


def luhn_sum(digits):
    """The sum in which each second digit, from the right, is doubled.

    If a doubled digit is more than 9, its two digits are added (which is 9 less).
    """
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char)
        if place % 2 == 1:
            value *= 2
            if value > 9:
                value -= 9
        total += value
    return total


def is_card(text):
    """Whether this is a card number: at least 12 digits, perhaps with spaces, and a sum that ends in 0."""
    digits = text.replace(" ", "")
    if not digits.isdigit() or len(digits) < 12:
        return False
    return luhn_sum(digits) % 10 == 0


def isbn_digit(nine):
    """The last sign of a book number: the first nine digits times 1 to 9, modulo 11; 'X' for 10."""
    total = 0
    for place, char in enumerate(nine, start=1):
        total += place * int(char)
    rest = total % 11
    return "X" if rest == 10 else str(rest)
