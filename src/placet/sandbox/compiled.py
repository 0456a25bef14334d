"""The compiled code of those modules of ours that run on a bare interpreter, where none can be imported."""

from __future__ import annotations

import marshal
import os
import sys
from functools import cache
from typing import Any

from placet.errors import UsageError

INTERPRETER: str = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable or "")
"""What they run on. Not the one of a virtual environment: that may lie where commands write."""


@cache
def code_of(module: str) -> bytes:
    """The compiled code of a module that the keeper runs."""
    from importlib.util import find_spec

    found = find_spec(module)
    loader: Any = None if found is None else found.loader
    if loader is None:
        raise UsageError(f"The module {module} is missing. Install Placet again.")
    return marshal.dumps(loader.get_code(module))
