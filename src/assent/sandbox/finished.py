"""How a command ended: what it wrote, what ended it, and the words for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any, Literal, assert_never

import msgspec

from assent.sandbox.limits import Limits

EndedBy = Literal["itself", "time", "output", "memory", "processes", "cancel", "signal"]


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, and what it wrote."""

    exit_code: int | None
    """None when a signal ended it, or it was ended."""
    signal: str = ""
    """The signal that ended it, such as SIGSEGV; empty if none did, or it was one of ours."""
    ended_by: EndedBy
    stdout: bytes
    """What was read, at most `output_bytes`; so too of `stderr`."""
    stderr: bytes
    left_behind: int = 0
    """Processes that still ran when the command itself had ended. They were ended too."""
    duration_s: float
    note: str = ""
    """What else somebody should know: something that could not be ended. Mostly empty."""


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
        case "cancel":
            said.append("it was ended from outside")
        case "signal":
            said.append(f"it was ended by {finished.signal}")
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


def from_report(
    report: Mapping[str, Any],
    *,
    stdout: bytes,
    stderr: bytes,
    is_full: bool,
    is_given_up: bool,
    duration_s: float,
) -> Finished:
    """What a keeper's report means. `is_full`: too much was written; `is_given_up`: the keeper was ended."""
    status: int | None = report.get("status")
    code = None if status is None else os.waitstatus_to_exitcode(status)
    reason: EndedBy | None = "output" if is_full else report.get("reason")
    ended_by: EndedBy = reason or ("itself" if code is not None and code >= 0 else "signal")
    return Finished(
        exit_code=code if ended_by == "itself" else None,
        signal=_signal_name(code) if ended_by == "signal" else "",
        ended_by=ended_by,
        stdout=stdout,
        stderr=stderr,
        left_behind=report.get("left_behind", 0),
        duration_s=duration_s,
        note=_note(report, is_given_up),
    )


def _note(report: Mapping[str, Any], is_given_up: bool) -> str:
    if "vanished" in report:
        if is_given_up:
            return "what watches over the command did not answer, so it was ended with the command"
        return "what watches over the command was killed; what the command had started may still run"
    if left := report.get("not_ended"):
        return f"{left} of its processes could not be ended and may still run"
    return ""


def _signal_name(code: int | None) -> str:
    if code is None:
        return "SIGKILL"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
