"""What isolation a run must have: all that demands adds up, and only a person takes away, for a while."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from placet import Isolation, Runtime, basic_tools
from placet.app.app import open_app
from placet.app.governance import Demand, demanded, gather
from placet.app.isolation import (
    LONGEST_S,
    LoweredIsolation,
    Lowering,
    Required,
    end_lowering,
    hosts_of_http,
    isolation_for,
    lower,
    lowerings,
    required,
    way_out,
)
from placet.app.options import RunOptions
from placet.app.reach import Reach
from placet.app.settings import Settings, parse_settings
from placet.errors import PolicyFileError, TrustError, UsageError
from placet.sandbox import self_test
from placet.sandbox.hosts import HostFilter
from placet.sandbox.isolation import LEVELS, NOTHING, Facts, Level
from placet.sandbox.ladder import Ladder
from placet.sandbox.remedies import remedies, remedies_of_folder
from placet.sandbox.sandbox import find_bubblewrap

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = 3600
Write = Callable[[str, str], Path]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return to


def parse(text: str, *, of_project: bool = False) -> Settings:
    return parse_settings(Path("/p/settings.toml"), text.encode(), of_project=of_project)


# Settings


def test_a_person_says_what_is_required_which_hosts_and_which_tools() -> None:
    settings = parse(
        """
        [http]
        deny = ["old.example.org"]
        [isolation]
        require = "process"
        hosts = ["*.example.org"]
        trusted_tools = ["deploy"]
        [permissions]
        posture = "balanced"
        """
    )

    assert (settings.require, settings.trusted_tools) == ("process", ("deploy",))
    assert settings.has_permissions
    hosts = settings.command_hosts
    assert hosts is not None
    assert hosts.refusal_of_name("new.example.org", 443) is None
    assert hosts.refusal_of_name("old.example.org", 443) == "host 'old.example.org:443' is denied"
    assert hosts.refusal_of_name("example.com", 443) is not None


@pytest.mark.parametrize("text", ["", "[isolation]", "[isolation]\nhosts = []"])
def test_what_is_left_out_is_no_wish(text: str) -> None:
    settings = parse(text)

    assert (settings.require, settings.command_hosts, settings.trusted_tools) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("isolation = 1", "isolation", "Begin it with a line [isolation]."),
        ("[isolation]\nrequires = 1", "isolation.requires", "Did you mean 'require'?"),
        ('[isolation]\nrequire = "proces"', "isolation.require", "Did you mean 'process'?"),
        ("[isolation]\nrequire = true", "isolation.require", "expected a text, got a boolean"),
        ('[isolation]\nhosts = "x.org"', "isolation.hosts", 'Write hosts = ["pypi.org"].'),
        ('[isolation]\nhosts = ["a b"]', "isolation.hosts", "a b"),
        ("[isolation]\ntrusted_tools = [1]", "isolation.trusted_tools", "expected a list of names of tools"),
        ('[isolation]\ntrusted_tools = [" "]', "isolation.trusted_tools", "it is empty"),
    ],
)
def test_what_means_nothing_is_refused(text: str, key: str, says: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse(text)

    assert caught.value.key == key
    assert says in str(caught.value)


@pytest.mark.parametrize("line", ['hosts = ["evil.example"]', 'trusted_tools = ["theirs"]'])
def test_a_project_names_no_hosts_and_trusts_no_tools(line: str) -> None:
    with pytest.raises(PolicyFileError, match="put it into your own"):
        parse(f"[isolation]\n{line}", of_project=True)


@pytest.mark.parametrize("mine", [None, *LEVELS])
@pytest.mark.parametrize("theirs", [None, *LEVELS])
@pytest.mark.parametrize("outer", [None, *LEVELS])
def test_the_strictest_demand_holds_without_trust(
    mine: Level | None, theirs: Level | None, outer: Level | None, env: dict[str, str], write: Write
) -> None:
    files = {
        "config/placet/settings.toml": mine,
        "out/in/.placet/settings.toml": theirs,
        "out/.placet/settings.toml": outer,
    }
    for name, level in files.items():
        write(name, f'[isolation]\nrequire = "{level}"\n' if level else "")
    folder = write("out/in/sub/file", "").parent

    rules = gather(folder, env)

    strictest = max((level or "none" for level in files.values()), key=LEVELS.index)
    assert rules.isolation.level == strictest
    if strictest != "none":
        source = next(name for name, level in files.items() if rules.isolation.source.endswith(name))
        assert files[source] == strictest
    assert demanded(folder, env) == (folder.parent, rules.isolation)


def test_hosts_and_trusted_tools_reach_the_runtime(env: dict[str, str], write: Write, tmp_path: Path) -> None:
    text = '[isolation]\nrequire = "process"\nhosts = ["a.example"]\ntrusted_tools = ["t"]\n'
    write("config/placet/settings.toml", text + '[http]\nallow = ["b.example"]\n')
    rules = gather(tmp_path, env)

    made = isolation_for(Required("process", "process"), rules, env)

    assert (made.required, made.hosts, made.trusted) == ("process", rules.own.command_hosts, {"t"})
    assert made.folder == tmp_path / "data" / "placet"
    # http_get is in the host's process: it speaks to whom commands may speak to.
    assert hosts_of_http(Required("process", "process"), rules) is rules.own.command_hosts
    assert hosts_of_http(Required("none", "none"), rules) is rules.own.hosts


def test_where_commands_have_no_network_http_get_has_none(env: dict[str, str], tmp_path: Path) -> None:
    hosts = hosts_of_http(Required("process", "process"), gather(tmp_path, env))

    assert hosts is not None
    assert hosts.refusal_of_name("example.org", 443) is not None


# What adds up, and what is refused

DEMAND = Demand("process", "/p/settings.toml")


@pytest.mark.parametrize(
    ("demand", "asked", "began_with", "level"),
    [
        (Demand(), None, None, None),
        (Demand(), "none", None, "none"),
        (Demand(), None, "none", "none"),
        (Demand("none", "f"), None, None, None),
        (Demand(), "process", None, "process"),
        (Demand(), None, "changes", "changes"),
        (DEMAND, None, None, "process"),
        (DEMAND, "process", "none", "process"),
        (DEMAND, None, "none", "process"),
        (Demand("changes", "f"), "process", None, "process"),
        (Demand("changes", "f"), None, "process", "process"),
    ],
)
def test_the_strictest_of_all_is_required(
    demand: Demand,
    asked: Level | None,
    began_with: Level | None,
    level: Level | None,
    env: dict[str, str],
    tmp_path: Path,
) -> None:
    needed = required(tmp_path, demand, env, asked=asked, began_with=began_with)

    assert needed == Required(level, level or "none")
    assert needed.as_data() == {}
    assert needed.is_checked == (level in ("changes", "process"))


@pytest.mark.parametrize(
    ("began_with", "source"), [(None, "/p/settings.toml"), ("process", "the run when it")]
)
def test_an_option_lowers_nothing(
    began_with: Level | None, source: str, env: dict[str, str], tmp_path: Path
) -> None:
    demand = DEMAND if began_with is None else Demand()

    with pytest.raises(UsageError) as caught:
        required(tmp_path, demand, env, asked="changes", began_with=began_with)

    assert f"--isolation changes is less than 'process', which {source}" in str(caught.value)
    assert "placet isolation lower changes --for 2h" in str(caught.value)


# Lowering


def lowered(folder: Path, env: dict[str, str], level: Level = "none", for_s: float = HOUR) -> Lowering:
    return lower(folder, level, env, for_s=for_s, because="no namespaces in CI", now=NOW)


def test_a_lowering_holds_until_its_end(env: dict[str, str], tmp_path: Path) -> None:
    lowered(tmp_path, env)

    before = required(tmp_path, DEMAND, env, now=NOW + timedelta(minutes=59))
    after = required(tmp_path, DEMAND, env, now=NOW + timedelta(minutes=60))

    # Nothing must be there; what is there is used.
    assert (before.level, before.demanded) == (None, "process")
    assert before.as_data() == {
        "required": "process",
        "lowered_to": "none",
        "until": "2026-11-16T13:00:00+00:00",
        "because": "no namespaces in CI",
    }
    assert after == Required("process", "process")


def test_a_lowering_also_helps_a_run_that_began_with_more(env: dict[str, str], tmp_path: Path) -> None:
    lowered(tmp_path, env)

    needed = required(tmp_path, Demand(), env, began_with="process", now=NOW)

    assert (needed.level, needed.demanded) == (None, "process")


def test_a_lowering_raises_nothing(env: dict[str, str], tmp_path: Path) -> None:
    lowered(tmp_path, env, "changes")

    assert required(tmp_path, Demand(), env, now=NOW) == Required(None)
    assert required(tmp_path, Demand("changes", "f"), env, now=NOW) == Required("changes", "changes")


def test_whoever_asks_for_more_does_not_use_the_lowering(env: dict[str, str], tmp_path: Path) -> None:
    lowered(tmp_path, env)

    assert required(tmp_path, DEMAND, env, asked="process", now=NOW).lowering is None
    half = required(tmp_path, DEMAND, env, asked="changes", now=NOW)
    assert half.as_data()["lowered_to"] == "changes"


def test_switching_confinement_off_takes_the_option_and_the_lowering(
    env: dict[str, str], tmp_path: Path
) -> None:
    lowered(tmp_path, env)

    needed = required(tmp_path, DEMAND, env, asked="none", now=NOW)

    assert (needed.level, needed.as_data()["lowered_to"]) == ("none", "none")
    with pytest.raises(UsageError):
        required(tmp_path, DEMAND, env, asked="none", now=NOW + timedelta(hours=2))
    # What was asked for when a run began is no wish to go below what is required by now.
    assert required(tmp_path, DEMAND, env, began_with="none", now=NOW + timedelta(hours=2)).level == "process"


def test_it_is_for_one_folder_by_its_real_path(env: dict[str, str], tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    for folder in (real / "sub", other):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    lowered(tmp_path / "link", env)

    assert list(lowerings(env, NOW)) == [str(real.resolve())]
    assert required(real, DEMAND, env, now=NOW).level is None
    assert required(tmp_path / "link", DEMAND, env, now=NOW).level is None
    for folder in (other, real / "sub", tmp_path):
        assert required(folder, DEMAND, env, now=NOW).level == "process"


@pytest.mark.parametrize(
    ("for_s", "because", "says"),
    [(LONGEST_S + 1, "x", "7 days at most"), (1, "", "Say which"), (1, " \n", "Say which")],
)
def test_neither_for_long_nor_without_a_reason(
    for_s: float, because: str, says: str, env: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=says):
        lower(tmp_path, "none", env, for_s=for_s, because=because)

    assert lowerings(env) == {}


def test_it_is_raised_again_also_for_a_folder_that_is_gone(env: dict[str, str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    lower(tmp_path, "none", env, for_s=HOUR, because="x")
    lower(gone, "none", env, for_s=HOUR, because="x")

    assert end_lowering(gone, env)
    assert not end_lowering(gone, env)
    assert list(lowerings(env)) == [str(tmp_path.resolve())]


def test_the_record_is_private_and_forgets_what_has_ended(env: dict[str, str], tmp_path: Path) -> None:
    lowered(tmp_path / "first", env, for_s=60)
    lower(tmp_path / "second", "none", env, for_s=60, because="x", now=NOW + timedelta(hours=1))

    path = tmp_path / "data" / "placet" / "lowered.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(json.loads(path.read_text())["folders"]) == [str((tmp_path / "second").resolve())]


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "folders": {"/x": {"level": "all"}}}'])
def test_a_damaged_record_lowers_nothing(
    text: str, env: dict[str, str], write: Write, tmp_path: Path
) -> None:
    path = write("data/placet/lowered.json", text)

    with pytest.raises(TrustError, match="is damaged, so nobody knows what was lowered"):
        required(tmp_path, DEMAND, env)
    with pytest.raises(TrustError):
        lower(tmp_path, "none", env, for_s=1, because="x")

    assert path.read_text() == text
    # Where nothing is required, nobody has to know.
    assert required(tmp_path, Demand(), env).level is None


@pytest.mark.parametrize("until", ["", "soon", "2026-11-16T13:00:00"])
def test_an_end_that_cannot_be_read_is_over(until: str) -> None:
    assert not Lowering(level="none", until=until, because="x", time="").holds(NOW)


# A run that has less


def needed_until(end: datetime) -> Required:
    words = Lowering(level="none", until=end.isoformat(), because="x", time="")
    return Required(None, "process", words)


def test_what_outlives_a_lowering_needs_the_whole_again() -> None:
    now = datetime.now(UTC)

    held, over = (LoweredIsolation(needed_until(now + timedelta(hours=n))) for n in (1, -1))

    assert [each.required for each in (held, held.speaking_to(HostFilter()))] == [None, None]
    assert [each.required for each in (over, over.speaking_to(HostFilter()))] == ["process", "process"]


@pytest.mark.parametrize(("hours", "told"), [(1, 1), (-1, 0)])
def test_every_run_begins_with_what_was_lowered_for_it(hours: int, told: int) -> None:
    isolation = LoweredIsolation(needed_until(datetime.now(UTC) + timedelta(hours=hours)))
    rt = Runtime(isolation=isolation)

    for run in ("one", "two"):
        rt.execute_sync(
            {"actions": [{"id": "a", "type": "state_write", "parameters": {"key": "k", "value": 1}}]},
            run_id=run,
        )

    kinds = [(event.run_id, event.kind) for event in rt.events]
    assert kinds.count(("one", "isolation_lowered")) == kinds.count(("two", "isolation_lowered")) == told
    if told:
        assert kinds[0] == ("one", "isolation_lowered")


# What is withheld, and in which words


TOML = """
[[tool]]
name = "inside"
command = ["echo", "1"]
hosts = ["a.example"]

