"""Attacks on terminals. What a command writes is shown to people: test_terminal.py looks at that."""

from __future__ import annotations

from tests.attacks.case import Batch

TERMINAL = Batch("terminal")

TERMINAL.sh(
    "own terminal", "always", "echo evil > /dev/tty && echo x > reached; tty > /dev/null && echo y > reached"
)
TERMINAL.sh("terminal of a person", "fs_write", 'printf "rm -rf /\\n" > "$TERMINAL"')
TERMINAL.sh(
    "every terminal",
    "fs_write",
    """
for t in /dev/pts/[0-9]* /dev/tty[0-9]* /dev/console
do echo evil > $t
done
for p in /proc/[0-9]*/fd/[012]
do case $(readlink $p) in /dev/pts/*) echo evil > $p;
esac
done
""",
)
TERMINAL.python(
    "typing for a person",
    "fs_write",
    """
import fcntl
held = os.open(E["TERMINAL"], os.O_RDWR | os.O_NOCTTY)
os.write(held, b"evil")
for letter in b"evil\\n":
    attempt(fcntl.ioctl, held, 0x5412, bytes([letter]))
""",
)
TERMINAL.python(
    "typing into a terminal of one's own",
    "process",
    """
import fcntl
os.setsid() if os.getsid(0) != os.getpid() else None
main, other = os.openpty()
attempt(fcntl.ioctl, other, 0x540E, 0)
if attempt(fcntl.ioctl, other, 0x5412, b"x") is not None:
    reached("typed")
if attempt(fcntl.ioctl, other, 0x5423, struct.pack("i", 0)) is not None:
    reached("another driver for the line")
""",
)
TERMINAL.sh(
    "messages to everybody",
    "fs_write",
    "wall evil; write root evil; logger evil; echo evil > /dev/kmsg",
    bare=False,
)
