"""How far an agent may go without asking: tiers of actions, and what is answered to each.

A tier comes from what a tool declares; its name, its command line and the paths it is pointed at can only
raise it. They are hints for people, never the protection: that is the sandbox.

Keep true:
1. Free text never decides: only parameters that are commands or paths are looked at.
2. Nothing a plan says lowers a tier.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType
from typing import Literal, NamedTuple, get_args

import msgspec

from placet.errors import UsageError
from placet.ir.json_value import JsonValue, texts_in
from placet.ir.tool_spec import ToolSchema
from placet.truncation import truncate_repr

Tier = Literal["read_only", "sandbox_edit", "full_access"]
"""How far an action reaches.

- `read_only`: it only reads.
- `sandbox_edit`: it changes something inside the working folder.
- `full_access`: anything else.
"""
Answer = Literal["allow", "ask", "deny"]
"""Answer to an action.

- `allow`: execute it without asking.
- `ask`: ask a person.
- `deny`: do not execute it.
"""

TIERS: tuple[Tier, ...] = get_args(Tier)
ANSWERS: tuple[Answer, ...] = get_args(Answer)


class Posture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to each tier of action."""

    read_only: Answer = "allow"
    """Answer to actions that only read."""
    sandbox_edit: Answer = "ask"
    """Answer to actions that change something inside the working folder."""
    full_access: Answer = "ask"
    """Answer to all other actions."""

    def __post_init__(self) -> None:
        for tier in TIERS:
            if self.to(tier) not in ANSWERS:
                raise UsageError(
                    f"{self.to(tier)!r} is no answer to {tier}. Use one of: {', '.join(ANSWERS)}."
                )

    def to(self, tier: Tier) -> Answer:
        """Return the answer to a tier.

        Args:
            tier: The tier.
        """
        found: Answer = getattr(self, tier)
        return found

    def tightened(self, other: Posture) -> Posture:
        """Return the stricter of the two, tier by tier.

        Args:
            other: The other posture.
        """
        return Posture(**{tier: max(self.to(tier), other.to(tier), key=ANSWERS.index) for tier in TIERS})

    @classmethod
    def named(cls, name: str) -> Posture:
        """Return a preset: `cautious`, `balanced` or `trusting`; or `read_only`, `sandbox_edit` or
        `full_access`, which allow everything up to that tier and ask about the rest.

        >>> Posture.named("balanced").full_access, Posture.named("read_only").sandbox_edit
        ('ask', 'ask')

        Args:
            name: Name of the preset.

        Raises:
            UsageError: there is none of that name.
        """
        if name not in POSTURES:
            raise UsageError(f"'{name}' is no posture and no tier. Use one of: {', '.join(POSTURES)}.")
        return POSTURES[name]


