"""`settings.toml`: what a person, or a project, wants to be allowed without asking. Read strictly.

    tools = "tools.py"            # a project's: used where no --tools is given; or "commands.toml"

    [permissions]
    tier = "sandbox_edit"         # or posture = "balanced", or single answers

    [permissions.agents.nightly]
    posture = "cautious"
    full_access = "ask"           # a single answer goes before the posture

    [http]                        # a person's: what http_get may speak to
    allow = ["*.example.org"]
    deny = ["old.example.org"]
    private = false

    [isolation]
    require = "process"           # the least that will do; a project may raise it, never lower it
    hosts = ["pypi.org"]          # a person's: what commands may speak to
    trusted_tools = ["deploy"]    # a person's: offered under "process" although they run outside

    memory = true                 # a person's: assistants get what memory holds about each message
    auto_distill = true           # a person's: models make skills from runs

    [notify]                      # a person's: where a link for what waits is sent; see notify.py
    ntfy = "https://ntfy.example.org/my-topic"
    url = "https://box.example.org"

    [otel]                        # a person's: where traces and metrics go
    enabled = true
    endpoint = "http://localhost:4318"

    [models]                      # a person's: who answers; see model_settings.py
    default = "anthropic:claude-sonnet-5-5"

Keep true:
1. Every key is known and every value means something, or the whole file is refused, with file, key and fix.
2. What a file leaves out stays as it was: it is never taken for a wish.
3. A project names no hosts, trusts no tools, chooses no models and switches no memory on: that is a person's
   to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from placet.policy.loader import read_toml
from placet.policy.permission import ANSWERS, POSTURES, TIERS, Answer, Permissions, Posture
from placet.policy.toml_file import TomlFile
from placet.sandbox.isolation import LEVELS, Level

if TYPE_CHECKING:
    from placet.app.model_settings import ModelSettings
    from placet.app.notify import NotifySettings
    from placet.events.otel.sink import OtelSettings
    from placet.sandbox.hosts import HostFilter

FILE_NAME = "settings.toml"
PRESETS = tuple(name for name in POSTURES if name not in TIERS)
_KEYS = ("tier", "posture", *TIERS)
_HTTP = ("allow", "deny", "private")
_ISOLATION = ("require", "hosts", "trusted_tools")
_NOTIFY = ("command", "webhook", "ntfy", "url")
_PERSONS = {
    "http": ("name hosts", "Which hosts may be spoken to"),
    "models": ("choose models", "Who reads your data"),
    "memory": ("switch memory on", "What is stored about you"),
    "notify": ("send notifications", "Who is told what you are asked"),
    "otel": ("export traces", "Who is told what your runs do"),
}
"""Keys that are for a person's own settings: what a project may not, and why."""
_OTEL = ("enabled", "endpoint", "headers", "content", "metrics", "ratio")


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A posture as a file writes it: a name, single answers, or both."""

    name: str | None = None
    answers: Mapping[str, Answer] = {}

    def over(self, given: Posture) -> Posture:
        """The posture that is meant, where `given` holds for what is not said."""
        base = given if self.name is None else Posture.named(self.name)
        return msgspec.structs.replace(base, **self.answers)

    def __bool__(self) -> bool:
        return self.name is not None or bool(self.answers)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What one settings file says."""

    tools: str | None = None
    """A path inside the `.placet` folder."""
    standing: Wish = Wish()
    agents: Mapping[str, Wish] = {}
    hosts: HostFilter | None = None
    """Which hosts may be spoken to."""
    require: Level | None = None
    """The least isolation that will do."""
    command_hosts: HostFilter | None = None
    """Which hosts commands may speak to; None is none at all."""
    command_host_names: Sequence[str] = ()
    """The same, as they are written."""
    trusted_tools: Sequence[str] = ()
    """Tools that may run although they are outside of every sandbox."""
    models: ModelSettings | None = None
    """Who answers what is asked of models."""
    memory: bool = False
    """Whether runs have a memory, and assistants get what it holds."""
    auto_distill: bool = False
    """Whether skills are made from runs."""
    notify: NotifySettings | None = None
    """Where a link for what waits is sent."""
    otel: OtelSettings | None = None
    """Where traces and metrics go; `None` for nowhere."""

    @property
    def has_permissions(self) -> bool:
        """Whether the file says anything about what is allowed."""
        return bool(self.standing) or bool(self.agents)

    def over(self, given: Permissions) -> Permissions:
        """The permissions that are meant, where `given` holds for what is not said."""
        standing = self.standing.over(given.standing)
        agents = dict(given.agents)
        for name, wish in self.agents.items():
            agents[name] = wish.over(given.agents.get(name, standing))
        return Permissions(standing=standing, agents=agents)


