"""Files that checks load or read beside the program: helpers of tests, and data to compare with.

A test can be bent without touching it: by the helper that it imports, or by the file that says what it
expects. Which file is which is told from imports and from the names in string literals.

Keep true:
1. Texts are searched, never run; time is in proportion to their length.
2. Where it cannot be told whether the program uses a file, the answer is `unsure` and never `free`.
3. Only texts of the base count: what a change says of itself proves nothing.
4. A source file that no import reaches is judged by who names it, as data is: a test can read it to compare
   with it, load it by its path, or run it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from posixpath import dirname, join, normpath, splitext
from typing import Literal, NamedTuple

Kind = Literal["free", "sealed", "unsure"]


class Judged(NamedTuple):
    """What a file is to the checks, and why, as words that follow its name."""

    kind: Kind
    why: str = ""


FREE = Judged("free")
_HELPER = Judged("sealed", "is loaded by the tests and not by the program")
_PERHAPS_HELPER = Judged(
    "unsure", "is loaded by the checks, and whether it is part of the program could not be told"
)
_PERHAPS_SCRIPT = Judged(
    "unsure", "is named by the checks, and whether it is part of the program could not be told"
)
_EXPECTED = Judged("sealed", "is data that the checks read and the program does not use")
_SHARED = Judged("unsure", "is data that the checks read, and the program may use it too")
_PERHAPS_DATA = Judged(
    "unsure", "is data that the checks read, and whether the program uses it could not be told"
)

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>\.*[\w.]*)[ \t]+import[ \t]*(?P<names>\([^)]*\)|[^\n#]*)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
_NAMED_MODULE = re.compile(r"""(?:import_module|__import__|importorskip)\(\s*["']([\w.]+)["']""")
_PLUGINS = re.compile(r"pytest_plugins\s*=\s*(\[[^\]]*\]|\([^)]*\)|[^\n]*)")
_QUOTED_MODULE = re.compile(r"""["']([A-Za-z_][\w.]*)["']""")
_REQUIRED = re.compile(
    r"""(?:\bfrom\s*|\brequire(?:_relative)?\s*\(?\s*|\bimport\s*\(?\s*)["'](\.{0,2}[\w./-]+)["']"""
)
_STRING = re.compile(r""""([^"\n]{1,300})"|'([^'\n]{1,300})'|`([^`\n]{1,300})`""")
_SCRIPT_ENDS = (".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".rb")
_TEST_MODULES = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(pytest|unittest|hypothesis|doctest|nose2?|behave|factory|faker)\b"
    r"|from\s+[\"'](?:vitest|@jest/globals|chai|node:test|node:assert|assert)[\"']",
    re.MULTILINE,
)
_ASSERTS = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|function)[ \t]+(?:assert|expect)_?\w+", re.MULTILINE)
_HELPS = re.compile(
    r"(^|[_.-])(tests?|testing|test_?utils?|test_?helpers?|test_?lib|helpers?|fixtures?|factor(y|ies)|fakes?"
    r"|mocks?|stubs?|dumm(y|ies)|assertions?|asserts?|expect(ed|ations?)?|goldens?|oracles?|reference"
    r"|support|harness|checkers?|checks?|verif(y|ier)|conftest)([_.-]|$)",
    re.IGNORECASE,
)
_GOLDEN = re.compile(
    r"(^|[_.-])(fixtures?|goldens?|expect(ed|ations?)?|snapshots?|cassettes?|approved|baselines?|references?"
    r"|oracles?|want(ed)?|vectors?|testdata|correct)([_.-]|$)",
    re.IGNORECASE,
)
_DOCUMENTS = (".md", ".rst", ".adoc", ".markdown")
_INCLUDES = re.compile(
    r"^[ \t]*(?:#[ \t]*include|@?import|use|load|(?:require|include)(?:_once|_relative)?|source)\b[^\n;]*"
    r"|\bfrom[ \t]*[\"'][^\"'\n]*[\"']|\b(?:require|import)[ \t]*\([^)\n]*\)",
    re.MULTILINE,
)
"""Statements by which languages other than Python load a file that they name."""
_SHELL_ENDS = (".sh", ".bash", ".zsh", ".ksh")
_SHELL_WORD = re.compile(r"[^\s;&|()<>\"'`]+")
_SHELL_SET = re.compile(r"[A-Za-z_]\w*=(.+)")
_EVERYWHERE = {"__init__", "__main__", "index"}
"""Stems that many folders have: such a name alone names no file."""
_ENTRY = re.compile(r"""__name__\s*==\s*["']__main__["']""")
_ROOTS = ("", "src", "lib")


class CheckInputs:
    """Judges the files of a base. `texts` are those of its source files, `is_test` says which of them are
    tests or scripts of checks, `read` are data files that checks were seen to read; None if that is not
    known."""

    def __init__(
        self,
        texts: Mapping[str, str],
        is_test: Callable[[str], bool],
        *,
        roots: Collection[str] = (),
        paths: Collection[str] = (),
        subjects: Collection[str] = (),
        read: Collection[str] | None = (),
        commands: Collection[str] = (),
    ) -> None:
        """`subjects` are files that checks name as what is to be looked at, `commands` shell text that checks
        run."""
        self._read = None if read is None else frozenset(read)
        self._subjects = frozenset(subjects)
        self._paths = frozenset(paths)
        tests = {path for path in texts if is_test(path)}
        graph = _Graph(texts, {*_ROOTS, *roots}, _added_roots(texts, tests))
        self._modules = _judged_modules(texts, tests, graph)
        helpers = {path for path, judged in self._modules.items() if judged is _HELPER}
        loading = [(path, texts[path]) for path in sorted(tests | helpers)]
        by_python = _mentioned(text for path, text in loading if _is_python(path))
        others = {path: text for path, text in loading if not _is_python(path)}
        self._by_tests = by_python | _mentioned(others.values())
        golden = {path for path in texts if path not in tests and _is_golden(path)}
        golden -= graph.reached(set(texts) - golden)
        program = [text for path, text in texts.items() if path not in tests | helpers | golden]
        self._by_program = _mentioned(program)
        self._made_endings = {ending for each in self._by_program if (ending := _made_ending(each))}
        """Endings of names that the program puts together at run time."""
        self._texts = texts
        self._tested = _stems(tests)
        self._test_endings = {splitext(path)[1] for path in tests}
        self._by_path = by_python | _named_by_path(others) | _shell_mentioned(commands)
        self._test_made_endings = {ending for each in self._by_path if (ending := _made_ending(each))}
        self._included = _mentioned(
            match[0] for text in others.values() for match in _INCLUDES.finditer(text)
        )
        loaded = graph.reached(tests) - tests
        self._groups = {_group(path) for path in loaded - helpers}
        self._reached = graph.reached(set(texts) - golden)
        self._only_program: frozenset[str] = frozenset()
        self._behind: frozenset[str] = frozenset()
        tops = {path for path in set(texts) - tests - self._reached if self._by_name(path).kind != "free"}
        ours = set(texts) - tests - helpers
        if not loaded and len(tops) == 1 and ours <= tops | graph.reached(tops) and not tops & golden:
            # There is no other program that the tests could be about.
            self._only_program = frozenset(ours)
        else:
            self._behind = frozenset(graph.reached(tops) - tests - graph.reached(set(texts) - tops - golden))

    def source(self, path: str) -> Judged:
        """What a source file is."""
        if path in self._modules:
            return self._modules[path]
        if path in self._behind:
            return _PERHAPS_HELPER
        return FREE if path in self._reached or path in self._only_program else self._by_name(path)

    def _by_name(self, path: str) -> Judged:
        """What a source file is that no import reaches."""
        is_golden = _is_golden(path)
        *folders, name = path.split("/")
        stem, ending = splitext(name)
        text = self._texts.get(path, "")
        is_named = name in self._by_path or (ending in self._test_made_endings and stem in self._by_tests)
        if stem in _EVERYWHERE and not any(folder in self._by_path for folder in folders):
            is_named = False
        if not is_named and name in self._included:
            # Of such languages it is not known what else loads it. Only its name can tell.
            is_named = is_golden or _helps(path, text)
        if not is_golden:
            is_about = f"_{_stem(path).lower()}_" in self._tested and not _helps(path, text)
            return FREE if not is_named or path in self._subjects or is_about else _PERHAPS_SCRIPT
        if not is_named and not any(folder in self._by_tests for folder in folders):
            return FREE
        is_shared = name in self._by_program or any(folder in self._by_program for folder in folders)
        has_graph = _is_python(path) or path.endswith(_SCRIPT_ENDS)
        is_perhaps_program = (
            is_shared
            or ending in self._made_endings
            or _ENTRY.search(text) is not None
            or _group(path) in self._groups
            or (not has_graph and ending in self._test_endings)
        )
        return _PERHAPS_SCRIPT if is_perhaps_program else _EXPECTED

    def data(self, path: str, read: Collection[str] | None = ()) -> Judged:
        """What a data file is; `read` are files that later checks were seen to read."""
        is_golden = _is_golden(path)
        if not is_golden and path in self._subjects:
            return FREE
        folder, name = dirname(path).rpartition("/")[2], path.rpartition("/")[2]
        is_named = name in self._by_tests
        is_placed = bool(folder) and folder in self._by_tests
        was_read = self._read is None or read is None or path in self._read or path in read
        if not (is_named or was_read or (is_golden and is_placed)):
            return FREE
        if name in self._by_program or (folder and folder in self._by_program):
            return _SHARED if was_read else FREE
        if splitext(name)[1] in self._made_endings:
            return _PERHAPS_DATA if was_read else FREE
        if is_golden or (path in self._paths and not name.endswith(_DOCUMENTS) and (is_named or is_placed)):
            return _EXPECTED
        return _PERHAPS_DATA if was_read else FREE


def _judged_modules(texts: Mapping[str, str], tests: Collection[str], graph: _Graph) -> dict[str, Judged]:
    """The source files that only checks load, as far as they are not surely the program."""
    loaded = graph.reached(tests) - set(tests)
    others = set(texts) - set(tests)
    used = {target for path in others - loaded for target in graph.imports(path)}
    used = graph.reached(used) | used
    tested = _stems(tests)
    likely: set[str] = set()
    helping: set[str] = set()
    for path in loaded - used:
        is_tested = f"_{_stem(path).lower()}_" in tested
        is_entry = path.endswith("__main__.py") or _ENTRY.search(texts[path]) is not None
        helps = _helps(path, texts[path])
        if helps:
            helping.add(path)
        if is_tested or (is_entry and not helps):
            likely.add(path)
    if not likely and not used:
        # Nothing else tells, and tests are mostly about the one package that there is.
        packages = {_group(path) for path in loaded - helping if path.endswith("/__init__.py")}
        likely = {path for path in loaded - helping if {_group(path)} == packages}
    # What a module of the program loads is the program's, whatever it is called.
    program = used | (likely - helping)
    program |= graph.reached(program) - set(tests)
    groups = {_group(path) for path in program & loaded} | {_group(path) for path in used}
    left = {path for path in loaded - program if path not in helping}
    found: dict[str, Judged] = {}
    for path in loaded - program:
        if path in helping:
            # In the package of the program it may be part of what is delivered.
            found[path] = _PERHAPS_HELPER if path in likely or _group(path) in groups else _HELPER
        elif _group(path) in groups:
            continue  # A module of a package that is the program.
        elif groups or len({_group(each) for each in left}) > 1:
            found[path] = _PERHAPS_HELPER
    # Whatever the rest loads is the program too: a helper that a module of the program needs is its own.
    free = {path for path in loaded if path not in found}
    for path in graph.reached(free):
        if found.get(path) is _HELPER:
            found[path] = _PERHAPS_HELPER
    return found


def _helps(path: str, text: str) -> bool:
    parts = [*path.split("/")[:-1], _stem(path)]
    named = any(_HELPS.search(part) for part in parts)
    return named or _TEST_MODULES.search(text) is not None or _ASSERTS.search(text) is not None


def _above(path: str) -> Iterator[str]:
    while path := dirname(path):
        yield path


def _is_golden(path: str) -> bool:
    return any(_GOLDEN.search(splitext(part)[0]) for part in path.split("/"))


def _is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


def _stems(paths: Collection[str]) -> str:
    """The stems of some files, in a text in which the words of a name can be searched."""
    return " ".join(f"_{_stem(path).lower()}_" for path in paths)


def _stem(path: str) -> str:
    name = path.rpartition("/")[2].partition(".")[0]
    return dirname(path).rpartition("/")[2] if name in ("__init__", "index") else name


def _group(path: str) -> str:
    """The package that a file belongs to, or the file itself."""
    parts = path.split("/")
    if parts[0] in _ROOTS and len(parts) > 1:
        parts = parts[1:]
    return parts[0]


class _Graph:
    """Which files import which, of one repository."""

    def __init__(self, texts: Mapping[str, str], roots: Collection[str], added: Collection[str]) -> None:
        """`added` are folders that tests add to the import path themselves."""
        self._texts = texts
        self._added = sorted(added)
        self._folders = {folder for path in texts for folder in _above(path)}
        self._found_in: dict[str, list[str]] = {}
        self._roots = sorted({"" if root in (".", "") else root for root in roots})
        self._known: dict[str, frozenset[str]] = {}

    def imports(self, path: str) -> frozenset[str]:
        """The files that a file imports, packages above them too."""
        if path not in self._known:
            find = self._python if _is_python(path) else self._script
            self._known[path] = frozenset(find(path, self._texts.get(path, ""))) - {path}
        return self._known[path]

    def reached(self, starts: Collection[str]) -> set[str]:
        """All that some files import, directly or not."""
        found: set[str] = set()
        left = list(starts)
        while left:
            new = self.imports(left.pop()) - found
            found |= new
            left += new
        return found

    def _python(self, path: str, text: str) -> Iterator[str]:
        for match in _IMPORT.finditer(text):
            if match["modules"] is not None:
                for each in match["modules"].split(","):
                    yield from self._module(path, (each.split() or [""])[0])
                continue
            source = match["source"]
            yield from self._module(path, source)
            for name in re.findall(r"\w+", re.sub(r"#[^\n]*|\bas\s+\w+", "", match["names"])):
                yield from self._module(path, f"{source}{'' if source.endswith('.') else '.'}{name}")
        for match in _NAMED_MODULE.finditer(text):
            yield from self._module(path, match[1])
        for plugins in _PLUGINS.finditer(text):
            for match in _QUOTED_MODULE.finditer(plugins[1]):
                yield from self._module(path, match[1])

    def _module(self, importer: str, dotted: str) -> Iterator[str]:
        level = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted.split(".") if part]
        here = dirname(importer)
        if level:
            for _ in range(level - 1):
                here = dirname(here)
            starts = [here]
        else:
            starts = [here, *self._roots_with(parts[0])] if parts else []
        for start in starts:
            found = [
                file
                for end in range(1 if parts and not level else 0, len(parts) + 1)
                for file in _files_of(join(start, *parts[:end]))
                if file in self._texts
            ]
            if found:
                yield from found
                return

    def _roots_with(self, name: str) -> list[str]:
        """The folders from which a module or package of this name can be imported."""
        if name not in self._found_in:
            self._found_in[name] = [
                root
                for root in (*self._roots, *self._added)
                if f"{(at := join(root, name))}.py" in self._texts or at in self._folders
            ]
        return self._found_in[name]

    def _script(self, path: str, text: str) -> Iterator[str]:
        if not path.endswith(_SCRIPT_ENDS):
            return
        for match in _REQUIRED.finditer(text):
            whole = normpath(join(dirname(path), match[1]))
            for end in ("", *_SCRIPT_ENDS, *(f"/index{each}" for each in _SCRIPT_ENDS)):
                for file in (whole + end, splitext(whole)[0] + end):
                    if file in self._texts:
                        yield file


