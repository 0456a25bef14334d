"""The source of a repository, read as it is needed: which file is meant, and what a name stands for.

Names are followed through imports, classes and their bases by looking at the text. That is a guess where
Python would look at values; so a name that could be many things stands for none.

Keep true:
1. The repository may be hostile. Only regular files beneath the folder are read, through a `Workspace`, and
   not more of them, nor larger ones, than the limits say.
2. Nothing of it is imported or run.
3. Every search is bounded by a number of steps, however the files refer to each other.
"""

from __future__ import annotations

import heapq
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from placet.coder.python_source import (
    Definition,
    Imported,
    PythonFile,
    Use,
    bases,
    decorators,
    lines_behind,
    parameters,
    read_python,
    uses,
)
from placet.errors import ToolError
from placet.sandbox.workspace import Workspace
from placet.tools.builtin.matching.walk import Walk
from placet.tools.builtin.text_file import decode

MOST_PATHS = 50_000
"""Names looked at. What lies behind is not found."""
MOST_FILES = 300
"""Files read for one choice."""
MOST_BYTES = 1 << 20
"""Of one file."""
MOST_READ = 16 << 20
"""Bytes of all of them."""
_MOST_HOPS = 8
"""From one file to the next, until a name is found."""
_MOST_STEPS = 400
"""Definitions that one search passes through."""
_MOST_CLASSES = 200
_MOST_SAME = 8
"""Definitions of one name in one file."""
_MOST_MEANT = 3
"""A method name that more classes have says nothing."""
_FURTHEST = 7.0

_ELSEWHERE = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<")
"""Installed packages, the standard library, code without a file."""
_ROOTS = ((), ("src",), ("lib",), ("python",))
_TEST = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*\.py$|[^/]*_tests?\.py$|tests?\.py$|conftest\.py$)")
_MADE = ("__init__", "__new__", "__post_init__")
_SET_UP = ("setUp", "setUpClass", "asyncSetUp", "setup_method", "setup_class", "setup")


@dataclass(frozen=True, slots=True)
class Start:
    """Where a search begins."""

    definition: Definition
    line: int | None = None
    """Where in it the failure is. What is used there is nearer than the rest."""
    cost: float = 0.0


def is_test(path: str) -> bool:
    """Whether a file is a test by its name, or by its folder's."""
    return _TEST.search(path) is not None


