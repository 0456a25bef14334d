"""What Python attacks begin with. It runs inside the sandbox, on a bare interpreter."""

# ruff: noqa: F401
import _signal as signal
import os
import sys
import time


class Later:
    """A module, or what it makes, once it is used. To load all of them takes longer than most attacks."""

    def __init__(self, make):
        self.make = make

    def __getattr__(self, name):
        if "made" not in self.__dict__:
            self.made = self.make()
        return getattr(self.made, name)


def _libc():
    made = ctypes.CDLL(None, use_errno=True)
    made.syscall.restype = ctypes.c_long
    return made


ctypes = Later(lambda: __import__("ctypes"))
socket = Later(lambda: __import__("socket"))
struct = Later(lambda: __import__("struct"))
libc = Later(_libc)
E = os.environ
OUTSIDE, HOME, WORK = E["OUTSIDE"], E["VICTIM_HOME"], E["WORK"]
VICTIMS = [int(pid) for pid in E["VICTIMS"].split()]
TCP, UDP = int(E["TCP"]), int(E["UDP"])


def reached(what):
    """Show what was got, where nothing of it can be seen from outside."""
    with open(os.path.join(WORK, "reached"), "a") as file:
        file.write(f"{what}\n")


def attempt(action, *arguments, **named):
    """What came of one attempt; None if it was refused. Others follow."""
    try:
        return action(*arguments, **named)
    except (OSError, ValueError, AssertionError, MemoryError, OverflowError):
        return None


def read(path):
    with open(path, "rb") as file:
        data = file.read(1 << 20)
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()
    return data


def write(path, data="changed", mode="w"):
    with open(path, mode) as file:
        file.write(data)
    return True


def call(number, *arguments):
    """A system call by its number; raises what it answered."""
    wide = [
        each
        if isinstance(each, (bytes, type(None)))
        or hasattr(each, "_as_parameter_")
        or isinstance(each, (ctypes.Array, ctypes.Structure))
        or type(each).__name__ == "CArgObject"
        else ctypes.c_long(each)
        for each in arguments
    ]
    got = libc.syscall(ctypes.c_long(number), *wide)
    if got < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return got


def named(number_x86, number_arm):
    return number_x86 if os.uname().machine == "x86_64" else number_arm


def unix(address, data=b"hello", kind=None):
    with socket.socket(socket.AF_UNIX, kind or socket.SOCK_STREAM) as made:
        made.settimeout(1)
        made.connect(address)
        made.sendall(data)


def hold(seconds=1.0):
    """What is over a limit is to be held for a while: a watch looks only now and then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)


def child(action):
    """Run something in a child, and wait for it."""
    pid = os.fork()
    if not pid:
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.waitpid(pid, 0)


with open(os.path.join(WORK, "began"), "w"):
    pass
