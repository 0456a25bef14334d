"""Every command that the documentation prints is run, or named here with the reason why it is not.

    ```console          is run by test_pages.py, always
    ```sh               is in the table ELSEWHERE: what runs it, or why nothing here can
    `placet ...`        is held against the command line as it is; `make X`, `python FILE` and `pytest PATH`
                        against the files of the clone; so are the commands that messages of the program name

Words in capitals (PLAN.json, KEY=VALUE) and `...` stand for whatever a reader puts there.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from placet.cli.code_options import Coding
from placet.cli.inputs import Subject
from placet.cli.main import cli
from tests.docs.pages import (
    DOCS,
    ROOT,
    blocks_of,
    environment,
    name_of,
    pages,
    without_blocks,
)
from tests.properties.effort import SOAK
from tests.servers.local_model import model_files
from tests.warm import Warm

PAGES = [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

BENCH = "takes minutes on an idle machine, and says what it measures"
EVAL = "asks the local model for many minutes: a score, no pass or fail"
SETUP = "sets up what these tests run in"


class Elsewhere(NamedTuple):
    """A command of an `sh` block, which is not run in the folder of its page."""

    because: str = ""
    """Why nothing here can run it."""
    by: str = ""
    """The test that runs it, or does the same: FILE, FILE::TEST, or a target of make."""


INSTALL = Elsewhere(by="tests/packaging/test_distributions.py::test_it_installs_from_wheel_sdist_and_clone")
EXAMPLES = Elsewhere(by="tests/examples/test_examples.py::test_the_commands_of_the_readme_work")
MODELS = Elsewhere(by="tests/docs/test_commands.py::test_a_command_about_a_model_on_this_machine_works")
TRIP = "--tools trip/tools.py --policies trip/policies.toml --state trip/state.json"

REMOTE = "tests/server/test_remote.py"
API = Elsewhere(by="tests/server/test_api.py")
ELSEWHERE: dict[str, Elsewhere] = {
    "ssh -L 8765:localhost:8765 you@box": Elsewhere("needs another machine"),
    "placet serve start --host 0.0.0.0 --host-name box.example.org --allow-remote --cert /etc/ssl/box.pem --key /etc/ssl/box.key": Elsewhere(  # noqa: E501
        by=REMOTE
    ),
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -keyout box.key -out box.pem -subj /CN=box.example.org -addext subjectAltName=DNS:box.example.org": Elsewhere(  # noqa: E501
        by=REMOTE
    ),
    "placet serve start --host-name box.example.org --trusted-proxy 127.0.0.1": Elsewhere(by=REMOTE),
    "placet serve start --host 10.0.0.5 --host-name box.example.org --allow-remote --trusted-proxy 10.0.0.2": Elsewhere(  # noqa: E501
        by=REMOTE
    ),
    "placet serve token add bot --right see --right decide > token.txt": API,
    'curl -s http://127.0.0.1:8765/api/v1/needs-you -H "Authorization: Bearer $(cat token.txt)"': API,
    "curl -s http://127.0.0.1:8765/api/v1/approvals/0f57f3447a42/decision -H \"Authorization: Bearer $(cat token.txt)\" -H 'X-Placet: 1' -H 'Content-Type: application/json' -d '{\"decision\": \"once\"}'": API,  # noqa: E501
    "make setup": Elsewhere(SETUP),
    ". .venv/bin/activate": Elsewhere(SETUP),
    'cd "$(mktemp -d)"': Elsewhere("leads to the folder in which the page is tried"),
    "make demo": Elsewhere(
        by="tests/examples/test_examples.py::test_the_demo_shows_proposals_decisions_results_and_the_story"
    ),
    "make test": Elsewhere("runs this very test"),
    "make docs": Elsewhere(by="tests/docs/test_site.py"),
    "make api": Elsewhere(by="tests/docs/test_api.py"),
    "make fmt": Elsewhere("changes the files of the clone; `make test` checks what it would change"),
    "make mutants": Elsewhere("takes hours"),
    "make bench": Elsewhere(BENCH),
    "make bench BENCH_ARGS=--json": Elsewhere(BENCH),
    'make bench BENCH_ARGS="execute --quick"': Elsewhere(BENCH),
    ".venv/bin/python -m benchmarks.profile_execute": Elsewhere(BENCH),
    ".venv/bin/python -m benchmarks.server_load": Elsewhere(BENCH),
    "make eval-calls": Elsewhere(EVAL),
    "make eval-turns": Elsewhere(EVAL),
    "make eval-do": Elsewhere(EVAL),
    "make eval-loops": Elsewhere(EVAL),
    "make eval-code": Elsewhere(EVAL),
    "make eval-agents": Elsewhere(EVAL),
    "make eval-skills": Elsewhere(EVAL),
    "make eval-flows": Elsewhere(by="tests/evals/test_flows.py"),
    "make eval-secrets": Elsewhere(by="tests/evals/test_secrets.py"),
    ".venv/bin/python -m pytest tests/runtime -q -k abort": Elsewhere(by="make test"),
    ".venv/bin/python -m pytest tests/durable/test_kills.py -s": Elsewhere(by="tests/durable/test_kills.py"),
    "pip install path/to/the/clone": INSTALL,
    "pip install '.[durable]'": INSTALL,
    "pip install '.[embed]'": INSTALL,
    "pip install '.[local]'": INSTALL,
    "pip install '.[otel]'": INSTALL,
    "pip install '.[postgres]'": INSTALL,
    "export DATABASE_URL=postgresql://USER:PASSWORD@HOST:5432/NAME": Elsewhere(
        "names the reader's database; the page is followed with one of the tests"
    ),
    'placet worker --db "$DATABASE_URL" --temporal 127.0.0.1:7233': Elsewhere(
        by="tests/engine/test_conformance.py"
    ),
    "export ANTHROPIC_API_KEY=...": Elsewhere("is the reader's key"),
    "export PLACET_MODEL=anthropic:claude-sonnet-5-5": Elsewhere("is of use with a key alone"),
    "placet tools call infer prompt='Name a prime above 90.' --model anthropic:claude-sonnet-5-5": Elsewhere(
        "needs a paid key; the page runs the same with a script"
    ),
    "placet mcp add tracker https://tracker.example.org/mcp --header Authorization=TRACKER_AUTH": Elsewhere(
        by="tests/tools/mcp/test_http.py"
    ),
    "placet mcp enable tracker --all --as-claimed": Elsewhere(by="tests/cli/test_mcp.py"),
    "placet completion bash > ~/.local/share/bash-completion/completions/placet": Elsewhere(
        by="tests/cli/test_completion.py"
    ),
    "placet log accept --db runs.db": Elsewhere(by="tests/cli/test_records.py"),
    "placet model pull local": MODELS,
    "placet model pull embed": MODELS,
    "placet model test local": MODELS,
    """placet tools call embed texts='["a cat", "a kitten"]' --json""": MODELS,
    "placet tools --tools trip/tools.py": EXAMPLES,
    f"placet verify trip/plan.json {TRIP}": EXAMPLES,
    f"placet run trip/plan.json {TRIP} --log out/run.jsonl --svg out/trip.svg": EXAMPLES,
    "placet explain out/run.jsonl": EXAMPLES,
    "placet graph trip/plan.json -o out/plan.svg": EXAMPLES,
}

THEIRS = {"python verify.py"}
"""Commands about a file of the reader's own."""


