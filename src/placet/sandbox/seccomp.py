"""Calls that the kernel refuses to a command, as a filter that the kernel itself runs (seccomp).

A filter sees the number of a call and its arguments, not what an argument points to. So this is no second
sandbox: namespaces and mounts keep the command in, and a group stands here only if it holds what they do not,
or cuts off a part of the kernel that no ordinary program asks for. Each group has a name, so that a test can
leave it out and see what it was for.

Tracing (ptrace and the like) is no group. The process namespace, or Landlock, already keeps it to the
command's own processes, all of which are below the same filter. Debuggers and leak checkers need it.

Keep true:
1. What is not named here is allowed, but only up to `LAST`: nobody has judged a call that is newer.
2. Flags behind a pointer cannot be seen. Where a call takes them so and another does the same by value, the
   first answers that the kernel does not have it, and programs turn to the other.
3. Every argument looked at is one that the kernel reads as 32 bits, or whose upper half it refuses.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping

import msgspec

from placet.errors import UsageError

EPERM = 1
ENOSYS = 38
EAFNOSUPPORT = 97
"""As Linux numbers them on the machines below, whatever system this is read on."""

LAST = 469
"""The newest call that was judged (Linux 6.18). One that is newer, or of the x32 kind, answers ENOSYS."""

_ALL = 0xFFFFFFFF

ARCH: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How the kernel names the kind of a call. A 64-bit kernel also takes 32-bit calls, with other numbers."""

NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    # name: (x86_64, aarch64)
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}


