"""Processes that end with the one that started them, however that one ends.

    python -P orphan.py PARENT MODULE ARGUMENTS ...    is `python -m MODULE ARGUMENTS`, while PARENT lives

Keep true: this file stands alone. It is run by its path, where nothing of ours can be imported.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends; at once, if that one has ended already."""
    import threading

    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        from time import sleep

        while os.getppid() == parent:
            sleep(1.0)
        os._exit(1)

    if sys.platform != "linux":
        # Elsewhere the kernel does not do it: look now and then.
        threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Be the module that the arguments name."""
    import runpy

    parent, module, *arguments = sys.argv[1:]
    die_with(int(parent))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