def _files_of(module: str) -> tuple[str, ...]:
    return (f"{module}.py", f"{module}/__init__.py") if module else ()


def _mentioned(texts: Iterable[str]) -> frozenset[str]:
    """The parts of paths that stand in the string literals of some texts."""
    found: set[str] = set()
    for text in texts:
        for match in _STRING.finditer(text):
            found.update(filter(None, re.split(r"[/\\\s]+", match[1] or match[2] or match[3])))
    return frozenset(found)


def _named_by_path(texts: Mapping[str, str]) -> frozenset[str]:
    """The parts of paths that tests in other languages than Python name, but not to include them."""
    scripts = [text for path, text in texts.items() if path.endswith(_SHELL_ENDS)]
    return _mentioned(_INCLUDES.sub("", text) for text in texts.values()) | _shell_mentioned(scripts)


def _shell_mentioned(texts: Iterable[str]) -> frozenset[str]:
    """The parts of paths in shell text that are set as a variable, or stand behind one: where such a path
    leads to is not known. Others are found by reading the command.

    >>> sorted(_shell_mentioned(["D=./lib; sh $D/cmp.sh a.txt"]))
    ['.', 'cmp.sh', 'lib']
    """
    found: set[str] = set()
    for text in texts:
        for match in _SHELL_WORD.finditer(text):
            value = _SHELL_SET.fullmatch(match[0])
            if value is not None or "$" in match[0]:
                parts = (value[1] if value is not None else match[0]).split("/")
                found.update(part for part in parts if part and "$" not in part)
    return frozenset(found)


def _added_roots(texts: Mapping[str, str], tests: Collection[str]) -> set[str]:
    """Folders that tests may add to the import path: those that they name where they change it."""
    changing = [
        texts[path] for path in tests if "sys.path" in texts[path] or "syspath_prepend" in texts[path]
    ]
    named = _mentioned(changing)
    return {folder for path in texts if (folder := dirname(path)) and folder.rpartition("/")[2] in named}


def _made_ending(mentioned: str) -> str:
    """The ending of a name that is put together at run time, as in `f"{name}.json"`, `"*.json"` or `".json"`.

    >>> _made_ending("{name}.json"), _made_ending(".json"), _made_ending("rates.json")
    ('.json', '.json', '')
    """
    before, dot, ending = mentioned.rpartition(".")
    is_made = not before or any(sign in before for sign in "{*%$+")
    return f".{ending}" if dot and ending.isalnum() and is_made else ""
