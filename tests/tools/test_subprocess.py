"""A program as a tool: JSON in, one JSON value out, and a failure that says what went wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from placet import Runtime, ToolContext, ToolSchema
from placet.errors import ToolDeclarationError, ToolError
from placet.sandbox.limits import Limits
from placet.testing import action, proposal
from placet.tools.subprocess import CommandSpec, command_tool
from placet.tools.tool import Tool
from tests.sandbox.programs import is_running

CONTEXT = ToolContext(action_id="a1", run_id="r1", idempotency_key="k1")


def python(source: str, folder: Path, schema: dict[str, Any] | None = None, **spec: Any) -> Tool:
    """A tool that is a Python program."""
    argv = [sys.executable, "-I", "-S", "-c", f"import json, os, sys\n{source}"]
    declared = ToolSchema(name="program", **(schema or {}))
    return command_tool(declared, CommandSpec(argv=argv, folder=str(folder), **spec))


async def call(tool: Tool, **parameters: Any) -> Any:
    return await tool(parameters, context=CONTEXT)


async def test_parameters_go_in_and_an_answer_comes_out(tmp_path: Path) -> None:
    tool = python(
        "given = json.load(sys.stdin); print(json.dumps([given, os.path.exists('here')]))", tmp_path
    )

    (tmp_path / "here").touch()

    answer = await call(tool, text="häh", deep={"a": [1, None]}, parameters=1, context=2)

    given = {"text": "häh", "deep": {"a": [1, None]}, "parameters": 1, "context": 2}
    assert answer == [given, True]


async def test_a_program_knows_which_call_it_serves(tmp_path: Path) -> None:
    tool = python(
        "print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('PLACET_')}))", tmp_path
    )

    answer = await call(tool)

    assert answer == {"PLACET_ACTION_ID": "a1", "PLACET_RUN_ID": "r1", "PLACET_IDEMPOTENCY_KEY": "k1"}


async def test_only_declared_names_of_the_host_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANTED_KEY", "sesame")
    monkeypatch.setenv("OTHER_KEY", "pumpkin")
    source = "print(json.dumps([os.environ.get(name) for name in ('WANTED_KEY', 'OTHER_KEY', 'ABSENT')]))"
    tool = python(source, tmp_path, environment=["WANTED_KEY", "ABSENT"])

    assert await call(tool) == ["sesame", None, None]


async def test_a_program_that_never_reads_is_fine(tmp_path: Path) -> None:
    tool = python("os.close(0); print(1)", tmp_path)

    assert await call(tool, text="x" * 3_000_000) == 1


@pytest.mark.parametrize(("code", "retry"), [(1, False), (3, False), (75, True)])
async def test_another_exit_code_is_a_failure_with_the_last_words(
    tmp_path: Path, code: int, retry: bool
) -> None:
    source = f"print('{{}}'); [print('line', n, file=sys.stderr) for n in range(20)]; sys.exit({code})"

    with pytest.raises(ToolError) as caught:
        await call(python(source, tmp_path))

    lines = "\n".join(f"line {n}" for n in range(15, 20))
    assert str(caught.value) == f"'{sys.executable}' ended with exit code {code}: {lines}"
    assert (caught.value.retry, caught.value.unknown) == (retry, False)


async def test_another_exit_code_can_mean_an_answer(tmp_path: Path) -> None:
    tool = python("print('\"none found\"'); sys.exit(1)", tmp_path, exit_codes=[0, 1])

    assert await call(tool) == "none found"


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("", "it is empty"),
        ("hello", "malformed JSON"),
        ("{} {}", "malformed JSON"),
        ("NaN", "NaN is no number that JSON can carry"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ("\\xff", "it is not UTF-8"),
    ],
)
async def test_what_is_not_one_json_value_is_a_failure_that_says_where(
    tmp_path: Path, printed: str, says: str
) -> None:
    tool = python(f"os.write(1, b'''{printed}'''); print('working', file=sys.stderr)", tmp_path)

    with pytest.raises(ToolError) as caught:
        await call(tool)

    assert str(caught.value).startswith(f"Cannot read the answer of '{sys.executable}': {says}")
    assert "goes to standard error. It printed " in str(caught.value)
    assert str(caught.value).endswith(": working.")
    assert not caught.value.retry


@pytest.mark.parametrize(
    ("source", "limits", "says", "retry"),
    [
        ("import time; time.sleep(60)", {"time_s": 0.3}, "it was ended after 0.3 s, the time it had", True),
        (
            "while True: os.write(1, b'x' * 100)",
            {"output_bytes": 1000},
            "writing more than 1000 bytes",
            False,
        ),
        (
            "held = b'1' * 80_000_000; import time; time.sleep(60)",
            {"memory_bytes": 50_000_000},
            "memory",
            False,
        ),
        ("os.kill(os.getpid(), 11)", {}, "it was ended by SIGSEGV", True),
    ],
    ids=["time", "output", "memory", "signal"],
)
async def test_what_was_ended_may_have_had_its_effect(
    tmp_path: Path, source: str, limits: dict[str, Any], says: str, retry: bool
) -> None:
    tool = python(f"os.write(2, b'on it')\n{source}", tmp_path, limits=Limits(**limits))

    with pytest.raises(ToolError) as caught:
        await call(tool)

    assert str(caught.value).startswith(f"'{sys.executable}' gave no answer: ")
    assert says in str(caught.value)
    assert str(caught.value).endswith(": on it")
    assert (caught.value.retry, caught.value.unknown) == (retry, True)


async def test_a_program_that_is_not_there_fails_its_call(tmp_path: Path) -> None:
    tool = command_tool(ToolSchema(name="t"), CommandSpec(argv=["no-such-program"], folder=str(tmp_path)))

    with pytest.raises(ToolError, match="There is no program 'no-such-program'"):
        await call(tool)


async def test_parameters_and_answers_are_checked_by_the_runtime(tmp_path: Path) -> None:
    schema = {
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "returns": {"type": "integer"},
        "risk": "read_only",
    }
    rt = Runtime()
    rt.tools.add(
        python(
            "n = json.load(sys.stdin)['n']; print(json.dumps(n + 1 if n < 9 else 'many'))", tmp_path, schema
        )
    )

    result = await rt.execute(
        proposal(
            action("good", "program", parameters={"n": 1}),
            action("bad", "program", parameters={"n": 9}, failure_behavior="skip"),
            action("wrong", "program", parameters={"n": "x"}, failure_behavior="skip"),
        )
    )

    assert (result["good"].status, result["good"].output) == ("succeeded", 2)
    assert (result["bad"].status, result["wrong"].status) == ("skipped", "rejected")
    assert "integer" in (result["bad"].error or "")


@pytest.mark.parametrize("answer", ["1", "no JSON"])
async def test_a_program_that_leaves_something_running_is_told_of(tmp_path: Path, answer: str) -> None:
    source = f"""
