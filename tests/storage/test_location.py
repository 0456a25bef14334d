"""Which database is meant: by URL, by environment, by folder; and good words where none is."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from placet.errors import PlacetError, StorageUnavailable, TrustError, UsageError
from placet.storage.location import (
    config_folder,
    default_url,
    open_database,
    project_folder,
    project_folders,
    sqlite_path,
)
from placet.storage.postgres import without_password

# Where, when nobody says


def test_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / ".placet").mkdir()

    assert default_url({"PLACET_DB": "postgresql://h/n", "HOME": "/h"}, tmp_path) == "postgresql://h/n"


def test_an_empty_name_in_the_environment_is_none(tmp_path: Path) -> None:
    assert default_url({"PLACET_DB": "", "HOME": "/h"}, tmp_path) == "/h/.local/share/placet/placet.db"


def test_the_nearest_project_above_is_taken(tmp_path: Path) -> None:
    deep = tmp_path / "outer" / "inner" / "deep" / "er"
    deep.mkdir(parents=True)
    (tmp_path / "outer" / ".placet").mkdir()
    (tmp_path / "outer" / "inner" / ".placet").mkdir()

    found = default_url({"HOME": "/h", "XDG_DATA_HOME": "/x"}, deep)

    assert found == str(tmp_path / "outer" / "inner" / ".placet" / "data" / "placet.db")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/x/placet/placet.db"),
        ({"HOME": "/h"}, "/h/.local/share/placet/placet.db"),
        ({"HOME": "/h", "XDG_DATA_HOME": ""}, "/h/.local/share/placet/placet.db"),
        # The specification of these folders says to pass over a relative one.
        ({"HOME": "/h", "XDG_DATA_HOME": "x"}, "/h/.local/share/placet/placet.db"),
    ],
)
def test_outside_any_project_it_is_the_persons_own(
    environment: dict[str, str], expected: str, tmp_path: Path
) -> None:
    assert default_url(environment, tmp_path) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/placet"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/h/.config/placet"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": ""}, "/h/.config/placet"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "x"}, "/h/.config/placet"),
    ],
)
def test_a_persons_settings_have_a_folder_of_their_own(environment: dict[str, str], expected: str) -> None:
    assert config_folder(environment) == Path(expected)


def test_every_project_above_is_found_the_nearest_first(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "between" / "inner"
    for folder in (inner, tmp_path / "outer"):
        (folder / ".placet").mkdir(parents=True)

    found = project_folders(inner / "not" / "yet")

    assert found[:2] == [inner / ".placet", tmp_path / "outer" / ".placet"]
    assert project_folder(inner / "not" / "yet") == found[0]
    assert not [folder for folder in found[2:] if folder.is_relative_to(tmp_path)]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_of_that_name_is_not_passed_over(tmp_path: Path, kind: str) -> None:
    (tmp_path / ".placet").mkdir()
    odd = tmp_path / "p" / ".placet"
    odd.parent.mkdir()
    odd.write_text("") if kind == "file" else odd.symlink_to("nowhere")

    for look in (project_folder, project_folders, lambda start: default_url({"HOME": "/h"}, start)):
        with pytest.raises(TrustError, match=r"p/\.placet is no folder"):
            look(tmp_path / "p")

    assert default_url({"HOME": "/h", "PLACET_DB": "named.db"}, tmp_path / "p") == "named.db"


def test_looking_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "p" / ".placet").mkdir(parents=True)

    for start in (tmp_path, tmp_path / "p", tmp_path / "no" / "such" / "folder"):
        default_url({"HOME": str(tmp_path / "home")}, start)

    assert sorted(tmp_path.rglob("*")) == [tmp_path / "p", tmp_path / "p" / ".placet"]


# What a URL names


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///abs/a.db", "/abs/a.db"),
        ("sqlite:rel/a.db", "rel/a.db"),
        ("sqlite:a.db", "a.db"),
        ("/abs/a.db", "/abs/a.db"),
        ("rel/a.db", "rel/a.db"),
        ("a.db", "a.db"),
        ("a", "a"),
        ("./odd:name.db", "odd:name.db"),
        ("/abs/odd:name#1?.db", "/abs/odd:name#1?.db"),
        ("/abs/50%25.db", "/abs/50%25.db"),
        ("sqlite:///abs/50%25%20%3F%23.db", "/abs/50% ?#.db"),
        ("sqlite:///abs/%C3%A9.db", "/abs/é.db"),
    ],
)
def test_a_url_names_a_file(url: str, path: str) -> None:
    assert sqlite_path(url) == Path(path)


def test_a_tilde_is_the_persons_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")

    assert sqlite_path("~/a.db") == Path("/h/a.db")


@pytest.mark.parametrize("name", ["odd #1?.db", "50%25 é.db", "a:b.db", "'q\".db"])
def test_any_name_makes_exactly_that_file(tmp_path: Path, name: str) -> None:
    with open_database(f"{tmp_path}/{name}"):
        pass

    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        ("", UsageError, "has an empty name. Name a file or a postgresql:// URL."),
        ("  ", UsageError, "has an empty name. Name a file or a postgresql:// URL."),
        ("mysql://u:hush@h/n", UsageError, "'mysql:' is no kind of database. Use a path, sqlite:///FILE or"),
        ("http://h", UsageError, "'http:' is no kind of database."),
        ("odd:name.db", UsageError, "'odd:' is no kind of database. Use a path"),
        ("sqlite:", UsageError, "'sqlite:' names no file. Write a path, sqlite:///absolute/path.db or"),
        ("sqlite://", UsageError, "names no file"),
        ("sqlite:///", UsageError, "names no file"),
        ("sqlite://rel/a.db", UsageError, "names no file"),
        ("sqlite::memory:", UsageError, "names no file"),
        ("sqlite:///a.db?mode=ro", UsageError, "has a ? or # that is not part of a file's name. Write %3F"),
        ("sqlite:///a#1.db", UsageError, "has a ? or # that is not part of a file's name."),
        ("/a\0b.db", StorageUnavailable, "has a null character in its name. Name another file."),
        ("sqlite:///a%00b.db", StorageUnavailable, "has a null character in its name. Name another file."),
        ("~nobody-by-this-name/a.db", StorageUnavailable, "lies in nobody's home. Write the whole path."),
    ],
)
def test_what_names_no_database_is_refused_in_clear_words(
    url: str, error: type[PlacetError], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(error) as caught:
        open_database(url)

    assert words in str(caught.value)
    assert "hush" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "is a folder. Name a file in it, such as placet.db."),
        ("file/a.db", "cannot be opened: Not a directory. Check the path and its permissions"),
        ("x" * 300, "cannot be opened: File name too long. Check the path"),
        ("dangling", "cannot be opened. Check the path, its folder and their permissions"),
    ],
)
def test_a_path_that_can_be_no_file_is_refused_in_clear_words(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "no" / "where")

    with pytest.raises(StorageUnavailable) as caught:
        open_database(str(tmp_path / name))

    assert words in str(caught.value)


# Servers


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h:5/n", "postgresql://h:5/n"),
        ("postgresql://u@h/n?x=1", "postgresql://u@h/n"),
        ("postgres://u:hush@h:5/n", "postgres://u:[redacted]@h:5/n"),
        ("postgresql://u:hush@h1:5,h2:6/n", "postgresql://u:[redacted]@h1:5,h2:6/n"),
        ("postgresql://u@h/n?password=hush", "postgresql://u@h/n"),
        ("postgresql://:hush@h/n", "postgresql://:[redacted]@h/n"),
        # Wrong, as they should be encoded; and met every day.
        ("postgresql://u:hu/sh@h/n", "postgresql://u:[redacted]@h/n"),
        ("postgresql://u:hu@sh@h/n", "postgresql://u:[redacted]@h/n"),
        ("postgresql://u:hu#sh@h/n", "postgresql://u:[redacted]@h/n"),
        ("postgresql://u:hu?sh@h/n", "postgresql://u:[redacted]@h/n"),
        ("postgresql://u:hu[sh@h/n", "postgresql://u:[redacted]@h/n"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "password",
    ["hush", "hu%20sh", "hu/sh", "hu@sh", "hu?sh", "hu#sh", "hu[sh", "hu%zzsh", "123/45", "hush\0"],
)
def test_a_server_that_is_not_there_is_named_quickly_and_without_its_password(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo

    def find(host: str, *more: Any, **named: Any) -> Any:
        # Where the password is not written as a URL wants it, the driver takes other words for the host.
        if host != "127.0.0.1":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", find)

    with pytest.raises(StorageUnavailable) as caught:
        open_database(f"postgresql://someone:{password}@127.0.0.1:1/n")

    words = str(caught.value)
    assert "someone" in words
    assert "URL" in words.partition("]@")[2]
    for secret in ("hu", "sh", "123", "45"):
        assert secret not in words.replace("such", "")
    assert caught.value.__cause__ is None


def test_an_option_that_the_driver_does_not_know_is_named() -> None:
    with pytest.raises(
        StorageUnavailable, match=r"URL that cannot be read: .*bogus.*Write postgresql://"
    ) as caught:
        open_database("postgresql://u@127.0.0.1:1/n?password=hush&bogus=1")

    assert "hush" not in str(caught.value)
