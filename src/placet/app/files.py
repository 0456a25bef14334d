"""Files that a person names: read strictly, written whole.

Keep true:
1. A file that cannot be used is an InputError that names it, before anything runs.
2. What is read is never written over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from placet.errors import DecodeError, InputError
from placet.ir.codec import MAX_BYTES, decode_json, decode_proposal
from placet.ir.json_value import JsonValue
from placet.ir.proposal import NOBODY, Proposal

if TYPE_CHECKING:
    from placet.ir.result import ProposalResult

STDIN = "-"
_LOG_LOOK = 100
"""Lines of a file that tell whether it is a log; one that a crash cut short is among others."""


def load_plan(path: str) -> Proposal:
    """A plan from a JSON file, or from standard input for `-`. One that does not say what it is called is
    called as its file is, and one that does not say who proposes it is its own source: its runs are then
    known by that name.

    Raises:
        InputError: the file cannot be read.
        DecodeError: it is no plan; names the file and the place in it.
    """
    return _decode_plan(path, read_file(path))


def load_plan_document(path: str) -> dict[str, Any]:
    """The JSON of a plan that can be decoded, as it is written but for its name and source: the same file
    gives the same document each time.

    Raises:
        InputError, DecodeError: as `load_plan`.
    """
    text = read_file(path)
    proposal = _decode_plan(path, text)
    return {**msgspec.json.decode(text), "id": proposal.id, "source": proposal.source}


def _decode_plan(path: str, text: bytes) -> Proposal:
    source = "the plan on standard input" if path == STDIN else f"the plan {path}"
    try:
        return _named(decode_proposal(text), text, "stdin" if path == STDIN else Path(path).stem)
    except DecodeError as error:
        raise DecodeError(error.problem, place=error.place, source=source) from None


class _Named(msgspec.Struct):
    id: str = ""


def _named(proposal: Proposal, text: bytes, name: str) -> Proposal:
    # In place: a copy would not know any more that it was checked, and which fields mean nothing.
    if not msgspec.json.decode(text, type=_Named).id:
        # A file may be called what no text can hold.
        shown = name.encode("utf-8", "replace").decode()
        msgspec.structs.force_setattr(proposal, "id", shown)
    if proposal.source in ("", NOBODY):
        msgspec.structs.force_setattr(proposal, "source", proposal.id)
    return proposal


def load_state(path: str) -> dict[str, JsonValue]:
    """The state to begin with, from a JSON file that holds one object.

    Raises:
        InputError: the file cannot be read.
        DecodeError: it is not a JSON object; names the file and the place in it.
    """
    source = f"the state file {path}"
    state = decode_json(read_file(path), source)
    if not isinstance(state, dict):
        raise DecodeError('it must hold one object, such as {"key": "value"}', source=source)
    return state


def load_result(path: str) -> ProposalResult:
    """What `placet run --json` printed, from a file.

    Raises:
        InputError: the file cannot be read.
        DecodeError: it is no result; names the file and the place in it.
    """
    from placet.ir.result import ProposalResult

    source = f"the result file {path}"
    document = decode_json(read_file(path), source)
    try:
        return msgspec.convert(document, ProposalResult)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        problem = problem[:1].lower() + problem[1:]
        raise DecodeError(problem, place=place.strip("`") or "$", source=source) from None


def read_file(path: str) -> bytes:
    """What a file holds, or standard input for `-`.

    Raises:
        InputError: it cannot be read.
    """
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise InputError(
                    "Standard input is closed, so nothing can be read from it. Name a file, or pipe it in."
                )
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise unusable("read", path, error) from None


def is_file(path: str) -> bool:
    """Whether that is meant as a file: there is one, or it is written as only files are."""
    try:
        return "/" in path or path.endswith(".jsonl") or Path(path).exists()
    except (OSError, ValueError):
        return False


def unusable(what: str, path: str, error: OSError | ValueError) -> InputError:
    """Words for a file that the system does not give us; ValueError: a path with a null character in it."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"Cannot {what} {path}: {why}. Check the path and its permissions.")


def check_target(path: str, option: str, inputs: Mapping[str, str | None], *, instead: str) -> None:
    """Refuse to write over what is read: `inputs` holds the paths by what they are to the person.

    Links are followed, and a folder among the inputs stands for the files in it.

    Raises:
        InputError: the target is one of the inputs.
    """
    if path == STDIN:
        return
    for what, given in inputs.items():
        if given is not None and given != STDIN and _is_same(path, given):
            raise InputError(
                f"{option} {path} would write over {what}. Name another file, such as {instead}."
            )


def _is_same(path: str, given: str) -> bool:
    try:
        target, source = Path(path).resolve(), Path(given).resolve()
        if target == source or (target.exists() and source.exists() and target.samefile(source)):
            return True
        return source.is_dir() and target.parent == source and target.suffix == ".toml"
    except (OSError, ValueError, RuntimeError):
        # A path that cannot be followed is reported by whoever opens it.
        return False


def check_log(path: str) -> None:
    """Refuse to append events to a file that holds something else.

    Raises:
        InputError: the file has lines, and none of the first is an event.
    """
    import msgspec

    from placet.events.event import Event

    decode = msgspec.json.Decoder(Event).decode
    try:
        if not Path(path).is_file():
            return
        with open(path, "rb") as file:
            lines = [line for line in islice(file, _LOG_LOOK) if line.strip()]
    except (OSError, ValueError) as error:
        raise unusable("write the log", path, error) from None
    for line in lines:
        try:
            decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return
    if lines:
        raise InputError(
            f"{path} holds something else than events, so no log is appended to it. "
            "Name another file, such as --log run.jsonl."
        )


def check_writable(path: str) -> None:
    """Find out whether `write_file` would work, before the work whose outcome it is to hold.

    Raises:
        InputError: the place cannot be written.
    """
    try:
        if Path(path).exists():
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        else:
            draft = _draft(Path(path))
            draft.touch()
            draft.unlink()
    except (OSError, ValueError) as error:
        raise unusable("write", path, error) from None


def write_file(path: str, text: str) -> None:
    """Write a text whole; an existing file is replaced only when all of it is on disk.

    Raises:
        InputError: the place cannot be written.
    """
    write_lines(path, (text,))


def write_lines(path: str, lines: Iterable[str], *, is_private: bool = False) -> int:
    """Write texts one after the other, as whole as `write_file` does; returns how many there were.

    With `is_private` nobody else can read the file, also if one that they could read is replaced.

    Raises:
        InputError: the place cannot be written.
    """
    try:
        # A link is followed: what it points to is replaced, not the link.
        target = Path(path).resolve()
        if target.exists() and not (target.is_file() and os.access(target.parent, os.W_OK)):
            # A pipe or a device is written to, never replaced; a folder is refused by the system.
            return _write(target, lines, is_private)
        draft = _draft(target)
        try:
            written = _write(draft, lines, is_private)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise unusable("write", path, error) from None
    return written


def _write(path: Path, lines: Iterable[str], is_private: bool) -> int:
    written = 0
    mode = 0o600 if is_private else 0o666
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        for line in lines:
            file.write(line)
            written += 1
    return written


def _draft(target: Path) -> Path:
    if not target.name:
        raise ValueError("it names no file")
    return target.with_name(f".{target.name}.{os.getpid()}.part")
