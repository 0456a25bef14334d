"""`placet completion`: real shells complete with what it prints."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from placet.cli.main import cli
from tests.cli.conftest import Done, command, environment

Placet = Callable[..., Done]
SHELLS = ("bash", "zsh", "fish")
PATHS = re.compile(r"FILE|PATH|PLAN|DIR|FOLDER")


def needs(shell: str) -> Any:
    return pytest.param(
        shell, marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell} here")
    )


class Shell:
    """A folder with a plan and the completion scripts, and shells that have read them."""

    def __init__(self, folder: Path, placet: Placet) -> None:
        self.folder = folder
        self.script: dict[str, Path] = {}
        for shell in SHELLS:
            self.script[shell] = folder / "scripts" / shell
            self.script[shell].parent.mkdir(exist_ok=True)
            self.script[shell].write_text(placet("completion", shell).out)
        program = folder / "bin" / "placet"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(command())} "$@"\n')
        program.chmod(0o755)
        self.environment = environment(
            PATH=f"{program.parent}:{os.environ['PATH']}", HOME=str(folder), TERM="xterm", PS1="$ "
        )
        (folder / "work").mkdir()
        (folder / "work" / "a-plan.json").write_text("{}")

    def completed(self, shell: str, line: str) -> list[str]:
        """The words of a line after a person has pressed Tab at its end."""
        script = shlex.quote(str(self.script[shell]))
        if shell == "fish":
            done = self._run("fish", "-c", f"source {script}; complete -C {shlex.quote(line)}")
            [last] = [word.partition("\t")[0] for word in done.splitlines()]
            return [*line.split()[:-1], last]
        start = {
            "bash": (["bash", "--norc", "-i"], f"source {script}"),
            "zsh": (["zsh", "-f", "-i"], f"bindkey -e; autoload -U compinit; compinit -u; source {script}"),
        }
        argv, load = start[shell]
        # Ctrl-A goes to the beginning of the line, so that its words are shown and nothing of it is run.
        keys = f"{load}\r{line}\t\x01printf '<%s>' \rexit\r"
        shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._typed(argv, keys))
        return re.findall(r"<([^<>%]*)>", shown)

    def _run(self, *argv: str) -> str:
        done = subprocess.run(
            argv,
            cwd=self.folder / "work",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout

    def _typed(self, argv: list[str], keys: str) -> str:
        """What a terminal shows after these keys."""
        main, side = pty.openpty()
        process = subprocess.Popen(
            argv,
            cwd=self.folder / "work",
            env=self.environment,
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        os.write(main, keys.encode())
        shown = b""
        while select.select([main], [], [], 60)[0]:
            try:
                data = os.read(main, 65536)
            except OSError:
                break  # The shell has let go of the terminal.
            if not data:
                break
            shown += data
        os.close(main)
        try:
            assert process.wait(timeout=10) == 0, shown
        finally:
            process.kill()
        return shown.decode(errors="replace")


@pytest.fixture
def shell(tmp_path: Path, placet: Placet) -> Shell:
    return Shell(tmp_path, placet)


@pytest.mark.parametrize("name", [needs(shell) for shell in SHELLS])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("placet docto", ["placet", "doctor"], id="a command"),
        pytest.param("placet loop unit --re", ["placet", "loop", "unit", "--repo"], id="an option"),
        pytest.param("placet runs sho", ["placet", "runs", "show"], id="a command of a group that lists"),
        pytest.param("placet completion fi", ["placet", "completion", "fish"], id="a choice"),
        pytest.param("placet verify a-p", ["placet", "verify", "a-plan.json"], id="a plan"),
        pytest.param(
            "placet do x --tools a-p",
            ["placet", "do", "x", "--tools", "a-plan.json"],
            id="a file of an option",
        ),
    ],
)
def test_a_shell_completes(shell: Shell, name: str, line: str, words: list[str]) -> None:
    assert shell.completed(name, line) == words


@pytest.mark.parametrize("name", [needs(shell) for shell in SHELLS])
def test_a_script_is_well_formed(shell: Shell, name: str) -> None:
    subprocess.run([name, "-n", shell.script[name]], check=True, timeout=60)


def test_a_script_is_printed_where_no_shell_is(placet: Placet, shell: Shell, tmp_path: Path) -> None:
    for name in SHELLS:
        done = placet("completion", name, PATH=str(tmp_path))

        assert done.code == 0
        assert done.out == shell.script[name].read_text()
        assert f"placet completion {name} >" in done.err


def test_reading_a_script_starts_no_program(shell: Shell) -> None:
    program = shell.folder / "bin" / "placet"
    program.write_text("#!/bin/sh\ntouch started\n")

    subprocess.run(
        ["bash", "--norc", "-c", f"source {shlex.quote(str(shell.script['bash']))}"],
        cwd=shell.folder,
        env=shell.environment,
        check=True,
        timeout=60,
    )

    assert not (shell.folder / "started").exists()


def test_completing_imports_nothing_heavy() -> None:
    probe = (
        "import sys; from placet.cli.main import main; main([]);"
        "heavy = ('rich', 'msgspec', 'asyncio', 'placet.runtime', 'placet.app');"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", probe],
        env=environment(COMP_WORDS="placet\nruns\n--", COMP_CWORD="2", _PLACET_COMPLETE="bash_complete"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "--json" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("arguments", [(), ("tcsh",)])
def test_another_shell_is_bad_input(placet: Placet, arguments: tuple[str, ...]) -> None:
    done = placet("completion", *arguments)

    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize(
    "line",
    ["placet runs --", "placet code runs --", "placet tools --json ", "placet run '", "placet nobody "],
)
def test_nothing_is_said_beside_the_answer(placet: Placet, line: str) -> None:
    words = line.split(" ")

    done = placet(
        COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1), _PLACET_COMPLETE="bash_complete"
    )

    assert (done.code, done.err) == (0, "")


def test_options_of_what_a_group_does_by_itself_are_completed(placet: Placet) -> None:
    done = placet(COMP_WORDS="placet\nruns\n--js", COMP_CWORD="2", _PLACET_COMPLETE="bash_complete")

    assert done.out.split() == ["plain,--json"]


def parameters(group: click.Group, path: str = "placet") -> Iterator[Any]:
    """Every parameter that takes a path."""
    for name, each in group.commands.items():
        for parameter in each.params:
            shown = parameter.metavar or (parameter.name or "").upper()
            if PATHS.search(shown) and not (isinstance(parameter, click.Option) and not parameter.metavar):
                yield pytest.param(each, parameter, id=f"{path} {name} {parameter.opts[0]}")
        if isinstance(each, click.Group):
            yield from parameters(each, f"{path} {name}")


@pytest.mark.parametrize(("owner", "parameter"), list(parameters(cli)))
def test_a_parameter_that_takes_a_path_completes_one(
    owner: click.Command, parameter: click.Parameter
) -> None:
    [item] = parameter.shell_complete(click.Context(owner), "some")

    assert (item.value, item.type in ("file", "dir")) == ("some", True)


def test_without_a_shell_the_error_lists_them_in_a_line(placet: Any) -> None:
    done = placet("completion")

    assert done.code == 2
    assert "\\t" not in done.err
    assert "bash, zsh, fish" in done.err
