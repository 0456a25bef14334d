"""The registry of kinds: every job has one, and what was submitted is what is begun."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from placet.app.options import RunOptions
from placet.app.work import Job, Place, PlanJob
from placet.cli.led import _BY_KIND
from placet.engine import kinds
from placet.errors import NamesMissing, UsageError
from placet.tools.context import Cancel

TOOLS = 'from placet import tool\n\n@tool\ndef act() -> int:\n    """Do it."""\n    return 1\n'


def request(folder: Path, tool: str = "act") -> str:
    job = PlanJob(folder=str(folder), plan={"actions": [{"id": "a", "tool": tool}]})
    return msgspec.json.encode(job).decode()


def options(**given: str) -> str:
    settled = RunOptions(permissions="full_access", **given).settled(required=None, policies_sha256=None)
    return msgspec.json.encode(settled).decode()


def test_every_job_has_a_kind_of_its_own_name() -> None:
    tags = {str(job.__struct_config__.tag) for job in get_args(Job)}

    assert tags == {kind.name for kind in kinds.KINDS}
    assert kinds.KINDS[-1].name == "plan"


async def test_file_of_tools_that_changed_after_the_submission_is_not_loaded(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    given = options(folder=str(tmp_path), tools=str(tools))
    tools.write_text("raise SystemExit\n")

    with pytest.raises(UsageError, match=r"tools\.py"):
        await kinds.begin(request(tmp_path), given, "r", Place(str(tmp_path / "p.db")), Cancel())


async def test_names_that_are_missing_are_all_named(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "p.db"), leaves=True)

    with pytest.raises(NamesMissing) as missing:
        await kinds.begin(request(tmp_path, "mail"), options(folder=str(tmp_path)), "r", place, Cancel())

    assert missing.value.names == ("tool mail",)


@pytest.mark.parametrize(
    "text", ["", "null", "{}", '{"kind":"dance"}', '{"kind":"plan"}', '{"kind":"plan","x":1}']
)
async def test_request_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run 'r'"):
        await kinds.begin(text, "{}", "r", Place(str(tmp_path / "p.db")), Cancel())


def test_every_kind_goes_on_before_a_person() -> None:
    assert set(_BY_KIND) == {kind.name for kind in kinds.KINDS}
