"""The documentation as data: its pages, their fenced blocks, and how a page is tried out.

A page is tried in an empty folder, from top to bottom, as a reader would follow it:

    ```python              runs; all blocks of a page share one namespace
    ```output              what the python block before it printed
    ```LANG title="FILE"   is written to FILE; ~ is the folder itself
    ```console             each line `$ COMMAND` runs, the lines below it are what it prints
    ```toml                must be a policy file, tools; or settings, a contract, a loop if FILE is so called
    ```json                must be JSON
    ```py, ```pycon        signatures and examples of generated pages: shown as Python, not run

A command may start something in the background, with its output in a file; it is ended when the page is over.
Commands find `placet`, `python`, `pytest` and `uvicorn` as those under test.
A page that says `$DATABASE_URL` finds an empty Postgres database there, and `psql`.
`<!-- not run -->` on the line before a block leaves it out. In what is printed a line `...` stands for any
lines and `...` inside a line for any text; times, ids, moments and the width of gaps are not compared.
A command's stdout is compared, or its stderr if it wrote nothing else: on a terminal progress wipes itself.
A short id that a page shows as printed stands, in later commands, for the one that was printed in its place.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from apidocs.markdown import GENERATED
from placet.agents.files import read_agent
from placet.app.command_tools import read_command_tools
from placet.app.settings import FILE_NAME, parse_settings
from placet.checks.contract import read_contract
from placet.ir.codec import decode_json, decode_proposal
from placet.loops.spec import read_loop
from placet.policy.loader import load_policies
from tests.command import PLACET
from tests.servers import postgres

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"

NOT_RUN = "<!-- not run -->"
SHOWN = ("py", "pycon")
"""Languages of blocks that are shown as Python and not run; only generated pages may use them."""
HOME = "~/"
"""How the title of a file begins that belongs to the person, not to a project."""
_FENCE = re.compile(r'^```(?P<language>\w*)(?: title="(?P<title>[^\s"]+)")?$')
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| UTC)?"), "MOMENT"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \(UTC\)"), "DAY"),
    (re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), "MOMENT"),
    (re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16})\b"), "ID"),
    (re.compile(r"[+<]?\d[\d,]*(?:\.\d+)? (?:ms|s|min)\b"), "TIME"),
    (re.compile(r"(?<=_ms\":) ?[\d.e-]+"), "TIME"),
    (re.compile(r"(?<=\"time\":) ?[\d.]+"), "TIME"),
    (re.compile(r"\s+"), " "),
)
_SHORT_ID = re.compile(r"\b[0-9a-f]{12}\b")
"""Of a run, a proposal or an approval: one that people type."""


class Block(NamedTuple):
    """One fenced block."""

    language: str
    title: str | None
    text: str
    line: int
    """Where its fence opens, from 1."""
    is_skipped: bool


def pages() -> list[Path]:
    """Every page that a reader meets; tutorials first, because they take longest to follow."""
    written = sorted(DOCS.rglob("*.md"), key=lambda page: ("tutorials" not in page.parts, page))
    return [*written, ROOT / "README.md"]


def is_generated(text: str) -> bool:
    """Whether a page was written by `apidocs`, whose tests compare it with the source."""
    return GENERATED in text


def name_of(page: Path) -> str:
    """A page as tests call it."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order.

    Raises:
        ValueError: a fence that this reader does not understand, and so would pass over.
    """
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if "```" not in lines[at]:
            at += 1
            continue
        fence = _FENCE.match(lines[at])
        if fence is None:
            raise ValueError(
                f"line {at + 1}: fences stand alone, at the start of a line, titles in quotes: {lines[at]!r}"
            )
        end = next((i for i in range(at + 1, len(lines)) if lines[i] == "```"), None)
        if end is None:
            raise ValueError(f"line {at + 1}: the block is never closed")
        is_skipped = at > 0 and lines[at - 1].strip() == NOT_RUN
        body = "\n".join(lines[at + 1 : end]) + "\n"
        yield Block(fence["language"], fence["title"], body, at + 1, is_skipped)
        at = end + 1


def without_blocks(text: str) -> str:
    """The prose of a page."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def section(page: Path, heading: str) -> str:
    """What stands under a heading, up to the next of the same rank or a higher one.

    Raises:
        AssertionError: there is no such heading.
    """
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found is not None, f"{name_of(page)} has no heading '{heading}'"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows_of(text: str) -> list[list[str]]:
    """The rows of every table in a text, without headings."""
    rows: list[list[str]] = []
    lines = [line.strip() for line in text.splitlines()]
    for i, line in enumerate(lines):
        is_rule = re.fullmatch(r"\|[ :|-]+\|", line) is not None
        is_heading = i + 1 < len(lines) and re.fullmatch(r"\|[ :|-]+\|", lines[i + 1]) is not None
        if line.startswith("|") and not is_rule and not is_heading:
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            rows.append([cell.strip().replace("\\|", "|") for cell in cells])
    return rows


