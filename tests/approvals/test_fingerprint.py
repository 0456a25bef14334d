"""The fingerprint is the same exactly when the question is."""

from __future__ import annotations

import math
from typing import Any

import pytest

from placet.approvals.approval import fingerprint
from placet.errors import NotJson

CALL: dict[str, Any] = {
    "tool": "fs.remove",
    "parameters": {"path": "/x", "force": {"a": 1, "b": [1, 2]}},
    "folder": "/w",
    "tenant": "t",
    "policy_version": "7",
}


def test_it_is_a_digest_that_stays_the_same_between_versions() -> None:
    """Pinned: with another one every `always` that was ever given would be void."""
    assert fingerprint(**CALL) == "f4e35b26c8a1780859bdff1058894d0968c28243dd216a5e93214f11efa26628"


def test_the_order_of_keys_does_not_matter() -> None:
    turned = {"force": {"b": [1, 2], "a": 1}, "path": "/x"}

    assert fingerprint(**{**CALL, "parameters": turned}) == fingerprint(**CALL)


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "fs.remov"},
        {"parameters": {}},
        {"parameters": {**CALL["parameters"], "more": None}},
        {"parameters": {"path": "/x", "force": {"a": 1, "b": [2, 1]}}},
        {"parameters": {"path": "/x", "force": {"a": True, "b": [1, 2]}}},
        {"parameters": {"path": "/x", "force": {"a": 1.0, "b": [1, 2]}}},
        {"parameters": {"path": "/x", "force": {"a": "1", "b": [1, 2]}}},
        {"folder": "/"},
        {"folder": None},
        {"folder": ""},
        {"tenant": None},
        {"tenant": "u"},
        {"folder": "t", "tenant": "/w"},
        {"policy_version": "8"},
        {"compensation": {}},
        {"compensation": {"tool": "fs.restore"}},
        {"isolation": "process by bubblewrap, network none"},
    ],
    ids=repr,
)
def test_whatever_else_differs_makes_another(change: dict[str, Any]) -> None:
    assert fingerprint(**{**CALL, **change}) != fingerprint(**CALL)


def test_a_compensation_is_part_of_it() -> None:
    """It runs without another question, so whoever approves the one approves the other."""
    undo: dict[str, Any] = {"tool": "fs.restore", "parameters": {"path": "/x", "mode": 1}}
    turned = {"parameters": {"mode": 1, "path": "/x"}, "tool": "fs.restore"}
    other = {**undo, "parameters": {"path": "/y", "mode": 1}}

    assert fingerprint(**CALL, compensation=None) == fingerprint(**CALL)
    assert fingerprint(**CALL, compensation=turned) == fingerprint(**CALL, compensation=undo)
    assert fingerprint(**CALL, compensation=other) != fingerprint(**CALL, compensation=undo)


def test_what_is_not_json_has_none() -> None:
    with pytest.raises(NotJson, match=r"parameters\.x"):
        fingerprint("t", {"x": math.nan}, folder=None, tenant=None, policy_version="1")
    with pytest.raises(NotJson, match=r"compensation\.x"):
        fingerprint("t", {}, folder=None, tenant=None, policy_version="1", compensation={"x": math.nan})
