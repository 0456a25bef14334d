"""Whether an answer is what a scenario expects: its words, its JSON, the tools that ran, what is there now.

Keep true:
1. Every expectation that does not hold is said, with what was expected and what came, cut short.
2. What a model wrote is data: it can make an expectation fail, and nothing else.
3. Whatever takes long can be ended: a regular expression is looked for in a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from placet.agents.goal import run_check
from placet.agents.json_path import JsonPath
from placet.agents.spec import CHECK_S, Expectations
from placet.errors import ToolError
from placet.ir.json_value import JsonValue, json_equal, show_json
from placet.safe_text import clean
from placet.truncation import truncate_tail
from placet.turns.output import OutputType, OutputUnfit

if TYPE_CHECKING:
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace

SHOWN = 200
"""Characters of an answer, or of what was expected of it, that a failure shows."""
_MOST_SEARCHED = 200_000
"""Characters of an answer that a regular expression looks at."""
REGEX_S = 10.0
"""How long a regular expression may be looked for; some take longer than anybody waits."""
_FOUND, _NOT_FOUND = 10, 11
_SEARCH = f"""
import json, re, sys
pattern, text = json.load(sys.stdin)
sys.exit({_NOT_FOUND} if re.search(pattern, text) is None else {_FOUND})
"""
_ANY_JSON: OutputType[JsonValue] = OutputType({}, None, None)


def unmet(expected: Expectations, output: str, called: Sequence[str]) -> list[str]:
    """Why an answer is not what was expected, one sentence for each expectation; empty if it is. The regular
    expression is left to `unmet_regex`, and the check to `unmet_check`.

    >>> unmet(Expectations(expect="HELLO"), "well, hello there", [])
    []
    >>> unmet(Expectations(expect="hello", not_called=("shell",)), "bye", ["shell"])
    ["expected an answer containing 'hello', got 'bye'", "expected that 'shell' is not called, and it was"]
    """
    found: list[str] = []
    if expected.expect is not None and expected.expect.casefold() not in output.casefold():
        found.append(f"expected an answer containing {shown(expected.expect)}, got {shown(output)}")
    if expected.json:
        found += _unmet_json(expected.json, output)
    ran = ", ".join(clean(name, 80) for name in dict.fromkeys(called)) or "none"
    for name in expected.called:
        if name not in called:
            found.append(f"expected that '{clean(name, 80)}' is called; called were: {ran}")
    for name in expected.not_called:
        if name in called:
            found.append(f"expected that '{clean(name, 80)}' is not called, and it was")
    return found


def _unmet_json(expected: Mapping[str, JsonValue], output: str) -> list[str]:
    try:
        value = _ANY_JSON.read(output)
    except OutputUnfit as error:
        return [f"expected JSON, got {shown(output)}: {clean(error.problem, SHOWN)}"]
    found: list[str] = []
    for path, wanted in expected.items():
        there = JsonPath(path).find(value)
        if not any(json_equal(each, wanted) for each in there):
            came = ", ".join(shown(show_json(each)) for each in there[:3]) or "nothing there"
            found.append(f"expected {shown(show_json(wanted))} at {clean(path, 80)}, got {came}")
    return found


async def unmet_regex(pattern: str, output: str, *, timeout_s: float = REGEX_S) -> list[str]:
    """Why a regular expression is not found in an answer; empty if it is. A cancellation ends the search, and
    passes."""
    from placet.sandbox.command import run_command
    from placet.sandbox.environment import clean_environment
    from placet.sandbox.limits import Limits

    words = f"expected an answer matching {shown(pattern)}"
    try:
        finished = await run_command(
            [sys.executable, "-I", "-S", "-c", _SEARCH],
            folder="/",
            stdin=json.dumps([pattern, output[:_MOST_SEARCHED]]).encode(),
            environment=clean_environment({}),
            limits=Limits(time_s=timeout_s),
        )
    except ToolError as error:
        return [f"{words}, which could not be looked for: {clean(str(error), SHOWN)}"]
    if finished.exit_code == _FOUND:
        return []
    if finished.exit_code == _NOT_FOUND:
        return [f"{words}, got {shown(output)}"]
    if finished.ended_by == "itself":
        why = clean(truncate_tail(finished.stderr.decode(errors="replace").strip(), SHOWN), SHOWN)
        return [f"{words}, which could not be looked for: {why}"]
    return [f"{words}, and looking for it took longer than {timeout_s:g} s; got {shown(output)}"]


async def unmet_check(
    command: str, workspace: Workspace, isolation: Isolation, *, timeout_s: float = CHECK_S
) -> list[str]:
    """Why a check command does not pass where the agent worked, with the end of what it wrote; empty if it
    does.

    Raises:
        IsolationMissing: commands are kept from less than is required.
    """
    checked = await run_check(command, workspace, isolation, timeout_s=timeout_s)
    if checked.passed:
        return []
    wrote = f"; it wrote {shown(truncate_tail(checked.output, SHOWN))}" if checked.output.strip() else ""
    return [f"expected that {shown(command)} passes: {checked.why}{wrote}"]


def shown(text: str) -> str:
    """A text as a failure shows it: in quotes, cut, on one line."""
    return f"'{clean(text.strip(), SHOWN)}'"