def codes_in(text: str) -> set[str]:
    """Everything that stands between single backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


class Trial:
    """One page, followed step by step in a folder of its own."""

    def __init__(
        self,
        name: str,
        text: str,
        folder: Path,
        placet: Sequence[str] = PLACET,
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        """`placet` and `python` are how the programs of these names are started."""
        self._name = name
        self._text = text
        self._folder = folder
        self._placet = placet
        self._python = python
        self._namespace: dict[str, Any] = {"__name__": "a_page"}
        self._printed: str | None = None
        self._exit_code = 0
        self._groups: list[int] = []
        """Process groups of commands that left something running."""
        self._ids: dict[str, str] = {}
        """Ids as the page writes them, and as they were printed here."""
        self.steps = 0
        """Blocks that were tried."""

    def run(self) -> None:
        """Follow the page; the current folder must be the trial's own.

        Raises:
            AssertionError: the page promises something that does not happen; names the line.
        """
        # As for a program that lies in the folder: blocks may import the files of the page.
        sys.path.insert(0, str(self._folder))
        try:
            for block in blocks_of(self._text):
                if not block.is_skipped:
                    self._try(block)
            self._check_all_output_is_shown("the end")
        finally:
            for group in self._groups:
                # Only if it is still there: the number of an empty group may be somebody else's by now.
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
            sys.path.remove(str(self._folder))
            for title in filter(None, (block.title for block in blocks_of(self._text))):
                sys.modules.pop(title.removesuffix(".py"), None)

    def _try(self, block: Block) -> None:
        place = f"{self._name}:{block.line}"
        if block.language != "output":
            self._check_all_output_is_shown(place)
        if block.title is not None:
            target = self._folder / block.title.removeprefix(HOME)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self._execute(block, place)
        elif block.language == "output":
            assert self._printed is not None, f"{place}: no python block stands before this output"
            compare(block.text, self._printed, place)
            self._printed = None
        elif block.language == "console":
            self._type_in(block, place)
        if block.language == "json":
            self._read_json(block, place)
        elif block.language == "toml":
            self._read_toml(block)
        else:
            shown = ("sh", "text", *(SHOWN if is_generated(self._text) else ()))
            assert block.language in ("python", "output", "console", *shown), (
                f"{place}: a block of '{block.language}' is not tried by anything"
            )
        self.steps += block.language not in ("sh", "text", *SHOWN)

    def _execute(self, block: Block, place: str) -> None:
        printed = StringIO()
        # Blank lines first, so that a traceback names the line of the page.
        code = compile("\n" * block.line + block.text, self._name, "exec", dont_inherit=True)
        try:
            with redirect_stdout(printed):
                exec(code, self._namespace)
        except Exception as error:
            raise AssertionError(f"{place}: {type(error).__name__}: {error}") from error
        self._printed = printed.getvalue() or None

    def _check_all_output_is_shown(self, place: str) -> None:
        assert self._printed is None, (
            f"before {place} a block printed what the page does not show:\n{self._printed}"
        )

    def _read_json(self, block: Block, place: str) -> None:
        for document in block.text.splitlines() if block.title and "jsonl" in block.title else [block.text]:
            value = decode_json(document, place)
            if isinstance(value, dict) and "actions" in value:
                unknown = decode_proposal(value).unknown_fields
                assert not unknown, f"{place}: fields that mean nothing: {unknown}"

    def _read_toml(self, block: Block) -> None:
        title, data = block.title or "", block.text.encode()
        if title.endswith(FILE_NAME):
            parse_settings(Path(title), data, of_project=not title.startswith(HOME))
        elif title.endswith("contract.toml"):
            read_contract(block.text, title)
        elif "/agents/" in title:
            read_agent(data, title)
        elif "/loops/" in title:
            read_loop(block.text, title, name=Path(title).stem)
        elif block.text.startswith("[[tool]]"):
            read_command_tools(self._folder / title, data)
        else:
            rules = self._folder / f".rules-{block.line}.toml"
            rules.write_bytes(data)
            load_policies(rules)

    def _type_in(self, block: Block, place: str) -> None:
        assert block.text.startswith("$ "), f"{place}: a console block starts with a command, `$ ...`"
        for written, expected in _commands(block.text):
            command = _SHORT_ID.sub(lambda found: self._ids.get(found[0], found[0]), written)
            # A session of its own, so that what it leaves in the background can be found again.
            with subprocess.Popen(
                ["sh", "-c", f"(exit {self._exit_code}); {command}"],
                cwd=self._folder,
                env=environment(self._folder, self._placet, self._python),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            ) as process:
                try:
                    stdout, stderr = process.communicate(timeout=60)
                except BaseException:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 0)
                self._groups.append(process.pid)
            # As a shell says it: a command that was killed, by 9, exits with 137.
            code = process.returncode
            self._exit_code = code if code >= 0 else 128 - code
            shown = stdout or (stderr if expected.strip() else "")
            self._ids |= compare(expected, shown, f"{place}: $ {command}")


def environment(
    folder: Path, placet: Sequence[str] = PLACET, python: Sequence[str] = (sys.executable,)
) -> dict[str, str]:
    """Where `placet` is the code under test, and nothing of the person's own gets in, not even their runs."""
    programs = programs_in(folder, placet, python)
    foreign = ("CI", "COLUMNS", "PLACET_DB", "PLACET_DEBUG", "FORCE_COLOR")
    kept = {k: v for k, v in os.environ.items() if k not in foreign}
    path = [str(programs), os.environ["PATH"]]
    if "DATABASE_URL" in kept:
        # `psql` is beside the server; Debian leaves that folder off PATH.
        path.append(str(postgres.programs()))
    return {
        **kept,
        "PATH": os.pathsep.join(path),
        # What else is installed here takes longer to load than a page to be followed.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONUTF8": "1",
        "XDG_DATA_HOME": str(data_home(folder)),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "XDG_STATE_HOME": str(folder / ".state"),
    }