# --- Reading pages ---

_CODE = re.compile(r"(`+)(.+?)\1")
_PROGRAM = r"(?:\.venv/bin/)?(?:placet|python3?|pytest)|make"
_COMMAND = re.compile(rf"(?:^|[|;&(] *)(?:[A-Z_]+=\S* +)*(?:{_PROGRAM})(?= |$)")
_OPERATORS = {"|", "||", "&", "&&", ";", "(", ")", ";;"}


class Printed(NamedTuple):
    """A command as a page prints it."""

    page: Path
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}: {self.text}"


def sh_commands(text: str) -> Iterator[str]:
    """The commands of the `sh` blocks of a page, without comments and in one line each."""
    for block in blocks_of(text):
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                if command := " ".join(re.sub(r"(^|\s)#.*", "", line).split()):
                    yield command


def unrun_commands(text: str) -> Iterator[str]:
    """Commands that a page prints after a `$` where nothing runs them."""
    for block in blocks_of(text):
        if block.language == "text" or (block.language == "console" and block.is_skipped):
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    yield line.removeprefix("$ ")


def inline_commands(text: str) -> Iterator[str]:
    """The commands in the prose of a page: code that calls `placet`, `make`, `python` or `pytest`."""
    for _, code in _CODE.findall(without_blocks(text)):
        # In a table a bar is written so.
        code = code.replace("\\|", "|").strip()
        if _COMMAND.search(code):
            yield code


