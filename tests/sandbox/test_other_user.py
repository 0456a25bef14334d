"""Root becomes a user who owns nothing, and works in root's folder all the same."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.sandbox import other_user
from placet.sandbox.other_user import STAGE, UID, _exchange, can_become

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

NOT_HERE = ("cannot make a mount namespace: Operation not permitted", "cannot show it to another user")
"""What this machine may be without. Anything else that is in the way is a fault."""

BEGIN = """
import json, os, subprocess, sys
names = {"__name__": "bare"}
with open(sys.argv[1]) as file:
    exec(compile(file.read(), "other_user", "exec"), names)
def attempt(what, *arguments):
    try:
        return what(*arguments) and "done"
    except OSError as error:
        return type(error).__name__
def read(path):
    with open(path) as file:
        return file.read()
def write(path, text="by the command"):
    with open(path, "w") as file:
        return file.write(text)
def run(*argv):
    ended = subprocess.run(argv, capture_output=True, text=True)
    return ended.stdout + ended.stderr
"""


def _after(binds: list[tuple[str, str, bool]], body: str, *, before: str = "") -> dict[str, Any]:
    """What `body` put into `out`, run on a bare interpreter after becoming the user."""
    become = "names['become'](json.loads(sys.argv[2]))"
    text = "\n".join([BEGIN, "out = {}", before, become, body, "print(json.dumps(out))"])
    # With the switches of the keeper: nothing of this package can be imported there.
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text, other_user.__file__, json.dumps(binds)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder of root's below one that only root may enter, if this file system can be mapped."""
    closed = tmp_path / "closed"
    work = closed / "work"
    work.mkdir(parents=True)
    closed.chmod(0o700)
    (work / "old.txt").write_text("old")
    (work / "old.txt").chmod(0o600)
    why = can_become(str(work))
    if why is not None and any(words in why for words in NOT_HERE):
        pytest.skip(why)
    assert why is None
    return work


def test_an_ordinary_user_is_told_that_only_root_can(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        tmp_path.chmod(0o755)
        code = f"{BEGIN}\nos.setresuid({UID}, {UID}, {UID})\nprint(names['can_become']('/'))"
        said = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, other_user.__file__], capture_output=True, text=True
        ).stdout.strip()
    else:
        said = str(can_become(str(tmp_path)))

    assert said == "Only root can become another user."


@as_root
def test_a_file_system_that_cannot_be_mapped_is_named() -> None:
    said = can_become("/proc")

    assert said is not None
    assert "/proc" in said
    assert "cannot show it to another user" in said


