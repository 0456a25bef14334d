"""Policy files are read strictly, and every error says where and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.errors import PolicyFileError
from placet.policy.loader import load_policies, parse_policies, read_document, read_policies
from placet.policy.rule import (
    AllowToolParam,
    DenyKeyword,
    DenyTool,
    DenyToolParam,
    DenyToolParamMatching,
    RateLimitTool,
    RequireState,
)

EVERY_KIND = r"""
[[rule]]
name = "no-shell"
kind = "deny_tool"
tool = "shell*"
reason = "no shell here"

[[rule]]
name = "no-prod"
kind = "deny_tool_param"
tool = "deploy"
param = "target"
equals = "prod"

[[rule]]
name = "no-force"
kind = "deny_tool_param"
param = "force"
presence = true

[[rule]]
name = "small-refunds"
kind = "deny_tool_param"
tool = "refund"
param = "amount"
above = 100

[[rule]]
name = "no-crumbs"
kind = "deny_tool_param"
tool = "refund"
param = "amount"
below = 0.01
unless_approved = true

[[rule]]
name = "only-eu"
kind = "allow_tool_param"
tool = "deploy"
param = "region"
values = ["eu-1", "eu-2"]
matching = 'eu-\d+'

[[rule]]
name = "no-secrets"
kind = "deny_keyword"
keyword = "password"

[[rule]]
name = "no-rm"
kind = "deny_tool_param_matching"
tool = "shell"
param = "command"
pattern = '\brm\b'

[[rule]]
name = "needs-consent"
kind = "require_state"
tool = "mail"
key = "consent"
value = true