def parse_settings(path: Path, data: bytes, *, of_project: bool) -> Settings:
    """What a settings file says.

    Raises:
        PolicyFileError: it says something that means nothing; names file, key and fix.
    """
    file = TomlFile(str(path), "Settings file")
    document = read_toml(file, data)
    for key in document:
        if of_project and key in _PERSONS:
            problem, why = _PERSONS[key]
            fix = f"{why} is yours to say: put it into your own settings.toml."
            file.fail(f"a project's settings may not {problem}", key, fix)
        if key == "tools" and not of_project:
            fix = "Put it into the .placet folder of a project, or name the file with --tools."
            file.fail("only a project's settings may name tools", "tools", fix)
    known = ["tools" if of_project else "http", "permissions", "isolation"]
    known += [] if of_project else ["models", "memory", "auto_distill", "notify", "otel"]
    file.check_keys(document, known, "", "the settings")
    tools = _tools(file, document["tools"]) if "tools" in document else None
    hosts = _hosts(file, document["http"]) if "http" in document else None
    memory = file.flag(document.get("memory", False), "memory", "Write memory = true.")
    distill = file.flag(document.get("auto_distill", False), "auto_distill", "Write auto_distill = true.")
    if distill and not memory:
        file.fail("skills are kept in memory", "auto_distill", "Write memory = true as well.")
    settings = Settings(tools=tools, hosts=hosts, memory=memory, auto_distill=distill)
    if "models" in document:
        from placet.app.model_settings import parse_models

        settings = msgspec.structs.replace(settings, models=parse_models(file, document["models"]))
    if "notify" in document:
        settings = msgspec.structs.replace(settings, notify=_notify(file, document["notify"]))
    if "otel" in document:
        settings = msgspec.structs.replace(settings, otel=_otel(file, document["otel"]))
    if "isolation" in document:
        settings = _isolation(file, document, settings, of_project=of_project)
    if "permissions" not in document:
        return settings
    table = file.table(document["permissions"], "permissions", "Begin it with a line [permissions].")
    agents = file.table(
        table.get("agents", {}), "permissions.agents", "Begin each with a line [permissions.agents.NAME]."
    )
    return msgspec.structs.replace(
        settings,
        standing=_wish(file, {key: table[key] for key in table if key != "agents"}, "permissions", "agents"),
        agents={name: _agent(file, name, agents[name]) for name in agents},
    )


def _tools(file: TomlFile, value: object) -> str:
    fix = 'Name a file in the same folder, such as tools = "tools.py".'
    text = file.text(value, "tools", fix)
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or text.startswith("~") or "\0" in text:
        file.fail("it leads out of the .placet folder", "tools", fix)
    if path.parts[:1] == ("data",):
        file.fail("what lies in data is not looked at, so it cannot be trusted", "tools", fix)
    if path.suffix not in (".py", ".toml"):
        file.fail("it is neither a Python file nor a TOML file", "tools", fix)
    return str(path)


def _hosts(file: TomlFile, value: object) -> HostFilter:
    from placet.errors import UsageError
    from placet.sandbox.hosts import HostFilter

    table = file.table(value, "http", "Begin it with a line [http].")
    file.check_keys(table, _HTTP, "http", "[http]")
    for key in ("allow", "deny"):
        _texts(file, table, key, "http", "host names", "*.example.org")
    file.flag(table.get("private", False), "http.private", "Write private = false.")
    try:
        return HostFilter(**table)
    except UsageError as error:
        file.fail(str(error), "http")


def _notify(file: TomlFile, value: object) -> NotifySettings:
    from placet.app.notify import NotifySettings, is_web_address

    table = file.table(value, "notify", "Begin it with a line [notify].")
    file.check_keys(table, _NOTIFY, "notify", "[notify]")
    command = _texts(file, table, "command", "notify", "words of a command", "notify-send")
    for key in ("webhook", "ntfy", "url"):
        if key in table and not is_web_address(file.text(table[key], f"notify.{key}", "Write an address.")):
            file.fail("expected an address", f"notify.{key}", f'Write {key} = "https://box.example.org/...".')
    return NotifySettings(
        command=tuple(command),
        webhook=table.get("webhook"),
        ntfy=table.get("ntfy"),
        url=str(table["url"]).rstrip("/") if "url" in table else None,
    )


