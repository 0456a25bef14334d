"""Every spelling that some file system takes for `.git` is protected like `.git`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolError, UsageError
from placet.sandbox.lookalikes import GIT, is_read_as
from placet.sandbox.workspace import Workspace
from placet.worktree.objects import inside
from tests.properties.effort import examples

UNSEEN = [chr(n) for n in (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)]
"""The code points that HFS+ ignores."""
RESERVED = [chr(n) for n in (0x2065, 0xFFF0, 0xFFF8, 0xE0000, 0xE0080, 0xE0FFF)]
"""Some that Unicode reserves for code points that are drawn as nothing."""
FORMS = {
    ".": [".", "\uff0e", "\u2024"],
    "g": ["g", "G", "\uff27", "\uff47", "\u24d6"],
    "i": ["i", "I", "\uff29", "\uff49", "\u2170"],
    "t": ["t", "T", "\uff34", "\uff54", "\U0001d42d"],
}
ENDS = ["", ".", " ", ". .", "::$INDEX_ALLOCATION", ":stream", " .:x"]


@st.composite
def spellings(draw: st.DrawFn) -> str:
    parts = []
    for letter in GIT:
        parts += draw(st.lists(st.sampled_from(UNSEEN + RESERVED), max_size=2))
        parts.append(draw(st.sampled_from(FORMS[letter])))
    parts += draw(st.lists(st.sampled_from(UNSEEN), max_size=2))
    return "".join(parts) + draw(st.sampled_from(ENDS))


short_names = st.from_regex(r"\A[gG][iI][tT]~[1-9][0-9]?[. ]{0,2}\Z")


def test_no_spelling_gets_past_the_file_tools_or_the_trees(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)

    @examples(1000)
    @given(st.one_of(spellings(), short_names))
    def protects(name: str) -> None:
        assert is_read_as(name, GIT)
        assert is_read_as(name.encode(), GIT)
        for path in (name, f"{name}/hooks/pre-commit", f"sub/{name}/config"):
            with pytest.raises(ToolError):
                workspace.write_bytes(path, b"x", create_folders=True)
            with pytest.raises(UsageError):
                inside(path)

    protects()

    workspace.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".g\u200cit", ".pl\u200dacet", "\uff0eGIT", "git~1", ".git.", ".git:x"])
def test_a_spelling_is_refused_by_the_file_tools(tmp_path: Path, name: str) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(ToolError):
        workspace.write_bytes(f"{name}/x", b"x", create_folders=True)
    workspace.close()


@pytest.mark.parametrize(
    "name", [".gitignore", ".github", "git", "gift~1", "a.git", ".git-blame-ignore-revs", "\u00e9.git", "~1"]
)
def test_other_names_are_ordinary(tmp_path: Path, name: str) -> None:
    workspace = Workspace(tmp_path)
    workspace.write_bytes(name, b"x")
    workspace.close()

    assert inside(name) == name
    assert (tmp_path / name).read_bytes() == b"x"


def test_whatever_git_refuses_as_its_own_folder_is_refused_here(tmp_path: Path) -> None:
    """Git with its protections for HFS+ and NTFS is the oracle: it must not know more spellings than we."""
    dice = Random(22)
    alphabet = [*".gGiItT~1 :", *UNSEEN[:4], "x"]
    names = {"".join(dice.choices(alphabet, k=dice.randint(3, 8))) for _ in range(20_000)}
    for _ in range(3_000):
        name = list(dice.choice([".git", "git~1", ".GIT", ".git "]))
        for _ in range(dice.randint(0, 4)):
            name.insert(dice.randint(0, len(name)), dice.choice([*UNSEEN, *". :x"]))
        names.add("".join(name))
    names -= {each for each in names if set(each) <= {".", " "}}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=tmp_path, input=b"", capture_output=True, check=True
    ).stdout.strip()
    lines = b"".join(b"100644 %b 0\t%b\0" % (blob, name.encode()) for name in sorted(names))
    protections = ["-c", "core.protectHFS=true", "-c", "core.protectNTFS=true"]

    subprocess.run(
        ["git", *protections, "update-index", "-z", "--index-info"],
        cwd=tmp_path,
        input=lines,
        check=False,
        capture_output=True,
    )
    listed = (
        subprocess.run(["git", "ls-files", "-z"], cwd=tmp_path, capture_output=True, check=True)
        .stdout.decode()
        .split("\0")
    )

    refused = names - set(listed)
    assert len(refused) > 200
    assert len(set(listed)) > 5_000
    assert [name for name in refused if not is_read_as(name, GIT)] == []
