"""`placet policy`: what rules say to a plan, why, and the cases that are kept beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, Placet

Plan = Callable[..., Path]

STEERING = ("\x1b", "\x07", "\u202e", "\x9b")
"""Characters that a terminal would obey."""

RULES = r"""
[[rule]]
name = "no-rm"
kind = "deny_tool_param_matching"
tool = "shell"
param = "command"
pattern = '\brm\b'
reason = "files are not deleted here"

[[rule]]
name = "ask-pay"
kind = "deny_tool"
tool = "pay"
unless_approved = true

[[rule]]
name = "own-words"
kind = "flow_rule"
risk = "destructive"
mark = "untrusted"
reason = "the web does not choose this"

[[rule]]
name = "slow"
kind = "rate_limit_tool"
tool = "fetch"
max_calls = 5
interval_secs = 60
"""

CASES = """
[[case]]
name = "rm is denied"
tool = "shell"
parameters = { command = "rm -rf hunter2" }
expect = "deny"
by = "no-rm"

[[case]]
name = "paying is asked"
tool = "pay"
expect = "ask"

[[case]]
name = "others pass"
tool = "look"
expect = "allow"
"""

TOOLS = """
from placet import tool

print("loading")


def trace(word: str) -> str:
    with open("trace", "a") as file:
        file.write(word)
    return word


@tool
def shell(command: str) -> str:
    return trace("shell")


@tool
def pay(to: str = "") -> str:
    return trace("pay")


@tool(risk="read_only", marks=["untrusted"])
def fetch(url: str = "") -> str:
    return trace("fetch")


@tool(risk="idempotent")
def put(path: str) -> str:
    return trace("put")
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "own_tools.py"
    path.write_text(TOOLS, encoding="utf-8")
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES, encoding="utf-8")
    return path


@pytest.fixture
def policy(quick: Placet, tmp_path: Path) -> Placet:
    """Run `placet policy` as a person who has no settings but those in the folder `config`."""
    own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}

    def run(*arguments: str | Path, **options: Any) -> Done:
        return quick("policy", *arguments, **{**own, **options})

    return run


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


SHELL = {"id": "s", "tool": "shell", "parameters": {"command": "rm -rf build"}}
PAY = {"id": "p", "tool": "pay"}
FETCH = {"id": "f", "tool": "fetch"}
PUT = {"id": "w", "tool": "put", "parameters": {"path": "notes.txt"}}


# check


@pytest.mark.parametrize(
    ("actions", "code", "verdict"),
    [
        ([PUT], 0, "allowed"),
        ([PUT, FETCH], 0, "undecided"),
        ([PUT, PAY, FETCH], 4, "asks"),
        ([PUT, PAY, SHELL], 3, "denied"),
        ([{"id": "x", "tool": "nope"}], 3, "invalid"),
        ([], 0, "allowed"),
    ],
)
def test_check_exits_with_what_would_come_of_it_and_runs_nothing(
    policy: Placet,
    plan: Plan,
    tools: Path,
    rules: Path,
    tmp_path: Path,
    actions: list[dict[str, Any]],
    code: int,
    verdict: str,
) -> None:
    given = ("check", plan(*actions), "--tools", tools, "--policies", rules)

    plain, as_json = policy(*given), policy(*given, "--json")

    assert (plain.code, as_json.code) == (code, code)
    assert as_json.json["verdict"] == verdict
    assert [action["id"] for action in as_json.json["actions"]] == [action["id"] for action in actions]
    assert not (tmp_path / "trace").exists()
    assert not (tmp_path / "data").exists()


def test_check_agrees_with_the_run(
    placet: Placet, plan: Plan, tools: Path, rules: Path, tmp_path: Path
) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}
    options = ("--tools", tools, "--policies", rules)
    waiting, denied = plan(PUT, PAY, name="a.json"), plan(SHELL, name="b.json")

    assert placet("policy", "check", waiting, *options, **env).code == 4
    assert placet("run", waiting, *options, "--db", tmp_path / "runs.db", **env).code == 4
    ran = placet("run", denied, *options, "--db", tmp_path / "runs.db", "--json", **env)

    assert ran.json["results"][0]["error"] == "policy 'no-rm': files are not deleted here"


