"""What waits for a person, and what was decided, as a table and as lines.

An approval comes in as the fields that `--json` prints, without secrets, and with some of it in words:
`parameters` and `compensation` are JSON text, `texts` are those of several lines, each with a heading,
`change` is what would change in files, as a heading and a diff, and `decided` and `revoked` say how it was
decided and revoked.

Keep true:
1. Who decides sees what will run: whatever is left out for the terminal's sake is said to be left out.
2. What a plan wrote stands behind a bar or is cleaned, so that it cannot pass for words of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.text import Text

from placet.ir.call_facts import Confinement, Recovery
from placet.render.call_facts import format_confinement, format_recovery
from placet.render.columns import Column, draw_columns
from placet.render.diff import diff_block
from placet.render.text import count, moment
from placet.render.wrapping import cut_line, wrap_words
from placet.safe_text import clean, columns
from placet.truncation import redacted, truncate, truncate_tail

Data = Mapping[str, Any]

_LONGEST_LINE = 600
_MOST_LINES = 200
"""Of parameters, a preview or a compensation, in the terminal."""
_LABELS = 14
"""Columns for the names of facts."""
_LEAST_TEXT = 24
"""Columns that the text of a list has at least, where other columns can be left out for it."""

_LOOKS = {
    "waiting": ("?", "bold yellow"),
    "expired": ("–", "dim"),
    "approved": ("✓", "green"),
    "denied": ("⊘", "magenta"),
    "withdrawn": ("■", "dim"),
    "revoked": ("⊘", "magenta"),
}


def approvals_table(
    found: Sequence[Data], now: float, width: int | None, *, with_status: bool
) -> Iterator[Text]:
    """One row for each approval; how it stands, and who decided when, is told only `with_status`. `width` is
    that of a terminal, None for a pipe."""
    headings = ["id", "status", "run", "action", "tool", "asked", "expires", "by", "decided", "why"]
    rows: list[dict[str, str | Text]] = []
    for one in found:
        sign, style = _LOOKS[one["status"]]
        cells: tuple[str | Text, ...] = (
            clean(one["id"]),
            Text(f"{sign} {one['status']}", style=style),
            *(clean(one[name] or "") for name in ("run_id", "action_id", "tool")),
            _ago(now - one["requested_at"]),
            # What is decided no longer expires.
            _expiry(one, now) if one["decision"] is None else "",
            *_decider(one, now),
            clean(_reasons(one)[0]),
        )
        rows.append(dict(zip(headings, cells, strict=True)))
    if not with_status:
        headings = [name for name in headings if name not in ("status", "by", "decided")]
    return _draw(headings, rows, width, gives_way=("run", "action", "expires", "tool", "asked"))


def standing_table(found: Sequence[Data], now: float, width: int | None) -> Iterator[Text]:
    """One row for each that is approved for always: who said so, and until when. `width` is that of a
    terminal, None for a pipe."""
    headings = ["id", "run", "action", "by", "approved", "until", "tool"]
    rows: list[dict[str, str | Text]] = []
    for one in found:
        until = one["holds_until"]
        cells = (
            clean(one["id"]),
            *(clean(one[name] or "") for name in ("run_id", "action_id")),
            clean(one["decided_by"] or ""),
            _ago(now - one["decided_at"]),
            "for good" if until is None else moment(until),
            clean(one["tool"] or ""),
        )
        rows.append(dict(zip(headings, cells, strict=True)))
    return _draw(headings, rows, width, gives_way=("run", "action"))


def _draw(
    headings: Sequence[str],
    rows: Sequence[Mapping[str, str | Text]],
    width: int | None,
    *,
    gives_way: Sequence[str],
) -> Iterator[Text]:
    """A list whose last column is a text, which alone may be cut. On a terminal the others are left out, one
    after the other, until the text has room: an id that is cut cannot be copied."""
    shown = list(headings)
    if width is not None:
        sizes = {name: max(columns(str(text)) for text in [name, *(r[name] for r in rows)]) for name in shown}
        for name in gives_way:
            if sum(sizes[each] + 2 for each in shown[:-1]) + _LEAST_TEXT > width:
                shown.remove(name)
    cells = [[row[name] for name in shown] for row in rows]
    return draw_columns([Column(name, is_text=name == shown[-1]) for name in shown], cells, width)


def _decider(approval: Data, now: float) -> tuple[str, str]:
    """Who made it stand as it stands, and how long ago."""
    who, when = approval["decided_by"], approval["decided_at"]
    if approval["revoked_at"] is not None:
        who, when = approval["revoked_by"], approval["revoked_at"]
    if when is None:
        return "", ""
    return clean("its run" if who is None else who), _ago(now - when)


def approval_lines(approval: Data, now: float, width: int, *, is_whole: bool = False) -> Iterator[Text]:
    """Everything that whoever decides has to know, line by line; with `is_whole` nothing of it is cut."""
    sign, style = _LOOKS[approval["status"]]
    yield Text.assemble((f"{sign} {approval['status']}", style), f"  {_what(approval)}")
    end = approval["expires_at"]
    facts: list[tuple[str, str | None]] = [
        ("id", approval["id"]),
        *(("asked because" if not n else "", reason) for n, reason in enumerate(_reasons(approval))),
        ("risk", approval["risk"]),
        *_call_facts(approval),
        *((name, approval[name]) for name in ("tier", "folder", "tenant", "agent")),
        ("isolation", approval["isolation"] if approval["isolation"] != "none" else None),
        ("fingerprint", approval["fingerprint"][:16]),
        ("asked", f"{moment(approval['requested_at'])} ({_ago(now - approval['requested_at'])})"),
        ("expires", "never" if end is None else f"{moment(end)} ({_expiry(approval, now)})"),
        ("decision", approval["decided"] or None),
        # A fact of its own: the end of a long line may be cut, and this must be seen.
        ("then", approval["revoked"] or None),
    ]
    for label, fact in facts:
        if fact is not None:
            yield from _fact(label, clean(fact, None if is_whole else _LONGEST_LINE), width)
    blocks: list[tuple[str, str | None]] = [
        ("parameters", approval["parameters"]),
        *approval.get("texts", ()),
        ("what would change", approval["preview"] if approval.get("change") is None else None),
        ("what would take it back, and is approved with it", approval["compensation"]),
    ]
    for heading, text in blocks:
        if text is not None:
            yield from _block(heading, text, width, is_whole=is_whole)
    if approval.get("change") is not None:
        heading, diff = approval["change"]
        yield from _change(heading, diff, width, is_whole=is_whole)


def _call_facts(approval: Data) -> Iterator[tuple[str, str]]:
    """What confines the call, and what undoes it; of an older question what its tool declared."""
    if approval["confinement"] is not None:
        yield "confinement", format_confinement(msgspec.convert(approval["confinement"], Confinement))
    if approval["recovery"] is not None:
        yield "undo", format_recovery(msgspec.convert(approval["recovery"], Recovery))
    else:
        yield "undoing", approval["reversibility"]


def _change(heading: str, diff: str, width: int, *, is_whole: bool) -> Iterator[Text]:
    """What would change in files; without a diff the heading says why."""
    words = f"{heading}:" if diff else f"{heading.rstrip('.')}."
    for line in wrap_words(clean(words, None if is_whole else _LONGEST_LINE), max(width, 20), cuts=True):
        yield Text(line)
    if diff:
        yield from diff_block(diff, width, None if is_whole else _MOST_LINES)


def decision_line(approval: Data) -> Text:
    """What was decided just now."""
    words = f" {_what(approval)}, was {clean(approval['decided'], 500)}."
    return Text.assemble(_LOOKS[approval["status"]], words)


def revoked_lines(approval: Data) -> Iterator[Text]:
    """What was revoked just now, and what follows from that."""
    words = f" The approval of {_what(approval)}, was {clean(approval['revoked'], 500)}."
    yield Text.assemble(_LOOKS[approval["status"]], words)
    yield Text("From now on the same is asked about again, also by the run that asked, unless it has acted.")


def _what(approval: Data) -> str:
    tool, action, run = (clean(approval[name], 80) for name in ("tool", "action_id", "run_id"))
    return f"{tool}, action '{action}' of run {run}"


def _reasons(approval: Data) -> Sequence[str]:
    if approval["reasons"]:
        reasons: Sequence[str] = approval["reasons"]
        return reasons
    # How it is undone is a fact of its own, where it is known.
    more = f" and {approval['reversibility']}" if approval["recovery"] is None else ""
    return [f"it is {approval['risk']}{more}"]


def _fact(label: str, words: str, width: int) -> Iterator[Text]:
    for number, line in enumerate(wrap_words(words, max(width - _LABELS - 3, 20), cuts=True)):
        yield Text.assemble((f"  {label if not number else '':{_LABELS}}", "dim"), f" {line}")


def _block(heading: str, text: str, width: int, *, is_whole: bool) -> Iterator[Text]:
    """A text of several lines, behind a bar: a long line must not go on at the margin, as if it were ours."""
    yield Text(f"{heading}:" if text else f"{heading}.")
    if not text:
        return
    lines = _lines(text)
    left_out = len(lines) - _MOST_LINES
    if left_out > 0 and not is_whole:
        lines = _lines(redacted(text))
        left_out = max(len(lines) - _MOST_LINES, 0)
        half = _MOST_LINES // 2
        lines[half:-half] = [f"… {left_out:,} lines are left out here; see them with --json …"]
    for line in lines:
        line = clean(line.expandtabs(4))
        for piece in cut_line(line if is_whole else _cut(line), max(width - 4, 20)):
            yield Text.assemble(("  │ ", "dim"), piece)


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _cut(line: str) -> str:
    """A line without its middle, if it is long."""
    left_out = len(line) - _LONGEST_LINE
    if left_out <= 0:
        return line
    half = _LONGEST_LINE // 2
    words = f"… {left_out:,} characters are left out here; see them with --json …"
    return f"{truncate(line, half)} {words} {truncate_tail(line, half)}"


def _expiry(approval: Data, now: float) -> str:
    end: float | None = approval["expires_at"]
    if end is None:
        return "never"
    left = end - now
    return f"in {_span(left)}" if left > 0 else _ago(-left)


def _ago(seconds: float) -> str:
    return "just now" if seconds < 60 else f"{_span(seconds)} ago"


def _span(seconds: float) -> str:
    if seconds < 60:
        return "less than 1 min"
    if seconds < 7_200:
        return f"{int(seconds // 60)} min"
    if seconds < 172_800:
        return f"{int(seconds // 3600)} h"
    return count(int(seconds // 86_400), "day")
