"""Where long outputs are kept, also in a project that came from elsewhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from placet.runtime.observation import observe_text
from placet.runtime.spill import Spill


def test_ids_that_look_like_paths_stay_in_the_folder(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "deep", "spill")

    first = spill.keep("../../run", "../a/b", "one")
    second = spill.keep("../../run", "../a.b", "one")
    third = spill.keep("", "", "one")

    assert len({first, second, third}) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert all(path.resolve().is_relative_to(spill.folder) for path in (first, second, third))


def test_the_same_text_twice_is_one_file(tmp_path: Path) -> None:
    spill = Spill(tmp_path, "spill")

    assert spill.keep("r", "a", "one") == spill.keep("r", "a", "one")
    assert len(list((tmp_path / "spill" / "r").iterdir())) == 1


def test_dropping_and_pruning_leave_the_others(tmp_path: Path) -> None:
    spill = Spill(tmp_path, "spill")
    paths = {name: spill.keep(name, "a", "x") for name in ("dropped", "old", "kept old", "new")}
    for name in ("old", "kept old"):
        os.utime(paths[name].parent, (1000, 1000))

    spill.drop(["dropped", "unknown"])
    spill.prune(2000, but=["kept old"])

    assert [name for name, path in paths.items() if path.exists()] == ["kept old", "new"]


@pytest.mark.parametrize(
    "linked", [".placet", ".placet/data", ".placet/data/spill", ".placet/data/spill/run"]
)
def test_a_link_that_came_with_a_project_leads_nowhere(tmp_path: Path, linked: str) -> None:
    outside = tmp_path / "outside"
    for name in ("run", "spill/run", "data/spill/run"):
        (outside / name).mkdir(parents=True)
        (outside / name / "precious.txt").write_text("precious")
    before = sorted(outside.rglob("*"))
    for folder in outside.rglob("*"):
        os.utime(folder, (1000, 1000))
    place = tmp_path / "project" / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    spill = Spill(tmp_path / "project", ".placet", "data", "spill")

    shown = observe_text("x" * 100_000, "a", run_id="run", spill=spill)
    spill.drop(["run", "data", "spill", "precious.txt"])
    spill.prune(2000)

    assert "could not be kept" in shown
    assert sorted(outside.rglob("*")) == before


def test_git_does_not_see_what_is_kept(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    Spill(tmp_path, ".placet", "data", "spill").keep("r", "a", "x")

    seen = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=tmp_path, capture_output=True, check=True
    )
    assert seen.stdout == b""


def test_pruning_what_was_never_there_is_no_error(tmp_path: Path) -> None:
    Spill(tmp_path, "spill").prune(2e9)

    assert list(tmp_path.iterdir()) == []
