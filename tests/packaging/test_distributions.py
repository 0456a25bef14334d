"""The sdist, the wheel and a clone install into an empty environment: the core, each extra, all of them.

The environment starts with the core alone, of the wheel. Placet is then asked for something that needs an
extra, and the command that it prints is typed as it stands. Making an environment takes longest, so there is
one: the sdist and the clone go there too. What Placet needs is installed from wheels packed from this
environment, so that no index has to be asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from placet.extras import install_command
from tests.properties.effort import SOAK

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

PROGRAM = """
from placet import Runtime, tool

@tool
def double(n: int) -> int:
    return 2 * n

plan = {"actions": [{"id": "a", "tool": "double", "parameters": {"n": 21}}]}
print(Runtime(tools=[double]).execute_sync(plan)["a"].output)
"""

NEEDS = {
    "postgres": ["runs", "--db", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"],
    "local": ["model", "--json"],
    "embed": ["model", "--json"],
    "server": ["serve", "--no-open", "--host", "0.0.0.0"],  # Refused before it would serve.
    "mcp": ["mcp", "serve"],
    "otel": ["doctor", "--json"],
    "temporal": ["worker", "--temporal", "127.0.0.1:1", "--db", "runs.db"],
    "durable": ["worker", "--db", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"],
}
"""Something to ask for that needs the extra, and ends by itself. Last: what brings along another extra."""

TYPED = ("durable",)
"""Those that are installed one by one each time. The others are in `make soak`: each takes seconds."""

ASK = """
import json, os, sys
from contextlib import suppress
from placet.cli.main import main

