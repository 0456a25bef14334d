"""What a failure is known by: the command, the kind of error, and the line that tells most.

The same failure on another day has the same signature, and another failure has another: so whatever
changes from run to run (numbers, times, addresses, temporary folders, compared values) is taken out of that
line, and what names things (tests, modules, rules, functions) stays. `findings` reads the line.

Keep true:
1. Pure, and it never raises: the output is somebody else's text.
2. A signature is short and holds nothing that steers a terminal.
3. What a person's folders are called does not get into it: signatures are shared.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Literal

import msgspec

from placet.checks.contract import CheckResult
from placet.checks.failure import ErrorClass, Finding, lines_of
from placet.checks.findings import RUNS_OUT, crash_of, denied_of, find, last_of, missing_of
from placet.ir.json_value import canonical_bytes
from placet.safe_text import clean
from placet.truncation import truncate

MOST_COMMAND, MOST_MESSAGE = 300, 300
"""Characters of each part."""

_CRASHES = {128 + n for n in (4, 5, 6, 7, 8, 11)}
"""What a shell makes of SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE and SIGSEGV."""
_KILLED, _TIMED_OUT, _DENIED, _MISSING = 137, 124, 126, 127

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,9}://[^\s\"'<>)\]]+")
_ROOT = r"(?:/private)?(?:/var/folders|/var/tmp|/tmp|/dev/shm|/run/user)"
_TEMPORARY = re.compile(rf"(?<![\w.<>/-]){_ROOT}(?:/[^\s:;,\"'`|()\[\]<>=]*)?")
_WINDOWS = re.compile(r"(?<!\w)[A-Za-z]:\\[^\s:;,\"'`|()\[\]<>=]+")
_ABSOLUTE = re.compile(r"(?<![\w.~<>/-])~?/[^\s:;,\"'`|()\[\]<>=]+")
_PATH = re.compile(r"(?:[^\s:;,\"'`‘’|()\[\]<>=/]*/)+(?=[^\s:;,\"'`‘’|()\[\]<>=/])")
_MADE_NAME = re.compile(r"(?<![\w])tmp[a-z0-9_]{8}(?!\w)")

_QUOTED = re.compile(
    r"(?<!\w)(?P<kind>[bBrRuUfF]{0,2})(?:'(?P<a>[^'\n]*)'|\"(?P<b>[^\"\n]*)\"|`(?P<c>[^`'\n]*)[`']"
    r"|‘(?P<d>[^’\n]*)’|“(?P<e>[^”\n]*)”)(?!\w)"
)
_NAME = re.compile(r"(?!.*[0-9]{4})[\w.@/\\+-]{1,80}\Z")
_TIME = re.compile(
    r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9:]{4,5})?)?"
    r"|\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
)
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_HASH = re.compile(r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,}\b")
_NUMBER = re.compile(
    r"(?:(?<![\w.])|(?<=[0-9][-+]))(?:(?<![\w)\]>])[-+])?"
    r"(?:0x[0-9a-fA-F]+|(?:[0-9][0-9_,]*[0-9]|[0-9])(?:\.[0-9]+)*(?:[eE][-+]?[0-9]+)?)"
    r"(?:(?:n|u|µ|m)?s|min|h|%|[kKMGT]i?B?|B)?(?!\w)(?!\.\w)"
)
_SEVERAL = re.compile(r"(<[ns]>)(?:, ?<[ns]>)+")

Quoted = Literal["kept", "names", "hidden"]


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What identifies a failure of a check."""

    command: str
    """The check that failed."""
    error_class: ErrorClass
    """Kind of failure."""
    message: str
    """The failure, without what changes from run to run."""

    @property
    def key(self) -> str:
        """Hash that is the same for the same failure."""
        return digest(self.command, self.error_class, self.message)

    @property
    def coarse(self) -> str:
        """Hash that is the same for all failures of the command with the same kind."""
        return digest(self.command, self.error_class)


def digest(*parts: str) -> str:
    """A short name for texts: the same for the same ones, and no other texts have it."""
    return sha256(canonical_bytes([part.encode(errors="replace").decode() for part in parts])).hexdigest()[
        :32
    ]


def signature_of(result: CheckResult) -> Signature:
    """What a red check is known by."""
    found = _found(result)
    return Signature(
        command=normal_command(result.command), error_class=found.error_class, message=_message(found)
    )