[[tool]]
name = "plain"
command = ["echo", "1"]

[[tool]]
name = "outer"
command = ["echo", "1"]
sandbox = false
"""
PYTHON = """
from placet import tool

@tool
def price() -> int:
    return 7
"""
SERVERS = {
    "format": 1,
    "servers": {
        "files": {
            "command": ["no-such-server"],
            "folder": "/",
            "tools": {"read": {"description": "", "input_schema": {"type": "object"}, "digest": "0" * 64}},
        }
    },
}


@pytest.fixture
def person(env: dict[str, str], write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The settings of a person who requires `process`, names a host and has an MCP server."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write("config/placet/mcp.json", json.dumps(SERVERS))
    text = '[isolation]\nrequire = "process"\nhosts = ["mine.example"]\ntrusted_tools = ["outr"]\n'
    return write("config/placet/settings.toml", text)


@pytest.mark.parametrize(
    ("file", "tool", "says", "fix"),
    [
        ("t.toml", "outer", "a program with `sandbox = false`", "Drop that line"),
        ("t.py", "price", "a Python tool, so it runs in Placet's own process", "Make it a program"),
        ("t.py", "files.read", "a tool of an MCP server", "trust it"),
    ],
)
def test_a_tool_is_withheld_for_what_it_is(
    file: str, tool: str, says: str, fix: str, person: Path, write: Write
) -> None:
    path = write(file, TOML if file.endswith("toml") else PYTHON)

    with open_app(RunOptions(tools=str(path)), on_paper=True) as app:
        reason = app.runtime.tools.withheld[tool]
        assert app.runtime.tools.get(tool) is None
    assert says in reason
    assert fix in reason
    assert f'trusted_tools = ["{tool}"] under [isolation] in your own settings.toml' in reason
    assert ("own process" in reason) == (tool == "price")

    person.write_text(f'[isolation]\nrequire = "process"\ntrusted_tools = ["{tool}"]\n')
    with open_app(RunOptions(tools=str(path)), on_paper=True) as app:
        assert tool in app.runtime.tools
        assert app.unknown_trusted == []


def test_it_is_known_where_a_tool_runs_and_whom_it_may_speak_to(person: Path, write: Write) -> None:
    with open_app(RunOptions(tools=str(write("t.toml", TOML))), on_paper=True) as app:
        reach = {
            name: app.reach_of(name) for name in ("inside", "plain", "outer", "shell", "grep", "files.read")
        }
        assert app.unknown_trusted == ["outr"]
    person.write_text("")
    with open_app(RunOptions(tools=str(write("t.toml", TOML)), isolation="none"), on_paper=True) as app:
        unconfined = [app.reach_of(name).runs_in for name in ("inside", "shell", "outer")]
    with open_app(RunOptions(tools=str(write("t.py", PYTHON))), on_paper=True) as app:
        python = app.reach_of("price")

    assert reach == {
        "inside": Reach("sandbox", ("a.example",)),
        "plain": Reach("sandbox", ("mine.example",)),
        "outer": Reach("program"),
        "shell": Reach("sandbox", ("mine.example",)),
        "grep": Reach("placet"),
        "files.read": Reach("server"),
    }
    assert unconfined == ["nothing", "nothing", "program"]
    assert python == Reach("python")


# What does not fit


@pytest.mark.parametrize(
    ("make", "right"),
    [
        (lambda: Isolation(hosts=["pypi.org"]), "hosts=HostFilter(allow=['pypi.org'])"),  # type: ignore[arg-type]
        (lambda: Isolation(hosts="pypi.org"), "hosts=HostFilter(allow=['pypi.org'])"),  # type: ignore[arg-type]
        (lambda: Isolation(trusted="price"), "trusted=['price']"),
        (lambda: Isolation(trusted=7), "trusted=['deploy']"),  # type: ignore[arg-type]
        (lambda: Isolation(environment=["A"]), "os.environ"),  # type: ignore[arg-type]
        (lambda: Isolation("proces"), "none, changes, process"),  # type: ignore[arg-type]
        (lambda: Runtime(isolation="process"), 'isolation=Isolation("process")'),  # type: ignore[arg-type]
        (lambda: basic_tools(".", isolation="none"), 'isolation=Isolation("none")'),  # type: ignore[arg-type]
        (lambda: basic_tools(".", isolation=[]), 'isolation=Isolation("process")'),  # type: ignore[arg-type]
    ],
)
def test_what_only_looks_like_isolation_is_refused_with_the_right_form(
    make: Callable[[], object], right: str
) -> None:
    with pytest.raises(UsageError) as caught:
        make()

    assert right in str(caught.value)


# What to do about it


@pytest.mark.parametrize(
    "said",
    [
        "No permissions to create a new namespace, likely because the kernel does not allow it",
        "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
        "setting up uid map: Permission denied",
        "Can't mount proc on /newroot/proc: Operation not permitted",
    ],
)
def test_where_namespaces_are_forbidden_that_is_what_is_said(said: str, env: dict[str, str]) -> None:
    why = (
        f"'/usr/bin/python3' was not run: its sandbox could not be made ({said}). `placet doctor` tells more."
    )
    first = self_test.Tested(by="bubblewrap", facts=Facts(by="bubblewrap"), why=why)

    words = remedies(Ladder(tested=(first, self_test.Tested(by="nothing", facts=NOTHING))), env)

    if find_bubblewrap(env) is None:
        pytest.skip("bubblewrap is not installed: that is said then")
    assert words[0] == f"bubblewrap may not make user namespaces here; it says: {said}."
    assert len(words) > 1, "what to do about it"
    assert "was not run" not in " ".join(words)


@pytest.mark.parametrize(("where", "says"), [("/", "a part of the system"), ("home", "a whole home")])
def test_a_folder_that_cannot_be_confined_to_is_named(
    where: str, says: str, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    folder = str(tmp_path / where)

    [words] = remedies_of_folder(folder, env)

    assert words.startswith(folder)
    assert says in words


@pytest.mark.parametrize(
    ("demand", "asked", "says"),
    [
        (Demand(), "process", "Or leave out --isolation process"),
        (DEMAND, "process", "placet isolation lower {found} --for 2h"),
        (DEMAND, None, "placet isolation lower {found} --for 2h"),
    ],
)
def test_the_way_out_is_one_that_helps(demand: Demand, asked: Level | None, says: str) -> None:
    assert says in way_out(Required("process", "process"), demand, asked)
