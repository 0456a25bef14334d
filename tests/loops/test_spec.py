"""Loop files are read strictly: the file and the key in every error, and nothing half-read."""

from __future__ import annotations

import pytest

from assent.errors import PolicyFileError, UsageError
from assent.loops.spec import LoopSpec, read_loop

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
