"""A loop as data: what it is for, how far it may go, who makes, who checks, and what is done with the result.

Keep true:
1. A file is read strictly: a key that means nothing, or a value of another kind, refuses the whole file, with
   the file and the key.
2. What a loop could do is in here whole: nothing of it is decided by where it is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from placet.checks.contract import Check, Contract
from placet.errors import UsageError
from placet.loops.budget import LoopBudget
from placet.loops.file_rules import file_problems, places_problem
from placet.loops.levels import LEVELS, Level
from placet.safe_text import clean

if TYPE_CHECKING:
    from placet.policy.toml_file import TomlFile

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MOST_TEXT = 20_000
_MOST_TIMEOUT_S = 86_400.0

ExecutorName = Literal["record", "callback", "commit", "apply_patch", "command", "webhook"]
"""Kind of executor.

- `record`: only record the change.
- `callback`: call a function.
- `commit`: commit on a branch.
- `apply_patch`: change the files of the working tree.
- `command`: run a command.
- `webhook`: post to a URL.
"""
GateName = Literal["escalate", "allowlist", "policy", "callback"]
"""Who decides whether an act may run without a person.

- `escalate`: always ask a person.
- `allowlist`: allow the kinds in `allow`.
- `policy`: ask policy rules.
- `callback`: ask a function.
"""
IsolationName = Literal["none", "changes", "process"]
"""The least isolation that commands and checks must have."""
DeliveryName = Literal["terminal", "file", "command", "webhook"]
"""Way in which a report is delivered."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Worker(_Table, frozen=True):
    """The maker or the checker of a loop."""

    prompt: str = ""
    """The task. Empty: the intent of the loop."""
    tools: tuple[str, ...] | None = None
    """Names of the tools that it is offered. `None`: those that suit its part; at L1 only tools that read."""
    model: str = ""
    """Name of a model, such as `openai:gpt-5`. Empty: the model that the loop runs with."""
    hosts: tuple[str, ...] = ()
    """Hosts that its web tool may contact; without any, the tool is not offered."""


class ExecutorSpec(_Table, frozen=True):
    """What is done with an approved change."""

    use: ExecutorName = "record"
    """Kind of executor."""
    branch: str = ""
    """For `commit`: the branch to create; `{loop}`, `{number}` and `{round}` are filled in."""
    command: str = ""
    """For `command`: command for `/bin/sh` in a copy of the change."""
    check: str = ""
    """For `command` and `webhook`: a command that exits with 0 if the effect still holds."""
    url: str = ""
    """For `webhook`: where to post."""
    hosts: tuple[str, ...] = ()
    """For `webhook`: hosts that may be contacted."""
    idempotent: bool = False
    """For `command` and `webhook`: the same key twice has one effect, so it may be repeated after a crash."""
    timeout_s: float = 60.0
    """Time limit in seconds."""


class Delivery(_Table, frozen=True):
    """Where the report of a round goes."""

    to: DeliveryName
    """Way of delivery."""
    path: str = ""
    """For `file`: file to append to, relative to the repository."""
    command: str = ""
    """For `command`: command for `/bin/sh` in the repository; it reads the report as JSON on standard input.
   """
    url: str = ""
    """For `webhook`: where to post the report as JSON."""
    hosts: tuple[str, ...] = ()
    """For `webhook`: hosts that may be contacted."""
    always: bool = False
    """Also report rounds whose change was executed without a person."""


class Hooks(_Table, frozen=True):
    """Commands of the user, which run in the repository. Under isolation `process` they run in the sandbox
    and cannot change it, unless the user's settings trust the tool `loop_hook`."""

    before: str = ""
    """Command before the round; its output is given to the maker as data."""
    after: str = ""
    """Command after the round; it reads the report as JSON on standard input."""
    timeout_s: float = 60.0
    """Time limit of each in seconds."""


class Unusable(UsageError):
    """A loop that cannot be run as it is."""

    def __init__(self, name: str, place: str, words: str, fix: str) -> None:
        self.place = place
        self.words = words
        self.fix = fix
        super().__init__(f"The loop '{clean(name, 80)}' cannot be used: {place}: {words}. {fix}".rstrip())


