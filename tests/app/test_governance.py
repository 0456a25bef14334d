"""What governs a run: everybody's rules at once, and what loosens only after a person has trusted it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from placet.app.governance import Governance, Question, examine, gather
from placet.app.trust import record_file, snapshot, trust, trusted_folders
from placet.errors import PolicyFileError, TrustError
from placet.policy.permission import POSTURES, Permissions, Posture
from placet.policy.rule import DenyTool

Write = Callable[..., Path]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return to


def rule(name: str, tool: str = "*") -> str:
    return f'[[rule]]\nname = "{name}"\nkind = "deny_tool"\ntool = "{tool}"\n'


def no(question: Question) -> bool:
    return False


def yes(question: Question) -> bool:
    return True


def never(question: Question) -> bool:
    raise AssertionError(f"nobody should have been asked: {question}")


def names(governance: Governance) -> list[str]:
    return [name for name, _ in governance.policies]


def source(governance: Governance) -> bytes | None:
    return governance.tools_source.source if governance.tools_source is not None else None


# Rules


def test_without_anything_nothing_governs(tmp_path: Path, env: dict[str, str]) -> None:
    assert gather(tmp_path, env, confirm=never) == Governance(folder=tmp_path, policies=[], policy_files=[])
    assert list(tmp_path.iterdir()) == []


def test_rules_come_from_the_person_then_from_the_outermost_project_inwards_then_by_name(
    tmp_path: Path, env: dict[str, str], write: Write
) -> None:
    write("config/placet/policies/b.toml", rule("mine-2"))
    write("config/placet/policies/a.toml", rule("mine-1"))
    write("outer/.placet/policies/a.toml", rule("outer"))
    write("outer/inner/.placet/policies/a.toml", rule("inner"))
    write("outer/inner/.placet/policies/notes.txt", "{{{")
    write("outer/inner/.placet/policies/below/README.md", "{{{")
    write("config/placet/policies/below/README.md", "{{{")
    named = write("named.toml", rule("named"))
    start = tmp_path / "outer" / "inner" / "deep"
    start.mkdir()

    found = gather(start, env, policies=str(named), confirm=never)

    assert names(found) == ["mine-1", "mine-2", "outer", "inner", "named"]
    assert [(where, [path.name for path, _ in files]) for where, files in found.policy_files] == [
        ("user", ["a.toml", "b.toml"]),
        (f"project {tmp_path / 'outer'}", ["a.toml"]),
        ("project", ["a.toml"]),
        ("--policies", ["named.toml"]),
    ]
    assert found.policy_files[-1][1] == [(named, named.read_bytes())]
    assert found.folder == tmp_path / "outer" / "inner"
    assert found.permissions is None


def test_without_xdg_the_persons_folder_is_in_their_home(tmp_path: Path, write: Write) -> None:
    write("home/.config/placet/policies/a.toml", rule("mine"))

    assert names(gather(tmp_path / "x", {"HOME": str(tmp_path / "home")})) == ["mine"]


def test_no_rule_takes_the_place_of_another(tmp_path: Path, env: dict[str, str], write: Write) -> None:
    write("config/placet/policies/a.toml", rule("x", "user") + rule("own") + rule("x (project)", "trap"))
    write("outer/.placet/policies/a.toml", rule("x", "outer"))
    write("outer/inner/.placet/policies/a.toml", rule("x", "inner"))
    named = write("named.toml", rule("x", "named"))

    found = gather(tmp_path / "outer" / "inner", env, policies=str(named))

    assert found.policies == [
        ("x (user)", DenyTool(tool="user")),
        ("own", DenyTool(tool="*")),
        ("x (project)", DenyTool(tool="trap")),
        (f"x (project {tmp_path / 'outer'})", DenyTool(tool="outer")),
        ("x (project) (project)", DenyTool(tool="inner")),
        ("x (--policies)", DenyTool(tool="named")),
    ]


def test_a_name_twice_in_one_folder_is_an_error(tmp_path: Path, env: dict[str, str], write: Write) -> None:
    write(".placet/policies/a.toml", rule("x"))
    second = write(".placet/policies/b.toml", rule("x"))

    with pytest.raises(PolicyFileError, match="the name 'x' is taken") as caught:
        gather(tmp_path, env)

    assert caught.value.path == str(second)


@pytest.mark.parametrize("named", [".placet/policies", ".placet/policies/a.toml", "link"])
def test_rules_that_are_found_and_named_count_once(
    tmp_path: Path, env: dict[str, str], write: Write, named: str
) -> None:
    write(".placet/policies/a.toml", rule("x"))
    (tmp_path / "link").symlink_to(tmp_path / ".placet" / "policies")

    assert names(gather(tmp_path, env, policies=str(tmp_path / named))) == ["x"]


@pytest.mark.parametrize(
    "place", ["config/placet/policies", "p/.placet/policies", "p/q/.placet/policies", "named"]
)
def test_a_malformed_file_anywhere_stops_the_start(
    tmp_path: Path, env: dict[str, str], write: Write, place: str
) -> None:
    bad = write(f"{place}/bad.toml", '[[rule]]\nname = "x"\nkind = "deny_tool"\ntol = "y"\n')
    (tmp_path / "p" / "q").mkdir(parents=True, exist_ok=True)
    named = str(tmp_path / "named") if place == "named" else None

    with pytest.raises(PolicyFileError, match="Did you mean 'tool'") as caught:
        gather(tmp_path / "p" / "q", env, policies=named)

    assert (caught.value.path, caught.value.key) == (str(bad), "rule[0].tol")


def test_cases_need_rules_beside_them(tmp_path: Path, env: dict[str, str], write: Write) -> None:
    cases = write(".placet/policies/cases.toml", '[[case]]\nname = "c"\n')
    with pytest.raises(PolicyFileError, match="there is no rule for them") as caught:
        gather(tmp_path, env)
    assert caught.value.path == str(cases)

    write(".placet/policies/rules.toml", rule("x"))

    assert names(gather(tmp_path, env)) == ["x"]


def test_a_link_among_a_projects_rules_is_refused(tmp_path: Path, env: dict[str, str], write: Write) -> None:
    write("outer/.placet/policies/a.toml", rule("x"))
    inner = tmp_path / "outer" / "inner" / ".placet"
    inner.mkdir(parents=True)
    (inner / "policies").symlink_to(tmp_path / "outer" / ".placet" / "policies")

    with pytest.raises(TrustError, match=r"inner/\.placet/policies is a link"):
        gather(tmp_path / "outer" / "inner", env)


def test_a_person_may_link_their_own_rules(tmp_path: Path, env: dict[str, str], write: Write) -> None:
    write("dotfiles/policies/a.toml", rule("x"))
    write("dotfiles/settings.toml", '[permissions]\nposture = "cautious"\n')
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "placet").symlink_to(tmp_path / "dotfiles")

    found = gather(tmp_path, env)

    assert names(found) == ["x"]
    assert found.permissions == Permissions(standing=POSTURES["cautious"])


# What would be passed over

UNREAD = {
    "policies/X.TOML": "X.TOML: it would not be read for its name. Let its name end in .toml",
    "policies/.toml": "/.toml: it would not be read for its name",
    "policies/strict/a.toml": "policies/strict/a.toml: it would not be read: it lies too deep. Move it to ",
    "policies/strict/er/a.TOML": "policies/strict/er/a.TOML: it would not be read: it lies too deep",
    "policies": "policies: it is no folder. Put rules into files ",
    "policies.toml": "policies.toml: it would not be read. Put rules into files ",
    "Policies/a.toml": "Policies: it would not be read. Put rules into files ",
    "Settings.toml": "Settings.toml: it would not be read. Call it ",
}


@pytest.mark.parametrize("is_trusted", [False, True], ids=["plain", "with settings"])
@pytest.mark.parametrize("place", ["config/placet", "p/.placet", "p/q/.placet"])
@pytest.mark.parametrize("name", UNREAD)
def test_what_looks_like_rules_and_would_not_be_read_is_an_error(
    tmp_path: Path, env: dict[str, str], write: Write, place: str, name: str, is_trusted: bool
) -> None:
    (tmp_path / "p" / "q" / ".placet").mkdir(parents=True)
    if is_trusted:
        write(f"{place}/settings.toml", CAUTIOUS)
    write(f"{place}/{name}", rule("x"))

    with pytest.raises(PolicyFileError) as caught:
        gather(tmp_path / "p" / "q", env, confirm=yes)

    assert UNREAD[name] in str(caught.value)
    assert caught.value.path.startswith(str(tmp_path / place))


def test_a_link_that_leads_nowhere_is_no_place_for_rules(
    tmp_path: Path, env: dict[str, str], write: Write
) -> None:
    own, theirs = (tmp_path / name / "policies" for name in ("config/placet", "p/.placet"))
    for link in (own, theirs):
        link.parent.mkdir(parents=True)
        link.symlink_to("nowhere")

    with pytest.raises(TrustError, match=r"p/\.placet/policies is a link"):
        gather(tmp_path / "p", env)
    with pytest.raises(PolicyFileError, match=r"config/placet/policies: it is no folder"):
        gather(tmp_path, env)


@pytest.mark.parametrize("kind", ["file", "link"])
def test_an_placet_that_is_no_folder_is_an_error(tmp_path: Path, env: dict[str, str], kind: str) -> None:
    project = tmp_path / "p" / ".placet"
    project.parent.mkdir()
    if kind == "file":
        project.write_text(rule("x"))
    else:
        project.symlink_to("nowhere")

    with pytest.raises(TrustError, match=r"p/\.placet is no folder.*take it away"):
        gather(tmp_path / "p" / "deep", env)


# Trust

TOOLS = 'tools = "tools.py"\n'
MILD = '[permissions]\nposture = "trusting"\n'
CAUTIOUS = '[permissions]\nposture = "cautious"\n'


@pytest.fixture
def project(tmp_path: Path, write: Write) -> Path:
    """A project that brings code and a rule."""
    write("p/.placet/settings.toml", TOOLS)
    write("p/.placet/tools.py", "print('mine')")
    write("p/.placet/policies/a.toml", rule("x"))
    return tmp_path / "p"


def test_code_without_trust_is_refused_with_the_command_to_type(
    tmp_path: Path, env: dict[str, str], write: Write
) -> None:
    write("a project/.placet/settings.toml", TOOLS)
    write("a project/.placet/tools.py", "")

    with pytest.raises(TrustError) as caught:
        gather(tmp_path / "a project", env)

    folder = tmp_path / "a project"
    assert caught.value.path == str(folder)
    assert str(caught.value) == (
        f"{folder} is not trusted, and it runs code from .placet/tools.py. "
        f"Look at its .placet folder, then type: placet trust '{folder}'"
    )
    assert not record_file(env).exists()


def test_yes_is_asked_once_and_remembered(project: Path, env: dict[str, str]) -> None:
    asked: list[Question] = []

    def confirm(question: Question) -> bool:
        asked.append(question)
        return True

    for again in (confirm, never, None):
        found = gather(project / "not" / "yet", env, confirm=again)

        assert found.tools == str(project / ".placet" / "tools.py")
        assert source(found) == b"print('mine')"
        assert found.tools_sha256 == sha256(b"print('mine')").hexdigest()
        assert names(found) == ["x"]

    [question] = asked
    assert question.folder == project
    assert question.wants == ("runs code from .placet/tools.py",)
    assert list(question.seen.files) == ["policies/a.toml", "settings.toml", "tools.py"]
    assert not question.is_changed


def test_no_goes_on_without_the_code_and_with_the_rules_and_is_not_remembered(
    project: Path, env: dict[str, str]
) -> None:
    found = gather(project, env, confirm=no)

    assert (found.tools, found.tools_source, found.tools_sha256) == (None, None, None)
    assert found.permissions is None
    assert names(found) == ["x"]
    assert trusted_folders(env) == {}


def test_a_change_asks_again_and_says_so(project: Path, env: dict[str, str]) -> None:
    gather(project, env, confirm=yes)
    (project / ".placet" / "tools.py").write_text("print('another')")

    with pytest.raises(TrustError, match="has changed since you trusted it, and it runs code"):
        gather(project, env)

    asked: list[bool] = []
    found = gather(project, env, confirm=lambda question: not asked.append(question.is_changed))
    assert asked == [True]
    assert source(found) == b"print('another')"
    assert source(gather(project, env)) == b"print('another')"


def test_what_was_shown_is_what_takes_effect(project: Path, env: dict[str, str]) -> None:
    """Somebody writes into the folder while the person thinks."""

    def confirm(question: Question) -> bool:
        (project / ".placet" / "tools.py").write_text("print('evil')")
        (project / ".placet" / "settings.toml").write_text('tools = "other.py"')
        (project / ".placet" / "policies" / "a.toml").unlink()
        return True

    found = gather(project, env, confirm=confirm)

    assert source(found) == b"print('mine')"
    assert found.tools == str(project / ".placet" / "tools.py")
    assert found.policies == [("x", DenyTool(tool="*"))]
    (project / ".placet" / "settings.toml").write_text(TOOLS)
    with pytest.raises(TrustError, match="has changed since you trusted it"):
        gather(project, env)


def test_tools_that_a_person_names_need_no_trust(project: Path, env: dict[str, str]) -> None:
    found = gather(project, env, tools="mine.py", confirm=never)

    assert (found.tools, found.tools_source) == ("mine.py", None)


def test_tools_that_are_not_there_are_named(project: Path, env: dict[str, str]) -> None:
    (project / ".placet" / "tools.py").unlink()

    with pytest.raises(PolicyFileError, match=r"key 'tools': there is no file .*tools\.py.*drop the key"):
        gather(project, env, confirm=never)


def test_a_link_in_a_project_that_wants_something_is_refused(
    project: Path, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "outside.py").write_text("")
    (project / ".placet" / "tools.py").unlink()
    (project / ".placet" / "tools.py").symlink_to(tmp_path / "outside.py")

    with pytest.raises(TrustError, match=r"tools\.py is a link"):
        gather(project, env, confirm=yes)


def test_a_damaged_record_stops_the_start_where_trust_is_needed(project: Path, env: dict[str, str]) -> None:
    trust(snapshot(project), env)
    record_file(env).write_text("{")

    with pytest.raises(TrustError, match=r"trust\.json is damaged"):
        gather(project, env, confirm=never)

    assert gather(project, env, tools="mine.py", confirm=never).tools == "mine.py"


# Permissions


def test_a_stricter_project_applies_at_once(tmp_path: Path, env: dict[str, str], write: Write) -> None:
    write("p/.placet/settings.toml", CAUTIOUS + '[permissions.agents.bot]\nread_only = "deny"\n')

    found = gather(tmp_path / "p", env, confirm=never)

    assert found.permissions == Permissions(
        standing=POSTURES["cautious"],
        agents={"bot": Posture(read_only="deny", sandbox_edit="ask", full_access="deny")},
    )


LOOSENING = {
    "for everyone": (
        CAUTIOUS,
        MILD,
        "lowers what needs asking: sandbox_edit from ask to allow, full_access from deny to allow",
    ),
    "from deny to ask": (
        CAUTIOUS,
        '[permissions]\nfull_access = "ask"',
        "lowers what needs asking: full_access from deny to ask",
    ),
    "stricter in one and milder in another": (
        '[permissions]\nposture = "balanced"',
        '[permissions]\nread_only = "ask"\nfull_access = "allow"',
        "lowers what needs asking: full_access from ask to allow",
    ),
    "for an agent that had none": (
        CAUTIOUS,
        '[permissions.agents.bot]\nposture = "trusting"',
        "lowers what needs asking: agent 'bot': sandbox_edit from ask to allow, "
        "agent 'bot': full_access from deny to allow",
    ),
    "for an agent that the person keeps shorter": (
        '[permissions.agents.bot]\nposture = "cautious"',
        '[permissions.agents.bot]\nfull_access = "ask"',
        "lowers what needs asking: agent 'bot': full_access from deny to ask",
    ),
}


@pytest.mark.parametrize("case", LOOSENING)
def test_a_milder_project_needs_trust(tmp_path: Path, env: dict[str, str], write: Write, case: str) -> None:
    own, wanted, words = LOOSENING[case]
    write("config/placet/settings.toml", own)
    write("p/.placet/settings.toml", wanted)
    before = gather(tmp_path, env).permissions
    assert before is not None

    with pytest.raises(TrustError) as caught:
        gather(tmp_path / "p", env)
    assert f"is not trusted, and it {words}. Look at" in str(caught.value)

    refused = gather(tmp_path / "p", env, confirm=no).permissions
    agreed = gather(tmp_path / "p", env, confirm=yes).permissions

    assert refused is not None
    assert agreed is not None
    for caller in (None, "bot", "another"):
        both = before.posture(caller).tightened(agreed.posture(caller))
        assert refused.posture(caller) == both
    assert any(refused.posture(c) != agreed.posture(c) for c in (None, "bot"))


def test_no_keeps_what_is_stricter(tmp_path: Path, env: dict[str, str], write: Write) -> None:
    write("config/placet/settings.toml", '[permissions]\nposture = "balanced"')
    write("p/.placet/settings.toml", '[permissions]\nread_only = "ask"\nfull_access = "allow"')

    found = gather(tmp_path / "p", env, confirm=no)

    assert found.permissions == Permissions(
        standing=Posture(read_only="ask", sandbox_edit="allow", full_access="ask")
    )


def test_a_project_cannot_loosen_by_saying_nothing_about_an_agent(
    tmp_path: Path, env: dict[str, str], write: Write
) -> None:
    write("config/placet/settings.toml", '[permissions.agents.bot]\nposture = "cautious"')
    write("p/.placet/settings.toml", '[permissions]\nread_only = "ask"')

    found = gather(tmp_path / "p", env, confirm=never)

    assert found.permissions is not None
    assert found.permissions.posture("bot") == POSTURES["cautious"]
    assert found.permissions.posture(None).read_only == "ask"


OUTER = {
    "an empty one": "",
    "one that says less": '[permissions]\nread_only = "allow"\n',
    "one that says the opposite": MILD,
    "one that raises an agent": '[permissions.agents.bot]\nposture = "trusting"\n',
}


@pytest.mark.parametrize("case", OUTER)
def test_a_project_inside_takes_no_strictness_away(
    tmp_path: Path, env: dict[str, str], write: Write, case: str
) -> None:
    write("outer/.placet/settings.toml", 'tools = "nowhere.py"\n' + CAUTIOUS)
    write("outer/between/.placet/settings.toml", '[permissions]\nread_only = "ask"\n')
    write("outer/between/inner/.placet/settings.toml", OUTER[case])

    found = gather(tmp_path / "outer" / "between" / "inner", env, confirm=never)

    assert found.permissions is not None
    for caller in (None, "bot"):
        posture = found.permissions.posture(caller)
        assert posture == Posture(read_only="ask", sandbox_edit="ask", full_access="deny")
    assert found.tools is None
    assert found.folder == tmp_path / "outer" / "between" / "inner"


def test_an_outer_project_loosens_nothing_even_if_it_is_trusted(
    tmp_path: Path, env: dict[str, str], write: Write
) -> None:
    write("config/placet/settings.toml", CAUTIOUS)
    write("outer/.placet/settings.toml", MILD + '[permissions.agents.bot]\nposture = "trusting"\n')
    (tmp_path / "outer" / "inner" / ".placet").mkdir(parents=True)
    gather(tmp_path / "outer", env, confirm=yes)

    found = gather(tmp_path / "outer" / "inner", env, confirm=never)

    assert found.permissions is not None
    for caller in (None, "bot"):
        assert found.permissions.posture(caller) == POSTURES["cautious"]


def test_what_an_outer_project_says_has_to_mean_something(
    tmp_path: Path, env: dict[str, str], write: Write
) -> None:
    write("outer/.placet/settings.toml", "not even TOML {{{")
    (tmp_path / "outer" / "inner" / ".placet").mkdir(parents=True)

    with pytest.raises(
        PolicyFileError, match=r"Settings file .*outer/\.placet/settings\.toml: it is not TOML"
    ):
        gather(tmp_path / "outer" / "inner", env)


def test_trusting_a_project_does_not_trust_the_one_inside_it(
    tmp_path: Path, env: dict[str, str], write: Write
) -> None:
    for folder in ("outer", "outer/inner"):
        write(f"{folder}/.placet/settings.toml", TOOLS)
        write(f"{folder}/.placet/tools.py", "")
    gather(tmp_path / "outer", env, confirm=yes)

    with pytest.raises(TrustError, match=r"inner is not trusted"):
        gather(tmp_path / "outer" / "inner", env)


# Looking


def test_examining_tells_all_and_remembers_nothing(project: Path, env: dict[str, str], write: Write) -> None:
    write("config/placet/settings.toml", CAUTIOUS)
    write("p/.placet/settings.toml", TOOLS + MILD)

    question = examine(project, env)

    assert question.wants == (
        "runs code from .placet/tools.py",
        "lowers what needs asking: sandbox_edit from ask to allow, full_access from deny to allow",
    )
    assert not question.is_changed
    assert trusted_folders(env) == {}


@pytest.mark.parametrize("name", ["settings.toml", "policies/a.toml", "policies/b.TOML", "policies.toml"])
def test_what_is_malformed_cannot_be_trusted(
    project: Path, env: dict[str, str], write: Write, name: str
) -> None:
    bad = write(f"p/.placet/{name}", "zzz = 1")

    with pytest.raises(PolicyFileError) as caught:
        examine(project, env)

    assert caught.value.path == str(bad)
