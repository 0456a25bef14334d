"""Draw docs/images/terminal.svg, tables-80.svg and tables-100.svg: real commands and what they print, as
pictures of terminals.

    .venv/bin/python docs/images/terminal.py

The commands run in a copy of examples/approvals, in an empty database. For terminal.svg the head of each
output is shown, up to the first empty line; the tables are those of a terminal of 80 and of 100 columns.
`tests/docs/test_pages.py` runs the commands again and compares the text.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("terminal.svg")
PROGRAMS = Path(sys.executable).parent

COLUMNS = 106
GIVEN = "--tools tools.py --policies policies.toml"
COMMANDS = (
    (
        "A web page tries to choose who gets the mail. The rule says no; the plan rolls back.",
        f"placet run mail.json {GIVEN}",
    ),
    (
        "A release waits for a person. The process ends; the question stays.",
        f"placet run plan.json {GIVEN} --run-id release-7",
    ),
    ("A person decides, in any process, at any time.", "placet approvals approve ID --by ada"),
    ("The run resumes. Nothing that ended runs again.", f"placet resume release-7 {GIVEN}"),
)

WIDTHS = (80, 100)
BEFORE = (
    f"placet run mail.json {GIVEN} --run-id mail-3",
    f"placet run plan.json {GIVEN} --run-id release-7",
    "placet tools call shell command='exit 3'",
    "placet do 'Which versions are live?' --model scripted:answers.json --run-id look-1",
)
"""Makes what the tables show."""
TABLES = (
    "placet runs",
    "placet tools list --tools tools.py",
    "placet approvals list",
    "placet log costs --by run",
)
ANSWERS = """
{"turns": [
  {"calls": [{"name": "list_dir", "arguments": {}}], "usage": {"input": 900, "output": 30}, "cost": 0.02},
  {"text": "None yet.", "usage": {"input": 1000, "output": 20}, "cost": 0.02}
]}
"""

_SIZE, _LINE, _CELL, _LEFT, _TOP = 14, 20, 8.43, 22, 58
_PAPER, _INK, _DIM, _COMMENT = "#0f1720", "#d7dee6", "#8b98a5", "#7fb5d6"
_COLOURS = ("#6e7781", "#ff7b72", "#7ee787", "#f2cc60", "#79c0ff", "#d2a8ff", "#76e3ea", "#d7dee6")
"""ANSI 0 to 7."""
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
_LABEL = "A terminal: a rule stops a plan; another plan waits for an approval and is resumed"


def screen(programs: Path = PROGRAMS) -> list[Text]:
    """Run the commands, with the `placet` of this folder, and return the lines of the terminal."""
    lines: list[Text] = []
    with _example() as folder:
        approval = ""
        for comment, command in COMMANDS:
            printed = _on_terminal(re.sub(r"\bID\b", approval, command), folder, COLUMNS, programs)
            found = re.search(r"approval ([0-9a-f]{12})", Text.from_ansi(printed).plain)
            approval = found[1] if found else approval
            lines += [
                Text.assemble((f"# {comment}", _COMMENT)),
                Text.assemble(("$ ", "bold green"), (re.sub(r"\bID\b", approval, command), "bold")),
                *(Text.from_ansi(line) for line in printed.split("\n\n")[0].rstrip().splitlines()),
                Text(),
            ]
    return lines[:-1]


def tables(programs: Path = PROGRAMS) -> dict[int, list[Text]]:
    """Run the commands that print tables, likewise, and return the lines of a terminal of each width."""
    found: dict[int, list[Text]] = {}
    with _example() as folder:
        (folder / "answers.json").write_text(ANSWERS, encoding="utf-8")
        for command in BEFORE:
            _on_terminal(command, folder, COLUMNS, programs)
        for width in WIDTHS:
            lines = []
            for command in TABLES:
                lines.append(Text.assemble(("$ ", "bold green"), (command, "bold")))
                printed = _on_terminal(command, folder, width, programs)
                lines += [Text.from_ansi(line) for line in printed.splitlines()]
                lines.append(Text())
            found[width] = lines[:-1]
    return found


@contextmanager
def _example() -> Iterator[Path]:
    with TemporaryDirectory() as made:
        folder = Path(made) / "release"
        shutil.copytree(
            ROOT / "examples" / "approvals", folder, ignore=shutil.ignore_patterns("__pycache__", "demo.py")
        )
        yield folder


def _environment(folder: Path, programs: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    return environment | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PLACET_DB": str(folder / "runs.db"),
        "APPROVALS_WORLD": str(folder / "world.txt"),
        "FORCE_COLOR": "1",
        "PYTHONUTF8": "1",
        "TERM": "xterm",
    }


def _on_terminal(command: str, folder: Path, width: int, programs: Path) -> str:
    """What a command prints as its result on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = _environment(folder, programs)
    environment.pop("COLUMNS", None)
    running = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # The other end is closed.
            break
        if not some:
            break
        said += some
    os.close(ours)
    running.wait(60)
    return said.decode().replace("\r\n", "\n")


def draw(lines: list[Text], columns: int = COLUMNS, label: str = _LABEL) -> str:
    """Return the picture as SVG. Only plain shapes and text, so that it shows the same everywhere."""
    width = round(2 * _LEFT + columns * _CELL)
    height = _TOP + _LINE * len(lines) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{label}">',
        f'<rect width="{width}" height="{height}" rx="10" fill="{_PAPER}"/>',
        *(
            f'<circle cx="{24 + 20 * i}" cy="24" r="6" fill="{colour}"/>'
            for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<g font-family="{_FONTS}" font-size="{_SIZE}">',
    ]
    for row, line in enumerate(lines):
        for column, text, style in _runs(line, columns):
            parts.append(
                f'<text x="{_LEFT + column * _CELL:.1f}" y="{_TOP + row * _LINE}" xml:space="preserve" '
                f'textLength="{len(text) * _CELL:.1f}" {_attributes(style)}>{escape(text)}</text>'
            )
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _runs(line: Text, columns: int) -> Iterator[tuple[int, str, Style]]:
    """Pieces of one style, each with the column where it starts; blanks at either end need no drawing."""
    column = 0
    for segment in line.render(Console(color_system="standard", width=columns)):
        text = segment.text.rstrip("\n")
        bare = text.lstrip(" ")
        if bare.rstrip(" "):
            yield column + len(text) - len(bare), bare.rstrip(" "), segment.style or Style()
        column += len(text)


def _attributes(style: Style) -> str:
    if style.color is None:
        ink = _DIM if style.dim else _INK
    else:
        ink = style.color.name if style.color.number is None else _COLOURS[style.color.number % 8]
    return f'fill="{ink}"' + (' font-weight="bold"' if style.bold else "")


if __name__ == "__main__":
    PICTURE.write_text(draw(screen()), encoding="utf-8")
    print(f"drawn: {PICTURE.relative_to(ROOT)}")
    for width, shown in tables().items():
        picture = PICTURE.with_name(f"tables-{width}.svg")
        label = f"A terminal of {width} columns: runs, tools, approvals and costs as tables"
        picture.write_text(draw(shown, width, label), encoding="utf-8")
        print(f"drawn: {picture.relative_to(ROOT)}")
