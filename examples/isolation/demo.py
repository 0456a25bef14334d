"""What a sandbox is for, by effect: `python examples/isolation/demo.py`.

The same commands run twice in a repository: with all rights, and confined as far as this machine can. What
they attack is made for it, in a temporary folder: a key, a file, a server, a process. Then ordinary work is
done inside, and a plan that aborts leaves the repository as it was. It exits with 0 only if everything held
that the runtime claims to hold here. Without a sandbox it claims less, and shows that.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from placet import Isolation, Limits, Runtime, ToolError, basic_tools, tool

KEY = "the-key-of-somebody"


@dataclass
class Scene:
    """A repository to work in, and things beside it that are nobody's business inside."""

    work: Path
    outside: Path
    server: socket.socket
    neighbour: subprocess.Popen[bytes]

    def git(self, *arguments: str) -> str:
        """Our own git, outside."""
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        done = subprocess.run(["git", *who, *arguments], cwd=self.work, capture_output=True, check=True)
        return done.stdout.decode()

    def was_met(self) -> bool:
        """Whether somebody has connected to the server."""
        try:
            self.server.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Everything as it is at the beginning."""
    work, outside = folder / "work", folder / "outside"
    work.mkdir(parents=True)
    outside.mkdir()
    (outside / "key").write_text(KEY)
    (outside / "notes").write_text("as they were\n")
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    waiting = [sys.executable, "-c", "import time; time.sleep(120)"]
    neighbour = subprocess.Popen(waiting, env={"TOKEN": KEY})
    made = Scene(work, outside, server, neighbour)
    try:
        made.git("init", "--quiet")
        made.git("config", "user.name", "Ann")
        made.git("config", "user.email", "ann@example.org")
        (work / "price.py").write_text("def price(count: int) -> int:\n    return 3 * count\n")
        made.git("add", ".")
        made.git("commit", "--quiet", "--message", "Sell things")
        yield made
    finally:
        neighbour.kill()
        neighbour.wait()
        server.close()


@dataclass
class Attack:
    """A command that should not be able to do what it tries."""

    words: str
    held_by: str
    """The protection that it would break; `view` stands for how a repository is shown."""
    command: Callable[[Scene], str]
    took_effect: Callable[[Scene, dict[str, Any]], bool]


def connecting(scene: Scene) -> str:
    """A command that connects to the server."""
    port = scene.server.getsockname()[1]
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
    return f'"{sys.executable}" -c "{code}"'


def ended_soon(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process was ended; one that was has a moment for it."""
    try:
        process.wait(0.3)
    except subprocess.TimeoutExpired:
        return False
    return True


def has_hook(scene: Scene) -> bool:
    """Whether our own git would run something of the command's."""
    return (scene.work / ".git" / "hooks" / "pre-commit").exists()


ATTACKS = [
    Attack(
        "read a key that lies beside the folder",
        "fs_read",
        lambda scene: f"cat '{scene.outside}/key'",
        lambda _, answer: KEY in answer["stdout"],
    ),
    Attack(
        "read the environment of another process",
        "fs_read",
        lambda scene: f"cat /proc/{scene.neighbour.pid}/environ",
        lambda _, answer: KEY in answer["stdout"],
    ),
    Attack(
        "change a file outside",
        "fs_write",
        lambda scene: f"echo changed > '{scene.outside}/notes'",
        lambda scene, _: (scene.outside / "notes").read_text() != "as they were\n",
    ),
    Attack(
        "change the mode of a file outside",
        "fs_write",
        lambda scene: f"chmod 000 '{scene.outside}/notes'",
        lambda scene, _: (scene.outside / "notes").stat().st_mode & 0o777 == 0,
    ),
    Attack(
        "speak to a server of this machine",
        "net",
        connecting,
        lambda scene, _: scene.was_met(),
    ),
    Attack(
        "end another process",
        "proc_kill",
        lambda scene: f"kill {scene.neighbour.pid}",
        lambda scene, _: ended_soon(scene.neighbour),
    ),
    Attack(
        "leave a hook for whoever commits next",
        "git",
        lambda _: "echo 'echo gotcha' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
        lambda scene, _: has_hook(scene),
    ),
]


def runtime(scene: Scene, isolation: Isolation) -> Runtime:
    """One whose commands are confined so."""
    return Runtime(builtin=basic_tools(scene.work, isolation=isolation, limits=Limits(time_s=20)))


def shell(rt: Runtime, command: str) -> dict[str, Any]:
    """What the tool `shell` answers."""
    result = rt.execute_sync({"actions": [{"id": "a", "tool": "shell", "parameters": {"command": command}}]})
    if result["a"].error is not None:
        sys.exit(f"shell failed: {result['a'].error}")
    answer: dict[str, Any] = result["a"].output
    return answer


