"""The sdist, the wheel and a clone install into an empty environment: the core, each extra, all of them.

The environment starts with the core alone. Placet is then asked for something that needs an extra, and the
command that it prints is typed as it stands. Making an environment takes longest, so there is one.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from placet.extras import install_command

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
}
"""Something to ask for that needs the extra, and ends by itself. Last: what brings along another extra."""

pytestmark = pytest.mark.timeout(600)


def _run(
    *command: str | Path, cwd: Path, shell: str | None = None, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program as somebody with an environment of their own would: nothing of ours is on its path."""
    ours = ("PYTHON", "PLACET_", "XDG_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        ["sh", "-c", shell] if shell else list(map(str, command)),
        cwd=cwd,
        env=kept
        | {
            "HOME": str(cwd),
            "XDG_DATA_HOME": str(cwd / "data"),
            "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", os.path.expanduser("~/.cache/pip")),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist, built once for all processes of this test run."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "distributions"
    with open(shared / "distributions.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=shared)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an empty environment. Its folder has a space in it, as folders of people do."""
    home = tmp_path / "an environment"
    _run(sys.executable, "-m", "venv", home, cwd=tmp_path)
    return home / "bin" / "python"


def _install(python: Path, what: str | Path, *options: str) -> str:
    """Install, and return what pip said. Nobody may be asked for a distribution called `placet`."""
    said = _run(python, "-m", "pip", "install", "-vv", *options, what, cwd=python.parents[2]).stdout
    assert "versions of placet" not in said
    return said


def _missing(python: Path, extra: str) -> str | None:
    """The command that Placet prints for what it lacks; None if it lacks nothing."""
    done = _run(python.with_name("placet"), *NEEDS[extra], cwd=python.parents[2], code=None)
    if NEEDS[extra][0] == "model":
        models = {model["extra"]: model for model in json.loads(done.stdout)["models"]}
        return models[extra]["install"]
    _, found, command = done.stderr.partition("Install it with: ")
    return command.splitlines()[0] if found else None


def test_every_extra_is_tried_here() -> None:
    assert set(EXTRAS) == {*NEEDS, "all", "dev"}
    assert EXTRAS["all"] == [f"placet[{','.join(sorted(NEEDS))}]"]


def test_it_installs_from_sdist_wheel_and_clone(built: dict[str, Path], python: Path, tmp_path: Path) -> None:
    _install(python, built["sdist"])
    assert _run(python, "-c", PROGRAM, cwd=tmp_path).stdout == "42\n"
    assert _run(python.with_name("placet"), "--version", cwd=tmp_path).stdout.startswith("placet ")
    assert built["sdist"].as_uri() in (_missing(python, "mcp") or "")

    # It has the same version, and what it needs is there.
    _install(python, built["wheel"], "--force-reinstall", "--no-deps")
    for extra in NEEDS:
        command = _missing(python, extra)
        assert built["wheel"].as_uri() in (command or ""), extra
        _run(cwd=tmp_path, shell=command)
        assert _missing(python, extra) is None, extra

    _install(python, f"{ROOT}[all]")
    assert [_missing(python, extra) for extra in NEEDS] == [None] * len(NEEDS)


def test_files_that_only_make_sense_in_a_clone_are_not_in_the_wheel(built: dict[str, Path]) -> None:
    from zipfile import ZipFile

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
