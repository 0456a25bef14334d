"""What the gate says of a plan, and how cases went, as lines for people.

The input is what `--json` prints, so both tell the same.

Keep true: every name and reason is cleaned; the answer stands in words, colour only helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from placet.render.text import count, listing
from placet.safe_text import clean, columns

Data = Mapping[str, Any]

_SHOWN = 100
"""Of more actions than this, the rest are counted."""
_NAME, _REASON = 60, 600
_VERDICTS = {
    "denied": ("⊘ denied", "magenta"),
    "invalid": ("✗ invalid", "bold red"),
    "asks": ("? needs an approval", "bold yellow"),
    "undecided": ("· undecided", "cyan"),
    "allowed": ("✓ allowed", "green"),
}
_ANSWERS = {
    "denies": ("⊘ denies", "magenta"),
    "asks": ("? asks", "bold yellow"),
    "undecided": ("· undecided", "cyan"),
    "allows": ("✓ allows", "green"),
}
_NUMBERS = {
    "denied": "denied",
    "invalid": "invalid",
    "asks": "to be approved",
    "undecided": "undecided",
}


def check_lines(plan: Data, title: str) -> list[Text]:
    """What stands in the way of a plan: the answer first, then what is denied, asked or undecided."""
    lines = [_head(plan, title)]
    lines += [_finding("invalid", "the plan", reason) for reason in plan["problems"]]
    found = [line for action in plan["actions"] for line in _findings(action)]
    lines += found[:_SHOWN]
    lines += _more(len(found) - _SHOWN)
    lines += _warnings(plan)
    return lines


def explain_lines(plan: Data, title: str) -> list[Text]:
    """Everything that is said of each action, and whose word decides."""
    lines = [_head(plan, title)]
    if plan["posture"] is not None:
        answers = ", ".join(f"{tier} {answer}" for tier, answer in plan["posture"].items())
        whose = "" if plan["agent"] is None else f" of agent '{clean(plan['agent'], _NAME)}'"
        lines.append(Text(f"Posture{whose}: {answers}", style="dim"))
    lines += [_finding("invalid", "the plan", reason) for reason in plan["problems"]]
    for action in plan["actions"][:_SHOWN]:
        lines += [Text(), _title(action), *_table(action)]
    lines += _more(len(plan["actions"]) - _SHOWN)
    if plan["about_nothing"]:
        lines += [Text(), Text(f"About nothing in this plan: {listing(plan['about_nothing'], _SHOWN)}")]
    lines += _warnings(plan)
    return lines


def trial_lines(trials: Data) -> list[Text]:
    """One line for each case, and what was said where it failed; then how many passed."""
    lines: list[Text] = []
    file = None
    for case in trials["cases"]:
        if case["file"] != file:
            file = case["file"]
            lines.append(Text(clean(file), style="bold"))
        line = Text("  ")
        line.append(*(("✓ ", "green") if case["passed"] else ("✗ ", "bold red")))
        line.append(clean(case["name"], 2 * _NAME))
        lines.append(line)
        if not case["passed"]:
            lines.append(Text(f"      {clean(case['problem'], _REASON)}"))
    total = trials["passed"] + trials["failed"]
    summary = f"{trials['passed']:,} of {count(total, 'case')} passed"
    lines += [Text(), Text(summary, style="bold red" if trials["failed"] else "bold green")]
    if trials["rules_without_case"]:
        lines.append(Text(f"Rules without a case: {listing(trials['rules_without_case'], _SHOWN)}"))
    return lines


def _warnings(plan: Data) -> Iterator[Text]:
    """Names in the rules that mean nothing."""
    for each in plan["warnings"][:_SHOWN]:
        line = Text("  ")
        line.append("! warning", style="yellow")
        line.append(f"  {clean(each['message'], _REASON)}")
        yield line
    yield from _more(len(plan["warnings"]) - _SHOWN)


def _head(plan: Data, title: str) -> Text:
    line = Text()
    line.append(*_VERDICTS[plan["verdict"]])
    line.append(f"  {clean(title, _NAME)}", style="bold")
    actions = [action for action in plan["actions"] if not action["takes_back"]]
    facts = [count(len(actions), "action")]
    for verdict, words in _NUMBERS.items():
        number = sum(1 for action in actions if action["verdict"] == verdict)
        facts += [f"{number:,} {words}"] if number else []
    line.append("  " + ", ".join(facts), style="dim")
    return line


def _findings(action: Data) -> Iterator[Text]:
    """What stands in the way of one action. What only takes another back is asked about together with it."""
    name = _named(action)
    if action["takes_back"]:
        name += f", to take back {listing(action['takes_back'])}"
    shown = {"denies": "denied"}
    if action["verdict"] not in ("denied", "invalid"):
        # Of what does not run nobody is asked, and nothing is open.
        shown |= {"undecided": "undecided"} | ({} if action["takes_back"] else {"asks": "asks"})
    for said in action["said"]:
        if said["answer"] in shown:
            yield _finding(shown[said["answer"]], name, f"{said['by']}: {said['reason']}")
    for reason in action["problems"]:
        yield _finding("invalid", name, reason)
    for reason in action["undecided"]:
        yield _finding("undecided", name, reason)


def _finding(verdict: str, name: str, reason: str) -> Text:
    words, style = _VERDICTS[verdict]
    line = Text("  ")
    line.append(f"{words:<19}", style=style)
    line.append(f"  {name}: ", style="bold")
    line.append(clean(reason, _NAME + _REASON))
    return line


def _named(action: Data) -> str:
    what = action["tool"] if action["tool"] is not None else action["type"]
    return f"{clean(action['id'], _NAME)} ({clean(what, _NAME)})"


def _title(action: Data) -> Text:
    line = Text(_named(action), style="bold")
    words, style = _VERDICTS[action["verdict"]]
    line.append(f"  {words}", style=style)
    deciders = dict.fromkeys(said["by"] for said in action["said"] if said["decides"])
    if deciders:
        line.append(f", because of {listing(deciders)}", style=style)
    facts = [f"needs {action['tier']}"] if action["tier"] is not None else []
    if action["marks"]:
        facts.append(f"its output is {' and '.join(action['marks'])}")
    if action["takes_back"]:
        facts.append(f"only to take back {listing(action['takes_back'])}")
    line.append("".join(f"  ({fact})" for fact in facts), style="dim")
    return line


def _table(action: Data) -> Iterator[Text]:
    """Every answer, the deciding ones with an arrow."""
    said: Sequence[Data] = action["said"]
    names = [clean(each["by"], _NAME) for each in said]
    width = max(map(columns, names), default=0)
    for each, name in zip(said, names, strict=True):
        words, style = _ANSWERS[each["answer"]]
        line = Text("  → " if each["decides"] else "    ")
        line.append(f"{words:<11}  ", style=style)
        line.append(name, style="bold" if each["decides"] else "")
        if each["reason"]:
            line.append(" " * (width - columns(name)) + f"  {clean(each['reason'], _REASON)}")
        yield line
    yield from (_also("✗ invalid", "bold red", reason) for reason in action["problems"])
    yield from (_also("· undecided", "cyan", reason) for reason in action["undecided"])
    if not said and not action["problems"] and not action["undecided"]:
        yield Text("    no rule is about it", style="dim")


def _also(words: str, style: str, reason: str) -> Text:
    line = Text("  → " if words.endswith("invalid") else "    ")
    line.append(f"{words:<11}  ", style=style)
    line.append(clean(reason, _REASON))
    return line


def _more(number: int) -> Iterable[Text]:
    if number > 0:
        yield Text(f"  … and {number:,} more; --json tells all", style="dim")
