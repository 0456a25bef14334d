"""Noughts and crosses on a square board of text lines; a free place is '.'."""


def lines_of(board):
    """All rows, columns and the two diagonals, each as a text."""
    size = len(board)
    lines = list(board)
    for column in range(size):
        lines.append("".join(row[column] for row in board))
    lines.append("".join(board[place][place] for place in range(size)))
    lines.append("".join(board[place][size - 1 - place] for place in range(size)))
    return lines


def winner(board):
    """'x' or 'o' if one of them fills a line; 'draw' if no place is free; else None."""
    for line in lines_of(board):
        if line[0] != "." and line == line[0] * len(line):
            return line[0]
    if not any("." in row for row in board):
        return "draw"
    return None


def turn(board):
    """Whose turn it is; x begins."""
    text = "".join(board)
    return "x" if text.count("x") == text.count("o") else "o"
