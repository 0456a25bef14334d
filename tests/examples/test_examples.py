"""Every example runs, and has the effects it promises."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.properties.effort import SOAK
from tests.servers.local_model import model_files
from tests.warm import Warm

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PROGRAM = Path(__file__).parent / "program.py"

IN_A_SOAK = pytest.mark.skipif(not SOAK, reason="that the checks of an example check is for make soak")


@pytest.fixture(autouse=True)
def _is_loaded(warm: Warm) -> None:
    """What `_python` starts."""


@pytest.fixture(scope="session")
def starter(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Path:
    """What a demo finds as its interpreter: command lines of Placet start at once, anything else as ever.

    One that waits is killed by the demo, and then has to be gone: it is a process of its own.
    """
    python, placet = shlex.quote(sys.executable), shlex.join(warm.command)
    path = tmp_path_factory.mktemp("starter") / "python"
    path.write_text(
        f"""#!/bin/sh
case "$* " in
*" --wait "*) ;;
"-m placet.cli.main "*) shift 2; exec {placet} "$@" ;;
esac
exec {python} "$@"
"""
    )
    path.chmod(0o700)
    return path


def _python(
    *arguments: str | Path, cwd: Path, timeout: float = 90, is_fresh: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a program, or a command line as `-m placet.cli.main`; `is_fresh` in an interpreter of its own."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    words = list(map(str, arguments))
    if is_fresh:
        command = [sys.executable, *words]
    elif words[0] == "-m":
        command = [*Warm.last.command, *words[2:]]
    else:
        command = [*Warm.last.python, *words]
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """All examples, as in a fresh clone."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    return folder


def _script(folder: Path, *turns: object) -> str:
    file = folder / "script.json"
    file.write_text(json.dumps({"turns": turns}), encoding="utf-8")
    return f"scripted:{file}"


def _asks(tool: str, **arguments: object) -> dict[str, object]:
    return {"calls": [{"name": tool, "arguments": arguments}]}


LISTS = _asks("list_dir", path="notes")
READS = _asks("read_file", path="notes/meeting.txt")
WRITES = _asks(
    "write_file",
    path="reminder.txt",
    text="The meeting about the new shop is on 14 May at 10:00, in room 3.\n",
    create_folders=True,
)
PRIES = _asks("list_dir", path="private/salaries.txt")