@as_root
def test_a_folder_like_one_in_which_it_worked_is_not_tried_again(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like, closed = work.with_name("like"), work.with_name("closed")
    like.mkdir()
    closed.mkdir(mode=0o500)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    assert can_become(str(like)) is None
    assert "could not be tried" in str(can_become(str(closed))), "it has another mode"
    assert "could not be tried" in str(can_become("/")), "other file systems are mounted below"
    assert "could not be tried" in str(can_become(str(work / "gone")))


@as_root
def test_what_does_not_work_is_tried_again(work: Path) -> None:
    closed = work.with_name("closed")
    closed.mkdir(mode=0o500)

    assert [can_become(str(closed)) is None for _ in range(2)] == [False, False]
    closed.chmod(0o700)
    assert can_become(str(closed)) is None


@as_root
def test_what_the_command_makes_is_roots_on_disk_and_what_root_has_is_the_commands(work: Path) -> None:
    staged = f"{STAGE}/work"
    body = f"""
write("{staged}/new.txt"); write("{staged}/old.txt"); os.mkdir("{staged}/folder")
out["old"] = os.stat("{staged}/old.txt").st_uid
out["new"] = os.stat("{staged}/new.txt").st_uid
out["ids"] = [*os.getresuid(), *os.getresgid(), *os.getgroups()]
"""

    found = _after([(str(work), staged, True)], body)

    assert found == {"old": UID, "new": UID, "ids": [UID] * 6}
    for name in ("new.txt", "old.txt"):
        made = (work / name).stat()
        assert ((work / name).read_text(), made.st_uid, made.st_gid) == ("by the command", 0, 0)
    assert ((work / "folder").stat().st_uid, (work / "folder").stat().st_gid) == (0, 0)
    assert stat.S_IMODE((work / "old.txt").stat().st_mode) == 0o600


@as_root
def test_a_folder_of_an_ordinary_user_stays_that_users(work: Path) -> None:
    for path in (work, work / "old.txt"):
        os.chown(path, 1234, 1235)
    (work / "roots.txt").write_text("of root")
    (work / "roots.txt").chmod(0o600)
    body = f"""
write("{STAGE}/w/old.txt"); write("{STAGE}/w/new.txt")
out["roots"] = attempt(read, "{STAGE}/w/roots.txt")
out["owner"] = os.stat("{STAGE}/w/roots.txt").st_uid
"""

    found = _after([(str(work), f"{STAGE}/w", True)], body)

    assert found == {"roots": "PermissionError", "owner": 0}
    for name in ("new.txt", "old.txt"):
        made = (work / name).stat()
        assert ((work / name).read_text(), made.st_uid, made.st_gid) == ("by the command", 1234, 1235)


@as_root
def test_nothing_else_of_roots_can_be_read_or_written(work: Path, tmp_path: Path) -> None:
    secret, beside = tmp_path / "secret.txt", work.parent / "beside.txt"
    for path in (secret, beside):
        path.write_text("secret")
        path.chmod(0o600)
    body = f"""
out["secret"] = attempt(read, {str(secret)!r})
out["beside"] = attempt(read, {str(beside)!r})
out["shadow"] = attempt(read, "/etc/shadow")
out["unstaged"] = attempt(read, {str(work / "old.txt")!r})
out["etc"] = attempt(write, "/etc/placet-was-here")
out["stage"] = attempt(write, "{STAGE}/placet-was-here")
out["back"] = attempt(os.setresuid, 0, 0, 0)
out["real"] = os.listdir("{STAGE}")
"""

    found = _after([(str(work), f"{STAGE}/work", True)], body)

    assert found.pop("real") == ["work"]
    assert set(found.values()) == {"PermissionError"}
    assert not Path("/etc/placet-was-here").exists()


@as_root
def test_a_read_only_source_is_read_and_not_written(work: Path, tmp_path: Path) -> None:
    shown, single = tmp_path / "shown", tmp_path / "single.txt"
    shown.mkdir()
    (shown / "file.txt").write_text("shown")
    (shown / "file.txt").chmod(0o666)
    shown.chmod(0o777)
    single.write_text("single")
    single.chmod(0o666)
    binds = [
        (str(work), f"{STAGE}/work", True),
        (str(shown), f"{STAGE}/deep/er/shown", False),
        (str(single), f"{STAGE}/deep/single.txt", False),
    ]
    body = f"""
for name, path in (("shown", "{STAGE}/deep/er/shown/file.txt"), ("single", "{STAGE}/deep/single.txt")):
    out[name] = [attempt(read, path), attempt(write, path), attempt(os.chmod, path, 0o600)]
out["new"] = attempt(write, "{STAGE}/deep/er/shown/new.txt")
"""

    found = _after(binds, body)

    assert found["shown"][0] == found["single"][0] == "done"
    assert {*found["shown"][1:], *found["single"][1:], found["new"]} <= {"OSError", "PermissionError"}
    assert (sorted(os.listdir(shown)), (shown / "file.txt").read_text()) == (["file.txt"], "shown")
    assert single.read_text() == "single"


@as_root
def test_a_file_can_be_a_source_that_is_written(work: Path) -> None:
    _after([(str(work / "old.txt"), f"{STAGE}/one", True)], f'write("{STAGE}/one")')

    assert (work / "old.txt").read_text() == "by the command"
    assert (work / "old.txt").stat().st_uid == 0


@as_root
def test_a_source_may_lie_where_the_stage_is_put(work: Path) -> None:
    """Also under a umask that would keep the user out of the stage."""
    inner = f"{STAGE}/placet-test-{os.getpid()}"
    Path(inner).mkdir()
    try:
        found = _after(
            [(inner, f"{STAGE}/a/b", True)],
            f'write("{STAGE}/a/b/x"); out["umask"] = os.umask(0)',
            before="os.umask(0o077)",
        )

        assert os.listdir(inner) == ["x"]
    finally:
        shutil.rmtree(inner)
    assert found == {"umask": 0o077}


@as_root
def test_no_capability_is_left(work: Path) -> None:
    body = (
        'out["caps"] = [line.split() for line in read("/proc/self/status").splitlines() if line[:3] == "Cap"]'
    )

    found = _after([(str(work), f"{STAGE}/work", True)], body)

    assert {name: int(value, 16) for name, value in found["caps"]} == {
        "CapInh:": 0,
        "CapPrm:": 0,
        "CapEff:": 0,
        "CapBnd:": 0,
        "CapAmb:": 0,
    }


@as_root
def test_the_host_sees_none_of_the_mounts_and_keeps_no_process(work: Path) -> None:
    def mounts() -> str:
        return Path("/proc/self/mountinfo").read_text()

    before = mounts()
    body = """
out["seen"] = read("/proc/self/mountinfo")
out["children"] = attempt(os.waitpid, -1, 0)
print(json.dumps(out)); sys.stdout.flush()
sys.stdin.read(1)
os._exit(0)
"""
    text = f"{BEGIN}\nout = {{}}\nnames['become'](json.loads(sys.argv[2]))\n{body}"
    binds = json.dumps([(str(work), f"{STAGE}/work", True)])
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", text, other_user.__file__, binds],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())

        during = mounts()

    assert f" {STAGE}/work " in found["seen"]
    assert found["children"] == "ChildProcessError"
    assert before == during == mounts()


@as_root
def test_mounts_that_are_shared_with_others_are_not_shared_then(work: Path) -> None:
    """On most hosts all mounts are shared: one in a copy of the namespace would come up in the first one."""
    code = f"""
if not (pid := os.fork()):
    names["become"](json.loads(sys.argv[2]))
    print("{STAGE}/work" in read("/proc/self/mountinfo"), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print("{STAGE}/work" in read("/proc/self/mountinfo"))
"""
    binds = json.dumps([(str(work), f"{STAGE}/work", True)])
    python = [sys.executable, "-I", "-S", "-c", BEGIN + code, other_user.__file__, binds]
    # Private first: what is shared anew then is shared by nobody on the host.
    argv = ["unshare", "--mount", "--propagation", "private"]
    argv += ["sh", "-c", 'mount --make-rshared / && exec "$@"', "sh", *python]

    said = subprocess.run(argv, capture_output=True, text=True)

    assert (said.stdout.split(), said.stderr) == (["True", "False"], "")


@as_root
def test_it_works_in_a_process_that_nobody_may_look_into(work: Path) -> None:
    before = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"

    _after([(str(work), f"{STAGE}/work", True)], f'write("{STAGE}/work/x")', before=before)

    assert (work / "x").stat().st_uid == 0


@as_root
@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("missing", f"{STAGE}/work", "cannot take hold of"),
        ("link", f"{STAGE}/work", "cannot stage a link"),
        (".", "/tmp/placet-elsewhere", f"cannot stage outside of {STAGE}"),
        (".", f"{STAGE}/../tmp/placet-elsewhere", f"cannot stage outside of {STAGE}"),
        ("/proc", f"{STAGE}/work", "cannot show it to another user"),
    ],
)
def test_a_step_that_fails_is_named_with_the_path(work: Path, source: str, target: str, words: str) -> None:
    (work / "link").symlink_to("/")
    path = os.path.join(str(work), source) if source != "." else str(work)
    code = """
try:
    names["become"](json.loads(sys.argv[2]))
except OSError as error:
    print(error.errno, str(error))
"""

    said = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            BEGIN + code,
            other_user.__file__,
            json.dumps([(path, target, True)]),
        ],
        capture_output=True,
        text=True,
    )

    assert said.stdout.startswith(tuple("123456789")), said
    assert words in said.stdout
    assert (target if "outside" in words else path) in said.stdout
    assert not Path("/tmp/placet-elsewhere").exists()


