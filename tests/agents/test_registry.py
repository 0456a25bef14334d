"""Agents of a project and of a person: what hides what, versions, and going back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from placet.agents.registry import AgentRegistry, look
from placet.agents.report import Report, ScenarioReport, Trial
from placet.agents.spec import AgentSpec
from placet.agents.sql import SqlAgents, has_agents
from placet.agents.versions import MOST_VERSIONS, AgentStore, MemoryAgents, SuccessRecord, digest_of
from placet.errors import InputError, PolicyFileError, UsageError
from placet.storage.location import open_database

OK = 'identity = "You answer."\n'


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentStore]:
    """Each kind of store."""
    if request.param == "memory":
        yield MemoryAgents()
        return
    url = f"sqlite://{tmp_path.resolve()}/placet.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    with open_database(url) as database:
        yield SqlAgents(database)


def registry(tmp_path: Path, store: AgentStore | None = None) -> AgentRegistry:
    project, user = tmp_path / "project", tmp_path / "user"
    return AgentRegistry([look("project", "/p", project), look("user", "user", user)], store)


def put(tmp_path: Path, name: str, text: str = OK) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_project_hides_what_the_person_has(tmp_path: Path) -> None:
    put(tmp_path, "project/a.toml", 'identity = "of the project"')
    put(tmp_path, "user/a.toml", 'identity = "mine"')
    put(tmp_path, "user/b.md", "+++\n+++\nmine too")

    found = registry(tmp_path)

    assert [(each.id, each.place.where) for each in found.entries()] == [("a", "project"), ("b", "user")]
    assert len(found.entries(with_hidden=True)) == 3
    spec = found.find("a").spec
    assert spec is not None
    assert spec.identity == "of the project"


def test_a_broken_file_takes_nothing_from_the_others(tmp_path: Path) -> None:
    put(tmp_path, "user/good.toml")
    put(tmp_path, "user/bad.toml", "identity = 3")
    put(tmp_path, "user/NAME.toml")
    put(tmp_path, "user/two.toml")
    put(tmp_path, "user/two.md", "+++\n+++\nagain")

    found = registry(tmp_path)

    assert [spec.id for spec in found.specs()] == ["good"]
    with pytest.raises(PolicyFileError, match=r"bad\.toml, key 'identity'"):
        found.find("bad")
    with pytest.raises(PolicyFileError, match=r"two\.(md|toml), key 'id': there is two\.(md|toml) as well"):
        found.find("two")
    with pytest.raises(PolicyFileError, match="cannot be an id"):
        found.find("NAME")


def test_an_unknown_agent_gets_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, "user/greeter.toml")

    with pytest.raises(UsageError, match="Did you mean 'greeter'"):
        registry(tmp_path).find("greter")


def test_every_change_is_a_version_and_each_can_be_gone_back_to(tmp_path: Path, store: AgentStore) -> None:
    found = registry(tmp_path, store)
    found.save(AgentSpec(id="a", identity="one"))
    path = tmp_path / "project" / "a.toml"
    path.write_text("# by hand\nidentity = 'two'\n")

    found = registry(tmp_path, store)
    found.set_enabled("a", False)

    assert [each.number for each in found.versions("a")] == [3, 2, 1]
    assert path.read_text() == "enabled = false\n# by hand\nidentity = 'two'\n"
    found.revert("a")
    assert path.read_text() == "# by hand\nidentity = 'two'\n"
    found.revert("a", 1)
    assert found.find("a").spec == AgentSpec(id="a", identity="one")
    assert [each.number for each in found.versions("a")] == [5, 4, 3, 2, 1]
    assert found.versions("a")[0].digest == found.versions("a")[-1].digest


def test_a_removed_agent_comes_back(tmp_path: Path, store: AgentStore) -> None:
    path = put(tmp_path, "project/a.md", "+++\n+++\nHello.\n")
    found = registry(tmp_path, store)

    found.remove("a")
    assert not path.exists()
    with pytest.raises(UsageError, match="no agent"):
        found.find("a")
    found.revert("a")

    assert path.read_text() == "+++\n+++\nHello.\n"


def test_no_file_goes_that_was_not_kept(tmp_path: Path, store: AgentStore) -> None:
    found = registry(tmp_path, store)
    found.save(AgentSpec(id="a", identity="one"))
    put(tmp_path, "project/a.toml", "# never kept\nidentity = 'two'\n")
    markdown = put(tmp_path, "project/a.md", "+++\n+++\nthree\n")
    found = registry(tmp_path, store)

    entry, _ = found.revert("a")

    assert entry.spec == found.find("a").spec == AgentSpec(id="a", identity="one")
    assert not markdown.exists()
    assert {each.text for each in found.versions("a")} >= {
        "# never kept\nidentity = 'two'\n",
        "+++\n+++\nthree\n",
    }


def test_the_old_file_goes_after_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryAgents()
    store.keep("/p", "a", ".md", "+++\n+++\none\n")
    path = put(tmp_path, "project/a.toml", "identity = 'two'\n")
    found = registry(tmp_path, store)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))

    with pytest.raises(InputError, match="no room"):
        found.revert("a", 1)

    assert [each.name for each in path.parent.iterdir()] == ["a.toml"]


@pytest.mark.parametrize("act", ["remove", "revert"])
def test_what_cannot_be_kept_is_not_taken_away(tmp_path: Path, act: str) -> None:
    path = tmp_path / "project" / "a.toml"
    path.parent.mkdir()
    path.write_bytes(b"identity = '\xff'")
    store = MemoryAgents()
    store.keep("/p", "a", ".toml", OK)

    with pytest.raises(UsageError, match="no UTF-8 text, so it cannot be kept"):
        getattr(registry(tmp_path, store), act)("a")

    assert path.read_bytes() == b"identity = '\xff'"


def test_a_version_that_is_not_there_is_named(tmp_path: Path, store: AgentStore) -> None:
    found = registry(tmp_path, store)
    found.save(AgentSpec(id="a", identity="one"))

    with pytest.raises(UsageError, match=r"no version 7 of agent 'a'\. Kept: 1"):
        found.revert("a", 7)
    with pytest.raises(UsageError, match="no earlier version"):
        found.revert("a")
    with pytest.raises(UsageError, match="no agent 'b'"):
        found.revert("b")


def test_the_same_text_makes_no_new_version(store: AgentStore) -> None:
    first = store.keep("user", "a", ".toml", OK)

    assert store.keep("user", "a", ".toml", OK) == first
    assert store.keep("/p", "a", ".toml", OK).number == 1
    assert store.keep("user", "a", ".md", OK).number == 2


def test_runs_are_counted_once_each(store: AgentStore) -> None:
    store.count("user", "a", "r1", succeeded=False)
    store.count("user", "a", "r1", succeeded=True)
    store.count("user", "a", "r2", succeeded=False)
    store.count("/p", "a", "r3", succeeded=True)

    assert store.records("user") == {"a": SuccessRecord(runs=2, succeeded=1)}
    assert store.records("elsewhere") == {}


def test_versions_kept_at_once_get_numbers_of_their_own(database_url: str) -> None:
    def keep(number: int) -> None:
        with open_database(database_url) as database:
            SqlAgents(database).keep("user", "a", ".toml", f"identity = '{number}'")

    with open_database(database_url) as database:
        store = SqlAgents(database)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(keep, range(8)))

        assert sorted(each.number for each in store.versions("user", "a")) == list(range(1, 9))
        assert has_agents(database)


def test_old_versions_go(monkeypatch: pytest.MonkeyPatch, store: AgentStore) -> None:
    assert MOST_VERSIONS == 1_000
    for module in ("versions", "sql"):
        monkeypatch.setattr(f"placet.agents.{module}.MOST_VERSIONS", 3)
    for number in range(5):
        store.keep("user", "a", ".toml", str(number))

    assert [each.number for each in store.versions("user", "a")] == [5, 4, 3]


def test_an_agent_is_not_written_over(tmp_path: Path) -> None:
    found = registry(tmp_path)
    found.save(AgentSpec(id="a", identity="one"))

    with pytest.raises(UsageError, match="already"):
        found.save(AgentSpec(id="a", identity="two"))
    found.save(AgentSpec(id="a", identity="two"), replace=True)

    assert found.find("a").spec == AgentSpec(id="a", identity="two")
    assert sorted(path.name for path in (tmp_path / "project").iterdir()) == ["a.toml"]


@pytest.mark.parametrize("suffix", [".toml", ".md"])
def test_what_would_not_read_back_is_not_written(tmp_path: Path, suffix: str) -> None:
    found = registry(tmp_path)
    found.save(AgentSpec(id="a", identity="one"), suffix=suffix)

    with pytest.raises(UsageError, match="surrogate pair"):
        found.save(AgentSpec(id="a", identity="x\ud800"), replace=True)

    assert found.find("a").spec == AgentSpec(id="a", identity="one")


@pytest.mark.parametrize("bad", [{"id": "../a"}, {"identity": ""}, {"id": "A"}])
def test_a_spec_that_cannot_be_used_is_not_written(tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        registry(tmp_path).save(AgentSpec(**{"id": "a", "identity": "x", **bad}))

    assert not (tmp_path / "project").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "project").write_text("no folder")
    found = AgentRegistry([look("user", "user", tmp_path / "user")])
    (tmp_path / "user").write_text("no folder")

    with pytest.raises(InputError, match="Cannot write"):
        found.save(AgentSpec(id="a", identity="one"))


def test_a_file_that_cannot_be_written_leaves_no_half_behind(tmp_path: Path) -> None:
    registry = AgentRegistry([look("user", "user", tmp_path)])

    with pytest.raises(UnicodeEncodeError):
        registry._write(registry.places[0], "a", ".toml", "\udcff")

    assert list(tmp_path.iterdir()) == []


def test_newest_test_of_an_agent_is_stored_with_what_was_tested(store: AgentStore) -> None:
    def report(passed: bool) -> Report:
        trials = tuple(Trial(number=n, passed=passed or n == 1, status="succeeded") for n in (1, 2))
        return Report(agent="a", k=2, scenarios=(ScenarioReport(name="s", input="x", trials=trials),))

    store.store_report("/p", "a", "one", report(passed=True))
    store.store_report("/p", "a", "two", report(passed=False))
    store.store_report("user", "a", "three", report(passed=True))
    found = store.reports("/p")

    assert list(found) == ["a"]
    assert found["a"].digest == digest_of("two")
    assert found["a"].report.passed == 0
    assert found["a"].report.scenarios[0].times == 1
    assert store.reports("elsewhere") == {}