def _otel(file: TomlFile, value: object) -> OtelSettings | None:
    from placet.app.notify import is_web_address
    from placet.events.otel.sink import OtelSettings

    table = file.table(value, "otel", "Begin it with a line [otel].")
    file.check_keys(table, _OTEL, "otel", "[otel]")
    for key in ("enabled", "content", "metrics"):
        file.flag(table.get(key, False), f"otel.{key}", f"Write {key} = true.")
    if "endpoint" in table and not is_web_address(
        file.text(table["endpoint"], "otel.endpoint", "Write an address.")
    ):
        fix = 'Write endpoint = "http://localhost:4318".'
        file.fail("expected the address of an OTLP receiver (HTTP)", "otel.endpoint", fix)
    headers = file.table(table.get("headers", {}), "otel.headers", 'Write headers = { "api-key" = "..." }.')
    for name, header in headers.items():
        if not isinstance(header, str) or not header.isprintable() or not _is_header(name):
            fix = 'Write a name and a text, such as "api-key" = "...".'
            file.fail("expected a header of HTTP", f"otel.headers.{name}", fix)
    ratio = table.get("ratio", 1.0)
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
        file.fail("expected a number from 0 to 1", "otel.ratio", "Write ratio = 0.1 for every tenth trace.")
    if not table.get("enabled", False):
        return None
    return OtelSettings(
        endpoint=table.get("endpoint"),
        headers=headers,
        content=table.get("content", False),
        metrics=table.get("metrics", True),
        ratio=float(ratio),
    )


def _is_header(name: str) -> bool:
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


def _isolation(
    file: TomlFile, document: Mapping[str, Any], settings: Settings, *, of_project: bool
) -> Settings:
    table = file.table(document["isolation"], "isolation", "Begin it with a line [isolation].")
    file.check_keys(table, _ISOLATION, "isolation", "[isolation]")
    for key in table:
        if key != "require" and of_project:
            problem = "name hosts" if key == "hosts" else "say which tools are trusted"
            fix = "That is yours to say: put it into your own settings.toml."
            file.fail(f"a project's settings may not {problem}", f"isolation.{key}", fix)
    require: Level | None = None
    if "require" in table:
        require = file.choice(table["require"], LEVELS, "isolation.require", "level of isolation")
    trusted = _texts(file, table, "trusted_tools", "isolation", "names of tools", "deploy")
    for name in trusted:
        file.text(name, "isolation.trusted_tools", "Name a tool, or drop the empty text.")
    return msgspec.structs.replace(
        settings,
        require=require,
        command_hosts=_command_hosts(file, table, document.get("http", {})),
        command_host_names=tuple(table.get("hosts", ())),
        trusted_tools=tuple(trusted),
    )


def _command_hosts(file: TomlFile, table: Mapping[str, Any], http: Mapping[str, Any]) -> HostFilter | None:
    """What commands may speak to. A host that is denied to `http_get` is denied to them as well."""
    from placet.errors import UsageError
    from placet.sandbox.hosts import HostFilter

    allow = _texts(file, table, "hosts", "isolation", "host names", "pypi.org")
    if not allow:
        return None
    try:
        return HostFilter(allow=allow, deny=http.get("deny", ()))
    except UsageError as error:
        file.fail(str(error), "isolation.hosts")


def _texts(
    file: TomlFile, table: Mapping[str, Any], key: str, place: str, what: str, example: str
) -> list[str]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        file.fail(f"expected a list of {what}", f"{place}.{key}", f'Write {key} = ["{example}"].')
    return found


def _agent(file: TomlFile, name: str, value: object) -> Wish:
    place = f"permissions.agents.{name}"
    if not name.strip():
        file.fail("an agent has no name", place, "Write its id, as in [permissions.agents.nightly].")
    table = file.table(value, place, f"Begin it with a line [permissions.agents.{name}].")
    return _wish(file, table, place)


def _wish(file: TomlFile, table: dict[str, Any], place: str, *more: str) -> Wish:
    file.check_keys(table, [*_KEYS, *more], place, f"[{place}]")
    if "tier" in table and "posture" in table:
        file.fail("'tier' and 'posture' both say what is allowed", f"{place}.posture", "Keep one of the two.")
    name: str | None = None
    if "tier" in table:
        name = file.choice(table["tier"], TIERS, f"{place}.tier", "tier")
    elif "posture" in table:
        name = file.choice(table["posture"], PRESETS, f"{place}.posture", "posture")
    answers: dict[str, Answer] = {
        tier: file.choice(table[tier], ANSWERS, f"{place}.{tier}", "answer")
        for tier in TIERS
        if tier in table
    }
    return Wish(name=name, answers=answers)
