"""`[models]` of a person's settings: read strictly; a project may not choose who reads your data."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.app.model_settings import ModelSettings
from placet.app.models import with_linger
from placet.app.settings import parse_settings
from placet.errors import PolicyFileError
from placet.inference import Model, Models

FILE = Path("/home/p/settings.toml")


def parse(text: str, *, of_project: bool = False) -> ModelSettings:
    found = parse_settings(FILE, text.encode(), of_project=of_project).models
    assert found is not None
    return found


def test_everything_at_once() -> None:
    settings = parse(
        """
        [models]
        default = "anthropic:claude-x"
        fast = ["openai:gpt-x", "local"]

        [models.providers.lab]
        url = "http://127.0.0.1:9000/v1/"
        format = "openai"
        key = "LAB_API_KEY"
        tool_mode = "schema"

        [models.prices."lab:big"]
        input = 1
        output = 4.5
        cached = 0.1
        """
    )

    assert settings.roles == {"default": ("anthropic:claude-x",), "fast": ("openai:gpt-x", "local")}
    lab = settings.providers["lab"]
    assert (lab.url, lab.format, lab.keys, lab.needs_key) == (
        "http://127.0.0.1:9000/v1",
        "openai",
        ("LAB_API_KEY",),
        True,
    )
    assert lab.tool_mode == "schema"
    price = settings.prices["lab:big"]
    assert (price.input, price.output, price.cached) == (1.0, 4.5, 0.1)


def test_profiles_and_how_long_the_local_server_stays() -> None:
    settings = parse(
        """
        [models]
        linger_s = 30

        [models.profiles."lab:tiny"]
        context = 4096

        [models.profiles.local]
        strength = "large"
        """
    )

    assert settings.linger_s == 30.0
    tiny, local = settings.profiles["lab:tiny"], settings.profiles["local"]
    assert (tiny.strength, tiny.context_tokens, local.strength) == ("small", 4096, "large")
    assert Models({"default": ["lab:tiny"]}, _never, profiles=settings.profiles).profile == tiny
    assert Models({"default": ["local"]}, _never, profiles=settings.profiles).profile == local
    assert Models({"default": ["local"]}, _never).profile.strength == "small"
    assert Models({"default": ["lab:big", "local"]}, _never).profile.strength == "large"
    assert with_linger({}, settings)["PLACET_LINGER_S"] == "30"
    assert with_linger({"PLACET_LINGER_S": "5"}, settings)["PLACET_LINGER_S"] == "5"


def _never(name: str) -> Model:
    raise AssertionError(name)


def test_an_unknown_server_is_asked_natively_and_read_leniently() -> None:
    settings = parse('[models.providers.lab]\nurl = "http://gpu-box:8000/v1"')

    assert settings.providers["lab"].tool_mode == "native_then_lenient"
    assert not settings.providers["lab"].needs_key


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[models]\ndefalt = 'a:b'", "Did you mean 'default'?"),
        ("[models]\nlinger_s = -1", "expected seconds"),
        ("[models]\nlinger_s = true", "expected seconds"),
        ("[models.profiles.'a:b']\nstrength = 'tiny'", "strength"),
        ("[models.profiles.'a:b']\nstrenth = 'small'", "Did you mean 'strength'?"),
        ("[models.profiles.'a:b']\ncontext = 0", "expected a number of tokens"),
        ("[models]\ndefault = 3", "expected the name of a model"),
        ("[models]\ndefault = []", "expected the name of a model"),
        ("[models]\ndefault = ['']", "it is empty"),
        ("models = 1", "expected a table"),
        ("[models.providers.lab]\nformat = 'openai'", "expected a text"),
        ("[models.providers.lab]\nurl = 'gpu-box:8000'", "no http or https URL"),
        ("[models.providers.lab]\nurl = 'http://u:p@h/v1'", "no http or https URL"),
        ("[models.providers.lab]\nurl = 'http://h/v1'\nformat = 'opneai'", "Did you mean 'openai'?"),
        ("[models.providers.lab]\nurl = 'http://h/v1'\nkey = 'sk-12345'", "does not belong here"),
        ("[models.providers.lab]\nurl = 'http://h/v1'\ntool_mode = 'native?'", "Did you mean"),
        ("[models.providers.lab]\nurl = 'http://h/v1'\nuri = 'x'", "Did you mean 'url'?"),
        ("[models.providers.lab]\nurl = 'http://[bad'", "no http or https URL"),
        ("[models.providers.lab]\nurl = 'http://h:99999/v1'", "no http or https URL"),
        ("[models.providers.lab]\nurl = 'http://h/v1#part'", "no http or https URL"),
        ("[models.providers.lab]\nurl = 'http://:pw@h/v1'", "no http or https URL"),
        ("[models.providers.lab]\nurl = 'http://h/v1'\nkey = true", "no name of a variable"),
        ("[models.providers.local]\nurl = 'http://h/v1'", "this name is taken"),
        ("[models.providers.replay]\nurl = 'http://h/v1'", "this name is taken"),
        ("[models.providers.openai]\nurl = 'http://h/v1'", "this name is taken"),
        ("[models.providers.'a:b']\nurl = 'http://h/v1'", "no provider can be called so"),
        ("[models.prices.'a:b']\ninput = 1", "'output' is missing"),
        ("[models.prices.'a:b']\ninput = -1\noutput = 1", "0 or more"),
        ("[models.prices.'a:b']\ninput = true\noutput = 1", "0 or more"),
        ("[models.prices.'a:b']\ninput = nan\noutput = 1", "0 or more"),
        ("[models.prices.'a:b']\nin = 1", "'in' is no key of"),
    ],
)
def test_what_means_nothing_is_refused_with_file_key_and_fix(text: str, says: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse(text)

    assert str(FILE) in str(caught.value)
    assert "models" in str(caught.value)
    assert says in str(caught.value)


def test_a_key_that_was_written_into_the_file_is_not_repeated() -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse("[models.providers.lab]\nurl = 'http://h/v1'\nkey = 'sk-12345'")

    assert "sk-12345" not in str(caught.value)


def test_a_project_chooses_no_models() -> None:
    with pytest.raises(PolicyFileError, match="a project's settings may not choose models"):
        parse("[models]\ndefault = 'evil:model'", of_project=True)
