"""A task that names a function, class or constant of the workspace is about the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet import Runtime, basic_tools
from placet.turns.basis import Router
from placet.turns.first_calls import first_calls
from placet.turns.symbols import defined_symbols, symbols_in
from tests.turns.test_guided import sent, small
from tests.turns.workroom import Workroom

SOURCE = (
    "LIMIT_S = 7\n\n\nclass OrderBook:\n    def parse_date(self, text):\n        return text.split('-')\n"
)


@pytest.fixture
def room(tmp_path: Path) -> Workroom:
    made = Workroom(tmp_path)
    (made.folder / "src").mkdir()
    (made.folder / "src" / "book.py").write_text(SOURCE)
    (made.folder / "README.md").write_text("Written for GitHub, and no JavaScript.\n")
    return made


@pytest.mark.parametrize(
    ("task", "needs"),
    [
        ("What does parse_date return?", ("reading",)),
        ("Explain OrderBook.", ("reading",)),
        ("What is the value of `LIMIT_S`?", ("reading",)),
        ("Rename parse_date to read_date.", ("writing",)),
        ("What is JavaScript, and is GitHub written in it?", ()),
        ("What does parse_time return?", ()),
        ("Who is Ann?", ()),
    ],
)
async def test_an_answer_about_a_symbol_rests_on_a_call(
    room: Workroom, task: str, needs: tuple[str, ...]
) -> None:
    ending = await room.assistant(["It is a list."]).run(task)

    assert ending.lacks == needs
    assert ending.status == ("unsupported" if needs else "success")


async def test_the_definition_is_read_for_a_small_model(room: Workroom) -> None:
    assistant = small(room, ["A list."])

    ending = await assistant.run("What does parse_date return?")

    assert (ending.status, ending.called) == ("success", ("read_file",))
    assert "text.split" in str(sent(assistant)[0].messages)


def test_what_is_to_be_renamed_is_searched_for_a_small_model(room: Workroom) -> None:
    router = Router(str(room.folder))
    router.hear("Rename parse_date to read_date.")

    (made,) = first_calls(router.route, Runtime(builtin=basic_tools(room.folder)).tools.schemas())

    assert (made.name, made.arguments) == ("grep", {"pattern": "parse_date", "fixed": True})


@pytest.mark.parametrize(
    "text",
    [
        "function parseDate(text) {",
        "export const parseDate = (text) => text",
        "    public static int parseDate(String text) {",
        "fn parseDate(text: &str) -> u8 {",
        "func parseDate(text string) int {",
        "parseDate: 3",
        "parseDate = 3",
        "  self.parseDate: int = 3",
    ],
)
def test_definitions_are_found_in_many_languages(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ts").write_text(f"// parseDate\nif (parseDate == 1) parseDate(2);\n{text}\n")

    (found,) = defined_symbols(str(tmp_path), ["a.ts"], ["parseDate"]).values()

    assert found == ("a.ts", 3)


def test_files_that_cannot_be_searched_define_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("def parse_date(): ...\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.py").symlink_to(outside)
    (folder / "binary.py").write_bytes(b"\xff\0" * 1_000)
    (folder / "dir.py").mkdir()
    (folder / "notes.txt").write_text("def parse_date(): ...\n")

    files = ["link.py", "binary.py", "dir.py", "gone.py", "notes.txt", "a\0b.py"]

    assert defined_symbols(str(folder), files, ["parse_date"]) == {}


def test_only_so_many_names_are_looked_for_in_a_huge_task() -> None:
    assert len(symbols_in("a_b1 " + " ".join(f"name_{n}" for n in range(100_000)))) == 8
    assert symbols_in("A" * 200_000 + "a" * 200_000) == []
