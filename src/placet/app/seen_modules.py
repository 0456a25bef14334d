"""Modules that lie in a trusted folder, imported from what was looked at and never from the disk.

Trust is for the files as they were read. Code in them imports others, now or when a tool is called, and by
then anything may be on the disk. Runs in several threads load such folders at once, and Python knows one
module by each name: so the modules of one folder at a time are among those that Python knows.

Keep true:
1. No module is run from a file inside the folder; one that was not there when it was looked at is not found.
2. What is installed, or part of Python, goes before a module of the folder with the same name.
3. Code that was looked at imports from its own folder, in whatever thread and whatever was loaded since.
"""

from __future__ import annotations

import builtins
import importlib.abc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path, PurePosixPath
from threading import RLock
from types import ModuleType
from typing import Any, NamedTuple


class SeenTools(NamedTuple):
    """A file of tools, with all that was looked at together with it."""

    name: str
    """Its path inside the folder."""
    files: Mapping[str, bytes]
    """What each file of the folder held, by its path inside it."""

    @property
    def source(self) -> bytes:
        """What the file of tools held."""
        return self.files[self.name]


@contextmanager
def importing_from(seen: SeenTools, path: str) -> Iterator[dict[str, Any]]:
    """The builtins for the tools file `path`: with them, modules beside it are those that were looked at, now
    and later. As long as this lasts, no other thread imports from what was looked at."""
    beside = Path(os.path.realpath(path)).parent
    folder = beside.joinpath(*[".."] * (len(PurePosixPath(seen.name).parts) - 1))
    finder = _Finder(os.path.realpath(folder), str(beside), seen.files)
    with _Finder.turn:
        finder.take_turn()
        yield finder.builtins


class _Finder(importlib.abc.MetaPathFinder):
    turn = RLock()
    """Held by the thread that imports."""
    present: _Finder | None = None
    """The one whose modules Python knows."""

    def __init__(self, folder: str, beside: str, files: Mapping[str, bytes]) -> None:
        self.builtins = {**vars(builtins), "__import__": self._import}
        self._folder = folder
        self._beside = beside
        self._seen = _Files(folder, files, self.builtins)
        self._modules: dict[str, ModuleType] = {}
        """Those that were found here, while it is another's turn."""

    def _import(self, *args: Any, **more: Any) -> ModuleType:
        with self.turn:
            self.take_turn()
            return builtins.__import__(*args, **more)

    def take_turn(self) -> None:
        """Have Python know the modules of this folder and of no other. Only while `turn` is held."""
        other = _Finder.present
        if other is self:
            return
        if other is not None:
            other._step_back()
        _Finder.present = self
        # First, to have a look at what the others find.
        sys.meta_path[:] = [self, *(each for each in sys.meta_path if not isinstance(each, _Finder))]
        sys.modules.update(self._modules)

    def _step_back(self) -> None:
        for name, module in list(sys.modules.items()):
            spec = getattr(module, "__spec__", None)
            if not isinstance(spec, ModuleSpec):
                continue
            is_ours = isinstance(spec.loader, _Loader) and spec.loader.files is self._seen
            if is_ours or (not spec.has_location and self._is_inside(spec)):
                self._modules[name] = sys.modules.pop(name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module from elsewhere if there is one, else from what was looked at."""
        other = self._elsewhere(fullname, path, target)
        is_inside = other is not None and self._is_inside(other)
        if other is not None and other.loader is not None and not is_inside:
            return other
        last = fullname.rpartition(".")[2]
        for place in [*sys.path, self._beside] if path is None else path:
            inside = self._seen.inside(os.path.join(place, last))
            found = self._seen.spec(fullname, inside) if inside is not None else None
            if found is not None:
                return found
        if is_inside:
            raise ModuleNotFoundError(
                f"No module named {fullname!r} among what was looked at in {self._folder}", name=fullname
            )
        return other

    def _elsewhere(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            # Some finders are so old that they have none.
            find = getattr(finder, "find_spec", None) if not isinstance(finder, _Finder) else None
            found: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if found is not None:
                return found
        return None

    def _is_inside(self, spec: ModuleSpec) -> bool:
        if spec.has_location and spec.origin is not None:
            return self._seen.inside(spec.origin) is not None
        places = list(spec.submodule_search_locations or ())
        return bool(places) and all(self._seen.inside(place) is not None for place in places)


class _Files:
    """The files that were looked at, as a place to import from."""

    def __init__(self, folder: str, files: Mapping[str, bytes], builtins: dict[str, Any]) -> None:
        self.builtins = builtins
        self._folder = folder
        self._files = files

    def inside(self, path: str) -> str | None:
        """A path as the files are called; None if it leads elsewhere."""
        whole = os.path.realpath(path)
        if not whole.startswith(self._folder + os.sep):
            return None
        return PurePosixPath(os.path.relpath(whole, self._folder)).as_posix()

    def data(self, path: str) -> bytes:
        """What a file held.

        Raises:
            FileNotFoundError: it was not there.
        """
        inside = self.inside(path)
        if inside is None or inside not in self._files:
            raise FileNotFoundError(path)
        return self._files[inside]

    def spec(self, fullname: str, inside: str) -> ModuleSpec | None:
        """The module or package that lies there, if one does; `inside` has no ending."""
        for name in (f"{inside}/__init__.py", f"{inside}.py"):
            if name in self._files:
                whole = os.path.join(self._folder, name)
                return spec_from_file_location(fullname, whole, loader=_Loader(fullname, whole, self))
        if any(name.startswith(f"{inside}/") and name.endswith(".py") for name in self._files):
            folder = ModuleSpec(fullname, None, is_package=True)
            folder.submodule_search_locations = [os.path.join(self._folder, inside)]
            return folder
        return None


class _Loader(importlib.abc.SourceLoader):
    """Reads from memory; without times of files, Python neither reads nor writes compiled ones."""

    def __init__(self, fullname: str, path: str, files: _Files) -> None:
        self._name = fullname
        self._path = path
        self.files = files

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self.files.builtins
        super().exec_module(module)

    def get_filename(self, fullname: str) -> str:
        if fullname != self._name:
            raise ImportError(f"this loads {self._name}, not {fullname}", name=fullname)
        return self._path

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError(f"{path} was read once, and has no time")

    def get_data(self, path: bytes | str) -> bytes:
        return self.files.data(os.fsdecode(path))