class Check(msgspec.Struct, frozen=True):
    """Whether the masked argument is among some values, or is among none of them."""

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL
    is_among: bool = True
    is_upper: bool = False
    """Look at the upper half of the argument instead of the lower."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that are refused when every check holds, and how."""

    calls: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    answer: int = EPERM


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that are refused for one reason."""

    name: str
    against: str
    """What does not happen thanks to it, for people."""
    rules: tuple[Rule, ...]


def _has(argument: int, bits: int) -> Check:
    """The argument has one of these bits, or several."""
    return Check(argument, (0,), mask=bits, is_among=False)


_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
_STREAM, _SEQPACKET = 1, 5
_SOCKET_TYPE = 0xF
_SET_ID = 0o6000
_O_CREAT = 0o100
_O_TMPFILE = 0o20000000
_NEW = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_NEW_TIME = 0x80
"""Only to unshare. In what clone takes, this bit is part of the number of a signal."""
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423


def _by_name(*groups: Group) -> Mapping[str, Group]:
    return {group.name: group for group in groups}


GROUPS: Mapping[str, Group] = _by_name(
    Group(
        name="setuid",
        against=(
            "No file becomes one that runs with the rights of its owner. On the disk of a root host that "
            "would be root."
        ),
        # Making a folder is left out: the kernel itself takes these bits away there.
        rules=(
            Rule(calls=("chmod", "fchmod", "creat", "mknod"), checks=(_has(1, _SET_ID),)),
            Rule(calls=("fchmodat", "fchmodat2", "mknodat"), checks=(_has(2, _SET_ID),)),
            # Without these flags the mode is whatever happens to stand there.
            Rule(calls=("open",), checks=(_has(1, _O_CREAT | _O_TMPFILE), _has(2, _SET_ID))),
            Rule(calls=("openat",), checks=(_has(2, _O_CREAT | _O_TMPFILE), _has(3, _SET_ID))),
            Rule(calls=("openat2",), answer=ENOSYS),
        ),
    ),
    Group(
        name="keys",
        against="Keys that the kernel keeps for the session of the host are not read.",
        rules=(Rule(calls=("add_key", "request_key", "keyctl")),),
    ),
    Group(
        name="families",
        against=(
            "No socket is made of a kind that hardly any program uses. Some of them reach out of a network "
            "namespace, such as those to the host of a virtual machine."
        ),
        rules=(
            Rule(
                calls=("socket",),
                checks=(Check(0, (_UNIX, _INET, _INET6, _NETLINK), is_among=False),),
                answer=EAFNOSUPPORT,
            ),
            Rule(
                calls=("socket",),
                checks=(Check(0, (_NETLINK,)), Check(2, (_NETLINK_ROUTE,), is_among=False)),
                answer=EAFNOSUPPORT,
            ),
            Rule(
                calls=("socketpair",),
                checks=(Check(0, (_UNIX,), is_among=False),),
                answer=EAFNOSUPPORT,
            ),
        ),
    ),
    Group(
        name="namespaces",
        against=(
            "No namespace is made inside the sandbox, in which the command would be root. It could mount "
            "file systems of any size there, and reach what the kernel keeps for administrators."
        ),
        rules=(
            Rule(calls=("unshare",), checks=(_has(0, _NEW | _NEW_TIME),)),
            Rule(calls=("clone",), checks=(_has(0, _NEW),)),
            Rule(calls=("clone3",), answer=ENOSYS),
            Rule(calls=("setns", "mount", "umount2", "pivot_root", "chroot")),
            Rule(calls=("open_tree", "open_tree_attr", "move_mount", "mount_setattr")),
            Rule(calls=("fsopen", "fsconfig", "fsmount", "fspick")),
        ),
    ),
    Group(
        name="kernel",
        against=(
            "The log of the kernel is not read, and parts of it are not asked that no ordinary program needs "
            "and in which holes were often found."
        ),
        rules=(
            # A ring also opens files and makes sockets, and no filter sees that.
            Rule(calls=("io_uring_setup", "io_uring_enter", "io_uring_register")),
            Rule(calls=("bpf", "perf_event_open", "userfaultfd", "fanotify_init", "modify_ldt")),
            Rule(calls=("syslog", "open_by_handle_at", "lookup_dcookie", "quotactl", "quotactl_fd")),
            # Only for an administrator, and nothing that one wants done by a command in a sandbox.
            Rule(calls=("init_module", "finit_module", "delete_module", "create_module")),
            Rule(calls=("kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct")),
            Rule(calls=("settimeofday", "clock_settime", "iopl", "ioperm", "vhangup")),
            Rule(calls=("nfsservctl", "uselib", "_sysctl")),
        ),
    ),
    Group(
        name="shared",
        against="Segments of shared memory, which nobody counts who is no cgroup, are small.",
        rules=(
            Rule(calls=("shmget",), checks=(_has(1, _ALL ^ 0xFFFF),)),
            Rule(calls=("shmget",), checks=(Check(1, (0,), is_among=False, is_upper=True),)),
        ),
    ),
    Group(
        name="terminal",
        against="Nothing is typed into a terminal as if a person had.",
        rules=(Rule(calls=("ioctl",), checks=(Check(1, (_TIOCSTI, _TIOCLINUX, _TIOCSETD)),)),),
    ),
)
"""In every sandbox."""

UNSHARED: Mapping[str, Group] = _by_name(
    Group(
        name="internet",
        against="Nothing is sent over the network. A server on this machine cannot be reached either.",
        rules=(Rule(calls=("socket",), checks=(Check(0, (_INET, _INET6)),)),),
    ),
    Group(
        name="unix",
        against="No socket of another program is spoken to, whether it has a path or an abstract name.",
        rules=(
            Rule(calls=("socket",), checks=(Check(0, (_UNIX,)),)),
            # One of a pair can be led elsewhere if it is for datagrams. So is one that is asked for as raw.
            Rule(
                calls=("socketpair",), checks=(Check(1, (_STREAM, _SEQPACKET), _SOCKET_TYPE, is_among=False),)
            ),
        ),
    ),
    Group(
        name="ipc",
        against="Memory, semaphores and queues that programs of the host share are not touched.",
        # Also those that take a number which another call would have given: a number can be guessed.
        rules=(
            Rule(calls=("mq_open", "mq_unlink", "shmget", "shmat", "shmctl")),
            Rule(calls=("semget", "semop", "semtimedop", "semctl")),
            Rule(calls=("msgget", "msgsnd", "msgrcv", "msgctl")),
        ),
    ),
    Group(
        name="others",
        against="The limits of another process are not set so low that the kernel ends it.",
        rules=(Rule(calls=("prlimit64",), checks=(Check(0, (0,), is_among=False),)),),
    ),
)
"""Besides, where there are no namespaces: what they would have held.

