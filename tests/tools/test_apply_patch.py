"""apply_patch as a model uses it."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolError
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.code import code_tools
from placet.tools.builtin.hunks import Budget, apply_fits, fit_hunks
from placet.tools.builtin.patch import MOST_HUNKS, MOST_LETTERS, parse_patch
from tests.properties.effort import Tally, examples

ONE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\ndef three():\n    return 3\n"


class Patching:
    """The tool on a folder."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.tool: Any = code_tools(Workspace(folder), only=["apply_patch"], **options)[0]

    def put(self, name: str, data: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def files(self) -> dict[str, bytes]:
        """Everything there, folders too."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else b""
            for path in sorted(self.folder.rglob("*"))
        }

    def refusal(self, patch: str) -> str:
        before = self.files()
        with pytest.raises(ToolError) as caught:
            self.tool(patch)
        assert self.files() == before
        return str(caught.value)


@pytest.fixture
def here(tmp_path: Path) -> Patching:
    return Patching(tmp_path)


def hunk(*lines: str, header: str = "@@", path: str = "a.py") -> str:
    return "\n".join([f"--- a/{path}", f"+++ b/{path}", header, *lines, ""])


# What fits


def test_several_files_are_changed_created_and_deleted(here: Patching) -> None:
    here.put("a.py", ONE)
    here.put("old.txt", "x\n")
    patch = (
        hunk(" def two():", "-    return 2", "+    return 22", header="@@ -5,2 +5,2 @@ def one():")
        + "--- /dev/null\n+++ b/new/deep/b.py\n@@ -0,0 +1,2 @@\n+x = (\n+y = 1\n"
        + "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )

    done = here.tool(patch)

    assert (here.folder / "a.py").read_text() == ONE.replace("return 2", "return 22")
    assert (here.folder / "new/deep/b.py").read_text() == "x = (\ny = 1\n"
    assert not (here.folder / "old.txt").exists()
    assert [(each["path"], each["change"]) for each in done["files"]] == [
        ("a.py", "modified"),
        ("new/deep/b.py", "created"),
        ("old.txt", "deleted"),
    ]
    assert done["files"][0]["excerpt"].split("\n")[2] == "6:     return 22"
    assert "syntax" not in done["files"][0]
    assert "never closed" in done["files"][1]["syntax"]


@pytest.mark.parametrize(
    "header",
    [
        "@@ -5,2 +5,2 @@",
        "@@ -500,2 +500,2 @@",
        "@@ -5,9 +5,1 @@",
        "@@ -1 +1 @@",
        "@@",
        "@@ ... @@",
        "@@ def two():",
    ],
)
def test_wrong_numbers_and_counts_do_no_harm(here: Patching, header: str) -> None:
    here.put("a.py", ONE)

    here.tool(hunk(" def two():", "-    return 2", "+    return 22", header=header))

    assert (here.folder / "a.py").read_text() == ONE.replace("return 2", "return 22")


@pytest.mark.parametrize(
    "patch",
    [
        "--- a.py\n+++ a.py\n@@ -6 +6 @@\n-    return 2\n+    return 22\n",
        "--- a/a.py\t2024-01-01 00:00\n+++ b/a.py\t2024-01-01\n@@ -6 +6 @@\n-    return 2\n+    return 22\n",
        "So:\n```diff\n--- a/a.py\n+++ b/a.py\n@@ -6 +6 @@\n-    return 2\n+    return 22\n```\nDone.\n",
        "--- a/a.py\n+++ b/a.py\n@@ -5,3 +5,3 @@\n def two():\n-    return 2\n+    return 22\n\n",
        "--- a/a.py\n+++ b/a.py\n@@ -4,9 +4,9 @@\n\ndef two():\n-    return 2\n+    return 22\n\nSo.\n",
        "--- a/a.py\r\n+++ b/a.py\r\n@@ -6 +6 @@\r\n-    return 2\r\n+    return 22\r\n",
        "--- a/a.py\n+++ b/a.py\n@@ -6 +6 @@\n-    return 2\n+    return 22",
        "--- a/a.py\n+++ b/a.py\n@@ -5,2 +5,2 @@\n def two():  \n-    return 2\t\n+    return 22\n",
        "From 1 Mon\nSubject: x\n---\n a.py | 2\n\ndiff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n"
        "+++ b/a.py\n@@ -6 +6 @@ def two():\n-    return 2\n+    return 22\n-- \n2.39.5\n\n",
        "--- a/before.py\n+++ b/a.py\n@@ -6 +6 @@\n-    return 2\n+    return 22\n",
    ],
    ids=[
        "no_prefixes",
        "times",
        "fenced",
        "blank_line_bare",
        "unmarked_context",
        "crlf",
        "no_end",
        "blanks",
        "mail",
        "one_name_is_there",
    ],
)
def test_a_patch_may_look_in_many_ways(here: Patching, patch: str) -> None:
    here.put("a.py", ONE)

    here.tool(patch)

    assert (here.folder / "a.py").read_text() == ONE.replace("return 2", "return 22")


def test_missing_blank_lines_and_outer_context_are_overlooked_and_told(here: Patching) -> None:
    here.put("a.py", ONE)
    patch = hunk("     return 1", " ", " def two():", "-    return 2", "+    return 22", " ", " class Other:")

    blank = here.tool(hunk("     return 1", " def two():", "-    return 2", "+    return 20"))
    done = here.tool(
        patch.replace("-    return 2", "-    return 20").replace("    return 1", "    return one")
    )

    assert (here.folder / "a.py").read_text() == ONE.replace("return 2", "return 22")
    assert blank["files"][0]["notes"] == ["Hunk 1: blank lines differ."]
    assert "of context differ" in done["files"][0]["notes"][0]


def test_line_ends_of_the_file_are_kept(here: Patching) -> None:
    file = here.put("a.py", ONE.replace("\n", "\r\n"))
    bare = here.put("b.py", "a\nb")

    here.tool(hunk(" def two():", "-    return 2", "+    x = 1", "+    return 22"))
    here.tool(hunk(" b", "+c", path="b.py"))

    assert file.read_bytes().decode() == ONE.replace("return 2", "x = 1\n    return 22").replace("\n", "\r\n")
    assert bare.read_text() == "a\nb\nc\n"


def test_lines_that_look_like_a_file_name_are_lines(here: Patching) -> None:
    file = here.put("a.sql", "-- one\nselect 1\n")

    here.tool("--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n--- one\n+++ two\n select 1\n")

    assert file.read_text() == "++ two\nselect 1\n"


def test_a_hunk_for_one_file_may_come_in_two_parts(here: Patching) -> None:
    file = here.put("a.py", ONE)

    here.tool(hunk("-    return 3", "+    return 33") + hunk("-    return 1", "+    return 11"))

    assert file.read_text() == ONE.replace("return 3", "return 33").replace("return 1", "return 11")


def test_a_line_number_decides_between_two_places(here: Patching) -> None:
    file = here.put("a.py", "x = 1\ny = 2\nx = 1\ny = 2\nz = 3\n")
    lines = ("-x = 1", "+x = 9", " y = 2")

    told = here.refusal(hunk(*lines, header="@@ -2,2 +2,2 @@"))
    assert "fits in more than one place, on lines 1, 3" in told
    assert "more than one place" in here.refusal(hunk(*lines))

    here.tool(hunk(*lines, header="@@ -3,2 +3,2 @@"))
    assert file.read_text() == "x = 1\ny = 2\nx = 9\ny = 2\nz = 3\n"


def test_hunks_that_are_sure_tell_how_far_the_others_are_off(here: Patching) -> None:
    file = here.put("a.py", "x = 1\ny = 2\nx = 1\ny = 2\nz = 3\n")
    patch = hunk("-x = 1", "+x = 9", header="@@ -13 +13 @@") + "@@ -15 +15 @@\n-z = 3\n+z = 4\n"

    here.tool(patch)

    assert file.read_text() == "x = 1\ny = 2\nx = 9\ny = 2\nz = 4\n"


def test_encodings_are_kept(here: Patching) -> None:
    marked = here.put("a.py", b"\xef\xbb\xbfx = 1\ny = 2\n")
    latin = here.put("b.py", b"x = '\xe9'\n")

    here.tool(hunk(" x = 1", "-y = 2", "+y = 3"))
    here.tool(hunk(" \ufeffx = 1", "-y = 3", "+y = 4"))
    here.tool(hunk("-x = 'é'", "+x = 'ä'", path="b.py"))

    assert marked.read_bytes() == b"\xef\xbb\xbfx = 1\ny = 4\n"
    assert latin.read_bytes() == b"x = '\xe4'\n"


# What does not


def test_when_one_hunk_fails_nothing_is_written_and_each_is_told(here: Patching) -> None:
    here.put("a.py", ONE)
    here.put("b.py", ONE)
    patch = (
        hunk(" def one():", "-    return 1", "+    return 11", header="@@ -1,2 +1,2 @@")
        + "@@ -5,2 +5,2 @@\n def two():\n-    return  2\n+    return 22\n"
        + hunk("-    return 3", "+    return 33", path="b.py")
        + "--- /dev/null\n+++ b/c/d.py\n@@ -0,0 +1 @@\n+x\n"
    )

    told = here.refusal(patch)

    assert told.startswith("Nothing was written")
    assert "'a.py', hunk 1 (@@ -1,2 +1,2 @@) fits on line 1." in told
    assert "'a.py', hunk 2 (@@ -5,2 +5,2 @@) does not fit" in told
    assert "Lines 5 to 6 come closest; they differ in blanks within a line (line 6)" in told
    assert "6:     return 2" in told
    assert "'b.py', hunk 1 (@@) fits on line 10." in told


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ("", "no file in the patch"),
        ("please fix it", "Write a unified diff"),
        ("@@ -1 +1 @@\n-a\n+b\n", "before any file"),
        ("--- a/a.py\n+++ b/a.py\n", "no hunk"),
        (hunk(" def one():"), "adds and removes nothing"),
        (hunk("-no such line", "+x"), "Nothing in the file is like it"),
        (hunk("+x"), "no lines to find its place by"),
        (hunk("-def zwei():", "+def two():"), "in the file already, from line 5 on"),
        (hunk("-x", "+y", path="none.py"), "find_files"),
        (hunk("-x", "+y", path="../out.py"), "leads outside"),
        (hunk("-x", "+y", path=".git/config"), "such file"),
        ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", "do not write there"),
        ("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n", "exists already"),
        (
            "--- a/a.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-def one():\n-    return 1\n",
            "not hold all of its lines",
        ),
        ("--- a/x.py\n+++ b/y.py\n@@ -1 +1 @@\n-a\n+b\n", "two names"),
        (hunk("-    return 1", "+    return 1"), "changes nothing"),
        (hunk("-    return 1", "+    return 7") + "@@\n-    return 1\n+    return 8\n", "another hunk"),
        ("diff --git a/a.py b/c.py\nsimilarity index 100%\nrename from a.py\nrename to c.py\n", "renames"),
        ("diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n", "changes the mode"),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+a.py\n",
            "as a link",
        ),
        ("diff --git a/p b/p\nindex 1..2\nBinary files a/p and b/p differ\n", "binary"),
        ("--- a/a.py\n+++ b/a.py\n" + "@@ -1 +1 @@\n-def one():\n+x\n" * (MOST_HUNKS + 1), "hunks"),
        ("x" * (MOST_LETTERS + 1), "characters"),
    ],
)
def test_what_cannot_be_applied_says_why(here: Patching, patch: str, told: str) -> None:
    here.put("a.py", ONE)

    assert told in here.refusal(patch)


def test_a_file_that_must_not_be_written_holds_up_the_whole_patch(tmp_path: Path) -> None:
    here = Patching(tmp_path, refuse=lambda path: "is a test" if path.startswith("tests/") else "")
    here.put("a.py", ONE)
    here.put("tests/a.py", ONE)
    lines = ("-    return 1", "+    return 11")

    told = here.refusal(hunk(*lines) + hunk(*lines, path="tests/a.py"))

    assert "must not be written: it is a test" in told
    assert "'a.py', hunk 1 (@@) fits" in told


def test_what_was_written_is_undone_when_a_later_file_cannot_be(here: Patching) -> None:
    here.put("a.py", ONE)
    here.put("b.py", "b\n").chmod(0o444)
    here.put("c.py", "c\n")
    lines = ("-    return 1", "+    return 11")
    new = "--- /dev/null\n+++ b/new/deep/n.py\n@@ -0,0 +1 @@\n+x\n"
    deleted = "--- a/c.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n"

    told = here.refusal(deleted + hunk(*lines) + new + hunk("-b", "+B", path="b.py"))

    assert "its mode 0444 lets nobody write it" in told


def test_a_link_is_not_deleted_and_its_file_is_not_either(here: Patching) -> None:
    here.put("a.py", "a\n")
    (here.folder / "link.py").symlink_to("a.py")

    assert "it is a link" in here.refusal("--- a/link.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n")


def test_the_work_is_bounded(here: Patching) -> None:
    here.put("a.py", "x\n" * 50_000 + "y\n")
    stays = [" x"] * 900

    assert "not in the file" in here.refusal(hunk(*stays, "-no", "+z"))
    assert "more than one place" in here.refusal(hunk(*stays, "-x"))
    assert "takes too long" in here.refusal(hunk(*stays, "-y", " no", "+z"))


# For any two texts

ROWS = [
    "",
    "a",
    "b",
    " c",
    "\tc ",
    "- d",
    "-- e",
    "+ f",
    "++ g",
    "@@ -1 +1 @@",
    "\\ h",
    "é\u2028",
    "i\r",
    "--- j",
    "+++ k",
]
texts = st.tuples(st.lists(st.sampled_from(ROWS), max_size=14), st.booleans()).map(
    lambda made: "\n".join(made[0]) + "\n" * (made[1] and bool(made[0]))
)


def rows_of(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line]


def diff(old: str, new: str, context: int) -> str:
    """A unified diff by difflib, whose lines may have no end: that is said as other programs say it."""
    made = difflib.unified_diff(rows_of(old), rows_of(new), "a/f", "b/f", n=context)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made
    )


def patched(text: str, patch: str) -> str:
    """The text as the pure part of the tool makes it; None of its hunks may be refused."""
    (file,) = parse_patch(patch)
    fits = fit_hunks(text, file.hunks, Budget())
    assert [fit.problem for fit in fits if fit.problem] == []
    return apply_fits(text, fits)


def test_a_diff_of_any_two_texts_makes_the_second_of_the_first() -> None:
    tally = Tally()

    @examples(500)
    @given(texts, texts, st.integers(0, 4), st.booleans())
    def holds(old: str, new: str, context: int, is_related: bool) -> None:
        if is_related:
            new = old[: len(old) // 2] + new + old[len(old) // 2 :]
        if old == new:
            return
        patch = diff(old, new, context)

        assert patched(old, patch) == new
        tally.add(several=patch.count("\n@@ -") > 1, bare=not new.endswith("\n"), without=context == 0)

    holds()
    tally.require({"several": 0.1, "bare": 0.2, "without": 0.05})


def test_shifted_line_numbers_do_no_harm() -> None:
    tally = Tally()

    @examples(300)
    @given(
        st.lists(
            st.tuples(st.sampled_from(ROWS), st.sampled_from(["keep"] * 8 + ["drop", "add"])),
            min_size=12,
            max_size=30,
        ),
        st.integers(-30, 60),
        st.integers(1, 3),
    )
    def holds(rows: list[tuple[str, str]], shift: int, context: int) -> None:
        # Every line is another one, so that there is one place only, wherever the numbers lead.
        lines = [(f"{row} {at}\n", what) for at, (row, what) in enumerate(rows)]
        old = "".join(line for line, what in lines if what != "add")
        new = "".join(line for line, what in lines if what != "drop")
        if old == new or not old:
            return
        numbers = re.compile(r"^@@ -(\d+)((?:,\d+)?) \+", re.MULTILINE)
        patch = numbers.sub(
            lambda found: f"@@ -{max(int(found[1]) + shift, 0)}{found[2]} +", diff(old, new, context)
        )

        assert patched(old, patch) == new
        tally.add(shifted=shift != 0, several=patch.count("\n@@ -") > 1)

    holds()
    tally.require({"shifted": 0.7, "several": 0.1})


def test_a_hunk_is_never_applied_to_lines_that_are_not_its_own() -> None:
    """Whatever the patch: what goes was there as the patch has it, and what came is in the patch."""
    tally = Tally()

    @examples(300)
    @given(texts, texts, texts, st.integers(0, 3), st.integers(-5, 5))
    def holds(text: str, old: str, new: str, context: int, shift: int) -> None:
        if old == new:
            return
        patch = re.sub(
            r"^@@ -(\d+)",
            lambda found: f"@@ -{max(int(found[1]) + shift, 0)}",
            diff(old, new, context),
            flags=re.M,
        )
        (file,) = parse_patch(patch)
        try:
            fits = fit_hunks(text, file.hunks, Budget())
            made = None if any(fit.problem for fit in fits) else apply_fits(text, fits)
        except ToolError:
            made = None
        tally.add(applied=made is not None, refused=made is None)
        if made is None:
            return

        marked = [(mark, line.rstrip()) for hunk in file.hunks for mark, line in hunk.lines]
        went = [line.rstrip() for mark, line in marked if mark == "-"]
        came = [line.rstrip() for mark, line in marked if mark == "+"]
        before, after = ([row.rstrip() for row in rows_of(each)] for each in (text, made))
        assert sorted([*after, *went]) == sorted([*before, *came])

    holds()
    tally.require({"applied": 0.05, "refused": 0.3})


PIECES = st.sampled_from(
    [
        "--- a/f\n",
        "+++ b/f\n",
        "@@ -1,2 +1,2 @@\n",
        "@@\n",
        "@@ -0,0 +1 @@\n",
        "-a\n",
        "+b\n",
        " a\n",
        "\n",
        "x\n",
        "\\ No\n",
        "--- /dev/null\n",
        "+++ /dev/null\n",
        "diff --git a/f b/f\n",
        'diff --git "a/\\303" x\n',
        '+++ "b/\\t\n',
        "new file mode 100644\n",
        "deleted file mode 100644\n",
        "\0",
        "\r\n",
        "@@ -999999999,5 +1 @@\n",
        "--- \n",
        "+++ \n",
    ]
)


def test_whatever_a_patch_is_it_is_applied_whole_or_refused() -> None:
    @examples(200)
    @given(st.lists(PIECES, max_size=14).map("".join))
    def holds(patch: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            here = Patching(Path(folder))
            here.put("f", "a\nb\na\n")
            before = here.files()
            try:
                here.tool(patch)
            except ToolError:
                assert here.files() == before

    holds()


# With git

GIT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
    "LC_ALL": "C",
}


def git_diff(folder: Path, *options: str) -> str:
    command = ["git", "diff", "--no-index", "--no-renames", *options, "a", "b"]
    made = subprocess.run(command, cwd=folder, env=GIT, capture_output=True, check=False)
    assert made.returncode in (0, 1), made.stderr
    return made.stdout.decode()


NAMES = ["f", "my file.py", "ü/é.txt", "a/b", 'q"t', "tab\tbed"]


def test_what_git_makes_of_two_folders_is_applied() -> None:
    tally = Tally()
    folders = st.dictionaries(st.sampled_from(NAMES), texts, max_size=4)

    @examples(100)
    @given(folders, folders, st.sampled_from(["-U0", "-U1", "-U3", "--function-context"]))
    def holds(old: dict[str, str], new: dict[str, str], option: str) -> None:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            before, after = Patching(_made(folder / "a")), Patching(_made(folder / "b"))
            for name, text in old.items():
                before.put(name, text)
            for name, text in new.items():
                after.put(name, text)
            patch = git_diff(folder, option)
            # Between two folders git names each file twice with its folder: a/a/f and b/b/f.
            if not patch:
                return

            before.tool(_in_one_folder(patch))

            is_file = {name: data for name, data in before.files().items() if (folder / "a" / name).is_file()}
            assert is_file == {name: text.encode() for name, text in new.items()}
            tally.add(
                created=bool(new.keys() - old.keys()),
                deleted=bool(old.keys() - new.keys()),
                changed=any(old[name] != new[name] for name in old.keys() & new.keys()),
                empty="" in new.values() or "" in old.values(),
            )

    holds()
    tally.require({"created": 0.3, "deleted": 0.3, "changed": 0.2, "empty": 0.1})


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _in_one_folder(patch: str) -> str:
    heads = re.compile(r'^(--- |\+\+\+ |diff --git )("?)([ab])/[ab]/(.*)$', re.MULTILINE)

    def shorter(found: re.Match[str]) -> str:
        rest = re.sub(r'( "?[ab]/)[ab]/', r"\1", found[4]) if found[1].startswith("diff") else found[4]
        return f"{found[1]}{found[2]}{found[3]}/{rest}"

    return heads.sub(shorter, patch)
