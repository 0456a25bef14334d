"""A file is replaced in the folder that a descriptor holds, wherever its path leads by then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from placet.errors import ToolError
from placet.sandbox.beneath import FOLDER
from placet.sandbox.spot import Spot, Turns, look, replace, seen
from tests.sandbox.canary import Canary

HELD = "a/file.txt"


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary(tmp_path.resolve())


@pytest.fixture
def held(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spot]:
    """The spot of `HELD`, after its folder was moved away and a link to outside has taken its name."""
    monkeypatch.chdir(canary.inside)
    os.mkdir("a")
    Path(HELD).write_text("old")
    parent = os.open("a", FOLDER)
    os.rename("a", "moved")
    os.symlink("../canary/a", "a")
    yield Spot(parent=parent, name="file.txt", found=look("file.txt", parent))
    os.close(parent)


def test_a_file_is_replaced_in_the_folder_that_is_held(canary: Canary, held: Spot) -> None:
    replace(held, b"new", HELD, None, Turns())

    assert Path("moved/file.txt").read_bytes() == b"new"
    assert os.listdir("moved") == ["file.txt"]
    canary.assert_untouched()


def test_a_file_is_made_in_the_folder_that_is_held(canary: Canary, held: Spot) -> None:
    spot = msgspec.structs.replace(held, name="new.txt", found=None)

    replace(spot, b"new", "a/new.txt", None, Turns())

    assert Path("moved/new.txt").read_bytes() == b"new"
    assert sorted(os.listdir("moved")) == ["file.txt", "new.txt"]
    canary.assert_untouched()


def test_what_was_seen_is_compared_with_the_file_that_is_held(canary: Canary, held: Spot) -> None:
    outside = seen(os.stat(HELD))

    with pytest.raises(ToolError, match="changed meanwhile"):
        replace(held, b"new", HELD, outside, Turns())

    assert Path("moved/file.txt").read_bytes() == b"old"
    assert os.listdir("moved") == ["file.txt"], "no temporary file is left"
    canary.assert_untouched()