POSTURES: dict[str, Posture] = {
    "cautious": Posture(sandbox_edit="ask", full_access="deny"),
    "balanced": Posture(sandbox_edit="allow", full_access="ask"),
    "trusting": Posture(sandbox_edit="allow", full_access="allow"),
    "read_only": Posture(sandbox_edit="ask", full_access="ask"),
    "sandbox_edit": Posture(sandbox_edit="allow", full_access="ask"),
    "full_access": Posture(sandbox_edit="allow", full_access="allow"),
}
"""Presets by name, and the three tiers as postures."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """The posture for everyone, and postures of single agents."""

    standing: Posture = POSTURES["trusting"]
    """The posture of every caller that has none of its own; `trusting` by default."""
    agents: Mapping[str, Posture] = {}
    """Postures by caller id, as in `Scope.caller_id`."""

    def posture(self, caller: str | None) -> Posture:
        """Return the posture of a caller.

        Args:
            caller: Id of the caller; `None` for an unknown one.
        """
        return self.agents.get(caller, self.standing) if caller is not None else self.standing


class Stance(NamedTuple):
    """The answer of an approval policy to one call."""

    answer: Answer
    """`"allow"`, `"ask"` or `"deny"`."""
    reason: str = ""
    """Why; shown to the person or to the model."""


StanceOf = Callable[[str, Mapping[str, JsonValue]], "Stance | Answer | None"]
"""Approval policy: a function of a tool's name and its parameters that returns a `Stance`, an answer, or
`None` to leave it to others."""


class CallByCall:
    """Answers to single calls, asked before the tiers: an approval policy, then a list of tools that always
    need approval.
    """

    __slots__ = ("_gated", "_of", "nobody", "otherwise", "overrules")

    def __init__(
        self,
        of: StanceOf | None = None,
        gated: Iterable[str] = (),
        *,
        otherwise: Posture | None = None,
        overrules: bool = False,
        nobody: str = "",
    ) -> None:
        """Create it.

        Args:
            of: The approval policy.
            gated: Names of tools that always need approval.
            otherwise: Posture for all other calls, if the runtime has no permissions.
            overrules: Use `otherwise` even if the runtime has permissions.
            nobody: Message to a model about a call that needs approval, if there is nobody to ask.
        """
        self._of = of
        self._gated = frozenset(gated)
        self.otherwise = otherwise
        self.overrules = overrules
        self.nobody = nobody

    def answer(self, tool: str, parameters: Mapping[str, JsonValue]) -> Stance | None:
        """Return the answer to a call; `None` if its tier decides. A policy that raises, or returns something
        else, denies.

        Args:
            tool: Name of the tool.
            parameters: Parameters of the call.
        """
        if self._of is not None:
            try:
                found = self._of(tool, parameters)
            except Exception as error:
                return Stance("deny", f"the approval policy failed: {type(error).__name__}: {error}")
            if found is not None:
                stance = found if isinstance(found, Stance) else Stance(found)
                if stance.answer in ANSWERS:
                    return stance
                return Stance(
                    "deny", f"the approval policy answered {truncate_repr(found, 80)}, which is no answer"
                )
        return Stance("ask", f"'{tool}' is a gated tool") if tool in self._gated else None

    def answering(self, posture: Posture) -> CallByCall:
        """Return the same answers with another posture, which overrules the runtime's permissions.

        Args:
            posture: The other posture.
        """
        return CallByCall(self._of, self._gated, otherwise=posture, overrules=True, nobody=self.nobody)

    def spelled_out(self) -> JsonValue:
        """By which approvals under other answers are told apart, as far as that can be seen."""
        name = getattr(self._of, "__qualname__", type(self._of).__qualname__) if self._of else None
        code = getattr(self._of, "__code__", None)
        # Two functions of one name may say different things.
        digest = hashlib.sha256(_spelled(code)).hexdigest() if code is not None else None
        return [name, digest, sorted(self._gated)]


def _spelled(code: CodeType) -> bytes:
    """What a function does, the same in every process."""
    parts = [code.co_code]
    for each in code.co_consts:
        parts.append(_spelled(each) if isinstance(each, CodeType) else repr(each).encode(errors="replace"))
    return b"\0".join(parts)


def permissions_of(given: Permissions | Posture | str | None) -> Permissions | None:
    """Permissions in the short forms in which people write them.

    Raises:
        UsageError: a name that is no posture.
    """
    if given is None or isinstance(given, Permissions):
        return given
    return Permissions(standing=given if isinstance(given, Posture) else Posture.named(given))


CONFINED = "confined"
"""The label of a tool that can change nothing outside the folder where the work is done."""


NOT_GRANTED = "needs {tier}, which is not granted without asking"
"""Words for a call that the posture does not allow without an approval."""
UNASKED = (
    "it needs an approval, and there is nobody to ask. Do without it, or finish and state what is missing"
)
"""The same for a model, where there is nobody to ask. A person is told elsewhere how to allow it: a model
cannot."""
_UNGRANTED = re.compile(NOT_GRANTED.format(tier="(read_only|sandbox_edit|full_access)") + ";")


def unasked_for(words: str) -> str | None:
    """The tier that a rejected call needed, if there was nobody to ask for it; else None.

    The tier is empty if a rule or a gate wanted the approval, so that no tier would have helped.

    >>> unasked_for(f"rejected: tool 'pay' {NOT_GRANTED.format(tier='full_access')}; {UNASKED}")
    'full_access'
    """
    found = _UNGRANTED.search(words)
    if found is not None:
        return found[1]
    return "" if f"; {UNASKED}" in words else None


def tier_of(schema: ToolSchema, parameters: Mapping[str, JsonValue], folder: str | None) -> Tier:
    """How much an action needs to be allowed to do.

    >>> tier_of(ToolSchema(name="put", risk="idempotent"), {"path": "notes/a.txt"}, "/work")
    'sandbox_edit'
    >>> tier_of(ToolSchema(name="put", risk="idempotent"), {"path": "../../etc/passwd"}, "/work")
    'full_access'
    >>> tier_of(ToolSchema(name="put", labels=["confined"]), {"path": "notes/a.txt"}, "/work")
    'sandbox_edit'
    """
    if schema.risk == "read_only":
        return "read_only"
    if schema.risk == "network":
        return "full_access"
    if (
        schema.risk == "destructive"
        and schema.reversibility != "reversible"
        and CONFINED not in schema.labels
    ):
        return "full_access"
    if (
        _FAR_REACHING.search(schema.name) is not None
        or any(_runs_far(text) for text in commands_in(parameters))
        or any(_lies_outside(path, folder) for path in paths_in(parameters))
    ):
        return "full_access"
    return "sandbox_edit"


_FAR_REACHING = re.compile(
    r"(?i)(?:^|[._-])(?:delete|destroy|drop|purge|wipe|deploy|publish|push|send|pay|charge|transfer|shell|exec)"
    r"(?:$|[._-])"
)
_COMMANDS = frozenset({"command", "cmd", "argv", "command_line", "script"})
_PATHS = re.compile(
    r"(?i)^(?:path|file|filename|folder|directory|dir|source|src|destination|dest|dst|target"
    r"|(?:.*_)(?:path|file|filename|folder|directory|dir))s?$"
)
_PROGRAMS = re.compile(
    r"^(?:sudo|su|doas|ssh|scp|sftp|rsync|curl|wget|nc|ncat|telnet|ftp|rm|shred|dd|mkfs"
    r"|mount|umount|kill|pkill|killall|reboot|shutdown|systemctl|crontab|chown|docker|podman|kubectl|terraform|npm|pip)$"
)
_SEGMENT = re.compile(r"[\s;&|()`$<>]+")


def commands_in(parameters: Mapping[str, JsonValue]) -> Iterator[str]:
    """The command lines among the parameters, told by their names."""
    for name, value in parameters.items():
        if name.lower() in _COMMANDS:
            yield from _texts(value)


def paths_in(parameters: Mapping[str, JsonValue]) -> Iterator[str]:
    """The paths among the parameters, told by their names."""
    for name, value in parameters.items():
        if _PATHS.match(name) is not None:
            yield from _texts(value)


def points_somewhere(name: str) -> bool:
    """Whether a parameter of that name is a command or a path."""
    return name.lower() in _COMMANDS or _PATHS.match(name) is not None


def _texts(value: JsonValue) -> Iterable[str]:
    return [text.removeprefix("file://") for text in texts_in(value)]


def _runs_far(command: str) -> bool:
    return any(_PROGRAMS.match(posixpath.basename(word)) is not None for word in _SEGMENT.split(command))


def _lies_outside(path: str, folder: str | None) -> bool:
    if path.startswith("~"):
        return True
    home = posixpath.normpath(folder) if folder is not None else None
    whole = posixpath.normpath(posixpath.join(home or "", path))
    if home is None:
        return whole.startswith(("/", ".."))
    return whole != home and not whole.startswith(f"{home.rstrip('/')}/")
