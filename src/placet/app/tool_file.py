"""Tools out of a file: Python functions, or commands that a TOML file names.

Keep true:
1. Loading a tools file runs that file, as importing it would; nothing else here runs what it reads.
2. Of a trusted folder only what was looked at is run, whatever is on the disk by then.
"""

from __future__ import annotations

import sys
import traceback
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from placet.app.files import read_file
from placet.app.seen_modules import SeenTools, importing_from
from placet.errors import ToolDeclarationError, ToolFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.app.reach import Reach, RunsIn
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace
    from placet.tools.tool import Tool

_EXAMPLE = """Write one like this:

    from placet import tool

    @tool(risk="read_only")
    def greet(name: str) -> str:
        \"\"\"Say hello.\"\"\"
        return f"Hello, {name}!"
"""


def load_tools(path: str, seen: SeenTools | None = None) -> list[Tool]:
    """The tools that a Python file defines at its top level, or a TOML file as commands, in their order.

    With `seen` a file is what it held when somebody looked at it, and it is not read again. What lies beside
    it is then imported from what was looked at too, also later, while a tool runs.

    Raises:
        InputError: the file cannot be read.
        ToolFileError: it raises, or holds no tool; names the line.
    """
    return load_with_reach(path, seen)[0]


def load_with_reach(
    path: str,
    seen: SeenTools | None = None,
    workspace: Workspace | None = None,
    isolation: Isolation | None = None,
    hosts: Sequence[str] = (),
) -> tuple[list[Tool], dict[str, Reach]]:
    """The same, and by name where each of them runs. Commands run in `workspace`, confined as `isolation`
    says; those that name no hosts may speak to `hosts`.

    Raises:
        InputError: the file cannot be read.
        ToolFileError: it raises, or holds no tool; names the line.
    """
    from placet.app.reach import PYTHON, Reach

    if path.endswith(".toml"):
        from placet.app.command_tools import read_programs

        source = seen.source if seen is not None else read_file(path)
        programs = read_programs(Path(path), source, workspace, isolation)
        inside: RunsIn = "nothing" if isolation is None or isolation.required == "none" else "sandbox"
        return [each.tool for each in programs], {
            each.tool.name: Reach(inside, each.hosts or hosts) if each.is_confined else Reach("program")
            for each in programs
        }
    found = _load_python(path, seen)
    return found, dict.fromkeys((tool.name for tool in found), PYTHON)


def _load_python(path: str, seen: SeenTools | None) -> list[Tool]:
    if not path.endswith(".py"):
        raise ToolFileError(
            f"Tools file {path}: its name ends neither in .py nor in .toml, so it is not loaded. Name a "
            "Python file with @tool functions, or a TOML file of programs."
        )
    from placet.tools.tool import Tool

    if seen is not None:
        with importing_from(seen, path) as builtins:
            module = _run_file(path, seen.source, builtins)
    else:
        source = read_file(path)
        _find_beside(path)
        module = _run_file(path, source)
    found: dict[int, Tool] = {}
    names: dict[str, str] = {}
    for attribute, item in vars(module).items():
        if isinstance(item, Tool) and id(item) not in found:
            if item.name in names:
                raise ToolFileError(
                    f"Tools file {path}: '{names[item.name]}' and '{attribute}' are both '{item.name}'. "
                    'Give one another name with @tool(name="...").'
                )
            names[item.name] = attribute
            found[id(item)] = item
            _compile(path, item)
    if not found:
        raise ToolFileError(f"Tools file {path} holds no tool. {_EXAMPLE}")
    return list(found.values())


def _compile(path: str, tool: Tool) -> None:
    try:
        tool.compile()
    except ToolDeclarationError as error:
        raise ToolFileError(f"Tools file {path}: {error}") from error


def _find_beside(path: str) -> None:
    folder = str(Path(path).resolve().parent)
    if folder not in sys.path:
        # Last, so that a file beside the tools cannot take the place of an installed module.
        sys.path.append(folder)


def _run_file(path: str, source: bytes, builtins: dict[str, Any] | None = None) -> ModuleType:
    """Run a Python file as a module under a name that nobody imports by accident."""
    full = str(Path(path).resolve())
    name = f"_placet_tools_{sha256(full.encode(errors='replace')).hexdigest()[:12]}"
    loader = SourceFileLoader(name, full)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    # In sys.modules, because decorators and type hints look their module up there.
    sys.modules[name] = module
    if builtins is not None:
        vars(module)["__builtins__"] = builtins
    try:
        exec(loader.source_to_code(source, full), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.modules.pop(name, None)  # Another thread may load the same file.
        raise ToolFileError(_what_broke(path, full, error)) from error
    return module


def _what_broke(path: str, full: str, error: BaseException) -> str:
    hint = "Mend the file; PLACET_DEBUG=1 shows the whole traceback."
    if isinstance(error, SyntaxError):
        line = f", line {error.lineno}" if error.lineno else ""
        return f"Tools file {path}{line}: it is not Python ({error.msg}). {hint}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == full]
    line = f", line {lines[-1]}" if lines else ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        hint = f"Install '{error.name}' into this environment, or mend the import."
    words = f"{type(error).__name__}: {error}".rstrip(": .")
    return f"Tools file {path}{line}: loading it raised {words}. {hint}"
