"""Which model answers where nobody names one: what is set up, in a fixed order, and why that one.

A name that was given, PLACET_MODEL, the settings, a provider whose key is set, an Ollama that runs here, the
local model. Never a scripted one.

Keep true:
1. What is chosen, and why, can be told beforehand; choosing asks no model anything.
2. Ollama is looked for only where nothing else is set up, and only on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from placet.inference.providers import PROVIDERS
from placet.inference.roles import Role

MODEL_VARIABLE = "PLACET_MODEL"
PROBE_S = 0.2
TOTAL_S = 1.0

DEFAULTS: Mapping[str, str] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-terra",
    "gemini": "gemini-3.8-flash",
    "openrouter": "anthropic/claude-sonnet-5.5",
    "deepseek": "deepseek-v4-flash",
}
"""The model of a provider that is taken where only its key is set."""


class Chosen(NamedTuple):
    """A model, and why it is that one."""

    name: str
    because: str
    is_hard: bool = False
    """Somebody named it for this time: nobody else may answer."""


def choose(
    named: str | None,
    environment: Mapping[str, str],
    roles: Mapping[Role, Sequence[str]],
    *,
    is_local_there: Callable[[], bool],
    running_ollama: Callable[[], str | None],
) -> Chosen | None:
    """The default model, or None where nothing is set up."""
    if named:
        return Chosen(named, "--model names it", is_hard=True)
    if environment.get(MODEL_VARIABLE):
        return Chosen(environment[MODEL_VARIABLE], f"{MODEL_VARIABLE} names it", is_hard=True)
    if roles.get("default"):
        return Chosen(roles["default"][0], "the settings name it")
    for provider, model in DEFAULTS.items():
        variable = next((each for each in PROVIDERS[provider].keys if environment.get(each)), None)
        if variable is not None:
            return Chosen(f"{provider}:{model}", f"{variable} is set")
    found = running_ollama()
    if found is not None:
        return Chosen(f"ollama:{found}", "Ollama runs on this machine")
    if is_local_there():
        return Chosen("local", "it is on this machine, and nothing else is set up")
    return None


def ollama_here(url: str) -> str | None:
    """The first model of the Ollama at `url`, where that is this machine and one runs; else None."""
    import json
    from http.client import HTTPConnection, HTTPException
    from socket import SHUT_RDWR
    from threading import Timer
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        return None
    connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=PROBE_S)
    try:
        connection.connect()
        # A limit for all of it: whoever answers there a byte at a time would hold up every command.
        giving_up = Timer(TOTAL_S, connection.sock.shutdown, [SHUT_RDWR])
        giving_up.start()
        try:
            connection.request("GET", "/api/tags")
            models = json.loads(connection.getresponse().read(1_000_000))["models"]
        finally:
            giving_up.cancel()
        name = models[0]["name"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        return None
    finally:
        connection.close()
    return name if isinstance(name, str) and name.isprintable() else None
