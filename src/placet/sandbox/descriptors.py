"""Messages that carry descriptors, and descriptors that get the numbers that a command expects.

It runs on a bare interpreter too (`forking.py`): nothing of this package is imported.

Keep true:
1. What was received is inherited by no program, unless it got the number that was meant for it.
2. No descriptor is lost by giving its number to another one.
"""

from __future__ import annotations

# The module `socket` is this one and some enums, which take longer to make than all the rest.
import _socket as socket
import fcntl
import os
import struct

MOST_FDS = 200
"""Descriptors of one command, with its streams."""
MESSAGE = struct.Struct(f"!{MOST_FDS + 2}i")
"""How many descriptors come with it, and the number that each is to have; 0 to 2 are the streams."""
ANY = -1
"""The number of a descriptor that may have any."""
STAGE_NUMBER = -2
"""The number of a stage (`other_user.py`), which may have any too."""


def pack(numbers: list[int]) -> bytes:
    """The message for descriptors that are to have these numbers."""
    return MESSAGE.pack(len(numbers), *numbers, *[ANY] * (MOST_FDS + 1 - len(numbers)))


def send_message(where: socket.socket, numbers: list[int], given: list[int]) -> None:
    """Send a message that the other end is sure to have room for.

    Raises:
        OSError: the other end is gone.
    """
    rights = struct.pack(f"{len(given)}i", *given)
    where.sendmsg([pack(numbers)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive_message(where: socket.socket) -> tuple[list[int], list[int]]:
    """The numbers of the next message and its descriptors, of which some may be missing. Empty at the end."""
    data, given = b"", list[int]()
    size = socket.CMSG_SPACE((MOST_FDS + 1) * 4)
    while len(data) < MESSAGE.size:
        try:
            part, besides, _, _ = where.recvmsg(MESSAGE.size - len(data), size, _CLOSE_ON_EXEC)
        except OSError:
            part, besides = b"", []
        for _, kind, rights in besides:
            if kind == socket.SCM_RIGHTS:
                given += struct.unpack(f"{len(rights) // 4}i", rights[: len(rights) // 4 * 4])
        if not part:
            return [], given
        data += part
    count, *numbers = MESSAGE.unpack(data)
    for number in given if not _CLOSE_ON_EXEC else ():
        os.set_inheritable(number, False)
    return numbers[:count], given


def give_numbers(numbers: list[int], given: list[int], others: list[int]) -> list[int]:
    """Give descriptors the numbers that they are to have. `others` are kept: where they are then."""
    # All away first: a number that is wanted may be that of another one.
    others = [move_away(number, numbers) for number in others]
    moved = [move_away(number, numbers) for number in given]
    for wanted, number in zip(numbers, moved, strict=True):
        if wanted >= 0:
            os.dup2(number, wanted)
            os.close(number)
    return others


def move_away(number: int, wanted: list[int]) -> int:
    """The same descriptor under a number that nobody wants: a low one, of which there may be few."""
    tried = []
    while number in wanted:
        tried.append(number)
        number = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    for each in tried:
        os.close(each)
    return number


_CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
