"""Attempts to become more than one is: rights, namespaces, devices, settings and rare parts of the kernel."""

from __future__ import annotations

from tests.attacks.case import Batch

KERNEL = Batch("kernel")

# Namespaces

KERNEL.python(
    "user namespace",
    "process",
    """
if libc.unshare(0x10000000) == 0:
    reached("a user namespace")
""",
    needs="namespaces",
)
KERNEL.sh("user namespace by a program", "process", "unshare -r sh -c 'id -u > reached'", needs="namespaces")
KERNEL.python(
    "namespace by clone",
    "process",
    """
def flags(*bits):
    pid = call(named(56, 220), sum(bits) | 17, 0, 0, 0, 0)
    if pid == 0:
        reached("cloned")
        os._exit(0)
    os.waitpid(pid, 0)
attempt(flags, 0x10000000)
attempt(flags, 0x10000000, 0x40000000)
""",
    needs="namespaces",
)
KERNEL.python(
    "namespace by the newer clone",
    "process",
    """
wanted = struct.pack("=11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
pid = call(435, wanted, len(wanted))
if pid == 0:
    reached("cloned")
    os._exit(0)
os.waitpid(pid, 0)
""",
    needs="namespaces",
)
KERNEL.sh(
    "sandbox in the sandbox",
    "process",
    "bwrap --bind / / --tmpfs /mnt sh -c 'echo made > reached'",
    needs="bwrap",
)
KERNEL.sh(
    "mount",
    "process",
    'unshare -rm sh -c "mount -t tmpfs tmpfs /mnt && echo mounted > reached"',
    needs="namespaces",
)
KERNEL.python(
    "mount by newer calls",
    "process",
    """
libc.unshare(0x10020000)
made = call(430, b"tmpfs", 0)
call(431, made, 6, None, None, 0)
call(432, made, 0, 0)
reached("a file system")
""",
    needs="namespaces",
)
KERNEL.python(
    "mounts handed to the host",
    "fs_write",
    """
libc.unshare(0x10020000)
libc.mount(None, b"/", None, 0x4000 | 0x100000, None)
libc.mount(b"tmpfs", OUTSIDE.encode(), b"tmpfs", 0, None)
libc.mount(b"/etc", f"{OUTSIDE}/folder".encode(), None, 0x1000, None)
time.sleep(0.1)
""",
    bare=False,
)
KERNEL.python(
    "namespaces of others",
    "process",
    """
for pid in ["1", *map(str, VICTIMS), E["RUNNER"], str(os.getppid())]:
    for name in ("user", "mnt", "net", "pid", "ipc"):
        held = attempt(os.open, f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        if held is not None and libc.setns(held, 0) == 0:
            reached(f"{name} of {pid}")
""",
    bare=False,
)
KERNEL.python(
    "change of root", "process", 'os.mkdir("root"); os.chroot("root"); reached("chroot")', bare=False
)
KERNEL.sh(
    "undo what is mounted",
    "process",
    """
umount -l /proc &&
    echo x > reached
umount "$WORK/.git" &&
    echo x > reached
mount -o remount,rw / &&
    echo x > reached
""",
    bare=False,
)

# Rights

KERNEL.sh("set user id", "process", "cp /bin/sh s; chmod u+s s; chmod 4755 s")
KERNEL.sh("set group id", "process", "cp /bin/sh s; chmod g+s s; chmod 2755 s")
KERNEL.python(
    "set user id when made",
    "process",
    'os.umask(0); os.close(os.open("s", os.O_CREAT | os.O_WRONLY, 0o4755))',
)
KERNEL.python(
    "set user id by descriptor",
    "process",
    'f = os.open("s", os.O_CREAT | os.O_WRONLY, 0o755); os.fchmod(f, 0o4755)',
)
KERNEL.python(
    "set user id by the newest call",
    "process",
    'write("s"); call(452, -100, b"s", 0o4755, 0)',
    needs="fchmodat2",
)
KERNEL.python(
    "set user id by openat2",
    "process",
    """
os.umask(0)
how = struct.pack("=3Q", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
call(437, -100, b"s", how, len(how))
""",
)
KERNEL.python("set user id by mknod", "process", 'os.umask(0); os.mknod("s", 0o104755)')
KERNEL.python(
    "set user id by a 32-bit call",
    "process",
    """
import mmap
write("s")
room = libc.mmap
room.restype = ctypes.c_void_p
room.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
at = room(None, 4096, 7, 0x62, -1, 0)
assert at and at < 1 << 32
ctypes.memmove(at + 2048, b"s\\0", 2)
code = (b"\\x53\\xb8" + (15).to_bytes(4, "little") + b"\\xbb" + (at + 2048).to_bytes(4, "little")
        + b"\\xb9" + (0o4755).to_bytes(4, "little") + b"\\xcd\\x80\\x5b\\xc3")
ctypes.memmove(at, code, len(code))
ctypes.CFUNCTYPE(ctypes.c_int)(at)()
""",
    needs="x86_64",
)
KERNEL.python(
    "set user id by a ring",
    "process",
    """
made = call(425, 4, bytes(120))
reached("a ring of calls, which no filter sees")
""",
    needs="io_uring",
)
KERNEL.sh(
    "set user id unpacked",
    "process",
    """
cp /bin/sh s
python3 -c "import tarfile
t = tarfile.open('a.tar', 'w')
i = t.gettarinfo('s', 'x')
i.mode = 0o4755
t.addfile(i, open('s', 'rb'))"
tar -xpf a.tar
""",
)
KERNEL.sh(
    "set user id copied",
    "process",
    """
for f in /usr/bin/passwd /usr/bin/su /bin/mount
do cp --preserve=mode $f .
done
install -m 6755 /bin/sh t
""",
    needs="setuid",
)
KERNEL.python(
    "capability of a file",
    "process",
    """
import shutil
shutil.copy("/bin/true", "s")
os.setxattr("s", "security.capability", struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFF, 0))
""",
    bare=False,
)
KERNEL.sh(
    "capabilities",
    "process",
    "grep -E '^Cap(Eff|Prm|Bnd|Amb):.*[1-9a-f]' /proc/self/status > reached || rm -f reached",
)
KERNEL.sh("new rights", "process", "grep '^NoNewPrivs:.*0' /proc/self/status > reached || rm -f reached")
KERNEL.sh(
    "programs of root",
    "process",
    """
su -c 'touch /etc/$MARK-made' root < /dev/null
sudo -n touch /etc/$MARK-made
newuidmap $$ 0 0 1
newgidmap $$ 0 0 1
pkexec true
""",
    bare=False,
)
KERNEL.python("another user", "process", 'os.setuid(0); reached("root")', bare=False)
KERNEL.python(
    "any user",
    "process",
    """
for uid in (0, 1, 1000, 65534):
    if uid != os.getuid() and attempt(os.setresuid, uid, uid, uid) is None and os.getuid() == uid:
        reached(uid)
""",
    bare=False,
)

