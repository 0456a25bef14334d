"""`placet model`: what it lists, fetches, tries and removes, as a person meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from placet.inference.local.weights import EMBED, LOCAL
from tests.cli.conftest import Done, command, environment
from tests.cli.test_terminal import _on_a_terminal as on_a_terminal
from tests.inference.local.tiny_gguf import write_tiny_model
from tests.servers.local_model import model_files

Model = Callable[..., Done]
FILE = LOCAL.files[0]


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """A person with no keys, no settings and no models."""
    mine = {
        "PLACET_MODELS": str(tmp_path / "models"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "OLLAMA_HOST": "http://127.0.0.1:9",
    }
    (tmp_path / "run").mkdir(mode=0o700)
    return {**mine, **{name: "" for name in os.environ if name.endswith("_API_KEY")}, "PLACET_MODEL": ""}


@pytest.fixture
def model(quick: Callable[..., Done], own: dict[str, str]) -> Model:
    return lambda *arguments, **env: quick("model", *arguments, **{**own, **env})


# --- list ---


def test_without_a_command_it_lists_and_says_how_to_get_one(model: Model) -> None:
    done = model()

    assert done.code == 0
    for words in (
        "local  not there, Qwen2.5-Coder-1.5B-Instruct, Q4_K_M, 1,117 MB on the disk, 2,300 MB of memory",
        "Good for single tool calls, classification and short answers; not long plans",
        "Fetch it (1,093 MB): placet model pull local",
        "Fetch it (104 MB): placet model pull embed",
        "ANTHROPIC_API_KEY is not set",
        "No model is chosen. Name one with --model",
    ):
        assert words in done.out


def test_a_key_is_told_to_be_set_and_never_shown(model: Model) -> None:
    keys = {"ANTHROPIC_API_KEY": "sk-hidden-1", "OPENAI_BASE_URL": "http://me:hidden-2@example.com/v1"}

    shown = model("list", **keys)
    told = model("list", "--json", **keys)

    providers = {each["name"]: each for each in told.json["providers"]}
    assert "ANTHROPIC_API_KEY is set" in shown.out
    assert providers["anthropic"]["variable_set"] == "ANTHROPIC_API_KEY"
    assert "OPENAI_BASE_URL" in providers["openai"]["url"]
    assert providers["openai"]["variable_set"] is None
    assert told.json["chosen"]["because"] == "ANTHROPIC_API_KEY is set"
    assert "hidden" not in shown.out + shown.err + told.out + told.err


def test_what_is_there_is_listed_with_its_place(model: Model, own: dict[str, str]) -> None:
    folder = Path(own["PLACET_MODELS"])
    folder.mkdir()
    with open(folder / FILE.name, "wb") as file:
        file.truncate(FILE.size)

    told = model("list", "--json").json

    local, embed = told["models"]
    assert (local["name"], local["there"], local["serving"]) == ("local", True, False)
    assert local["paths"] == [str(folder / FILE.name)]
    assert (embed["name"], embed["there"]) == ("embed", False)
    assert told["chosen"]["name"] == "local"


def test_the_settings_choose_and_add_providers(model: Model, own: dict[str, str]) -> None:
    folder = Path(own["XDG_CONFIG_HOME"]) / "placet"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(
        '[models]\ndefault = "lab:big"\n'
        '[models.providers.lab]\nurl = "http://127.0.0.1:9/v1"\nformat = "openai"\n'
    )

    told = model("list", "--json").json

    assert told["chosen"] == {"name": "lab:big", "because": "the settings name it", "problem": ""}
    assert told["providers"][-1]["name"] == "lab"
    assert told["providers"][-1]["url"] == "http://127.0.0.1:9/v1"


def test_roles_are_listed_with_their_fallbacks_and_why_one_cannot_be_asked(
    model: Model, own: dict[str, str]
) -> None:
    folder = Path(own["XDG_CONFIG_HOME"]) / "placet"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(
        '[models]\ndefault = ["anthropic:claude-sonnet-5-5", "local"]\nfast = "ollama:small"\n'
    )

    shown = model("list")
    told = model("list", "--json").json
    named = model("list", PLACET_MODEL="nobody:x")

    assert (shown.code, named.code) == (0, 0)
    assert "  default  anthropic:claude-sonnet-5-5, then local\n" in shown.out
    assert "anthropic:claude-sonnet-5-5: it cannot be asked: anthropic wants a key" in shown.out
    assert "local: it cannot be asked: The model 'local' is not on this machine yet" in shown.out
    assert "  fast     ollama:small\n" in shown.out
    default, fast = told["roles"]
    assert [each["name"] for each in default["models"]] == ["anthropic:claude-sonnet-5-5", "local"]
    assert fast == {"role": "fast", "models": [{"name": "ollama:small", "problem": ""}]}
    assert "ANTHROPIC_API_KEY" in told["chosen"]["problem"]
    assert "no provider is called 'nobody'" in named.out


def test_an_unfinished_pull_is_listed(model: Model, own: dict[str, str]) -> None:
    folder = Path(own["PLACET_MODELS"])
    folder.mkdir()
    with open(folder / f".{FILE.name}.packages.part", "wb") as file:
        file.truncate(FILE.parts[0].size * 2 + 1)

    shown = model("list")
    told = model("list", "--json").json

    assert "105 MB of 1,117 MB are here. Go on: placet model pull local" in shown.out
    assert told["models"][0]["here"] == FILE.parts[0].size * 2


@pytest.mark.parametrize("env", [{"PLACET_MODELS": "~nosuch/x"}, {}])
def test_a_path_in_nobodys_home_is_exit_code_2(model: Model, env: dict[str, str]) -> None:
    done = model("pull", "--from", "~nosuch/x", "--json", **env)

    assert (done.code, done.json["error"]["code"]) == (2, "input")
    assert "nobody's home" in done.json["error"]["message"]


# --- pull and rm ---


def test_a_model_comes_from_a_folder_and_goes_again(model: Model, own: dict[str, str]) -> None:
    files = Path(model_files("embed")["PLACET_MODELS"])

    pulled = model("pull", "embed", "--from", files)
    again = model("pull", "embed", "--json")
    removed = model("rm", "embed")
    gone = model("rm", "embed", "--json")

    assert (pulled.code, again.code, removed.code, gone.code) == (0, 0, 0, 0)
    # How much it will be stands before anything else.
    assert pulled.err.splitlines()[0].startswith(
        "all-MiniLM-L6-v2, int8 (Apache-2.0): 23 MB on the disk, in "
    )
    assert "embed: 23 of 23 MB" in pulled.err
    assert "\x1b" not in pulled.err
    assert f"'embed' is there: {own['PLACET_MODELS']}/{EMBED.files[0].name}" in pulled.out
    assert again.json == {
        "name": "embed",
        "was_there": True,
        "bytes": EMBED.size,
        "paths": [f"{own['PLACET_MODELS']}/{file.name}" for file in EMBED.files],
    }
    assert removed.out == "'embed' is removed: 23 MB are free.\n"
    assert gone.json == {"name": "embed", "freed": 0}


def test_on_a_terminal_a_bar_shows_how_far_it_is(own: dict[str, str], tmp_path: Path) -> None:
    files = model_files("embed")["PLACET_MODELS"]

    code, shown = on_a_terminal("model", "pull", "embed", "--from", files, cwd=tmp_path, **own)

    assert code == 0
    assert b"23 of 23 MB" in shown
    assert b"embed: " not in shown
    assert shown.endswith(b".txt\r\n")


def test_what_is_not_the_model_is_refused(model: Model, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("something else")

    wrong = model("pull", "--from", tmp_path / "wrong", "--json")
    unknown = model("pull", "lokal")
    nameless = model("rm", "embedding")

    assert (wrong.code, wrong.json["error"]["code"]) == (2, "input")
    assert "has 14 bytes, and " in wrong.json["error"]["message"]
    assert (unknown.code, nameless.code) == (2, 2)
    assert "Did you mean 'local'?" in unknown.err


@pytest.mark.parametrize(("number", "as_json"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_interrupted_it_says_what_is_kept_and_how_to_go_on(
    own: dict[str, str], number: signal.Signals, as_json: bool
) -> None:
    """Ctrl-C while a server has nothing more to say."""
    with serving(_Stalled) as url:
        options = ["--json"] if as_json else []
        process = start("model", "pull", "local", "--from", f"{url}/x", *options, env=own)
        folder = Path(own["PLACET_MODELS"])
        until(lambda: any(path.stat().st_size for path in folder.glob(".*.part")))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    kept = sum(path.stat().st_size for path in folder.glob(".*.part"))
    words = f"Interrupted. {kept / 1e6:.1f} MB of 1,117 MB are kept. The same command goes on."
    assert kept
    assert process.returncode == 128 + number
    if as_json:
        assert json.loads(out) == {"error": {"code": "model.cancelled", "message": words}}
    else:
        assert words in err
    assert "Traceback" not in err


def start(*arguments: str, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_from_outside_no_pip_goes_on(own: dict[str, str], number: signal.Signals) -> None:
    folder = Path(own["PLACET_MODELS"])
    no_pip = {name: "" for name in os.environ if name.startswith("PIP_")}
    _Silent.asked.clear()
    with serving(_Silent) as url:
        process = start(
            *("model", "pull", "local"),
            env={**own, **no_pip, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{url}/simple"},
        )
        # Both are at work by now, not only about to start.
        until(lambda: len(_Silent.asked) == 2)
        pips = pips_in(folder)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        until(lambda: not pips_in(folder))

    assert len(pips) == 2
    assert process.returncode == (143 if number == signal.SIGTERM else -9)
    if number == signal.SIGTERM:
        assert "Interrupted. Nothing is kept." in err
        assert [path.name for path in folder.iterdir() if path.name.startswith(".fetch-")] == []


def pips_in(folder: Path) -> list[int]:
    """Processes that live and work below a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(each / "cwd").startswith(str(folder)):
                found.append(int(each.name))
    return found


