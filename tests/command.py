"""`placet` as the tests start it: a process of its own, in which the network guard is on.

The guard is put on by the command line alone. A variable or a module on the path of Python would reach every
program that Placet starts in its turn; those are not guarded, and neither are children that tests start by
other words than `PLACET`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

PLACET = [sys.executable, __file__]
"""As `python -m placet.cli.main`; the arguments follow."""

GUARD = Path(__file__).parents[1] / "src" / "placet" / "testing" / "network.py"


def put_on() -> None:
    """Guard this process to its end, and load nothing of Placet for it: what a command loads is tested."""
    spec = importlib.util.spec_from_file_location("network_guard", GUARD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.no_network().__enter__()


if __name__ == "__main__":
    import runpy

    sys.path[0] = os.getcwd()
    put_on()
    runpy.run_module("placet.cli.main", run_name="__main__", alter_sys=True)
