"""Runs attacks or ordinary commands, and prints one line of JSON for each: what came of it.

It is a process of its own, so that the same cases can be run as another user and on a host that lacks
something: `hosts.py` starts it there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec

from placet.errors import IsolationMissing, ToolError
from placet.sandbox.command import run_command
from placet.sandbox.confinement import Isolation
from placet.sandbox.environment import clean_environment
from placet.sandbox.isolation import By, Facts
from placet.sandbox.ladder import climb
from placet.sandbox.processes import _children
from placet.sandbox.sandbox import Sandbox
from placet.sandbox.workspace import Workspace
from tests.attacks.all_cases import CASES, ORDINARY
from tests.attacks.case import Case
from tests.attacks.ordinary import Ordinary
from tests.attacks.scene import Scene


class Asked(msgspec.Struct, kw_only=True):
    """What to run."""

    what: Literal["attacks", "ordinary", "facts", "orphan"]
    base: str = ""
    """A folder of one's own. Whoever starts the machine gives it."""
    names: list[str] = []
    by: By = "bubblewrap"
    without: list[str] = []


class Outcome(msgspec.Struct, kw_only=True):
    """What came of one case."""

    name: str
    effects: list[str] = []
    """What an attack did. Of an ordinary command: what it did not do."""
    has_begun: bool = False
    """Whether it came to run at all."""
    missing: str = ""
    """What this machine does not have, so that the case could not be run."""
    said: str = ""
    """What it wrote, for whoever looks for the reason."""
    ended_by: str = ""


class Report(msgspec.Struct, kw_only=True):
    """What a machine says of itself."""

    by: By
    facts: Facts
    why: dict[str, str]
    refusal: str = ""
    """What is said where `process` is required; empty if it is reached."""


_PATIENCE_S = 25
"""More than any attack may take."""
_INSIDE = (Path(__file__).parent / "inside.py").read_text()


async def attack(case: Case, scene: Scene, sandbox: Sandbox) -> Outcome:
    """Run an attack in a sandbox, and look for its effects."""
    if case.needs not in scene.has:
        return Outcome(name=case.name, missing=case.needs)
    if case.language == "python":
        argv = [sys.executable, "-I", "-S", "-c", f"{_INSIDE}\n{case.text}"]
    else:
        argv = [case.language, "-c", f': > "$WORK/began"\n{case.text}']
    try:
        async with asyncio.timeout(_PATIENCE_S):
            finished = await run_command(
                argv,
                folder=sandbox.workspace.fd,
                environment=clean_environment(scene.environment()),
                limits=case.limits,
                sandbox=sandbox,
            )
    except TimeoutError:
        return Outcome(name=case.name, effects=["hung", *scene.effects(b"")], has_begun=True)
    except ToolError as error:
        return Outcome(name=case.name, effects=scene.effects(b""), said=str(error))
    said = finished.stdout + finished.stderr + finished.note.encode()
    effects = scene.effects(said)
    if max(len(finished.stdout), len(finished.stderr)) > case.limits.output_bytes:
        effects.append("over: output")
    return Outcome(
        name=case.name,
        effects=effects,
        has_begun=(scene.work / "began").exists(),
        said=said[-600:].decode(errors="replace"),
        ended_by=finished.ended_by,
    )


async def attack_all(cases: list[Case], base: Path, by: By, without: Collection[str]) -> None:
    """Run attacks one after the other. After a grave effect the scene is made anew."""
    cases = list(cases)
    while cases:
        with Scene(base) as scene, closing(Workspace(scene.work)) as workspace:
            sandbox = Sandbox(workspace, by, Facts(), keep_out=str(scene.keep), without=without)
            while cases:
                case = cases.pop(0)
                outcome = await attack(case, scene, sandbox)
                _tell(outcome)
                if not scene.mend(outcome.effects):
                    break


async def work_all(commands: list[Ordinary], base: Path, by: By, without: Collection[str]) -> None:
    """Run ordinary commands, each in a project of its own."""
    for command in commands:
        _tell(await work(command, base, by, without))


