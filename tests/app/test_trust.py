"""Trust is for exactly what was there: remembered, lost with any change, and never guessed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from placet.app import trust as module
from placet.app.trust import (
    forget,
    how_trusted,
    is_trusted,
    record_file,
    snapshot,
    trust,
    trusted_folders,
)
from placet.errors import TrustError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "outer" / "data")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in {"settings.toml": "", "policies/a.toml": "x", "tools.py": "y"}.items():
        path = folder / ".placet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


# What is there


def test_a_snapshot_holds_every_file_but_the_data(project: Path) -> None:
    (project / ".placet" / "data").mkdir()
    (project / ".placet" / "data" / "placet.db").write_text("written by us")
    (project / ".placet" / "policies" / "data").write_text("only the folder at the top is left out")

    seen = snapshot(project)

    assert seen.folder == project.resolve()
    assert list(seen.files.items()) == [
        ("policies/a.toml", b"x"),
        ("policies/data", b"only the folder at the top is left out"),
        ("settings.toml", b""),
        ("tools.py", b"y"),
    ]


CHANGES: dict[str, Callable[[Path], object]] = {
    "another text": lambda inner: (inner / "tools.py").write_text("z"),
    "a file more": lambda inner: (inner / "new").write_text(""),
    "a file less": lambda inner: (inner / "tools.py").unlink(),
    "another name": lambda inner: (inner / "tools.py").rename(inner / "tool.py"),
    "texts swapped": lambda inner: (
        (inner / "tools.py").write_text("x"),
        (inner / "policies" / "a.toml").write_text("y"),
    ),
    "a text moved into a name": lambda inner: (
        (inner / "tools.py").unlink(),
        (inner / "tools.pyy").write_text(""),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_takes_trust_away_and_undoing_it_gives_it_back(
    project: Path, env: dict[str, str], change: str
) -> None:
    before = snapshot(project)
    trust(before, env)
    assert how_trusted(snapshot(project), env) == "trusted"

    CHANGES[change](project / ".placet")

    assert how_trusted(snapshot(project), env) == "changed"
    assert not is_trusted(snapshot(project), env)
    assert is_trusted(before, env), "what was trusted is still trusted as it was"


def test_what_placet_writes_takes_no_trust_away(project: Path, env: dict[str, str]) -> None:
    trust(snapshot(project), env)

    (project / ".placet" / "data").mkdir()
    (project / ".placet" / "data" / "placet.db").write_text("a run")

    assert is_trusted(snapshot(project), env)


@pytest.mark.parametrize("name", ["link", "policies/link.toml", "folder"])
def test_a_link_is_refused_by_its_name(project: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path if name == "folder" else tmp_path / "outside"
    (tmp_path / "outside").write_text("can change unseen")
    link = project / ".placet" / name
    link.symlink_to(target)

    with pytest.raises(TrustError, match=r"is a link.*Put a plain file or folder in its place") as caught:
        snapshot(project)

    assert caught.value.path == str(link.parent.resolve() / link.name)


def test_a_folder_that_is_itself_a_link_is_refused(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".placet").symlink_to(project / ".placet")

    with pytest.raises(TrustError, match=r"other/\.placet is a link"):
        snapshot(other)


def test_a_pipe_is_refused_and_not_waited_for(project: Path) -> None:
    os.mkfifo(project / ".placet" / "pipe")

    with pytest.raises(TrustError, match="pipe is a thing that is no file"):
        snapshot(project)


def test_too_much_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".placet" / "big").write_bytes(b"x" * 5_000)

    monkeypatch.setattr(module, "BYTES_AT_MOST", 4_999)
    with pytest.raises(TrustError, match=r"holds more than \d+ MB.*belongs in .*data"):
        snapshot(project)

    monkeypatch.setattr(module, "BYTES_AT_MOST", 5_010)
    assert len(snapshot(project).files) == 4


def test_too_many_are_refused(project: Path) -> None:
    many = project / ".placet" / "many"
    many.mkdir()
    # With the folder itself, its neighbours and theirs: exactly as many as may be.
    for number in range(module.FILES_AT_MOST - 5):
        (many / str(number)).touch()
    assert len(snapshot(project).files) == module.FILES_AT_MOST - 2

    (many / "one more").touch()

    with pytest.raises(TrustError, match="holds more than 1,000 files and folders"):
        snapshot(project)


def test_too_deep_is_refused(project: Path) -> None:
    (project / ".placet" / Path(*"a" * 30)).mkdir(parents=True)

    with pytest.raises(TrustError, match="folders more than 20 deep"):
        snapshot(project)


@pytest.mark.parametrize("name", ["empty", "nowhere", "file", "bad\0name"])
def test_where_there_is_no_project_that_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / ".placet").write_text("")

    with pytest.raises(TrustError, match=r"has no \.placet folder.*Name the folder|is no folder"):
        snapshot(tmp_path / name)


# What is remembered


def test_nothing_is_made_by_looking(project: Path, env: dict[str, str], tmp_path: Path) -> None:
    assert how_trusted(snapshot(project), env) == "unknown"
    assert trusted_folders(env) == {}
    assert not forget(project, env)
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


@pytest.mark.parametrize("mask", [0, 0o077], ids=oct)
def test_the_record_is_private(project: Path, env: dict[str, str], mask: int) -> None:
    before = os.umask(mask)
    try:
        trust(snapshot(project), env)
    finally:
        os.umask(before)

    folder = record_file(env).parent
    assert sorted(path.name for path in folder.iterdir()) == ["trust.json", "trust.lock"]
    assert {mode(path) for path in folder.iterdir()} == {"0o600"}
    assert mode(folder) == mode(folder.parent) == mode(folder.parent.parent) == "0o700"


def test_a_folder_is_known_by_its_real_path(project: Path, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(project)

    trust(snapshot(tmp_path / "short"), env)

    assert list(trusted_folders(env)) == [str(project.resolve())]
    assert is_trusted(snapshot(project), env)


def test_the_same_files_elsewhere_are_not_trusted(project: Path, env: dict[str, str], tmp_path: Path) -> None:
    trust(snapshot(project), env)
    project.rename(tmp_path / "moved")

    assert how_trusted(snapshot(tmp_path / "moved"), env) == "unknown"


def test_trust_can_be_taken_back_also_from_a_folder_that_is_gone(
    project: Path, env: dict[str, str], tmp_path: Path
) -> None:
    trust(snapshot(project), env)
    project.rename(tmp_path / "gone")

    assert forget(project, env)
    assert not forget(project, env)
    assert trusted_folders(env) == {}


def test_a_name_that_is_no_text_is_remembered(env: dict[str, str], tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"od\xffd")
    (odd / ".placet").mkdir(parents=True)
    (odd / ".placet" / os.fsdecode(b"\xfe")).touch()

    trust(snapshot(odd), env)

    assert is_trusted(snapshot(odd), env)
    assert forget(odd, env)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "\xff",
        '{"format": 1}',
        '{"format": 2, "folders": {}}',
        '{"format": 1, "folders": {"/x": "yes"}}',
        '{"format": 1, "folders": {"/x": {"digest": "a"}}}',
        '{"format": 1, "folders": {"/x": {"digest": "a", "time": "b", "all": true}}}',
        '{"format": 1, "folders": {}, "all": true}',
    ],
)
def test_a_damaged_record_trusts_nobody_and_is_not_written_over(
    project: Path, env: dict[str, str], text: str
) -> None:
    seen = snapshot(project)
    record = record_file(env)
    record.parent.mkdir(parents=True)
    record.write_text(text, encoding="latin-1")

    for call in (
        lambda: is_trusted(seen, env),
        lambda: trust(seen, env),
        lambda: forget(project, env),
        lambda: trusted_folders(env),
    ):
        with pytest.raises(TrustError, match=r"is damaged.*placet trust PATH|has format 2") as caught:
            call()
        assert caught.value.path == str(record)

    assert record.read_text(encoding="latin-1") == text


def test_a_record_that_cannot_be_written_is_named(project: Path, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "outer").write_text("a file where a folder should be")

    with pytest.raises(TrustError, match=r"trust\.json cannot be .*: Not a directory"):
        trust(snapshot(project), env)


def test_what_a_crash_left_is_no_hindrance(project: Path, env: dict[str, str]) -> None:
    record_file(env).parent.mkdir(parents=True)
    record_file(env).with_suffix(".part").write_text('{"format": 1, "fold')

    trust(snapshot(project), env)

    assert is_trusted(snapshot(project), env)
    assert not record_file(env).with_suffix(".part").exists()


TRUST_MANY = """
import os, sys
from pathlib import Path
from placet.app.trust import snapshot, trust
print("ready", flush=True)
sys.stdin.readline()
for folder in sys.argv[1:]:
    trust(snapshot(Path(folder)), os.environ)
"""


def test_processes_that_trust_at_once_are_all_remembered(tmp_path: Path, env: dict[str, str]) -> None:
    folders = [tmp_path / f"p{number}" for number in range(90)]
    for folder in folders:
        (folder / ".placet").mkdir(parents=True)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRUST_MANY, *map(str, folders[number::3])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env, "PYTHONPATH": str(ROOT / "src")},
        )
        for number in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(json.loads(record_file(env).read_text())["folders"]) == sorted(map(str, folders))
