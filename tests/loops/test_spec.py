"""Loop files are read strictly: the file and the key in every error, and nothing half-read."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.app.loop_files import loops_of
from placet.errors import PolicyFileError, UsageError
from placet.loops.spec import LoopSpec, read_loop
from placet.tools.builtin import BASIC, basic_tools

WHOLE = """
name = "changelog"
intent = "keep the changelog up to date"
level = "L3"
cadence = "daily 09:00"
timezone = "Europe/Berlin"
kind = "changelog"
allow = ["changelog"]
gate = "allowlist"
isolation = "process"
may_touch = ["tests/data/**"]
expires_s = 86400
[budget]
total_tokens = 50000
cost_usd = 1
iterations = 12
cached_weight = 0.1
[day]
cost_usd = 2.5
[maker]
prompt = "Add what was merged."
tools = ["read_file", "edit_file"]
[checker]
model = "openai:gpt"
hosts = ["example.org"]
[[checks]]
command = "test -s CHANGELOG.md"
[executor]
use = "commit"
branch = "loops/{loop}/{number}"
[[delivery]]
to = "file"
path = "reports.md"
[hooks]
before = "git log -5"
"""


def test_a_whole_file_is_read() -> None:
    loop = read_loop(WHOLE, "loops/changelog.toml")

    assert (loop.name, loop.level, loop.allow) == ("changelog", "L3", ("changelog",))
    assert (loop.budget.total_tokens, loop.budget.cost_usd, loop.day.cost_usd) == (50_000, 1.0, 2.5)
    assert loop.maker.tools == ("read_file", "edit_file")
    assert loop.checks[0].name == "test"
    assert loop.executor.branch == "loops/{loop}/{number}"


def test_a_file_may_leave_its_name_to_itself() -> None:
    assert read_loop('intent = "x"', "a.toml", name="a") == LoopSpec(name="a", intent="x")


COMMIT = "intent = 'x'\n[executor]\nuse = 'commit'\n"
FILE = "intent = 'x'\n[[delivery]]\nto = 'file'\npath = "
BAD = [
    ("intnt = 'x'", "intnt", "Did you mean 'intent'"),
    ("", "intent", "missing"),
    ("intent = ''", "intent", "it is empty"),
    ("intent = 'x'\nname = 'A b'", "name", "small letters"),
    ("intent = 'x'\nlevel = 'L4'", "level", "L4"),
    ("intent = 'x'\nlevel = 'L3'", "checks", "needs at least one"),
    ("intent = 'x'\ncadence = 'often'", "cadence", "every 10m"),
    ("intent = 'x'\ntimezone = 'Mars/Base'", "timezone", "Mars"),
    ("intent = 'x'\nkind = 'two words'", "kind", "no single word"),
    ("intent = 'x'\ngate = 'policy'", "policies", "no file of rules"),
    ("intent = 'x'\n[budget]\ntime_s = 'long'", "budget.time_s", "expected a number"),
    ("intent = 'x'\n[budget]\ntime_s = -1", "budget", "above 0"),
    ("intent = 'x'\n[budget]\ntokens = 1", "budget.tokens", "no key"),
    ("intent = 'x'\n[maker]\ntols = []", "maker.tols", "Did you mean 'tools'"),
    ("intent = 'x'\n[executor]\nuse = 'fax'", "executor.use", "fax"),
    ("intent = 'x'\n[executor]\nuse = 'webhook'", "executor.url", "needs it"),
    ("intent = 'x'\n[executor]\nbranch = 'b'", "executor.branch", "has none"),
    ("intent = 'x'\n[executor]\nuse = 'commit'\nbranch = '{x}'", "executor.branch", "fill in"),
    ("intent = 'x'\n[[delivery]]\nto = 'file'", "delivery[0].path", "needs it"),
    ("intent = 'x'\n[[checks]]\nname = 'n'", "checks[0]", "no command"),
    ("intent = 'x'\nmaker = 1", "maker", "a table"),
    ("intent = 'a\\u202eb'".replace("'", '"'), "intent", "nobody sees"),
    ("intent = ", None, "not TOML"),
    (COMMIT + "branch = 'fixed'", "executor.branch", "{number} or {round}"),
    (COMMIT + "branch = 'x/{loop}'", "executor.branch", "{number} or {round}"),
    (COMMIT + "branch = '{loop.__class__}-{number}'", "executor.branch", "fill in"),
    (COMMIT + "branch = '{number.real}'", "executor.branch", "fill in"),
    (COMMIT + "branch = '{number!r}'", "executor.branch", "fill in"),
    (COMMIT + "branch = '{number:>9}'", "executor.branch", "fill in"),
    (COMMIT + "branch = '{}{number}'", "executor.branch", "fill in"),
    (COMMIT + "branch = '{number'", "executor.branch", "fill in"),
    (COMMIT + "branch = '-x {number}'", "executor.branch", "git has no branches"),
    (COMMIT + "branch = 'x/../{number}'", "executor.branch", "git has no branches"),
    ("intent = 'x'\n[maker]\ntools = ['http_get']", "maker.hosts", "http_get"),
    (
        "intent = 'x'\n[executor]\nuse = 'webhook'\nurl = 'ftp://a/b'\nhosts = ['a']",
        "executor.url",
        "no http",
    ),
    ("intent = 'x'\n[executor]\nuse = 'webhook'\nurl = 'https://'\nhosts = ['a']", "executor.url", "no http"),
    ("intent = 'x'\n[[delivery]]\nto='webhook'\nurl='x'\nhosts=['a']", "delivery[0].url", "no http"),
    (FILE + "'../out.md'", "delivery[0].path", "leads out"),
    (FILE + "'a/../../out.md'", "delivery[0].path", "leads out"),
    (FILE + "'/etc/motd'", "delivery[0].path", "leads out"),
    (FILE + '"a\\u001b[2Jb"', "delivery[0].path", "control characters"),
    (FILE + '"a\\nb"', "delivery[0].path", "control characters"),
    ("intent = 'x'\n[budget]\niterations = 1000000000", "budget.iterations", "more than 1,000"),
]


@pytest.mark.parametrize(("text", "key", "words"), BAD)
def test_what_is_wrong_is_named_with_file_and_key(text: str, key: str | None, words: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        read_loop(text, "loops/a.toml", name="a")

    assert "loops/a.toml" in str(caught.value)
    assert key is None or f"key '{key}'" in str(caught.value)
    assert words in str(caught.value)


def test_a_loop_made_in_a_program_is_checked_too() -> None:
    with pytest.raises(UsageError, match="level L3 needs at least one"):
        LoopSpec(name="a", intent="x", level="L3")


BAD_HERE = [
    ("a", "intent = 'x'\nname = 'b'", "name", "not the name of the file, a"),
    ("a", "intent = 'x'\n[executor]\nuse = 'callback'", "executor.use", "a function of a program"),
    ("a", "intent = 'x'\n[maker]\ntools = ['grep', 'fly']", "maker.tools[1]", "'fly' is no tool"),
    ("a", "intent = 'x'\ngate = 'policy'\npolicies = 'rules.toml'", "policies", "there is no 'rules.toml'"),
]


@pytest.mark.parametrize(("name", "text", "key", "words"), BAD_HERE)
def test_a_loop_of_a_repository_can_be_run_as_it_stands(
    tmp_path: Path, name: str, text: str, key: str, words: str
) -> None:
    path = tmp_path / ".placet" / "loops" / f"{name}.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)

    with pytest.raises(PolicyFileError) as caught:
        loops_of(tmp_path)

    assert f"{path}, key '{key}'" in str(caught.value)
    assert words in str(caught.value)


def test_a_loop_whose_rules_are_there_is_read(tmp_path: Path) -> None:
    path = tmp_path / ".placet" / "loops" / "a.toml"
    path.parent.mkdir(parents=True)
    (tmp_path / "rules.toml").touch()
    path.write_text("intent = 'x'\nname = 'a'\ngate = 'policy'\npolicies = 'rules.toml'")

    assert list(loops_of(tmp_path)) == ["a"]


def test_the_names_of_basic_tools_are_all_there_are(tmp_path: Path) -> None:
    assert tuple(tool.name for tool in basic_tools(tmp_path)) == BASIC
