"""The Python API reference, generated from the source: `python -m apidocs` writes `docs/reference/api/`.

    layout    which names stand on which page
    source    reads signatures, docstrings and fields statically, with griffe
    markdown  writes them as Markdown

The source is the one place where a meaning is written: as `Args:` of a docstring for parameters, as the
string under a field for fields.
"""
