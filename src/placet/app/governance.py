"""What governs the runs of a folder: the rules, permissions and tools of the person and of the project.

Rules only deny or ask, so all that are found apply at once, whoever wrote them. What loosens waits for trust:
a project's code, and answers that are milder than the person's own.

Keep true:
1. Whoever brings a folder can make things stricter, and nothing milder, until a person has trusted it.
2. Every file is read once. What a person was asked about is what takes effect, whatever is on disk by then.
3. No rule takes the place of another: where two places use one name, both apply.
4. A project inside another takes nothing away from the outer one: neither rules nor stricter permissions.
5. What looks like rules and would not be read is an error, never passed over.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, NoReturn

from placet.app.seen_modules import SeenTools
from placet.app.settings import FILE_NAME, Settings, parse_settings
from placet.app.trust import Snapshot, how_trusted, read_files, snapshot, trust
from placet.errors import TrustError
from placet.policy.case import Rule
from placet.policy.loader import check_names, parse_policies, read_policies
from placet.policy.permission import TIERS, Permissions, Posture
from placet.policy.toml_file import TomlFile
from placet.sandbox.isolation import Level, is_at_least
from placet.storage.location import PROJECT_FOLDER, config_folder, project_folders

PolicyPlace = tuple[str, list[tuple[Path, bytes]]]
"""Where policy files are ("user", "project", ...), and each of them with what it held."""

_POLICIES = "policies"
_NEAREST, _NAMED = "project", "--policies"
"""Places of rules that are meant for the folder where the run is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """May what this folder brings take effect?"""

    seen: Snapshot
    """All that is there, as it was read; what is trusted is this."""
    wants: tuple[str, ...]
    """What it would do that needs trust, each as the rest of a sentence that begins with the folder."""
    is_changed: bool = False
    """Whether it was trusted before, with other files."""

    @property
    def folder(self) -> Path:
        """The folder that holds `.placet`."""
        return self.seen.folder


CONTRACT = "contract.toml"
RUNS_CHECKS = f"runs the checks of {PROJECT_FOLDER}/{CONTRACT}"
"""What `placet code` does with a contract that a folder keeps."""
NO_TOOLS = ""
"""In the place of a tools file, so that the project's is not wanted."""
LOOPS = "loops"
RUNS_LOOPS = f"runs the loops of {PROJECT_FOLDER}/{LOOPS}"
"""What `placet loop` does with the loops that a folder keeps."""


AGENTS = "agents"
BRINGS_AGENTS = f"brings agents, in {PROJECT_FOLDER}/{AGENTS}"
"""What `placet agent run` does with agents that a folder keeps: their words and checks take effect."""
SKILLS = "skills"
BRINGS_SKILLS = f"brings skills, in {PROJECT_FOLDER}/{SKILLS}"
"""What runs with a memory do with skills that a folder keeps: models are offered them."""


class Demand(NamedTuple):
    """The least isolation that commands must have, and who says so. "none" demands nothing: what works is
    used all the same."""

    level: Level = "none"
    source: str = ""
    """The settings file; empty where nobody demands anything."""

    def or_more(self, level: Level, source: str) -> Demand:
        """The stricter of this and another."""
        return self if is_at_least(self.level, level) else Demand(level, source)


NO_DEMAND = Demand()
NO_SETTINGS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Governance:
    """What governs the runs of a folder."""

    folder: Path
    """The project's, which holds `.placet`; without one, where the search began."""
    policies: list[tuple[str, Rule]]
    """All rules under names that are their own: the person's, the projects' from the outermost, the named."""
    policy_files: list[PolicyPlace]
    """The files that these rules were read from, in the same order."""
    general: frozenset[str] = frozenset()
    """The names of rules that also hold in other folders: the person's own, and those of outer projects. The
    tools that they name need not be known here."""
    permissions: Permissions | None = None
    """None where nobody says anything."""
    tools: str | None = None
    """The tools file: the one that was named, else the project's."""
    tools_source: SeenTools | None = None
    """What the project's tools file and those beside it held when they were looked at: run this. None for a
    file that was named."""
    tools_sha256: str | None = None
    """The digest of the project's tools file."""
    isolation: Demand = NO_DEMAND
    """The strictest that anybody's settings demand, the person's or a project's."""
    own: Settings = NO_SETTINGS
    """What the person says: hosts, models, memory, traces, tools to trust."""

    @property
    def policies_sha256(self) -> str:
        """Digest of all rules in their order, wherever their files are."""
        digest = sha256()
        for _, files in self.policy_files:
            for _, data in files:
                digest.update(sha256(data).digest())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Project:
    folder: Path
    """The `.placet` folder."""
    files: Mapping[str, bytes]
    seen: Snapshot | None
    """Only of the nearest, where it has settings, which may want something."""
    settings: Settings


