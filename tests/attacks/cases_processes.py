"""Attacks on processes: those of others, and those that should have ended with the command."""

from __future__ import annotations

from placet.sandbox.limits import MIB, Limits
from tests.attacks.case import Batch

PROCESSES = Batch("processes")
_ONE_SECOND = Limits(
    time_s=1, output_bytes=1 * MIB, memory_bytes=128 * MIB, processes=40, disk_bytes=16 * MIB
)

# Of others. URG does nothing to a process that does not ask for it; the victims do.

PROCESSES.sh("kill", "proc_kill", "kill -KILL $VICTIMS")
PROCESSES.sh("term", "proc_kill", "for p in $VICTIMS; do kill -TERM $p; done")
PROCESSES.sh("everybody", "proc_kill", "kill -URG -1")
PROCESSES.sh("every process that is seen", "proc_kill", "cd /proc; for p in [0-9]*; do kill -URG $p; done")
PROCESSES.python("a whole group", "proc_kill", "for pid in VICTIMS: attempt(os.killpg, pid, signal.SIGURG)")
PROCESSES.sh(
    "a range of numbers", "proc_kill", "for p in $VICTIMS; do kill -URG $((p - 1)) $p $((p + 1)); done"
)
PROCESSES.sh(
    "by name",
    "proc_kill",
    "pkill -URG -f SECRET; pkill -URG python; killall -q -URG python3 python3.11",
    needs="pkill",
)
PROCESSES.python(
    "by descriptor",
    "proc_kill",
    """
for pid in VICTIMS:
    attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGURG))
""",
)
PROCESSES.python(
    "by a thread",
    "proc_kill",
    """
for pid in VICTIMS:
    attempt(call, named(234, 131), pid, pid, int(signal.SIGURG))
    attempt(call, named(200, 130), pid, int(signal.SIGURG))
""",
)
PROCESSES.python(
    "a signal when something happens",
    "proc_kill",
    """
import fcntl
for pid in VICTIMS:
    one, two = os.pipe()
    attempt(fcntl.fcntl, one, fcntl.F_SETOWN, pid)
    attempt(fcntl.fcntl, one, 10, int(signal.SIGUSR1))
    attempt(fcntl.fcntl, one, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    os.write(two, b"x")
""",
)
PROCESSES.python(
    "trace",
    "proc_kill",
    """
for pid in VICTIMS:
    if attempt(call, named(101, 117), 16, pid, 0, 0) is not None:
        reached("attached")
    if attempt(call, named(101, 117), 0x4206, pid, 0, 0) is not None:
        reached("seized")
""",
    needs="looking",
)
PROCESSES.python(
    "write into memory",
    "proc_kill",
    """
for pid, address in zip(VICTIMS, E["ADDRESSES"].split()):
    with open(f"/proc/{pid}/mem", "r+b", 0) as file:
        file.seek(int(address))
        file.write(b"changed")
        reached("written")
""",
    needs="looking",
)
PROCESSES.python(
    "take a descriptor",
    "proc_kill",
    """
for pid in [*VICTIMS, int(E["RUNNER"])]:
    held = attempt(os.pidfd_open, pid)
    if held is not None and attempt(call, 438, held, 1, 0) is not None:
        reached("a descriptor of another process")
""",
    needs="looking",
)
PROCESSES.python(
    "limits of others",
    "process",
    """
import resource
for pid in VICTIMS:
    attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (16, 16))
""",
)
PROCESSES.sh("priority of others", "process", "for p in $VICTIMS; do renice -n 15 -p $p; done")
PROCESSES.python(
    "cores of others",
    "process",
    """
for pid in VICTIMS:
    attempt(os.sched_setaffinity, pid, {0})
""",
    needs="cores",
)
PROCESSES.sh(
    "victims of the kernel", "process", "for p in $VICTIMS; do echo 900 > /proc/$p/oom_score_adj; done"
)
PROCESSES.sh("the one that watches", "proc_kill", "setsid sleep 30 & kill -KILL $PPID; sleep 0.3")
PROCESSES.python(
    "all that are above",
    "proc_kill",
    """
pid = os.getpid()
if os.fork() == 0:
    os.setsid()
    time.sleep(20)
above = set()
while pid > 1:
    fields = attempt(lambda: open(f"/proc/{pid}/stat").read())
    if not fields:
        break
    pid = int(fields.rpartition(")")[2].split()[1])
    # Not the one that looks at the effect.
    if pid != int(E["RUNNER"]) and pid > 1:
        above.add(pid)
    else:
        break
# Held first: whoever sees another one die must not come to clear up.
for blow in (signal.SIGSTOP, signal.SIGKILL):
    for pid in above:
        attempt(os.kill, pid, blow)
""",
)

# Its own, that stay

PROCESSES.sh("in the background", "always", "sleep 30 & exit 0")
PROCESSES.sh("nohup", "always", "nohup sleep 30 > /dev/null 2>&1 & exit 0")
PROCESSES.sh("new session", "always", "setsid -f sleep 30")
PROCESSES.python(
    "daemon",
    "always",
    """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        for number in range(3):
            os.close(number)
        while True:
            time.sleep(1)
    os._exit(0)
os.wait()
""",
)
PROCESSES.sh(
    "deaf",
    "always",
    "(trap '' HUP INT TERM; sleep 30 & while :; do sleep 0.2; done) & sleep 0.1",
    limits=_ONE_SECOND,
)
PROCESSES.sh(
    "deaf until the end", "always", "trap '' HUP INT TERM; while :; do sleep 0.2; done", limits=_ONE_SECOND
)
PROCESSES.sh("stopped", "always", "sh -c 'kill -STOP $$' & kill -STOP $$", limits=_ONE_SECOND)
PROCESSES.python(
    "one starts the next",
    "always",
    """
os.setsid if os.fork() else None
for _ in range(150):
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
time.sleep(20)
""",
)
PROCESSES.python(
    "in a thread of another group",
    "always",
    """
for number in range(8):
    if os.fork() == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 64)
        time.sleep(20)
""",
)
PROCESSES.sh(
    "changed name",
    "always",
    "cp /bin/sleep ./init; (exec -a '[kworker/0:1]' ./init 30 2>/dev/null || ./init 30) & exit 0",
)
PROCESSES.sh(
    "left for later",
    "always",
    """
echo "touch $OUTSIDE/made" | at now
echo "* * * * * touch $OUTSIDE/made" | crontab -
systemd-run --user touch "$OUTSIDE/made"
""",
)
PROCESSES.bash("holding the streams", "always", "exec 3>&1 4>&2; (setsid sleep 30 >&3 2>&4 &) ; exit 0")