class Program:
    """The files beneath a folder. Close it after use."""

    def __init__(self, folder: Path) -> None:
        self._workspace = Workspace(folder)
        self.paths = self._list()
        """Every regular file, by name."""
        self._known = frozenset(self.paths)
        self._by_name: dict[str, list[str]] = {}
        for path in self.paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)
        self._read: dict[str, PythonFile | None] = {}
        self._uses: dict[Definition, list[Use]] = {}
        self._left = MOST_READ

    def close(self) -> None:
        self._workspace.close()

    def _list(self) -> list[str]:
        try:
            start = self._workspace.open(".", os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ToolError):
            return []
        try:
            walk = Walk(start, hidden=self._workspace.hidden(start), most=MOST_PATHS)
            return [path for path, kind, _, _ in walk if kind == "file"]
        finally:
            os.close(start)

    def path_of(self, told: str) -> str | None:
        """The file that a path in some output means; the folder it was told from may be another one."""
        if _ELSEWHERE.search(told) or len(told) > 1000:
            return None
        inside = posixpath.normpath(told).lstrip("/")
        while inside.startswith("../"):
            inside = inside[3:]
        if inside in self._known:
            return inside
        # A file deeper down, told from its own folder.
        deeper = [
            each for each in self._by_name.get(posixpath.basename(inside), ()) if each.endswith(f"/{inside}")
        ]
        if len(deeper) == 1:
            return deeper[0]
        # A file told from a folder above, such as that of an export.
        parts = inside.split("/")
        return next(
            (rest for at in range(1, len(parts)) if (rest := "/".join(parts[at:])) in self._known), None
        )

    def file(self, path: str) -> PythonFile | None:
        """A file's lines, and if it is Python what it defines; None if it cannot be read."""
        if path not in self._read:
            self._read[path] = self._take(path) if len(self._read) < MOST_FILES else None
        return self._read[path]

    def _take(self, path: str) -> PythonFile | None:
        if path not in self._known or self._left <= 0:
            return None
        try:
            data = self._workspace.read_bytes(path, min(MOST_BYTES, self._left))
        except (ToolError, OSError):
            return None
        self._left -= len(data)
        decoded = decode(data)
        text = data.decode(errors="replace") if decoded is None else decoded[0]
        if path.endswith((".py", ".pyi", ".pyw")):
            read = read_python(path, text)
            read.is_plain = read.is_plain and decoded is not None
            return read
        return PythonFile(path, text.replace("\r\n", "\n").split("\n"))

    def module(self, dotted: str, importer: str, level: int = 0) -> str | None:
        """The file of a module, as the file `importer` would import it."""
        parts = dotted.split(".") if dotted else []
        folders = importer.split("/")[:-1]
        if level:
            above = len(folders) - level + 1
            return self._module_in(folders[:above], parts) if above >= 0 else None
        around = [folders[:at] for at in range(len(folders), 0, -1)]
        for start in (*around, *map(list, _ROOTS)):
            if (found := self._module_in(start, parts)) is not None:
                return found
        if not parts:
            return None
        ends = ("/".join(parts) + ".py", "/".join(parts) + "/__init__.py")
        found_below = [
            each
            for end in ends
            for each in self._by_name.get(posixpath.basename(end), ())
            if each.endswith(f"/{end}")
        ]
        return found_below[0] if len(found_below) == 1 and len(parts) > 1 else None

    def _module_in(self, folders: Sequence[str], parts: Sequence[str]) -> str | None:
        whole = "/".join([*folders, *parts])
        here = f"{whole}/" if whole else ""
        names = [f"{here}__init__.py"] if not parts else [f"{whole}.py", f"{here}__init__.py"]
        return next((each for each in names if each in self._known), None)

    def test(self, path: str, name: str) -> Definition | None:
        """A test by its file and name; one that is inherited is found in the class that has it."""
        read = self.file(path)
        if read is None or not name:
            return None
        found = self.meaning(read, name.split("."))
        # A header may leave out the class, or put the module before it.
        last = name.rpartition(".")[2]
        loose = [each for each in read.definitions if each.last_name == last and each.kind == "function"]
        return next((each for each in (*found, *loose) if each.kind == "function"), None)

    def tests_in(self, path: str) -> list[Definition]:
        """The tests of a file, in its order."""
        read = self.file(path)
        named = [] if read is None else read.definitions
        return [each for each in named if each.kind == "function" and each.last_name.startswith("test")]

    def meaning(self, read: PythonFile, names: Sequence[str], hops: int = 0) -> list[Definition]:
        """What some names stand for at the top of a file."""
        if not names or hops > _MOST_HOPS:
            return []
        if own := read.named(names[0]):
            if len(names) > 1 and own[0].kind == "class":
                return self.methods(own[0], names[1]) or read.named(".".join(names)) or own
            return own
        if names[0] in read.imports:
            return self._imported(read, read.imports[names[0]], names[1:], hops)
        for star in read.stars:
            if found := self._imported(read, star, names, hops):
                return found
        return []

    def _imported(
        self, read: PythonFile, source: Imported, names: Sequence[str], hops: int
    ) -> list[Definition]:
        """What is meant by `names` behind an import: the longest part that is a module, then names in it."""
        whole = [*filter(None, source.module.split(".")), *([source.name] if source.name else []), *names]
        for at in range(len(whole), -1, -1):
            path = self.module(".".join(whole[:at]), read.path, source.level)
            if path is not None and path != read.path and (inner := self.file(path)) is not None:
                return self.meaning(inner, whole[at:], hops + 1)
        return []

    def family(self, owner: Definition) -> list[Definition]:
        """A class and those it is made from, as far as they are here."""
        found = [owner]
        for each in found:
            read = self.file(each.path)
            if read is None or len(found) > _MOST_HOPS:
                break
            for names in bases(each):
                found += [
                    base
                    for base in self.meaning(read, names)[:_MOST_HOPS]
                    if base.kind == "class" and base not in found
                ]
        return found

    def methods(self, owner: Definition, name: str) -> list[Definition]:
        """The method, or value, that a class has by that name, itself or from those it is made from."""
        for each in self.family(owner):
            read = self.file(each.path)
            if read is not None and (found := read.named(f"{each.name}.{name}")):
                return found
        return []

    def uses(self, definition: Definition) -> list[Use]:
        """The names that a definition reads."""
        if definition not in self._uses:
            self._uses[definition] = uses(definition)
        return self._uses[definition]

    def reached(self, starts: Iterable[Start]) -> dict[Definition, float]:
        """What is used from some starts on, directly or not, with how far away it is; the starts too."""
        return _Search(self, starts).run()