def gather(
    start: Path,
    environment: Mapping[str, str],
    *,
    policies: str | None = None,
    tools: str | None = None,
    confirm: Callable[[Question], bool] | None = None,
) -> Governance:
    """What governs a run that is started in the folder `start`.

    Args:
        start: Where the search for `.placet` folders begins, upwards.
        environment: Says where the person's own settings, policies and record of trust are.
        policies: More rules: a file or a folder.
        tools: A tools file that goes before the project's; a person who names one has chosen it.
        confirm: Asks the person; yes is remembered. None where nobody can be asked.

    Raises:
        PolicyFileError: a policy or settings file means nothing as it stands.
        TrustError: the project wants what needs trust, and nobody can be asked; or its files, or the record
            of trust, cannot be read safely.
    """
    found = project_folders(start)
    projects = [_read_project(folder, is_nearest=folder == found[0]) for folder in found]
    places = _policy_places(environment, projects, policies)
    rules, general = _apart((where, parse_policies(files)) for where, files in places)
    mine = own_settings(environment)
    own = mine.over(Permissions()) if mine.has_permissions else None
    nearest = projects[0] if projects else None
    permissions, inner = own, None
    if nearest is not None:
        settings = nearest.settings
        permissions = settings.over(own or Permissions()) if settings.has_permissions else own
        inner = settings.tools if tools is None else None
        if nearest.seen is not None:
            wants = _wants(inner, own, permissions)
            if wants and not granted(nearest.seen, wants, environment, confirm):
                inner, permissions = None, _tightened(own, permissions)
    for outer in projects[1:]:
        if outer.settings.has_permissions:
            # Over the person's own: what a project further in says of an agent is no answer to this.
            permissions = _tightened(permissions, outer.settings.over(own or Permissions()))
    source = SeenTools(inner, nearest.files) if nearest is not None and inner is not None else None
    return Governance(
        folder=start.absolute() if nearest is None else nearest.folder.parent,
        policies=rules,
        policy_files=places,
        general=general,
        permissions=permissions,
        tools=tools if nearest is None or inner is None else str(nearest.folder / inner),
        tools_source=source,
        tools_sha256=sha256(source.source).hexdigest() if source is not None else None,
        isolation=_demand(mine, projects, environment),
        own=mine,
    )


def demanded(start: Path, environment: Mapping[str, str]) -> tuple[Path, Demand]:
    """The folder whose runs those of `start` are, as `gather` finds it, and the isolation that is demanded.

    Nobody is asked and nothing needs trust: a demand only restricts.

    Raises:
        PolicyFileError: a settings file means nothing as it stands.
        TrustError: a project's files cannot be read safely.
    """
    found = project_folders(start)
    projects = [_read_project(folder, is_nearest=folder == found[0]) for folder in found]
    folder = found[0].parent if found else start.absolute()
    return folder, _demand(own_settings(environment), projects, environment)


def _demand(mine: Settings, projects: list[_Project], environment: Mapping[str, str]) -> Demand:
    demand = NO_DEMAND
    if mine.require is not None:
        demand = demand.or_more(mine.require, str(config_folder(environment) / FILE_NAME))
    for project in projects:
        if project.settings.require is not None:
            demand = demand.or_more(project.settings.require, str(project.folder / FILE_NAME))
    return demand