# Devices and settings

KERNEL.sh(
    "devices",
    "process",
    "mknod b b 8 0; mknod c c 1 1; cat b c | head -c 16 > reached; test -s reached || rm -f reached",
    bare=False,
)
KERNEL.sh(
    "disks of the machine",
    "process",
    """
for d in /dev/sd* /dev/vd* /dev/nvme* /dev/mem /dev/kmsg /dev/loop* /dev/mapper/*
do test -b $d -o -c $d &&
    echo $d >> reached
done
""",
    needs="disks",
)
KERNEL.sh(
    "settings of the kernel",
    "process",
    r"""
for f in kernel/core_pattern kernel/hostname kernel/domainname vm/overcommit_memory \
    net/ipv4/ip_forward user/max_user_namespaces kernel/modprobe
do v=$(cat /proc/sys/$f)
echo "$v" > /proc/sys/$f &&
    echo $f >> reached
done
""",
    bare=False,
)
KERNEL.sh(
    "name of the machine",
    "process",
    "hostname $MARK && echo x > reached; echo $MARK > /proc/sys/kernel/hostname && echo x > reached",
    bare=False,
)
KERNEL.sh(
    "cgroups",
    "process",
    """
for f in /sys/fs/cgroup /sys/fs/cgroup/*
do mkdir $f/$MARK &&
    echo $f >> reached
echo $$ > $f/cgroup.procs &&
    echo $f >> reached
echo 1 > $f/notify_on_release &&
    echo $f >> reached
done
""",
    bare=False,
)
KERNEL.sh(
    "files of the kernel",
    "process",
    """
echo h > /proc/sysrq-trigger &&
    echo x > reached
echo test > /sys/power/pm_test &&
    echo y > reached
echo 0 > /sys/kernel/mm/ksm/run &&
    echo z > reached
""",
    bare=False,
)
KERNEL.sh(
    "log of the kernel", "process", "dmesg > said; test -s said && head -c 100 said > reached", needs="dmesg"
)
KERNEL.python(
    "log of the kernel by a call",
    "process",
    'if call(named(103, 116), 10, 0, 0) >= 0: reached("size of the log")',
    needs="dmesg",
)
KERNEL.python(
    "beside what is shown",
    "process",
    """
for path in ("/made", "/usr/made", "/etc/made", "/var/made", "/sys/made"):
    if attempt(write, path):
        reached(path)
""",
    bare=False,
)

# Rare parts

KERNEL.python("io_uring", "process", 'call(425, 8, bytes(120)); reached("a ring")', needs="io_uring")
KERNEL.python(
    "userfaultfd", "process", 'call(named(323, 282), 1); reached("userfaultfd")', needs="userfaultfd"
)
KERNEL.python(
    "bpf",
    "process",
    'call(named(321, 280), 0, struct.pack("=4I", 1, 4, 4, 1) + bytes(112), 128); reached("bpf")',
    bare=False,
)
KERNEL.python(
    "perf",
    "process",
    'call(named(298, 241), struct.pack("=2I", 1, 112) + bytes(104), 0, -1, -1, 0); reached("perf")',
    bare=False,
)
KERNEL.python(
    "watch of a file system",
    "process",
    'call(named(300, 262), 0x200, 0); reached("fanotify")',
    needs="fanotify",
)
KERNEL.python(
    "segments of the processor",
    "process",
    'call(named(154, 0), 0, bytes(16), 16); reached("modify_ldt")',
    needs="x86_64",
)
KERNEL.python("modules", "process", 'call(named(313, 273), 0, b"", 0)', bare=False)
KERNEL.python(
    "new keys",
    "process",
    'call(named(248, 217), b"user", b"planted", b"x", 1, -3); reached("a key of the session")',
    needs="keyring",
)
KERNEL.python(
    "call that nobody has judged",
    "process",
    """
for number in (470, 480, 500, 0x40000000 + 39):
    try:
        call(number)
    except OSError as error:
        if error.errno != 38:
            reached(f"{number}: {error}")
    else:
        reached(number)
""",
    bare=False,
)
KERNEL.python(
    "file by its handle",
    "process",
    """
handle = bytearray(struct.pack("=Ii", 128, 0) + bytes(128))
room = (ctypes.c_char * len(handle)).from_buffer(handle)
mount = ctypes.c_int()
call(named(303, 264), -100, b".", room, ctypes.byref(mount), 0)
held = os.open(".", os.O_RDONLY)
found = call(named(304, 265), held, room, os.O_RDONLY)
reached("opened by handle")
""",
    bare=False,
)
