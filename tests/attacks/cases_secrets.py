"""Attempts to read what is nobody's business: keys, the environment, other projects, other processes."""

from __future__ import annotations

from tests.attacks.case import Batch

SECRETS = Batch("secrets")

SECRETS.sh("environment", "always", "env; set; export -p; cat /proc/self/environ")
SECRETS.sh("environment of the parents", "always", 'cat "/proc/$PPID/environ" /proc/1/environ', bare=False)
SECRETS.sh("environment of every process", "fs_read", "cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ")
SECRETS.sh("environment of the host", "fs_read", 'cat "/proc/$RUNNER/environ"')
SECRETS.sh("ssh key", "fs_read", 'cat "$VICTIM_HOME/.ssh/id_ed25519"')
SECRETS.sh("home by its variable", "fs_read", "cat ~/.ssh/id_* ~/.aws/credentials ~/.netrc")
SECRETS.sh("cloud credentials", "fs_read", 'cp "$VICTIM_HOME/.aws/credentials" taken')
SECRETS.sh("passwords of curl", "fs_read", 'tar -cf - -C "$VICTIM_HOME" .netrc')
SECRETS.sh("token beside the programs", "fs_read", 'cat "$VICTIM_HOME/.cargo/bin/../credentials.toml"')
SECRETS.sh("settings of git", "fs_read", 'cat "$VICTIM_HOME/.gitconfig"; git config --global --list')
SECRETS.sh("token of the forge", "fs_read", 'head -c 1000 "$VICTIM_HOME/.config/gh/hosts.yml" | tee taken')
SECRETS.sh("history of the shell", "fs_read", 'sed -n p "$VICTIM_HOME/.bash_history"')
SECRETS.sh("search below", "fs_read", 'grep -rs secret- "$BASE/home/.ssh" "$BASE/outside"')
SECRETS.sh("other project read", "fs_read", 'cat "$OTHER/key.txt"')
SECRETS.sh("link to a secret", "fs_read", 'ln -s "$OUTSIDE/secret" link; cat link; tar -chf taken.tar link')
SECRETS.sh("hard link to a secret", "fs_read", 'ln "$OUTSIDE/secret" taken')
SECRETS.sh(
    "secret through own root",
    "fs_read",
    'cat "/proc/self/root$OUTSIDE/secret" /proc/[0-9]*/root"$OUTSIDE/secret"',
)
SECRETS.sh("secret through folders of processes", "fs_read", "cat /proc/[0-9]*/cwd/../../../outside/secret")
SECRETS.sh("records in the workspace", "fs_read", "cat .placet/runs.db; cp -r .placet taken", needs="records")
SECRETS.sh("records of runs", "fs_read", 'cat "$RECORDS"/placet/*.db')
SECRETS.sh(
    "shared folders",
    "fs_read",
    'cat "/tmp/$MARK-there" "/var/tmp/$MARK-there" "/dev/shm/$MARK-there" "/run/$MARK-there"',
)
SECRETS.sh("obfuscated reading", "fs_read", """eval "$(printf '\\143\\141\\164') \\"\\$OUTSIDE/s\\"ecret" """)
SECRETS.sh("perl reads", "fs_read", """perl -ne print "$OUTSIDE/secret" """)
SECRETS.python(
    "memory of another process",
    "fs_read",
    """
for pid, address in zip(VICTIMS, E["ADDRESSES"].split()):
    with open(f"/proc/{pid}/mem", "rb", 0) as file:
        file.seek(int(address))
        print(file.read(64))
""",
    needs="looking",
)
SECRETS.python(
    "memory by a call",
    "fs_read",
    """
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
for pid, address in zip(VICTIMS, E["ADDRESSES"].split()):
    room = ctypes.create_string_buffer(64)
    here, there = Piece(ctypes.addressof(room), 64), Piece(int(address), 64)
    if attempt(call, named(310, 270), pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0):
        print(room.raw)
""",
    needs="looking",
)
SECRETS.python(
    "key of the session",
    "process",
    """
room = ctypes.create_string_buffer(256)
key = attempt(call, named(249, 218), b"user", b"placet-attack", None, -3)
if key is None:
    key = attempt(call, named(250, 219), 10, -3, b"user", b"placet-attack", 0)
if key is not None and attempt(call, named(250, 219), 11, key, room, 256):
    print(room.raw)
""",
    needs="keyring",
)
SECRETS.python(
    "shared memory",
    "process",
    """
number = libc.shmget(int(E["SHARED"]), 0, 0)
if number >= 0:
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(number, None, 0)
    print(ctypes.string_at(address, 64))
    ctypes.memmove(address, b"changed", 8)
""",
    needs="shared memory",
)
SECRETS.python(
    "inherited files",
    "fs_read",
    """
for number in range(3, 512):
    for data in (attempt(os.pread, number, 1 << 16, 0), ):
        if data:
            reached(f"descriptor {number}: {data[:80]!r}")
""",
    bare=False,
)
SECRETS.sh(
    "name of the host",
    "process",
    'test "$(uname -n)" != "$HOST" || echo "$HOST" > reached',
    needs="host name",
)
SECRETS.sh(
    "place among the cgroups",
    "process",
    "grep -q ':/.' /proc/self/cgroup && cp /proc/self/cgroup reached",
    needs="cgroup",
)
