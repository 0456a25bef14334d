"""`placet trust`: shown, asked, remembered, taken back."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, environment, warm_command

Trust = Callable[..., Done]


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """Folders of a person who has trusted nothing yet."""
    return {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def trust(quick: Callable[..., Done], own: dict[str, str]) -> Trust:
    """Run `placet trust` without a terminal."""
    return lambda *arguments, **options: quick("trust", *arguments, **{**own, **options})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".placet").mkdir(parents=True)
    (folder / ".placet" / "settings.toml").write_text('tools = "tools.py"\n')
    (folder / ".placet" / "tools.py").write_text("x = 1\n")
    return folder.resolve()


def record(own: dict[str, str]) -> Path:
    return Path(own["XDG_DATA_HOME"]) / "placet" / "trust.json"


def on_a_terminal(
    *arguments: str | Path,
    cwd: Path,
    answer: bytes,
    meanwhile: Callable[[], object] = lambda: None,
    out: Path | None = None,
    **env: str,
) -> tuple[int, str]:
    """Run a command with all three streams on a terminal, and type an answer at its question.

    `meanwhile` is what happens while the person thinks; `out` is a file that stdout goes to instead.
    """
    main, side = pty.openpty()
    own_out = os.open(out, os.O_WRONLY | os.O_CREAT) if out is not None else os.dup(side)
    process = subprocess.Popen(
        warm_command(*arguments),
        stdin=side,
        stdout=own_out,
        stderr=side,
        cwd=cwd,
        env=environment(**env),
        start_new_session=True,
    )
    os.close(side)
    os.close(own_out)
    seen = b""
    end = time.monotonic() + 40
    while time.monotonic() < end:
        if select.select([main], [], [], 0.1)[0]:
            try:
                data = os.read(main, 65536)
            except OSError:
                break
            seen += data
            if answer and b"[y/N]" in seen:
                meanwhile()
                os.write(main, answer)
                answer = b""
        elif process.poll() is not None:
            break
    os.close(main)
    return process.wait(timeout=10), seen.decode()


def test_on_a_terminal_it_is_shown_and_asked(project: Path, own: dict[str, str]) -> None:
    code, seen = on_a_terminal("trust", cwd=project, answer=b"y\n", **own)

    assert code == 0, seen
    assert f"The folder {project} brings 2 files in .placet:" in seen
    assert "19 B  settings.toml" in seen
    assert "6 B  tools.py" in seen
    assert "It runs code from .placet/tools.py." in seen
    assert "Trust it, as it is now? [y/N]" in seen
    assert "Trusted, as it is now." in seen
    assert list(json.loads(record(own).read_text())["folders"]) == [str(project)]


@pytest.mark.parametrize("answer", [b"n\n", b"\n"])
def test_no_is_exit_code_1_and_nothing_is_remembered(
    project: Path, own: dict[str, str], answer: bytes
) -> None:
    code, seen = on_a_terminal("trust", project, cwd=project.parent, answer=answer, **own)

    assert code == 1, seen
    assert "Not trusted: nothing was changed." in seen
    assert not record(own).exists()


def test_what_is_changed_while_the_person_thinks_is_not_trusted(
    project: Path, own: dict[str, str], trust: Trust
) -> None:
    tools = project / ".placet" / "tools.py"

    code, seen = on_a_terminal(
        "trust", cwd=project, answer=b"y\n", meanwhile=lambda: tools.write_text("evil = 1\n"), **own
    )

    assert code == 0, seen
    assert trust("--list", "--json").json["folders"][0]["status"] == "changed"
    code, seen = on_a_terminal("trust", cwd=project, answer=b"n\n", **own)
    assert code == 1
    assert "It has changed since you trusted it." in seen


def test_what_is_changed_while_the_person_thinks_is_not_imported(
    project: Path, own: dict[str, str], tmp_path: Path
) -> None:
    (project / ".placet" / "tools.py").write_text(
        "import helper\nfrom placet import tool\n\n@tool\ndef t() -> str:\n    'T.'\n    return helper.WORD\n"
    )
    helper = project / ".placet" / "helper.py"
    helper.write_text("WORD = 'harmless'\n")
    (project / "plan.json").write_text('{"actions": [{"id": "a", "tool": "t"}]}')

    code, seen = on_a_terminal(
        *("run", "plan.json"),
        cwd=project,
        answer=b"y\n",
        meanwhile=lambda: helper.write_text("WORD = 'evil'\nopen('ran', 'w')\n"),
        **own,
    )

    assert code == 0, seen
    assert "harmless" in seen
    assert "evil" not in seen
    assert not (project / "ran").exists()


def test_the_question_stays_out_of_the_result(project: Path, own: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"

    code, seen = on_a_terminal("trust", "--json", cwd=project, answer=b"y\n", out=out, **own)

    assert code == 0
    assert "It runs code from .placet/tools.py." in seen
    assert out.read_text().startswith('{"folder":')
    assert json.loads(out.read_text())["trusted"] is True


def test_without_a_terminal_it_takes_yes(project: Path, trust: Trust, own: dict[str, str]) -> None:
    done = trust(project)
    assert done.code == 2
    assert f"{project} is not trusted yet, and there is no terminal to ask on." in done.err
    assert "add --yes" in done.err
    assert not record(own).exists()

    done = trust(project, "--yes")
    assert (done.code, done.out) == (0, "")
    assert "It runs code from .placet/tools.py." in done.err

    again = trust(project)
    assert again.code == 0
    assert "It was trusted before, as it is now." in again.err


def test_the_nearest_project_is_meant_where_none_is_named(project: Path, trust: Trust) -> None:
    deep = project / "a" / "b"
    deep.mkdir(parents=True)

    assert trust("--yes", "--json", cwd=deep).json["folder"] == str(project)


@pytest.mark.parametrize("name", ["", ".placet", "a/..", "../project"])
def test_a_folder_can_be_named_in_several_ways(project: Path, trust: Trust, name: str) -> None:
    (project / "a").mkdir()

    assert trust(project / name, "--yes", "--json").json["folder"] == str(project)


def test_json_tells_all_of_it(project: Path, trust: Trust) -> None:
    done = trust(project, "--yes", "--json")

    assert done.code == 0
    data = done.json
    assert len(data.pop("digest")) == 64
    assert data == {
        "folder": str(project),
        "files": [{"path": "settings.toml", "bytes": 19}, {"path": "tools.py", "bytes": 6}],
        "wants": ["runs code from .placet/tools.py"],
        "changed": False,
        "trusted": True,
    }


def test_the_list_says_how_each_folder_stands_now(tmp_path: Path, project: Path, trust: Trust) -> None:
    assert trust("--list").err == "No folder is trusted.\n"
    for name in ("as trusted", "changed", "gone", "unreadable"):
        (tmp_path / name / ".placet").mkdir(parents=True)
        assert trust(tmp_path / name, "--yes").code == 0
    (tmp_path / "changed" / ".placet" / "new").touch()
    (tmp_path / "gone" / ".placet").rmdir()
    (tmp_path / "unreadable" / ".placet" / "link").symlink_to("/")

    done = trust("--list", "--json")

    assert done.code == 0
    assert len(done.json["folders"]) == 4
    assert {Path(row["folder"]).name: row["status"] for row in done.json["folders"]} == {
        name: name for name in ("as trusted", "changed", "gone", "unreadable")
    }
    plain = trust("--list", COLUMNS="300")
    assert plain.code == 0
    assert plain.out.splitlines()[0].split() == ["folder", "now", "trusted", "(UTC)"]
    assert len(plain.out.splitlines()) == 5


def test_trust_can_be_taken_back(project: Path, trust: Trust, tmp_path: Path) -> None:
    trust(project, "--yes")
    project.rename(tmp_path / "moved")

    first = trust(project, "--forget", "--json")
    second = trust(project, "--forget")

    assert (first.code, first.json) == (0, {"folder": str(project), "forgotten": True})
    assert (second.code, second.err) == (0, f"{project}: It was not trusted.\n")
    assert trust("--list", "--json").json == {"folders": []}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "There is no .placet folder in "),
        (["."], "has no .placet folder, so there is nothing to trust in it. Name the folder that has one."),
        (["nowhere"], "nowhere has no .placet folder"),
        ([""], "it is empty"),
        (["--list", "--yes"], "--list goes with --json only."),
        (["--list", "x"], "--list goes with --json only."),
        (["--forget", "--yes"], "do not go together"),
        (["link"], "link/.placet/x is a link"),
        (["bad"], "settings.toml, key 'tols': 'tols' is no key of the settings. Did you mean 'tools'?"),
    ],
)
def test_bad_input_is_exit_code_2_with_words(
    tmp_path: Path, trust: Trust, arguments: list[str], words: str
) -> None:
    for name in ("link", "bad"):
        (tmp_path / name / ".placet").mkdir(parents=True)
    (tmp_path / "link" / ".placet" / "x").symlink_to("/etc/passwd")
    (tmp_path / "bad" / ".placet" / "settings.toml").write_text("tols = 1")

    done = trust(*arguments)

    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_damaged_record_is_named(project: Path, trust: Trust, own: dict[str, str]) -> None:
    record(own).parent.mkdir(parents=True)
    record(own).write_text("{")

    for arguments in ([project, "--yes"], [project, "--forget"], ["--list"]):
        done = trust(*arguments, "--json")

        assert done.code == 2
        assert done.json["error"]["code"] == "input.trust"
        assert str(record(own)) in done.json["error"]["message"]
    assert record(own).read_text() == "{"


def test_names_cannot_steer_the_terminal(tmp_path: Path, trust: Trust) -> None:
    folder = tmp_path / "x\x1b[31m"
    (folder / ".placet").mkdir(parents=True)
    (folder / ".placet" / "a\x1b]0;b\r\nIt is safe").touch()

    done = trust(folder, "--yes")

    assert done.code == 0
    assert "\x1b" not in done.err
    assert "a\\e]0;b\\r\\nIt is safe" in done.err