def printed(read: str = "sh unrun inline") -> list[Printed]:
    readers = {"sh": sh_commands, "unrun": unrun_commands, "inline": inline_commands}
    return [
        Printed(page, command)
        for page in PAGES
        for name in read.split()
        for command in readers[name](page.read_text(encoding="utf-8"))
    ]


def simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each single command, without the variables that are set for it.

    Raises:
        ValueError: a quote is not closed.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in _OPERATORS:
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0], re.DOTALL):
                words.pop(0)
            if words:
                yield words
            words = []
        else:
            words.append(word)


def is_placeholder(word: str) -> bool:
    """Whether a reader puts something else there: NAME, PLAN.json, KEY=VALUE, `...`."""
    return "..." in word or "…" in word or re.match(r"[A-Z]{2}[A-Z_]*(?![a-z])", word) is not None


# --- What is wrong with a command ---


def problems(command: str, page: Path) -> list[str]:
    """Why a command cannot work as it is printed."""
    try:
        found = list(simple_commands(command))
    except ValueError as error:
        return [f"it cannot be read: {error}"]
    return [problem for words in found for problem in _problems_of(words, page)]


def _problems_of(words: list[str], page: Path) -> Iterator[str]:
    match [words[0].removeprefix(".venv/bin/"), *words[1:]]:
        case ["placet", *arguments]:
            yield from placet_problems(arguments)
        case ["make", *arguments]:
            yield from make_problems(arguments)
        case ["python" | "python3", *arguments]:
            yield from python_problems(arguments, page)
        case ["pytest", *arguments]:
            yield from pytest_problems(arguments)


def placet_problems(arguments: list[str]) -> Iterator[str]:
    command: click.Command = cli
    path, rest = "placet", list(arguments)
    while isinstance(command, click.Group):
        name = _subcommand(command, rest)
        if name is None:
            break
        if name not in command.commands:
            yield f"'{path}' has no command '{name}'"
            return
        if rest and rest[0] == name:
            rest.pop(0)
        command, path = command.commands[name], f"{path} {name}"
    yield from _option_problems(command, path, rest)


def _subcommand(group: click.Group, rest: list[str]) -> str | None:
    """Which of its commands a group takes; None where it is asked for itself, or that is left open."""
    if rest and rest[0] in group.commands:
        return rest[0]
    if not rest or rest[0] in ("-h", "--help"):
        return None
    if isinstance(group, Coding):
        return "run"
    if is_placeholder(rest[0]):
        return None
    if rest[0].startswith("-"):
        return next(iter(group.commands)) if isinstance(group, Subject) else None
    return rest[0]


def _option_problems(command: click.Command, path: str, rest: list[str]) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    options = {
        name: option
        for option in command.get_params(context)
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    } | {"-h": click.Option(["-h"], is_flag=True)}
    places = [parameter.nargs for parameter in command.params if isinstance(parameter, click.Argument)]
    given = 0
    is_known = True
    words = iter(rest)
    for word in words:
        if word == "--":
            return
        if word in (">", "|", "&&"):
            # The rest is the shell's.
            break
        if not re.match(r"--?[a-zA-Z]", word):
            given += 1
            # What follows may be anything, so nothing is said of how many there are.
            places = [-1] if "..." in word else places
            continue
        name, has_value, value = word.partition("=")
        option = options.get(name)
        if option is None:
            yield f"'{path}' has no option '{name}'"
            is_known = False
        elif not (option.is_flag or option.count):
            value = value if has_value else next(words, "...")
            is_open = is_placeholder(value) or not isinstance(option.type, click.Choice)
            if not is_open and value not in option.type.choices:
                yield f"'{path} {name}' does not take '{value}'"
    # Of an option that is not known, it is not known either whether the next word belongs to it.
    is_countable = is_known and -1 not in places and not isinstance(command, click.Group)
    if is_countable and given > sum(places):
        yield f"'{path}' takes {sum(places)} arguments, not {given}"


TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
VARIABLES = set(re.findall(r"\$\((?:if )?\$?\(?([A-Z_]+)\)?", MAKEFILE))


def make_problems(arguments: list[str]) -> Iterator[str]:
    for word in arguments:
        variable, is_set, _ = word.partition("=")
        if is_set:
            if variable not in VARIABLES:
                yield f"the Makefile uses no variable '{variable}'"
        elif word not in TARGETS and not word.startswith("-") and not is_placeholder(word):
            yield f"the Makefile has no target '{word}'"


def python_problems(arguments: list[str], page: Path) -> Iterator[str]:
    match arguments:
        case ["-m", "pytest", *rest]:
            yield from pytest_problems(rest)
        case ["-m", module, *_]:
            if not is_placeholder(module) and not _is_there(module):
                yield f"there is no module '{module}'"
        case [name, *_] if not name.startswith("-") and not is_placeholder(name):
            made = {block.title for block in blocks_of(page.read_text(encoding="utf-8"))}
            if name not in made and not any((at / name).exists() for at in (ROOT, page.parent)):
                yield f"there is no file '{name}'"


def _is_there(module: str) -> bool:
    top = module.partition(".")[0]
    if not (ROOT / top).is_dir():
        return importlib.util.find_spec(top) is not None
    file = ROOT / module.replace(".", "/")
    return file.with_suffix(".py").exists() or (file / "__main__.py").exists()


_TAKE_A_VALUE = ("-k", "-m", "-n", "-p", "-W", "--timeout", "--dist")


def pytest_problems(arguments: list[str]) -> Iterator[str]:
    paths: list[str] = []
    chosen: str | None = None
    words = iter(arguments)
    for word in words:
        if word in _TAKE_A_VALUE:
            value = next(words, "")
            chosen = value if word == "-k" else chosen
        elif not word.startswith("-") and not is_placeholder(word):
            paths.append(word)
    names: list[str] = []
    for path in paths:
        file, _, test = path.partition("::")
        if not (ROOT / file).exists():
            yield f"there is no '{file}'"
            continue
        found = test_names(ROOT / file)
        names += found
        if test and not any(name.endswith(f" {test.partition('[')[0]}") for name in found):
            yield f"'{file}' has no test '{test}'"
    if chosen is not None and not any(is_chosen(chosen, name) for name in names):
        yield f"-k '{chosen}' chooses no test"


