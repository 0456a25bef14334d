"""Whatever way a call is made from the command line, the log holds its parameters, and no secret in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.test_agent import Folder
from tests.cli.test_code import CHECK, write
from tests.cli.test_code import Desk as CodeDesk
from tests.cli.test_loop import REPORTED
from tests.cli.test_loop import Desk as LoopDesk
from tests.cli.test_mcp_serve import Talk, call, warm_talk

__all__ = ["warm_talk"]

Placet = Callable[..., Any]
TOKEN = "tok-0123456789-abcdef"


def asks(tool: str, **arguments: Any) -> dict[str, Any]:
    """A turn of a scripted model."""
    return {"calls": [{"name": tool, "arguments": arguments}]}


def logged(placet: Placet, db: str | Path, **more: Any) -> list[tuple[str, Any]]:
    """Which tools were called, and with what, as the log has it."""
    done = placet("log", "query", "--kind", "action_executing", "--db", str(db), "--json", **more)
    assert placet("log", "verify", "--db", str(db), **more).code == 0
    return [(e["data"]["tool"], e["data"].get("parameters")) for e in done.json["events"]]


def test_a_plan(placet: Placet, plan: Callable[..., Path], tools: Path, tmp_path: Path) -> None:
    file = plan({"id": "a", "tool": "look", "parameters": {"what": f"gold with {TOKEN}"}})

    assert placet("run", file, "--tools", tools, "--db", "kept.db", DEPLOY_TOKEN=TOKEN).code == 0

    assert logged(placet, tmp_path / "kept.db") == [("look", {"what": "gold with [redacted]"})]
    shown = placet("log", "--db", "kept.db")
    assert "look; with what=gold with [redacted]" in shown.out


def test_one_tool(placet: Placet, tools: Path, tmp_path: Path) -> None:
    done = placet("tools", "call", "look", "what=gold", "--tools", tools, "--db", "kept.db")

    assert done.code == 0
    assert logged(placet, tmp_path / "kept.db") == [("look", {"what": "gold"})]


def test_a_model_in_turns(placet: Placet, tools: Path, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"turns": [asks("look", what="gold"), "Found."]}))

    done = placet("do", "look", "--model", "scripted:script.json", "--tools", tools, "--db", "kept.db")

    assert done.code == 0
    assert logged(placet, tmp_path / "kept.db") == [("look", {"what": "gold"})]


def test_an_agent(placet: Placet, tmp_path: Path) -> None:
    folder = Folder(tmp_path, placet)
    folder.put("reader.toml", 'identity = "You read."\ntools = ["read_file"]', own=True)
    (tmp_path / "a.txt").write_text("gold")
    model = folder.script(asks("read_file", path="a.txt"), "Gold.")

    assert folder.agent("run", "reader", "read", "--model", model).code == 0

    assert logged(placet, tmp_path / "kept.db") == [("read_file", {"path": "a.txt"})]


def test_the_coder(placet: Placet, tmp_path: Path) -> None:
    desk = CodeDesk(tmp_path, placet)

    desk.code("make a right", "--check", CHECK, "--model", desk.script(write(), "Done."))

    assert ("write_file", {"path": "a.txt", "text": "right\n"}) in logged(placet, desk.db)


def test_a_loop(placet: Placet, tmp_path: Path) -> None:
    desk = LoopDesk(tmp_path, placet)
    desk.put("tidy")

    ran = desk.loop("run", "tidy", "--model", desk.script(asks("read_file", path="a.txt"), *REPORTED))

    assert ran.code == 0, ran.err
    assert logged(placet, desk.db, **desk.state)[:2] == [
        ("read_file", {"path": "a.txt"}),
        ("give_verdict", {"verdict": "done", "summary": "It is so."}),
    ]


def test_mcp_serve(placet: Placet, warm_talk: Talk) -> None:
    warm_talk.say(call(1, "look", what="gold"), call(2, "forbidden"), call(3, "count", words=["a", "b"]))
    for _ in range(3):
        warm_talk.hear()
    warm_talk.leave()

    assert sorted(logged(placet, warm_talk.place.db)) == [
        ("count", {"words": ["a", "b"]}),
        ("look", {"what": "gold"}),
    ]
