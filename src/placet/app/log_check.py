"""Check an event log against its anchor, also if the log is no longer there.

Keep true:
1. A log that the anchor knows and that is gone is a finding, never an error about a database that was not
   used yet.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from placet.app.app import open_records
from placet.errors import StorageUnavailable

if TYPE_CHECKING:
    from placet.events.chain import ChainReport


def verify_log(db: str | None, anchor: Path | None) -> ChainReport:
    """Check the log in the database `db`, or in the default one, against the anchor in a folder, or in the
    default one.

    Raises:
        StorageError: the database cannot be opened, or it holds no log and the anchor knows none in it.
        TrustError: it is the default of a project, and somebody else has made it.
        UsageError: it is none, or of no known kind.
    """
    from placet.events.anchor import Anchor
    from placet.events.sql import report_missing
    from placet.storage.location import is_server, user_folder

    try:
        with open_records(db, anchor=anchor) as records:
            return records.events.verify()
    except StorageUnavailable as error:
        report = None
        if error.holds_nothing or (not is_server(error.name) and _is_gone(error.name)):
            report = report_missing(error.name, Anchor(anchor or user_folder(os.environ) / "anchors"))
        if report is None:
            raise
        return report


def _is_gone(path: str) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        pass  # Who may not look cannot say that it is gone.
    return False
