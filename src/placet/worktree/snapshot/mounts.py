"""Whether two open things are on the same mount: beyond one lies what belongs to somebody else.

Keep true:
1. A folder mounted a second time on its own file system is another mount, too. Only where the system does
   not say which mount something is on is the device all that is compared.
2. A check is made on what is open, before anything in it is changed: a name could be mounted over after a
   look at it.
"""

from __future__ import annotations

import errno
import os


class OtherMount(OSError):
    """Something is mounted there, so nothing beyond is touched."""

    def __init__(self) -> None:
        super().__init__(errno.EXDEV, "something else is mounted there, and it was left alone")


def mount_of(opened: int) -> int | None:
    """The number of the mount that an open file or folder is on; None where the system does not say."""
    try:
        about = os.open(f"/proc/self/fdinfo/{opened}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        words = os.read(about, 4096).split()
    except OSError:
        return None
    finally:
        os.close(about)
    # It comes among the first lines; what follows depends on what is open.
    return int(words[words.index(b"mnt_id:") + 1]) if b"mnt_id:" in words[:-1] else None


def stay_on_mount(opened: int, parent: int) -> None:
    """See that what was opened by a name in a folder is on the mount of that folder.

    Raises:
        OtherMount: it is not.
    """
    if os.fstat(opened).st_dev != os.fstat(parent).st_dev or mount_of(opened) != mount_of(parent):
        raise OtherMount
