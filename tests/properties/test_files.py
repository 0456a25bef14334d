"""Whatever a tree holds and whatever a path says: nothing outside is read or changed, and texts come back."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolError
from placet.sandbox.beneath import has_openat2
from placet.sandbox.refusals import cannot
from placet.sandbox.workspace import Workspace
from placet.tools import Tool
from placet.tools.builtin.files import file_tools
from placet.tools.builtin.search import search_tools
from placet.tools.builtin.text_file import decode, encode
from tests.properties.effort import UNHURRIED, Tally, examples
from tests.sandbox.canary import SECRET, Canary

pytestmark = UNHURRIED

WAYS = (True, False) if has_openat2() else (True,)

NAMES = ["a", "b", "file.txt", "ü"]
FILES = ["file.txt", "a/file.txt", "b/file.txt", "b/a/file.txt"]
"""What every tree holds before something is put in its place."""
SLASHES = st.sampled_from(["/", "/", "/", "//", "/./"])
PARTS = st.sampled_from([*NAMES * 3, "..", "..", ".", "canary", "inside", "secret.txt", ".git", "~"])
ENDS = st.sampled_from(["", "", "", "/", "/.", "/.."])
STARTS = st.sampled_from(
    ["", "", "", "", "../", "../canary/", "{inside}/", "{parent}/canary/", "/", "{inside}"]
)


@st.composite
def paths(draw: st.DrawFn) -> str:
    parts = draw(st.lists(PARTS, max_size=4))
    text = draw(STARTS) + draw(SLASHES).join(parts) + draw(ENDS)
    return text or draw(st.sampled_from(["", ".", "\0", "a\0b", "\ud800", "n" * 256, "a/" * 2048]))


places = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
things = st.tuples(places, st.sampled_from(["folder", "file", "link", "link", "link"]), paths())
calls = st.tuples(
    st.sampled_from(["read", "write", "edit", "write_deep", "list", "find"]),
    st.one_of(st.sampled_from([".", "a", "b/a", *FILES]), places, paths()),
)

texts = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.sampled_from(["\n", "\r\n", "\r", " ", "\ufeff"]),
    ),
    max_size=12,
).map("".join)


@contextmanager
def new_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="files")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Tree:
    """A workspace beside a canary, filled at random, and its tools."""

    def __init__(self, canary: Canary, made: list[tuple[str, str, str]], by_hand: bool) -> None:
        self.canary = canary
        inside = canary.inside
        shutil.rmtree(inside)
        inside.mkdir()
        for name in FILES:
            self._make(inside / name, "file", "")
        for place, kind, text in made:
            with suppress(OSError, ValueError):
                self._make(inside / place, kind, self.fill(text))
        self.workspace = Workspace(inside, by_hand=by_hand)
        made = [*file_tools(self.workspace), *search_tools(self.workspace)]
        self.tools: dict[str, Tool] = {tool.name: tool for tool in made}

    def _make(self, path: Path, kind: str, text: str) -> None:
        # By the real path: what is made must be inside, whatever links were made before.
        if not Path(os.path.realpath(path.parent)).is_relative_to(self.canary.inside):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if kind == "folder":
            path.mkdir()
        elif kind == "file":
            path.write_text("mine\nold\n")
        else:
            path.symlink_to(text)

    def fill(self, path: str) -> str:
        return path.format(inside=self.canary.inside, parent=self.canary.parent)

    def call(self, what: str, path: str) -> Any:
        """What a call answered, or the words of its refusal, with nothing that tells two trees apart."""
        path = self.fill(path)
        try:
            match what:
                case "read":
                    answer: Any = self.tools["read_file"](path)
                case "edit":
                    answer = self.tools["edit_file"](path, "old", "new")
                case "write":
                    answer = self.tools["write_file"](path, "mine\nold\n", create_folders=False)
                case "write_deep":
                    answer = self.tools["write_file"](path, "mine\nold\n")
                case "list":
                    answer = [(e.name, e.kind) for e in self.workspace.list(path)]
                case _:
                    answer = self.tools["find_files"]("*", path)
        except OSError as error:
            answer = f"Error: {cannot(what, path, error)}"
        except ToolError as error:
            answer = f"Error: {error}"
        return str(answer).replace(str(self.canary.parent), "")


def test_no_path_and_no_link_leads_out(tmp_path: Path) -> None:
    tally = Tally()
    canaries = {by_hand: Canary(_made(tmp_path / str(int(by_hand)))) for by_hand in WAYS}

    @examples(200)
    @given(st.lists(things, min_size=1, max_size=8), st.lists(calls, min_size=3, max_size=8))
    def holds(made: list[tuple[str, str, str]], asked: list[tuple[str, str]]) -> None:
        answers = []
        for by_hand in WAYS:
            tree = Tree(canaries[by_hand], made, by_hand)
            got = []
            for what, path in asked:
                got.append(tree.call(what, path))
                assert SECRET not in got[-1]
                tree.canary.assert_untouched()
            answers.append(got)
            left = [name for _, folders, names in os.walk(tree.canary.inside) for name in (*folders, *names)]
            assert not [name for name in left if name.endswith(".tmp") or name == ".git"]
        assert all(each == answers[0] for each in answers), "both ways answer alike"
        for (what, _), answer in zip(asked, answers[0], strict=True):
            works = "Error" not in answer
            tally.add(
                reads=works and what in ("read", "list", "find"),
                writes=works and what.startswith(("write", "edit")),
                leads_out="leads outside" in answer,
                has_links=any(kind == "link" for _, kind, _ in made),
            )

    holds()
    tally.require({"reads": 0.07, "writes": 0.05, "leads_out": 0.15, "has_links": 0.5})


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder.resolve()


@examples(100)
@given(texts)
def test_what_is_written_is_read_again_whole_and_line_by_line(text: str) -> None:
    with new_folder() as folder:
        tools = {tool.name: tool for tool in file_tools(Workspace(folder))}

        tools["write_file"]("f", text)
        found = tools["read_file"]("f")

        assert (folder / "f").read_bytes() == text.encode()
        assert found["text"] == text.removeprefix("\ufeff")
        assert found["encoding"] == ("utf-8 with BOM" if text.startswith("\ufeff") else "utf-8")
        lines = [tools["read_file"]("f", n, 1) for n in range(1, found["total_lines"] + 1)]
        assert "".join(line["text"] for line in lines) == found["text"]
        assert all(line["start_line"] == line["end_line"] for line in lines)
        assert not found["truncated"]


@examples(200)
@given(st.one_of(st.binary(max_size=40), texts.map(str.encode), texts.map(lambda t: t.encode("utf-16"))))
def test_what_is_taken_for_text_becomes_the_same_bytes(data: bytes) -> None:
    decoded = decode(data)

    if decoded is not None:
        assert encode(*decoded) == data
    else:
        assert not _is_utf_8(data)


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


ENCODINGS = ["utf-8", "utf-8 with BOM", "utf-16-le with BOM", "utf-16-be with BOM", "latin-1"]


def test_an_edit_changes_what_it_names_and_nothing_else() -> None:
    tally = Tally()

    @examples(200)
    @given(
        texts,
        texts,
        st.sampled_from(ENCODINGS),
        st.booleans(),
        st.booleans(),
        st.integers(0, 60),
        st.integers(0, 60),
    )
    def holds(
        text: str, new: str, encoding: Any, with_returns: bool, replace_all: bool, at: int, size: int
    ) -> None:
        text = re.sub(r"\r+\n", "\n", text)
        asked = old = text[at % (len(text) + 1) :][:size]
        put = new
        if with_returns and "\n" in text:
            text, old = text.replace("\n", "\r\n"), old.replace("\n", "\r\n")
            put = new.replace("\r\n", "\n").replace("\n", "\r\n")
        try:
            data = encode(text, encoding)
        except UnicodeEncodeError:
            return
        if decode(data) != (text, encoding):
            return
        with new_folder() as folder:
            (folder / "f").write_bytes(data)
            edit = next(tool for tool in file_tools(Workspace(folder)) if tool.name == "edit_file")

            try:
                done = edit("f", asked, new, replace_all=replace_all)
            except ToolError:
                done = None

            now = (folder / "f").read_bytes()
            if done is None:
                assert now == data
            elif replace_all:
                assert now == encode(text.replace(old, put), encoding)
                assert done["replaced"] == text.count(old)
            else:
                assert text.count(old) == 1
                assert now == encode(text.replace(old, put, 1), encoding)
                assert done["line"] == text[: text.index(old)].count("\n") + 1
            if done is None and encoding != "latin-1" and old and old != put and text.count(old) == 1:
                overlaps = text.find(old, text.find(old) + 1) >= 0
                assert overlaps or new.startswith("\ufeff"), "an edit that could be made was refused"
        tally.add(done=done is not None, refused=done is None, with_returns=with_returns and "\n" in text)

    holds()
    tally.require({"done": 0.25, "refused": 0.1, "with_returns": 0.1})
