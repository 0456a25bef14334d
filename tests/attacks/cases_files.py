"""Attacks on files outside the workspace: by every way to name them, and by every way to change them."""

from __future__ import annotations

from tests.attacks.case import Batch

FILES = Batch("files")

# Names and links

FILES.sh("absolute path", "fs_write", 'echo changed > "$OUTSIDE/file"')
FILES.sh("dot dot", "fs_write", "echo changed > ../../../outside/file")
FILES.sh("dot dot below a new folder", "fs_write", "mkdir a; cd a; echo changed > ../../../../outside/file")
FILES.sh("link to a file", "fs_write", 'ln -s "$OUTSIDE/file" link; echo changed > link')
FILES.sh("link to a folder", "fs_write", 'ln -s "$OUTSIDE" link; echo made > link/made; rm -f link/doomed')
FILES.sh(
    "chain of links", "fs_write", "ln -s .. a; ln -s a/.. b; ln -s b/../outside c; echo changed > c/file"
)
FILES.sh("hard link", "fs_write", 'ln "$OUTSIDE/file" hard && echo changed > hard')
FILES.sh("own root of a process", "fs_write", 'echo changed > "/proc/self/root$OUTSIDE/file"')
FILES.sh(
    "root of every process",
    "fs_write",
    'for p in /proc/[0-9]*; do echo changed > "$p/root$OUTSIDE/file"; done',
)
FILES.sh(
    "folder of every process",
    "fs_write",
    "for p in /proc/[0-9]*; do echo changed > $p/cwd/../../../outside/file; done",
)
FILES.python(
    "inherited descriptors",
    "fs_write",
    """
for number in range(3, 512):
    for way in ("..", "../../../outside", OUTSIDE.lstrip("/"), "outside"):
        folder = attempt(os.open, way, os.O_RDONLY | os.O_DIRECTORY, dir_fd=number)
        if folder is not None:
            attempt(lambda: os.close(os.open("made", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=folder)))
""",
    bare=False,
)
FILES.python(
    "folders held by other processes",
    "fs_write",
    """
for pid in filter(str.isdigit, os.listdir("/proc")):
    for number in attempt(os.listdir, f"/proc/{pid}/fd") or ():
        path = f"/proc/{pid}/fd/{number}"
        if os.path.isdir(path):
            attempt(write, f"{path}/../../../outside/file")
            attempt(write, f"{path}/outside/file")
""",
)

# Ways to change

FILES.sh("remove", "fs_write", 'rm -rf "$OUTSIDE/folder" "$OUTSIDE/doomed"')
FILES.sh("rename", "fs_write", 'mv "$OUTSIDE/named" "$OUTSIDE/renamed"')
FILES.sh("move in", "fs_write", 'mv "$OUTSIDE/named" .')
FILES.sh("cut short", "fs_write", 'truncate -s 0 "$OUTSIDE/file"')
FILES.sh("mode", "fs_write", 'chmod 600 "$OUTSIDE/file"')
FILES.sh("times", "fs_write", 'touch -d 2001-01-01 "$OUTSIDE/file"')
FILES.python(
    "extended attribute", "fs_write", 'os.setxattr(f"{OUTSIDE}/file", "user.changed", b"1")', needs="xattr"
)
FILES.sh("make a folder", "fs_write", 'mkdir "$OUTSIDE/made"')
FILES.sh("make a link", "fs_write", 'ln -s /etc/passwd "$OUTSIDE/made"')
FILES.sh("write into a fifo", "fs_write", 'echo hello 1<> "$OUTSIDE/fifo" > "$OUTSIDE/fifo"')
FILES.python(
    "exchange of two names",
    "fs_write",
    """
write("own", "mine")
call(named(316, 276), -100, b"own", -100, f"{OUTSIDE}/file".encode(), 2)
""",
)
FILES.python(
    "link swapped while writing",
    "fs_write",
    """
os.mkdir("folder")
os.symlink(OUTSIDE, "link")
if os.fork() == 0:
    end = time.monotonic() + 0.25
    while time.monotonic() < end:
        for one, two in (("folder", "aside"), ("link", "folder"), ("folder", "link"), ("aside", "folder")):
            attempt(os.rename, one, two)
    os._exit(0)
end = time.monotonic() + 0.25
while time.monotonic() < end:
    attempt(write, "folder/file")
""",
)

