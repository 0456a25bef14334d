"""A coding session as text: how it stands, what came of its checks, what it would change, what to do next.

Keep true:
1. Every line is cleaned: intents, names of files, output of checks and a model's words are others' text.
2. What is cut is said to be cut.
3. Every state has a next step, and its commands are complete but for words in capitals.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from placet.render.advice import Advice, db_words, name_words
from placet.render.columns import Column, draw_columns
from placet.render.text import count, duration, moment, short_moment
from placet.render.turns import money
from placet.safe_text import clean
from placet.truncation import redacted

Data = Mapping[str, Any]
"""A session as JSON, as `placet code show --json` prints it."""

_LINE = 200
_LONG = 600
_TAIL_LINES = 12
"""Of what a red check wrote."""
_SUMMARY_LINES = 8
_INCLUDED = 10
"""Files of the person that are named one by one."""
_REPAIR = 12
"""Characters of the id of a repair that are shown; fewer are enough to name it."""
_COMMIT = 10
"""Characters by which a commit is known."""


_EXPORT = re.compile(r"(?<![\w.-])/(?:[^\s/:'\"]+/)*exports/[0-9a-f]{16}/files/")
"""Where a check runs, up to the top of the repository."""


class Look(NamedTuple):
    """How a state looks."""

    sign: str
    words: str
    style: str


_STATES: dict[str, Look] = {
    "created": Look("·", "created", "dim"),
    "contract_proposed": Look("?", "contract to confirm", "bold yellow"),
    "contract_confirmed": Look("·", "contract confirmed", "dim"),
    "running": Look("▸", "running", "cyan"),
    "needs_approval": Look("?", "green, to approve", "bold yellow"),
    "merged": Look("✓", "published", "green"),
    "failed": Look("✗", "failed", "bold red"),
    "abandoned": Look("■", "abandoned", "yellow"),
}
_WAITS = "waits for a person"
_AT_WORK = ("created", "contract_confirmed", "running")


def look(data: Data) -> Look:
    """How a session stands. One that nobody is at work on has stopped, or its process is gone."""
    state = str(data["state"])
    if state in _AT_WORK and data.get("questions"):
        return Look("?", "asks you something", "bold yellow")
    if _is_just_confirmed(data):
        return Look("✓", "contract confirmed", "green")
    if state in _AT_WORK and data.get("run_status") not in (None, "running"):
        return (
            Look("?", _WAITS, "bold yellow")
            if data["run_status"] == "waiting"
            else Look("■", "stopped", "yellow")
        )
    return _STATES.get(state) or Look("?", clean(state, 40), "")


def _is_just_confirmed(data: Data) -> bool:
    """Whether a person has said yes to a contract, and nobody has begun to work on it."""
    return (
        data["state"] == "contract_confirmed"
        and data.get("run_status") == "canceled"
        and not data.get("reason")
    )


def state_named(word: str) -> str | None:
    """The state that a word means: its name in JSON, or how people see it.

    >>> state_named("published"), state_named("Green to approve"), state_named("needs_approval")
    ('merged', 'needs_approval', 'needs_approval')
    """
    plain = _plain(word)
    return next(
        (state for state, seen in _STATES.items() if plain in (_plain(state), _plain(seen.words))), None
    )


def state_words(state: str) -> str:
    """How people see a state."""
    return _STATES[state].words if state in _STATES else clean(state, 40)


def _plain(word: str) -> str:
    return " ".join(re.sub(r"[\W_]+", " ", word).split()).casefold()


# While it goes on


def iteration_words(number: int, most: int, elapsed_ms: float) -> str:
    """The heading of an iteration.

    >>> iteration_words(2, 8, 65_000)
    '── iteration 2 of 8 (1 min 5 s so far)'
    """
    passed = f" ({duration(elapsed_ms)} so far)" if elapsed_ms >= 1000 else ""
    return f"── iteration {number} of {most}{passed}"


def check_words(result: Data) -> str:
    """What came of a check, in one line.

    >>> check_words({"name": "pytest", "passed": False, "why": "exit code 1", "duration_ms": 2300.0})
    '✗ pytest: red, exit code 1 (2.3 s)'
    """
    took = f" ({took})" if (took := duration(result.get("duration_ms"))) else ""
    why = f", {clean(result['why'], _LINE)}" if result.get("why") else ""
    tests = _tests_words(result.get("tests"))
    word = "✓ {}: green" if result["passed"] else "✗ {}: red"
    return f"{word.format(clean(result['name'], 80))}{why}{tests}{took}"


def _tests_words(tests: Data | None) -> str:
    if not tests:
        return ""
    found = [f"{tests[name]:,} {name}" for name in ("passed", "failed", "skipped") if tests.get(name)]
    return f", tests: {', '.join(found)}" if found else ""


def tail_lines(output: str, most: int = _TAIL_LINES) -> Iterator[str]:
    """The last lines of what a check wrote, behind a bar."""
    # Checks run on an export, which is gone by now: what stays is the way from the top.
    plain = _EXPORT.sub("", output.replace("\r\n", "\n"))
    lines = plain.rstrip().split("\n")
    if len(lines) > most:
        lines = redacted(plain).rstrip().split("\n")
    left_out = len(lines) - most
    if left_out > 0:
        yield f"  │ … {count(left_out, 'line')} before …"
        lines = lines[-most:]
    for line in lines:
        if line.strip():
            yield f"  │ {clean(line.expandtabs(4), _LINE)}"


def text_lines(text: str, most: int = _SUMMARY_LINES) -> Iterator[str]:
    """The first lines of what a model says."""
    if text.count("\n") > most:
        text = redacted(text)
    lines = [line for line in text.replace("\r\n", "\n").strip().split("\n") if line.strip()]
    for line in lines[:most]:
        yield f"  “ {clean(line.strip().expandtabs(4), _LINE)}"
    if len(lines) > most:
        yield f"  “ … {count(len(lines) - most, 'more line')}"


def spent_words(turns: int, tokens: int, cost_usd: float | None, elapsed_ms: float) -> str:
    """What an iteration took, and the session so far."""
    facts = [count(turns, "turn")]
    facts += [f"{count(tokens, 'token')} so far"] if tokens else []
    facts += [money(cost_usd)] if cost_usd else []
    facts += [duration(elapsed_ms)] if elapsed_ms >= 1000 else []
    return f"· {', '.join(facts)}"


# A change


def included_words(paths: Sequence[str], *, is_published: bool = False) -> str:
    """What goes into a commit besides what the model has changed, or is in it; empty if nothing does.

    >>> included_words(["a.txt", "b.txt"])
    'Your own 2 uncommitted files go into the commit: a.txt, b.txt.'
    """
    if not paths:
        return ""
    one, several = ("went", "went") if is_published else ("goes", "go")
    files = f"uncommitted file {one}" if len(paths) == 1 else f"{len(paths):,} uncommitted files {several}"
    shown = ", ".join(clean(path, 80) for path in paths[:_INCLUDED])
    more = f" and {len(paths) - _INCLUDED:,} more" if len(paths) > _INCLUDED else ""
    return f"Your own {files} into the commit: {shown}{more}."


def whole_command(session: str, db: str | None) -> str:
    """The command that shows all that a commit changes."""
    return f"placet code diff {name_words(session)} --whole{db_words(db)}"


# How it stands


def draw_sessions(
    found: Sequence[Data], *, width: int | None, with_folders: bool = False, now: float | None = None
) -> Iterator[Text]:
    """One row for each session; `width` is that of a terminal, None for a pipe."""
    now = time.time() if now is None else now
    columns = [
        Column("session"),
        Column("state"),
        Column("begun (UTC)"),
        Column("iterations", right=True, from_width=100),
        Column("tokens", right=True, from_width=100),
        *([Column("repository", from_width=140)] if with_folders else []),
        Column("intent", is_text=True),
    ]
    rows: list[list[str | Text]] = []
    for data in found:
        seen, begun = look(data), data["created_at"]
        rows.append(
            [
                clean(data["id"]),
                Text(f"{seen.sign} {seen.words}", style=seen.style),
                moment(begun).removesuffix(" UTC") if width is None else short_moment(begun, now),
                f"{data['iterations']:,}",
                "?" if data["tokens"] is None else f"{data['tokens']:,}",
                *([clean(data["repository"])] if with_folders else []),
                clean(" ".join(str(data["intent"]).split())),
            ]
        )
    return draw_columns(columns, rows, width)


def session_lines(data: Data) -> Iterator[Text]:
    """Everything about a session that a person wants to know, but for what to do next."""
    seen = look(data)
    words = f"  session {clean(data['id'])}{_why(data)}"
    yield Text.assemble((f"{seen.sign} {seen.words}", seen.style), words)
    facts = [
        ("intent", clean(" ".join(str(data["intent"]).split()), _LONG)),
        ("repository", clean(data["repository"], _LONG)),
        ("begun", f"{moment(data['created_at'])} on {_short(data['begun_on'])}{_changes_words(data)}"),
        ("model", f"{clean(data['model'] or 'not known', 80)}, led as a {clean(data['style'], 20)} one"),
        ("took", _took(data)),
        ("branch", _branch(data)),
        ("private copy", clean(data["folder"] or "", _LONG)),
    ]
    for label, fact in facts:
        if fact:
            yield Text.assemble((f"  {label:13}", "dim"), fact)
    yield from _checks(data)
    if data["included"]:
        yield Text(included_words(data["included"], is_published=data["state"] == "merged"), "yellow")
    for attempt in data["attempts"]:
        yield from _attempt(attempt, len(data["attempts"]))
    for question in data["questions"]:
        yield Text(f"It asks ({clean(question['id'], 80)}): {clean(question['text'], _LONG)}", "bold yellow")


def _why(data: Data) -> str:
    """Why it stands so, where that says more than how it does."""
    if not data["reason"] or data["reason"] == f"it {_WAITS}":
        return ""
    return f": {clean(data['reason'], _LONG)}"


def _changes_words(data: Data) -> str:
    return ", with what was not committed" if data["includes_changes"] else ""


def _took(data: Data) -> str:
    facts = [count(data["iterations"], "iteration")]
    if data["winner"] is not None and data["candidates"] > 1:
        facts[:0] = [f"attempt {data['winner']} of {data['candidates']} was green first"]
    # Not every model tells.
    facts += [count(data["tokens"], "token")] if data["tokens"] else []
    facts += [money(data["cost_usd"])] if data["cost_usd"] else []
    return ", ".join(facts)


def _branch(data: Data) -> str:
    if not data["branch"]:
        return ""
    return f"{clean(data['branch'], 100)} ({_short(data['commit'])})"


def _short(commit: str | None) -> str:
    return clean((commit or "")[:_COMMIT])


def _checks(data: Data) -> Iterator[Text]:
    contract = data["contract"]
    if contract is None:
        yield Text("No checks yet: the model has still to draft them.")
        return
    results = {result["name"]: result for result in data["checks"]}
    yield Text("Checks:")
    for check in contract["checks"]:
        result = results.get(check["name"])
        command = f"`{clean(check['command'], _LINE)}`"
        if result is None:
            yield Text(f"  · {clean(check['name'], 80)}: {command} has not run yet")
            continue
        style = "green" if result["passed"] else "red"
        yield Text.assemble("  ", (check_words(result), style), f"  {command}")
        if not result["passed"]:
            yield from (Text(f"  {line}") for line in tail_lines(result["output"]))
    if contract["may_touch"]:
        patterns = ", ".join(clean(pattern, 80) for pattern in contract["may_touch"])
        yield Text(f"  The change may touch: {patterns}")


def _attempt(attempt: Data, number_of: int) -> Iterator[Text]:
    ended = f": {clean(attempt['ended'], _LONG)}" if attempt["ended"] else ""
    if number_of > 1 or ended:
        yield Text(f"Attempt {attempt['number']}{ended}")
    for each in attempt["iterations"]:
        red = [clean(check["name"], 60) for check in each["checks"] if not check["passed"]]
        judged = "green" if each["green"] else f"red: {', '.join(red)}" if red else "not checked"
        if each["sealed"]:
            names = ", ".join(clean(path, 80) for path in each["sealed"][:5])
            judged += f"; it changed sealed files, which were put back: {names}"
        for path, why in list(each["needs_person"].items())[:5]:
            judged += f"; to be looked at: {clean(path, 80)} {clean(why, 200)}"
        facts = [count(each["turns"], "turn")]
        facts += [count(each["tokens"], "token")] if each["tokens"] else []
        facts += ["with a hint"] if each["hint"] else []
        yield Text(f"  iteration {each['number']}: {judged} ({', '.join(facts)})")
        for line in text_lines(each["summary"], 2) if each["status"] == "success" else ():
            yield Text(f"  {line}", "dim")


# What to do


def next_steps(data: Data, db: str | None = None, *, is_shown: bool = False) -> list[Advice]:
    """What a person can do now; where `placet code show` is what they see, it is not advised."""
    name, place = name_words(data["id"]), db_words(db)

    def command(verb: str, rest: str = "") -> str:
        return f"placet code {verb} {name}{rest}{place}"

    asked = [
        Advice("To answer its question:", f"placet code answer {name_words(each['id'])} TEXT{place}")
        for each in data["questions"]
    ]
    match data["state"]:
        case "contract_proposed":
            shown = [] if is_shown else [Advice("To see it:", command("show"))]
            return [
                *shown,
                Advice("To confirm the contract:", command("approve")),
                Advice("and then to work on it:", command("resume")),
                Advice("To refuse it:", command("deny", " --reason TEXT")),
            ]
        case "needs_approval":
            every = Advice("To see all that would be published:", command("diff", " --whole"))
            return [
                Advice("To see the change:", command("diff")),
                *([every] if data["included"] else []),
                Advice("To publish it:", command("approve")),
                Advice("To refuse it:", command("deny", " --reason TEXT")),
            ]
        case "merged":
            top, branch = shlex.quote(clean(data["repository"])), shlex.quote(clean(data["branch"]))
            see = Advice("To see it:", f"git -C {top} show {branch}")
            if not data["included"]:
                return [see, Advice("To take it into your branch:", f"git -C {top} merge {branch}")]
            # What lies uncommitted in the checkout is in the branch too: git refuses to merge over it.
            raw = command("diff", " --raw")
            return [
                see,
                Advice("To take over only what the model changed:", f"{raw} | git -C {top} apply"),
                Advice(
                    "To merge it, first commit your own changes (or `git stash -u`), then:",
                    f"git -C {top} merge {branch}",
                ),
            ]
        case "failed" | "abandoned":
            seen = [Advice("To see what was changed last:", command("diff"))] if data["has_change"] else []
            if not data["iterations"] and data["checks"] and all(each["passed"] for each in data["checks"]):
                seen.append(Advice("To work on it all the same, begin again with --even-if-green."))
            if data["checks"] and not is_shown:
                seen.append(Advice("To see what its checks said:", command("show")))
            if data["style"] == "small" and data["iterations"]:
                seen.append(Advice("A larger model may go further: begin again with --model."))
            return seen
    if data.get("run_status") == "running":
        return [*asked, Advice("It is being worked on. To end it:", command("cancel"))]
    waits = data.get("run_status") == "waiting"
    runs = [each["iterations"][-1]["run_id"] for each in data["attempts"] if each["iterations"]]
    decide = [
        Advice("To see what has to be decided:", f"placet approvals list --run {name_words(run)}{place}")
        for run in (runs if waits else ())
    ]
    return [
        *asked,
        *decide,
        Advice("To work on it:" if _is_just_confirmed(data) else "To go on:", command("resume")),
        Advice("To end it:", command("cancel")),
    ]


def steps_data(data: Data, db: str | None = None, *, is_shown: bool = False) -> list[dict[str, str]]:
    """The same as JSON."""
    steps = next_steps(data, db, is_shown=is_shown)
    return [{"sentence": each.sentence, "command": each.command} for each in steps]


def ending_lines(
    data: Data, *, db: str | None, is_kept: bool, elapsed_ms: float | None = None
) -> Iterator[str]:
    """How a session stands when its process lets go of it after so long, and what to do next."""
    seen = look(data)
    what = f" as {_branch(data)}" if data["state"] == "merged" else ""
    passed = f", {duration(elapsed_ms)}" if elapsed_ms is not None else ""
    took = f" ({_took(data)}{passed})" if data["iterations"] or passed else ""
    yield f"{seen.sign} {seen.words}{what}{_why(data)}{took}"
    if not is_kept and data["state"] != "merged":
        yield "  Nothing is kept (--db none), so it cannot be gone on with."
        return
    if data["state"] == "contract_proposed" and data["contract"] is not None:
        yield "  The model proposes these checks, which then decide when the work is done:"
        for number, check in enumerate(data["contract"]["checks"], start=1):
            command = f"`{clean(check['command'], _LINE)}`"
            yield f"    {number}. {clean(check['name'], 80)}: {command}{_decides(check)}"
    if data["included"] and data["state"] in ("needs_approval", "merged"):
        yield f"  {included_words(data['included'], is_published=data['state'] == 'merged')}"
    for advice in next_steps(data, db):
        yield f"  {advice.sentence} {advice.command}".rstrip()


def _decides(check: Data) -> str:
    """What has to be so for a check to be green, where it is not just its exit code."""
    if check.get("output_contains") is None:
        return ""
    words = f'its output contains "{clean(check["output_contains"], 80)}"'
    return f" and {words}" if check.get("expect_exit_zero", True) else f", whatever its exit code; {words}"


# What helped before


def repairs_table(found: Sequence[Data]) -> Table:
    """One row for each repair that is remembered."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("id", "won", "lost", "failure", "what helped"):
        right = heading in ("won", "lost")
        # An id, and a number, are never broken: the texts share what is left.
        is_text = heading in ("failure", "what helped")
        table.add_column(heading, no_wrap=not is_text, overflow="fold", justify="right" if right else "left")
    for data in found:
        command, kind, message = (clean(data[key], 120) for key in ("command", "error_class", "message"))
        table.add_row(
            Text(clean(data["id"][:_REPAIR], 40)),
            Text(f"{data['wins']:,}"),
            Text(f"{data['losses']:,}"),
            Text(f"{command} ({kind}): {message}"),
            Text(clean(" ".join(str(data["approach"]).split()), 200)),
        )
    return table
