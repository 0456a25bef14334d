"""Who serves models: where, in which format, and which variable holds the key.

Keep true:
1. Nothing is read here: the environment is handed in, and only the variables of the named provider are used.
2. A key goes to the URL of its own provider, or to one that the person named for it.
3. Neither a key nor a password in a URL is in a repr or a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

from placet.errors import KeyMissing, KeyRefused, UnknownModel
from placet.inference.wire.format import Dialect

Format = Literal["openai", "anthropic", "gemini"]
"""Wire format of a provider."""
ToolMode = Literal["native", "schema", "lenient", "native_then_lenient"]
"""How a model gets tools.

- `native`: as the wire format defines it.
- `schema`: by a JSON Schema of the answer.
- `lenient`: by instructions in the text.
- `native_then_lenient`: `native`; if the server refuses, `lenient`.
"""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of models."""

    name: str
    """Name of the provider."""
    format: Format
    """Its wire format."""
    url: str
    """Base URL."""
    keys: Sequence[str] = ()
    """Environment variables that hold its key; the first that is set wins."""
    url_variable: str = ""
    """Environment variable that replaces the URL."""
    tool_mode: ToolMode = "native"
    """How its models get tools."""
    dialect: Dialect = Dialect()
    """How it differs from others of the same format."""
    needs_key: bool = True
    """Whether it needs a key."""
    swallows_opening: bool = False
    """Whether an answer may begin inside its reasoning, as with some chat templates."""


PROVIDERS: Mapping[str, Provider] = {
    each.name: each
    for each in (
        Provider(
            name="openai",
            format="openai",
            url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            url_variable="OPENAI_BASE_URL",
            dialect=Dialect(max_tokens_key="max_completion_tokens"),
        ),
        Provider(
            name="anthropic",
            format="anthropic",
            url="https://api.anthropic.com",
            keys=("ANTHROPIC_API_KEY",),
            url_variable="ANTHROPIC_BASE_URL",
        ),
        Provider(
            name="gemini",
            format="gemini",
            url="https://generativelanguage.googleapis.com",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            url_variable="GOOGLE_GEMINI_BASE_URL",
        ),
        Provider(
            name="openrouter",
            format="openai",
            url="https://openrouter.ai/api/v1",
            keys=("OPENROUTER_API_KEY",),
            dialect=Dialect(tells_cost=True),
        ),
        Provider(
            name="deepseek", format="openai", url="https://api.deepseek.com", keys=("DEEPSEEK_API_KEY",)
        ),
        Provider(
            name="ollama",
            format="openai",
            url="http://127.0.0.1:11434/v1",
            url_variable="OLLAMA_HOST",
            tool_mode="native_then_lenient",
            needs_key=False,
            swallows_opening=True,
        ),
        Provider(
            name="vllm",
            format="openai",
            url="http://127.0.0.1:8000/v1",
            keys=("VLLM_API_KEY",),
            tool_mode="native_then_lenient",
            needs_key=False,
            swallows_opening=True,
        ),
        Provider(
            name="llamacpp",
            format="openai",
            url="http://127.0.0.1:8080/v1",
            keys=("LLAMA_API_KEY",),
            tool_mode="native_then_lenient",
            needs_key=False,
            swallows_opening=True,
        ),
    )
}


WRITTEN = {"local": "local", "embed": "embed", "scripted": "scripted:FILE", "replay": "replay:FILE"}
"""Models that are of no provider, and how each is written."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A model at a provider, with all it takes to ask it."""

    provider: Provider
    model: str
    url: str
    key: str | None = None

    @property
    def name(self) -> str:
        """As a person writes it."""
        return f"{self.provider.name}:{self.model}"

    @property
    def place(self) -> str:
        """The URL to show: a password may stand in the real one."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def __repr__(self) -> str:
        """Without the key: a repr ends up in logs."""
        return f"Endpoint({self.name!r}, {self.place!r}, key={'***' if self.key else None})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same for tracebacks that are printed with their variables."""
        return [("name", self.name), ("place", self.place)]


