"""The protocol's own tests, and whether the page about them tells the truth."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.servers.conformance import ROOT, programs, run_suite, version

PAGE = ROOT / "docs" / "reference" / "mcp-conformance.md"
PASSES, NOT_OURS = "passes", "does not apply"
CLIENT = f"{sys.executable} -m tests.conformance.client"


def documented(side: str) -> dict[str, str]:
    """The scenarios of one side, with the result that the page claims."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {side}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section, re.MULTILINE))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Our server, behind HTTP."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.http_server", str(tmp_path_factory.mktemp("served"))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


def test_the_server_passes_what_the_page_says_and_nothing_else(url: str, tmp_path: Path) -> None:
    done = run_suite("server", "--url", url, "--suite", "all", folder=tmp_path)

    told = re.findall(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", done.stdout, re.MULTILINE)
    # A scenario in which nothing was checked has not passed.
    passed = {name for name, good, bad in told if int(good) and not int(bad)}
    assert passed == {name for name, result in documented("Server").items() if result == PASSES}, done.stdout


@pytest.mark.parametrize("scenario", [n for n, result in documented("Client").items() if result == PASSES])
def test_the_client_passes(scenario: str, tmp_path: Path) -> None:
    done = run_suite("client", "--command", CLIENT, "--scenario", scenario, "-o", str(tmp_path), folder=ROOT)

    [folder] = tmp_path.glob("*/checks.json")
    checks = [check for check in json.loads(folder.read_text()) if check["status"] != "INFO"]
    assert any(check["status"] == "SUCCESS" for check in checks)
    assert [check for check in checks if check["status"] != "SUCCESS" and not is_only_late(check)] == []
    assert "Client exited with code" not in done.stdout, done.stdout


def is_only_late(check: dict[str, object]) -> bool:
    """A busy machine comes late; that is no fault. Too early would be one."""
    details = check.get("details")
    return isinstance(details, dict) and details.get("slightlyLate") is True


def test_the_page_names_every_scenario_of_the_version_that_is_pinned(tmp_path: Path) -> None:
    listed = run_suite("list", folder=tmp_path).stdout
    of_server, _, of_client = listed.partition("Client scenarios")

    for side, text in (("Server", of_server), ("Client", of_client)):
        names = re.findall(r"^  - (\S+) \[", text, re.MULTILINE)
        page = documented(side)
        assert names
        assert set(page.values()) == {PASSES, NOT_OURS}
        assert [n for n in names if not any(fnmatchcase(n, pattern) for pattern in page)] == []
        assert [p for p in page if not any(fnmatchcase(n, p) for n in names)] == []
    assert f"version {version()}." in PAGE.read_text(encoding="utf-8").replace("\n", " ")


def test_without_npm_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="install Node 20 or newer"):
        programs(tmp_path, npm="/nowhere/npm")
