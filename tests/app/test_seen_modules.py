"""Code of a trusted project: what was looked at is what runs, and so is what it imports from there."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from placet.app.governance import Question, gather
from placet.app.tool_file import load_tools
from placet.errors import ToolFileError

TOOLS = "from placet import tool\n\n@tool\ndef t() -> str:\n    'T.'\n"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """What the interpreter looks at is put back."""
    before = list(sys.meta_path), list(sys.path)
    yield
    sys.meta_path[:], sys.path[:] = before
    for name in [name for name in sys.modules if name.startswith(("seen_", "_placet_tools_"))]:
        del sys.modules[name]


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"HOME": str(folder.parent / "home")}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / ".placet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def load(self, *changes: tuple[str, str]) -> Any:
        """The one tool of the project; `changes` are made while the person looks at it."""

        def confirm(question: Question) -> bool:
            for name, text in changes:
                self.write(name, text)
            return True

        found = gather(self.folder, self.env, confirm=confirm)
        assert found.tools is not None
        assert found.tools_source is not None
        [tool] = load_tools(found.tools, found.tools_source)
        return tool


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path.resolve() / "p")
    made.write("settings.toml", 'tools = "tools.py"\n')
    return made


def test_a_module_beside_the_tools_is_what_was_looked_at(project: Project) -> None:
    project.write("tools.py", f"import seen_a\n{TOOLS}    return seen_a.WORD\n")
    project.write("seen_a.py", "WORD = 'harmless'\n")

    tool = project.load(("seen_a.py", "WORD = 'evil'\n"))

    assert tool() == "harmless"
    assert str(project.folder / ".placet") not in sys.path
    assert not list(project.folder.rglob("__pycache__"))


def test_an_import_within_a_tool_is_from_what_was_looked_at(project: Project) -> None:
    project.write("tools.py", f"{TOOLS}    import seen_b\n    return seen_b.WORD\n")
    project.write("seen_b.py", "WORD = 'harmless'\n")
    tool = project.load()

    project.write("seen_b.py", "WORD = 'evil'\n")

    assert tool() == "harmless"


def test_packages_are_from_what_was_looked_at(project: Project) -> None:
    project.write(
        "tools.py",
        f"{TOOLS}    import seen_c.deep.one, seen_plain.two, pkgutil\n"
        "    text = pkgutil.get_data('seen_c', 'a.txt').decode()\n"
        "    return [seen_c.deep.one.WORD, seen_plain.two.WORD, text]\n",
    )
    words = {
        "seen_c/__init__.py": "",
        "seen_c/a.txt": "harmless text",
        "seen_c/deep/__init__.py": "",
        "seen_c/deep/one.py": "from .other import WORD\n",
        "seen_c/deep/other.py": "WORD = 'harmless'\n",
        "seen_plain/two.py": "WORD = 'harmless too'\n",
    }
    for name, text in words.items():
        project.write(name, text)
    tool = project.load(*((name, "WORD = 'evil'\nraise RuntimeError\n") for name in words))

    assert tool() == ["harmless", "harmless too", "harmless text"]
    assert not list(project.folder.rglob("__pycache__"))


def test_what_was_not_there_is_not_found_even_on_the_path(project: Project) -> None:
    project.write(
        "tools.py",
        f"import sys\nsys.path.insert(0, __file__[:-9])\n{TOOLS}    import seen_d\n    return 'x'\n",
    )
    tool = project.load()
    project.write("seen_d.py", "open('ran', 'w')\n")
    project.write("data/seen_e.py", "")
    sys.path.append(str(project.folder / ".placet" / "data"))

    with pytest.raises(ModuleNotFoundError, match="No module named 'seen_d' among what was looked at"):
        tool()
    with pytest.raises(ModuleNotFoundError, match="No module named 'seen_e' among what was looked at"):
        importlib.import_module("seen_e")


def test_a_folder_that_the_code_puts_on_the_path_is_read_from_what_was_looked_at(project: Project) -> None:
    project.write("settings.toml", 'tools = "deep/tools.py"\n')
    project.write(
        "deep/tools.py",
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parents[1]))\n"
        f"import seen_f, seen_g\n{TOOLS}    return seen_f.WORD + seen_g.WORD\n",
    )
    project.write("seen_f.py", "WORD = 'above '\n")
    project.write("deep/seen_g.py", "WORD = 'beside'\n")

    tool = project.load(("seen_f.py", "WORD = 'evil'"), ("deep/seen_g.py", "WORD = 'evil'"))

    assert tool() == "above beside"


def test_what_is_installed_goes_before_a_file_of_the_project(project: Project) -> None:
    project.write("tools.py", f"{TOOLS}    import colorsys\n    return colorsys.__file__\n")
    project.write("colorsys.py", "raise RuntimeError\n")
    sys.modules.pop("colorsys", None)

    tool = project.load()

    assert not tool().startswith(str(project.folder))
    assert importlib.util.find_spec("no_such_module_anywhere") is None


def test_a_folder_elsewhere_does_not_hide_a_module(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cwd" / "seen_h").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "cwd")
    project.write("tools.py", f"import seen_h\n{TOOLS}    return seen_h.WORD\n")
    project.write("seen_h.py", "WORD = 'harmless'\n")

    assert project.load()() == "harmless"


def test_a_second_project_gets_its_own_modules(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path.resolve() / "q")
    other.write("settings.toml", 'tools = "tools.py"\n')
    words = []
    for each, word in ((project, "first"), (other, "second"), (project, "first")):
        each.write("tools.py", f"import seen_i, seen_j.k\n{TOOLS}    return seen_i.WORD + seen_j.k.WORD\n")
        each.write("seen_i.py", f"WORD = '{word} '\n")
        each.write("seen_j/k.py", f"WORD = '{word}'\n")
        words.append(each.load()())

    assert words == ["first first", "second second", "first first"]


def test_projects_that_are_loaded_and_called_at_once_get_their_own_modules(tmp_path: Path) -> None:
    """As runs of a worker are: also what a tool imports when it is called is of its own project."""
    projects = [Project(tmp_path.resolve() / word) for word in ("first", "second")]
    for each in projects:
        each.write("settings.toml", 'tools = "tools.py"\n')
        late = "    time.sleep(0.01)\n    import seen_o.p\n    return seen_n.WORD + ' ' + seen_o.p.WORD\n"
        each.write("tools.py", f"import time, seen_n\n{TOOLS}{late}")
        for name in ("seen_n.py", "seen_o/p.py"):
            each.write(name, f"import time\ntime.sleep(0.01)\nWORD = '{each.folder.name}'\n")
        each.load()  # It is asked for once.
    both = [projects[n % 2] for n in range(12)]

    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda each: each.load()(), both))

    assert said == [f"{each.folder.name} {each.folder.name}" for each in both]
    assert importlib.util.find_spec("no_such_module_anywhere") is None


def test_an_error_beside_the_tools_names_the_line_of_the_import(project: Project) -> None:
    project.write("tools.py", f"import sys\nimport seen_l\n{TOOLS}    return 'x'\n")
    project.write("seen_l.py", "1 / 0\n")

    with pytest.raises(ToolFileError, match=r"tools\.py, line 2: loading it raised ZeroDivisionError"):
        project.load()


def test_tools_that_are_named_import_from_the_disk_as_ever(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"{TOOLS}    import seen_m\n    return seen_m.WORD\n")
    (tmp_path / "seen_m.py").write_text("WORD = 'before'\n")
    code = (
        "import json, sys\nfrom pathlib import Path\nfrom placet.app.tool_file import load_tools\n"
        "[t] = load_tools(sys.argv[1])\n"
        "Path(sys.argv[1]).with_name('seen_m.py').write_text('WORD = \"now\"')\n"
        "print(json.dumps(t()))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "tools.py")], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == "now"
