"""`python -m apidocs [--check]`: write the pages, or list pages that are out of date and missing meanings."""

from __future__ import annotations

import sys

from apidocs.layout import LAYOUT
from apidocs.markdown import FOLDER, pages
from apidocs.source import read


def main(arguments: list[str]) -> int:
    """The exit code: 0 done, 1 something is out of date or has no meaning, 2 wrong arguments."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m apidocs [--check]", file=sys.stderr)
        return 2
    reference = read(LAYOUT)
    for gap in reference.gaps:
        print(gap, file=sys.stderr)
    made = pages(reference)
    old = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    stale = [path for path in FOLDER.glob("*.md") if path not in made]
    if arguments:
        for path in (*old, *stale):
            print(f"out of date: {path.name}", file=sys.stderr)
        return 1 if old or stale or reference.gaps else 0
    FOLDER.mkdir(exist_ok=True)
    for path in old:
        path.write_text(made[path], "utf-8")
    for path in stale:
        path.unlink()
    print(f"{len(made)} pages, {len(old)} written, {len(stale)} removed")
    return 1 if reference.gaps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
