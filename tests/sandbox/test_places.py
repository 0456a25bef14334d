"""What of a machine is shown to a confined command, and that nothing of a person's own is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.sandbox.places import find_places, is_beneath


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    for name in (
        ".pyenv/versions/3/bin",
        ".cargo/bin",
        ".local/bin",
        ".local/share/keyrings",
        ".ssh",
        ".config/gh",
        "bin",
        "work/project",
    ):
        (made / name).mkdir(parents=True)
    return made


def shown(home: Path, path: str = "", workspace: str = "work/project") -> list[str]:
    places = find_places({"HOME": str(home), "PATH": path}, str(home / workspace))
    return [os.path.relpath(each, home) for each in places.toolchains if is_beneath(each, str(home))]


def test_programs_in_the_home_are_shown_and_what_lies_beside_them_is_not(home: Path) -> None:
    assert sorted(shown(home)) == [".cargo/bin", ".local/bin", ".pyenv"]


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("bin", "bin"),  # Beside it lies everything else that a person has.
        (".pyenv/versions/3/bin", ".pyenv"),
        ("work/project/bin", None),
        (".config/gh", ".config/gh"),
    ],
)
def test_what_path_names_is_shown_but_never_the_home(home: Path, entry: str, wanted: str | None) -> None:
    (home / entry).mkdir(parents=True, exist_ok=True)

    found = shown(home, str(home / entry))

    assert "." not in found
    assert "work/project" not in found
    if wanted is not None:
        assert wanted in found


def test_a_toolchain_that_contains_the_workspace_is_not_shown(home: Path) -> None:
    assert ".pyenv" not in shown(home, workspace=".pyenv/versions/3")


@pytest.mark.parametrize("name", ["work/project/.venv", "alias/.venv"])
def test_what_lies_in_the_workspace_is_no_toolchain(home: Path, name: str) -> None:
    """A command could put a link in its place: what that leads to would be shown to the next one."""
    (home / "alias").symlink_to("work/project")
    (home / "work/project/.venv/bin").mkdir(parents=True)
    (home / "work/project/.venv/lib64").symlink_to(home / ".ssh")
    (home / "work/project/.venv/lib").symlink_to(home / ".config/gh")

    assert shown(home, str(home / name / "bin")) == shown(home)


@pytest.mark.parametrize("target", ["work/project/bin", "work/project/deep/../bin", "other"])
def test_a_link_that_leads_through_the_workspace_is_no_toolchain(home: Path, target: str) -> None:
    """Whatever it leads to in the end: a command may have put the next link there."""
    (home / "work/project/deep").mkdir()
    (home / "work/project/bin").symlink_to(home / ".ssh")
    (home / "other").symlink_to("work/project/bin")
    (home / "programs").symlink_to(target)

    assert shown(home, str(home / "programs")) == shown(home)


def test_a_folder_to_keep_out_is_not_shown_under_another_name(home: Path) -> None:
    records = home / ".pyenv" / "records"
    records.mkdir()
    places = find_places({"HOME": str(home)}, str(home / "work/project"), [str(records)])

    assert not [each for each in places.toolchains if is_beneath(str(records), each)]


def test_relative_and_missing_entries_of_path_are_passed_over(home: Path) -> None:
    assert shown(home, f".:bin:{home}/nothing/here::") == shown(home)


def test_services_are_not_shown() -> None:
    places = find_places(dict(os.environ), "/nonexistent")

    for hidden in ("/run/docker.sock", "/var/run/docker.sock", "/var/lib/mysql/mysql.sock", "/tmp/.X11-unix"):
        assert not [each for each in places.system if is_beneath(hidden, each)]
    assert "/usr" in places.system