async def work(command: Ordinary, base: Path, by: By, without: Collection[str]) -> Outcome:
    """Run an ordinary command, and look whether it did what it is for."""
    home = Path(os.environ["HOME"])
    folder = Path(tempfile.mkdtemp(prefix="project-", dir=home))
    project = command.prepare(folder, home)
    if project is None:
        return Outcome(name=command.name, missing=command.needs)
    workspace = Workspace(project)
    keep = Path(tempfile.mkdtemp(prefix="keep-", dir=base))
    environment = {**os.environ, "HOME": command.home or str(home)}
    sandbox = Sandbox(workspace, by, Facts(), keep_out=str(keep), without=without, environment=environment)
    try:
        finished = await run_command(
            ["bash", "-c", command.text],
            folder=workspace.fd,
            environment=clean_environment({"HOME": environment["HOME"], "PYTHON": sys.executable}),
            limits=command.limits,
            sandbox=sandbox,
        )
    except ToolError as error:
        return Outcome(name=command.name, effects=[f"not run: {error}"])
    finally:
        workspace.close()
    said = finished.stdout + finished.stderr
    return Outcome(
        name=command.name,
        effects=command.missing(project, finished.stdout.decode(errors="replace")),
        has_begun=True,
        said=said[-1500:].decode(errors="replace") + finished.note,
        ended_by=finished.ended_by,
    )


async def tell_facts(base: Path) -> None:
    """What this machine can enforce, by its own account."""
    ladder = await climb(environment=os.environ)
    refusal = ""
    work = base / "checked"
    work.mkdir(exist_ok=True)
    workspace = Workspace(work)
    try:
        await Isolation("process").check(workspace)
    except IsolationMissing as error:
        refusal = str(error)
    finally:
        workspace.close()
    _tell(
        Report(
            by=ladder.best.by,
            facts=ladder.facts,
            why={tested.by: tested.why for tested in ladder.tested},
            refusal=refusal,
        )
    )


async def leave_orphan(base: Path, without: Collection[str]) -> None:
    """Kill what watches over a command, and look whether the command stays."""
    with Scene(base) as scene:
        workspace = Workspace(scene.work)
        sandbox = Sandbox(workspace, "bubblewrap", Facts(), keep_out=str(scene.keep), without=without)
        task = asyncio.create_task(
            run_command(
                ["sh", "-c", ': > began; trap "" HUP TERM; sleep 20'],
                folder=workspace.fd,
                environment=clean_environment(scene.environment()),
                sandbox=sandbox,
            )
        )
        for _ in range(1000):
            if (scene.work / "began").exists() or task.done():
                break
            await asyncio.sleep(0.01)
        for pid in scene.children():
            # What keepers are forked from, which would end what they leave, and the keepers.
            os.kill(pid, signal.SIGSTOP)
            for each in (*_children(pid), pid):
                os.kill(each, signal.SIGKILL)
        await task
        # The kernel ends it, in its own time.
        effects = scene.effects(b"", is_left_ended=False)
        for _ in range(20):
            if not effects:
                break
            await asyncio.sleep(0.05)
            effects = scene.effects(b"", is_left_ended=False)
        scene.effects(b"")
        _tell(Outcome(name="orphan", effects=effects, has_begun=(scene.work / "began").exists()))
        workspace.close()


def _tell(outcome: Outcome | Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Do what the arguments ask for, one after the other."""
    for argument in sys.argv[1:]:
        _do(msgspec.json.decode(argument, type=Asked))


def _do(asked: Asked) -> None:
    base = Path(asked.base)
    # A scene takes away what it has made.
    Path(os.environ["HOME"]).mkdir(exist_ok=True)
    match asked.what:
        case "attacks":
            chosen = [CASES[name] for name in asked.names]
            asyncio.run(attack_all(chosen, base, asked.by, asked.without))
        case "ordinary":
            commands = [ORDINARY[name] for name in asked.names]
            asyncio.run(work_all(commands, base, asked.by, asked.without))
        case "orphan":
            asyncio.run(leave_orphan(base, asked.without))
        case "facts":
            asyncio.run(tell_facts(base))


if __name__ == "__main__":
    main()