def programs_in(
    folder: Path, placet: Sequence[str] = PLACET, python: Sequence[str] = (sys.executable,)
) -> Path:
    """A folder for PATH, with the programs that pages start by their names."""
    programs = folder / ".bin"
    if not programs.exists():
        programs.mkdir()
        # Each in a process of its own, which a page may kill.
        modules = {name: (sys.executable, "-m", name) for name in ("pytest", "uvicorn")}
        for name, argv in {"placet": placet, "python": python, **modules}.items():
            script = programs / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
            script.chmod(0o755)
    return programs


def data_home(folder: Path) -> Path:
    """Where a page that is followed in this folder has its runs."""
    return folder / ".share"


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command, with what is said to come of it. A backslash at the end goes on in the next line."""
    found: list[tuple[str, list[str]]] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            found[-1] = (found[-1][0].removesuffix("\\") + line.strip(), [])
        elif line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
            continue
        goes_on = line.endswith("\\")
    for command, expected in found:
        yield command, "\n".join(expected)


def compare(expected: str, actual: str, place: str) -> dict[str, str]:
    """Hold what a page says against what was printed; returns each short id with the one in its place.

    Raises:
        AssertionError: they differ in more than times, ids and gaps.
    """
    wanted, got = _without_times(expected), _without_times(actual)
    shown: set[str] = set()

    def any_id(found: re.Match[str]) -> str:
        if found[0] in shown:
            return r"[0-9a-f]{12}"
        shown.add(found[0])
        return rf"(?P<id_{found[0]}>[0-9a-f]{{12}})"

    def any_of(line: str) -> str:
        if line == "...":
            return r"(?:.*\n)*?"
        return _SHORT_ID.sub(any_id, re.escape(line).replace(r"\.\.\.", ".*")) + r"\n"

    matched = re.fullmatch("".join(map(any_of, wanted)), "".join(f"{line}\n" for line in got))
    if matched is None:
        raise AssertionError(
            f"{place}\n--- the page says\n{expected.rstrip()}\n--- it printed\n{actual.rstrip()}\n"
        )
    return {name.removeprefix("id_"): printed for name, printed in matched.groupdict().items()}


def plain(text: str) -> list[str]:
    """The lines of a text without what differs from run to run; empty lines do not count."""
    return [_SHORT_ID.sub("ID", line) for line in _without_times(text)]


def _without_times(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        for mask, word in _MASKS:
            line = mask.sub(word, line)
        if line.strip():
            lines.append(line.strip())
    return lines
