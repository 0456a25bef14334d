"""Which model answers where nobody names one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from placet.inference.choice import DEFAULTS, Chosen, choose, ollama_here
from placet.inference.prices import facts_of

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic",
    "OPENAI_API_KEY": "openai",
    "GEMINI_API_KEY": "gemini",
    "GOOGLE_API_KEY": "gemini",
    "OPENROUTER_API_KEY": "openrouter",
    "DEEPSEEK_API_KEY": "deepseek",
}


def chosen(
    named: str | None = None,
    environment: dict[str, str] | None = None,
    default: str | None = None,
    ollama: str | None = None,
    has_local: bool = False,
) -> Chosen | None:
    return choose(
        named,
        environment or {},
        {"default": [default]} if default else {},
        is_local_there=lambda: has_local,
        running_ollama=lambda: ollama,
    )


def test_the_first_that_is_set_up_wins() -> None:
    everything = {"PLACET_MODEL": "b:2", "OPENAI_API_KEY": "k"}

    assert chosen("a:1", everything, "c:3", "d", True) == ("a:1", "--model names it", True)
    assert chosen(None, everything, "c:3", "d", True) == ("b:2", "PLACET_MODEL names it", True)
    assert chosen(None, {"OPENAI_API_KEY": "k"}, "c:3", "d", True) == ("c:3", "the settings name it", False)
    assert chosen(None, {"OPENAI_API_KEY": "k"}, None, "d", True) == (
        f"openai:{DEFAULTS['openai']}",
        "OPENAI_API_KEY is set",
        False,
    )
    assert chosen(None, {}, None, "d", True) == ("ollama:d", "Ollama runs on this machine", False)
    assert chosen(None, {}, None, None, True) == (
        "local",
        "it is on this machine, and nothing else is set up",
        False,
    )
    assert chosen() is None


@pytest.mark.parametrize(("variable", "provider"), KEYS.items())
def test_a_key_is_enough(variable: str, provider: str) -> None:
    found = chosen(environment={variable: "k"})

    assert found is not None
    assert found.name.startswith(f"{provider}:")
    assert variable in found.because


def test_an_empty_variable_is_not_set() -> None:
    assert chosen(environment={"OPENAI_API_KEY": "", "PLACET_MODEL": ""}) is None


@pytest.mark.parametrize("provider", DEFAULTS)
def test_the_model_that_a_key_stands_for_can_use_tools(provider: str) -> None:
    facts = facts_of(f"{provider}:{DEFAULTS[provider]}")

    assert facts is not None
    assert facts.price is not None
    assert "tools" in (facts.abilities or ())


@pytest.fixture
def ollama() -> Iterator[tuple[str, dict[str, bytes]]]:
    """A server on loopback, and what it answers."""
    answer = {"body": b""}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/tags" else 404)
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", answer
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_running_ollama_names_its_first_model(ollama: tuple[str, dict[str, bytes]]) -> None:
    url, answer = ollama
    answer["body"] = json.dumps({"models": [{"name": "qwen3:8b"}, {"name": "b"}]}).encode()

    assert ollama_here(url) == "qwen3:8b"


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"models": []}', b'{"models": [{}]}', b'{"models": [{"name": "a\\u001b"}]}', b"[1]"],
)
def test_anything_else_on_that_port_is_no_ollama(body: bytes, ollama: tuple[str, dict[str, bytes]]) -> None:
    url, answer = ollama
    answer["body"] = body

    assert ollama_here(url) is None


def test_nobody_is_asked_beyond_this_machine() -> None:
    assert ollama_here("http://192.0.2.1:11434/v1") is None


def test_a_port_where_nobody_listens_is_no_ollama() -> None:
    assert ollama_here("http://127.0.0.1:9/v1") is None
