"""Create the `.placet` folder of a project, with files that work as they are.

The files are in `starter`, as they are written.

Keep true:
1. Nothing that exists is changed: a part of which a project has something is left as it is.
2. The files make nothing milder. What needs trust in them is trusted only where nothing else in the folder
   waits for it: they are ours, and the person has asked for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from placet.agents.registry import is_agent_file
from placet.app.governance import examine
from placet.app.project import with_project_folder
from placet.app.settings import FILE_NAME
from placet.app.trust import is_trusted, trust
from placet.errors import InputError
from placet.storage.location import PROJECT_FOLDER

AGENT = "guide"
"""The id of the agent."""
_STARTER = Path(__file__).parent / "starter"
_SETTINGS, _POLICY, _AGENT = FILE_NAME, "policies/project.toml", f"agents/{AGENT}.toml"


class StartedProject(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `start_project`."""

    folder: str
    created: tuple[str, ...]
    """Paths inside of the folder."""
    existing: tuple[str, ...]
    """Files that were there, and stand in the place of those that were not created."""
    trusted: bool
    """Whether all that the folder brings may take effect."""

    @property
    def has_starter_agent(self) -> bool:
        """Whether the agent that comes with it is there."""
        return f"{PROJECT_FOLDER}/{_AGENT}" in (*self.created, *self.existing)


def start_project(folder: Path, environment: Mapping[str, str]) -> StartedProject:
    """Create the files of a project that `folder` does not have yet.

    Raises:
        InputError: a file cannot be written. Those before it stay.
        PolicyFileError: a file that is there means nothing as it stands. Nothing is created then.
        TrustError: what is there cannot be read safely, or the record of trust is damaged.
    """
    with with_project_folder(folder):
        before = examine(folder, environment).seen
    was_fine = not before.files or is_trusted(before, environment)
    created: dict[str, bytes] = {}
    existing: list[str] = []
    for name in (_SETTINGS, _POLICY, _AGENT):
        there = _like(name, before.files)
        existing += there
        if not there:
            created[name] = (_STARTER / name).read_bytes()
            _write(before.folder / PROJECT_FOLDER / name, created[name])
    after = examine(folder, environment).seen if created else before
    # What came from elsewhere meanwhile is nothing that the person has asked for.
    if was_fine and created and after.files == {**before.files, **created}:
        trust(after, environment)
    return StartedProject(
        folder=str(before.folder),
        created=tuple(f"{PROJECT_FOLDER}/{name}" for name in created),
        existing=tuple(f"{PROJECT_FOLDER}/{name}" for name in existing),
        trusted=is_trusted(after, environment),
    )


def _like(name: str, files: Iterable[str]) -> list[str]:
    """The files that are there of the same part: the settings, rules, or agents."""
    folder, slash, _ = name.rpartition("/")
    if not slash:
        return [each for each in files if each == name]
    beside = {each: each.removeprefix(f"{folder}/") for each in files if each.startswith(f"{folder}/")}
    is_one = is_agent_file if name == _AGENT else _is_policy_file
    return [each for each, file in beside.items() if "/" not in file and is_one(file)]


def _is_policy_file(name: str) -> bool:
    return name.endswith(".toml")


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            try:
                file.write(data)
                file.flush()
            except OSError:
                # Half of it would count as there the next time.
                path.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from None
