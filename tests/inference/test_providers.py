"""Where models are asked, and with which key."""

from __future__ import annotations

import pytest
from rich.pretty import pretty_repr

from placet.errors import KeyMissing, KeyRefused, UnknownModel
from placet.inference.opening import open_model
from placet.inference.providers import PROVIDERS, Endpoint, Provider, endpoint, is_loopback


def test_each_provider_has_its_usual_variable_and_no_other() -> None:
    everything = {key: f"key-of-{key}" for each in PROVIDERS.values() for key in each.keys}

    for name, provider in PROVIDERS.items():
        found = endpoint(f"{name}:some/model:tag", everything)
        assert found.model == "some/model:tag"
        assert found.name == f"{name}:some/model:tag"
        assert found.key == (f"key-of-{provider.keys[0]}" if provider.keys else None)
        assert found.url == provider.url


def test_the_second_variable_counts_where_the_first_is_empty() -> None:
    environment = {"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "second\n"}

    assert endpoint("gemini:m", environment).key == "second"


def test_a_missing_key_is_said_with_its_variable() -> None:
    with pytest.raises(KeyMissing, match="Export it as OPENAI_API_KEY"):
        endpoint("openai:m", {"ANTHROPIC_API_KEY": "other"})
    with pytest.raises(KeyMissing, match="GEMINI_API_KEY and GOOGLE_API_KEY are not set"):
        endpoint("gemini:m", {})


def test_what_runs_here_wants_no_key_and_takes_one() -> None:
    assert endpoint("vllm:m", {}).key is None
    assert endpoint("vllm:m", {"VLLM_API_KEY": "k"}).key == "k"


@pytest.mark.parametrize("key", ["sk-\u00fc", "sk-a\nb", "sk-\x00"])
def test_what_cannot_be_a_key_is_refused_without_saying_it(key: str) -> None:
    with pytest.raises(KeyRefused, match="OPENAI_API_KEY") as caught:
        endpoint("openai:m", {"OPENAI_API_KEY": key})

    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-5", "it names no provider. Write provider:name"),
        ("opnai:m", "Did you mean 'openai:m'?"),
        ("nobody-at-all:m", "Write provider:name. Known are openai, "),
        ("openai:", "names a provider and no model"),
        ("", "it names no provider"),
    ],
)
def test_a_name_that_means_nothing_is_explained(name: str, words: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        endpoint(name, {"OPENAI_API_KEY": "k"})

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody-at-all", ": local, embed, scripted:FILE, replay:FILE."),
        ("locl", "Did you mean 'local'?"),
        ("script:a.json", "Did you mean 'scripted:a.json'?"),
        ("script", "Did you mean 'scripted:FILE'?"),
    ],
)
def test_how_a_model_of_no_provider_is_written_is_said(name: str, words: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        open_model(name, {})

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("192.168.1.5", "http://192.168.1.5:11434/v1"),
        ("gpu:1234", "http://gpu:1234/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
        ("[::]:1234", "http://127.0.0.1:1234/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("http://gpu:1234/", "http://gpu:1234/v1"),
        ("https://gpu.example", "https://gpu.example/v1"),
        ("https://gpu.example/v1", "https://gpu.example/v1"),
    ],
)
def test_the_variable_of_ollama_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert endpoint("ollama:m", {"OLLAMA_HOST": host}).url == url


def test_a_url_may_be_replaced_and_loses_its_slash() -> None:
    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1/"}

    assert endpoint("openai:m", environment).url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    "url", ["api.openai.com", "ftp://x", "http://", "http://[", "http://a b", "http://x:99999", "http://a\\b"]
)
def test_what_is_no_url_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(UnknownModel, match="variable OPENAI_BASE_URL"):
        endpoint("openai:m", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url})


def test_more_providers_can_be_given_and_go_first() -> None:
    mine = Provider(name="mine", format="openai", url="https://mine.example/v1")
    openai = Provider(name="openai", format="openai", url="https://other.example", needs_key=False)

    assert endpoint("mine:m", {}, {"mine": mine}).url == "https://mine.example/v1"
    assert endpoint("openai:m", {}, {"openai": openai}).url == "https://other.example"


def test_neither_key_nor_password_is_shown() -> None:
    found = Endpoint(
        provider=PROVIDERS["openai"], model="m", url="https://me:hunter2@x.example/v1", key="sk-secret-key"
    )

    shown = repr(found) + str(found) + f"{[found]}" + pretty_repr(found)
    assert "secret" not in shown
    assert "hunter2" not in shown + found.place
    assert found.place == "https://x.example/v1"


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@x.example/v1",
        "https://hunter2@x.example",
        "https://@x.example",
        "https://x.example/v1?token=hunter2",
        "https://x.example/v1?",
        "https://x.example/v1#hunter2",
        "https://x.example#",
    ],
)
def test_a_url_with_a_password_or_a_query_is_refused_without_saying_it(url: str) -> None:
    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url, "OLLAMA_HOST": url}

    for name, variable in (("openai:m", "OPENAI_BASE_URL"), ("ollama:m", "OLLAMA_HOST")):
        with pytest.raises(UnknownModel, match=f"variable {variable}, holds a user name") as caught:
            endpoint(name, environment)
        assert "hunter2" not in str(caught.value)
    lab = Provider(name="lab", format="openai", url=url, needs_key=False)
    with pytest.raises(UnknownModel, match="its settings, holds a user name"):
        endpoint("lab:m", {}, {"lab": lab})


def test_the_host_of_ollama_may_hold_no_password_either() -> None:
    with pytest.raises(UnknownModel, match="holds a user name"):
        endpoint("ollama:m", {"OLLAMA_HOST": "me:hunter2@gpu:1234"})


def test_only_openrouter_says_what_an_answer_cost() -> None:
    assert [name for name, each in PROVIDERS.items() if each.dialect.tells_cost] == ["openrouter"]


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.8.0.1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://127.evil.example", False),
        ("https://api.openai.com", False),
        ("http://localhost.evil.example", False),
    ],
)
def test_this_machine_is_known(url: str, here: bool) -> None:
    assert is_loopback(url) is here
