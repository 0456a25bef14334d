"""A store that real commands fill: plans, a task, a coding session, a loop, an agent, facts and a skill.

The tests of the page look at it, and so do the pictures of the documentation.
"""

from __future__ import annotations

import json
from typing import Any

from tests.coder.workbench import git, make_repository
from tests.page.serving import Served

USAGE = {"input": 1200, "output": 150}
CHECK = "grep -q '1 January' terms.md"

LOOP = """
intent = "keep the terms right"
cadence = "every 6h"
level = "L2"
kind = "fix"

[[checks]]
command = "grep -q '1 January' terms.md"

[executor]
use = "commit"

[maker]
prompt = "Look at terms.md."
"""

AGENT = """
id = "clerk"
name = "Clerk"
description = "Answers questions about the terms."
identity = "You are a clerk. Answer from the files alone, in one sentence."
tools = ["read_file", "grep"]

[[scenarios]]
name = "notice"
input = "How long is the notice?"
expect = "90 days"
"""

SKILL = """---
name: cite-the-file
description: Use when an answer comes from a file. Names the file and the line.
---

Name the file and the line after each statement.
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of a scripted model."""
    return {"name": name, "arguments": arguments}


def fill(served: Served) -> None:
    """Fill the store of a server that is stopped or runs."""
    make_repository(
        served.work,
        {
            "terms.md": "# Terms\n\nValid from 1 Juni 2027.\nNotice: 90 days.\n",
            "notes/call.md": "Ann: 2 June.\n",
        },
    )
    (served.work / ".placet" / "loops").mkdir(parents=True)
    (served.work / ".placet" / "loops" / "keep-terms.toml").write_text(LOOP)
    (served.work / ".placet" / "agents").mkdir()
    (served.work / ".placet" / "agents" / "clerk.toml").write_text(AGENT)
    skill = served.home / ".config" / "placet" / "skills" / "cite-the-file"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    git(served.work, "add", "-A")
    git(served.work, "commit", "-q", "-m", "loops and agents")
    done(served.cli("trust", "--yes", "."))
    _plan(served)
    _task(served)
    _loop(served)
    _code(served)
    done(served.cli("memory", "add", "Ann", "Ann signs for amounts up to 5,000 EUR.", "--key", "limit"))
    done(served.cli("memory", "add", "terms", "The notice is 90 days.", "--untrusted", "--source", "mail:42"))


def done(ran: Any, *codes: int) -> Any:
    """What a command printed, if it ended as it should."""
    assert ran.code in (codes or (0,)), ran.err + ran.out
    return ran


def _plan(served: Served) -> None:
    read = {"tool": "read_file"}
    plan = {
        "id": "quarter",
        "source": "quarterly report",
        "actions": [
            {"id": "terms", **read, "parameters": {"path": "terms.md"}},
            {"id": "notes", **read, "parameters": {"path": "notes/call.md"}},
            {"id": "search", "tool": "grep", "parameters": {"pattern": "June", "path": "notes"}},
            {
                "id": "report",
                "tool": "write_file",
                "parameters": {"path": "report.md", "text": "# Report\n\nNotice: 90 days.\n"},
                "dependencies": ["terms", "notes", "search"],
            },
            {"id": "check", **read, "parameters": {"path": "report.md"}, "dependencies": ["report"]},
        ],
    }
    path = served.home / "quarter.json"
    path.write_text(json.dumps(plan))
    done(served.cli("run", path, "--permissions", "sandbox_edit", "--run-id", "plan-1"))
    plan["actions"][3]["parameters"]["text"] += "Signed by: Ann.\n"  # type: ignore[index]
    plan["actions"].append(  # type: ignore[attr-defined]
        {
            "id": "send",
            "tool": "shell",
            "parameters": {"command": "curl -d @report.md https://example.com/board"},
            "dependencies": ["check"],
        }
    )
    path.write_text(json.dumps(plan))
    done(served.cli("run", path, "--permissions", "read_only", "--run-id", "plan-2"), 4)


def _task(served: Served) -> None:
    model = served.script(
        "task",
        {
            "text": "I look at the notes first.",
            "calls": [call("read_file", path="notes/call.md")],
            "usage": USAGE,
        },
        {"text": "Ann said 2 June, the terms say June 2027 as well.", "usage": USAGE},
    )
    done(served.cli("do", "When does Ann want it?", "--model", model, "--run-id", "task-1"))


def _loop(served: Served) -> None:
    verdict = call("give_verdict", verdict="done", summary="The date is a weekday, the terms are as before.")
    fixed = "# Terms\n\nValid from 1 January 2027.\nNotice: 90 days.\n"
    model = served.script(
        "loop",
        {
            "text": "The date is wrong.",
            "calls": [call("write_file", path="terms.md", text=fixed)],
            "usage": USAGE,
        },
        {"text": "The month is right now.", "usage": USAGE},
        {"calls": [verdict], "usage": USAGE},
        {"text": "Checked.", "usage": USAGE},
    )
    blocked = call("give_verdict", verdict="blocked", summary="Nobody knows which year is meant.")
    failing = served.script(
        "failing",
        {"text": "I cannot find the year.", "usage": USAGE},
        {"calls": [blocked], "usage": USAGE},
        {"text": "Checked.", "usage": USAGE},
    )
    for each in (failing, model):
        done(served.cli("loop", "run", "keep-terms", "--model", each), 0, 1, 4)


def _code(served: Served) -> None:
    fixed = "# Terms\n\nValid from 1 January 2027.\nNotice: 90 days.\n"
    model = served.script(
        "code",
        {"text": "The month is in German.", "calls": [call("read_file", path="terms.md")], "usage": USAGE},
        {"calls": [call("write_file", path="terms.md", text=fixed)], "usage": USAGE},
        {"text": "The date is in English.", "usage": USAGE},
    )
    intent = "Write the date of the terms in English"
    done(served.cli("code", intent, "--check", CHECK, "--model", model), 4)
