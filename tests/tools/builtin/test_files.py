"""read_file, write_file and edit_file as a model uses them."""

from __future__ import annotations

import codecs
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from placet import Runtime
from placet.errors import ToolError
from placet.sandbox.spot import Seen
from placet.sandbox.workspace import Workspace
from placet.testing import action, proposal
from placet.tools import Tool
from placet.tools.builtin.files import file_tools
from placet.tools.builtin.near_miss import near_miss
from placet.tools.builtin.text_file import MIB, MOST_BYTES, MOST_SHOWN_BYTES

CHARACTERS = "a\u00e9\u4e2d\U0001f600"


class Files:
    """The three tools on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools: dict[str, Tool] = {tool.name: tool for tool in file_tools(Workspace(folder))}

    def put(self, name: str, data: bytes | str) -> Path:
        path = self.folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def read(self, path: str, *args: Any, **options: Any) -> Any:
        return self.tools["read_file"](path, *args, **options)

    def write(self, path: str, text: str, **options: Any) -> Any:
        return self.tools["write_file"](path, text, **options)

    def edit(self, path: str, old: str, new: str, **options: Any) -> Any:
        return self.tools["edit_file"](path, old, new, **options)

    def refusal(self, tool: str, *args: Any, **options: Any) -> str:
        with pytest.raises(ToolError) as caught:
            self.tools[tool](*args, **options)
        assert not caught.value.retry
        return str(caught.value)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# What a model is told


def test_the_tools_say_what_they_do_to_the_world(files: Files) -> None:
    declared = {name: (tool.schema.risk, tuple(tool.schema.labels)) for name, tool in files.tools.items()}

    assert declared == {
        "read_file": ("read_only", ("confined",)),
        "write_file": ("destructive", ("confined",)),
        "edit_file": ("destructive", ("confined",)),
    }
    for tool in files.tools.values():
        assert tool.schema.description
        properties: Any = tool.schema.parameters["properties"]
        assert all(described.get("description") for described in properties.values()), properties
    assert files.tools["read_file"].validate is not None
    assert "minimum" in str(files.tools["read_file"].validate({"path": "x", "start_line": 0}))


async def test_a_plan_writes_edits_and_reads(files: Files) -> None:
    rt = Runtime(tools=[*files.tools.values()])
    plan = proposal(
        action("w", "write_file", parameters={"path": "a/b.txt", "text": "one\ntwo\n"}),
        action(
            "e", "edit_file", parameters={"path": "a/b.txt", "old": "two", "new": "zwei"}, dependencies=["w"]
        ),
        action("r", "read_file", parameters={"path": "a/b.txt", "lines": None}, dependencies=["e"]),
        action("x", "read_file", parameters={"path": "../x"}, dependencies=["r"]),
    )

    result = await rt.execute(plan)

    assert [r.status for r in result.results] == ["succeeded", "succeeded", "succeeded", "failed"]
    assert result.results[2].output["text"] == "one\nzwei\n"
    assert "leads outside the workspace" in (result.results[3].error or "")


# Reading


def test_a_file_is_read_with_its_line_ends(files: Files) -> None:
    files.put("file", "one\r\ntwo\n\nfour")

    assert files.read("file") == {
        "path": "file",
        "text": "one\r\ntwo\n\nfour",
        "start_line": 1,
        "end_line": 4,
        "total_lines": 4,
        "encoding": "utf-8",
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("start", "lines", "text", "end"),
    [
        (1, 1, "one\n", 1),
        (2, 2, "two\n\n", 3),
        (2, None, "two\n\nfour", 4),
        (4, 1, "four", 4),
        (4, 99, "four", 4),
        (3, 1, "\n", 3),
    ],
)
def test_some_lines_are_read(files: Files, start: int, lines: int | None, text: str, end: int) -> None:
    files.put("file", "one\ntwo\n\nfour")

    found = files.read("file", start, lines)

    assert (found["text"], found["start_line"], found["end_line"]) == (text, start, end)
    assert (found["total_lines"], found["truncated"]) == (4, False)


def test_an_empty_file_has_no_lines(files: Files) -> None:
    files.put("file", "")

    found = files.read("file")

    assert (found["text"], found["end_line"], found["total_lines"]) == ("", 0, 0)


def test_a_line_that_is_not_there_is_refused(files: Files) -> None:
    files.put("file", "one\n")
    files.put("empty", "")

    assert "has 1 lines; there is no line 2" in files.refusal("read_file", "file", 2)
    assert "has 0 lines" in files.refusal("read_file", "empty", 2)


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (CHARACTERS.encode(), CHARACTERS, "utf-8"),
        (codecs.BOM_UTF8 + CHARACTERS.encode(), CHARACTERS, "utf-8 with BOM"),
        (CHARACTERS.encode("utf-16"), CHARACTERS, "utf-16-le with BOM"),
        (codecs.BOM_UTF16_BE + CHARACTERS.encode("utf-16-be"), CHARACTERS, "utf-16-be with BOM"),
        (b"caf\xe9\r\n", "caf\u00e9\r\n", "latin-1"),
        (codecs.BOM_UTF8, "", "utf-8 with BOM"),
    ],
)
def test_the_usual_encodings_are_read(files: Files, data: bytes, text: str, encoding: str) -> None:
    files.put("file", data)

    found = files.read("file")

    assert (found["text"], found["encoding"]) == (text, encoding)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\x7fELF\xff\0",
        b"caf\xe9\0",
        b"\x93smart\x94",
        codecs.BOM_UTF16_LE + b"a",
        codecs.BOM_UTF16_LE + b"\0\xd8",
        codecs.BOM_UTF8 + b"\xff",
    ],
)
def test_what_is_no_text_is_refused_with_its_size(files: Files, data: bytes) -> None:
    files.put("file", data)

    assert f"is binary, {len(data)} bytes" in files.refusal("read_file", "file")
    assert "is binary" in files.refusal("edit_file", "file", "a", "b")


def test_a_long_text_is_cut_between_lines_and_says_how_to_go_on(files: Files) -> None:
    lines = [f"line {n} \u00e9\n" for n in range(1, 40_001)]
    files.put("file", "".join(lines))

    got: list[str] = []
    start = 1
    while True:
        found = files.read("file", start)
        assert len(found["text"].encode()) <= MOST_SHOWN_BYTES
        got.append(found["text"])
        if not found["truncated"]:
            break
        start = found["end_line"] + 1
        assert f"start_line={start}." in found["note"]

    assert len(got) > 1
    assert "".join(got) == "".join(lines)
    assert found["total_lines"] == 40_000


def test_a_line_that_is_too_long_is_cut_between_characters(files: Files) -> None:
    files.put("file", "x" + "\u4e2d" * 100_000 + "\nnext\n")

    found = files.read("file")

    assert found["text"] == "x" + "\u4e2d" * ((MOST_SHOWN_BYTES - 1) // 3)
    assert found["end_line"] == 1
    column = len(found["text"]) + 1
    assert found["note"].endswith(
        f"Go on with start_line=1, start_column={column}; the next line is start_line=2."
    )
    assert files.read("file", 2)["text"] == "next\n"


PARTS = {"small": 100_000, "large": MOST_BYTES // 3 + 100_000}
"""Characters of one line, in files that are read as a whole and as they pass by."""


@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8], ids=["plain", "with BOM"])
@pytest.mark.parametrize("size", PARTS)
def test_a_very_long_line_is_read_to_its_end(files: Files, size: str, bom: bytes) -> None:
    # Characters of several sizes, so that pieces end within one.
    long = ("\u4e2d\u00e9a\u4e2d\U0001f600\u4e2d" * (PARTS[size] // 5))[: PARTS[size]]
    text = f"first\n{long}\nlast\n"
    files.put("file", bom + text.encode())

    # All of a small file. Of a large one, which is read from its beginning each time, both ends.
    for begin, most in [(1, 9)] if size == "small" else [(1, 3), (len(long) - MOST_SHOWN_BYTES, 9)]:
        got: list[str] = []
        line, column = 2, begin
        while len(got) < most:
            found = files.read("file", line, start_column=column)
            assert len(found["text"].encode()) <= MOST_SHOWN_BYTES
            assert (found["start_line"], found["total_lines"]) == (2, 3)
            got.append(found["text"])
            if not found["truncated"]:
                break
            told = re.search(r"Go on with start_line=(\d+), start_column=(\d+);", found["note"])
            assert told is not None, found["note"]
            line, column = int(told[1]), int(told[2])

        whole = f"{long}\nlast\n"[begin - 1 :]
        assert len(got) > 1
        assert "".join(got) == (whole if most == 9 else whole[: sum(map(len, got))])
    assert not found["truncated"]
    assert found["end_line"] == 3


def test_a_column_is_found_where_a_piece_of_the_file_ends_within_a_character(files: Files) -> None:
    files.put("file", "\u4e2d" * (MOST_BYTES // 3 + 10))
    near = MIB // 3 - 10

    assert files.read("file", start_column=near)["text"] == "\u4e2d" * (MOST_SHOWN_BYTES // 3)


@pytest.mark.parametrize("before", ["", "x" * MOST_BYTES + "\n"], ids=["small", "large"])
def test_a_line_is_read_from_a_column_on(files: Files, before: str) -> None:
    files.put("file", before + "\u00e9ins\r\nzwei\ndrei")
    first = 1 + bool(before)

    def read(line: int, column: int, lines: int | None = None) -> str:
        text: str = files.read("file", first + line, lines, start_column=column)["text"]
        return text

    assert read(0, 1) == "\u00e9ins\r\nzwei\ndrei"
    assert read(0, 2, 1) == "ins\r\n"
    assert read(0, 4, 2) == "s\r\nzwei\n"
    assert read(0, 6, 1) == "\n"
    assert read(1, 5) == "\ndrei"
    assert read(2, 4) == "i"
    for line, column, has in ((0, 7, 5), (1, 6, 4), (2, 5, 4), (2, 99, 4)):
        said = files.refusal("read_file", "file", first + line, start_column=column)
        assert f"Line {first + line:,} of 'file' has {has} characters; there is no column {column}." in said


def test_an_empty_file_has_no_columns(files: Files) -> None:
    files.put("file", "")

    assert files.read("file", start_column=1)["text"] == ""
    assert "has 0 characters" in files.refusal("read_file", "file", start_column=2)


@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8], ids=["plain", "with BOM"])
def test_lines_of_a_very_large_file_are_read(files: Files, bom: bytes) -> None:
    line = "\u00e9" * 49 + "\n"
    count = 2 * MOST_BYTES // len(line.encode()) // 2 * 2
    numbered = [f"{n:09} {line}" for n in range(1, count + 1)]
    files.put("file", bom + "".join(numbered).encode() + b"end")

    middle = files.read("file", count // 2, 3)
    first = files.read("file", 1, 1)
    last = files.read("file", count + 1)
    whole = files.read("file", 5)

    assert middle["text"] == "".join(numbered[count // 2 - 1 : count // 2 + 2])
    assert (middle["end_line"], middle["total_lines"], middle["truncated"]) == (
        count // 2 + 2,
        count + 1,
        False,
    )
    assert first["text"] == numbered[0]
    assert first["encoding"] == ("utf-8 with BOM" if bom else "utf-8")
    assert last["text"] == "end"
    assert whole["truncated"]
    assert f"start_line={whole['end_line'] + 1}." in whole["note"]
    assert whole["text"] == "".join(numbered[4 : whole["end_line"]])
    assert "there is no line" in files.refusal("read_file", "file", count + 2)
    assert "at most 10,485,760" in files.refusal("edit_file", "file", "end", "x")


def test_a_very_large_file_that_is_no_utf_8_is_refused(files: Files) -> None:
    files.put("file", b"\xff\xfe" * (MOST_BYTES // 2 + 1))

    assert "is not UTF-8" in files.refusal("read_file", "file")


# Writing


def test_a_file_is_made_and_replaced(files: Files) -> None:
    made = files.write("new/folder/file.txt", "caf\u00e9\r\n")
    replaced = files.write("./new//folder/file.txt", "tea")

    assert made == {"path": "new/folder/file.txt", "bytes": 7, "created": True}
    assert replaced == {"path": "new/folder/file.txt", "bytes": 3, "created": False}
    assert (files.folder / "new/folder/file.txt").read_bytes() == b"tea"
    assert os.listdir(files.folder / "new/folder") == ["file.txt"]


def test_folders_are_made_only_if_wanted(files: Files) -> None:
    assert "does not exist" in files.refusal("write_file", "new/file", "x", create_folders=False)
    assert os.listdir(files.folder) == []


def test_what_cannot_be_written_is_refused_before_anything_happens(files: Files) -> None:
    assert "half of a surrogate pair" in files.refusal("write_file", "new/file", "a\ud800")
    assert "more than 10,485,760 bytes" in files.refusal(
        "write_file", "new/file", "\u00e9" * (MOST_BYTES // 2 + 1)
    )
    assert os.listdir(files.folder) == []


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (b"one\n", "two", b"one\ntwo\n"),
        (b"one", "two\n", b"one\ntwo\n"),
        (b"", "two", b"two\n"),
        (b"one\r\n", "two\nthree", b"one\r\ntwo\r\nthree\r\n"),
        ("caf\xe9\n".encode("latin-1"), "th\xe9", "caf\xe9\nth\xe9\n".encode("latin-1")),
    ],
)
def test_text_is_appended_on_a_new_line(files: Files, before: bytes, text: str, after: bytes) -> None:
    path = files.put("file", before)

    answer = files.write("file", text, append=True)

    assert path.read_bytes() == after
    assert (answer["created"], answer["bytes"]) == (False, len(after))


def test_appending_to_what_is_not_there_makes_it(files: Files) -> None:
    answer = files.write("new/file", "one", append=True)

    assert (files.folder / "new/file").read_text() == "one"
    assert answer["created"] is True


def test_a_file_without_a_write_bit_is_neither_replaced_nor_edited(files: Files) -> None:
    path = files.put("file", "old")
    path.chmod(0o444)

    assert "chmod" in files.refusal("write_file", "file", "new")
    assert "chmod" in files.refusal("edit_file", "file", "old", "new")
    assert path.read_text() == "old"


# Editing


def test_the_one_match_is_replaced_and_shown(files: Files) -> None:
    path = files.put("file", "one\ntwo\nthree\nfour\nfive\nsix\n")
    path.chmod(0o755)

    done = files.edit("file", "three\nfo", "3\n3.5\nfo")

    assert path.read_text() == "one\ntwo\n3\n3.5\nfour\nfive\nsix\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert done == {
        "path": "file",
        "replaced": 1,
        "line": 3,
        "excerpt": " one\n two\n-three\n-four\n+3\n+3.5\n+four\n five\n six",
    }


def test_text_is_taken_out_and_put_in_at_the_edges(files: Files) -> None:
    files.put("file", "one\ntwo")

    assert files.edit("file", "one\n", "")["excerpt"] == "-one\n two"
    assert files.edit("file", "two", "two\nthree\n")["excerpt"] == "-two\n+two\n+three"
    assert files.edit("file", "two\nthree\n", "")["excerpt"] == "-two\n-three"
    assert (files.folder / "file").read_bytes() == b""


def test_all_matches_are_replaced_if_wanted(files: Files) -> None:
    files.put("file", "a b a\na\n")

    done = files.edit("file", "a", "aa", replace_all=True)

    assert (done["replaced"], done["line"]) == (3, 1)
    assert (files.folder / "file").read_text() == "aa b aa\naa\n"


def test_several_matches_are_refused_with_their_lines(files: Files) -> None:
    files.put("file", "x\nlook\ny\nlook look\n")
    files.put("over", "aaa")
    files.put("many", "x\n" * 100)

    assert "on lines 2, 4, 4. " in files.refusal("edit_file", "file", "look", "see")
    assert "more than once" in files.refusal("edit_file", "over", "aa", "b"), "they may overlap"
    assert "9, 10 and more. " in files.refusal("edit_file", "many", "x", "y")
    assert (files.folder / "over").read_text() == "aaa"


def test_an_edit_of_nothing_is_refused(files: Files) -> None:
    files.put("file", "x\r\n")

    assert "no old text" in files.refusal("edit_file", "file", "", "x")
    assert "are the same" in files.refusal("edit_file", "file", "x", "x")
    assert "are the same" in files.refusal("edit_file", "file", "x\n", "x\r\n")
    assert "no such file" in files.refusal("edit_file", "none", "x", "y")


@pytest.mark.parametrize("old", ["two\nthree", "two\r\nthree"])
def test_a_file_keeps_its_carriage_returns(files: Files, old: str) -> None:
    path = files.put("file", "one\r\ntwo\r\nthree\r\n")

    files.edit("file", old, "2\n2.5\r\n3")

    assert path.read_bytes() == b"one\r\n2\r\n2.5\r\n3\r\n"
    files.edit("file", "one", "one\nmore")
    assert path.read_bytes() == b"one\r\nmore\r\n2\r\n2.5\r\n3\r\n"


def test_a_file_with_mixed_line_ends_keeps_each(files: Files) -> None:
    path = files.put("file", "one\ntwo\r\nthree\r\nfour\n")

    files.edit("file", "two\nthree", "2\n3")
    files.edit("file", "one\n", "1\n")

    assert path.read_bytes() == b"1\n2\r\n3\r\nfour\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (codecs.BOM_UTF8 + b"a\xc3\xa9", codecs.BOM_UTF8 + "\u4e2d\u00e9".encode()),
        ("a\u00e9".encode("utf-16"), "\u4e2d\u00e9".encode("utf-16")),
        (
            codecs.BOM_UTF16_BE + "a\u00e9".encode("utf-16-be"),
            codecs.BOM_UTF16_BE + "\u4e2d\u00e9".encode("utf-16-be"),
        ),
    ],
)
def test_a_file_keeps_its_encoding(files: Files, before: bytes, after: bytes) -> None:
    path = files.put("file", before)

    files.edit("file", "a", "\u4e2d")

    assert path.read_bytes() == after


def test_an_edit_that_the_encoding_cannot_hold_is_refused(files: Files) -> None:
    path = files.put("file", b"caf\xe9 au lait")
    short = files.put("short", b"\xe9x")

    assert "is Latin-1, which has no '\\u4e2d'" in files.refusal("edit_file", "file", "lait", "\u4e2d")
    assert "another encoding" in files.refusal("edit_file", "short", "\u00e9x", "\u00c3\u00a9")
    assert "half of a surrogate" in files.refusal("edit_file", files.put("u", "x").name, "x", "\udfff")
    assert "another encoding" in files.refusal("edit_file", "u", "x", "\ufeffx"), "it would become a mark"
    assert (path.read_bytes(), short.read_bytes()) == (b"caf\xe9 au lait", b"\xe9x")
    files.edit("file", "lait", "th\u00e9")
    assert path.read_bytes() == b"caf\xe9 au th\xe9"


def test_an_edit_does_not_grow_a_file_beyond_measure(files: Files) -> None:
    path = files.put("file", "x" * 100_000)

    assert "more than" in files.refusal("edit_file", "file", "x", "y" * 100_000, replace_all=True)
    assert path.read_text() == "x" * 100_000


# Near misses


@pytest.mark.parametrize(
    ("text", "old", "says", "line"),
    [
        (
            "def f():\n\treturn 1\n",
            "def f():\n    return 1",
            "indentation (line 2 has 1 tab, not 4 blanks)",
            "2: \treturn 1",
        ),
        ("if x:\n        go()\n", "    go()\n  stop", None, None),
        ("a = 1  \nb = 2\n", "a = 1\nb = 2", "blanks at the end of a line (line 1)", "1: a = 1  "),
        ("say('hi')\n", 'say("hi")', "quotation marks (line 1)", "1: say('hi')"),
        ("say(\u201chi\u201d)\n", 'say("hi")', "quotation marks (line 1)", "1: say"),
        ("x  =  1\n", "x = 1", "blanks within a line (line 1)", "1: x  =  1"),
        ("Hello World\n", "hello world", "upper and lower case (line 1)", "1: Hello World"),
        ("a\nb\n", "a\r\nb", r"line ends (line 1 ends with \n, not \r\n)", "1: a"),
        ("a\r\nb\nc\n", "a\nb\nd", None, None),
    ],
)
def test_what_is_nearly_there_is_shown_with_what_differs(
    files: Files, text: str, old: str, says: str | None, line: str | None
) -> None:
    files.put("file", text)

    found = files.refusal("edit_file", "file", old, "anything else")

    assert found.startswith("The old text is not in 'file'. ")
    if says is not None and line is not None:
        assert f"differ in {says}" in found or f"differs in {says}" in found
        assert f"\n{line}" in found


def test_the_closest_lines_are_shown_when_words_differ(files: Files) -> None:
    body = "".join(f"def function_{n}(first, second):\n    return first * {n}\n\n" for n in range(200))
    files.put("file", body)

    found = files.refusal("edit_file", "file", "def function_150(one, two):\n    return one * 150", "x")

    assert "Lines 451 to 452 come closest; the first difference is on line 451:" in found
    assert "451: def function_150(first, second):\n452:     return first * 150" in found


def test_nothing_alike_and_nothing_but_blanks_are_said(files: Files) -> None:
    files.put("file", "one\ntwo\n")

    assert "Nothing in the file is like it" in files.refusal("edit_file", "file", "quite another thing", "x")
    assert "nothing but blanks" in files.refusal("edit_file", "file", "   ", "x")


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("\n" * MOST_BYTES, "foo bar\nbaz"),
        ("}\n" * (MOST_BYTES // 2), "}\n" * 5000 + "x"),
        ("def foo(bar):\n" * (MOST_BYTES // 14), "def foo(baz):\n" * 300),
        ("a" * MOST_BYTES, "b" * 1000),
        ("abc def " * (MOST_BYTES // 8), "abc  dex"),
    ],
    ids=["empty lines", "braces", "one line often", "one letter", "one long line"],
)
def test_help_for_a_large_file_ends(text: str, old: str) -> None:
    """Compared letter by letter this would take hours: the test's own time limit is the assertion."""
    assert near_miss(text, old)


class Meddled(Workspace):
    """A workspace whose files somebody else writes right after they were read."""

    def read(self, path: str, limit: int) -> tuple[bytes, Seen]:
        found = super().read(path, limit)
        (self.folder / path).write_text("somebody else's")
        return found


def test_a_file_that_changes_while_it_is_edited_is_left(files: Files) -> None:
    path = files.put("file", "one")
    edit = next(tool for tool in file_tools(Meddled(files.folder)) if tool.name == "edit_file")

    with pytest.raises(ToolError, match="changed meanwhile") as caught:
        edit("file", "one", "two")

    assert caught.value.retry
    assert path.read_text() == "somebody else's"
