"""What the self-test tries from inside a sandbox. It runs there, and imports nothing of ours.

Each attempt is one that a command could make. What came of it is judged outside, by its effect, wherever an
effect can be seen there; only what was read or refused is told by the attempt itself.
"""

from __future__ import annotations

import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def attempts(outside: str, pid: int, port: int, abstract: str) -> list[tuple[str, Callable[[], Any]]]:
    """What to try: the protection that it would break, and how."""
    target = os.path.join(outside, "file")

    def write() -> None:
        with open(target, "w") as file:
            file.write("changed")

    def make() -> None:
        with open(os.path.join(outside, "made"), "x") as file:
            file.write("made")

    def read(path: str) -> None:
        with open(path, "rb") as file:
            if not file.read(64):
                raise OSError(0, "nothing in it")

    def tcp() -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as made:
            made.sendall(b"tcp")

    def udp() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            made.sendto(b"udp", ("127.0.0.1", port))

    def unix(address: str) -> None:
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(address)

    def fork() -> None:
        """More processes than the kernel should let us have; they end at once when we do."""
        for _ in range(int(sys.argv[6])):
            if os.fork() == 0:
                os.read(wait_fd, 1)
                os._exit(0)

    wait_fd, held_fd = os.pipe()
    os.set_inheritable(held_fd, False)
    return [
        ("fs_write", write),
        ("fs_write", make),
        ("fs_write", lambda: os.chmod(target, 0o640)),
        ("fs_write", lambda: os.utime(target, (1, 1))),
        ("fs_write", lambda: os.rename(os.path.join(outside, "named"), os.path.join(outside, "renamed"))),
        ("fs_write", lambda: os.unlink(os.path.join(outside, "doomed"))),
        ("fs_write", lambda: os.symlink("file", os.path.join(outside, "link"))),
        ("fs_read", lambda: read(os.path.join(outside, "secret"))),
        ("fs_read", lambda: read(os.path.join(".placet", "record"))),
        ("fs_read", lambda: read(f"/proc/{pid}/environ")),
        ("net", tcp),
        ("net", udp),
        ("unix_sockets", lambda: unix(os.path.join(outside, "socket"))),
        ("unix_sockets", lambda: unix("\0" + abstract)),
        ("proc_kill", lambda: os.kill(pid, 15)),
        ("pids", fork),
    ]


def main() -> None:
    """Try all of it, and print the place of each attempt that nobody stopped."""
    outside, pid, port, abstract = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    for number, (_, attempt) in enumerate(attempts(outside, pid, port, abstract)):
        try:
            attempt()
        except (OSError, ValueError):
            continue
        print(number, flush=True)
    print("tried", flush=True)
    os._exit(0)