def attacked(folder: Path, isolation: Isolation) -> list[bool]:
    """Which attacks took effect."""
    with scene(folder) as made:
        rt = runtime(made, isolation)
        return [each.took_effect(made, shell(rt, each.command(made))) for each in ATTACKS]


def worked(folder: Path, isolation: Isolation) -> list[tuple[str, bool]]:
    """Ordinary work inside, and whether it went as anywhere else."""
    with scene(folder) as made:
        rt = runtime(made, isolation)
        python = f'"{sys.executable}"'
        changed = shell(rt, "sed -i.old 's/3/4/' price.py && rm price.py.old && git diff --stat")
        tested = shell(rt, f'{python} -B -c "from price import price; assert price(2) == 8"')
        refused = shell(rt, "git commit --quiet --all --message Dearer")
        commit = {"paths": ["price.py"], "message": "Dearer"}
        committed = rt.execute_sync(
            {"actions": [{"id": "a", "tool": "git_commit", "parameters": commit}]}
        ).succeeded
        return [
            ("a file was changed, and git shows it", "price.py" in changed["stdout"]),
            ("a test ran", tested["exit_code"] == 0),
            ("a command cannot commit", refused["exit_code"] != 0),
            ("a call of git_commit can", committed and "Dearer" in made.git("log", "--format=%s")),
            ("nothing is left to commit", not made.git("status", "--short")),
        ]


@tool
async def publish() -> None:
    """Publish the new price; it never works."""
    raise ToolError("the server said no", retry=False)


def restored(folder: Path, isolation: Isolation) -> bool:
    """Whether a plan that aborts leaves the repository as it was, and our draft in it."""
    with scene(folder) as made:
        (made.work / "draft.txt").write_text("not committed\n")
        before = made.git("status", "--short"), made.git("log", "--format=%H")
        rt = Runtime(
            tools=[publish],
            builtin=basic_tools(made.work, isolation=isolation),
            workspace=made.work,
            snapshots=folder / "snapshots",
        )
        result = rt.execute_sync(
            {
                "actions": [
                    {"id": "tidy", "tool": "shell", "parameters": {"command": "rm draft.txt price.py"}},
                    {
                        "id": "write",
                        "tool": "write_file",
                        "parameters": {"path": "shop/price.py", "text": "", "create_folders": True},
                        "dependencies": ["tidy"],
                    },
                    {"id": "publish", "tool": "publish", "dependencies": ["write"]},
                ]
            }
        )
        print(f"  the plan: {result.outcome}, {result.error}")
        return before == (made.git("status", "--short"), made.git("log", "--format=%H"))


def main() -> int:
    """Show everything, then say whether what was claimed held."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        confined = Isolation(folder=folder / "data")
        facts = asyncio.run(confined.check())
        claims = {field: getattr(facts.enforced, field) for field in facts.enforced.__struct_fields__}
        claims["git"] = "kernel" if facts.by == "bubblewrap" else "no"

        say(f"What this machine enforces: isolation '{facts.isolation}', by {facts.by}")
        print("  " + ", ".join(f"{field} {how}" for field, how in claims.items() if field != "git"))

        say("The same commands, with all rights and confined")
        free = attacked(folder / "free", Isolation("none"))
        held = attacked(folder / "held", confined)
        print(f"  {'':42}{'all rights':14}confined")
        for each, was_done, is_done in zip(ATTACKS, free, held, strict=True):
            print(f"  {each.words:42}{done(was_done):14}{done(is_done)}")

        say("Ordinary work, confined")
        work = worked(folder / "work", confined)
        report(work)

        say("A plan that aborts, in a bound folder")
        is_restored = restored(folder / "bound", confined)

        say("Was it as claimed?")
        kept = [
            (f"{each.words}: held, as claimed", not is_done)
            for each, is_done in zip(ATTACKS, held, strict=True)
            if claims[each.held_by] != "no"
        ]
        works = all(holds for _, holds in work)
        ends = [("ordinary work went through", works), ("the folder is as it was", is_restored)]
        return report([*kept, *ends])


def done(took_effect: bool) -> str:
    """A cell of the table."""
    return "done" if took_effect else "-"


def say(text: str) -> None:
    """A heading."""
    print(f"\n== {text}", flush=True)


def report(checks: Sequence[tuple[str, bool]]) -> int:
    """Say what held; the exit code is 0 if everything did."""
    for words, holds in checks:
        print(f"  {'✓' if holds else '✗'} {words}")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
