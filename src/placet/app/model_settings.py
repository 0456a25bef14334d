"""`[models]` of a person's settings: which model has which role, more providers, other prices.

    [models]
    default = "anthropic:claude-sonnet-5-5"           # or a list: the others are asked if it gives no answer
    fast = ["openai:gpt-6-luna", "local"]

    [models.providers.lab]                            # models are then called lab:NAME
    url = "http://127.0.0.1:9000/v1"
    format = "openai"                                 # or "anthropic", "gemini"
    key = "LAB_API_KEY"                               # the variable that holds the key, if it wants one
    tool_mode = "native"                              # or "schema", "lenient", "native_then_lenient"

    [models.prices."lab:big"]                         # US dollars for a million tokens
    input = 1.0
    output = 4.0

    [models.profiles."lab:tiny"]                      # how it is guided
    strength = "small"                                # or "large"

Keep true:
1. Every key is known and every value means something, or the whole file is refused.
2. A key itself is never in the file: only the name of the variable that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from placet.errors import UnknownModel
from placet.inference.opening import BUILT_IN
from placet.inference.profile import STRENGTHS, ModelProfile
from placet.inference.providers import PROVIDERS, Format, Provider, ToolMode, url_of
from placet.inference.roles import ROLES, Role
from placet.inference.usage import Price
from placet.policy.toml_file import TomlFile

_KEYS = (*ROLES, "providers", "prices", "profiles", "linger_s")
_PROVIDER = ("url", "format", "key", "tool_mode")
_PROFILE = ("strength", "context")
_LONGEST_LINGER_S = 86_400
_PRICE = ("input", "output", "cached", "cache_written")
_FORMATS: tuple[Format, ...] = get_args(Format)
_TOOL_MODES: tuple[ToolMode, ...] = get_args(ToolMode)
_NO_NAME = 'Write it as provider:name, such as "anthropic:claude-sonnet-5-5", or "local".'


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says about models."""

    roles: Mapping[Role, Sequence[str]] = {}
    providers: Mapping[str, Provider] = {}
    prices: Mapping[str, Price] = {}
    profiles: Mapping[str, ModelProfile] = {}
    linger_s: float | None = None
    """How long the server of the local model stays after its last user; None: the default."""


def parse_models(file: TomlFile, value: object) -> ModelSettings:
    """What `[models]` says.

    Raises:
        PolicyFileError: it says something that means nothing; names file, key and fix.
    """
    table = file.table(value, "models", "Begin it with a line [models].")
    file.check_keys(table, _KEYS, "models", "[models]")
    providers = file.table(
        table.get("providers", {}), "models.providers", "Begin each with a line [models.providers.NAME]."
    )
    prices = file.table(
        table.get("prices", {}), "models.prices", 'Begin each with a line [models.prices."provider:name"].'
    )
    profiles = file.table(
        table.get("profiles", {}),
        "models.profiles",
        'Begin each with a line [models.profiles."provider:name"].',
    )
    return ModelSettings(
        roles={role: _names(file, table[role], f"models.{role}") for role in ROLES if role in table},
        providers={name: _provider(file, name, each) for name, each in providers.items()},
        prices={name: _price(file, name, each) for name, each in prices.items()},
        profiles={name: _profile(file, name, each) for name, each in profiles.items()},
        linger_s=_linger(file, table.get("linger_s")),
    )


def _profile(file: TomlFile, name: str, value: object) -> ModelProfile:
    place = f'models.profiles."{name}"'
    table = file.table(value, place, f"Begin it with a line [{place}].")
    file.check_keys(table, _PROFILE, place, f"[{place}]")
    context = table.get("context")
    if context is not None and (isinstance(context, bool) or not isinstance(context, int) or context < 1):
        file.fail("expected a number of tokens, 1 or more", f"{place}.context", "Write context = 8192.")
    strength = _choice(file, table, "strength", STRENGTHS, "small", place)
    return ModelProfile(strength=strength, context_tokens=context)


def _linger(file: TomlFile, value: object) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LONGEST_LINGER_S:  # type: ignore[operator]
        file.fail(
            f"expected seconds, from 0 to {_LONGEST_LINGER_S:,}",
            "models.linger_s",
            "Write linger_s = 300; 0 ends the server with its last user.",
        )
    return float(value)  # type: ignore[arg-type]


def _names(file: TomlFile, value: object, place: str) -> Sequence[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(each, str) for each in names):
        file.fail("expected the name of a model, or a list of them", place, _NO_NAME)
    for name in names:
        file.text(name, place, _NO_NAME)
    return tuple(names)


def _provider(file: TomlFile, name: str, value: object) -> Provider:
    place = f"models.providers.{name}"
    table = file.table(value, place, f"Begin it with a line [{place}].")
    is_taken = name in PROVIDERS or name in BUILT_IN
    if is_taken or not name.isidentifier():
        fix = "Choose another name, of letters, digits and underscores."
        file.fail("this name is taken" if is_taken else "no provider can be called so", place, fix)
    file.check_keys(table, _PROVIDER, place, f"[{place}]")
    url = file.text(table.get("url"), f"{place}.url", 'Write url = "http://127.0.0.1:9000/v1".')
    try:
        url = url_of(Provider(name=name, format="openai", url=url), {})
    except UnknownModel:
        file.fail(
            "it is no http or https URL, without user name, query and fragment",
            f"{place}.url",
            'Write url = "http://127.0.0.1:9000/v1".',
        )
    variable = table.get("key")
    if variable is not None and not (isinstance(variable, str) and variable.isidentifier()):
        fix = (
            'Name the variable that holds the key: key = "LAB_API_KEY". The key itself does not belong here.'
        )
        file.fail("it is no name of a variable", f"{place}.key", fix)
    return Provider(
        name=name,
        url=url,
        format=_choice(file, table, "format", _FORMATS, "openai", place),
        keys=(variable,) if variable else (),
        needs_key=variable is not None,
        tool_mode=_choice(file, table, "tool_mode", _TOOL_MODES, "native_then_lenient", place),
        swallows_opening=True,
    )


def _choice(
    file: TomlFile, table: Mapping[str, Any], key: str, known: Sequence[Any], default: str, place: str
) -> Any:
    return file.choice(table.get(key, default), known, f"{place}.{key}", key.replace("_", " "))


def _price(file: TomlFile, name: str, value: object) -> Price:
    place = f'models.prices."{name}"'
    table = file.table(value, place, f"Begin it with a line [{place}].")
    file.check_keys(table, _PRICE, place, f"[{place}]")
    for key in table:
        if (
            isinstance(table[key], bool)
            or not isinstance(table[key], int | float)
            or not 0 <= table[key] < 1e9
        ):
            file.fail("expected US dollars for a million tokens, 0 or more", f"{place}.{key}")
    for key in ("input", "output"):
        if key not in table:
            file.fail(f"'{key}' is missing", place, f"Write {key} = 1.0, in US dollars for a million tokens.")
    return msgspec.convert(table, Price)
