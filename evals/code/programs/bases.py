"""Numbers in other bases."""

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_base(number, base):
    """The digits of a whole number in a base from 2 to 36, with a minus sign if it is negative."""
    if number == 0:
        return "0"
    if number < 0:
        return "-" + to_base(-number, base)
    text = ""
    while number > 0:
        text = DIGITS[number % base] + text
        number //= base
    return text


def from_base(text, base):
    """The number that digits in a base stand for; ValueError if one is no digit of the base."""
    if text.startswith("-"):
        return -from_base(text[1:], base)
    number = 0
    for char in text.lower():
        digit = DIGITS.index(char)
        if digit >= base:
            raise ValueError(char)
        number = number * base + digit
    return number


def digit_sum(number, base=10):
    """The sum of the digits of a number that is not negative."""
    if number < base:
        return number
    return number % base + digit_sum(number // base, base)