def split_name(name: str, known: Sequence[str]) -> tuple[str, str]:
    """Provider and model of `provider:name`.

    Raises:
        UnknownModel: it is no such name, or the provider is not known.
    """
    provider, colon, model = name.partition(":")
    if provider not in known:
        near = get_close_matches(provider, known, n=1)
        what = f"no provider is called '{provider}'" if colon else "it names no provider"
        others = ", ".join(WRITTEN[each] for each in known if each in WRITTEN)
        if near and near[0] in WRITTEN:
            hint = f"Did you mean '{WRITTEN[near[0]].replace('FILE', model or 'FILE')}'?"
        elif near:
            hint = f"Write provider:name. Did you mean '{near[0]}{colon}{model}'?"
        else:
            providers = ", ".join(each for each in known if each not in WRITTEN)
            hint = f"Write provider:name. Known are {providers}."
            hint += f" Or write one of these, as it stands here: {others}." if others else ""
        raise UnknownModel(f"Model '{name}': {what}. {hint}")
    return provider, model


def endpoint(
    name: str, environment: Mapping[str, str], more: Mapping[str, Provider] | None = None
) -> Endpoint:
    """Where the model `provider:name` is to be asked.

    Raises:
        UnknownModel: the name means nothing.
        KeyMissing: the provider wants a key, and the environment holds none.
        KeyRefused: what the environment holds cannot be a key.
    """
    providers = {**PROVIDERS, **(more or {})}
    which, model = split_name(name, list(providers))
    provider = providers[which]
    if not model:
        raise UnknownModel(f"Model '{name}' names a provider and no model. Write {which}:NAME.")
    key = next((text for each in provider.keys if (text := environment.get(each, "").strip())), None)
    if key is None and provider.needs_key and provider.keys:
        raise KeyMissing(
            f"{which} wants a key, and {' and '.join(provider.keys)} "
            f"{'is' if len(provider.keys) == 1 else 'are'} not set. Export it as {provider.keys[0]}."
        )
    if key is not None and not (key.isascii() and key.isprintable()):
        raise KeyRefused(
            f"The key of {which} holds characters that no key has. Copy it again into {provider.keys[0]}."
        )
    return Endpoint(provider=provider, model=model, url=url_of(provider, environment), key=key)


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(provider: Provider, environment: Mapping[str, str]) -> str:
    """Where a provider is asked.

    Raises:
        UnknownModel: what the environment or the settings say is no URL, or more than one: a user name, a
            password, a query or a fragment would end up in logs, or in the middle of every address.
    """
    given = environment.get(provider.url_variable, "").strip() if provider.url_variable else ""
    if given and provider.name == "ollama":
        given = _ollama(given)
    url = (given or provider.url).rstrip("/")
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    source = f"the variable {provider.url_variable}" if given else "its settings"
    if not is_url or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UnknownModel(
            f"The URL of {provider.name}, from {source}, is none. Write it like {PROVIDERS['openai'].url}."
        )
    # A mark without anything behind it counts: what is appended to the URL would stand behind it.
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise UnknownModel(
            f"The URL of {provider.name}, from {source}, holds a user name, a password, a query or a "
            f"fragment. Write it without, like {PROVIDERS['openai'].url}."
        )
    return url


def _ollama(given: str) -> str:
    """The URL of Ollama's own variable: a host, with or without scheme and port, which may be all of them."""
    has_scheme = "://" in given
    given = given.rstrip("/") if has_scheme else f"http://{given.rstrip('/')}"
    scheme, _, rest = given.partition("://")
    host, slash, path = rest.partition("/")
    if not has_scheme and not host.rpartition("]")[2].rpartition(":")[1]:
        host = f"{host}:11434"
    for everywhere in ("0.0.0.0", "[::]", ""):
        if host.startswith(f"{everywhere}:") or host == everywhere:
            host = f"127.0.0.1{host.removeprefix(everywhere)}"
            break
    url = f"{scheme}://{host}{slash}{path}"
    return url if url.endswith("/v1") else f"{url}/v1"