def test_the_demo_shows_proposals_decisions_results_and_the_story(tmp_path: Path, examples: Path) -> None:
    """What the local model does each time, as a script: the same calls through the same gate."""
    model = _script(tmp_path, LISTS, READS, WRITES, PRIES, "Done \x1b[31mwith it.")

    done = _python(examples / "demo.py", "--model", model, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        '  proposes  list_dir(path="notes")\n  gate      allowed: it only reads\n  result    ',
        "  gate      needs sandbox_edit, so a person was asked: once, by the demo, for you\n",
        "  gate      denied: policy 'keep-private': what people earn is not for a model\n",
        "  model     Done \\e[31mwith it.\n",
        "$ export PLACET_DB=examples/out/demo.db\n",
        "turn loop ended             success after 5 turns",
        "⊘ t4c1 (list_dir) was rejected: policy 'keep-private': what people earn is not for a model",
        "it was approved for this one time by 'the demo, for you'",
        "assistant     1      3",
    ):
        assert words in done.stdout, words
    assert "✗ " not in done.stdout[done.stdout.index("Was it as intended?") :]
    assert "\x1b" not in done.stdout
    assert "14 May" in (examples / "out" / "office" / "reminder.txt").read_text()
    yours, page = (line.partition(": ")[2] for line in done.stdout.splitlines()[-2:])
    pries = _script(tmp_path, PRIES, "Done.")
    answered = subprocess.run(
        [*shlex.split(yours), "--model", pries, "--json"],
        cwd=tmp_path,
        env=environment(XDG_DATA_HOME=str(tmp_path / "data")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "keep-private" in answered.stdout + answered.stderr, answered
    assert _link(page, tmp_path).endswith("#/runs/demo")


def _link(command: str, folder: Path) -> str:
    """The link that the command prints which serves the page."""
    words = [*shlex.split(command), "--no-open", "--port", "0"]
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment(XDG_DATA_HOME=str(folder / "data")),
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        link = server.stdout.readline().strip()
        server.terminate()
    return link


def test_the_demo_fails_when_the_job_is_not_done(tmp_path: Path, examples: Path, starter: Path) -> None:
    """Its checks check: a model that only says so has done nothing, whatever an earlier run has left."""
    left = examples / "out" / "office" / "reminder.txt"
    left.parent.mkdir(parents=True)
    left.write_text("14 May")

    says = _script(tmp_path, "Done.")
    done = _python(PROGRAM, starter, examples / "demo.py", "--model", says, cwd=tmp_path)

    assert done.returncode == 1
    assert "✗ reminder.txt holds the date of the meeting" in done.stdout
    assert "✗ what it wanted of the private folder was denied" in done.stdout
    assert "A small model does not always do its job." in done.stdout


def test_the_demo_without_a_network_says_so_and_what_to_do(tmp_path: Path, examples: Path) -> None:
    done = _python(
        examples / "demo.py",
        cwd=tmp_path,
        PLACET_MODELS=str(tmp_path / "models"),
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_EXTRA_INDEX_URL="",
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
    )

    assert done.returncode == 2
    assert "It is fetched once, " in done.stdout
    assert "$ placet model pull local\n" in done.stdout
    assert "cannot be fetched" in done.stderr
    assert "Without a model there is no demo." in done.stderr
    assert "make demo MODEL=openai:NAME" in done.stderr
    assert "proposes" not in done.stdout


def test_the_demo_without_the_key_of_its_model_says_which(tmp_path: Path, examples: Path) -> None:
    done = _python(examples / "demo.py", "--model", "openai:gpt-6.1-terra", cwd=tmp_path, OPENAI_API_KEY="")

    assert done.returncode == 2
    assert "OPENAI_API_KEY is not set" in done.stderr


@IN_A_SOAK
def test_the_demo_works_with_the_real_local_model(tmp_path: Path, examples: Path) -> None:
    done = _python(examples / "demo.py", cwd=tmp_path, timeout=600, **model_files("local"))

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plan_demo_shows_everything_and_finds_it_as_intended(tmp_path: Path, starter: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))

    done = _python(PROGRAM, starter, folder / "plan_demo.py", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗ " not in done.stdout[done.stdout.index("Was it as intended?") :]
    for words in (
        "policy 'economy-only': business class is not paid for",
        "3 at once:",
        "attempt 1 failed (the weather service is busy)",
        "dependency 'upgrade' was rejected",
        "book_hotel was taken back with release_hotel",
        "book_flight was taken back with release_flight",
        "10 actions, 2 more only to take back",
        '"kind": "state_rollback"',
        "examples/out/trip.svg",
        "$ export PLACET_DB=examples/out/plan-demo.db\n",
    ):
        assert words in done.stdout, words
    assert (folder / "out" / "trip.svg").read_text(encoding="utf-8").startswith("<svg")
    kinds = [json.loads(line)["kind"] for line in (folder / "out" / "run.jsonl").read_text().splitlines()]
    assert kinds[-1] == "run_ended"


@IN_A_SOAK
def test_the_plan_demo_fails_when_the_world_is_not_as_intended(tmp_path: Path) -> None:
    """Its checks check: without the cancellation of the hotel it must not say that all is well."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    tools = folder / "trip" / "tools.py"
    broken = tools.read_text(encoding="utf-8").replace(
        '_enter("hotel cancelled", reference=reference)', "pass"
    )
    assert broken != tools.read_text(encoding="utf-8")
    tools.write_text(broken, encoding="utf-8")

    done = _python(folder / "plan_demo.py", cwd=tmp_path)

    assert done.returncode == 1
    assert "✗ every booking was cancelled again, the last first" in done.stdout


def test_the_library_example_sends_the_mail_and_notes_it(tmp_path: Path) -> None:
    done = _python(EXAMPLES / "embed.py", cwd=tmp_path, is_fresh=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "valid: True",
        "outcome: succeeded",
        "sent: ['ada@example.org: Hello!']",
        "state: {'greeted': True}",
    ]


def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    (folder / "out").mkdir()
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    block = readme.split("```sh\n")[1].split("```")[0].replace("\\\n", " ")
    commands = [line.split() for line in block.splitlines() if line.strip()]
    expected = {"tools": 0, "verify": 3, "run": 1, "explain": 0, "graph": 0}

    for name, *arguments in commands:
        assert name == "placet"
        done = _python("-m", "placet.cli.main", *arguments, cwd=folder)
        assert done.returncode == expected[arguments[0]], done.stderr
    assert [arguments[0] for _, *arguments in commands] == list(expected)


def test_the_trip_books_and_cancels_in_the_outside_world(tmp_path: Path) -> None:
    trip = EXAMPLES / "trip"
    ledger = tmp_path / "ledger.jsonl"
    inputs = [
        "--tools",
        trip / "tools.py",
        "--policies",
        trip / "policies.toml",
        "--state",
        trip / "state.json",
    ]

    done = _python(
        "-m",
        "placet.cli.main",
        "run",
        trip / "plan.json",
        *inputs,
        "--json",
        cwd=tmp_path,
        TRIP_LEDGER=str(ledger),
    )

    result = json.loads(done.stdout)
    status = {r["action_id"]: r["status"] for r in result["results"]}
    assert result["outcome"] == "aborted"
    assert (status["upgrade"], status["lounge"], status["pay"]) == ("rejected", "skipped", "failed")
    assert result["cost"]["retries"] == 1
    assert result["compensations"] == [
        {"action_id": "book_hotel", "status": "succeeded", "error": None},
        {"action_id": "book_flight", "status": "succeeded", "error": None},
    ]
    assert result["irreversible"] == []
    assert result["state"] == json.loads((trip / "state.json").read_text())
    events = [json.loads(line)["event"] for line in ledger.read_text().splitlines()]
    assert events == ["flight booked", "hotel booked", "hotel cancelled", "flight cancelled"]


def test_the_durable_demo_is_killed_and_charges_the_card_once(tmp_path: Path, starter: Path) -> None:
    done = _python(PROGRAM, starter, EXAMPLES / "durable" / "demo.py", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗ " not in done.stdout
    assert done.stdout.count("\nKilled\n") == 2
    assert done.stdout.startswith("$ export PLACET_DB=/")
    assert "Looking outside: no charge. So it is to retry." in done.stdout
    assert "Looking outside: charged 240 (order-2-0-1). So it is done." in done.stdout
    assert "records checked: nothing was changed." in done.stdout
    assert list(tmp_path.iterdir()) == []


@IN_A_SOAK
def test_the_durable_demo_fails_when_the_card_is_charged_twice(tmp_path: Path) -> None:
    """Its checks check: a charge that lies about being repeatable is repeated, and noticed."""
    folder = tmp_path / "durable"
    shutil.copytree(EXAMPLES / "durable", folder, ignore=shutil.ignore_patterns("__pycache__"))
    tools = folder / "tools.py"
    honest = tools.read_text(encoding="utf-8")
    lying = honest.replace("@tool\ndef charge_card", "@tool(idempotent=True)\ndef charge_card")
    assert lying != honest
    tools.write_text(lying, encoding="utf-8")

    done = _python(folder / "demo.py", cwd=tmp_path)

    assert done.returncode == 1
    assert "✗ order-2: the card was charged once" in done.stdout


def test_the_approvals_demo_is_killed_while_it_waits_and_deploys_once(tmp_path: Path, starter: Path) -> None:
    done = _python(PROGRAM, starter, EXAMPLES / "approvals" / "demo.py", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗ " not in done.stdout[done.stdout.index("Was it as intended?") :]
    assert done.stdout.count("\nKilled\n") == 1
    assert "untrusted data would choose parameter 'to' (page (read_page))" in done.stdout
    assert "was approved for this one time by ann" in done.stdout
    world = done.stdout.split("What the world has seen:\n")[1].split("\n\n")[0].splitlines()
    assert world == ["mail to ann@example.org: About: Prices", "deployed 2.1"]
    assert list(tmp_path.iterdir()) == []


@IN_A_SOAK
def test_the_approvals_demo_fails_when_a_page_is_trusted(tmp_path: Path) -> None:
    """Its checks check: where the page is not marked, the mail goes to whom it names, and that is noticed."""
    folder = tmp_path / "approvals"
    shutil.copytree(EXAMPLES / "approvals", folder, ignore=shutil.ignore_patterns("__pycache__"))
    tools = folder / "tools.py"
    honest = tools.read_text(encoding="utf-8")
    lying = honest.replace(', marks=["untrusted"]', "")
    assert lying != honest
    tools.write_text(lying, encoding="utf-8")

    done = _python(folder / "demo.py", cwd=tmp_path)

    assert done.returncode == 1
    assert "✗ the page did not choose who gets a mail" in done.stdout


def test_the_cases_of_the_approvals_example_pass(tmp_path: Path) -> None:
    rules = EXAMPLES / "approvals" / "policies.toml"

    done = _python("-m", "placet.cli.main", "policy", "test", rules, cwd=tmp_path)

    assert done.returncode == 0, done.stdout
    assert "4 of 4 cases passed" in done.stdout


def test_a_model_asks_for_a_tool_and_the_runtime_calls_it(tmp_path: Path) -> None:
    done = _python(EXAMPLES / "models" / "ask.py", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Shall I take an umbrella to Zurich tomorrow?",
        "",
        "  scripted: (no words)",
        '  forecast({"city": "Zurich"}): succeeded: {"city": "Zurich", "sky": "rain", "degrees": 9}',
        "  scripted: Yes: it will rain in Zurich tomorrow, and be 9 degrees.",
        "",
        "calls: 2, tokens: 262, cost: $0.000000",
    ]


def test_any_other_model_can_take_its_place(tmp_path: Path) -> None:
    """One that asks for a tool that is not there is told so, and goes on; what it does not tell is not 0."""
    script = tmp_path / "script.json"
    turns = [{"calls": [{"name": "teleport", "arguments": {}}]}, "I cannot\u001b[31m tell."]
    script.write_text(json.dumps({"turns": turns}), encoding="utf-8")

    done = _python(EXAMPLES / "models" / "ask.py", "How far?", "--model", f"scripted:{script}", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "  teleport({}): rejected: unknown tool 'teleport'" in done.stdout
    assert "I cannot\\e[31m tell." in done.stdout
    assert done.stdout.endswith("calls: 2, tokens: not told, cost: not known\n")


def test_a_model_that_cannot_be_asked_is_told_with_what_to_do(tmp_path: Path) -> None:
    done = _python(
        EXAMPLES / "models" / "ask.py", "--model", "openai:gpt-6.1-terra", cwd=tmp_path, OPENAI_API_KEY=""
    )

    assert done.returncode == 2
    assert done.stderr == (
        "Error: openai wants a key, and OPENAI_API_KEY is not set. Export it as OPENAI_API_KEY.\n"
    )


def test_built_in_tools_and_a_program_need_no_python(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    shutil.copytree(EXAMPLES / "tools", folder)

    done = _python(
        *("-m", "placet.cli.main", "run", "plan.json", "--tools", "commands.toml", "--db", "none", "--json"),
        cwd=folder,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    outputs = {result["action_id"]: result["output"] for result in json.loads(done.stdout)["results"]}
    assert outputs["find"]["files"] == ["letters/to-ada.txt", "letters/to-charles.txt"]
    assert [match["line"] for match in outputs["promises"]["matches"]] == [2, 3]
    assert outputs["words"] == 15
    assert outputs["lines"]["stdout"].strip() == "1"
    assert (folder / "report.txt").exists()


def test_the_isolation_demo_finds_that_what_is_claimed_holds(tmp_path: Path) -> None:
    done = _python(EXAMPLES / "isolation" / "demo.py", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗ " not in done.stdout
    assert "✓ a call of git_commit can" in done.stdout
    assert "✓ the folder is as it was" in done.stdout
    assert list(tmp_path.iterdir()) == []


@IN_A_SOAK
def test_the_isolation_demo_fails_when_a_claim_does_not_hold(tmp_path: Path) -> None:
    """Its checks check: where nothing is confined and all is claimed, it must not say that all is well."""
    folder = tmp_path / "isolation"
    shutil.copytree(EXAMPLES / "isolation", folder)
    demo = folder / "demo.py"
    text = demo.read_text(encoding="utf-8")
    broken = text.replace('confined = Isolation(folder=folder / "data")', 'confined = Isolation("none")')
    broken = broken.replace(
        'claims["view"] = ', 'claims = dict.fromkeys(claims, "kernel")\n        claims["view"] = '
    )
    assert broken.count("claims = dict") == 1
    assert broken.count('confined = Isolation("none")') == 1
    demo.write_text(broken, encoding="utf-8")

    done = _python(demo, cwd=tmp_path)

    assert done.returncode == 1
    assert "✗ change a file outside: held, as claimed" in done.stdout


def test_the_coder_demo_mends_the_shop_and_lets_nobody_cheat(tmp_path: Path, starter: Path) -> None:
    done = _python(PROGRAM, starter, EXAMPLES / "coder" / "demo.py", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗ " not in done.stdout
    assert "+    return price - price * percent // 100" in done.stdout
    assert "  ✗ write_file failed: The file 'tests/test_basket.py' must not be written" in done.stderr
    assert "✗ files were changed that checks depend on, and put back: sitecustomize.py, " in done.stderr
    assert "it was ended from inside" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_loop_demo_goes_as_far_as_each_level_may(tmp_path: Path, starter: Path) -> None:
    done = _python(PROGRAM, starter, EXAMPLES / "loops" / "demo.py", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    claims = done.stdout.rpartition("\n\n")[2].splitlines()
    assert [line[0] for line in claims] == ["✓"] * 7
    assert "outcome  ·??✓" in done.stdout
    assert list(tmp_path.iterdir()) == []


@IN_A_SOAK
def test_the_coder_demo_fails_when_nobody_mends_the_shop(tmp_path: Path) -> None:
    """Its checks check: a model whose second fix is as wrong as the first has nothing to be published."""
    folder = tmp_path / "coder"
    shutil.copytree(EXAMPLES / "coder", folder, ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / "honest.json"
    script.write_text(script.read_text().replace("percent // 100\\n", "percent // 50\\n"))

    done = _python(folder / "demo.py", cwd=tmp_path)

    assert done.returncode == 1
    assert "✗ the first model was red once, then green, and waited for a person" in done.stdout
