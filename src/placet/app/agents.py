"""Agents on the command line: found in the project and at home, run under the rules of the folder.

Keep true:
1. What a project's agents say takes effect only where a person trusts what the folder brings; what was looked
   at is what is run.
2. A change that the person makes here to a folder that they trust leaves it trusted; any other does not, nor
   does going back to a version, which may be from a time when nobody had looked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.agents.registry import FOLDER, USER, AgentPlace, AgentRegistry, look

if TYPE_CHECKING:
    from placet.agents.registry import AgentEntry
    from placet.agents.runner import AgentRunner
    from placet.agents.spec import AgentSpec
    from placet.agents.versions import AgentStore
    from placet.app.app import App
    from placet.app.governance import Question
    from placet.app.trust import Snapshot
    from placet.policy.permission import Posture

Confirm = Callable[["Question"], bool]


class Agents(AgentRegistry):
    """The agents of a folder and of the person."""

    def __init__(
        self, places: list[AgentPlace], seen: Snapshot | None, store: AgentStore | None = None
    ) -> None:
        super().__init__(places, store)
        self._seen = seen
        """What the project brings, as it was read."""

    def check_trust(self, entry: AgentEntry, environment: Mapping[str, str], confirm: Confirm | None) -> None:
        """Make sure that an agent may take effect.

        Raises:
            TrustError: it is a project's, and that is not trusted.
        """
        from placet.app.governance import BRINGS_AGENTS, granted
        from placet.errors import TrustError

        if entry.place.where == USER or self._seen is None:
            return
        if not granted(self._seen, (BRINGS_AGENTS,), environment, confirm):
            raise TrustError(
                str(self._seen.folder),
                f"is not trusted, and it {BRINGS_AGENTS}",
                "Look at them with `placet agent show`, then trust the folder.",
            )

    def is_trusted(self, environment: Mapping[str, str]) -> bool:
        """Whether the project's agents may take effect without anybody being asked; also if there is none.

        Raises:
            TrustError: the record of trust is damaged.
        """
        from placet.app.trust import is_trusted

        return self._seen is None or is_trusted(self._seen, environment)

    @property
    def mine(self) -> AgentRegistry:
        """The person's own agents alone, none of them hidden."""
        return AgentRegistry([place for place in self.places if place.where == USER], self.store)

    @contextmanager
    def changing(self, environment: Mapping[str, str]) -> Iterator[None]:
        """Around a change by the person, which takes no trust away. Not for what was there before and is
        brought back: nobody knows whether that was trusted when it was kept."""
        from placet.app.trust import is_trusted, snapshot, trust

        seen = self._seen
        before = snapshot(seen.folder) if seen is not None else None
        # A folder in which there was nothing yet brings nothing but what the person makes now.
        keeps = before is not None and (not before.files or is_trusted(before, environment))
        yield
        if keeps and before is not None:
            self._seen = snapshot(before.folder)
            if self._seen.digest != before.digest:
                trust(self._seen, environment)


def find_agents(
    environment: Mapping[str, str], start: Path | None = None, store: AgentStore | None = None
) -> Agents:
    """The agents that are there for whoever is in the folder `start`.

    Raises:
        PolicyFileError: a folder of agents cannot be read.
        TrustError: what the project brings cannot be read safely.
    """
    from placet.app.governance import AGENTS
    from placet.app.trust import snapshot
    from placet.storage.location import config_folder, project_folder

    places: list[AgentPlace] = []
    project = project_folder(start or Path.cwd())
    seen = None
    if project is not None:
        seen = snapshot(project.parent)
        prefix = f"{AGENTS}/"
        files = {
            name.removeprefix(prefix): data
            for name, data in seen.files.items()
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
        }
        places.append(AgentPlace("project", str(seen.folder), project / FOLDER, files))
    places.append(look("user", USER, config_folder(environment) / FOLDER))
    return Agents(places, seen, store)


@contextmanager
def open_agents(
    db: str | None, *, writes: bool, start: Path | None = None, is_new: bool = False
) -> Iterator[Agents]:
    """The agents, with their versions and records, as far as any are kept.

    With `is_new` an agent of the project is about to be added: a repository without a `.placet` folder gets
    one first, so that the version is recorded where it is looked for afterwards.

    Raises: what `find_agents` and `open_records` raise; InputError: the folder cannot be created.
    """
    from placet.agents.sql import has_agents
    from placet.app.app import NOWHERE, database_url, open_records
    from placet.errors import StorageUnavailable

    if is_new:
        from placet.app.project import project_root, with_project_folder

        root = project_root(start or Path.cwd())
        with (
            with_project_folder(root) if root is not None else nullcontext(),
            open_agents(db, writes=writes, start=start) as agents,
        ):
            yield agents
        return
    if database_url(db) == NOWHERE:
        yield find_agents(os.environ, start)
        return
    if writes:
        with open_records(db, create=True, writes=True) as records:
            yield find_agents(os.environ, start, records.agents)
        return
    with ExitStack() as stack:
        store = None
        # Agents are files: they are there also where nothing was ever kept.
        with suppress(StorageUnavailable):
            records = stack.enter_context(open_records(db))
            store = records.agents if has_agents(records.database) else None
        yield find_agents(os.environ, start, store)


def missing_tools(names: Iterable[str]) -> list[str]:
    """Of these tools, why those that are not there are not, in words; nothing where that cannot be told."""
    from placet.app.app import open_app
    from placet.errors import PlacetError

    wanted = list(names)
    if not wanted:
        return []
    try:
        with open_app(on_paper=True) as app:
            tools = app.runtime.tools
            return [tools.missing(name) for name in wanted if name not in tools]
    except PlacetError:
        # Such as a project that is not trusted: what its tools are is not known then.
        return []


def place_of(agent: str) -> str | None:
    """Where an agent's records are kept; None where there is no such agent any more."""
    from placet.errors import PlacetError

    try:
        return find_agents(os.environ).entry(agent).place.key
    except PlacetError:
        return None


def posture_for(app: App, agent: str) -> Posture | None:
    """What an agent may do without asking: as the app's options say (`yes_to`, then `permissions`), else the
    settings, which may name the agent."""
    from placet.app.assistant import posture_of, settled_posture
    from placet.app.governance import own_settings
    from placet.app.settings import Wish
    from placet.policy.permission import Permissions

    posture = posture_of(app.options.yes_to)
    if posture is not None or app.options.permissions is not None:
        return posture
    found = app.runtime.permissions
    whose = Permissions(standing=found.posture(agent)) if found is not None else None
    mine = own_settings(os.environ)
    wish = mine.agents.get(agent)
    if wish is not None:
        # What the person says of this agent goes before what they say of everyone.
        said = Wish(name=wish.name or mine.standing.name, answers={**mine.standing.answers, **wish.answers})
        mine = msgspec.structs.replace(mine, standing=said)
    return settled_posture(mine, whose)


def make_runner(app: App, spec: AgentSpec) -> AgentRunner:
    """A runner for an agent with the tools and the model of an app.

    Raises:
        ModelMissing: no model is set up.
    """
    from placet.agents.runner import AgentRunner
    from placet.app.assistant import model_of

    return AgentRunner(
        app.runtime,
        model_of(app.attached),
        spec,
        posture=posture_for(app, spec.id),
        workspace=app.workspace,
        isolation=app.confined,
        spill=app.spill,
    )
