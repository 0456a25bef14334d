"""The composition root: from files that a person names to a runtime that works.

Everything that comes from a file is read here, strictly, so that the faces (CLI, later a server) only parse
arguments, call and draw.

Keep true:
1. A file that cannot be used is an InputError that names it, before anything runs.
2. Loading a tools file runs that file, as importing it would; nothing else here runs what it reads.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from assent.errors import DecodeError, InputError, ToolDeclarationError, ToolFileError
from assent.ir.codec import MAX_BYTES, decode_json, decode_proposal
from assent.ir.json_value import JsonValue
from assent.ir.proposal import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assent.events.jsonl import JsonlSink
    from assent.ir.result import ProposalResult
    from assent.runtime.runtime import Runtime
    from assent.tools.tool import Tool

STDIN = "-"
_LOG_LOOK = 100
"""Lines of a file that tell whether it is a log; one that a crash cut short is among others."""

_EXAMPLE = """Write one like this:

    from assent import tool

    @tool(risk="read_only")
    def greet(name: str) -> str:
        \"\"\"Say hello.\"\"\"
        return f"Hello, {name}!"
"""


def load_plan(path: str) -> Proposal:
    """A plan from a JSON file, or from standard input for `-`.

    Raises:
        InputError: the file cannot be read.
        DecodeError: it is no plan; names the file and the place in it.
    """
    source = "the plan on standard input" if path == STDIN else f"the plan {path}"
    try:
        return decode_proposal(_read(path))
    except DecodeError as error:
        raise DecodeError(error.problem, place=error.place, source=source) from None


def load_state(path: str) -> dict[str, JsonValue]:
    """The state to begin with, from a JSON file that holds one object.

    Raises:
        InputError: the file cannot be read.
        DecodeError: it is not a JSON object; names the file and the place in it.
    """
    source = f"the state file {path}"
    state = decode_json(_read(path), source)
    if not isinstance(state, dict):
        raise DecodeError('it must hold one object, such as {"key": "value"}', source=source)
    return state


def load_result(path: str) -> ProposalResult:
    """What `assent run --json` printed, from a file.

    Raises:
        InputError: the file cannot be read.
        DecodeError: it is no result; names the file and the place in it.
    """
    import msgspec

    from assent.ir.result import ProposalResult

    source = f"the result file {path}"
    document = decode_json(_read(path), source)
    try:
        return msgspec.convert(document, ProposalResult)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        problem = problem[:1].lower() + problem[1:]
        raise DecodeError(problem, place=place.strip("`") or "$", source=source) from None


def _read(path: str) -> bytes:
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise InputError(
                    "Cannot read the plan: standard input is closed. Name a file, or pipe a plan in."
                )
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unusable("read", path, error) from None


def _unusable(what: str, path: str, error: OSError | ValueError) -> InputError:
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

    from assent.events.event import Event

    decode = msgspec.json.Decoder(Event).decode
    try:
        if not Path(path).is_file():
            return
        with open(path, "rb") as file:
            lines = [line for line in islice(file, _LOG_LOOK) if line.strip()]
    except (OSError, ValueError) as error:
        raise _unusable("write the log", path, error) from None
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
        raise _unusable("write", path, error) from None


def write_file(path: str, text: str) -> None:
    """Write a text whole; an existing file is replaced only when all of it is on disk.

    Raises:
        InputError: the place cannot be written.
    """
    try:
        # A link is followed: what it points to is replaced, not the link.
        target = Path(path).resolve()
        if target.exists() and not (target.is_file() and os.access(target.parent, os.W_OK)):
            # A pipe or a device is written to, never replaced; a folder is refused by the system.
            target.write_text(text, encoding="utf-8")
            return
        draft = _draft(target)
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise _unusable("write", path, error) from None


def _draft(target: Path) -> Path:
    if not target.name:
        raise ValueError("it names no file")
    return target.with_name(f".{target.name}.{os.getpid()}.part")


def load_tools(path: str) -> list[Tool]:
    """The tools that a Python file defines at its top level, in the order in which they stand there.

    Raises:
        InputError: the file cannot be read.
        ToolFileError: it raises, or holds no tool; names the line.
    """
    from assent.tools.tool import Tool

    module = _run_file(path)
    found: dict[int, Tool] = {}
    names: dict[str, str] = {}
    for attribute, item in vars(module).items():
        if isinstance(item, Tool) and id(item) not in found:
            if item.name in names:
                raise ToolFileError(
                    f"Tools file {path}: '{names[item.name]}' and '{attribute}' are both '{item.name}'. "
                    'Give one another name with @tool(name="...").'
                )
            names[item.name] = attribute
            found[id(item)] = item
            _compile(path, item)
    if not found:
        raise ToolFileError(f"Tools file {path} holds no tool. {_EXAMPLE}")
    return list(found.values())


def _compile(path: str, tool: Tool) -> None:
    try:
        tool.compile()
    except ToolDeclarationError as error:
        raise ToolFileError(f"Tools file {path}: {error}") from error


def _run_file(path: str) -> ModuleType:
    """Run a Python file as a module under a name that nobody imports by accident."""
    source = _read(path)
    full = str(Path(path).resolve())
    name = f"_assent_tools_{sha256(full.encode(errors='replace')).hexdigest()[:12]}"
    loader = SourceFileLoader(name, full)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    # In sys.modules, because decorators and type hints look their module up there.
    sys.modules[name] = module
    folder = str(Path(full).parent)
    if folder not in sys.path:
        # Last, so that a file beside the tools cannot take the place of an installed module.
        sys.path.append(folder)
    try:
        exec(loader.source_to_code(source, full), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise ToolFileError(_what_broke(path, full, error)) from error
    return module


def _what_broke(path: str, full: str, error: BaseException) -> str:
    hint = "Mend the file; ASSENT_DEBUG=1 shows the whole traceback."
    if isinstance(error, SyntaxError):
        line = f", line {error.lineno}" if error.lineno else ""
        return f"Tools file {path}{line}: it is not Python ({error.msg}). {hint}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == full]
    line = f", line {lines[-1]}" if lines else ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        hint = f"Install '{error.name}' into this environment, or mend the import."
    words = f"{type(error).__name__}: {error}".rstrip(": .")
    return f"Tools file {path}{line}: loading it raised {words}. {hint}"


class App:
    """A runtime, and what has to be closed when it is done."""

    def __init__(self, runtime: Runtime, sink: JsonlSink | None) -> None:
        self.runtime = runtime
        self.sink = sink

    def close(self) -> None:
        """Hand over what is not written yet, and close the log."""
        self.runtime.events.flush()
        if self.sink is not None:
            self.sink.close()


@contextmanager
def open_app(
    *,
    tools: str | None = None,
    state: str | None = None,
    policies: str | None = None,
    schedule: Literal["levels", "dataflow"] = "levels",
    log: str | None = None,
) -> Iterator[App]:
    """A runtime made from files, closed afterwards.

    Raises:
        InputError: one of the files cannot be used.
    """
    app = build_app(tools=tools, state=state, policies=policies, schedule=schedule, log=log)
    try:
        yield app
    finally:
        app.close()


def build_app(
    *,
    tools: str | None = None,
    state: str | None = None,
    policies: str | None = None,
    schedule: Literal["levels", "dataflow"] = "levels",
    log: str | None = None,
) -> App:
    """A runtime made from files; whoever calls closes it."""
    from assent.events.log import EventLog
    from assent.runtime.runtime import Runtime

    found: Sequence[Tool[..., Any]] = load_tools(tools) if tools is not None else ()
    rules = []
    if policies is not None:
        from assent.policy.loader import load_policies

        rules = load_policies(policies)
    values = load_state(state) if state is not None else {}
    events = EventLog()
    runtime = Runtime(tools=found, state=values, policies=rules, schedule=schedule, events=events)
    sink = None
    if log is not None:
        sink = _open_log(log)
        events.add_sink(sink)
    return App(runtime, sink)


def _open_log(path: str) -> JsonlSink:
    from assent.events.jsonl import JsonlSink

    try:
        return JsonlSink(path)
    except (OSError, ValueError) as error:
        raise _unusable("write the log", path, error) from None