def normal_command(command: str) -> str:
    """A command without what changes from run to run, and without anybody's own folders.

    >>> normal_command("/home/ann/.venv/bin/python  -m pytest -n 4 --basetemp=/tmp/x81")
    'python -m pytest -n <n> --basetemp=<tmp>'
    """
    return _normal(command, "kept", _ABSOLUTE, MOST_COMMAND)


def normal_message(text: str, quoted: Quoted = "names") -> str:
    """A line of output without what changes from run to run; paths are cut to names.

    >>> normal_message("src/calc.py:5: ZeroDivisionError after 0.31s")
    'calc.py:<n>: ZeroDivisionError after <n>'
    """
    return _normal(text, quoted, _PATH, MOST_MESSAGE)


def _message(found: Finding) -> str:
    if found.is_ours:
        return found.what
    match found.error_class:
        case "compile_error" | "import_error" | "lint" | "type_error" | "not_found" | "no_output_match":
            quoted: Quoted = "kept"
        case _:
            quoted = "hidden" if found.compares else "names"
    what = normal_message(found.what, quoted)
    # The name of a test or a file says which failure it is; what was compared in it does not.
    where = normal_message(found.where, "names")
    return truncate(clean(f"{where}: {what}" if where and what else where or what), MOST_MESSAGE).strip()


def _found(result: CheckResult) -> Finding:
    lines = lines_of(result.output)
    code = result.exit_code
    match result.ended_by:
        case "time":
            return Finding("timeout", "it ran out of time")
        case "memory":
            return Finding("out_of_memory", "it used too much memory")
        case "signal":
            return crash_of(lines) or Finding("crash", "it was ended by a signal")
        case "start":
            return Finding("other", result.why or "it could not be started")
        case "itself":
            pass
        case _:
            return Finding("other", f"it was ended by: {result.ended_by}")
    if code == _TIMED_OUT and RUNS_OUT.search(result.command):
        return Finding("timeout", "it ran out of time")
    if code is not None and (code in _CRASHES or code == _KILLED or code < 0):
        return crash_of(lines) or Finding("crash", "it was ended by a signal")
    if code == _MISSING:
        return missing_of(lines) or Finding("not_found", "a command was not found")
    if code == _DENIED:
        return denied_of(lines) or Finding("permission", "a command may not be run")
    found = find(lines, is_red=code != 0)
    if found is not None:
        return found
    if code == 0 or " contain" in result.why:
        # Green by its exit code: then the words of whoever judged it say most.
        is_about_text = not result.why or " contain" in result.why
        return Finding("no_output_match" if is_about_text else "other", result.why or "its output is another")
    if code is None:
        return Finding("other", result.why or "it could not be started")
    return last_of(lines) or Finding("other", f"no output, exit code {code}", is_ours=True)


def _normal(text: str, quoted: Quoted, path: re.Pattern[str], most: int) -> str:
    # More than enough, and little enough for every pattern.
    plain = " ".join(clean(truncate(text, most * 4), tabs=True).split())
    if quoted != "kept":
        plain = _QUOTED.sub(lambda match: _unquoted(match, quoted), plain)
    plain = _URL.sub("<url>", plain)
    plain = _TEMPORARY.sub(_temporary, plain)
    plain = _WINDOWS.sub(lambda match: match[0].rpartition("\\")[2], plain)
    if path is _PATH:
        plain = path.sub("", plain)
    else:
        plain = path.sub(lambda match: match[0].rstrip("/").rpartition("/")[2], plain)
    plain = _MADE_NAME.sub("<tmp>", plain)
    plain = _HASH.sub("<id>", _UUID.sub("<id>", _TIME.sub("<time>", plain)))
    plain = _SEVERAL.sub(r"\1", _NUMBER.sub("<n>", plain))
    return truncate(plain, most).strip()


def _temporary(match: re.Match[str]) -> str:
    name = match[0].rstrip("/").rpartition("/")[2]
    # What has an ending was named by somebody; other names below a temporary folder are new every time.
    return name if re.search(r"\w\.[A-Za-z]{1,5}\Z", name) else "<tmp>"


def _unquoted(match: re.Match[str], quoted: Quoted) -> str:
    inner = next((part for part in match.group("a", "b", "c", "d", "e") if part is not None), "")
    is_name = quoted == "names" and not match["kind"] and _NAME.match(inner) and not _HASH.search(inner)
    return f"'{inner}'" if is_name else "<s>"