[[rule]]
name = "slowly"
kind = "rate_limit_tool"
tool = "mail"
max_calls = 3
interval_secs = 60
"""


def _file(folder: Path, text: str | bytes, name: str = "policies.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_kind_of_rule_loads_in_order(tmp_path: Path) -> None:
    rules = load_policies(_file(tmp_path, EVERY_KIND))

    assert rules == [
        ("no-shell", DenyTool(tool="shell*", reason="no shell here")),
        ("no-prod", DenyToolParam(tool="deploy", param="target", equals="prod")),
        ("no-force", DenyToolParam(param="force", presence=True)),
        ("small-refunds", DenyToolParam(tool="refund", param="amount", above=100)),
        ("no-crumbs", DenyToolParam(tool="refund", param="amount", below=0.01, unless_approved=True)),
        (
            "only-eu",
            AllowToolParam(tool="deploy", param="region", values=["eu-1", "eu-2"], matching=r"eu-\d+"),
        ),
        ("no-secrets", DenyKeyword(keyword="password")),
        ("no-rm", DenyToolParamMatching(tool="shell", param="command", pattern=r"\brm\b")),
        ("needs-consent", RequireState(tool="mail", key="consent", value=True)),
        ("slowly", RateLimitTool(tool="mail", max_calls=3, interval_secs=60.0)),
    ]


def test_a_folder_gives_the_rules_of_its_toml_files_by_name(tmp_path: Path) -> None:
    _file(tmp_path, '[[rule]]\nname = "second"\nkind = "deny_tool"\n', "b.toml")
    _file(tmp_path, '[[rule]]\nname = "first"\nkind = "deny_tool"\n', "a.toml")
    _file(tmp_path, "not read at all {{{", "notes.txt")

    assert [name for name, _ in load_policies(tmp_path)] == ["first", "second"]


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    rules = load_policies(_file(tmp_path, b'\xef\xbb\xbf[[rule]]\nname = "x"\nkind = "deny_tool"\n'))

    assert [name for name, _ in rules] == ["x"]


HEAD = '[[rule]]\nname = "one"\nkind = "deny_tool"\n\n[[rule]]\nname = "two"\n'


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        (HEAD + 'kind = "deny_tool"\ntol = "shell"', "rule[1].tol", "Did you mean 'tool'?"),
        (
            HEAD + 'kind = "deny_tool"\nzzz = 1',
            "rule[1].zzz",
            "A deny_tool rule may have 'name', 'kind', 'tool', ",
        ),
        (HEAD + 'kind = "deny_tol"', "rule[1].kind", "Did you mean 'deny_tool'?"),
        (HEAD + 'kind = "qqq"', "rule[1].kind", "Choose one of 'deny_tool'"),
        (HEAD + "kind = 3", "rule[1].kind", "expected a text, got an integer"),
        (HEAD + 'kind = ""', "rule[1].kind", "it is empty"),
        (HEAD, "rule[1].kind", "the key 'kind' is missing"),
        ('[[rule]]\nkind = "deny_tool"', "rule[0].name", "the key 'name' is missing"),
        ('[[rule]]\nnane = "x"\nkind = "deny_tool"', "rule[0].name", "Did you mean 'name' by 'nane'?"),
        ('[[rule]]\nname = ["x"]\nkind = "deny_tool"', "rule[0].name", "expected a text, got an array"),
        ('[[rule]]\nname = " "\nkind = "deny_tool"', "rule[0].name", "it is empty"),
        (HEAD + 'kind = "deny_tool"\ntool = 5', "rule[1].tool", "expected a text, got a whole number"),
        (HEAD + 'kind = "deny_keyword"', "rule[1].keyword", "the key 'keyword' is missing"),
        (HEAD + 'kind = "deny_keyword"\nkeyword = ""', "rule[1].keyword", "length >= 1"),
        (
            HEAD + 'kind = "deny_tool_param_matching"\nparam = "p"\npattern = "(a"',
            "rule[1].pattern",
            "does not compile",
        ),
        (
            HEAD + 'kind = "allow_tool_param"\nparam = "p"\nmatching = "[z-a]"',
            "rule[1].matching",
            "does not compile",
        ),
        (HEAD + 'kind = "allow_tool_param"\nparam = "p"', "rule[1]", "it allows nothing"),
        (HEAD + 'kind = "deny_tool_param"\nparam = "p"', "rule[1]", "exactly one of 'contains', 'equals'"),
        (
            HEAD + 'kind = "deny_tool_param"\nparam = "p"\nequals = 1\npresence = true',
            "rule[1]",
            "exactly one of",
        ),
        (
            HEAD + 'kind = "deny_tool_param"\nparam = "p"\nabove = 2\nbelow = 1',
            "rule[1]",
            "exactly one of",
        ),
        (HEAD + 'kind = "deny_tool_param"\nparam = "p"\nabove = "2"', "rule[1].above", "got a text"),
        (HEAD + 'kind = "deny_tool_param"\nparam = "p"\nbelow = true', "rule[1].below", "got true or false"),
        (HEAD + 'kind = "deny_tool_param"\nparam = "p"\nabove = nan', "rule[1].above", "no JSON number"),
        (
            HEAD + 'kind = "deny_tool_param"\nparam = "p"\nequals = 1979-05-27',
            "rule[1].equals",
            "cannot be compared with JSON",
        ),
        (HEAD + 'kind = "require_state"\nkey = "k"\nvalue = inf', "rule[1].value", "inf is no JSON number"),
        (
            HEAD + 'kind = "rate_limit_tool"\nmax_calls = -1\ninterval_secs = 1',
            "rule[1].max_calls",
            "expected a whole number >= 0",
        ),
        (
            HEAD + 'kind = "rate_limit_tool"\nmax_calls = true\ninterval_secs = 1',
            "rule[1].max_calls",
            "expected a whole number, got true or false",
        ),
        (HEAD + 'kind = "rate_limit_tool"\nmax_calls = 1\ninterval_secs = 0', "rule[1].interval_secs", "> 0"),
        (
            '[[rule]]\nname = "x"\nkind = "deny_tool"\n[[rule]]\nname = "x"\nkind = "deny_tool"',
            "rule[1].name",
            "the name 'x' is taken by another rule in this file",
        ),
        ('[[rules]]\nname = "x"', "rules", "Did you mean 'rule'?"),
        ('[rule]\nname = "x"', "rule", "Begin each rule with a line [[rule]]."),
        ("rule = []", "rule", "it holds no rule"),
        ("rule = [1]", "rule", "it must be a list of tables"),
        ("", None, "it holds no rule"),
        ("# only words\n", None, "it holds no rule"),
        ('[[rule]]\nname = "x"\nkind = deny_tool\n', None, "line 3"),
        (b"\xff\xfe\x00", None, "it is not UTF-8 text (byte 0)"),
        (b"\x00\x01", None, "it is not TOML"),
    ],
)
def test_a_file_that_cannot_mean_what_it_says_is_refused(
    tmp_path: Path, text: str | bytes, key: str | None, says: str
) -> None:
    path = _file(tmp_path, text)

    with pytest.raises(PolicyFileError) as caught:
        load_policies(path)

    assert caught.value.path == str(path)
    assert caught.value.key == key
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_name_in_two_files_of_a_folder_is_refused_with_both_files(tmp_path: Path) -> None:
    first = _file(tmp_path, '[[rule]]\nname = "x"\nkind = "deny_tool"\n', "a.toml")
    second = _file(tmp_path, '[[rule]]\nname = "x"\nkind = "deny_tool"\n', "b.toml")

    with pytest.raises(PolicyFileError) as caught:
        load_policies(tmp_path)

    assert caught.value.path == str(second)
    assert f"in {first}" in str(caught.value)


def test_a_missing_file_an_empty_folder_and_an_odd_path_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path, "bad\0path"):
        with pytest.raises(PolicyFileError):
            load_policies(path)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    """A folder named like a file cannot be opened, whoever asks; permissions would not stop root."""
    (tmp_path / "policies.toml").mkdir()

    with pytest.raises(PolicyFileError, match="cannot be read"):
        load_policies(tmp_path)


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000, "0x" + "f" * 5_000])
def test_a_number_that_cannot_be_read_is_refused(tmp_path: Path, number: str) -> None:
    path = _file(tmp_path, f'[[rule]]\nname = "x"\nkind = "trace_rule"\ntool = "x"\nat_most = {number}\n')

    with pytest.raises(PolicyFileError, match=r"too long to be read|more than 4,300 digits") as caught:
        load_policies(path)

    assert caught.value.path == str(path)


@pytest.mark.parametrize("name", ["b.TOML", ".toml", "below/b.toml", "below/deeper/b.Toml", "link/b.toml"])
def test_what_would_be_passed_over_in_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    _file(folder, '[[rule]]\nname = "x"\nkind = "deny_tool"\n', "a.toml")
    _file(folder, "", "README.md")
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert [rule for rule, _ in load_policies(folder)] == ["x"]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("")

    with pytest.raises(PolicyFileError, match="it would not be read") as caught:
        load_policies(folder)

    assert caught.value.path == str(folder / name)


CASE = '[[case]]\nname = "c"\nanything = { goes = 1 }\n'


def test_cases_beside_rules_are_let_through_as_they_stand(tmp_path: Path) -> None:
    path = _file(tmp_path, '[[rule]]\nname = "x"\nkind = "deny_tool"\n' + CASE)

    assert [name for name, _ in load_policies(path)] == ["x"]
    assert read_document(path, path.read_bytes())["case"] == [{"name": "c", "anything": {"goes": 1}}]


def test_a_file_of_cases_alone_may_stand_beside_one_of_rules(tmp_path: Path) -> None:
    _file(tmp_path, CASE, "a.toml")
    _file(tmp_path, '[[rule]]\nname = "x"\nkind = "deny_tool"\n', "b.toml")

    assert [name for name, _ in load_policies(tmp_path)] == ["x"]


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        (CASE, "case", "it holds cases, but there is no rule for them. Put the rules beside them."),
        ("case = []", None, "it holds no rule"),
        ("case = 1", "case", "it must be a list of tables. Begin each case with a line [[case]]."),
        ('[case]\nname = "c"', "case", "Begin each case with a line [[case]]."),
        ("rule = []\n" + CASE, "rule", "it holds no rule"),
        ('[[cases]]\nname = "c"', "cases", "Did you mean 'case'?"),
        ("zzz = 1", "zzz", "'zzz' is no key of the file. The file may have 'rule', 'case'."),
    ],
)
def test_cases_are_no_way_round_the_strictness(tmp_path: Path, text: str, key: str | None, says: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        load_policies(_file(tmp_path, text))

    assert caught.value.key == key
    assert says in str(caught.value)


def test_what_was_read_is_what_is_parsed(tmp_path: Path) -> None:
    path = _file(tmp_path, '[[rule]]\nname = "before"\nkind = "deny_tool"\n')
    files = read_policies(tmp_path)

    path.write_text('[[rule]]\nname = "after"\nkind = "deny_tool"\n')

    assert [name for name, _ in parse_policies(files)] == ["before"]
