"""Settings files are read strictly, and what they leave out stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.app.settings import Settings, parse_settings
from placet.errors import PolicyFileError
from placet.policy.permission import POSTURES, Permissions, Posture

FILE = Path("/p/.placet/settings.toml")


def parse(text: str | bytes, *, of_project: bool = True) -> Settings:
    return parse_settings(FILE, text if isinstance(text, bytes) else text.encode(), of_project=of_project)


def test_an_empty_file_wants_nothing() -> None:
    settings = parse("")

    assert not settings.has_permissions
    assert settings.tools is None
    given = Permissions(standing=POSTURES["cautious"], agents={"a": POSTURES["trusting"]})
    assert settings.over(given) == given


def test_everything_at_once() -> None:
    settings = parse(
        """
        tools = "lib/tools.py"
        [permissions]
        tier = "sandbox_edit"
        [permissions.agents.nightly]
        posture = "cautious"
        full_access = "ask"
        [permissions.agents."two words"]
        read_only = "deny"
        """
    )

    assert settings.tools == "lib/tools.py"
    assert settings.over(Permissions()) == Permissions(
        standing=Posture(read_only="allow", sandbox_edit="allow", full_access="ask"),
        agents={
            "nightly": Posture(read_only="allow", sandbox_edit="ask", full_access="ask"),
            # Who names no posture starts from what holds for everyone.
            "two words": Posture(read_only="deny", sandbox_edit="allow", full_access="ask"),
        },
    )


def test_single_answers_change_only_their_own_tier() -> None:
    settings = parse('[permissions]\nfull_access = "deny"\n[permissions.agents.a]\nsandbox_edit = "ask"')
    given = Permissions(standing=POSTURES["balanced"], agents={"a": POSTURES["cautious"], "b": Posture()})

    assert settings.over(given) == Permissions(
        standing=Posture(sandbox_edit="allow", full_access="deny"),
        agents={"a": Posture(sandbox_edit="ask", full_access="deny"), "b": Posture()},
    )


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ('tool = "x.py"', "tool", "'tool' is no key of the settings. Did you mean 'tools'?"),
        ("zzz = 1", "zzz", "The settings may have 'tools', 'permissions', 'isolation'."),
        (
            "tools = 3",
            "tools",
            "expected a text, got an integer. Name a file in the same folder, such",
        ),
        ('tools = ""', "tools", "it is empty. Name a file"),
        ('tools = "/etc/x.py"', "tools", "it leads out of the .placet folder. Name a file"),
        ('tools = "../x.py"', "tools", "it leads out of the .placet folder."),
        ('tools = "a/../../x.py"', "tools", "it leads out of the .placet folder."),
        ('tools = "~/x.py"', "tools", "it leads out of the .placet folder."),
        ('tools = "data/x.py"', "tools", "what lies in data is not looked at"),
        ('tools = "./data/x.py"', "tools", "what lies in data is not looked at"),
        ('tools = "x.sh"', "tools", "it is neither a Python file nor a TOML file."),
        (
            "permissions = 1",
            "permissions",
            "expected a table, got an integer. Begin it with a line [permissions]",
        ),
        ("[[permissions]]", "permissions", "expected a table, got an array"),
        ('[permissions]\nteir = "x"', "permissions.teir", "no key of [permissions]. Did you mean 'tier'?"),
        (
            "[permissions]\nzzz = 1",
            "permissions.zzz",
            "[permissions] may have 'tier', 'posture', 'read_only'",
        ),
        (
            '[permissions]\ntier = "sandbox"',
            "permissions.tier",
            "'sandbox' is no tier. Did you mean 'sandbox_edit'?",
        ),
        ('[permissions]\ntier = "balanced"', "permissions.tier", "Choose one of 'read_only', 'sandbox_edit'"),
        ("[permissions]\ntier = true", "permissions.tier", "expected a text, got a boolean. Choose one of"),
        (
            '[permissions]\nposture = "brave"',
            "permissions.posture",
            "Choose one of 'cautious', 'balanced', 'trusting'.",
        ),
        ('[permissions]\nposture = "trustin"', "permissions.posture", "Did you mean 'trusting'?"),
        ('[permissions]\nposture = "full_access"', "permissions.posture", "'full_access' is no posture."),
        (
            '[permissions]\nposture = "balanced"\ntier = "read_only"',
            "permissions.posture",
            "'tier' and 'posture' both say what is allowed. Keep one of the two.",
        ),
        (
            '[permissions]\nfull_access = "no"',
            "permissions.full_access",
            "'no' is no answer. Choose one of 'allow', 'ask'",
        ),
        ("[permissions]\nfull_access = false", "permissions.full_access", "expected a text, got a boolean"),
        (
            "[permissions]\nagents = 1",
            "permissions.agents",
            "Begin each with a line [permissions.agents.NAME].",
        ),
        (
            "[permissions.agents]\nnightly = 1",
            "permissions.agents.nightly",
            "expected a table, got an integer",
        ),
        ('[permissions.agents.""]', "permissions.agents.", "an agent has no name"),
        (
            '[permissions.agents.nightly]\npostur = "cautious"',
            "permissions.agents.nightly.postur",
            "no key of [permissions.agents.nightly]. Did you mean 'posture'?",
        ),
        ("[permissions.agents.nightly.agents.x]", "permissions.agents.nightly.agents", "is no key of"),
        ("permissions = {", None, "it is not TOML"),
        ("a\n=", None, "line 1"),
        (b"\xff", None, "it is not UTF-8 text (byte 0). Save it as UTF-8."),
    ],
)
def test_a_file_that_cannot_mean_what_it_says_is_refused(
    text: str | bytes, key: str | None, says: str
) -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse(text)

    assert caught.value.path == str(FILE)
    assert caught.value.key == key
    assert str(caught.value).startswith(f"Settings file {FILE}")
    assert says in str(caught.value)


def test_a_persons_own_settings_name_no_tools() -> None:
    with pytest.raises(PolicyFileError, match=r"key 'tools': only a project's settings.*--tools"):
        parse('tools = "x.py"', of_project=False)

    assert parse('[permissions]\ntier = "read_only"', of_project=False).has_permissions


def test_a_person_says_which_hosts_may_be_spoken_to() -> None:
    data = b'[http]\nallow = ["*.example.org"]\ndeny = ["old.example.org"]\nprivate = true\n'

    hosts = parse(data, of_project=False).hosts

    assert hosts is not None
    assert hosts.private
    assert hosts.refusal_of_name("new.example.org", 443) is None
    assert hosts.refusal_of_name("old.example.org", 443) is not None
    assert hosts.refusal_of_name("example.com", 443) is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('http = "x"', "expected a table"),
        ("[http]\nallowed = []", "Did you mean 'allow'?"),
        ('[http]\nallow = "x"', "expected a list of host names"),
        ("[http]\nprivate = 1", "expected true or false"),
    ],
)
def test_hosts_that_mean_nothing_are_refused(text: str, says: str) -> None:
    with pytest.raises(PolicyFileError, match="http") as caught:
        parse(text, of_project=False)

    assert says in str(caught.value)


def test_a_project_does_not_say_which_hosts_may_be_spoken_to() -> None:
    with pytest.raises(PolicyFileError, match="may not name hosts"):
        parse("[http]\nprivate = true")