def examine(folder: Path, environment: Mapping[str, str]) -> Question:
    """What trusting a folder would mean: everything in it, and what it wants.

    Raises:
        PolicyFileError: a file in it means nothing as it stands.
        TrustError: it has no `.placet`, or what is in it cannot be read safely.
    """
    seen = snapshot(folder)
    _refuse_misnamed(seen.folder / PROJECT_FOLDER)
    project = _parse_project(seen.folder / PROJECT_FOLDER, seen.files, seen)
    parse_policies(_policy_files(project))
    mine = own_settings(environment)
    own = mine.over(Permissions()) if mine.has_permissions else None
    wants = _wants(project.settings.tools, own, project.settings.over(own or Permissions()))
    if CONTRACT in seen.files:
        wants += (RUNS_CHECKS,)
    if any(name.startswith(f"{AGENTS}/") for name in seen.files):
        wants += (BRINGS_AGENTS,)
    if any(name.startswith(f"{SKILLS}/") for name in seen.files):
        wants += (BRINGS_SKILLS,)
    if any(name.startswith(f"{LOOPS}/") for name in seen.files):
        wants += (RUNS_LOOPS,)
    return Question(seen=seen, wants=wants, is_changed=how_trusted(seen, environment) == "changed")


def granted(
    seen: Snapshot,
    wants: tuple[str, ...],
    environment: Mapping[str, str],
    confirm: Callable[[Question], bool] | None,
) -> bool:
    """Whether a person trusts what a folder brings; `confirm` asks them, where they have not said so before.

    Raises:
        TrustError: it is not trusted, and there is nobody to ask.
    """
    degree = how_trusted(seen, environment)
    if degree == "trusted":
        return True
    if confirm is None:
        problem = "has changed since you trusted it" if degree == "changed" else "is not trusted"
        raise TrustError(
            str(seen.folder),
            f"{problem}, and it {'; it '.join(wants)}",
            f"Look at its {PROJECT_FOLDER} folder, then type: placet trust {shlex.quote(str(seen.folder))}",
        )
    if not confirm(Question(seen=seen, wants=wants, is_changed=degree == "changed")):
        return False
    trust(seen, environment)
    return True


# Files


def _read_project(folder: Path, *, is_nearest: bool) -> _Project:
    _refuse_misnamed(folder)
    if is_nearest and _is_there(folder / FILE_NAME):
        seen = snapshot(folder.parent)
        return _parse_project(folder, seen.files, seen)
    files = read_files(folder, _POLICIES)
    if not is_nearest:
        # What it brings besides is not looked at: it takes no effect further in.
        files |= read_files(folder, FILE_NAME)
    return _parse_project(folder, files, None)


def _is_there(path: Path) -> bool:
    # Also a link that leads nowhere: it is refused later, by its name.
    return path.is_symlink() or path.exists()


