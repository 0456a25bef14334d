"""Run a program on a kernel that refuses something: user namespaces, or Landlock.

    python refuse.py "user namespaces" landlock -- program argument ...

A filter of system calls answers as such a kernel does. It holds for all that the program starts.
"""

import ctypes
import os
import struct
import sys

LOAD, AND, IF_EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38
NEW_USER = 0x10000000
CLONE, UNSHARE = (56, 272) if os.uname().machine == "x86_64" else (220, 97)
CLONE3 = 435


def steps(what):
    """The steps of the filter for one thing that is refused. The number of the call is loaded."""
    if what == "landlock":
        for number in (444, 445, 446):
            yield from [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | ENOSYS)]
    elif what == "user namespaces":
        for number in (CLONE, UNSHARE):
            yield from [
                (IF_EQUAL, 0, 5, number),
                (LOAD, 0, 0, 16),
                (AND, 0, 0, NEW_USER),
                (IF_EQUAL, 1, 0, 0),
                (RETURN, 0, 0, REFUSE | EPERM),
                (RETURN, 0, 0, ALLOW),
            ]
        # Its flags cannot be seen; programs turn to the older call.
        yield from [(IF_EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, REFUSE | ENOSYS)]
    else:
        raise SystemExit(f"nobody knows how to refuse {what!r}")


def main():
    end = sys.argv.index("--")
    program = [(LOAD, 0, 0, 0)]
    for what in sys.argv[1:end]:
        program += steps(what)
    program.append((RETURN, 0, 0, ALLOW))
    data = b"".join(struct.pack("=HBBI", *step) for step in program)
    kept = ctypes.create_string_buffer(data, len(data))
    wanted = struct.pack("@HP", len(program), ctypes.addressof(kept))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    holder = ctypes.create_string_buffer(wanted, len(wanted))
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.addressof(holder), 0, 0):
        raise SystemExit(f"the filter was not taken: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])


main()
