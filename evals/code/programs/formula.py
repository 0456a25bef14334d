"""Formulas in reverse Polish notation: the sign comes after its two numbers."""


def apply(sign, left, right):
    """The result of one sign; ValueError if the sign is unknown."""
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if sign == "/":
        return left / right
    raise ValueError(sign)


def evaluate(text):
    """The value of a formula such as '3 4 + 2 *', which is 14.

    ValueError if something is missing or left over.
    """
    stack = []
    for word in text.split():
        if word.lstrip("-").isdigit():
            stack.append(int(word))
            continue
        if len(stack) < 2:
            raise ValueError("a number is missing")
        right = stack.pop()
        left = stack.pop()
        stack.append(apply(word, left, right))
    if len(stack) != 1:
        raise ValueError("not one result")
    return stack[0]