def _refuse_misnamed(folder: Path) -> None:
    """Refuse what was meant for a file of ours and would be passed over for its name."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError as error:
        raise TrustError(
            str(folder), f"cannot be read: {error.strerror or error}", "Check its permissions."
        ) from None
    for name in names:
        if name.lower() == f"{_POLICIES}.toml" or (name.lower() == _POLICIES and name != _POLICIES):
            fix = f"Put rules into files {folder / _POLICIES}/*.toml."
            TomlFile(str(folder / name)).fail("it would not be read", fix=fix)
        if name.lower() == FILE_NAME and name != FILE_NAME:
            TomlFile(str(folder / name), "Settings file").fail(
                "it would not be read", fix=f"Call it {folder / FILE_NAME}."
            )


def _parse_project(folder: Path, files: Mapping[str, bytes], seen: Snapshot | None) -> _Project:
    path = folder / FILE_NAME
    data = files.get(FILE_NAME)
    settings = parse_settings(path, data, of_project=True) if data is not None else Settings()
    if seen is not None and settings.tools is not None and settings.tools not in files:
        TomlFile(str(path), "Settings file").fail(
            f"there is no file {folder / settings.tools}", "tools", "Name one that is there, or drop the key."
        )
    return _Project(folder, files, seen, settings)


def _policy_files(project: _Project) -> list[tuple[Path, bytes]]:
    folder = project.folder / _POLICIES
    if _POLICIES in project.files:
        _refuse_no_folder(folder)
    inside = {Path(name): data for name, data in project.files.items() if Path(name).parts[0] == _POLICIES}
    check_names(folder, [path.relative_to(_POLICIES) for path in inside])
    return [(project.folder / path, data) for path, data in inside.items() if path.suffix == ".toml"]


def _refuse_no_folder(path: Path) -> NoReturn:
    TomlFile(str(path)).fail("it is no folder", fix=f"Put rules into files {path}/*.toml.")


def _policy_places(
    environment: Mapping[str, str], projects: list[_Project], named: str | None
) -> list[PolicyPlace]:
    places: list[PolicyPlace] = []
    own = config_folder(environment)
    _refuse_misnamed(own)
    if _is_there(own / _POLICIES):
        places += [("user", files)] if (files := _own_policies(own / _POLICIES)) else []
    for project in reversed(projects):
        where = _NEAREST if project is projects[0] else f"project {project.folder.parent}"
        places.append((where, _policy_files(project)))
    if named is not None:
        # A file that was found by itself is not counted twice for being named as well.
        known = {path.resolve() for _, files in places for path, _ in files}
        files = [(path, data) for path, data in read_policies(named) if path.resolve() not in known]
        places.append((_NAMED, files))
    return places


def _own_policies(folder: Path) -> list[tuple[Path, bytes]]:
    if not folder.is_dir():
        _refuse_no_folder(folder)
    return read_policies(folder, may_be_empty=True)


def _apart(
    places: Iterable[tuple[str, list[tuple[str, Rule]]]],
) -> tuple[list[tuple[str, Rule]], frozenset[str]]:
    """All rules in order, each under a name of its own: one that two places use is told with its place. And
    the names of those that also hold in other folders."""
    found = [(where, name, rule) for where, rules in places for name, rule in rules]
    uses = Counter(name for _, name, _ in found)
    taken = {name for name, number in uses.items() if number == 1}
    apart: list[tuple[str, Rule]] = []
    general: set[str] = set()
    for where, name, rule in found:
        if uses[name] > 1:
            name = f"{name} ({where})"
            while name in taken:
                # Somebody has called a rule just so.
                name = f"{name} ({where})"
            taken.add(name)
        apart.append((name, rule))
        if where not in (_NEAREST, _NAMED):
            general.add(name)
    return apart, frozenset(general)


# Permissions


def own_settings(environment: Mapping[str, str]) -> Settings:
    """What the person's own settings say.

    Raises:
        PolicyFileError: they mean nothing as they stand, or cannot be read.
    """
    path = config_folder(environment) / FILE_NAME
    if not _is_there(path):
        return Settings()
    try:
        data = path.read_bytes()
    except OSError as error:
        TomlFile(str(path), "Settings file").fail(
            f"it cannot be read ({error.strerror or error})", fix="Check its permissions."
        )
    return parse_settings(path, data, of_project=False)


def _wants(tools: str | None, own: Permissions | None, wanted: Permissions | None) -> tuple[str, ...]:
    wants = []
    if tools is not None:
        runs = "runs the commands of" if tools.endswith(".toml") else "runs code from"
        wants.append(f"{runs} {PROJECT_FOLDER}/{tools}")
    lowered = _lowered(own or Permissions(), wanted or Permissions())
    if lowered:
        wants.append(f"lowers what needs asking: {', '.join(lowered)}")
    return tuple(wants)


def _callers(*permissions: Permissions) -> list[str | None]:
    """Everyone, and each agent that somebody names."""
    return [None, *sorted({name for given in permissions for name in given.agents})]


def _lowered(own: Permissions, wanted: Permissions) -> list[str]:
    """Each answer that would be milder than the person's own, in words."""
    found = []
    for caller in _callers(own, wanted):
        mine, other = own.posture(caller), wanted.posture(caller)
        strict = mine.tightened(other)
        if caller is not None and (mine, other) == (own.standing, wanted.standing):
            continue  # Said for everyone already.
        whose = "" if caller is None else f"agent '{caller}': "
        found += [
            f"{whose}{tier} from {mine.to(tier)} to {other.to(tier)}"
            for tier in TIERS
            if strict.to(tier) != other.to(tier)
        ]
    return found


def _tightened(own: Permissions | None, wanted: Permissions | None) -> Permissions | None:
    """The stricter of both, for everyone and for each agent."""
    if own is None or wanted is None:
        return own or (_tightened(Permissions(), wanted) if wanted is not None else None)

    def both(caller: str | None) -> Posture:
        return own.posture(caller).tightened(wanted.posture(caller))

    agents = {name: both(name) for name in _callers(own, wanted) if name is not None}
    return Permissions(standing=both(None), agents=agents)
