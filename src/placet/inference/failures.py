"""Words for what a provider refuses: what happened, to which model, what to do next.

Keep true:
1. What a server says stands at the end, on one line, cleaned, bounded, and without the key.
"""

from __future__ import annotations

from placet.errors import (
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelUnavailable,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    ToolsRefused,
    UnknownModel,
)
from placet.inference.providers import Endpoint
from placet.inference.wire.format import Refusal
from placet.redaction import REDACTED, Redactor
from placet.safe_text import clean
from placet.truncation import truncate

_LONGEST = 500
"""Of a server's own words."""
_SHORTEST_KEY = 8
"""A shorter one is none of a provider's; it is taken out as it stands."""


def failure(
    refusal: Refusal, endpoint: Endpoint, *, status: int | None = None, retry_after_s: float | None = None
) -> ModelError:
    """The error that a refusal is."""
    said = own_words(refusal.message, endpoint.key)
    kind, words = _WORDS[refusal.kind]
    variable = endpoint.provider.keys[0] if endpoint.provider.keys else "its key"
    message = words.format(
        model=endpoint.name, provider=endpoint.provider.name, url=endpoint.place, variable=variable
    )
    if refusal.kind == "rate" and retry_after_s is not None:
        message += f" It wants to be left alone for {retry_after_s:g} s."
    where = f" (status {status})" if status is not None else ""
    return kind(
        f"{message}{f' It says{where}: {said}' if said else where}",
        status=status,
        retry_after_s=retry_after_s,
    )


def own_words(text: str, key: str | None) -> str:
    """Somebody else's words, on one line, without the key that some of them repeat."""
    # Far more than is shown, and far less than a body may be: each of the steps reads all of it.
    if key and len(key) >= _SHORTEST_KEY:
        text = Redactor([key]).cut(text, 20 * _LONGEST)
    else:
        text = truncate(text, 20 * _LONGEST)
        text = text.replace(key, REDACTED) if key else text
    text = " ".join(clean(text, lines=True, tabs=True).split())
    return truncate(text, _LONGEST, "...")


_WORDS: dict[str, tuple[type[ModelError], str]] = {
    "key": (
        KeyRefused,
        "{provider} does not take the key in {variable} for {model}. Check the key, and what it may use.",
    ),
    "model": (
        UnknownModel,
        "{provider} has no model for {model} at {url}. Check the name, and that you may use it.",
    ),
    "context": (
        ContextTooLong,
        "The conversation is too long for {model}. Shorten it, or choose a model that reads more.",
    ),
    "quota": (
        QuotaSpent,
        "The account at {provider} has nothing left for {model}. Add credit there, or choose another model.",
    ),
    "rate": (
        RateLimited,
        "{provider} was asked too much in too short a time ({model}). Try again later, or ask less at once.",
    ),
    "unavailable": (ModelUnavailable, "{provider} cannot answer for {model} now. Try again later."),
    "tools": (
        ToolsRefused,
        "{model} takes no tools. Set tool_mode to 'lenient' for it, or choose another model.",
    ),
    "parameter": (RequestRefused, "{model} does not take a parameter of the request. Leave it out."),
    "request": (RequestRefused, "{model} does not take the request. Change it as the answer says."),
}