def test_a_model_that_is_in_use_is_not_removed(model: Model, own: dict[str, str], tmp_path: Path) -> None:
    folder = Path(own["PLACET_MODELS"])
    folder.mkdir()
    tiny = write_tiny_model(folder / FILE.name)
    user = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from placet.inference.local.model import served_by\n"
        "from placet.inference.local.shared import lease\n"
        "from placet.inference.local.weights import LOCAL\n"
        "held = asyncio.run(lease(served_by(LOCAL, Path(sys.argv[1])), os.environ, available=lambda: None))\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", user, str(tiny)],
        env=environment(**own),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"

    refused = model("rm", "local")
    listed = model("list", "--json").json
    # Whose server has not loaded a file of this folder may have its way.
    elsewhere = model("rm", "local", PLACET_MODELS=str(tmp_path / "others"))
    process.communicate()
    until(lambda: model("rm", "local").code == 0)

    assert refused.code == 2
    assert f"'local' is in use, by process {process.pid}. End that one" in refused.err
    assert listed["models"][0]["serving"] is True
    assert (elsewhere.code, elsewhere.out) == (0, "No 'local' here.\n")
    assert not tiny.exists()


def test_a_server_that_nobody_uses_any_more_is_stopped(model: Model, own: dict[str, str]) -> None:
    folder = Path(own["PLACET_MODELS"])
    folder.mkdir()
    tiny = write_tiny_model(folder / FILE.name)
    user = (
        "import asyncio, os, sys\nimport msgspec\nfrom pathlib import Path\n"
        "from placet.inference.local.model import served_by\n"
        "from placet.inference.local.shared import lease\n"
        "from placet.inference.local.weights import LOCAL\n"
        "served = msgspec.structs.replace(served_by(LOCAL, Path(sys.argv[1])), linger_s=600.0)\n"
        "held = asyncio.run(lease(served, os.environ, available=lambda: None))\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", user, str(tiny)],
        env=environment(**own),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"

    in_use = model("stop")
    process.communicate()
    lingers = model("list", "--json").json["models"][0]["serving"]
    stopped = model("stop", "--json")
    again = model("stop", "--json")

    assert in_use.code == 2
    assert lingers is True
    assert (stopped.code, stopped.json) == (0, {"name": "local", "stopped": True})
    assert (again.code, again.json) == (0, {"name": "local", "stopped": False})
    assert model("list", "--json").json["models"][0]["serving"] is False


