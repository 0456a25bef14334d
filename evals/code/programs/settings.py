"""Settings in text files: 'name = value' below '[section]'."""


def value_of(text):
    """yes and no become True and False, whole numbers become numbers, all else stays text."""
    lowered = text.lower()
    if lowered in ("yes", "no"):
        return lowered == "yes"
    if text.lstrip("-").isdigit():
        return int(text)
    return text


def parse(text):
    """A dictionary of sections, each a dictionary of its settings.

    What comes before the first section is in the section ''. Empty lines and lines that begin with
    '#' are skipped. ValueError, with the number of the line, for a line that is none of these.
    """
    sections = {"": {}}
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
            sections.setdefault(section, {})
            continue
        name, sign, value = line.partition("=")
        if not sign:
            raise ValueError(number)
        sections[section][name.strip()] = value_of(value.strip())
    return sections
