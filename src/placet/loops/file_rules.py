"""What a loop's file may not say, though a loop that a program makes might: what could only fail later, when
a round is due and nobody looks.

Keep true: what is refused here is refused when the file is read, with the key; nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import isabs, normpath
from string import Formatter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from placet.safe_text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from placet.loops.spec import ExecutorSpec, LoopSpec

PLACES = ("loop", "number", "round")
"""What is filled in in the name of a branch."""
MOST_ITERATIONS = 1_000
_NOT_IN_A_BRANCH = frozenset(" ~^:?*[\\")
_WEB = "http_get"

Problem = tuple[str, str, str]
"""The key, what is wrong with it, and what to do."""


def places_problem(branch: str) -> str:
    """What is wrong with the places in the name of a branch, in words; empty if nothing is.

    >>> places_problem("loops/{loop}-{number}")
    ''
    >>> places_problem("{loop.__class__}")
    'it has other places to fill in than {loop}, {number} and {round}'
    """
    other = "it has other places to fill in than {loop}, {number} and {round}"
    try:
        found = list(Formatter().parse(branch))
    except ValueError:
        return other
    for _, name, spec, conversion in found:
        if name is not None and (name not in PLACES or spec or conversion):
            return other
    return ""


def file_problems(spec: LoopSpec) -> Iterator[Problem]:
    """What is wrong with a loop that stands in a file."""
    for place, text in _names(spec):
        if clean(text) != text:
            yield place, "it holds control characters, or characters that nobody sees", "Write it without."
    for key in ("budget", "day"):
        if (getattr(spec, key).iterations or 0) > MOST_ITERATIONS:
            yield f"{key}.iterations", f"it is more than {MOST_ITERATIONS:,}", "Write fewer."
    for key in ("maker", "checker"):
        worker = getattr(spec, key)
        if _WEB in (worker.tools or ()) and not worker.hosts:
            yield f"{key}.hosts", f"tools has {_WEB}, which may speak to no host", "Write hosts = [...]."
    yield from _executor_problems(spec.executor)
    for number, each in enumerate(spec.delivery):
        if each.url and (words := _url_problem(each.url)):
            yield f"delivery[{number}].url", words, "Write https://..."
        if each.path and (words := _path_problem(each.path)):
            yield f"delivery[{number}].path", words, "Write a path beneath the top folder of the repository."


def repository_problems(spec: LoopSpec, top: Path) -> Iterator[Problem]:
    """What is wrong with a loop of a repository that no program brings anything to."""
    from placet.tools.builtin import BASIC

    if spec.executor.use == "callback":
        yield "executor.use", "callback is a function of a program, which no file has", "Use another one."
    for key in ("maker", "checker"):
        for number, name in enumerate(getattr(spec, key).tools or ()):
            if name not in BASIC:
                words = f"'{clean(name, 80)}' is no tool that a loop has"
                yield f"{key}.tools[{number}]", words, f"There are: {', '.join(BASIC)}."
    if spec.policies and not (top / spec.policies).exists():
        yield "policies", f"there is no '{clean(spec.policies, 200)}' in the repository", "Write that file."


def _executor_problems(executor: ExecutorSpec) -> Iterator[Problem]:
    if executor.url and (words := _url_problem(executor.url)):
        yield "executor.url", words, "Write https://..."
    branch = executor.branch
    if not branch:
        return
    filled = {name for _, name, _, _ in Formatter().parse(branch) if name is not None}
    if not filled & {"number", "round"}:
        words = "each round makes a branch of its own, and this name would be the same for all"
        yield "executor.branch", words, "Put {number} or {round} into it."
    name = branch.format(loop="x", number=1, round="r")
    if _NOT_IN_A_BRANCH & set(name) or any(_is_bad_part(part) for part in name.split("/")) or ".." in name:
        yield "executor.branch", "git has no branches of such a name", "Write placet/{loop}-{number}, say."


def _is_bad_part(part: str) -> bool:
    """Whether git refuses this between two slashes of a branch's name."""
    return not part or part[0] in ".-" or part.endswith((".", ".lock")) or "@{" in part or part == "@"


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_web = False
    return "" if is_web else f"'{clean(url, 100)}' is no http or https address"


def _path_problem(path: str) -> str:
    plain = normpath(path)
    if isabs(path) or path.startswith("~") or plain == ".." or plain.startswith("../"):
        return f"'{clean(path, 100)}' leads out of the repository"
    return f"'{clean(path, 100)}' names no file" if plain == "." or path.endswith("/") else ""


def _names(spec: LoopSpec) -> Iterator[tuple[str, str]]:
    yield "policies", spec.policies
    yield "executor.branch", spec.executor.branch
    for key in ("maker", "checker"):
        worker = getattr(spec, key)
        yield f"{key}.model", worker.model
        yield from ((f"{key}.tools[{number}]", name) for number, name in enumerate(worker.tools or ()))
        yield from ((f"{key}.hosts[{number}]", name) for number, name in enumerate(worker.hosts))
    for number, each in enumerate(spec.delivery):
        yield f"delivery[{number}].path", each.path
        yield f"delivery[{number}].url", each.url
