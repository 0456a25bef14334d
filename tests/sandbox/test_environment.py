"""A command gets a few names of the host's environment, and what was asked for; never the rest."""

from __future__ import annotations

import os

import pytest

from placet.sandbox.environment import PASSED_ON, clean_environment


def test_nothing_but_the_listed_names_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "LD_PRELOAD",
        "PYTHONPATH",
        "SSH_AUTH_SOCK",
        "path",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TZ", "Europe/Paris")

    found = clean_environment()

    assert "secret" not in found.values()
    assert found["LC_TIME"] == "C"
    assert found["TZ"] == "Europe/Paris"
    assert found["PATH"] == os.environ["PATH"]


def test_nobody_is_there_to_look_or_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("PAGER", "less")

    found = clean_environment()

    assert (found["TERM"], found["PAGER"], found["GIT_TERMINAL_PROMPT"]) == ("dumb", "cat", "0")


def test_there_is_always_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")

    assert "/bin" in clean_environment()["PATH"].split(":")


def test_what_is_asked_for_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")

    found = clean_environment({"HOME": "/elsewhere", "TERM": "vt100", "KEY": "value"})

    assert (found["HOME"], found["TERM"], found["KEY"]) == ("/elsewhere", "vt100", "value")


def test_each_name_has_its_reason() -> None:
    assert all(reason.strip() for reason in PASSED_ON.values())
