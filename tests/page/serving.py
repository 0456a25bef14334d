"""`placet serve` in a process of its own, and the command line beside it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.conftest import Done, environment
from tests.command import PLACET


class Served:
    """`placet serve` over a database of its own, and the command line beside it."""

    def __init__(self, folder: Path, placet: Sequence[str] = PLACET) -> None:
        """`placet` is what begins a command line."""
        self._placet = [*placet]
        self.home = folder / "home"
        self.work = folder / "work"
        self.database = folder / "placet.db"
        for each in (self.home, self.work):
            each.mkdir(parents=True)
        self.port = _free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        self.link = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a person who has nothing but this folder."""
        return environment(
            HOME=str(self.home), XDG_CONFIG_HOME="", XDG_DATA_HOME="", PLACET_DB=str(self.database)
        )

    def start(self, *options: str) -> None:
        """Start the server, and wait until it has printed its link."""
        words = (
            "serve",
            "start",
            "--port",
            str(self.port),
            "--no-open",
            "--folder",
            str(self.work),
            *options,
        )
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._placet, *words],
                cwd=self.work,
                env=self.variables,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self.link = self._process.stdout.readline().strip()
        assert self.link.startswith(self.origin), (self.home / "server.log").read_text()

    def stop(self) -> None:
        """End the server as Ctrl-C does."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def settings(self, text: str) -> None:
        """Write the person's own settings; a server that runs has read them."""
        path = self.home / ".config" / "placet" / "settings.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def script(self, name: str, *turns: Any) -> str:
        """A scripted model that answers with these turns; its name for `--model`."""
        path = self.home / f"{name}.json"
        path.write_text(json.dumps({"turns": turns}))
        return f"scripted:{path}"

    def cli(self, *arguments: str | Path) -> Done:
        """Run a command to its end."""
        ran = subprocess.run(
            [*self._placet, *map(str, arguments)],
            cwd=self.work,
            env=self.variables,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def begin(self, *arguments: str | Path) -> subprocess.Popen[bytes]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            [*self._placet, *map(str, arguments)],
            cwd=self.work,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