class LoopSpec(_Table, frozen=True):
    """A loop as data, as in its file. `placet.loops.spec.read_loop(text, where)` reads one."""

    name: str
    """Name of the loop: lower-case letters, digits, dash and underscore."""
    intent: str
    """What the loop is for."""
    level: Level = "L1"
    """How far it may go by itself."""
    cadence: str = ""
    """When it runs, such as `daily 09:00`. Empty: only on request."""
    timezone: str = "UTC"
    """Time zone of the cadence and of the daily budget."""
    kind: str = "report"
    """Kind of act, such as `changelog` or `dependency-update`."""
    allow: tuple[str, ...] = ()
    """Kinds of act that it may execute at L3 without a person."""
    gate: GateName = "escalate"
    """Gate that decides whether an act may run without a person; it can only be stricter than the level."""
    policies: str = ""
    """For the gate `policy`: file or folder of rules."""
    isolation: IsolationName = "process"
    """The least isolation that commands and checks must have."""
    include_changes: bool = False
    """Start with the uncommitted changes of the working tree."""
    may_touch: tuple[str, ...] = ()
    """Patterns of files that checks depend on and that the maker may change nevertheless."""
    expires_s: float | None = None
    """How long an escalation waits for a person, in seconds. `None`: without limit."""
    budget: LoopBudget = LoopBudget()
    """Limits of each round."""
    day: LoopBudget = LoopBudget()
    """Limits of each day, over all rounds."""
    maker: Worker = Worker()
    """The worker that makes the change."""
    checker: Worker = Worker()
    """The worker that checks it."""
    checks: tuple[Check, ...] = ()
    """Commands that must pass."""
    executor: ExecutorSpec = ExecutorSpec()
    """What is done with a change."""
    delivery: tuple[Delivery, ...] = ()
    """Where reports go."""
    hooks: Hooks = Hooks()
    """Commands before and after a round."""

    def __post_init__(self) -> None:
        for place, words, fix in _problems(self):
            raise Unusable(self.name, place, words, fix)

    @property
    def contract(self) -> Contract:
        """Its checks and `may_touch`, as a `Contract`."""
        return Contract(description=self.intent, checks=self.checks, may_touch=self.may_touch)


def read_loop(text: str, where: str, *, name: str | None = None) -> LoopSpec:
    """The loop in a TOML file. `where` is the file's name, for errors; `name` is what the loop is called if
    the file does not say.

        intent = "keep the changelog up to date"
        level = "L2"
        cadence = "daily 09:00"
        kind = "changelog"

        [maker]
        prompt = "Add what was merged since the last entry."

        [[checks]]
        command = "test -s CHANGELOG.md"

        [executor]
        use = "commit"

    Raises:
        PolicyFileError: it is not TOML, has a key that means nothing, or could not be run; names the file and
            the key, or the line.
    """
    from placet.policy.loader import read_toml
    from placet.policy.toml_file import TomlFile

    file = TomlFile(where, what="Loop file")
    document = read_toml(file, text.encode(errors="replace"))
    if name is not None:
        document.setdefault("name", name)
    file.check_keys(document, LoopSpec.__struct_fields__, "", "a loop")
    for key in ("name", "intent"):
        if key not in document:
            file.fail("it is missing", key, f'Write {key} = "..."')
    document["checks"] = _checks(file, document)
    for key, kind in (("budget", LoopBudget), ("day", LoopBudget), ("maker", Worker), ("checker", Worker)):
        _inner(file, document, key, kind)
    _inner(file, document, "executor", ExecutorSpec)
    _inner(file, document, "hooks", Hooks)
    tables = file.tables(document.get("delivery", []), "delivery", "Begin each with a line [[delivery]].")
    document["delivery"] = [
        _converted(file, table, Delivery, f"delivery[{number}]") for number, table in enumerate(tables)
    ]
    made: LoopSpec = _converted(file, document, LoopSpec, "")
    for place, words, fix in file_problems(made):
        file.fail(words, place, fix)
    return made


def _inner(file: TomlFile, document: dict[str, Any], key: str, kind: type[msgspec.Struct]) -> None:
    if key in document:
        table = file.table(document[key], key, f"Begin it with a line [{key}].")
        document[key] = _converted(file, table, kind, key)


def _converted(file: TomlFile, table: Mapping[str, Any], kind: type[Any], place: str) -> Any:
    if place:
        file.check_keys(table, kind.__struct_fields__, place, f"[{place.partition('[')[0]}]")
    try:
        return file.convert(table, kind, place)
    except Unusable as error:
        file.fail(error.words, error.place, error.fix)
    except UsageError as error:
        file.fail(str(error).rstrip("."), place)


