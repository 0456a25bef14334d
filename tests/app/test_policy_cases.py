"""Cases beside rules: every kind of rule, both ways; what decides nothing; and files that mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placet.app.governance import Question
from placet.app.policy_cases import open_rule_book
from placet.app.trials import Trials, try_cases
from placet.errors import InputError, PolicyFileError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(text: str, name: str = "rules.toml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return to


def trials(path: Path, **options: Any) -> Trials:
    return try_cases(open_rule_book(str(path), path.parent, {}, **options))


# Every kind of rule, both ways

KINDS = {
    "deny_tool": ('tool = "shell"', 'tool = "shell"', 'tool = "look"'),
    "deny_tool_param": (
        'tool = "shell"\nparam = "command"\ncontains = "sudo"',
        'tool = "shell"\nparameters = { command = "SUDO ls" }',
        'tool = "shell"\nparameters = { command = "ls" }',
    ),
    "allow_tool_param": (
        'tool = "pay"\nparam = "to"\nvalues = ["landlord"]',
        'tool = "pay"\nparameters = { to = "stranger" }',
        'tool = "pay"\nparameters = { to = "landlord" }',
    ),
    "deny_keyword": (
        'keyword = "prod"',
        'tool = "x"\nparameters = { deep = [{ host = "prod-1" }] }',
        'tool = "x"\nparameters = { host = "test-1" }',
    ),
    "deny_tool_param_matching": (
        'tool = "shell"\nparam = "command"\npattern = \'\\brm\\b\'',
        'tool = "shell"\nparameters = { command = "rm -rf build" }',
        'tool = "shell"\nparameters = { command = "farm" }',
    ),
    "require_state": (
        'tool = "deploy"\nkey = "tests"\nvalue = "green"',
        'tool = "deploy"\nstate = { tests = "red" }',
        'tool = "deploy"\nstate = { tests = "green" }',
    ),
    "trace_rule": (
        'tool = "deploy"\nonly_after = { label = "tests" }',
        'tool = "deploy"\nafter = [{ tool = "test" }]',
        'tool = "deploy"\nafter = [{ tool = "test", labels = ["tests"] }]',
    ),
    "flow_rule": (
        'risk = "network"\nmark = "secret"',
        'tool = "send"\nrisk = "network"\nparameters = { text = "so: $1.output" }\n'
        'after = [{ tool = "read_secret", risk = "read_only", marks = ["secret"] }]',
        'tool = "send"\nrisk = "network"\nparameters = { text = "$2.output" }\n'
        'after = [{ tool = "read_secret", marks = ["secret"] }, { tool = "read" }]',
    ),
    "deny_irreversible": (
        "",
        'tool = "x"\nrisk = "destructive"',
        'tool = "x"\nrisk = "destructive"\nreversibility = "compensable"',
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unless_approved", [False, True])
def test_a_rule_of_every_kind_objects_and_does_not(write: Write, kind: str, unless_approved: bool) -> None:
    keys, objecting, allowed = KINDS[kind]
    asks = "unless_approved = true" if unless_approved else ""
    answer = "ask" if unless_approved else "deny"
    path = write(
        f'[[rule]]\nname = "r"\nkind = "{kind}"\n{keys}\n{asks}\n'
        f'[[case]]\nname = "objects"\n{objecting}\nexpect = "{answer}"\nby = "r"\n'
        f'[[case]]\nname = "does not"\n{allowed}\nexpect = "allow"\n'
        f'[[case]]\nname = "wrong 1"\n{objecting}\nexpect = "allow"\n'
        f'[[case]]\nname = "wrong 2"\n{allowed}\nexpect = "{answer}"\n'
    )

    found = trials(path)

    assert [(t.name, t.passed, t.got) for t in found.cases] == [
        ("objects", True, answer),
        ("does not", True, "allow"),
        ("wrong 1", False, answer),
        ("wrong 2", False, "allow"),
    ]
    assert (found.passed, found.failed, found.rules_without_case) == (2, 2, [])
    said = "it is denied by 'r' (" if answer == "deny" else "a person is asked by 'r' ("
    assert found.cases[2].problem.startswith(f"expected allow; {said}")
    assert found.cases[3].problem == f"expected {answer}; it is allowed"


@pytest.mark.parametrize(
    ("keys", "denied", "allowed"),
    [
        (
            'risk = "network"\nonly_before = { label = "secret" }',
            '[{ tool = "read", labels = ["secret"] }]',
            '[{ tool = "read" }]',
        ),
        (
            'tool = "send"\nnever_with = { path = "secrets/*" }',
            '[{ tool = "read", parameters = { path = "./secrets/key" } }]',
            '[{ tool = "read", parameters = { path = "notes" } }]',
        ),
        (
            'tool = "send"\nat_most = 2',
            '[{ tool = "send" }, { tool = "send" }]',
            '[{ tool = "send" }, { tool = "read" }]',
        ),
    ],
)
def test_what_ran_before_counts(write: Write, keys: str, denied: str, allowed: str) -> None:
    call = 'tool = "send"\nrisk = "network"'
    path = write(
        f'[[rule]]\nname = "r"\nkind = "trace_rule"\n{keys}\n'
        f'[[case]]\nname = "a"\n{call}\nafter = {denied}\nexpect = "deny"\nby = "r"\n'
        f'[[case]]\nname = "b"\n{call}\nafter = {allowed}\nexpect = "allow"\n'
    )

    assert [t.problem for t in trials(path).cases] == ["", ""]


def test_a_mark_of_a_rule_counts_and_follows_from_call_to_call(write: Write) -> None:
    path = write(
        '[[rule]]\nname = "web"\nkind = "mark_output"\ntool = "fetch"\nmarks = ["untrusted"]\n'
        '[[rule]]\nname = "own-words"\nkind = "flow_rule"\nmark = "untrusted"\ntool = "shell"\n'
        '[[case]]\nname = "a"\ntool = "shell"\nparameters = { command = "$2.output" }\nexpect = "deny"\n'
        'after = [{ tool = "fetch" }, { tool = "shorten", parameters = { text = "$1.output" } }]\n'
    )

    found = trials(path)

    assert found.cases[0].passed
    assert found.rules_without_case == []
    assert "1 (fetch) -> 2 (shorten)" in found.cases[0].said[0].reason


# What counts, and what does not


def test_another_rule_than_the_named_one_is_not_enough(write: Write) -> None:
    path = write(
        '[[rule]]\nname = "a"\nkind = "deny_tool"\ntool = "x"\nreason = "because"\n'
        '[[rule]]\nname = "b"\nkind = "deny_tool"\ntool = "y"\n'
        '[[rule]]\nname = "c"\nkind = "deny_tool"\ntool = "z"\n'
        '[[case]]\nname = "denied by another"\ntool = "x"\nexpect = "deny"\nby = "b"\n'
        '[[case]]\nname = "not asked"\ntool = "z"\nexpect = "allow"\nby = "b"\n'
        '[[case]]\nname = "said by nobody"\ntool = "w"\nexpect = "allow"\nby = "b"\n'
    )

    found = trials(path)

    assert [t.passed for t in found.cases] == [False, False, False]
    assert found.cases[0].problem == "expected deny by 'b'; it is denied by 'a' (because)"
    assert found.cases[2].problem == "expected allow by 'b'; it is allowed"


def test_a_denial_outweighs_an_ask(write: Write) -> None:
    path = write(
        '[[rule]]\nname = "a"\nkind = "deny_tool"\ntool = "x"\nunless_approved = true\n'
        '[[rule]]\nname = "b"\nkind = "deny_keyword"\nkeyword = "k"\n'
        '[[case]]\nname = "both"\ntool = "x"\nparameters = { p = "k" }\nexpect = "deny"\nby = "b"\n'
        '[[case]]\nname = "ask"\ntool = "x"\nexpect = "ask"\nby = "a"\n'
        '[[case]]\nname = "not an ask"\ntool = "x"\nparameters = { p = "k" }\nexpect = "ask"\n'
        '[[case]]\nname = "who asks"\ntool = "x"\nparameters = { p = "k" }\nexpect = "deny"\nby = "a"\n'
    )

    assert [(t.got, t.passed) for t in trials(path).cases] == [
        ("deny", True),
        ("ask", True),
        ("deny", False),
        ("deny", False),
    ]


@pytest.mark.parametrize("expect", ["deny", "ask", "allow"])
def test_undecided_is_no_answer(write: Write, expect: str) -> None:
    path = write(
        '[[rule]]\nname = "slow"\nkind = "rate_limit_tool"\ntool = "x"\nmax_calls = 9\ninterval_secs = 60\n'
        '[[rule]]\nname = "ask"\nkind = "deny_tool_param"\ntool = "x"\nparam = "p"\npresence = true\n'
        "unless_approved = true\n"
        f'[[case]]\nname = "c"\ntool = "x"\nparameters = {{ p = 1 }}\nexpect = "{expect}"\n'
        f'[[case]]\nname = "d"\ntool = "x"\nexpect = "{expect}"\n'
    )

    found = trials(path)

    assert [t.got for t in found.cases] == ["undecided", "undecided"]
    for trial in found.cases:
        assert not trial.passed
        assert trial.problem == (
            f"expected {expect}; it is undecided: 'slow' depends on what runs within its window"
        )
    assert found.rules_without_case == []  # A rate limit cannot be tried, so none is missed.


def test_a_case_may_expect_an_open_question(write: Write) -> None:
    path = write(
        '[[rule]]\nname = "slow"\nkind = "rate_limit_tool"\ntool = "x"\nmax_calls = 9\ninterval_secs = 60\n'
        '[[case]]\nname = "c"\ntool = "x"\nexpect = "open"\nby = "slow"\n'
        '[[case]]\nname = "d"\ntool = "y"\nexpect = "open"\n'
    )

    assert [t.passed for t in trials(path).cases] == [True, False]


def test_a_rule_that_looks_at_what_is_filled_in_is_undecided(write: Write) -> None:
    path = write(
        '[[rule]]\nname = "k"\nkind = "deny_keyword"\nkeyword = "secret"\n'
        '[[case]]\nname = "c"\ntool = "x"\nparameters = { p = "$1.output" }\nexpect = "allow"\n'
        'after = [{ tool = "read" }]\n'
        '[[case]]\nname = "plain text"\ntool = "x"\nparameters = { p = "$$1.output" }\nexpect = "allow"\n'
    )

    found = trials(path)

    assert [t.got for t in found.cases] == ["undecided", "allow"]
    assert "'k' depends on what is filled in" in found.cases[0].problem


def test_what_is_denied_itself_cannot_have_run(write: Write) -> None:
    path = write(
        '[[rule]]\nname = "no-read"\nkind = "deny_tool"\ntool = "read"\nreason = "nobody reads"\n'
        '[[rule]]\nname = "ask-test"\nkind = "deny_tool"\ntool = "test"\nunless_approved = true\n'
        '[[rule]]\nname = "first"\nkind = "trace_rule"\ntool = "x"\nonly_after = { tool = "test" }\n'
        '[[case]]\nname = "denied"\ntool = "y"\nexpect = "allow"\n'
        'after = [{ tool = "z" }, { tool = "read" }]\n'
        '[[case]]\nname = "approved"\ntool = "x"\nexpect = "allow"\nafter = [{ tool = "test" }]\n'
    )

    denied, approved = trials(path).cases

    assert not denied.passed
    assert denied.problem == (
        "call 2 of 'after' (tool 'read') cannot have run: it is denied by 'no-read' (nobody reads)"
    )
    assert approved.passed


def test_rules_without_a_case_are_named(write: Write) -> None:
    path = write(
        '[[rule]]\nname = "a"\nkind = "deny_tool"\ntool = "x"\n'
        '[[rule]]\nname = "everywhere"\nkind = "deny_keyword"\nkeyword = "k"\n'
        '[[rule]]\nname = "marks"\nkind = "mark_output"\ntool = "y"\nmarks = ["secret"]\n'
        '[[rule]]\nname = "named"\nkind = "deny_tool"\ntool = "z"\nunless_approved = true\n'
        '[[case]]\nname = "1"\ntool = "x"\nexpect = "deny"\n'
        '[[case]]\nname = "2"\ntool = "z"\nexpect = "ask"\n'
    )

    assert trials(path).rules_without_case == ["everywhere", "marks"]


def test_cases_may_stand_in_a_file_of_their_own(write: Write) -> None:
    write('[[rule]]\nname = "a"\nkind = "deny_tool"\ntool = "x"\n', "all/rules.toml")
    cases = write('[[case]]\nname = "1"\ntool = "x"\nexpect = "deny"\nby = "a"\n', "all/cases.toml")

    assert [(t.file, t.passed) for t in trials(cases.parent).cases] == [(str(cases), True)]


# Tools of a file

TOOLS = """
from placet import tool