@cache
def test_names(place: Path) -> tuple[str, ...]:
    """The tests in a file or a folder: path and function, as text. Nothing is imported."""
    files = sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
    return tuple(
        f"{file.relative_to(ROOT)} {name}"
        for file in files
        for name in re.findall(
            r"^ *(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    )


# It is no test, whatever pytest makes of its name.
test_names.__test__ = False  # type: ignore[attr-defined]


def is_chosen(expression: str, name: str) -> bool:
    """Whether pytest would choose a test by `-k`: words, `and`, `or`, `not` and brackets."""

    def held(word: re.Match[str]) -> str:
        return word[0] if word[0] in ("and", "or", "not") else str(word[0].lower() in name.lower())

    return bool(eval(re.sub(r"[\w.:/-]+", held, expression), {"__builtins__": {}}))


# --- The tests ---


def test_every_command_of_an_sh_block_is_run_or_said_not_to_be() -> None:
    lost = [str(each) for each in printed("sh") if each.text not in ELSEWHERE]

    assert lost == [], "make it a console block, which is run, or name in ELSEWHERE what runs it"


def test_every_command_after_a_dollar_sign_is_run() -> None:
    assert [str(each) for each in printed("unrun")] == []


def test_the_table_names_no_command_that_no_page_prints() -> None:
    assert set(ELSEWHERE) - {each.text for each in printed("sh")} == set()
    assert THEIRS - {each.text for each in printed("inline")} == set()


@pytest.mark.parametrize("command", ELSEWHERE)
def test_the_table_says_what_runs_a_command_or_why_nothing_does(command: str) -> None:
    row = ELSEWHERE[command]

    assert bool(row.because) != bool(row.by)
    if row.by.startswith("make "):
        assert list(make_problems([row.by.removeprefix("make ")])) == []
    elif row.by:
        assert list(pytest_problems([row.by])) == []


def test_commands_that_a_page_only_prints_exist() -> None:
    commands = {each for each in printed() if each.text not in THEIRS}

    wrong = {str(each): found for each in commands if (found := problems(each.text, each.page))}

    assert wrong == {}


def test_commands_are_found_in_pages() -> None:
    """Lest a reader that finds nothing has nothing to say."""
    found = [each.text for each in printed("inline") if each.page.is_relative_to(DOCS)]

    assert sum(text.startswith("placet ") for text in found) > 150
    assert sum(text.startswith("make ") for text in found) > 10
    assert sum("python -m " in text for text in found) > 5


PAGE = """
Do `placet run PLAN.json --db URL` and ``make test``, not `placet.verify` or `makes`.
Then `cd examples && placet do "a | b" \\| placet log`.

```sh
make setup        # once
placet run plan.json \\
       --json
```

```text
$ placet runs
a run
```

```console
$ placet doctor
```
"""


def test_the_commands_of_a_page_are_read_as_a_shell_would() -> None:
    assert list(sh_commands(PAGE)) == ["make setup", "placet run plan.json --json"]
    assert list(unrun_commands(PAGE)) == ["placet runs"]
    assert list(inline_commands(PAGE)) == [
        "placet run PLAN.json --db URL",
        "make test",
        'cd examples && placet do "a | b" | placet log',
    ]
    assert list(simple_commands('A=1 cd x && placet do "a | b" | placet log')) == [
        ["cd", "x"],
        ["placet", "do", "a | b"],
        ["placet", "log"],
    ]


@pytest.mark.parametrize(
    "command",
    [
        "placet",
        "placet --help",
        "placet COMMAND --help",
        "placet run PLAN.json --tools FILE --isolation process -h",
        "placet approvals --db URL --standing",
        'placet code "INTENT" --check ... --yes',
        "placet code --check ... -- list",
        "placet mcp add NAME -- python server.py --port 1",
        "PLACET_SOAK=1 .venv/bin/python -m pytest tests/durable -q -k 'kill and not nothing'",
        "pytest tests/docs/test_commands.py::test_commands_are_found_in_pages",
        "make",
        "make demo MODEL=openai:NAME",
        "python examples/embed.py",
        "python -m tests.servers.postgres",
        "python -m benchmarks",
        "(echo x; git diff) | placet do -",
    ],
)
def test_a_command_that_is_right_is_let_pass(command: str) -> None:
    assert problems(command, DOCS / "index.md") == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("placet rum PLAN.json", "'placet' has no command 'rum'"),
        ("placet approvals aprove ID", "'placet approvals' has no command 'aprove'"),
        ("placet run PLAN.json --tool FILE", "'placet run' has no option '--tool'"),
        ("placet runs --dbb URL", "'placet runs list' has no option '--dbb'"),
        ('placet code "INTENT" --chek TEXT', "'placet code run' has no option '--chek'"),
        ("placet run PLAN.json -q", "'placet run' has no option '-q'"),
        ("placet run PLAN.json --isolation proces", "does not take 'proces'"),
        ("placet explain RUN twice", "takes 1 arguments, not 2"),
        ("cd x && placet logg", "'placet' has no command 'logg'"),
        ("placet do 'a task", "cannot be read"),
        ("make tset", "no target 'tset'"),
        ("make demo MODLE=x", "no variable 'MODLE'"),
        ("python examples/gone.py", "no file 'examples/gone.py'"),
        ("python -m benchmarks.gone", "no module 'benchmarks.gone'"),
        ("pytest tests/gone", "no 'tests/gone'"),
        ("pytest tests/docs -k nobodywouldcallitso", "chooses no test"),
        ("pytest tests/docs/test_links.py::test_gone", "has no test 'test_gone'"),
    ],
)
def test_a_command_that_is_wrong_is_found(command: str, problem: str) -> None:
    [found] = problems(command, DOCS / "index.md")

    assert problem in found


# --- Messages of the program ---

_ADVISED = re.compile(
    r"(?:`|: |^ *)(placet [a-z-]+(?: [^`\n]*?)?)[.,;]?(?=`|$|\n|(?<!\.)[.,;)] )", re.MULTILINE
)


