"""What a check runs at one remove: the recipes of `make` and `just`, the scripts of package.json, commands of
tox, and what shell scripts run in turn.

It reads what people write. What is behind a function of make, or put together at run time, is not seen, and
so only not sealed by name.

Keep true:
1. Texts are searched, never run; any text is taken, and time is in proportion to its length.
2. Only what the named targets need is followed: another recipe may well run what is to be changed.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from posixpath import basename, dirname, join, normpath
from typing import NamedTuple

from placet.checks.command_line import SHELLS, Named, Simple, named_by, simple_commands

MOST_FOLLOWED = 200
"""Texts that are looked through for one check."""
_MAKES = {"make": ("GNUmakefile", "makefile", "Makefile"), "gmake": ("GNUmakefile", "makefile", "Makefile")}
_MAKES["just"] = ("justfile", "Justfile", ".justfile")
_PACKAGES = {"npm", "pnpm", "yarn", "bun"}
_READABLE = re.compile(
    r"(GNU)?[Mm]akefile(\..+)?|.+\.mk|\.?[Jj]ustfile|package\.json|tox\.ini|pytest\.ini|\.pytest\.ini|pytest\.toml"
    r"|setup\.cfg|pyproject\.toml|.+\.(sh|bash|zsh|ksh)"
)
_RULE = re.compile(r"([^\s:=#][^:=#]*?)\s*::?(?!=)([^;\n]*)(?:;(.*))?")
_SET = re.compile(r"(?:export\s+)?([\w.-]+)\s*(?::::?|::?|\?|\+)?=\s*(.*)")
_INCLUDE = re.compile(r"[-s]?include\s+(.+)|import\??\s+['\"](.+)['\"]")
_VARIABLE = re.compile(r"\$[({]([\w.-]+)[)}]|\{\{\s*(\w+)\s*\}\}")
_TOX_COMMANDS = re.compile(r"^commands(?:_pre|_post)?\s*=((?:[^\n]*\n?)(?:[ \t]+[^\n]*\n?)*)", re.MULTILINE)
_PYTHON_PATH = re.compile(r"^[ \t]*pythonpath\s*=\s*(\[[^\]]*\]|[^\n]*(?:\n[ \t]+[^\n=]+$)*)", re.MULTILINE)
_MOST_EXPANDED = 10_000


class Step(NamedTuple):
    """One program that a check comes to run."""

    simple: Simple
    named: tuple[Named, ...]
    """The files that it runs, takes as tests, is configured by or compares with."""
    by: str
    """The file in which it stands; empty for the check itself."""


def is_readable(path: str) -> bool:
    """Whether a file may say what a check runs, by its name.

    >>> is_readable("ci/check.sh"), is_readable("Makefile"), is_readable("app.py")
    (True, True, False)
    """
    return _READABLE.fullmatch(basename(path)) is not None


def steps(command: str, texts: Mapping[str, str]) -> Iterator[Step]:
    """The programs that a command comes to run, with those that files among `texts` run for it.

    >>> found = steps("make check", {"Makefile": "check: unit\\n\\t./a.sh\\nunit:\\n\\tpython3 verify.py\\n"})
    >>> [each.simple.words for each in found]
    [('make', 'check'), ('./a.sh',), ('python3', 'verify.py')]
    """
    todo: deque[tuple[str, str, str]] = deque([(command, "", "")])
    seen = {(command, "")}
    while todo:
        line, folder, by = todo.popleft()
        for simple in simple_commands(line, folder):
            named = tuple(named_by(simple))
            yield Step(simple, named, by)
            for more in (*_scripts(named, texts), *_recipes(simple, texts)):
                if more[:2] not in seen and len(seen) < MOST_FOLLOWED:
                    seen.add(more[:2])
                    todo.append(more)


def included(command: str, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Files that a file which a check is led by takes in, whether they are there or not, and that file."""
    for each in steps(command, texts):
        path = _led_by(each.simple, texts)
        if path:
            for name in _makefile(texts[path], path).includes:
                yield _at(dirname(path), name), path


def python_paths(texts: Mapping[str, str]) -> Iterator[str]:
    """Folders in which the settings of pytest let Python look for modules."""
    for path, text in texts.items():
        for match in _PYTHON_PATH.finditer(text):
            for word in re.findall(r"[^\s,'\"\[\]]+", match[1]):
                yield _at(dirname(path), word)