def _checks(file: TomlFile, document: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks, read as those of a contract are."""
    from placet.checks.contract import read_checks

    tables = file.tables(document.get("checks", []), "checks", "Begin each check with a line [[checks]].")
    return read_checks(file, tables)


_Problem = tuple[str, str, str]


def _problems(spec: LoopSpec) -> list[_Problem]:
    """What is wrong with a loop, in the order in which it stands there."""
    found: list[_Problem] = []
    if not _NAME.fullmatch(spec.name):
        found.append(
            (
                "name",
                "it is not 1 to 64 small letters, digits, dashes and underscores",
                "Write ci-sweeper, say.",
            )
        )
    if not spec.intent.strip():
        found.append(("intent", "it is empty", "Say in a sentence what the loop is for."))
    for place, text in _texts(spec):
        if len(text) > _MOST_TEXT:
            found.append((place, f"it is longer than {_MOST_TEXT:,} characters", "Say it shorter."))
        elif clean(text, lines=True, tabs=True) != text:
            hidden = "it holds control characters, or characters that nobody sees"
            found.append((place, hidden, "Write it without them."))
    if spec.level not in LEVELS:
        found.append(
            ("level", f"'{clean(spec.level, 40)}' is no level", f"Write one of {', '.join(LEVELS)}.")
        )
    found += _cadence(spec)
    if not _WORD.fullmatch(spec.kind):
        found.append(("kind", "it is no single word", "Write changelog, say."))
    for number, kind in enumerate(spec.allow):
        if not _WORD.fullmatch(kind):
            found.append((f"allow[{number}]", "it is no single word", "Write a kind as it stands in `kind`."))
    if spec.gate == "policy" and not spec.policies:
        found.append(("policies", "gate is policy, and no file of rules is named", 'Write policies = "...".'))
    if spec.gate != "policy" and spec.policies:
        found.append(("policies", f"gate is {spec.gate}, which has none", 'Write gate = "policy".'))
    if spec.expires_s is not None and not (isfinite(spec.expires_s) and spec.expires_s > 0):
        found.append(("expires_s", "it is no number of seconds above 0", "Leave it out to wait for ever."))
    if spec.level == "L3" and not spec.checks:
        words = "a loop of level L3 needs at least one: without it nothing would ever be verified"
        found.append(("checks", words, 'Write [[checks]] command = "...", or a lower level.'))
    found += _contract_problems(spec) + _executor_problems(spec.executor) + _delivery_problems(spec)
    if not 0 < spec.hooks.timeout_s <= _MOST_TIMEOUT_S:
        found.append(("hooks.timeout_s", f"it is not above 0 and up to {_MOST_TIMEOUT_S:,.0f}", ""))
    return found


def _texts(spec: LoopSpec) -> Sequence[tuple[str, str]]:
    return [
        ("intent", spec.intent),
        ("maker.prompt", spec.maker.prompt),
        ("checker.prompt", spec.checker.prompt),
        ("executor.command", spec.executor.command),
        ("executor.check", spec.executor.check),
        ("executor.url", spec.executor.url),
        ("hooks.before", spec.hooks.before),
        ("hooks.after", spec.hooks.after),
    ]


def _cadence(spec: LoopSpec) -> list[_Problem]:
    from placet.loops.schedule import parse_cadence, zone_of

    try:
        zone_of(spec.timezone)
    except UsageError as error:
        return [("timezone", str(error).rstrip("."), "")]
    if not spec.cadence:
        return []
    try:
        parse_cadence(spec.cadence, spec.timezone)
    except UsageError as error:
        return [("cadence", str(error).rstrip("."), "")]
    return []


def _contract_problems(spec: LoopSpec) -> list[_Problem]:
    from placet.checks.contract import contract_problems

    # Below L3 a loop may go without checks.
    return [each for each in contract_problems(spec.contract) if spec.checks or each.key != "checks"]


def _executor_problems(executor: ExecutorSpec) -> list[_Problem]:
    found: list[_Problem] = []
    wanted = {"command": ("command",), "webhook": ("url", "hosts")}.get(executor.use, ())
    usable = {
        "commit": ("branch",),
        "command": ("command", "check", "idempotent", "timeout_s"),
        "webhook": ("url", "hosts", "check", "idempotent", "timeout_s"),
    }.get(executor.use, ())
    plain = ExecutorSpec()
    for key in executor.__struct_fields__:
        value = getattr(executor, key)
        if key in wanted and not value:
            found.append((f"executor.{key}", f"use is {executor.use}, which needs it", f"Write {key} = ..."))
        elif key not in (*usable, "use") and value != getattr(plain, key):
            found.append((f"executor.{key}", f"use is {executor.use}, which has none", "Leave it out."))
    if not 0 < executor.timeout_s <= _MOST_TIMEOUT_S:
        found.append(("executor.timeout_s", f"it is not above 0 and up to {_MOST_TIMEOUT_S:,.0f}", ""))
    if words := places_problem(executor.branch):
        found.append(("executor.branch", words, ""))
    return found


def _delivery_problems(spec: LoopSpec) -> list[_Problem]:
    found: list[_Problem] = []
    wanted = {"terminal": (), "file": ("path",), "command": ("command",), "webhook": ("url", "hosts")}
    for number, each in enumerate(spec.delivery):
        for key in ("path", "command", "url", "hosts"):
            is_wanted = key in wanted[each.to]
            if bool(getattr(each, key)) != is_wanted:
                words = f"to is {each.to}, which {'needs it' if is_wanted else 'has none'}"
                found.append((f"delivery[{number}].{key}", words, ""))
    return found
