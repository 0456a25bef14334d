"""How much isolation the runs of a folder must have: what settings demand, what a run began with, what an
option adds, and what a person has lowered for a while.

Keep true:
1. Whatever is demanded only adds up: the strictest holds. The one thing that takes away is a lowering, which
   a person has written down with a reason and an end.
2. A lowering is for one folder, by its real path, and ends by itself. One that cannot be read lowers nothing.
3. A run that has less because of a lowering has it in its log before anything else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from placet.app.governance import Demand, Governance
from placet.app.private_record import PrivateRecord
from placet.app.trust import real
from placet.errors import IsolationMissing, UsageError
from placet.sandbox.confinement import Isolation
from placet.sandbox.isolation import Level, is_at_least
from placet.storage.location import user_folder

if TYPE_CHECKING:
    from placet.ir.json_value import JsonValue
    from placet.sandbox.hosts import HostFilter
    from placet.sandbox.workspace import Workspace

FILE_NAME = "lowered.json"
LONGEST_S = 7 * 86_400
"""Of a lowering. Whoever needs less for longer changes the settings, where everybody sees it."""


class Lowering(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person has decided about a folder, for a while."""

    level: Level
    """What is enough there, whatever is demanded."""
    until: str
    """UTC, ISO 8601."""
    because: str
    time: str
    """When it was decided. UTC, ISO 8601."""

    def holds(self, now: datetime) -> bool:
        """Whether its time is not over; one whose end cannot be read has ended."""
        try:
            return datetime.fromisoformat(self.until) > now
        except (ValueError, TypeError):
            return False


class Required(NamedTuple):
    """What a run must have, and how that came about."""

    level: Level | None
    """As `Isolation` takes it: None where nothing is required, so that whatever works here is used."""
    demanded: Level = "none"
    """What it would have to be without a lowering."""
    lowering: Lowering | None = None
    """The one that is made use of."""

    @property
    def is_checked(self) -> bool:
        """Whether there is anything that could be missing."""
        return self.level not in (None, "none")

    def as_data(self) -> dict[str, JsonValue]:
        """The lowering as the log has it; nothing where none is used."""
        if self.lowering is None:
            return {}
        return {
            "required": self.demanded,
            "lowered_to": self.level or "none",
            "until": self.lowering.until,
            "because": self.lowering.because,
        }


def required(
    folder: Path,
    demand: Demand,
    environment: Mapping[str, str],
    *,
    asked: Level | None = None,
    began_with: Level | None = None,
    now: datetime | None = None,
) -> Required:
    """What the runs of `folder` must have.

    `asked` is what a person asks for this time: it may raise, and what would lower is refused. "none", where
    nothing is required, is the wish that nothing be confined. `began_with` is what was asked for when a run
    began that is resumed.

    Raises:
        TrustError: the record of lowerings is damaged.
        UsageError: `asked` is less than what must be.
    """
    if began_with is not None:
        demand = demand.or_more(began_with, "the run when it began")
    lowering = lowering_of(folder, environment, now) if demand.level != "none" else None
    if lowering is not None and is_at_least(lowering.level, demand.level):
        lowering = None
    floor = demand.level if lowering is None else lowering.level
    if asked is not None and not is_at_least(asked, floor):
        raise UsageError(
            f"--isolation {asked} is less than '{floor}', which {demand.source} requires. Leave the "
            "option out; or, if that is yours to decide, lower it for a while: "
            f'placet isolation lower {asked} --for 2h --because "..."'
        )
    if asked is None and floor == "none" and began_with != "none":
        return Required(None, demand.level, lowering)
    level = asked or floor
    if is_at_least(level, demand.level):
        return Required(level, level)
    return Required(level, demand.level, lowering)


# What a person has lowered


def lowering_of(folder: Path, environment: Mapping[str, str], now: datetime | None = None) -> Lowering | None:
    """What holds for a folder now, if anything was lowered there.

    Raises:
        TrustError: the record of lowerings is damaged.
    """
    return lowerings(environment, now).get(str(real(folder)))


def lowerings(environment: Mapping[str, str], now: datetime | None = None) -> dict[str, Lowering]:
    """What holds now, by the real path of each folder.

    Raises:
        TrustError: the record of lowerings is damaged.
    """
    return _that_hold(_record(environment).load(), now)


