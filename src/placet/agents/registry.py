"""The agents of a project and of a person: found, kept in versions, switched on and off, removed.

Keep true:
1. One file is one agent, and a project's agent hides the person's of the same id.
2. A file that cannot be used takes nothing from the others; whoever wants that agent is told what is wrong.
3. Before a file is changed or removed here, what it held is kept; a file is written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

from placet.agents.files import MOST_BYTES, SUFFIXES, checked_text, read_agent, with_enabled
from placet.agents.spec import AgentSpec, check_spec, is_id
from placet.agents.versions import AgentStore, MemoryAgents, SuccessRecord, Version, digest_of
from placet.errors import InputError, PolicyFileError, UsageError
from placet.policy.toml_file import TomlFile
from placet.safe_text import clean

FOLDER = "agents"
USER = "user"

Where = Literal["project", "user"]


class AgentPlace(NamedTuple):
    """A folder of agents."""

    where: Where
    key: str
    """Under which versions and records are kept: "user", or the folder of the project."""
    folder: Path
    files: Mapping[str, bytes]
    """What was there when it was looked at, by name."""


class AgentEntry(NamedTuple):
    """One agent's file."""

    id: str
    place: AgentPlace
    path: Path
    data: bytes
    spec: AgentSpec | None
    """None where the file cannot be used."""
    error: PolicyFileError | None = None
    is_hidden: bool = False
    """Whether the project has an agent of the same id."""

    @property
    def text(self) -> str:
        """What the file holds."""
        return self.data.decode(errors="replace")


def look(where: Where, key: str, folder: Path) -> AgentPlace:
    """The agents in a folder, which need not be there.

    Raises:
        PolicyFileError: it cannot be read.
    """
    files: dict[str, bytes] = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                with path.open("rb") as opened:
                    files[path.name] = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        pass
    except OSError as error:
        TomlFile(str(folder), "Folder of agents").fail(f"it cannot be read ({error.strerror or error})")
    return AgentPlace(where, key, folder, files)


