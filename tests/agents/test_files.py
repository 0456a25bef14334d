"""Agents in files: read strictly, written back, switched on and off in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.agents.files import agent_schema, checked_text, read_agent, with_enabled
from placet.agents.spec import AgentLimits, AgentSpec, Exchange, Goal, Scenario, problems
from placet.errors import PolicyFileError

ROOT = Path(__file__).resolve().parents[2]
OK = 'identity = "You answer."\n'

BROKEN = {
    "no TOML": ("identity = ", None, "not TOML"),
    "no text": (b"\xff\xfe", None, "not UTF-8"),
    "no identity": ("name = 'x'", "identity", "missing"),
    "an empty identity": ("identity = ' '", "identity", "empty"),
    "an unknown key": (OK + "tols = []", "tols", "Did you mean 'tools'"),
    "an unknown key of a goal": (OK + "[goal]\ncheck='x'\nmax=3", "goal.max", "no key of a goal"),
    "an unknown key of limits": (OK + "[limits]\nturn=3", "limits.turn", "Did you mean 'turns'"),
    "an unknown key of a scenario": (
        OK + "[[scenarios]]\ninput='x'\nexpects='y'",
        "scenarios[0].expects",
        "Did you mean 'expect'",
    ),
    "an unknown key of a turn": (
        OK + "[[scenarios]]\n[[scenarios.turns]]\ninput='x'\nexpekt='y'",
        "scenarios[0].turns[0].expekt",
        "Did you mean 'expect'",
    ),
    "a number as identity": ("identity = 3", "identity", "expected a text"),
    "a text as tools": (OK + "tools = 'shell'", "tools", "expected a list"),
    "a number among tools": (OK + "tools = ['a', 1]", "tools[1]", "expected a text"),
    "a pattern as tool": (OK + "tools = ['read*']", "tools[0]", "pattern"),
    "a tool twice": (OK + "tools = ['a', 'a']", "tools[1]", "twice"),
    "a tool with a space": (OK + "tools = ['a ']", "tools[0]", "spaces"),
    "a hidden character": (OK + "denied_tools = ['a\u200bb']", "denied_tools[0]", "hidden"),
    "another id": ("id = 'b'\n" + OK, "id", "name of the file"),
    "a date": (OK + "name = 2020-01-01", "name", "date"),
    "no turns": (OK + "[limits]\nturns = 0", "limits.turns", "above 0"),
    "turns as text": (OK + "[limits]\nturns = 'a'", "limits.turns", "whole number"),
    "a check for no number of seconds": (
        OK + "[goal]\ncheck = 'x'\ntimeout_s = nan",
        "goal.timeout_s",
        "nan is no JSON number. Write a finite number.",
    ),
    "a goal without check": (OK + "[goal]\nmax_iterations = 2", "goal.check", "missing"),
    "an empty check": (OK + "[goal]\ncheck = ''", "goal.check", "empty"),
    "a check that hides something": (OK + '[goal]\ncheck = "a\\u202eb"', "goal.check", "sees"),
    "no iterations": (OK + "[goal]\ncheck = 'x'\nmax_iterations = 0", "goal.max_iterations", "from 1"),
    "no time": (OK + "[goal]\ncheck = 'x'\ntimeout_s = 0", "goal.timeout_s", "above 0"),
    "enabled as text": (OK + "enabled = 'yes'", "enabled", "true or false"),
    "scenarios as number": (OK + "scenarios = 3", "scenarios", "expected a list"),
    "nothing expected": (OK + "[[scenarios]]\ninput = 'x'", "scenarios[0]", "could not fail"),
    "an empty expect": (OK + "[[scenarios]]\ninput='x'\nexpect=' '", "scenarios[0].expect", "empty"),
    "no input": (OK + "[[scenarios]]\nexpect='x'", "scenarios[0].input", "empty"),
    "a broken regex": (OK + "[[scenarios]]\ninput='x'\nregex='('", "scenarios[0].regex", "regular"),
    "a regex for all": (OK + "[[scenarios]]\ninput='x'\nregex='a*'", "scenarios[0].regex", "every"),
    "a broken path": (OK + "[[scenarios]]\ninput='x'\njson={'a b'=1}", "scenarios[0].json", ""),
    "a name twice": (
        OK + "[[scenarios]]\nname='n'\ninput='x'\nexpect='y'\n" * 2,
        "scenarios[1].name",
        "another",
    ),
    "a file outside": (
        OK + "[[scenarios]]\ninput='x'\nexpect='y'\nfiles={'../a'='x'}",
        "scenarios[0].files",
        "no path",
    ),
    "called and not": (
        OK + "[[scenarios]]\ninput='x'\ncalled=['a']\nnot_called=['a']",
        "scenarios[0].not_called",
        "as well",
    ),
}

_SCENARIO = "[[scenarios]]\ninput = 'a'\nexpect = 'b'\n"


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_with_file_and_key(what: str) -> None:
    text, key, words = BROKEN[what]

    with pytest.raises(PolicyFileError) as caught:
        read_agent(text if isinstance(text, bytes) else text.encode(), "agents/a.toml")

    assert caught.value.path == "agents/a.toml"
    assert caught.value.key == key
    assert words in str(caught.value)
    assert not str(caught.value).endswith("..")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("You answer.", "does not begin with front matter"),
        ("---\nname: x\n---\nYou.", "YAML"),
        ("+++\nname = 'x'\n", "does not end"),
        ("+++\nidentity = 'x'\n+++\nYou.", "Take the key out"),
        ("+++\n+++\n", "empty"),
        ("+++\n\nname = x\n+++\nYou.", "line 3"),
    ],
)
def test_broken_markdown_is_refused(text: str, words: str) -> None:
    with pytest.raises(PolicyFileError, match=words):
        read_agent(text.encode(), "a.md")


def test_the_text_of_markdown_is_the_identity() -> None:
    spec = read_agent(b"+++\ntools = ['read_file']\n+++\n\n# Reader\n\nYou read.\n", "a.md")

    assert (spec.id, spec.identity, spec.tools) == ("a", "# Reader\n\nYou read.", ("read_file",))


def test_defaults_are_twelve_turns_of_2048_tokens() -> None:
    spec = read_agent(OK.encode(), "a.toml")

    assert (spec.limits.turns, spec.limits.answer_tokens, spec.enabled) == (12, 2048, True)


def test_other_kinds_of_files_are_no_agents() -> None:
    with pytest.raises(PolicyFileError, match="neither TOML nor Markdown"):
        read_agent(OK.encode(), "a.yaml")


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), max_size=20)
filled = words.map(lambda text: f"x{text}".strip())
broken = st.sampled_from(["+++", "+++ ", "---", "", " x ", '"""', "\\", "enabled = true", "\ufeff"])
ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
long = st.builds(lambda lines, end: end.join(lines), st.lists(filled | broken, min_size=1, max_size=4), ends)
plain = st.lists(filled, min_size=1, max_size=3).map("\n".join)
names = st.lists(st.sampled_from(["read_file", "shell", "café", "a.b"]), unique=True).map(tuple)
values = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
exchanges = st.builds(Exchange, input=long, expect=filled, called=names)
turns = st.lists(exchanges, min_size=1, max_size=2).map(tuple)
files = st.just({"a/b.txt": 'x\n"""y\\'})
scenarios = st.builds(Scenario, input=long, expect=filled, files=files) | st.builds(
    Scenario, turns=turns, regex=st.just("x+")
)
specs = st.builds(
    AgentSpec,
    id=st.just("a"),
    identity=long,
    description=filled,
    tools=names,
    denied_tools=names,
    standing_goal=long,
    goal=st.none() | st.builds(Goal, check=plain, max_iterations=st.integers(1, 9)),
    model=st.none() | st.just("local"),
    limits=st.builds(AgentLimits, turns=st.integers(1, 9), cost_usd=st.none() | st.just(0.5)),
    enabled=st.booleans(),
    scenarios=st.lists(scenarios, max_size=2).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(specs, st.sampled_from([".toml", ".md"]), values)
def test_what_is_written_reads_back_as_the_same(spec: AgentSpec, suffix: str, value: object) -> None:
    spec = msgspec.structs.replace(
        spec, scenarios=(*spec.scenarios, Scenario(input="x", json={"$['a b'].c": value}))
    )
    if problems(spec):
        return

    text = checked_text(spec, suffix)

    assert read_agent(text.encode(), f"a{suffix}") == spec
    assert read_agent(with_enabled(text, f"a{suffix}", not spec.enabled).encode(), f"a{suffix}") == (
        msgspec.structs.replace(spec, enabled=not spec.enabled)
    )


def test_switching_changes_one_line() -> None:
    text = '# mine\nidentity = """\nenabled = true\n"""\nenabled = true  # for now\n\n[limits]\nturns = 3\n'

    off = with_enabled(text, "a.toml", False)

    assert off == text.replace("enabled = true  # for now", "enabled = false  # for now")


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("line", ["", '"enabled" =true # on\r\n'])
@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a.toml", ("", "# mine\r\nidentity = 'x' # me\r\n")),
        ("a.md", ("+++\r\n", "# mine\r\n+++\r\nYou.\r\n")),
    ],
)
def test_switching_keeps_comments_ends_of_lines_and_the_mark_at_the_beginning(
    bom: str, line: str, path: str, parts: tuple[str, str]
) -> None:
    first, rest = parts

    off = with_enabled(f"{bom}{first}{line}{rest}", path, False)

    wanted = line.replace("true", "false") if line else "enabled = false\r\n"
    assert off == f"{bom}{first}{wanted}{rest}"


