"""A project that is installed in place is imported from the export, not from the person's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from placet.checks.import_roots import import_roots, python_path
from tests.coder.workbench import Workbench, write


def environment(folder: Path) -> Path:
    """A place where an environment keeps its packages."""
    packages = folder / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    return packages


def test_a_path_file(tmp_path: Path) -> None:
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    packages = environment(tmp_path)
    (packages / "__editable__.shop-1.pth").write_text(f"{top}/src\n/elsewhere\nimport os; os.x\n")
    found = import_roots(top, {"VIRTUAL_ENV": str(tmp_path / "venv")})
    assert found == ["src"]
    assert python_path("/export", found) == {"PYTHONPATH": "/export/src"}


def test_a_finder(tmp_path: Path) -> None:
    top = tmp_path / "project"
    (top / "shop").mkdir(parents=True)
    packages = environment(tmp_path)
    (packages / "__editable___shop_1_finder.py").write_text(f"MAPPING = {{'shop': '{top}/shop'}}\n")
    found = import_roots(top, {"VIRTUAL_ENV": str(tmp_path / "venv")})
    assert found == ["."]
    assert python_path("/export", found) == {"PYTHONPATH": "/export"}


def test_of_another_project(tmp_path: Path) -> None:
    packages = environment(tmp_path)
    (packages / "a.pth").write_text("/somewhere/else/src\n\n../up\n")
    found = import_roots(tmp_path / "project", {"VIRTUAL_ENV": str(tmp_path / "venv"), "PATH": "/nowhere"})
    assert found == []
    assert python_path("/export", found) == {}


async def test_checks_and_commands_see_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Workbench(tmp_path, {"src/shop.py": "PRICE = 1\n"})
    (environment(tmp_path) / "shop.pth").write_text(f"{here.repository}/src\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    check = f"{sys.executable} -c 'import shop; assert shop.PRICE == 2'"
    with here.coder([write("src/shop.py", "PRICE = 2\n"), "done"]) as coder:
        session = await coder.run("two", [check])
    assert session.is_green, session.results
    assert "AssertionError" in session.baseline[0].output