def test_check_names_only_what_matters(policy: Placet, plan: Plan, tools: Path, rules: Path) -> None:
    flow = {"id": "q", "tool": "pay", "parameters": {"to": "$f.output"}}

    done = policy("check", plan(PUT, FETCH, flow, PAY, SHELL), "--tools", tools, "--policies", rules)

    head, *findings = done.out.splitlines()
    assert head.startswith("⊘ denied  ")
    assert head.endswith("  5 actions, 2 denied, 1 to be approved, 1 undecided")
    assert findings == [
        "  · undecided          f (fetch): slow: depends on what runs within its window",
        "  ⊘ denied             q (pay): own-words: the web does not choose this (f (fetch))",
        "  ? needs an approval  p (pay): ask-pay: tool 'pay' is denied",
        "  ⊘ denied             s (shell): no-rm: files are not deleted here",
    ]
    assert "loading" in done.err
    assert "rm -rf build" not in done.out


def test_check_says_what_no_rule_is_about_too(policy: Placet, plan: Plan, rules: Path) -> None:
    done = policy("check", plan({"id": "x", "tool": "nope"}), "--policies", rules)

    assert done.code == 3
    assert "x (nope): unknown tool 'nope': it is not built in; add --tools FILE" in done.out


def test_check_asks_for_an_agent_by_its_own_posture(
    policy: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    write(
        tmp_path / "config" / "placet" / "settings.toml",
        '[permissions]\nposture = "cautious"\n[permissions.agents.nightly]\nposture = "trusting"\n',
    )
    given = ("check", plan(PUT), "--tools", tools)

    assert policy(*given).code == 4
    assert "permission: tool 'put' needs sandbox_edit" in policy(*given).out
    assert policy(*given, "--as", "nightly").code == 0
    assert policy(*given, "--permissions", "balanced").code == 0
    assert policy(*given, "--as", "").code == 2


def test_check_finds_the_rules_of_the_project(
    policy: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    write(tmp_path / ".placet" / "policies" / "a.toml", RULES)

    assert policy("check", plan(SHELL), "--tools", tools).code == 3


def test_check_reads_standard_input(placet: Placet, tools: Path, rules: Path) -> None:
    text = json.dumps({"actions": [PAY]})

    done = placet("policy", "check", "-", "--tools", tools, "--policies", rules, stdin=text)

    assert done.code == 4
    assert "standard input" in done.out


@pytest.mark.parametrize("command", ["check", "explain"])
def test_bad_input_is_one_message_and_exit_code_2(
    policy: Placet, plan: Plan, rules: Path, tmp_path: Path, command: str
) -> None:
    bad = write(tmp_path / "bad.toml", '[[rule]]\nname = "x"\nkind = "deny_tol"\n')

    for given in (
        [tmp_path / "nope.json"],
        [rules],
        [plan(PAY), "--policies", bad],
        [plan(PAY), "--tools", tmp_path / "nope.py"],
        [plan(PAY), "--state", rules],
        [],
    ):
        done = policy(command, *given)
        assert (done.code, done.out) == (2, ""), done
        assert "Error: " in done.err
        assert "Traceback" not in done.err
    as_json = policy(command, tmp_path / "nope.json", "--json")
    assert (as_json.code, as_json.json["error"]["code"]) == (2, "input")


# explain


def test_explain_tells_who_says_what_and_who_decides(
    policy: Placet, plan: Plan, tools: Path, rules: Path
) -> None:
    flow = {"id": "q", "tool": "pay", "parameters": {"to": "$f.output"}}
    given = ("explain", plan(FETCH, flow), "--tools", tools, "--policies", rules, "--permissions", "cautious")

    plain, as_json = policy(*given), policy(*given, "--json")

    assert (plain.code, as_json.code) == (0, 0)
    lines = plain.out.splitlines()
    assert lines[1] == "Posture: read_only allow, sandbox_edit ask, full_access deny"
    assert lines[3:] == [
        "f (fetch)  · undecided, because of 'slow'  (needs read_only)  (its output is untrusted)",
        "  → · undecided  slow        depends on what runs within its window",
        "    ✓ allows     permission  read_only",
        "",
        "q (pay)  ⊘ denied, because of 'own-words', 'permission'  (needs full_access)",
        "    ? asks       ask-pay     tool 'pay' is denied",
        "  → ⊘ denies     own-words   the web does not choose this (f (fetch))",
        "  → ⊘ denies     permission  tool 'pay' needs full_access, which is denied here",
        "",
        "About nothing in this plan: 'no-rm'",
    ]
    told = as_json.json
    assert told["about_nothing"] == ["no-rm"]
    assert told["posture"] == {"read_only": "allow", "sandbox_edit": "ask", "full_access": "deny"}
    first, second = told["actions"]
    assert (first["marks"], first["tier"]) == (["untrusted"], "read_only")
    assert [(s["by"], s["answer"], s["decides"]) for s in second["said"]] == [
        ("ask-pay", "asks", False),
        ("own-words", "denies", True),
        ("permission", "denies", True),
    ]


def test_explain_tells_where_no_rule_is_about_it(policy: Placet, plan: Plan, tools: Path) -> None:
    undone = {"id": "u", "tool": "pay"}
    owner = {**PUT, "compensation": {"type": "action_ref", "action_id": "u"}}

    done = policy("explain", plan(owner, undone), "--tools", tools)

    assert done.code == 0
    assert "no rule is about it" in done.out
    assert "(only to take back 'w')" in done.out


def test_nothing_that_is_shown_steers_the_terminal(
    policy: Placet, plan: Plan, tools: Path, tmp_path: Path
) -> None:
    nasty = "x" + "".join(STEERING)
    quoted = json.dumps(nasty).replace("\x9b", "\\u009b")
    path = write(
        tmp_path / "nasty.toml",
        f'[[rule]]\nname = {quoted}\nkind = "deny_tool"\nreason = {quoted}\n'
        f'[[rule]]\nname = "r"\nkind = "deny_tool"\ntool = {quoted}\n'
        f'[[case]]\nname = {quoted}\ntool = {quoted}\nexpect = "allow"\n',
    )
    proposal = plan({"id": nasty, "tool": nasty}, {**SHELL, "id": "s"})

    for given in (
        ("check", proposal, "--policies", path, "--tools", tools),
        (
            "explain",
            proposal,
            "--policies",
            path,
            "--tools",
            tools,
            "--as",
            nasty,
            "--permissions",
            "cautious",
        ),
        ("test", path),
    ):
        for flags in ((), ("--json",)):
            done = policy(*given, *flags)
            assert done.code == {"check": 3, "explain": 0, "test": 1}[str(given[0])], done
            assert not any(character in done.out + done.err for character in STEERING), done
    # A name that cannot be is refused in words that do not steer either.
    bad = policy("test", write(tmp_path / "bad.toml", path.read_text() + f"{json.dumps(nasty)} = 1\n"))
    assert bad.code == 2
    assert not any(character in bad.err for character in STEERING)


# test


def test_cases_that_pass_exit_0(policy: Placet, rules: Path) -> None:
    write(rules, RULES + CASES)

    done = policy("test", rules)

    assert done.code == 0
    assert done.out.splitlines() == [
        str(rules),
        "  ✓ rm is denied",
        "  ✓ paying is asked",
        "  ✓ others pass",
        "",
        "3 of 3 cases passed",
        "Rules without a case: 'own-words'",
    ]
    assert done.err == ""


def test_a_case_that_fails_exits_1_and_says_who_said_what(policy: Placet, rules: Path) -> None:
    write(
        rules,
        RULES
        + CASES.replace('expect = "deny"\nby = "no-rm"', 'expect = "ask"')
        + '[[case]]\nname = "open"\ntool = "fetch"\nexpect = "allow"\n',
    )

    plain, as_json = policy("test", rules), policy("test", rules, "--json")

    assert (plain.code, as_json.code) == (1, 1)
    assert (
        "  ✗ rm is denied\n      expected ask; it is denied by 'no-rm' (files are not deleted here)\n"
        in plain.out
    )
    assert "undecided: 'slow' depends on what runs within its window" in plain.out
    assert "2 of 4 cases passed" in plain.out
    told = as_json.json
    assert (told["passed"], told["failed"], told["rules_without_case"]) == (2, 2, ["own-words"])
    assert told["cases"][0] == {
        "name": "rm is denied",
        "file": str(rules),
        "passed": False,
        "expect": "ask",
        "by": None,
        "got": "deny",
        "said": [
            {"by": "no-rm", "answer": "denies", "reason": "files are not deleted here", "decides": True},
            {"by": "own-words", "answer": "allows", "reason": "", "decides": False},
        ],
        "problem": "expected ask; it is denied by 'no-rm' (files are not deleted here)",
    }
    for shown in (plain, as_json):
        assert "hunter2" not in shown.out + shown.err  # What is denied is not shown.


def test_without_a_path_the_rules_that_hold_here_are_tried(policy: Placet, tmp_path: Path) -> None:
    write(tmp_path / ".placet" / "policies" / "a.toml", RULES + CASES)
    deep = tmp_path / "deep" / "er"
    deep.mkdir(parents=True)

    assert policy("test", cwd=deep).code == 0

    write(tmp_path / "config" / "placet" / "settings.toml", '[permissions]\nposture = "cautious"\n')

    by_posture = policy("test", cwd=deep)
    assert by_posture.code == 1
    assert "'permission' (tool 'look' needs full_access, which is denied here)" in by_posture.out
    assert policy("test", tmp_path / ".placet" / "policies").code == 0


def test_a_projects_own_tools_wait_for_trust(policy: Placet, tmp_path: Path) -> None:
    write(tmp_path / ".placet" / "policies" / "a.toml", RULES + CASES)
    write(tmp_path / ".placet" / "settings.toml", 'tools = "tools.py"\n')
    write(tmp_path / ".placet" / "tools.py", 'open("loaded", "w").close()\n')

    done = policy("test")

    assert done.code == 2
    assert "placet trust" in done.err
    assert not (tmp_path / "loaded").exists()


def test_tools_of_a_file_are_declared_and_never_called(
    policy: Placet, rules: Path, tools: Path, tmp_path: Path
) -> None:
    case = '[[case]]\nname = "c"\ntool = "pay"\nparameters = { to = "$1.output" }\nexpect = "deny"\n'
    write(rules, RULES + case + 'by = "own-words"\nafter = [{ tool = "fetch" }]\n')

    assert policy("test", rules).code == 1  # Nobody says that what is fetched is untrusted.
    assert policy("test", rules, "--tools", tools).code == 0
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RULES, "holds no case. Write one beside the rules"),
        (CASES, "it holds cases, but there is no rule for them"),
        (RULES + '[[case]]\nname = "c"\ntool = "x"\n', "key 'case[0].expect': the key 'expect' is missing"),
        (
            RULES + CASES + 'by = "no-rn"\n',
            "key 'case[2].by': 'no-rn' is no rule here. Did you mean 'no-rm'?",
        ),
        (RULES + CASES + 'parmeters = { p = "hunter2" }\n', "Did you mean 'parameters'?"),
        (RULES + "[[case]\n", "it is not TOML"),
        ("", "it holds no rule"),
    ],
)
def test_bad_case_files_are_one_message_and_exit_code_2(
    policy: Placet, rules: Path, text: str, words: str
) -> None:
    write(rules, text)

    done = policy("test", rules)

    assert (done.code, done.out) == (2, "")
    assert str(rules) in done.err
    assert words in done.err
    assert "hunter2" not in done.err
    assert policy("test", rules, "--json").json["error"]["code"].startswith("input")


def test_nothing_to_test_exits_2(policy: Placet, tmp_path: Path) -> None:
    for given in ((), (tmp_path / "nope.toml",), ("",)):
        done = policy("test", *given)
        assert (done.code, done.out) == (2, "")
        assert "Error: " in done.err


def test_the_case_in_the_help_is_one(placet: Placet, policy: Placet, tmp_path: Path) -> None:
    told = placet("policy", "test", "--help").out
    case = told[told.index("[[case]]\n") : told.index("All but name")]
    rule = '[[rule]]\nname = "secrets-stay"\nkind = "flow_rule"\nmark = "secret"\nrisk = "network"\n'

    assert policy("test", write(tmp_path / "a.toml", rule + case)).code == 0


def test_every_command_tells_its_exit_codes(placet: Placet) -> None:
    top = placet("policy")

    assert top.code == 0
    for command in ("check", "explain", "test"):
        assert command in top.out
        assert "Exit codes: 0 " in placet("policy", command, "--help").out