@as_root
@pytest.mark.skipif(not os.path.exists("/usr/bin/bwrap"), reason="bubblewrap is not installed")
def test_bubblewrap_runs_on_top_of_it(work: Path) -> None:
    """Git finds no fault with the owner either: inside, all is the command's."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    script = (
        "echo hi > x; id -u; cat old.txt; git status --porcelain; "
        "git -c user.name=n -c user.email=e@e commit -q --allow-empty -m one; git log --format=%s"
    )
    links = [("usr/bin", "/bin"), ("usr/lib", "/lib"), ("usr/lib64", "/lib64")]
    argv = [
        "/usr/bin/bwrap",
        *("--unshare-user", "--unshare-pid", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"),
        *(word for source, target in links for word in ("--symlink", source, target)),
        *("--bind", f"{STAGE}/work", "/work", "--chdir", "/work", "--", "sh", "-c", script),
    ]

    found = _after([(str(work), f"{STAGE}/work", True)], f'out["said"] = run(*{argv!r})')

    assert found["said"].splitlines() == [str(UID), "old?? old.txt", "?? x", "one"]
    assert {path.stat().st_uid for path in work.rglob("*")} == {0}


@pytest.mark.parametrize(
    ("known", "owner", "wanted"),
    [
        ("0 0 4294967295", 0, f"0 {UID} 1|1 1 {UID - 1}|{UID} 0 1|{UID + 1} {UID + 1} {4294967294 - UID}"),
        (
            "0 100000 65536",
            1000,
            f"0 0 1000|1000 {UID} 1|1001 1001 {UID - 1001}|{UID} 1000 1|{UID + 1} {UID + 1} {65535 - UID}",
        ),
        ("0 0 65536", UID, f"0 0 {UID}|{UID} {UID} 1|{UID + 1} {UID + 1} {65535 - UID}"),
        ("0 1000 1", 0, f"0 {UID} 1"),
    ],
)
def test_two_users_are_exchanged_and_all_others_stay_themselves(known: str, owner: int, wanted: str) -> None:
    assert _exchange(f"   {known}\n".encode(), owner).decode().splitlines() == wanted.split("|")


@as_root
def test_a_stage_is_made_once_until_a_mount_changes(work: Path) -> None:
    code = """
