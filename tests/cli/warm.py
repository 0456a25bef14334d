"""Command lines that start at once: a process that has loaded everything, and forks for each.

What a command does is done in a process of its own, with files for its streams, its own folder and
environment. Only the loading of modules is shared, which is most of what a short command costs. How a fresh
process starts is what the other tests of the command line are about.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

LOADED = (
    "assent.app.app",
    "assent.cli.execution",
    "assent.cli.main",
    "assent.cli.progress",
    "assent.durable.sql",
    "assent.events.sql",
    "assent.render.graph_svg",
    "assent.render.story",
    "assent.render.timeline",
    "assent.render.tree",
    "assent.runtime.runtime",
    "assent.storage.sqlite",
    "assent.verify.verify",
    "psycopg",
    "rich.table",
)


def serve() -> None:
    """Do what each line on stdin asks for, and answer with the exit code."""
    for name in LOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(asked)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(code, flush=True)


def _become(asked: dict[str, Any]) -> None:
    """Be the command that was asked for."""
    from assent.cli.main import main

    code = 70
    try:
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        files = [
            os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for name in ("out", "err")
        ]
        for number, file in enumerate((nothing, *files)):
            os.dup2(file, number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        code = main(asked["arguments"])
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