for number, command in enumerate(json.loads(sys.argv[1])):
    for stream in (1, 2):
        os.dup2(os.open(f"said-{number}-{stream}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
    with suppress(SystemExit):
        main(command)
    sys.stdout.flush()
    sys.stderr.flush()
"""
"""Commands in one process, which keeps what each writes: to start is most of what they would take alone."""

WHENCE = "from placet.extras import install_command; print(install_command('mcp'))"

pytestmark = pytest.mark.timeout(600)


def _run(
    *command: str | Path, cwd: Path, shell: str | None = None, at: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as somebody with an environment of their own would: nothing of ours is on its path.

    `at` is where it is started, if not in `cwd`, which is a home to it.
    """
    ours = ("PYTHON", "PLACET_", "XDG_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        ["sh", "-c", shell] if shell else list(map(str, command)),
        cwd=at or cwd,
        env=kept
        | {
            "HOME": str(cwd),
            "XDG_DATA_HOME": str(cwd / "data"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(cwd / "wheels"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "0",  # So that nothing is compiled: pip takes the value for that of --compile.
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _dependencies() -> dict[str, Distribution]:
    """What Placet with all extras needs, and what it is built with."""
    found: dict[str, Distribution] = {}
    asked: set[str] = set()
    todo = [Requirement("placet[all]"), Requirement("hatchling")]
    while todo:
        wanted = todo.pop()
        found[wanted.name] = distribution(wanted.name)
        if str(wanted) in asked:
            continue
        asked.add(str(wanted))
        for each in map(Requirement, found[wanted.name].requires or ()):
            if not each.marker or any(
                each.marker.evaluate({"extra": extra}) for extra in wanted.extras or {""}
            ):
                todo.append(each)
    del found["placet"]
    return found


def _pack(installed: Distribution, folder: Path) -> None:
    """A wheel of what is installed."""
    tags = [
        line[5:].split("-")
        for line in (installed.read_text("WHEEL") or "").splitlines()
        if line[:5] == "Tag: "
    ]
    sets = "-".join(".".join(sorted(set(column))) for column in zip(*tags, strict=True))
    name = installed.name.replace("-", "_")
    with ZipFile(folder / f"{name}-{installed.version}-{sets}.whl", "w") as wheel:
        for file in installed.files or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                wheel.write(file.locate(), str(file))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("distributions")
    _run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=folder, at=ROOT)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an empty environment. Its folder has a space in it, as folders of people do."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for each in _dependencies().values():
        _pack(each, wheels)
    home = tmp_path / "an environment"
    _run(sys.executable, "-m", "venv", "--without-pip", home, cwd=tmp_path)
    python = home / "bin" / "python"
    _lend(python, "pip")
    return python


def _lend(python: Path, *packages: str) -> None:
    """Let an environment have packages that are here, without unpacking them."""
    [folder] = python.parents[1].glob("lib/python*/site-packages")
    for name in packages:
        (folder / name).symlink_to(Path(distribution(name).locate_file(name)))


def _install(python: Path, what: str | Path, *options: str) -> None:
    """Install. No other distribution called `placet` may be asked for: there is none among the wheels."""
    _run(python, "-m", "pip", "install", *options, what, cwd=python.parents[2])


def _missing(python: Path, extras: Iterable[str]) -> dict[str, str]:
    """The commands that Placet prints for what it lacks; nothing for what it does not lack."""
    commands = list(dict.fromkeys(tuple(NEEDS[extra]) for extra in extras))
    folder = python.parents[2]
    _run(python, "-c", ASK, json.dumps(commands), cwd=folder)
    told = {}
    for extra in extras:
        number = commands.index(tuple(NEEDS[extra]))
        told[extra] = _told(extra, *((folder / f"said-{number}-{stream}").read_text() for stream in (1, 2)))
    return {extra: command for extra, command in told.items() if command}


def _told(extra: str, out: str, err: str) -> str | None:
    """The command for one extra, in what was written for it."""
    if NEEDS[extra][0] == "model":
        models = {model["extra"]: model for model in json.loads(out)["models"]}
        install: str | None = models[extra]["install"]
        return install
    if NEEDS[extra][0] == "doctor":
        extras = {each["name"]: each["install"] for each in json.loads(out)["extras"]}
        return extras[extra] or None
    _, found, command = err.partition("Install it with: ")
    return command.splitlines()[0] if found else None


def test_every_extra_is_tried_here() -> None:
    assert set(EXTRAS) == {*NEEDS, "all", "dev"}
    assert EXTRAS["all"] == [f"placet[{','.join(sorted(NEEDS))}]"]


def test_it_installs_from_wheel_sdist_and_clone(built: dict[str, Path], python: Path, tmp_path: Path) -> None:
    _install(python, built["wheel"])
    assert _run(python, "-c", PROGRAM, cwd=tmp_path).stdout == "42\n"
    assert _run(python.with_name("placet"), "--version", cwd=tmp_path).stdout.startswith("placet ")
    commands = _missing(python, NEEDS)
    assert [extra for extra in NEEDS if built["wheel"].as_uri() not in commands.get(extra, "")] == []
    for extra in NEEDS if SOAK else TYPED:
        _run(cwd=tmp_path, shell=commands[extra])
        assert _missing(python, [extra]) == {}

    _install(python, f"placet[all] @ {built['sdist'].as_uri()}")
    assert _missing(python, NEEDS) == {}
    assert built["sdist"].as_uri() in _run(python, "-c", WHENCE, cwd=tmp_path).stdout

    # It has the same version, and what it needs is there. What builds it was installed for the sdist.
    _lend(python, "hatchling", "pathspec", "pluggy", "trove_classifiers")
    _install(python, ROOT, "--force-reinstall", "--no-deps", "--no-build-isolation")
    assert str(ROOT) in _run(python, "-c", WHENCE, cwd=tmp_path).stdout


def test_files_that_only_make_sense_in_a_clone_are_not_in_the_wheel(built: dict[str, Path]) -> None:
    names = ZipFile(built["wheel"]).namelist()

    assert {name.split("/")[0].split("-")[0] for name in names} == {"placet"}
    assert "placet/py.typed" in names
    assert any(name.startswith("placet/loops/templates/") for name in names)


CLONE = "file:///CLONE"
IN_A_CLONE = "'.[mcp]' (in a clone"


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        pytest.param({"url": CLONE, "dir_info": {"editable": True}}, "-e '{clone}[mcp]'", id="editable"),
        pytest.param({"url": CLONE, "dir_info": {}}, "'{clone}[mcp]'", id="a folder"),
        pytest.param(
            {
                "url": "https://example.org/placet.git",
                "vcs_info": {"vcs": "git", "commit_id": "0f1e", "requested_revision": "main"},
            },
            "'placet[mcp] @ git+https://example.org/placet.git@0f1e'",
            id="version control",
        ),
        pytest.param(
            {"url": "https://example.org/placet.whl", "archive_info": {}},
            "'placet[mcp] @ https://example.org/placet.whl'",
            id="an archive elsewhere",
        ),
        pytest.param({"url": "file:///gone/placet.whl", "archive_info": {}}, IN_A_CLONE, id="gone"),
        pytest.param(None, IN_A_CLONE, id="nothing recorded"),
        pytest.param("{", IN_A_CLONE, id="a record that cannot be read"),
    ],
)
def test_the_command_names_where_placet_came_from(
    origin: object, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "a {clone} with spaces"
    clone.mkdir()
    record = tmp_path / "placet-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: placet\nVersion: 0.1.0\n")
    if origin is not None:
        text = origin if isinstance(origin, str) else json.dumps(origin)
        (record / "direct_url.json").write_text(text.replace(CLONE, clone.as_uri()))
    monkeypatch.syspath_prepend(str(tmp_path))

    command = install_command("mcp")

    assert wanted.replace("{clone}", str(clone), 1) in command
    assert command.startswith(sys.executable)
