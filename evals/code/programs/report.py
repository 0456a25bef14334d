"""Tables of plain text."""


def widths(rows):
    """How wide each column must be; rows may have different lengths."""
    found = []
    for row in rows:
        for column, cell in enumerate(row):
            if column == len(found):
                found.append(0)
            found[column] = max(found[column], len(cell))
    return found


def is_number(cell):
    """Whether a cell holds a number, perhaps with a minus sign or one decimal point."""
    return cell.removeprefix("-").replace(".", "", 1).isdigit()


def table(rows):
    """The lines of a table with two spaces between columns.

    Numbers stand on the right of their column, everything else on the left. Lines do not end in spaces.
    """
    lines = []
    sizes = widths(rows)
    for row in rows:
        cells = []
        for column, cell in enumerate(row):
            size = sizes[column]
            cells.append(cell.rjust(size) if is_number(cell) else cell.ljust(size))
        lines.append("  ".join(cells).rstrip())
    return lines
