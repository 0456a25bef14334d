"""What a check's command line runs, as far as can be told without running it.

A shell can hide anything behind a variable. This reads what people write: programs with their arguments, one
after another, behind the usual wrappers. What it does not see is only not sealed by name.

Keep true:
1. Reading never fails and takes time in proportion to the length of the command.
2. A file that is only an argument is not named: it may be the very thing that is to be changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from posixpath import basename, join, normpath
from typing import Literal, NamedTuple

Role = Literal["run", "test", "configures", "compares"]

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*)?")
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\\\n)
    |(?P<end>\|\||&&|;;|\|&|[;&|()\n`]|\$\()
    |(?P<goes>\d*(<<<|<<-?|<&|<>|<|>>|>&|>\||>))""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[^\s;&|()<>`'\"\\$]+")
_QUOTED = re.compile(r'((?:[^"\\]|\\.)*+)"?', re.DOTALL)
_CODE_FILE = re.compile(r".+\.(py|[cm]?[jt]sx?|rb|go|rs|sh|bats|php|exs?|java|kt|t|pl|lua|c|cc|cpp|swift|R)")
_COMPARED = re.compile(r"(^|[._/-])(expect(ed)?|golden|approved)([._/-]|$)", re.IGNORECASE)

_KEYWORDS = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "exec", "command"}
_KEYWORDS |= {"builtin", "nohup", "setsid", "eval", "sudo", "npx", "bunx", "uvx", "xvfb-run", "doas"}
"""Words that stand before the command that is meant, some of them with options of their own."""
_WRAPPERS: dict[str, tuple[set[str], int]] = {
    "env": ({"-u", "--unset", "-C", "--chdir"}, 0),
    "timeout": ({"-s", "--signal", "-k", "--kill-after"}, 1),
    "nice": ({"-n", "--adjustment"}, 0),
    "ionice": ({"-c", "-n"}, 0),
    "stdbuf": ({"-i", "-o", "-e"}, 0),
    "xargs": ({"-n", "-I", "-P", "-L", "-d", "-s", "-a", "-E"}, 0),
}
"""Programs that run another one: their options that take a word more, and how many words come before it."""
_RUNNERS = {
    **dict.fromkeys(("poetry", "uv", "pipenv", "hatch", "pdm", "rye", "conda", "pipx"), "run"),
    **dict.fromkeys(("pnpm", "yarn", "bundle", "npm"), "exec"),
}
_RUNNER_VALUES = {"--with", "--python", "-p", "--extra", "--group", "--package", "--project", "--directory"}
_RUNNER_VALUES |= {"--env-file", "--with-requirements", "-n", "--name", "--only-group", "-C"}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash"}
_INTERPRETERS = {"node", "nodejs", "deno", "bun", "ruby", "perl", "php", "Rscript", "lua", "tsx", "ts-node"}
_INTERPRETERS |= {"source", ".", "bats", "julia", "elixir", "awk", "gawk"}
_SUBCOMMANDS = {"run", "test"}
_MAKE = {"make", "gmake", "just", "task", "go-task", "rake"}
TASK_RUNNERS = {*_MAKE, "npm", "pnpm", "yarn"}
"""Programs that run what a file of the project names."""
_MAKE_FILE = {"-f", "--file", "--makefile", "--justfile", "-t", "--taskfile", "--rakefile"}
TEST_TOOLS = {"pytest", "py.test", "unittest", "nose2", "nosetests", "green", "trial", "ward", "doctest"}
TEST_TOOLS |= {"jest", "vitest", "mocha", "ava", "jasmine", "tap", "rspec", "phpunit", "prove", "minitest"}
_CONFIGURES = {"--config", "--config-file", "--rcfile", "--settings", "--eslintrc"}
_VALUES = {"-k", "-m", "-n", "-o", "-W", "-t", "-r", "--tb", "--deselect", "--ignore", "--cov", "--rootdir"}
_VALUES |= {"--maxfail", "--timeout", "--durations"}
"""Options of test programs that take a word more."""
_LOADS = {"-r", "--require", "--import"}
_SCRIPT_VALUES = {"-W", "-X", "--check-hash-based-pycs", "--source", "--omit", "--include", "-o", "+o", "-I"}
_SCRIPT_VALUES |= {"--data-file", "--context", *_CONFIGURES, *_LOADS}
"""The same, of interpreters."""
_MOST_NESTED = 4


class Simple(NamedTuple):
    """One program with its arguments."""

    words: tuple[str, ...]
    """Without assignments and wrappers."""
    folder: str
    """Where it runs, as far as `cd` tells; empty for the top."""
    reads: tuple[str, ...]
    """What comes in by `<`."""

    @property
    def program(self) -> str:
        """Its name, without the folder."""
        return basename(self.words[0])


class Named(NamedTuple):
    """A file that a command names as more than an argument."""

    path: str
    """Relative to the top, with plain slashes."""
    role: Role


def simple_commands(command: str, folder: str = "", depth: int = 0) -> list[Simple]:
    """The programs that a command line runs, in order.

    >>> [simple.words for simple in simple_commands("CI=1 timeout 9 pytest -q && cd a; sh -c './b x'")]
    [('pytest', '-q'), ('./b', 'x')]
    """
    found: list[Simple] = []
    around: list[str] = []
    words: list[str] = []
    reads: list[str] = []
    goes = ""
    for kind, text in [*_tokens(command), ("end", ";")]:
        if kind == "goes":
            goes = text
        elif kind == "word" and goes:
            if goes.endswith("<"):
                reads.append(text)
            goes = ""
        elif kind == "word":
            words.append(text)
        else:
            plain = _unwrapped(words)
            if plain and plain[0] in ("cd", "pushd"):
                # Where a variable leads to is not known; mostly it is where the script lies.
                folder = _at(folder, plain[1]) if len(plain) > 1 and "$" not in plain[1] else folder
            elif plain:
                found += _opened(Simple(tuple(plain), folder, tuple(reads)), depth)
            words, reads, goes = [], [], ""
            if text in ("(", "$("):
                around.append(folder)
            elif text == ")" and around:
                folder = around.pop()
    return found


def tool_of(command: str) -> str:
    """What a command is best called by.

    >>> tool_of("cd app && python3 -m pytest -q"), tool_of("./scripts/check.sh --fast")
    ('pytest', 'check')
    """
    for simple in simple_commands(command):
        module = _module(simple)
        name = module or re.sub(r"\.\w+$", "", simple.program)
        if module is None and (script := _script(simple)) is not None:
            name = re.sub(r"\.\w+$", "", basename(script))
        plain = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")
        if plain:
            return plain[:40]
    return "check"


def runs(command: str, tools: Collection[str]) -> bool:
    """Whether a command plainly runs one of these, and cannot be green without having run it."""
    if any(kind == "end" and text in ("||", "&") for kind, text in _tokens(command)):
        return False
    for simple in simple_commands(command):
        if not runs_one_of(simple, tools):
            continue
        return not any(
            word in ("--version", "-V", "-h", "--help", "--co", "--fixtures") for word in simple.words
        )
    return False


def runs_one_of(simple: Simple, tools: Collection[str]) -> bool:
    """Whether it is one of these that a single command runs, also as a module of Python."""
    return simple.program in tools or _module(simple) in tools


def named_files(command: str) -> list[Named]:
    """The files that a command runs, takes as tests, is configured by, or compares with.

    Whether there is such a file is for the caller to find out: of a module, every place is named.

    >>> named_files("pytest -q unit/cases.py::test_a && ./check.sh data.txt")
    [Named(path='unit/cases.py', role='test'), Named(path='check.sh', role='run')]
    """
    return list(dict.fromkeys(each for simple in simple_commands(command) for each in named_by(simple)))


def named_by(simple: Simple) -> list[Named]:
    """The same of one program."""
    return [
        Named(path, role)
        for word, role in _named(simple)
        if (path := _at(simple.folder, word)) and not path.startswith(("../", "/"))
    ]


def python_folders(command: str) -> list[str]:
    """Folders in which Python looks first as a command runs: where it runs, and what PYTHONPATH names.

    >>> python_folders("cd app && PYTHONPATH=lib:$PWD/more python3 -m pytest")
    ['app', 'app/lib', 'app/more']
    """
    folders = list(dict.fromkeys(simple.folder for simple in simple_commands(command)))
    named = [
        re.sub(r"\A\$(PWD|\{PWD\})/?", "", entry)
        for kind, word in _tokens(command)
        if kind == "word" and word.startswith(("PYTHONPATH=", "PYTHONPATH+="))
        for entry in word.partition("=")[2].split(":")
    ]
    return [*folders, *(_at(folder, entry) for folder in folders for entry in named if entry)]


def discovered_by(simple: Simple) -> str:
    """The pattern of the files that unittest looks for its tests in; empty if it is not unittest.

    >>> discovered_by(Simple(("python3", "-m", "unittest", "discover", "-p", "*_check.py"), "", ()))
    '*_check.py'
    """
    if not runs_one_of(simple, ("unittest",)):
        return ""
    words = _after_module(simple)
    for option, value in pairwise(words):
        if option in ("-p", "--pattern"):
            return value
    return "test*.py"


def _named(simple: Simple) -> Iterator[tuple[str, Role]]:
    first, *rest = simple.words
    program = simple.program
    module = _module(simple)
    if "/" in first:
        yield first, "run"
    for position, word in enumerate(rest):
        option, _, value = word.partition("=")
        if option in _CONFIGURES or (option == "-c" and (module or program) in TEST_TOOLS):
            yield value or "".join(rest[position + 1 : position + 2]), "configures"
        if (option in _MAKE_FILE and program in _MAKE) or (option in _LOADS and program in _INTERPRETERS):
            yield value or "".join(rest[position + 1 : position + 2]), "run"
        if _COMPARED.search(word) and not word.startswith("-"):
            yield word, "compares"
    for path in simple.reads:
        yield path, "run" if is_interpreter(program) else "compares"
    if module is not None:
        for place in _places(module):
            yield place, "run"
    elif (script := _script(simple)) is not None:
        yield script, "run"
    tool = module or program
    if tool in TEST_TOOLS or (program in ("go", "cargo", "node", "deno", "bun") and "test" in rest):
        yield from _tests(_after_module(simple), tool)


def _tests(words: Sequence[str], tool: str) -> Iterator[tuple[str, Role]]:
    """What a test program is told to run."""
    is_value = False
    for position, word in enumerate(words):
        before = words[position - 1] if position else ""
        if before == "-p" and tool != "unittest":
            for place in _places(word):
                yield place, "run"
        is_value = before in _VALUES and not is_value
        if word.startswith("-") or is_value or before == "-p":
            continue
        path = word.partition("::")[0]
        if tool == "unittest" and word == "discover":
            continue
        if tool == "unittest" and re.fullmatch(r"\w+(\.\w+)*", path):
            yield path, "test"
            parts = path.split(".")
            for end in range(len(parts), 0, -1):
                yield "/".join(parts[:end]) + ".py", "test"
        elif path:
            yield path, "test"


def looks_like_a_file(path: str) -> bool:
    """Whether a name that is not there would be that of a program or a test, not of a folder."""
    return _CODE_FILE.fullmatch(path) is not None


def _places(module: str) -> list[str]:
    path = module.replace(".", "/")
    return [f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__main__.py")]


def is_interpreter(program: str) -> bool:
    """Whether a program runs the file that it is given."""
    return program in SHELLS | _INTERPRETERS or _PYTHON.fullmatch(program) is not None


def _is_pythonic(simple: Simple) -> bool:
    """Whether `-m` is followed by a module, as for Python and `coverage run`."""
    return _PYTHON.fullmatch(simple.program) is not None or (
        simple.program == "coverage" and simple.words[1:2] == ("run",)
    )


def _module(simple: Simple) -> str | None:
    """The module that `-m` names; the one that matters, if it runs another."""
    words = _after_module(simple)
    found = None
    if _is_pythonic(simple) and words is not simple.words:
        found = simple.words[len(simple.words) - len(words) - 1]
    if found == "coverage" and words[:1] == ("run",):
        return _module(Simple(("coverage", *words), simple.folder, ())) or found
    return found


def _after_module(simple: Simple) -> tuple[str, ...]:
    """The arguments behind `-m module`, or all words if there is none."""
    if not _is_pythonic(simple):
        return simple.words[1:]
    words = simple.words
    skip = False
    for position, word in enumerate(words[1:], 1):
        if word == "-m" and position + 1 < len(words):
            rest = words[position + 2 :]
            inner = Simple(("coverage", *rest), simple.folder, ())
            if words[position + 1] == "coverage" and _is_pythonic(inner):
                return _after_module(inner)
            return rest
        if word == "-c" or (not word.startswith("-") and word != "run" and not skip):
            break
        skip = word in _SCRIPT_VALUES
    return words


def _script(simple: Simple) -> str | None:
    """The file that an interpreter is given."""
    words = list(simple.words[1:])
    program = simple.program
    if not is_interpreter(program) and not _is_pythonic(simple):
        return None
    if words[:1] and words[0] in _SUBCOMMANDS:
        words = words[1:]
    while words:
        word = words.pop(0)
        if word in ("-c", "-m", "-") or (word == "-e" and program not in SHELLS):
            return None
        if word in _SCRIPT_VALUES:
            words = words[1:]
        elif not word.startswith(("-", "+")):
            return word
    return None


def _opened(simple: Simple, depth: int) -> list[Simple]:
    """What `sh -c` is given is a command line of its own."""
    if simple.program in SHELLS and depth < _MOST_NESTED:
        for position, word in enumerate(simple.words[1:-1], 1):
            if re.fullmatch(r"-[a-z]*c", word):
                return simple_commands(simple.words[position + 1], simple.folder, depth + 1)
            if not word.startswith("-"):
                break
    return [simple]


def _unwrapped(words: Sequence[str]) -> list[str]:
    left = list(words)
    while left:
        first = basename(left[0])
        rest = left[1:]
        if _ASSIGNMENT.match(left[0]):
            left = rest
        elif first in _KEYWORDS:
            left = _without_options(rest, set())
        elif first in _WRAPPERS:
            values, before = _WRAPPERS[first]
            left = _without_options(rest, values)[before:]
        elif first in _RUNNERS and (after := _without_options(rest, _RUNNER_VALUES))[:1] == [_RUNNERS[first]]:
            left = _without_options(after[1:], _RUNNER_VALUES)
        else:
            return left
    return left


def _without_options(words: Sequence[str], values: Collection[str]) -> list[str]:
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "-":
        option = left.pop(0)
        if option == "--":
            break
        if option in values:
            left = left[1:]
    return left


def _at(folder: str, path: str) -> str:
    return "" if not path else "" if (made := normpath(join(folder, path))) == "." else made


def _tokens(command: str) -> Iterator[tuple[str, str]]:
    """Words without their quotes, what ends a command, and where something goes to or comes from."""
    at = 0
    parts: list[str] = []
    while at < len(command):
        match = _TOKEN.match(command, at)
        if match is None and (parts or command[at] != "#"):
            part, at = _piece(command, at)
            parts.append(part)
            continue
        if parts:
            yield "word", "".join(parts)
            parts = []
        if match is None:
            comment = command.find("\n", at)
            at = len(command) if comment < 0 else comment
            continue
        at = match.end()
        if not match["blank"]:
            yield "goes" if match["goes"] else "end", match[0]
    if parts:
        yield "word", "".join(parts)


def _piece(command: str, at: int) -> tuple[str, int]:
    """The next part of a word, and where it ends."""
    first = command[at]
    if first == "'":
        end = command.find("'", at + 1)
        end = len(command) if end < 0 else end
        return command[at + 1 : end], end + 1
    if first == '"':
        match = _QUOTED.match(command, at + 1)
        assert match is not None
        return re.sub(r'\\([$`"\\\n])', r"\1", match[1]), match.end()
    if first == "\\":
        return command[at + 1 : at + 2], at + 2
    match = _PLAIN.match(command, at)
    return (match[0], match.end()) if match is not None else (first, at + 1)