def _scripts(named: Sequence[Named], texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """What shell scripts run, each as seen from where it is run and from where it lies."""
    for path, role in named:
        if role == "run" and path in texts and _is_shell(path, texts[path]):
            for folder in dict.fromkeys(("", dirname(path))):
                yield texts[path], folder, path


def _is_shell(path: str, text: str) -> bool:
    if re.search(r"\.(sh|bash|zsh|ksh)\Z", path):
        return True
    first = text.partition("\n")[0]
    return first.startswith("#!") and any(re.search(rf"\b{shell}\b", first) for shell in SHELLS)


def _recipes(simple: Simple, texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    program = simple.program
    if program in _MAKES and (path := _led_by(simple, texts)):
        for line in _makefile(texts[path], path).lines(_targets(simple)):
            yield line, dirname(path), path
    elif program in _PACKAGES and (path := _at(simple.folder, "package.json")) in texts:
        for line in _package_scripts(texts[path], simple.words[1:]):
            yield line, simple.folder, path
    elif program == "tox" and (path := _at(simple.folder, "tox.ini")) in texts:
        for match in _TOX_COMMANDS.finditer(texts[path]):
            yield re.sub(r"\{posargs[^}]*\}|\{toxinidir\}/?", "", match[1]), simple.folder, path


def _led_by(simple: Simple, texts: Mapping[str, str]) -> str:
    """The file with the recipes of a program like make; empty if there is none to be read."""
    if simple.program not in _MAKES:
        return ""
    words = simple.words[1:]
    folder = simple.folder
    names: Sequence[str] = _MAKES[simple.program]
    for option, value in pairwise(words):
        if option in ("-C", "--directory"):
            folder = _at(folder, value)
        if option in ("-f", "--file", "--makefile", "--justfile"):
            names = (value,)
    return next((path for name in names if (path := _at(folder, name)) in texts), "")


def _targets(simple: Simple) -> list[str]:
    words = list(simple.words[1:])
    found: list[str] = []
    while words:
        word = words.pop(0)
        if word in ("-C", "--directory", "-f", "--file", "--makefile", "--justfile", "-j", "-l"):
            words = words[1:] if word != "-j" or (words[:1] and words[0].isdigit()) else words
        elif not word.startswith("-") and "=" not in word:
            found.append(word)
    return found


class _Makefile:
    """The rules of one file, as far as they can be read."""

    def __init__(self) -> None:
        self.first = ""
        self.needs: dict[str, list[str]] = {}
        self.recipes: dict[str, list[str]] = {}
        self.variables = {"MAKE": "make", "CURDIR": ".", "just_executable": "just"}
        self.includes: list[str] = []

    def lines(self, targets: Sequence[str]) -> Iterator[str]:
        """The recipes of these targets, or of the first one, and of all that they need."""
        todo = deque(targets or [self.first])
        seen = set(todo)
        while todo:
            target = todo.popleft()
            yield from (self.filled_in(line) for line in self.recipes.get(target, ()))
            for need in self.needs.get(target, ()):
                for word in self.filled_in(need).split():
                    if word not in seen:
                        seen.add(word)
                        todo.append(word)

    def filled_in(self, text: str) -> str:
        """A text with the variables that are plainly set."""
        for _ in range(5):
            made = _VARIABLE.sub(lambda found: self.variables.get(found[1] or found[2], ""), text)
            if made == text or len(made) > _MOST_EXPANDED:
                break
            text = made
        return text.replace("$$", "$")


def _makefile(text: str, path: str) -> _Makefile:
    made = _Makefile()
    current: list[str] = []
    for line in re.sub(r"\\\n[ \t]*", " ", text).split("\n"):
        if line[:1] in ("\t", " ") and current and line.strip():
            for target in current:
                made.recipes.setdefault(target, []).append(line.strip().lstrip("@-+ "))
            continue
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        if match := _INCLUDE.fullmatch(plain):
            made.includes += made.filled_in(match[1] or match[2]).split()
        elif match := _SET.fullmatch(plain):
            made.variables[match[1]] = match[2]
        elif match := _RULE.fullmatch(plain):
            # A recipe of just may have parameters behind its name, which stand where other targets would.
            current = match[1].split()[:1] if "ustfile" in path else match[1].split()
            for target in current:
                made.needs.setdefault(target, []).extend(match[2].split())
                made.recipes.setdefault(target, []).extend([match[3]] if match[3] else [])
            if not made.first and current and not current[0].startswith("."):
                made.first = current[0]
    return made


def _package_scripts(text: str, words: Sequence[str]) -> Iterator[str]:
    try:
        scripts = json.loads(text).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return
    plain = [word for word in words if not word.startswith("-")]
    if plain[:1] in (["run"], ["run-script"]):
        plain = plain[1:]
    name = {"t": "test", "tst": "test"}.get(plain[0], plain[0]) if plain else ""
    if isinstance(scripts, dict):
        for each in (f"pre{name}", name, f"post{name}"):
            if isinstance(line := scripts.get(each), str):
                yield line


def _at(folder: str, path: str) -> str:
    made = normpath(join(folder, path))
    return "" if made == "." else made