def test_markdown_may_have_the_identity_in_front_where_there_is_no_text() -> None:
    assert read_agent(b"+++\nidentity = ' x\\r\\n'\n+++\n\n", "a.md").identity == " x\\r\\n"


def test_the_schema_is_published_and_agrees_with_the_reader() -> None:
    published = json.loads((ROOT / "docs/reference/agent.schema.json").read_text())
    validator = jsonschema_rs.validator_for(published)

    assert published == agent_schema()
    assert validator.is_valid({"identity": "x", "scenarios": [{"input": "a", "expect": "b"}]})
    assert not validator.is_valid({"identity": "x", "tols": []})
    assert not validator.is_valid({"identity": 3})


@pytest.mark.parametrize("path", sorted((ROOT / "examples/agents").iterdir()), ids=lambda path: path.name)
def test_the_example_agents_can_be_used_and_have_scenarios(path: Path) -> None:
    assert len(read_agent(path.read_bytes(), str(path)).scenarios) >= 2


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[limits]\ncall_s = 1e308", "limits.call_s"),
        ("[limits]\ntime_s = 1e308", "limits.time_s"),
        (f"[limits]\ncost_usd = 1{'0' * 400}", "limits.cost_usd"),
        (f"{_SCENARIO}files = {{ 'a' = '1', 'a/b' = '2' }}", "scenarios[0].files"),
        (f"{_SCENARIO}files = {{ '{'a' * 300}' = '1' }}", "scenarios[0].files"),
        (f"{_SCENARIO}files = {{ '{'a/' * 900}b' = '1' }}", "scenarios[0].files"),
    ],
)
def test_what_no_machine_could_do_is_refused_with_its_key(text: str, key: str) -> None:
    with pytest.raises(PolicyFileError, match=re.escape(f"key '{key}'")):
        read_agent(f'identity = "x"\n{text}'.encode(), "a.toml")


@pytest.mark.parametrize(
    ("agent", "key"),
    [
        (AgentSpec(id="a", identity="x\udcff"), "identity"),
        (AgentSpec(id="a", identity="x", standing_goal="\ud800"), "standing_goal"),
        (
            AgentSpec(id="a", identity="x", scenarios=(Scenario(input="\ud800", expect="b"),)),
            "scenarios[0].input",
        ),
        (
            AgentSpec(id="a", identity="x", scenarios=(Scenario(input="a", json={"$": ["\udfff"]}),)),
            "scenarios[0].json.$[0]",
        ),
    ],
)
def test_a_text_that_no_file_can_hold_is_a_problem_of_its_key(agent: AgentSpec, key: str) -> None:
    assert key in [problem.key for problem in problems(agent)]