import time
if os.fork() == 0:
    os.setsid()
    open('daemon', 'w').write(str(os.getpid()))
    time.sleep(60)
    os._exit(0)
while not os.path.exists('daemon') or not open('daemon').read():
    time.sleep(0.005)
os.write(1, b'{answer}')
"""
    rt = Runtime()
    rt.tools.add(python(source, tmp_path))

    result = await rt.execute(proposal(action("a", "program")))

    assert result["a"].status == ("succeeded" if answer == "1" else "failed")
    assert not is_running(int((tmp_path / "daemon").read_text()))
    (event,) = rt.events.query(kind="action_progress", action="a")
    assert event.data["message"] == (
        f"'{sys.executable}' has ended; 1 process that it had started was still running and was ended"
    )


async def test_a_program_that_leaves_nothing_running_is_not_talked_of(tmp_path: Path) -> None:
    rt = Runtime()
    rt.tools.add(python("print(1)", tmp_path))

    await rt.execute(proposal(action("a", "program")))

    assert list(rt.events.query(kind="action_progress")) == []


async def test_a_temporary_failure_is_tried_again(tmp_path: Path) -> None:
    source = """
seen = os.path.exists('seen')
open('seen', 'w').close()
if not seen:
    os._exit(75)
print(json.dumps('served'))
"""
    rt = Runtime()
    rt.tools.add(python(source, tmp_path))

    result = await rt.execute(proposal(action("a", "program", failure_behavior="retry", max_retries=2)))

    assert (result["a"].status, result["a"].output) == ("succeeded", "served")
    assert result.cost.retries == 1


def test_a_declaration_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolDeclarationError, match="cached"):
        python("", tmp_path, {"cache_ttl_secs": 5})