def lower(
    folder: Path,
    level: Level,
    environment: Mapping[str, str],
    *,
    for_s: float,
    because: str,
    now: datetime | None = None,
) -> Lowering:
    """Let `level` be enough in a folder, for so long. On disk when it returns.

    Raises:
        TrustError: that cannot be written, or what is there is damaged.
        UsageError: it is for too long, or without a reason.
    """
    if for_s > LONGEST_S:
        raise UsageError(
            "Isolation is lowered for 7 days at most. Choose less; for longer change `require` under "
            "[isolation] in the settings."
        )
    if not because.strip():
        raise UsageError("Isolation is lowered for a reason. Say which: --because TEXT.")
    began = now or datetime.now(UTC)
    made = Lowering(
        level=level,
        until=(began + timedelta(seconds=for_s)).isoformat(timespec="seconds"),
        because=because,
        time=began.isoformat(timespec="seconds"),
    )
    with _record(environment).changing() as known:
        held = _that_hold(known, now)
        known.clear()
        known.update({**held, str(real(folder)): made})
    return made


def end_lowering(folder: Path, environment: Mapping[str, str]) -> bool:
    """Require again what is demanded, also of a folder that is gone; false if nothing was lowered.

    Raises:
        TrustError: that cannot be written, or what is there is damaged.
    """
    name = str(real(folder))
    if name not in lowerings(environment):
        return False
    with _record(environment).changing() as known:
        return known.pop(name, None) is not None


def _that_hold(known: Mapping[str, Lowering], now: datetime | None) -> dict[str, Lowering]:
    at = now or datetime.now(UTC)
    return {name: each for name, each in known.items() if each.holds(at)}


def _record(environment: Mapping[str, str]) -> PrivateRecord[Lowering]:
    return PrivateRecord(
        user_folder(environment) / FILE_NAME,
        Lowering,
        key="folders",
        otherwise="nobody knows what was lowered",
        again="lower again what has to be, with `placet isolation lower`",
    )


# What follows for a runtime


def isolation_for(needed: Required, rules: Governance, environment: Mapping[str, str]) -> Isolation:
    """How the commands of a runtime are confined."""
    options: dict[str, Any] = {
        "hosts": rules.own.command_hosts,
        "trusted": rules.own.trusted_tools,
        "folder": user_folder(environment),
        "environment": environment,
    }
    if needed.lowering is not None:
        return LoweredIsolation(needed, **options)
    return Isolation(needed.level, **options)


def way_out(needed: Required, demand: Demand, asked: Level | None) -> str:
    """What a person can do where this machine has less than a run must have; `{found}` stands for that."""
    if asked == needed.level and not is_at_least(demand.level, needed.level or "none"):
        return f"Or leave out --isolation {asked}: then commands are confined as far as this machine can."
    return (
        "Or, if that is yours to decide, let less do for a while: "
        'placet isolation lower {found} --for 2h --because "..."'
    )


def check_isolation(isolation: Isolation, workspace: Workspace, otherwise: str = "") -> None:
    """Refuse to start where less is enforced than is required. `otherwise` is the last thing to do about it.

    Raises:
        IsolationMissing: so it is.
    """
    from threading import Thread

    from placet.runtime.sync import run_sync
    from placet.sandbox.remedies import remedies_of_folder

    failures: list[BaseException] = []

    def check() -> None:
        try:
            run_sync(isolation.check(workspace))
        except IsolationMissing as error:
            known = error.remedies or remedies_of_folder(str(workspace.folder), os.environ)
            more = [*known, otherwise.replace("{found}", error.found)] if otherwise else known
            failures.append(IsolationMissing(error.required, error.found, more))
        except BaseException as error:
            failures.append(error)

    # On a thread of its own: whoever opens a runtime may well have an event loop running already.
    thread = Thread(target=check, name="placet-isolation")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def hosts_of_http(needed: Required, rules: Governance) -> HostFilter | None:
    """What http_get may speak to: where commands must be confined, the same as they."""
    from placet.sandbox.hosts import HostFilter

    if needed.level != "process":
        return rules.own.hosts
    return rules.own.command_hosts or HostFilter(allow=())


class LoweredIsolation(Isolation):
    """Requires less until a lowering ends, and then what was demanded all along: a server may outlive it."""

    def __init__(self, needed: Required, **options: Any) -> None:
        self._needed = needed
        super().__init__(needed.level, **options)

    @property
    def required(self) -> Level | None:
        """What is required now."""
        lowering = self._needed.lowering
        holds = lowering is not None and lowering.holds(datetime.now(UTC))
        return self._level if holds else self._needed.demanded

    @required.setter
    def required(self, level: Level | None) -> None:
        self._level = level

    def speaking_to(self, hosts: HostFilter) -> Isolation:
        """The same, for commands that may speak to other hosts."""
        return LoweredIsolation(
            self._needed,
            hosts=hosts,
            trusted=self.trusted,
            folder=self.folder,
            environment=self._environment,
        )

    def lowered(self) -> dict[str, JsonValue]:
        """The lowering, as long as it holds."""
        lowering = self._needed.lowering
        return self._needed.as_data() if lowering is not None and lowering.holds(datetime.now(UTC)) else {}
