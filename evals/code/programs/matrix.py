"""Matrices as lists of rows."""


def transpose(rows):
    """The matrix with rows and columns exchanged."""
    if not rows:
        return []
    return [[row[column] for row in rows] for column in range(len(rows[0]))]


def multiply(left, right):
    """The product of two matrices; ValueError if their sizes do not fit."""
    if len(left[0]) != len(right):
        raise ValueError("sizes do not fit")
    product = []
    for row in left:
        line = []
        for column in transpose(right):
            total = 0
            for a, b in zip(row, column, strict=True):
                total += a * b
            line.append(total)
        product.append(line)
    return product


def power(square, exponent):
    """A square matrix multiplied by itself; with exponent 0 the identity matrix."""
    size = len(square)
    result = [[1 if row == column else 0 for column in range(size)] for row in range(size)]
    for _ in range(exponent):
        result = multiply(result, square)
    return result
