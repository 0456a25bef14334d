"""SKILL.md is read as the public validator reads it, errors name their place, and folders keep every byte."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
import skills_ref
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import SkillInvalid
from placet.memory.skills.document import (
    MOST_FILES,
    SkillDocument,
    read_document,
    read_folder,
    write_document,
    write_folder,
)
from placet.memory.skills.skill import skill_from

GOOD = "name: pdf-tools\ndescription: Reads PDF files."
FRONTS = {
    "plain": GOOD,
    "all fields": f"{GOOD}\nlicense: MIT\ncompatibility: Python\nallowed-tools: Bash(git:*) Read\n"
    "metadata:\n  author: ann\n  version: '1.0'",
    "folded": "name: pdf-tools\ndescription: >-\n  Reads\n  PDF files.",
    "literal": "name: pdf-tools\ndescription: |\n  Reads.\n  Writes.",
    "quoted": "name: \"pdf-tools\"\ndescription: 'Reads: all of it.'",
    "two lines": "name: pdf-tools\ndescription: Reads\n  PDF files.",
    "comment": f"# a comment\n{GOOD} # and another",
    "number for a text": "name: pdf-tools\ndescription: 42",
    "list of tools": f"{GOOD}\nallowed-tools:\n  - Read\n  - Write",
    "metadata is a text": f"{GOOD}\nmetadata: none",
    "empty": "",
    "no name": "description: x",
    "no description": "name: pdf-tools",
    "empty description": "name: pdf-tools\ndescription: ''",
    "missing value": "name: pdf-tools\ndescription:",
    "unknown field": f"{GOOD}\nauthor: ann",
    "upper case": "name: PDF-tools\ndescription: x",
    "underscore": "name: pdf_tools\ndescription: x",
    "hyphens together": "name: pdf--tools\ndescription: x",
    "hyphen first": "name: -pdf-tools\ndescription: x",
    "another folder": "name: other\ndescription: x",
    "long name": f"name: {'x' * 65}\ndescription: x",
    "long description": f"name: pdf-tools\ndescription: {'x' * 1025}",
    "longest description": f"name: pdf-tools\ndescription: {'x' * 1024}",
    "long compatibility": f"{GOOD}\ncompatibility: {'x' * 501}",
    "compatibility is a list": f"{GOOD}\ncompatibility:\n  - x",
    "name is a list": "name:\n  - x\ndescription: x",
    "brackets": f"{GOOD}\nmetadata: {{a: b}}",
    "given twice": f"{GOOD}\nname: pdf-tools",
    "anchor": "name: &a pdf-tools\ndescription: *a",
    "tag": "name: !!str pdf-tools\ndescription: x",
    "a list": "- name\n- description",
    "a text": "just words",
    "tab": "name: pdf-tools\n\tdescription: x",
    "colon": "name: pdf-tools\ndescription: one: two",
    "open quote": "name: pdf-tools\ndescription: 'x",
}


def written(tmp_path: Path, text: str, name: str = "pdf-tools") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "SKILL.md").write_text(text)
    return folder


@pytest.mark.parametrize("case", FRONTS)
def test_a_folder_is_valid_here_if_the_public_validator_accepts_it(case: str, tmp_path: Path) -> None:
    folder = written(tmp_path, f"---\n{FRONTS[case]}\n---\nBody.\n")
    expected = skills_ref.validate(folder)

    if expected:
        with pytest.raises(SkillInvalid) as caught:
            read_document(read_folder(folder), str(folder))
        problems = caught.value.problems
        assert all(each.file == f"{folder}/SKILL.md" and each.line > 0 for each in problems)
        return
    found = read_document(read_folder(folder), str(folder))
    theirs = skills_ref.read_properties(folder)
    assert (found.name, found.description) == (theirs.name, theirs.description)
    assert (found.license, found.compatibility) == (theirs.license, theirs.compatibility)
    assert found.body == "Body."


@pytest.mark.parametrize("head", ["---", "--- ", "--- # x", "----", "---x"])
@pytest.mark.parametrize("tail", ["---", "--- ", "--- x", "----", "...", "- --"])
def test_fences_are_what_the_public_validator_takes_for_them(head: str, tail: str, tmp_path: Path) -> None:
    folder = written(tmp_path, f"{head}\n{GOOD}\n{tail}\nBody.\n")

    if skills_ref.validate(folder):
        with pytest.raises(SkillInvalid):
            read_document(read_folder(folder), str(folder))
    else:
        assert read_document(read_folder(folder), str(folder)).description == "Reads PDF files."


@pytest.mark.parametrize(
    ("front", "line", "field"),
    [
        ("name: x\ndescription: a: b", 3, "description"),
        ("name: x\nmetadata:\n  a: 'b", 4, "metadata"),
        ("name: &a x\ndescription: y", 2, "name"),
        ("{", 2, ""),
    ],
)
def test_a_problem_of_the_yaml_names_the_field_that_it_is_in(front: str, line: int, field: str) -> None:
    with pytest.raises(SkillInvalid) as caught:
        read_document({"SKILL.md": f"---\n{front}\n---\n".encode()}, "x")

    assert (caught.value.problems[0].line, caught.value.problems[0].field) == (line, field)


@pytest.mark.parametrize(
    "text", ["", "no front matter", "---\nname: pdf-tools\n", "# x\n---\nname: a\n---\n"]
)
def test_what_has_no_front_matter_is_no_skill(text: str, tmp_path: Path) -> None:
    folder = written(tmp_path, text)

    with pytest.raises(SkillInvalid):
        read_document(read_folder(folder), str(folder))
    assert skills_ref.validate(folder)


def test_every_problem_is_named_with_its_line_and_field(tmp_path: Path) -> None:
    folder = written(tmp_path, "---\nlicense: MIT\nname: PDF\ndescription: ''\nauthor: ann\n---\n")

    with pytest.raises(SkillInvalid) as caught:
        read_document(read_folder(folder), str(folder))

    places = {(each.line, each.field) for each in caught.value.problems}
    assert places == {(3, "name"), (4, "description"), (5, "author")}
    assert f"{folder}/SKILL.md, line 5, field 'author'" in str(caught.value)


def test_a_folder_without_the_file_is_no_skill(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")

    with pytest.raises(SkillInvalid):
        read_document(read_folder(tmp_path), str(tmp_path))
    with pytest.raises(SkillInvalid):
        read_folder(tmp_path / "missing")
    assert read_document({"skill.md": f"---\n{GOOD}\n---\n".encode()}, "x/pdf-tools").name == "pdf-tools"


def test_links_pipes_and_too_much_are_refused(tmp_path: Path) -> None:
    for name, make in {
        "link": lambda at: (at / "x").symlink_to("/etc/passwd"),
        "folder": lambda at: (at / "x").symlink_to("/etc"),
        "pipe": lambda at: os.mkfifo(at / "x"),
        "many": lambda at: [(at / f"{n}").touch() for n in range(MOST_FILES + 1)],
        "deep": lambda at: (at / "/".join("a" * 10)).mkdir(parents=True),
        "empty folders": lambda at: [(at / f"{n}").mkdir() for n in range(1_001)],
        "large": lambda at: [(at / "x").touch(), os.truncate(at / "x", 1 << 40)],
        "no text": lambda at: (at / os.fsdecode(b"\xff")).touch(),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        make(folder)  # type: ignore[no-untyped-call]
        with pytest.raises(SkillInvalid):
            read_folder(folder)


@pytest.mark.parametrize("path", ["../evil", "/evil", "a/../../evil", "a//b", "./a", "", "a\0b", "\udcff"])
def test_a_path_that_leaves_the_folder_is_neither_read_nor_written(path: str, tmp_path: Path) -> None:
    files = {"SKILL.md": f"---\n{GOOD}\n---\n".encode(), path: b"x"}

    with pytest.raises(SkillInvalid):
        skill_from(files, "pdf-tools", source="test")
    with pytest.raises(SkillInvalid):
        write_folder(files, tmp_path / "out" / "pdf-tools")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("metadata:\n" + "".join(f"{'  ' * n}a:\n" for n in range(1, 90)), 24),
        ("metadata: " + "[" * 5_000, 4),
        ("metadata:\n" + "".join(f"  k{n}: {'v' * 80}\n" for n in range(1_000)), 1_006),
        ('license: "\\0"', 4),
        ('license: "\\ud800"', 4),
        ('metadata:\n  "\\ud800": x', 5),
    ],
    ids=["nested", "brackets", "large", "null", "surrogate", "surrogate in a key"],
)
def test_front_matter_that_no_skill_needs_is_refused_with_its_line(more: str, line: int) -> None:
    with pytest.raises(SkillInvalid) as caught:
        skill_from({"SKILL.md": f"---\n{GOOD}\n{more}\n---\n".encode()}, "pdf-tools", source="test")

    assert caught.value.problems[0].line == line


SHAPES: dict[str, dict[str, bytes]] = {
    "only SKILL.md": {},
    "with scripts": {
        "scripts/run.py": b"#!/usr/bin/env python3\nprint(1)\n",
        "scripts/data.bin": b"\x00\xff\r\n",
    },
    "with references": {"references/api.md": b"# API\r\n", "assets/a/b.txt": b"", "LICENSE.txt": b"MIT"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_public_shapes_come_out_as_they_went_in(shape: str, tmp_path: Path) -> None:
    source = written(tmp_path, f"---\n{GOOD}\n---\r\nBody.  \n\n")
    for path, data in SHAPES[shape].items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(data)
    files = read_folder(source)

    skill = skill_from(files, str(source), source="test")
    (tmp_path / "out").mkdir()
    write_folder(skill.files, tmp_path / "out" / skill.name)

    assert read_folder(tmp_path / "out" / "pdf-tools") == files
    assert set(files) == {"SKILL.md", *SHAPES[shape]}
    with pytest.raises(FileExistsError):
        write_folder(skill.files, tmp_path / "out" / skill.name)


texts = st.text(min_size=1, max_size=200).filter(lambda text: text.strip() == text and "\0" not in text)
encodable = texts.filter(lambda text: text.isprintable())


@given(
    description=encodable,
    body=encodable,
    metadata=st.dictionaries(encodable, encodable, max_size=3),
    license=st.none() | encodable,
)
def test_what_is_written_reads_back(
    description: str, body: str, metadata: dict[str, str], license: str | None
) -> None:
    document = SkillDocument(name="x", description=description, body=body, metadata=metadata, license=license)

    assert read_document({"SKILL.md": write_document(document)}, "x") == document


@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: f"---\n{text}\n---\n".encode()))
def test_whatever_the_bytes_are_only_the_one_error_comes(data: bytes) -> None:
    with suppress(SkillInvalid):
        read_document({"SKILL.md": data}, "x")