from placet.sandbox import forking, keeper
from placet.sandbox.compiled import code_of
keeper.CODES["other_user"] = code_of("placet.sandbox.other_user")
stages, wanted = forking._Stages(), {"binds": [(sys.argv[2], sys.argv[3], True)]}
# Held, or the number of one that is gone would be that of the next.
held = [os.dup(stages.find(wanted)) for _ in range(2)]
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", sys.argv[2]], check=True)
held.append(os.dup(stages.find(wanted)))
made = [os.fstat(each).st_ino for each in held]
print(made[0] == made[1], made[1] == made[2])
"""
    python = [sys.executable, "-c", BEGIN + code, other_user.__file__, str(work), f"{STAGE}/work"]

    said = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", *python], capture_output=True, text=True
    )

    assert (said.stdout.split(), said.stderr) == (["True", "False"], "")


@as_root
def test_only_mounts_that_are_kept_are_on_a_stage(work: Path) -> None:
    code = f"""
names["become"]([(sys.argv[2], "{STAGE}/work", True)], kept=["/proc"])
print(*sorted({{line.split()[4] for line in read("/proc/self/mountinfo").splitlines()}}))
"""

    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BEGIN + code, other_user.__file__, str(work)],
        capture_output=True,
        text=True,
    )

    found = [path for path in said.stdout.split() if not path.startswith("/proc/")]
    assert found == ["/", "/proc", STAGE, f"{STAGE}/work"], said.stderr


@as_root
def test_what_has_become_another_meanwhile_is_not_staged(work: Path) -> None:
    code = f"""
try:
    names["make_stage"]([(sys.argv[2], "{STAGE}/work", True)], known=[(0, 0, 0, 0)])
except OSError as error:
    print(error.errno, error.filename == sys.argv[2])
"""

    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BEGIN + code, other_user.__file__, str(work)],
        capture_output=True,
        text=True,
    )

    assert said.stdout.split() == [str(errno.ESTALE), "True"], said.stderr
