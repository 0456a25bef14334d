"""Which calls something is about: by tool, risk, label, and the paths they are pointed at."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from placet.errors import RuleError
from placet.ir.action import Action
from placet.ir.json_value import texts_in
from placet.ir.references import has_references
from placet.ir.tool_spec import Risk
from placet.policy.pattern import name_pattern
from placet.validator import ToolFacts


class Calls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of tool calls; every condition that is given must match."""

    tool: str = "*"
    """Name of the tool; `*` matches any text, so `shell*` is a family and `shell` is only `shell`."""
    risk: Risk | Sequence[Risk] | None = None
    """Only tools that declare this risk, or one of these."""
    label: str | None = None
    """Only tools with this label."""
    path: str | None = None
    """Only calls with a path such as `secrets/*` among the texts of their parameters; without a leading `/`
    it matches at any depth."""

    def __post_init__(self) -> None:
        for name in ("tool", "risk", "label", "path"):
            if getattr(self, name) in ("", [], ()):
                raise RuleError(
                    f"'{name}' is empty, so it would fit no call; give it a value, or leave it out"
                )

    def about(self, action: Action, tool: ToolFacts | None) -> bool:
        """Whether a call of this tool can be meant, whatever its parameters. A tool that is not known has
        neither risk nor labels."""
        if action.type != "tool_call" or action.tool is None or not name_pattern(self.tool)(action.tool):
            return False
        if self.risk is not None and (tool is None or tool.schema.risk not in self._risks()):
            return False
        return self.label is None or (tool is not None and self.label in tool.schema.labels)

    def fits(self, action: Action, tool: ToolFacts | None) -> bool:
        """Whether this very call is meant."""
        return self.about(action, tool) and self.fits_path(action)

    def may_fit(self, action: Action, tool: ToolFacts | None) -> bool:
        """Whether the call can be meant once its references are filled in."""
        return self.about(action, tool) and (self.fits_path(action) or refers(action))

    def fits_path(self, action: Action) -> bool:
        """Whether the call is pointed at a path that is meant."""
        return self.path is None or path_fits(self.path, texts_in(action.parameters))

    def _risks(self) -> Sequence[str]:
        return (self.risk,) if isinstance(self.risk, str) else self.risk or ()

    def in_words(self) -> str:
        """How it is called in a message.

        >>> Calls(risk="network", label="mail").in_words(), Calls(tool="deploy").in_words()
        ("a network tool labelled 'mail'", "tool 'deploy'")
        """
        risks = " or ".join(self._risks())
        words = f"a {risks} tool" if risks else "a tool"
        if self.tool != "*":
            words = f"{risks} tool '{self.tool}'" if risks else f"tool '{self.tool}'"
        if self.label is not None:
            words += f" labelled '{self.label}'"
        return words + (f" on '{self.path}'" if self.path is not None else "")


def refers(action: Action) -> bool:
    """Whether some parameter is still to be filled in."""
    return action.references and has_references(action.parameters)


def path_fits(pattern: str, texts: Iterable[str]) -> bool:
    """Whether one of the texts, read as a path, fits; a pattern that does not begin with `/` fits at any
    depth, and a folder fits what stands for everything in it.

    >>> path_fits("secrets/*", ["./x/../secrets/key"]), path_fits("secrets/*", ["my-secrets/key"])
    (True, False)
    >>> path_fits("/etc/*", ["../../../etc/passwd", "file:///etc/passwd"])
    True
    """
    tests = _tests(pattern)
    return any(test(path) for text in texts for path in _as_paths(text) for test in tests)


@lru_cache(maxsize=1024)
def _tests(pattern: str) -> tuple[Callable[[str], bool], ...]:
    pattern = pattern.replace("\\", "/")
    plain = _normal(pattern) + ("/*" if pattern.endswith("/") else "")
    both = [plain, plain[:-2]] if plain.endswith("/*") and len(plain) > 2 else [plain]
    if not plain.startswith("/"):
        both += [f"*/{each}" for each in both]
    return tuple(map(name_pattern, both))


def _as_paths(text: str) -> Iterator[str]:
    path = _normal(text.removeprefix("file://").replace("\\", "/"))
    yield path
    if path.startswith("../"):
        # From a deep enough folder nothing of the way up is left.
        yield "/" + path.replace("../", "")


def _normal(path: str) -> str:
    path = posixpath.normpath(path)
    # POSIX leaves two slashes to the system, and ours takes them for one.
    return path[1:] if path.startswith("//") else path
