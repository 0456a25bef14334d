"""Where a tool runs, and whom it may speak to from there, for people who want to know before they call it.

Keep true: what is told is what the tool was made with. It is never read off a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from placet.sandbox.confinement import Outside

RunsIn = Literal["placet", "model", "sandbox", "nothing"] | Outside
"""In Placet's own process, as what comes with Placet; at the model that is attached; in a sandbox; in none,
because none is wanted; or outside of every sandbox."""


class Reach(msgspec.Struct, frozen=True):
    """Where a tool runs, and what that means."""

    runs_in: RunsIn
    hosts: Sequence[str] = ()
    """Of one in a sandbox: whom it may speak to."""

    @property
    def outside(self) -> Outside:
        """As which it would be withheld."""
        known: tuple[Outside, ...] = get_args(Outside)
        return next((each for each in known if each == self.runs_in), "program")


BUILT_IN = Reach("placet")
MODEL = Reach("model")
PYTHON = Reach("python")
SERVER = Reach("server")
