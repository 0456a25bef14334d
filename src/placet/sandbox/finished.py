"""How a command ended: what it wrote, what ended it, and the words for it.

Keep true:
1. A keeper's report is read strictly, and only with the token of its call: whatever else comes is no report.
2. Without a report nobody knows how the command ended, and that is what is said.
"""

from __future__ import annotations

import os
import signal
from typing import Literal, assert_never, cast

import msgspec

from placet.ir.json_value import JsonValue
from placet.sandbox.isolation import NOTHING, Facts
from placet.sandbox.keeper import KINDS, NONE, REASONS, REPORT
from placet.sandbox.limits import Limits

EndedBy = Literal["itself", "time", "output", "memory", "processes", "cancel", "signal", "disk"]


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, and what it wrote."""

    exit_code: int | None
    """None when a signal ended it, or it was ended."""
    signal: str = ""
    """The signal that ended it, such as SIGSEGV; empty if none did, it was one of ours, or nobody knows."""
    ended_by: EndedBy
    stdout: bytes
    """What was read, at most `output_bytes`; so too of `stderr`."""
    stderr: bytes
    left_behind: int = 0
    """Processes that still ran when the command itself had ended. They were ended too."""
    duration_s: float
    note: str = ""
    """What else somebody should know: something that could not be ended. Mostly empty."""
    facts: Facts = NOTHING
    """How it was kept from everything else."""


def account(finished: Finished, program: str) -> dict[str, JsonValue]:
    """What a log keeps of a command: how it was confined, and how it ended. Not what it wrote."""
    facts = finished.facts
    return {
        "program": program,
        "isolation": facts.isolation,
        "by": facts.by,
        "enforced": msgspec.to_builtins(facts.enforced),
        "ended_by": finished.ended_by,
        "exit_code": finished.exit_code,
        "duration_ms": round(finished.duration_s * 1000, 3),
    }


def ending(finished: Finished, limits: Limits) -> str:
    """What was unusual about the end of a command, in a sentence; empty if nothing was."""
    said: list[str] = []
    match finished.ended_by:
        case "itself":
            pass
        case "time":
            said.append(f"it was ended after {limits.time_s:g} s, the time it had")
        case "output":
            said.append(f"it was ended for writing more than {limits.output_bytes} bytes; the rest is lost")
        case "memory":
            said.append(f"it was ended for using more than {limits.memory_bytes} bytes of memory")
        case "processes":
            said.append(f"it was ended for running more than {limits.processes} processes at a time")
        case "disk":
            said.append(f"it was ended for writing more than {limits.disk_bytes} bytes to disk")
        case "cancel":
            said.append("it was ended from outside")
        case "signal":
            known = f"it was ended by {finished.signal}"
            said.append(known if finished.signal else "how it ended is not known")
        case never:
            assert_never(never)
    if finished.left_behind:
        one = finished.left_behind == 1
        said.append(
            f"{finished.left_behind} process{'' if one else 'es'} that it had started "
            f"{'was' if one else 'were'} still running and {'was' if one else 'were'} ended"
        )
    if finished.note:
        said.append(finished.note)
    return "; ".join(said)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a keeper says of its command."""

    kind: str
    """One of the keeper's KINDS."""
    number: int
    """How the command ended, as the system tells it, or NONE; of one that did not start, the errno."""
    reason: EndedBy | None
    """Why the keeper ended it; None if it did not."""
    left_behind: int
    not_ended: int
    words: str


def read_report(data: bytes, token: bytes) -> Report | None:
    """A report as it was sent; None if it is none, or not of the call that `token` belongs to."""
    if len(data) != REPORT.size:
        return None
    given, kind, number, reason, left_behind, not_ended, words = REPORT.unpack(data)
    if given != token or not (0 <= kind < len(KINDS) and 0 <= reason < len(REASONS)):
        return None
    return Report(
        kind=KINDS[kind],
        number=number,
        reason=cast("EndedBy | None", REASONS[reason] or None),
        left_behind=left_behind,
        not_ended=not_ended,
        words=words.rstrip(b"\0").decode(errors="replace"),
    )


def from_report(
    report: Report | None,
    *,
    stdout: bytes,
    stderr: bytes,
    is_full: bool,
    is_given_up: bool,
    is_silent: bool,
    is_orphaned: bool,
    duration_s: float,
) -> Finished:
    """What a keeper's report means, or that there is none.

    `is_full`: too much was written; `is_given_up`: the keeper was ended; `is_silent`: nothing came from it;
    `is_orphaned`: what it was forked from has died.
    """
    code = None
    if report is not None and report.number != NONE:
        code = os.waitstatus_to_exitcode(report.number)
    reason: EndedBy | None = "output" if is_full else report.reason if report is not None else None
    ended_by: EndedBy = reason or ("itself" if code is not None and code >= 0 else "signal")
    is_known = report is not None or is_silent
    return Finished(
        exit_code=code if ended_by == "itself" else None,
        signal=_signal_name(code) if ended_by == "signal" and is_known else "",
        ended_by=ended_by,
        stdout=stdout,
        stderr=stderr,
        left_behind=0 if report is None else report.left_behind,
        duration_s=duration_s,
        note=_note(report, is_given_up, is_silent, is_orphaned),
    )


def _note(report: Report | None, is_given_up: bool, is_silent: bool, is_orphaned: bool) -> str:
    if report is not None:
        said = []
        if report.reason == "cancel" and is_orphaned:
            said.append("the process that commands are forked from was killed")
        if report.not_ended:
            said.append(f"{report.not_ended} of its processes could not be ended and may still run")
        return "; ".join(said)
    if is_given_up:
        return "what watches over the command did not answer, so it was ended with the command"
    if is_silent:
        return "what watches over the command was killed; what the command had started may still run"
    return "what came as its report was forged or damaged; what the command had started may still run"


def _signal_name(code: int | None) -> str:
    if code is None:
        return "SIGKILL"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