Signals are not here, because a number does not tell whose process it is: Landlock holds them, from its
version 6 on. `internet` is left out for a command that may use the network."""

_LOAD, _AND, _IF_EQUAL, _IF_ABOVE, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
_KILL, _ALLOW, _REFUSE = 0x80000000, 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16

_Step = tuple[int, int, int, int]
"""What to do; how many steps to leave out if a comparison holds, and if it does not; the value."""


def is_known_machine(machine: str | None = None) -> bool:
    """Whether there is a filter for this kind of processor; by default, for the one that runs this.

    >>> is_known_machine("x86_64"), is_known_machine("sparc64")
    (True, False)
    """
    if machine is not None:
        return machine in ARCH
    # A 32-bit Python on a 64-bit kernel, and all that it starts, may make the other kind of calls.
    return os.uname().machine in ARCH and struct.calcsize("P") == 8


def program(*, without: Collection[str] = (), unshared: bool = False, machine: str | None = None) -> bytes:
    """The filter, as the kernel takes it: an array of `struct sock_filter`.

    `without` names groups that are left out. `unshared` adds the groups of `UNSHARED`.
    Calls of another machine than this one end the process that makes them.

    Raises:
        UsageError: there is no filter for the machine, or no group of a name in `without`.
    """
    if not is_known_machine(machine):
        raise UsageError(
            f"No filter of system calls is known for the processor {machine or os.uname().machine!r}. "
            f"There is one for: {', '.join(ARCH)}."
        )
    if unknown := sorted(set(without) - GROUPS.keys() - UNSHARED.keys()):
        raise UsageError(
            f"No group of system calls is named {unknown[0]!r}. There are: {', '.join([*GROUPS, *UNSHARED])}."
        )
    machine = machine or os.uname().machine
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_IF_EQUAL, 1, 0, ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_ABOVE, 0, 1, LAST),
        (_RETURN, 0, 0, _REFUSE | ENOSYS),
    ]
    for number, rules in sorted(_rules(without, unshared, machine).items()):
        body = [step for rule in rules for step in _compile(rule)]
        if rules[-1].checks:
            body.append((_RETURN, 0, 0, _ALLOW))
        steps += [(_IF_EQUAL, 0, len(body), number), *body]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _rules(without: Collection[str], unshared: bool, machine: str) -> dict[int, list[Rule]]:
    """The rules for each number. The first that refuses a call gives its answer."""
    column = list(ARCH).index(machine)
    found: dict[int, list[Rule]] = {}
    for group in (*GROUPS.values(), *(UNSHARED.values() if unshared else ())):
        for rule in group.rules if group.name not in without else ():
            for call in rule.calls:
                number = NUMBERS[call][column]
                # Not every machine has the older form of a call.
                if number is not None:
                    found.setdefault(number, []).append(rule)
    return found


def _compile(rule: Rule) -> list[_Step]:
    """Steps that refuse if every check holds, and else lead to the step after them."""
    steps: list[_Step] = [(_RETURN, 0, 0, _REFUSE | rule.answer)]
    # From the end, since a step names how many others it leaves out.
    for check in reversed(rule.checks):
        past = len(steps)
        comparisons: list[_Step] = []
        for value in reversed(check.values):
            rest = len(comparisons)
            if check.is_among:
                comparisons.insert(0, (_IF_EQUAL, rest, 0 if rest else past, value))
            else:
                comparisons.insert(0, (_IF_EQUAL, rest + past, 0, value))
        # The lower half comes first on every machine of the table.
        load = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * check.argument + 4 * check.is_upper)]
        if check.mask != _ALL:
            load.append((_AND, 0, 0, check.mask))
        steps = load + comparisons + steps
    return steps
