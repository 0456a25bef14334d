"""The figures of the page that compares one program in two frameworks."""

from __future__ import annotations

from tests.docs.pages import DOCS, blocks_of, rows_of, section

PAGE = DOCS / "explanation" / "beside-pydantic-ai.md"


def test_the_lines_are_counted_right() -> None:
    counted = {
        block.title: sum(1 for line in block.text.splitlines() if line.strip())
        for block in blocks_of(PAGE.read_text("utf-8"))
        if block.title is not None
    }

    rows = {row[0]: row[1:3] for row in rows_of(section(PAGE, "What is longer where"))}

    assert rows["program"] == [str(counted["desk_placet.py"]), str(counted["desk_pydantic_ai.py"])]
    assert rows["test"] == [str(counted["test_desk_placet.py"]), str(counted["test_desk_pydantic_ai.py"])]