class AgentRegistry:
    """Agents by id, of places in the order in which they hide each other."""

    def __init__(self, places: Sequence[AgentPlace], store: AgentStore | None = None) -> None:
        self.places = list(places)
        self.store: AgentStore = store if store is not None else MemoryAgents()
        self._entries = list(self._found())

    def entries(self, *, with_hidden: bool = False) -> list[AgentEntry]:
        """Every agent, by id."""
        return [each for each in self._entries if with_hidden or not each.is_hidden]

    def specs(self) -> list[AgentSpec]:
        """Those that can be used."""
        specs = (each.spec for each in self.entries() if each.spec is not None)
        return [spec for spec in specs if spec.enabled]

    def entry(self, agent: str, where: Where | None = None) -> AgentEntry:
        """The file of an agent, whether it can be used or not; `where` finds one that another hides.

        Raises:
            UsageError: there is none; says which is near.
        """
        here = [each for each in self._entries if where in (None, each.place.where)]
        for each in here:
            if each.id == agent:
                return each
        names = [each.id for each in here]
        near = get_close_matches(agent, names, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else "List them: placet agent list."
        raise UsageError(f"There is no agent '{clean(agent, 80)}'. {hint}")

    def find(self, agent: str, where: Where | None = None) -> AgentEntry:
        """An agent that can be used; `spec` is there.

        Raises:
            PolicyFileError: its file is no agent as it stands; names file and key.
            UsageError: there is none.
        """
        found = self.entry(agent, where)
        if found.error is not None:
            raise found.error
        return found

    def versions(self, agent: str, where: Where | None = None) -> Sequence[Version]:
        """What is kept of an agent, the newest first; also of one that was removed."""
        if not is_id(agent):
            return ()
        return self.store.versions(self._place_of(agent, where).key, agent)

    def record(self, agent: str) -> SuccessRecord:
        """How its runs went."""
        return self.store.records(self._place_of(agent).key).get(agent, SuccessRecord())

    def note(self, entry: AgentEntry) -> Version:
        """Keep what an agent's file holds now."""
        return self.store.keep(entry.place.key, entry.id, entry.path.suffix, entry.text)

    # Changing

    def save(
        self, spec: AgentSpec, where: Where | None = None, *, suffix: str = ".toml", replace: bool = False
    ) -> AgentEntry:
        """Write an agent's file.

        Raises:
            InputError: it cannot be written.
            UsageError: the spec cannot be used, or there is an agent of this id and it is not to be replaced.
        """
        check_spec(spec)
        place = self._place(where)
        there = self._files_of(spec.id, place)
        if there and not replace:
            raise UsageError(
                f"There is an agent '{spec.id}' already: {there[0].path}. Choose another id, or edit that "
                "file."
            )
        if there:
            suffix = there[0].path.suffix
        text = checked_text(spec, suffix)
        self._note_all(there)
        return self._write(place, spec.id, suffix, text)

    def set_enabled(self, agent: str, enabled: bool, where: Where | None = None) -> AgentEntry:
        """Switch an agent on or off.

        Raises: what `find` and `save` raise.
        """
        found = self.find(agent, where)
        self._note_all([found])
        return self._write(
            found.place, agent, found.path.suffix, with_enabled(found.text, str(found.path), enabled)
        )

    def remove(self, agent: str, where: Where | None = None) -> AgentEntry:
        """Take an agent's file away. Its versions stay.

        Raises:
            InputError: it cannot be removed.
            UsageError: there is none.
        """
        found = self.entry(agent, where)
        self._note_all([found])
        _take_away(found.path)
        self._look_again(found.place)
        return found

    def revert(
        self, agent: str, number: int | None = None, where: Where | None = None
    ) -> tuple[AgentEntry, Version]:
        """Write an earlier version back, as the newest one; without a number, the one before the present.

        Raises:
            InputError: it cannot be written.
            UsageError: there is no such version; says which there are.
        """
        place = self._place_of(agent, where)
        there = self._files_of(agent, place)
        self._note_all(there)
        kept = self.store.versions(place.key, agent) if is_id(agent) else ()
        if not kept:
            self.entry(agent, where)
            raise UsageError(f"Nothing is kept of agent '{clean(agent, 80)}'.")
        if number is None:
            # After the newest ones, which are what is there now.
            chosen = kept[len(there)] if len(kept) > len(there) else None
        else:
            chosen = next((each for each in kept if each.number == number), None)
        if chosen is None:
            numbers = f"{kept[-1].number} to {kept[0].number}" if len(kept) > 1 else str(kept[0].number)
            which = f"no version {number}" if number is not None else "no earlier version"
            raise UsageError(f"There is {which} of agent '{agent}'. Kept: {numbers}.")
        written = self._write(place, agent, chosen.suffix, chosen.text)
        others = [each.path for each in there if each.path != written.path]
        for path in others:
            _take_away(path)
        if others:
            self._look_again(written.place)
            written = next(each for each in self._entries if each.path == written.path)
        return written, chosen

    def _files_of(self, agent: str, place: AgentPlace) -> list[AgentEntry]:
        """All files of one id in a place: there may be one of each kind."""
        return [each for each in self._entries if each.id == agent and each.place is place]

    def _note_all(self, entries: Sequence[AgentEntry]) -> None:
        """Keep what files hold before they are changed or go: the newest versions are then theirs.

        Raises:
            UsageError: one of them cannot be kept as it is.
        """
        for each in entries:
            if len(each.data) > MOST_BYTES or each.text.encode() != each.data:
                what = "too large" if len(each.data) > MOST_BYTES else "no UTF-8 text"
                raise UsageError(
                    f"{each.path} is {what}, so it cannot be kept as a version, and would be lost. Move it "
                    "away first."
                )
        if not entries:
            return
        kept = self.store.versions(entries[0].place.key, entries[0].id)[: len(entries)]
        newest = {(each.digest, each.suffix) for each in kept}
        if newest != {(digest_of(each.text), each.path.suffix) for each in entries}:
            for each in entries:
                self.note(each)

    def _write(self, place: AgentPlace, agent: str, suffix: str, text: str) -> AgentEntry:
        path = place.folder / f"{agent}{suffix}"
        beside = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            place.folder.mkdir(parents=True, exist_ok=True)
            with beside.open("x", encoding="utf-8", newline="") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
            beside.replace(path)
        except BaseException as error:
            # Whatever stays behind would cost the folder its trust.
            with suppress(OSError):
                beside.unlink()
            if not isinstance(error, OSError):
                raise
            raise InputError(f"Cannot write {path}: {error.strerror or error}.") from None
        self._look_again(place)
        found = next(each for each in self._entries if each.path == path)
        self.note(found)
        return found

    # Looking

    def _look_again(self, place: AgentPlace) -> None:
        at = self.places.index(place)
        self.places[at] = look(place.where, place.key, place.folder)
        self._entries = list(self._found())

    def _place(self, where: Where | None) -> AgentPlace:
        for place in self.places:
            if where is None or place.where == where:
                return place
        raise UsageError("There is no project here: make a folder .placet, or save the agent for yourself.")

    def _place_of(self, agent: str, where: Where | None = None) -> AgentPlace:
        """Where an agent is; of one that was removed, where something is kept of it."""
        if where is not None:
            return self._place(where)
        for each in self.entries():
            if each.id == agent:
                return each.place
        for place in self.places if is_id(agent) else ():
            if self.store.versions(place.key, agent):
                return place
        return self._place(None)

    def _found(self) -> Iterator[AgentEntry]:
        seen: set[str] = set()
        found: list[AgentEntry] = []
        for place in self.places:
            here = [_entry(place, name, data) for name, data in place.files.items() if is_agent_file(name)]
            twice = {each.id for each in here if sum(other.id == each.id for other in here) > 1}
            for each in here:
                if each.id in twice:
                    each = _twice(each)
                found.append(each._replace(is_hidden=each.id in seen))
            seen |= {each.id for each in here}
        return iter(sorted(found, key=lambda each: (each.id, each.is_hidden, each.path.name)))


def _take_away(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"Cannot remove {path}: {error.strerror or error}.") from None


def is_agent_file(name: str) -> bool:
    """Whether a file of this name, in a folder of agents, is an agent."""
    return not name.startswith(".") and name.lower().endswith(SUFFIXES) and name.upper() != "README.MD"


def _entry(place: AgentPlace, name: str, data: bytes) -> AgentEntry:
    path = place.folder / name
    stem = path.stem
    try:
        if not is_id(stem):
            TomlFile(str(path), "Agent file").fail(
                f"'{clean(stem, 80)}' cannot be an id",
                "id",
                "Call the file by 1 to 64 of a-z, 0-9, - and _, the first a letter or a digit.",
            )
        return AgentEntry(stem, place, path, data, read_agent(data, str(path)))
    except PolicyFileError as error:
        return AgentEntry(clean(stem, 80), place, path, data, None, error)


def _twice(entry: AgentEntry) -> AgentEntry:
    other = ".md" if entry.path.suffix == ".toml" else ".toml"
    error = PolicyFileError(
        str(entry.path),
        f"there is {entry.id}{other} as well, and both are agent '{entry.id}'",
        key="id",
        fix="Keep one of them.",
        what="Agent file",
    )
    return entry._replace(spec=None, error=error)