class _Search:
    """One search for what is nearest; classes that are met on the way tell what a method name means."""

    def __init__(self, program: Program, starts: Iterable[Start]) -> None:
        self._program = program
        self._classes: dict[Definition, None] = {}
        self._wanted: dict[str, float] = {}
        """Attributes of something that the text does not tell, and how near they would be."""
        self._met: set[str] = set()
        """Those of them that a class has."""
        self._best: dict[Definition, float] = {}
        self._lines: dict[Definition, int | None] = {}
        self._waiting: list[tuple[float, int, Definition]] = []
        self._count = count()
        for start in starts:
            self._lines.setdefault(start.definition, start.line)
            self._offer(start.definition, start.cost)

    def run(self) -> dict[Definition, float]:
        done: dict[Definition, float] = {}
        while self._waiting or self._guess():
            cost, _, here = heapq.heappop(self._waiting)
            if here not in done:
                done[here] = cost
                self._follow(here, cost)
            if len(done) >= _MOST_STEPS:
                break
        return done

    def _offer(self, definition: Definition, cost: float) -> None:
        if cost < min(self._best.get(definition, _FURTHEST), _FURTHEST):
            self._best[definition] = cost
            # The count keeps equals in the order in which they were met.
            heapq.heappush(self._waiting, (cost, next(self._count), definition))

    def _follow(self, here: Definition, cost: float) -> None:
        read = self._program.file(here.path)
        if read is None:
            return
        line = self._lines.get(here)
        near = lines_behind(here, line) if line is not None else None
        if here.kind == "class":
            self._meet(here, cost)
        for each in self._around(read, here):
            self._offer(each, cost + 0.5)
        for use in self._program.uses(here):
            step = 1.0 if near is None or use.line in near else 2.0
            meant = self._meant(read, here, use.names)
            for each in meant[:_MOST_SAME]:
                # A class is met at once: the method names that follow are likely to be its own.
                if each.kind == "class":
                    self._meet(each, cost + step)
                self._offer(each, cost + step + (0.25 if each.kind == "value" else 0.0))
            is_known = any(each.last_name == use.names[-1] for each in meant)
            if len(use.names) > 1 and not is_known and not self._is_foreign(read, use.names[0]):
                self._look_for(use.names[-1], cost + step)

    def _is_foreign(self, read: PythonFile, name: str) -> bool:
        """Whether a name is a module, or comes from one, that is not of this repository."""
        source = read.imports.get(name)
        return source is not None and self._program.module(source.module, read.path, source.level) is None

    def _look_for(self, name: str, cost: float) -> None:
        """Take the methods of that name: those of the classes that were met, and of those that will be."""
        if name.startswith("__"):
            # An operator is on nearly every line, and mostly means numbers and texts.
            cost += 0.5
        if cost < self._wanted.get(name, _FURTHEST) and len(self._wanted) < _MOST_STEPS:
            self._wanted[name] = cost
            for owner in self._classes:
                self._take_method(owner, name, cost)

    def _take_method(self, owner: Definition, name: str, cost: float) -> None:
        read = self._program.file(owner.path)
        for each in [] if read is None else read.named(f"{owner.name}.{name}"):
            self._met.add(name)
            self._offer(each, cost)

    def _meet(self, owner: Definition, cost: float) -> None:
        if owner not in self._classes and len(self._classes) < _MOST_CLASSES:
            for each in self._program.family(owner):
                if each not in self._classes:
                    self._classes[each] = None
                    for name, wanted in list(self._wanted.items()):
                        # A class that is met far away is not likely to be what was meant nearby.
                        self._take_method(each, name, max(wanted, cost))
        for name in _MADE:
            for method in self._program.methods(owner, name):
                self._offer(method, cost + 0.5)

    def _guess(self) -> bool:
        """Nothing is left to follow: take methods by name alone, from files met on the way."""
        paths = dict.fromkeys(each.path for each in self._best)
        by_name: dict[str, list[Definition]] = {}
        for read in filter(None, map(self._program.file, paths)):
            for each in read.definitions:
                if each.kind == "function" and each.owner:
                    by_name.setdefault(each.last_name, []).append(each)
        for name, cost in self._wanted.items():
            found = by_name.get(name, [])
            if name not in self._met and not name.startswith("__") and len(found) <= _MOST_MEANT:
                for each in found:
                    self._offer(each, cost + 1.0)
        return bool(self._waiting)

    def _around(self, read: PythonFile, here: Definition) -> Iterator[Definition]:
        """What a test has before it begins: the fixtures that it names, what its class sets up."""
        if here.kind != "function" or not is_test(here.path):
            return
        if here.last_name.startswith("test") and here.owner:
            for owner in read.named(here.owner):
                for name in _SET_UP:
                    yield from self._program.methods(owner, name)
        if here.last_name.startswith("test") or "fixture" in decorators(here):
            for name in parameters(here):
                yield from self._fixtures(read, name)

    def _fixtures(self, read: PythonFile, name: str) -> list[Definition]:
        folders = read.path.split("/")[:-1]
        beside = ["/".join([*folders[:at], "conftest.py"]) for at in range(len(folders), -1, -1)]
        for path in (read.path, *beside):
            inner = self._program.file(path)
            found = (
                [] if inner is None else [each for each in inner.named(name) if "fixture" in decorators(each)]
            )
            if found:
                return found
        return []

    def _meant(self, read: PythonFile, here: Definition, names: tuple[str, ...]) -> list[Definition]:
        if names[0] in ("self", "cls") and here.owner:
            # Of `self.cart.total` the parts are uses of their own.
            owners = read.named(here.owner) if len(names) == 2 else []
            return [found for owner in owners for found in self._program.methods(owner, names[1])]
        return self._program.meaning(read, names) if names[0] else []