def texts_of(source: str) -> Iterator[str]:
    """The texts in a program. What is put into one stands there as `...`, unless it only adds to a word."""
    nodes = list(ast.walk(ast.parse(source)))
    parts = {id(part) for each in nodes if isinstance(each, ast.JoinedStr) for part in each.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            whole = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values
            )
            yield re.sub(r"(?<=\w)\0", "", whole).replace("\0", "...")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def advised(source: str) -> list[str]:
    if re.search(r"placet [a-z]", source) is None:
        return []
    return [found[1] for text in texts_of(source) for found in _ADVISED.finditer(text)]


def test_commands_that_messages_name_exist() -> None:
    # The name of a report, not a command.
    found = {
        command: name_of(file)
        for file in files_of("src")
        if file.suffix == ".py"
        for command in advised(file.read_text(encoding="utf-8"))
        if command != "placet agents"
    }

    assert len(found) > 150
    wrong = {f"{found[command]}: {command}": problems(command, DOCS / "index.md") for command in found}
    assert {command: problem for command, problem in wrong.items() if problem} == {}


def test_commands_are_found_in_messages() -> None:
    source = """f"There is no run '{run}'. See: placet runz{db}. Or `placet run {plan} --log`." """

    assert advised(source) == ["placet runz", "placet run ... --log"]


# --- Models on this machine ---


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "command",
    [name for name, row in ELSEWHERE.items() if row == MODELS and (SOAK or "model test" not in name)],
)
def test_a_command_about_a_model_on_this_machine_works(command: str, tmp_path: Path, warm: Warm) -> None:
    """With the files that the tests keep: they are fetched once, and `pull` finds them there.

    `model test` only in a soak: the model works at it for seconds. That it can do what the command asks of it
    is shown by tests/inference/local/test_real_model.py, and what the command says by
    tests/cli/test_model_command.py.
    """
    kept = model_files("embed" if "embed" in command else "local")
    own = {name: kept[name] for name in ("PLACET_MODELS", "XDG_RUNTIME_DIR")}

    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=environment(tmp_path, warm.command) | own,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    if "tools call embed" in command:
        output = json.loads(done.stdout)["results"][0]["output"]
        assert [len(vector) for vector in output["vectors"]] == [384, 384]


# --- Where it comes from ---

PLACES = ("README.md", "CONTRIBUTING.md", "docs", "examples", "CHANGELOG.md", "src")
_INSTALLS = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry|pdm|conda)\b[^\n`]*?\b(?:install|add|run|download|inject)\b(?P<what>[^\n`]*)|\buvx\b(?P<run>[^\n`]*)"
)
_DISTRIBUTION = re.compile(r"placet(?:\[[^\]]*\])?(?:[=<>~!@].*)?", re.IGNORECASE)


def asked_of_an_index(text: str) -> list[str]:
    """What would ask a package index for the distribution `placet`, which is not ours there."""
    return [
        found[0]
        for found in _INSTALLS.finditer(text)
        for word in (found["what"] or found["run"] or "").split()
        if _DISTRIBUTION.fullmatch(word.strip("'\"`.,;:()"))
    ]


def files_of(place: str) -> Iterable[Path]:
    path = ROOT / place
    kinds = (".md", ".py", ".toml", ".json", ".txt", ".sh")
    if path.is_file():
        return [path]
    return [each for each in sorted(path.rglob("*")) if each.suffix in kinds and "out" not in each.parts]


@pytest.mark.parametrize("place", PLACES)
def test_nobody_is_told_to_ask_the_package_index_for_placet(place: str) -> None:
    """The name is not ours there: a reader might install code of somebody else. A clone is installed."""
    wrong = {
        name_of(file): found
        for file in files_of(place)
        if (found := asked_of_an_index(file.read_text(encoding="utf-8")))
    }

    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("pip install placet", True),
        ("`pip install 'placet[mcp]'`, then", True),
        ('Run: pip install -U "placet[local]==0.1"', True),
        ("f\"pip install 'placet[{weights.extra}]'\"", True),
        ("python -m pip install placet.", True),
        ("uv add placet", True),
        ("pipx run placet do", True),
        ("uvx placet doctor", True),
        ("pip install '.[mcp]'", False),
        ("pip install path/to/placet", False),
        ("pip install -e .\nplacet run", False),
        ("placet model pull local, which comes through pip", False),
    ],
)
def test_an_installation_from_the_index_is_told_from_one_of_a_clone(text: str, is_wrong: bool) -> None:
    assert bool(asked_of_an_index(text)) == is_wrong
