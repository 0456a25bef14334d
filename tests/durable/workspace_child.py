"""A process that is killed while it takes back what a run did to a bound workspace.

    workspace_child.py FOLDER RESUMED

Executes the plan, or goes on with it; says when it begins to take back, and what came of it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

from placet import Runtime, tool
from placet.durable.sql import SqlJournal
from placet.storage.location import open_database
from placet.worktree.commit import commit

RUN = "killed"


def main(folder: str, *, resumed: bool) -> None:
    here = Path(folder)
    top = here / "work"

    @tool
    def wreck() -> None:
        """Leave next to nothing as it was."""
        for number in range(1, 12):
            shutil.rmtree(top / f"pkg{number}")
        for each in (top / "pkg0").iterdir():
            each.write_text("spoiled")
        (top / "pkg1").symlink_to("/etc")
        (top / "deep/er").mkdir(parents=True)
        if (top / ".git").exists():
            asyncio.run(commit(top, ["."], "all of it"))
        say("wrecked")

    with open_database(f"sqlite://{here}/placet.db") as database:
        journal = SqlJournal(database)
        runtime = Runtime(tools=[wreck], journal=journal, workspace=top, snapshots=here / "kept")
        if resumed:
            say("wrecked")
            result = runtime.resume_sync(RUN)
            if result.outcome == "waiting":
                # Killed between the wreck and the note of it.
                result = runtime.resume_sync(RUN, decide={"a": "done"})
        else:
            plan = {
                "actions": [
                    {"id": "a", "tool": "wreck"},
                    {"id": "b", "type": "assertion", "parameters": {"key": "k", "expected": 1}}
                    | {"dependencies": ["a"]},
                ]
            }
            result = runtime.execute_sync(plan, run_id=RUN)
        restored = [event.data for event in runtime.events.query(kind="workspace_restored")]
        journal.close()
    say(json.dumps({"outcome": result.outcome, "error": result.error, "restored": restored}))


def say(line: str) -> None:
    """To whoever may kill us."""
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], resumed=sys.argv[2] == "True")