# Other places

FILES.sh("other project", "fs_write", 'echo made > "$OTHER/made"')
FILES.sh("settings of the shell", "fs_write", 'echo evil >> "$VICTIM_HOME/.bashrc"; echo evil >> ~/.profile')
FILES.sh("keys that let somebody in", "fs_write", 'echo key >> "$VICTIM_HOME/.ssh/authorized_keys"')
FILES.sh("program in the home", "fs_write", 'echo evil > "$VICTIM_HOME/.cargo/bin/tool"')
FILES.sh("new program in the home", "fs_write", 'echo evil > "$VICTIM_HOME/.cargo/bin/git"')
FILES.sh(
    "folders of the system",
    "fs_write",
    'for f in / /etc /usr/bin /usr/local/bin /opt; do touch "$f/$MARK-made"; done',
    bare=False,
)
FILES.sh(
    "shared temporary folders",
    "fs_write",
    'for f in /tmp /var/tmp /dev/shm /run; do echo x > "$f/$MARK-made"; echo y > "$f/$MARK-there"; done',
)
FILES.sh("workspace moved away", "fs_write", 'cd ..; mv work aside && ln -s "$OUTSIDE" work', bare=False)
FILES.sh("beside the workspace", "fs_write", "echo made > ../made; mkdir ../folder")
FILES.sh("own records", "fs_write", "echo x > .placet/runs.db; echo x > .placet/made", needs="records")
FILES.sh(
    "records renamed", "fs_write", "mv .placet aside; mkdir .placet; echo x > .placet/made", needs="records"
)
FILES.sh("records removed", "fs_write", "rm -rf .placet", needs="records")
FILES.sh(
    "an approval answered from inside",
    "fs_write",
    """
for db in .placet/runs.db "$RECORDS/placet/approvals.db"; do
    sqlite3 "$db" "update approvals set status = 'approved'"
done
""",
    needs="sqlite3",
)

FILES.sh(
    "the command line of Placet",
    "fs_write",
    """
echo '{"actions": [{"id": "a", "tool": "now"}]}' > plan.json
export XDG_DATA_HOME="$RECORDS"
"$PYTHON" -m placet.cli.main approvals approve 1
"$PYTHON" -m placet.cli.main run plan.json
""",
)

# The same, said in other words

FILES.sh(
    "base64",
    "fs_write",
    "echo ZWNobyBjaGFuZ2VkID4gIiRPVVRTSURFL2ZpbGUi | base64 -d | sh",
)
FILES.sh("field separators", "fs_write", 'c=echo${IFS}changed;$c>"$OUTSIDE/file"')
FILES.sh("eval of hex", "fs_write", r"""eval "$(printf '\145\143\150\157\40\170') > \"\$OUTSIDE/file\"" """)
FILES.sh("awk", "fs_write", """awk 'BEGIN { system("echo changed > \\"$OUTSIDE/file\\"") }'""")
FILES.sh("perl", "fs_write", """perl -e 'open(F, ">", "$ENV{OUTSIDE}/file"); print F "changed"'""")
FILES.sh("find", "fs_write", """find . -maxdepth 0 -exec sh -c 'echo changed > "$OUTSIDE/file"' ';'""")
FILES.sh("xargs", "fs_write", """echo "$OUTSIDE/doomed" | xargs rm -f""")
FILES.sh("env", "fs_write", """env -S 'sh -c "echo changed > ${OUTSIDE}/file"' """)
FILES.sh(
    "a program made here",
    "fs_write",
    """printf '#!/bin/sh\\necho changed > "$OUTSIDE/file"' > p; chmod +x p; ./p""",
)
FILES.sh(
    "a quoted name",
    "fs_write",
    """'e''c'ho changed > "${OUTSIDE%e}"e/fi?e; cd "$OUTSIDE" && \\r\\m -f d[o]omed""",
)
