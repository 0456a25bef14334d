"""Page numbers as a person writes them: '1-3,7'."""


def expand(text):
    """The page numbers that a text stands for, sorted and each once."""
    pages = set()
    for part in text.split(","):
        part = part.strip()
        if not part:
            continue
        first, dash, last = part.partition("-")
        if dash:
            pages.update(range(int(first), int(last) + 1))
        else:
            pages.add(int(first))
    return sorted(pages)


def collapse(pages):
    """The shortest text for these page numbers. Two or more in a row are written with a dash."""
    parts = []
    row = []
    for page in sorted(set(pages)):
        if row and page != row[-1] + 1:
            parts.append(span(row))
            row = []
        row.append(page)
    if row:
        parts.append(span(row))
    return ",".join(parts)


def span(row):
    """The text of some page numbers that follow each other."""
    if len(row) == 1:
        return str(row[0])
    return f"{row[0]}-{row[-1]}"
