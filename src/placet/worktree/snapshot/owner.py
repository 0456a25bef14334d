"""The run that a snapshot or a claim belongs to, and the process that works on it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placet.storage.lease import Holder, holder, is_dead


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A process at work on a run."""

    run_id: str
    holder: Holder
    folders: Sequence[str] = ()
    """Where it works."""


def this_process(run_id: str, folders: Sequence[str] = ()) -> Owner:
    """This one, at work on a run."""
    return Owner(run_id=run_id, holder=holder(""), folders=list(folders))


def read_owner(path: str) -> Owner | None:
    """What stands in a file; None if it cannot be read, or is something else."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None


def is_gone(owner: Owner) -> bool:
    """Whether that process is surely gone. False where it cannot be known from here."""
    here, other = holder(""), owner.holder
    # Unlike a lease, a snapshot does not run out: one from before the machine's last start is nobody's.
    has_started_anew = other.host == here.host and other.boot not in ("", here.boot)
    return has_started_anew or is_dead(other)