@tool(risk="network", labels=["mail"], marks=["untrusted"])
def send(to: str) -> str:
    raise AssertionError("a case has run")


@tool(reversibility="compensable")
def book(room: int) -> str:
    raise AssertionError("a case has run")
"""
NO_NETWORK = '[[rule]]\nname = "r"\nkind = "deny_tool"\nrisk = "network"\n'


def test_what_a_tools_file_declares_holds(write: Write) -> None:
    tools = str(write(TOOLS, "tools.py"))
    after = 'after = [{ tool = "look" }]'

    def case(name: str, tool: str, keys: str) -> str:
        return f'[[case]]\nname = "{name}"\ntool = "{tool}"\n{keys}\n'

    path = write(
        NO_NETWORK
        + '[[rule]]\nname = "own"\nkind = "flow_rule"\ntool = "book"\nmark = "untrusted"\n'
        + case("known", "send", 'parameters = { to = "me" }\nexpect = "deny"')
        + case("the same", "send", 'risk = "network"\nparameters = { to = "me" }\nexpect = "deny"')
        + case("other risk", "send", 'risk = "read_only"\nparameters = { to = "me" }\nexpect = "allow"')
        + case("made up", "fetch", 'risk = "network"\nexpect = "deny"')
        + case("compensable", "book", 'parameters = { room = 7 }\nexpect = "allow"')
        + case("open schema", "book", 'parameters = { room = "$1.output" }\nexpect = "allow"\n' + after)
        + case("misfit", "book", 'parameters = { room = "hunter2" }\nexpect = "allow"')
    )

    found = {t.name: t for t in trials(path, tools=tools).cases}

    assert {name: (t.passed, t.got) for name, t in found.items()} == {
        "known": (True, "deny"),
        "the same": (True, "deny"),
        "other risk": (False, "deny"),
        "made up": (True, "deny"),
        "compensable": (True, "allow"),
        "open schema": (True, "allow"),
        "misfit": (False, "invalid"),
    }
    assert found["other risk"].problem == (
        "tool 'send' is declared with other risk than the case says; leave it out here"
    )
    assert found["misfit"].problem == (
        "expected allow; the call is not valid: its parameters do not fit the schema of tool 'book'"
    )
    assert "hunter2" not in str(found)


# What holds in a folder


def test_without_a_path_all_that_a_run_would_find_is_tried(tmp_path: Path, write: Write) -> None:
    rule = '[[rule]]\nname = "x"\nkind = "deny_tool"\ntool = "{}"\n'
    case = '[[case]]\nname = "{0}"\ntool = "{0}"\nexpect = "deny"\nby = "{1}"\n'
    write(rule.format("mine") + case.format("mine", "x"), "config/placet/policies/a.toml")
    write(rule.format("outer") + case.format("outer", "x"), "p/.placet/policies/a.toml")
    write(
        rule.format("inner") + case.format("inner", "x") + case.format("mine", "x (user)"),
        "p/q/.placet/policies/a.toml",
    )
    write(
        '[permissions]\nposture = "cautious"\n[permissions.agents.nightly]\nposture = "trusting"\n',
        "config/placet/settings.toml",
    )
    call = '[[case]]\nname = "{0}"\ntool = "pay"\nrisk = "network"\nexpect = "{1}"\n{2}\n'
    write(
        call.format("everyone", "deny", 'by = "permission"')
        + call.format("nightly", "allow", 'agent = "nightly"'),
        "p/q/.placet/policies/permissions.toml",
    )
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}

    book = open_rule_book(None, tmp_path / "p" / "q", env)
    found = try_cases(book)

    assert [(t.name, t.by, t.problem) for t in found.cases] == [
        ("mine", "x (user)", ""),
        ("outer", f"x (project {tmp_path / 'p'})", ""),
        ("inner", "x (project)", ""),
        ("mine", "x (user)", ""),
        ("everyone", "permission", ""),
        ("nightly", None, ""),
    ]
    assert book.folder == str(tmp_path / "p" / "q")


def test_cases_are_those_that_were_read_with_their_rules(tmp_path: Path, write: Write) -> None:
    """Whoever swaps a file while the person is asked changes nothing of what is tried."""
    text = '[[rule]]\nname = "x"\nkind = "deny_tool"\n[[case]]\nname = "{}"\ntool = "t"\nexpect = "deny"\n'
    path = write(text.format("as it was read"), ".placet/policies/a.toml")
    write("from placet import tool\n\n@tool\ndef t() -> None: ...\n", ".placet/tools.py")
    write('tools = "tools.py"\n', ".placet/settings.toml")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}

    def swap_and_agree(question: Question) -> bool:
        path.write_text(text.format("swapped"))
        return True

    book = open_rule_book(None, tmp_path, env, confirm=swap_and_agree)

    assert "swapped" in path.read_text()
    assert [case.name for case in book.cases] == ["as it was read"]


def test_nothing_to_try_is_an_error_that_says_how_to_begin(tmp_path: Path, write: Write) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}
    with pytest.raises(InputError, match="No policies hold in"):
        open_rule_book(None, tmp_path, env)

    path = write('[[rule]]\nname = "x"\nkind = "deny_tool"\n', ".placet/policies/a.toml")

    with pytest.raises(InputError, match=r"(?s)comes with a case\..*\[\[case\]\]"):
        open_rule_book(None, tmp_path, env)
    with pytest.raises(InputError, match=r"(?s)a\.toml holds no case\..*expect = "):
        open_rule_book(str(path), tmp_path, env)


# Files that mean nothing

GOOD = 'name = "c"\ntool = "x"\nexpect = "deny"\n'
BAD: dict[str, tuple[str, str, str]] = {
    "no name": ('tool = "x"\nexpect = "deny"', "case[0].name", "the key 'name' is missing"),
    "empty name": (GOOD.replace('"c"', '" "'), "case[0].name", "it is empty"),
    "no tool": ('name = "c"\nexpect = "deny"', "case[0].tool", "the key 'tool' is missing"),
    "no expect": ('name = "c"\ntool = "x"', "case[0].expect", "'deny', 'ask' or 'allow'"),
    "unknown answer": (GOOD.replace("deny", "denied"), "case[0].expect", "Did you mean 'deny'?"),
    "answer of another kind": (GOOD.replace('"deny"', "true"), "case[0].expect", "got a boolean"),
    "unknown key": (GOOD + 'exepct = "deny"', "case[0].exepct", "Did you mean 'expect'?"),
    "unknown rule": (GOOD + 'by = "rule"', "case[0].by", "Did you mean 'rule-1'?"),
    "rule of another kind": (GOOD + "by = 1", "case[0].by", "got an integer"),
    "unknown risk": (GOOD + 'risk = "networking"', "case[0].risk", "Did you mean 'network'?"),
    "unknown mark": (GOOD + 'marks = ["hot"]', "case[0].marks", "'hot' is no mark"),
    "marks no list": (GOOD + 'marks = "secret"', "case[0].marks", "expected a list of texts, got a text"),
    "labels not texts": (GOOD + "labels = [1]", "case[0].labels[0]", "got an integer"),
    "unknown undo": (GOOD + 'reversibility = "no"', "case[0].reversibility", "'no' is no reversibility"),
    "parameters no table": (GOOD + 'parameters = "hunter2"', "case[0].parameters", "expected a table"),
    "a date": (GOOD + "parameters = { on = [2026-01-31] }", "case[0].parameters.on[0]", "a plan cannot hold"),
    "state no table": (GOOD + "state = []", "case[0].state", "got an array"),
    "infinite state": (GOOD + "state = { k = inf }", "case[0].state.k", "a plan cannot hold"),
    "agent of another kind": (GOOD + "agent = 1", "case[0].agent", "got an integer"),
    "after no list": (GOOD + 'after = "read"', "case[0].after", "a list of tables"),
    "after without tool": (GOOD + "after = [{}]", "case[0].after[0].tool", "the key 'tool' is missing"),
    "unknown key after": (
        GOOD + 'after = [{ tool = "x" }, { tool = "x", expect = "deny" }]',
        "case[0].after[1].expect",
        "'expect' is no key of a call in 'after'",
    ),
    "two opinions of one tool": (
        GOOD + 'risk = "network"\nafter = [{ tool = "x", risk = "read_only" }]',
        "case[0].risk",
        "the case says two things of tool 'x'",
    ),
    "nothing before": (
        GOOD + 'parameters = { p = "$1.output" }',
        "case[0].parameters",
        "'$1.output' names no call before it",
    ),
    "nothing so late": (
        GOOD + 'parameters = { p = ["$2.output"] }\nafter = [{ tool = "y" }]',
        "case[0].parameters",
        "'$2.output' names no call",
    ),
    "no such spelling": (
        GOOD + 'parameters = { p = "$01.output" }\nafter = [{ tool = "y" }]',
        "case[0].parameters",
        "'$01.output' names no call",
    ),
    "itself": (
        GOOD + 'after = [{ tool = "y", parameters = { p = "$1.output" } }]',
        "case[0].after[0].parameters",
        "'$1.output' names no call",
    ),
    "two of one name": (GOOD + "[[case]]\n" + GOOD, "case[1].name", "taken by another case"),
}


@pytest.mark.parametrize("which", BAD)
def test_a_case_that_means_nothing_is_refused(write: Write, which: str) -> None:
    text, key, words = BAD[which]
    path = write(f'[[rule]]\nname = "rule-1"\nkind = "deny_tool"\ntool = "x"\n[[case]]\n{text}\n')

    with pytest.raises(PolicyFileError) as caught:
        trials(path)

    assert (caught.value.path, caught.value.key) == (str(path), key)
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
