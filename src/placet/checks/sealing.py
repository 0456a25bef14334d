"""The files that checks depend on, which a change may not touch.

What decides whether the work is done must not be part of the work. So tests, settings of checks, scripts that
checks run, and whatever would be loaded in their place are taken from the base, whether they exist or not.

Keep true:
1. `.placet/` is sealed whatever the contract says; everything else only until the contract lets it go.
2. A file is judged by its own path alone: what a link leads to, or says, does not matter.
3. Whatever stands in the way of a sealed file is sealed too: a link in the place of its folder, a package
   beside a module of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from posixpath import basename, dirname, join, normpath, splitext

from placet.checks.check_inputs import CheckInputs
from placet.checks.command_line import (
    discovered_by,
    looks_like_a_file,
    named_files,
    python_folders,
    runs_one_of,
)
from placet.checks.contract import CheckResult, Contract, check_contract
from placet.checks.conventions import (
    CACHE,
    MODULES,
    OWN,
    convention,
    is_code,
    is_named_like_tests,
    is_test_code,
)
from placet.checks.recipes import Step, included, python_paths, steps
from placet.tools.builtin.matching.globs import compile_glob

_Module = tuple[str, str]
"""A folder, and the name by which Python finds a module there."""

_LOADABLE = {".py", ".pyc", ".pyo", ".pyw", ".so", ".pyd", ""}
"""How the name of a module may end. Without an ending it could be a link to a package."""
_ROOTS = ("", "src", "lib")
_LOOKS = frozenset(
    {
        *("grep", "egrep", "fgrep", "rg", "test", "[", "[[", "wc", "stat", "ls", "find", "ruff", "black"),
        *("isort", "flake8", "pylint", "mypy", "pyright", "codespell", "typos", "yamllint", "prettier"),
        *("eslint", "biome", "tsc", "stylelint", "markdownlint", "mdl", "vale", "mkdocs", "sphinx-build"),
        *("lychee", "taplo", "shellcheck", "hadolint", "gofmt", "golangci-lint", "jsonlint", "xmllint"),
    }
)
"""Programs that look at the files that they are given, and compare them with no others."""


class Seal:
    """What a change may not touch, and why. Made by `Seal.of`."""

    def __init__(
        self,
        contract: Contract,
        base_paths: Collection[str],
        texts: Mapping[str, str],
        tests: Collection[str],
        modules: Collection[str],
        roots: Collection[str],
        sources: Mapping[str, str] | None,
        baseline: Sequence[CheckResult],
    ) -> None:
        self._contract = contract
        self._may_touch = [lifts(pattern) for pattern in contract.may_touch]
        self._base = frozenset(base_paths)
        self._base_folders = {folder for path in self._base for folder in _folders_above(path)}
        self._modules = {module for path in self._base if (module := _module(path)) is not None}
        self._files: dict[str, str] = {}
        """What the checks name, and what it is to them."""
        self._folders: dict[str, str] = {}
        self._above: dict[str, str] = {}
        """Folders that hold sealed files, each with one of them."""
        self._instead: dict[_Module, str] = {}
        """Modules that are sealed, each with its file: nothing may be loaded in their place."""
        self._roots = {*_ROOTS, *roots, *python_paths(texts)}
        """Folders in which Python looks for modules when checks run."""
        self._loaded = MODULES | frozenset(modules)
        for check in contract.checks:
            self._roots.update(python_folders(check.command))
            for step in steps(check.command, texts):
                self._add_step(check.name, step)
            for path, by in included(check.command, texts):
                self._files.setdefault(path, f"is taken in by {by}, which a check runs")
        self._add_tests(tests)
        self._looking = {
            check.name
            for check in contract.checks
            if all(runs_one_of(step.simple, _LOOKS) for step in steps(check.command, texts))
        }
        """Checks that look at files as they are, such as linters. What they read is what is to be changed."""
        self._inputs: CheckInputs | None = None
        if sources is not None:
            self._add_inputs(sources, texts, baseline)
        for path in sorted(self._base):
            if self._of_itself(path) and not self._is_lifted(path):
                self._add_sealed(path)

    @classmethod
    def of(
        cls,
        contract: Contract,
        base_paths: Collection[str],
        *,
        texts: Mapping[str, str] | None = None,
        tests: Collection[str] = (),
        modules: Collection[str] = (),
        roots: Collection[str] = (),
        sources: Mapping[str, str] | None = None,
        baseline: Sequence[CheckResult] = (),
    ) -> Seal:
        """The seal of a contract over a tree with these files.

        `texts` are those of files that say what checks run, `tests` the modules that reported tests in the
        base, `modules` what is installed where checks load theirs from, and `roots` folders in which Python
        looks first. `sources` are the texts of source files, by which helpers and data of tests are found;
        `baseline` says which data the checks read.

        Raises:
            UsageError: the contract is none that `check_contract` lets pass.
        """
        check_contract(contract)
        return cls(contract, base_paths, texts or {}, tests, modules, roots, sources, baseline)

    def why(self, path: str) -> str:
        """Why a change may not touch a path, as words that follow it; empty if it may.

        The same answer for making, changing, deleting it, or putting a link there.
        """
        plain = normpath(path).lstrip("/")
        parts = plain.casefold().split("/")
        if OWN in parts:
            return convention(plain)
        if CACHE in parts:
            # Running tests leaves it everywhere, and checks do not get it.
            return ""
        if self._is_lifted(plain):
            return ""
        return self._of_itself(plain) or self._in_the_way(plain) or self._as_data(plain)

    def doubt(self, path: str, results: Sequence[CheckResult] = ()) -> str:
        """Why a person has to look at a change of a path that is not sealed, as words that follow it; empty
        if nobody has to. `results` are those of the checks on the change, which say what they read."""
        return self._doubt(path, self._read_by(results))

    def may_doubt(self, path: str) -> bool:
        """Whether a person has to look at a change of a path if checks read it."""
        return bool(self._doubt(path, None))

    def _doubt(self, path: str, read: Collection[str] | None) -> str:
        plain = normpath(path).lstrip("/")
        if self._inputs is None or self.why(plain) or self._is_lifted(plain) or CACHE in plain.split("/"):
            return ""
        judged = self._inputs.source(plain) if is_code(plain) else self._inputs.data(plain, read)
        return judged.why if judged.kind == "unsure" else ""

    def doubts(self, paths: Iterable[str], results: Sequence[CheckResult]) -> dict[str, str]:
        """Those of some changed paths that a person has to look at, each with the reason; also those that the
        checks did not find as they were in the change, because the code under test rewrote them."""
        changed = list(paths)
        # Of a tree that is as it was, the results are those of the baseline.
        rewritten = {path for result in results for path in result.rewritten} if changed else set()
        found = {path: why for path in changed if (why := self.doubt(path, results))}
        for path in sorted(rewritten):
            if why := self.doubt(path, results):
                found[path] = f"was rewritten while a check ran; it {why}"
        return found

    def bends(self, path: str) -> str:
        """Why a path that was made or changed while a check ran could bend what the check runs next, as words
        that follow it; empty if it could not: data that tests write beside themselves, and what is in a new
        folder, unless the folder itself could."""
        parts = normpath(path).lstrip("/").split("/")
        if CACHE in parts:
            at = parts.index(CACHE)
            return self._compiled("/".join(parts[:at]), parts[at + 1 :])
        plain = "/".join(parts)
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        new = next((folder for folder in above if folder not in self._base_folders), None)
        if new is not None and not plain.startswith(f"{new}/__init__."):
            # Only a package, or a folder with a meaning of its own, is found from outside of it.
            return "" if self._is_lifted(new) else self._of_itself(new) and self.bends(new)
        why = self.why(plain)
        if why == "is a test" and plain not in self._base and plain not in self._above:
            return why if is_test_code(plain) else ""
        return why

    def _compiled(self, folder: str, within: Sequence[str]) -> str:
        """Why a file that Python may load in the place of a source in `folder`, or the folder of such files,
        could bend a check: checks are told to write none."""
        if self._is_lifted(join(folder, CACHE, *within)):
            return ""
        if within:
            sources = [join(folder, f"{within[0].partition('.')[0]}.py")]
        else:
            sources = [path for path in self._base if dirname(path) == folder and path.endswith(".py")]
        sealed = next((path for path in sources if path in self._base and self.why(path)), None)
        return f"is loaded in the place of {sealed}" if sealed is not None else ""

    def notes(self, base_paths: Collection[str]) -> list[str]:
        """What a person should know before work begins: what is sealed that may well be the work itself."""
        there = frozenset(base_paths)
        found: list[str] = []
        for check in self._contract.checks:
            for path, role in named_files(check.command):
                if convention(path) == "" and path in there and role == "run" and self.why(path):
                    found.append(
                        f"check '{check.name}' runs {path}, so the change may not touch it; "
                        f"if that is what is to be changed: --allow {path}"
                    )
                elif (
                    path not in there
                    and (role == "test" or _is_run_as_a_test(path, role, check.command))
                    and self._is_absent_test(path)
                    and self.why(path)
                ):
                    found.append(
                        f"check '{check.name}' names {path}, which is not there, and the change may not make "
                        f"it; write it first, or: --allow {path}"
                    )
        if any(pattern.strip("/").split("/")[0] == OWN for pattern in self._contract.may_touch):
            found.append(f"nothing lets a change touch {OWN}/")
        return list(dict.fromkeys(found))

    def _of_itself(self, path: str) -> str:
        """Why a path is sealed, by its name or because a check names it."""
        by_name = convention(path) or self._files.get(path, "")
        if not by_name and not _is_plain(path) and (module := _module(path)) is not None:
            # A package may come in the place of a module, and so may what is compiled.
            by_name = convention("/".join(filter(None, module)) + ".py")
        if by_name:
            return by_name
        if self._folders:
            for folder in _folders_above(path):
                if folder in self._folders:
                    return self._folders[folder]
        return ""

    def _as_data(self, path: str) -> str:
        """Why a path is sealed because only checks read it, to compare with it or to load it."""
        if self._inputs is None:
            return ""
        judged = self._inputs.source(path) if is_code(path) else self._inputs.data(path)
        return judged.why if judged.kind == "sealed" else ""

    def _read_by(self, results: Sequence[CheckResult]) -> frozenset[str] | None:
        """The data that checks read to compare with it; None if that is not known."""
        read = [result.read for result in results if result.name not in self._looking]
        known = [each for each in read if each is not None]
        return None if len(known) < len(read) else frozenset(path for each in known for path in each)

    def _in_the_way(self, path: str) -> str:
        """Why a path that is nothing of itself would change what the checks find."""
        if path in self._above:
            return f"would stand in the place of the folder of {self._above[path]}, which checks depend on"
        for folder in _folders_above(path):
            if folder in self._base and self.why(folder):
                return f"would stand in the place of {folder}, which checks depend on"
        module = _module(path)
        if module is None:
            return ""
        if module in self._instead and self._instead[module] != path:
            return f"would be loaded in the place of {self._instead[module]}, which checks depend on"
        folder, name = module
        if name in self._loaded and folder in self._roots and module not in self._modules:
            return f"would shadow the module '{name}' that checks load"
        return ""

    def _add_step(self, check: str, step: Step) -> None:
        runs = (
            f"is run by the check '{check}'"
            if not step.by
            else f"is run by {step.by} for the check '{check}'"
        )
        self._roots.add(step.simple.folder)
        for path, role in step.named:
            is_there = path in self._base
            if role == "test" and (is_there or looks_like_a_file(path)):
                self._files.setdefault(path, "is a test")
            elif role == "test" and is_named_like_tests(path):
                self._folders.setdefault(path, "is a test")
            elif is_there and role == "run":
                self._files[path] = runs
            elif is_there and role == "configures":
                self._files.setdefault(path, "configures checks")
            elif is_there and role == "compares":
                self._files.setdefault(path, f"is what the check '{check}' compares with")
        if pattern := discovered_by(step.simple):
            folder = f"{step.simple.folder}/" if step.simple.folder else ""
            for path in self._base:
                if path.startswith(folder) and fnmatchcase(basename(path), pattern):
                    self._files.setdefault(path, "is a test")

    def _add_inputs(
        self, sources: Mapping[str, str], texts: Mapping[str, str], baseline: Sequence[CheckResult]
    ) -> None:
        """Find what checks load and read beside the program."""
        subjects = {
            normpath(join(step.simple.folder, word))
            for check in self._contract.checks
            for step in steps(check.command, texts)
            if runs_one_of(step.simple, _LOOKS)
            for word in (*step.simple.words[1:], *step.simple.reads)
        }
        self._inputs = CheckInputs(
            sources,
            lambda path: bool(self._of_itself(path)),
            roots=self._roots,
            paths=self._base,
            subjects=subjects,
            read=self._read_by(baseline),
            commands={
                text
                for check in self._contract.checks
                for step in steps(check.command, texts)
                for text in (check.command, texts.get(step.by, ""))
            },
        )
        for path in sources:
            judged = self._inputs.source(path)
            if judged.kind == "sealed":
                self._files.setdefault(path, judged.why)

    def _add_tests(self, modules: Collection[str]) -> None:
        """What has reported tests is a test, whatever it is called. The name of a class may follow that of
        the file, and where the names begin depends on where the test program ran."""
        for module in modules:
            path = module.replace(".", "/")
            for name in (path, dirname(path)):
                for folder in self._roots:
                    file = join(folder, f"{name}.py")
                    if name and file in self._base:
                        self._files.setdefault(file, "is a test")

    def _add_sealed(self, path: str) -> None:
        for folder in _folders_above(path):
            self._above.setdefault(folder, path)
        module = _module(path)
        if module is not None and splitext(path)[1]:
            self._instead.setdefault(module, path)
            self._roots.add(self._root_of(module[0]))

    def _root_of(self, folder: str) -> str:
        """The folder from which a module in `folder` is imported: the first above that is no package."""
        while folder and f"{folder}/__init__.py" in self._base:
            folder = dirname(folder)
        return folder

    def _is_lifted(self, path: str) -> bool:
        return any(fits(path) for fits in self._may_touch)

    def _is_absent_test(self, path: str) -> bool:
        # Of a dotted name every place was named; only one that is known to be meant is worth a note.
        return looks_like_a_file(path) and not any(
            other.startswith(f"{splitext(path)[0]}/") or path.startswith(f"{splitext(other)[0]}/")
            for other in self._base
        )


def lifts(pattern: str) -> Callable[[str], bool]:
    """A test for the paths that a pattern of `may_touch` lifts: those that fit, and all in folders that fit.

    >>> [lifts("tests")("tests/a.py"), lifts("*.toml")("sub/x.toml"), lifts("a/*.py")("a/b/c.py")]
    [True, True, False]

    Raises:
        ValueError: it is no pattern; the message is a clause about it.
    """
    plain = pattern.rstrip("/") if pattern.strip("/") else pattern
    itself = compile_glob(plain)
    beneath = compile_glob(f"{plain}/**" if "/" in plain else f"**/{plain}/**")
    return lambda path: itself(path) or beneath(path)


def _is_run_as_a_test(path: str, role: str, command: str) -> bool:
    """Whether a command names this very file, a test, as what an interpreter runs."""
    # Of a module every place is named that it could have; none of these is in the command.
    return role == "run" and path.rpartition("/")[2] in command and convention(path) != ""


def _folders_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _is_plain(path: str) -> bool:
    """Whether a file is, as a module, just what its name says; so are most."""
    return path.endswith(".py") and path.count(".") == 1 and not path.endswith("/__init__.py")


def _module(path: str) -> _Module | None:
    """Where and by what name Python would find a file as a module; None if it would not."""
    folder, _, name = path.rpartition("/")
    ending = splitext(name)[1]
    if ending not in _LOADABLE or name.startswith("."):
        return None
    stem = name.partition(".")[0]
    if stem == "__init__":
        folder, _, stem = folder.rpartition("/")
    return (folder, stem) if stem.isidentifier() else None
