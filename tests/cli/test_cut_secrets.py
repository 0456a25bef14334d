"""A text that is cut holds no part of a secret: errors, terminal, log, export, approvals, story."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Placet = Callable[..., Any]
Plan = Callable[..., Path]

PIECE = 6
LIMITS = (40, 60, 77, 80, 100, 120, 160, 200, 300, 400, 500, 600, 1_000, 2_000, 4_000)
"""The lengths to which texts are cut somewhere; `clean` once cut at twice of each, before it redacted."""

NAMING = (
    ("agent", "show"),
    ("agent", "run"),
    ("code", "show"),
    ("code", "answer"),
    ("code", "list", "--state"),
    ("code", "repairs", "--forget"),
    ("loop", "show"),
    ("loop", "diff"),
    ("do", "first"),
    ("code", "first"),
    ("tools", "show"),
    ("approvals", "show"),
    ("resume",),
)
"""Commands that repeat what they are given, in an error."""

TOOLS = '''
from placet import ToolError, tool

@tool
def fail(text: str) -> str:
    """Fail with these words."""
    raise ToolError(text)

@tool(risk="read_only")
def say(text: str) -> str:
    """Answer with these words."""
    return text

@tool
def send(text: str) -> str:
    """Is asked about first."""
    return text
'''
POLICIES = """
[[rule]]
name = "ask-first"
kind = "deny_tool"
tool = "send"
unless_approved = true
"""


def _secret(size: int) -> str:
    """Of characters that nothing else that is shown has in this order."""
    return "".join("QZXJKVWY"[(at * 5 + at // 8 + at // 64) % 8] for at in range(size))


def _texts(secret: str) -> list[str]:
    """The secret across each of the limits: all but its last character before it, and half of it."""
    places = {
        limit * times - inside for limit in LIMITS for times in (1, 2) for inside in (len(secret) - 1, 7)
    }
    return ["." * max(0, place) + secret + "." * 300 for place in sorted(places)]


def _check(text: str, secret: str, what: str) -> None:
    for at in range(len(secret) - PIECE + 1):
        piece = secret[at : at + PIECE]
        found = text.find(piece)
        assert found < 0, f"{what} holds {piece!r}: {text[max(0, found - 200) : found + 100]}"


@pytest.mark.parametrize("size", [12, 40])
def test_no_part_of_a_secret_is_left_where_a_text_is_cut(
    quick: Placet, plan: Plan, tmp_path: Path, size: int
) -> None:
    secret = _secret(size)
    environment = {"FOO_API_KEY": secret}
    tools, policies = tmp_path / "tools.py", tmp_path / "policies.toml"
    tools.write_text(TOOLS)
    policies.write_text(POLICIES)
    texts = _texts(secret)
    actions = [
        {
            "id": f"{tool}{number}",
            "tool": tool,
            "parameters": {"text": text},
            "failure_behavior": "skip",
            "expected_effects": {f"key{number}": text},
        }
        for number, text in enumerate(texts)
        for tool in ("fail", "say")
    ]
    asked = [
        {"id": f"send{number}", "tool": "send", "parameters": {"text": text}}
        for number, text in enumerate(texts[::6])
    ]
    path = plan(*actions, *asked)
    wrong = plan({"id": "w", "tool": texts[3], "parameters": {}}, name="wrong.json")

    told = [
        quick("run", path, "--tools", tools, "--policies", policies, "--db", "my.db", "--run-id", "r",
              "--log", "log.jsonl", "--svg", "p.svg", **environment),
        quick("verify", wrong, "--tools", tools, **environment),
        quick("run", wrong, "--tools", tools, **environment),
        *(quick("runs", "show", text, "--db", "my.db", **environment) for text in texts[:6]),
        *(
            quick(*command, text, **environment)
            for command in NAMING
            # Half of these places with one secret, half with the other.
            for text in texts[0 if size == 12 else 3 : 12 : 6]
        ),
    ]  # fmt: skip
    for arguments in (
        ("runs",),
        ("runs", "show", "r"),
        ("runs", "show", "r", "--json"),
        ("log", "show", "r"),
        ("log", "export"),
        ("log", "tail", "--json"),
        ("log", "query", "--kind", "action_failed"),
        ("explain", "r"),
        ("explain", "r", "--json"),
        ("approvals",),
        ("approvals", "list", "--json"),
    ):
        told.append(quick(*arguments, "--db", "my.db", **environment))
        assert told[-1].code in (0, 1), told[-1]
    for waiting in told[-1].json["approvals"][:6]:
        told.append(quick("approvals", "show", waiting["id"], "--db", "my.db", **environment))
        assert told[-1].code == 0, told[-1]

    assert told[0].code in (1, 4), told[0]
    assert sum("[redacted]" in each.out + each.err for each in told) >= len(told) // 2
    for each in told:
        _check(each.out + each.err, secret, each.out[:80] or each.err[:80])
    for name in ("log.jsonl", "p.svg"):
        _check((tmp_path / name).read_text(), secret, name)
    with sqlite3.connect(tmp_path / "my.db") as connection:
        for (data,) in connection.execute("SELECT data FROM events"):
            _check(str(data), secret, "the log")


def test_explain_shows_the_parameters_of_a_plan_redacted_and_cut(
    quick: Placet, plan: Plan, tmp_path: Path
) -> None:
    secret = _secret(20)
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    text = "." * 20 + secret + "x y " * 500
    path = plan({"id": "one", "tool": "say", "parameters": {"text": text}})

    quick("run", path, "--tools", tools, "--db", "my.db", "--run-id", "r", FOO_API_KEY=secret)
    told = quick("explain", "r", "--db", "my.db", FOO_API_KEY=secret)

    (line,) = [line for line in told.out.splitlines() if line.strip().startswith("text=")]
    assert f"{'.' * 20}[redacted]" in line
    assert len(line) < 800
    _check(told.out, secret, "explain")


def test_a_table_shows_no_part_of_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells are cut to the width of their columns when it is printed."""
    from rich.table import Table
    from rich.text import Text

    from placet.cli.output import Output
    from placet.redaction import Redactor

    secret = _secret(30)
    for width in range(8, 40):
        table = Table(width=width * 2)
        for name in ("plain", "styled"):
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=width)
        table.add_row(f"see {secret} there", Text(f"see {secret} there", style="red"))
        output = Output()
        output.redactor = Redactor([secret])

        output.show(table)

        shown = capsys.readouterr().out
        assert "see" in shown
        _check(shown, secret, f"a table of {width} columns")
