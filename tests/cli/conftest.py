"""The command line as a person meets it: a process of its own, with real pipes, signals and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.command import PLACET
from tests.warm import Warm

ROOT = Path(__file__).resolve().parents[2]

TOOLS = '''
import asyncio
import os
import sys
import time
from pathlib import Path

from placet import ToolError, tool

print("loading the tools")


@tool(risk="read_only")
def look(what: str = "x") -> str:
    """Look something up."""
    return f"found {what}"


@tool
def mark(file: str) -> str:
    """Leave a trace outside."""
    with open(file, "a") as trace:
        trace.write("marked\\\\n")
    return "marked"


@tool
def loud() -> str:
    """Print in every way there is."""
    print("python speaks")
    sys.stdout.flush()
    os.write(1, b"the descriptor speaks\\\\n")
    os.system("echo a child speaks")
    return "done"


@tool
def fail(text: str = "it broke") -> str:
    """Fail with these words."""
    raise ToolError(text)


@tool(risk="read_only")
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@tool
def block(seconds: float) -> str:
    """Block a thread."""
    time.sleep(seconds)
    return "woke"
'''


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What stdout holds; fails unless that is one JSON document and nothing else."""
        return json.loads(self.out)


Placet = Callable[..., Done]


def command(*arguments: str | Path) -> list[str]:
    """The command line that runs `placet`."""
    return [*PLACET, *map(str, arguments)]


def warm_command(*arguments: str | Path) -> list[str]:
    """As `command`, where it does not matter how its process is started; signals reach it as well."""
    return [*Warm.last.command, *map(str, arguments)]


@pytest.fixture(autouse=True)
def _is_loaded(warm: Warm) -> None:
    """What `warm_command` needs."""


def environment(**extra: str) -> dict[str, str]:
    """Ours, with the source first and nothing that changes how output looks."""
    base = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PLACET_DEBUG")
    }
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), base.get("PYTHONPATH", "")]))
    return {**base, "PYTHONPATH": path, **extra}


def without_module(folder: Path, name: str) -> dict[str, str]:
    """Variables with which an interpreter that is started does not find a module."""
    hide = folder / "hidden"
    hide.mkdir()
    # Python imports a module of this name at its start.
    (hide / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {name!r}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(hide), environment()["PYTHONPATH"]])}


@pytest.fixture
def fresh(tmp_path: Path) -> Placet:
    """Run a command in an empty folder, by an interpreter that is started for it, and wait for its end."""

    def run(*arguments: str | Path, stdin: str | bytes = "", cwd: Path = tmp_path, **env: str) -> Done:
        done = subprocess.run(
            command(*arguments),
            input=stdin if isinstance(stdin, bytes) else stdin.encode(),
            cwd=cwd,
            env=environment(**env),
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def placet(tmp_path: Path, warm: Warm) -> Placet:
    """As `fresh`, for commands of which it does not matter how they are started: nearly all."""

    def run(*arguments: str | Path, stdin: str | bytes = "", cwd: Path = tmp_path, **env: str) -> Done:
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin if isinstance(stdin, bytes) else stdin.encode())
            for stream in (given, out, err):
                stream.seek(0)
            code = warm.run(
                [*map(str, arguments)],
                cwd=cwd,
                environment=environment(**env),
                streams=[given.fileno(), out.fileno(), err.fileno()],
            )
            return Done(code, *(stream.seek(0) or stream.read().decode() for stream in (out, err)))

    return run


quick = placet
"""The same, by an older name."""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start a command and leave it running."""

    def begin(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command(*arguments), cwd=tmp_path, env=environment(), **streams)

    return begin


@pytest.fixture
def warm_start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """As `start`, for commands of which it does not matter how they are started."""

    def begin(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(warm_command(*arguments), cwd=tmp_path, env=environment(), **streams)

    return begin


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A file of tools."""
    path = tmp_path / "tools.py"
    path.write_text(TOOLS.replace("\\\\n", "\\n"), encoding="utf-8")
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    """Write a plan of these actions and return its file."""

    def write(*actions: dict[str, Any], name: str = "plan.json") -> Path:
        path = tmp_path / name
        path.write_text(
            json.dumps({"id": "p1", "source": "test", "actions": list(actions)}), encoding="utf-8"
        )
        return path

    return write
