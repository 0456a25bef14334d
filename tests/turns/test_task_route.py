"""Tasks are classed by their words and by what exists, and those that need no tool stay unmarked."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.turns.listing import MOST_ENTRIES, Listing, list_names
from placet.turns.task_route import route, spelled_in

NAMES = Listing(
    files=frozenset(
        {
            "notes.txt",
            "README.md",
            "src/main.py",
            "src/util.py",
            "orders.csv",
            "hello.py",
            "Makefile",
            "größe.txt",
            "my list.txt",
            ".env",
            "数据.csv",
        }
    ),
    folders=frozenset({"src", "docs", "tests", "data"}),
)


@pytest.mark.parametrize(
    "task",
    [
        "What is a monad?",
        "What is 6*7?",
        "Say hello.",
        "Write a haiku about autumn.",
        "Write about node.js, and e.g. its event loop.",
        "How do I create a file in Python?",
        "How can I list all files of a folder in bash?",
        "What is a file system?",
        "Which file format is best for photos?",
        "What is data science?",
        "Explain how tests work.",
        "Run through the main ideas of Hegel.",
        "Translate 'good morning' to French.",
        "Refund order 7.",
        "What does TCP/IP mean, and is it read/write?",
        "Is version 3.11 newer than 3.9?",
        "See https://example.org/notes.txt for more. What is HTTP?",
        "Mail ann@notes.txt about lunch.",
        "List three prime numbers.",
        "Make me laugh.",
        "",
        "?!.,;",
    ],
)
def test_a_task_that_needs_no_tool_needs_nothing(task: str) -> None:
    assert route(task, NAMES).needs == ()


@pytest.mark.parametrize(
    ("task", "needs"),
    [
        ("What is in notes.txt?", ("reading",)),
        ("What is in `notes.txt`?", ("reading",)),
        ("what does readme.md say", ("reading",)),
        ("Summarise ./src/main.py.", ("reading",)),
        ("Explain util.py", ("reading",)),
        ("What does the Makefile do?", ("reading",)),
        ("Was steht in größe.txt?", ("reading",)),
        ("数据.csv 里有什么?", ("reading",)),
        ("How many lines does my list.txt have?", ("reading",)),
        ("Which file mentions zebra?", ("reading",)),
        ("List all Python files.", ("reading",)),
        ("How many files are in docs?", ("reading",)),
        ("Find every TODO and list them.", ("reading",)),
        ("What does this project do?", ("reading",)),
        ("Read notes.txt and write its first line to first.txt.", ("reading", "writing")),
        ("Write the numbers 1 to 3 into numbers.txt.", ("writing",)),
        ("Please append 'milk' to notes.txt", ("writing",)),
        ("Could you replace foo by bar in notes.txt?", ("writing",)),
        ("In the file notes.txt change the port from 1 to 2.", ("writing",)),
        ("Create a file called out.txt with the word hi.", ("writing",)),
        ("Rename the function add in src/util.py to plus.", ("writing",)),
        ("Delete the file notes.txt", ("writing",)),
        ("List the TODOs of src in todo.md", ("reading", "writing")),
        ("List the TODOs in gone.md", ("reading",)),
        ("Run hello.py and tell me what it prints.", ("running",)),
        ("Run the tests.", ("running",)),
        ("Execute `ls -l` please", ("running",)),
    ],
)
def test_a_task_is_classed_by_what_it_needs(task: str, needs: tuple[str, ...]) -> None:
    assert route(task, NAMES).needs == needs


def test_names_that_only_look_like_files_are_not_named() -> None:
    found = route("Compare node.js, main.rs and src/gone.py in 3.11, e.g. quickly.", NAMES)

    assert found.named == ()


def test_a_name_is_found_by_its_end_and_in_any_case() -> None:
    assert route("Show MAIN.PY and Notes.TXT", NAMES).named == ("src/main.py", "notes.txt")


def test_an_ordinary_word_names_a_folder_only_where_it_is_used_as_a_name() -> None:
    assert route("What is data?", NAMES).named == ()
    assert route("What is in data?", NAMES).named == ("data",)
    assert route("Look at the docs folder.", NAMES).named == ("docs",)


def test_a_name_that_many_folders_have_names_none() -> None:
    names = Listing(files=frozenset(f"p{n}/__init__.py" for n in range(9)))

    assert route("Explain __init__.py", names).named == ()


@given(st.text(max_size=400), st.frozensets(st.text(min_size=1, max_size=12), max_size=8))
def test_any_text_gets_a_route_and_names_only_what_exists(task: str, files: frozenset[str]) -> None:
    found = route(task, Listing(files=files))

    assert set(found.named) <= files
    assert found == route(task, Listing(files=files))
    if found.named:
        assert found.needs


@given(st.sampled_from(sorted(NAMES.files)), st.sampled_from(["Explain {}.", "What is in `{}`?", "{}?"]))
def test_a_task_that_names_a_file_is_never_without_need(name: str, form: str) -> None:
    if " " in name and "`" not in form and "Explain" not in form:
        return
    found = route(form.format(name), NAMES)

    assert name in found.named
    assert found.needs


def test_a_huge_task_is_bounded() -> None:
    task = "a.b/c " * 1_000_000 + "What is in notes.txt?"

    assert route(task, NAMES).needs == ("reading",)
    assert len(spelled_in(task)) <= 200


def test_a_huge_workspace_is_walked_only_so_far_and_what_is_spelled_is_found_all_the_same(
    tmp_path: Path,
) -> None:
    deep = tmp_path / "z" / "deep"
    deep.mkdir(parents=True)
    (deep / "last.txt").write_text("x")
    for n in range(60):
        (tmp_path / f"a{n}.txt").write_text("x")

    found = list_names(str(tmp_path), spelled_in("Read z/deep/last.txt, ../etc and /etc/passwd"), most=20)

    assert not found.is_complete
    assert "z/deep/last.txt" in found.files
    assert len(found.files | found.folders) <= 21 < MOST_ENTRIES
    assert not any(path.startswith(("..", "/")) for path in found.files | found.folders)


def test_links_are_not_followed_and_hidden_folders_not_entered(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / ".env").write_text("x")

    found = list_names(str(tmp_path))

    assert found.files == {"loop", ".env"}
    assert found.folders == frozenset()


def test_a_folder_that_is_gone_has_no_names(tmp_path: Path) -> None:
    assert list_names(str(tmp_path / "gone")) == Listing()