# --- test ---


class _Answers(BaseHTTPRequestHandler):
    """A chat server that answers the three questions, the last one as `colour` says."""

    colour = "blue"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message: dict[str, Any] = {"role": "assistant", "content": "Paris"}
        if asked.get("tools"):
            function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
            call = {"id": "c1", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        elif asked.get("response_format"):
            message["content"] = json.dumps({"colour": self.colour})
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        body = json.dumps({"id": "1", "model": "big-\u202e1", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


class _Wrong(_Answers):
    colour = "red"


class _Stalled(_Answers):
    """Begins a file, and stops."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(FILE.size))
        self.end_headers()
        self.wfile.write(bytes(100_000))
        self.wfile.flush()
        self.server.over.wait(60)  # type: ignore[attr-defined]


class _Silent(_Answers):
    """Takes the question, and says nothing."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.server.over.wait(60)  # type: ignore[attr-defined]


class serving:
    """A server on loopback, for as long as the block lasts."""

    def __init__(self, answers: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), answers)
        self._server.daemon_threads = True
        self._over = threading.Event()
        self._server.over = self._over  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def good() -> Iterator[str]:
    with serving(_Answers) as url:
        yield url


def test_a_model_that_answers_all_three_is_right(model: Model, good: str) -> None:
    env = {"OPENAI_API_KEY": "sk-hidden", "OPENAI_BASE_URL": f"{good}/v1"}

    shown = model("test", "openai:gpt-4o", **env)
    told = model("test", "openai:gpt-4o", "--json", **env)

    assert (shown.code, told.code) == (0, 0)
    assert "right  text              Paris" in shown.out
    assert 'right  tool call         get_weather({"city":"Oslo"})' in shown.out.replace(": ", ":")
    assert 'right  structured answer {"colour": "blue"}' in shown.out
    assert "10 tokens read, 5 tokens written" in shown.out
    assert "big-\\u202e1" in shown.out
    tries = told.json["tries"]
    assert [each["is_right"] for each in tries] == [True, True, True]
    assert all(each["tokens_per_s"] > 0 and each["cost"] > 0 for each in tries)
    assert told.json["cost"] == pytest.approx(sum(each["cost"] for each in tries))
    assert "hidden" not in shown.out + shown.err + told.out


def test_a_wrong_answer_is_exit_code_1(model: Model) -> None:
    with serving(_Wrong) as url:
        done = model("test", "openai:gpt-4o", "--json", **at(url))

    assert done.code == 1
    assert [each["is_right"] for each in done.json["tries"]] == [True, True, False]
    assert done.json["is_right"] is False


def at(url: str) -> dict[str, str]:
    """Where an OpenAI-compatible server of one's own listens."""
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1"}


def test_what_cannot_be_asked_is_exit_code_2(model: Model) -> None:
    none = model("test", "--json")
    local = model("test", "local", "--json")

    assert (none.code, none.json["error"]["code"]) == (2, "model.missing")
    assert "No model is chosen" in none.json["error"]["message"]
    assert (local.code, local.json["error"]["code"]) == (2, "model.missing")
    assert "placet model pull local" in local.json["error"]["message"]
