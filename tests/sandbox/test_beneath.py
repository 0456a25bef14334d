"""Both ways of opening beneath a folder, by the kernel and by hand: they agree, and neither leads out."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.sandbox import beneath
from placet.sandbox.beneath import FOLDER, MAX_LINKS, has_openat2, open_beneath

WAYS = [pytest.param(True, id="by hand")]
if has_openat2():
    WAYS.append(pytest.param(False, id="by the kernel"))
both_ways = pytest.mark.parametrize("by_hand", WAYS)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    inside = tmp_path / "inside"
    (inside / "a/b").mkdir(parents=True)
    (inside / "a/file").write_text("mine")
    (tmp_path / "secret").write_text("not mine")
    links = {
        "to_file": "a/file",
        "to_folder": "a",
        "dotted": "./a/../a//b/..",
        "a/up": "../a/file",
        "a/b/far_up": "../../../inside/a/file",
        "absolute": str(inside / "a/file"),
        "out": "../secret",
        "etc": "/etc",
        "loop": "loop2",
        "loop2": "loop",
        "dangling": "a/none",
        "slash": "a/",
        "file_slash": "a/file/",
    }
    for name, text in links.items():
        (inside / name).symlink_to(text)
    os.mkfifo(inside / "pipe")
    fd = os.open(inside, FOLDER)
    yield fd
    os.close(fd)


def opened(root: int, path: str, flags: int = os.O_RDONLY, **options: bool) -> str:
    """What was opened, by inode; or the name of what the kernel said."""
    try:
        fd = open_beneath(root, path, flags, **options)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    found = os.fstat(fd)
    os.close(fd)
    return f"{stat.S_IFMT(found.st_mode):o} {found.st_ino}"


def inode(root: int, path: str) -> str:
    found = os.stat(path, dir_fd=root, follow_symlinks=False)
    return f"{stat.S_IFMT(found.st_mode):o} {found.st_ino}"


@both_ways
@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        ("a/file", "a/file"),
        ("./a//b/../file", "a/file"),
        ("to_file", "a/file"),
        ("to_folder/file", "a/file"),
        ("to_folder/b/..", "a"),
        ("dotted/file", "a/file"),
        ("a/up", "a/file"),
        ("slash/b", "a/b"),
        ("a/", "a"),
        ("a/.", "a"),
        (".", "."),
        ("a/..", "."),
        ("pipe", "pipe"),
    ],
)
def test_what_is_beneath_is_opened(root: int, path: str, is_found: str, by_hand: bool) -> None:
    assert opened(root, path, by_hand=by_hand) == inode(root, is_found)


@both_ways
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("..", "EXDEV"),
        ("a/../..", "EXDEV"),
        ("../inside/a/file", "EXDEV"),
        ("/etc/passwd", "EXDEV"),
        ("absolute", "EXDEV"),
        ("out", "EXDEV"),
        ("etc/passwd", "EXDEV"),
        ("a/b/far_up", "EXDEV"),
        ("to_folder/../../secret", "EXDEV"),
        ("loop", "ELOOP"),
        ("loop/x", "ELOOP"),
        ("dangling", "ENOENT"),
        ("none", "ENOENT"),
        ("a/file/", "ENOTDIR"),
        ("file_slash", "ENOTDIR"),
        ("a/file/..", "ENOTDIR"),
        ("", "ENOENT"),
        ("a\0b", "EINVAL"),
        ("n" * 256, "ENAMETOOLONG"),
        ("./" * 2048, "ENAMETOOLONG"),
    ],
)
def test_what_is_not_is_refused_in_the_words_of_the_kernel(
    root: int, path: str, says: str, by_hand: bool
) -> None:
    assert opened(root, path, by_hand=by_hand) == says


@both_ways
def test_a_link_in_the_place_of_the_last_name_may_be_refused(root: int, by_hand: bool) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW

    assert opened(root, "to_folder/file", flags, by_hand=by_hand) == inode(root, "a/file")
    assert opened(root, "to_file", flags, by_hand=by_hand) == "ELOOP"
    assert opened(root, "out", flags, by_hand=by_hand) == "ELOOP"


@both_ways
def test_a_folder_to_start_from_is_opened_through_links(root: int, by_hand: bool) -> None:
    assert opened(root, "to_folder/b/..", FOLDER, by_hand=by_hand) == inode(root, "a")
    assert opened(root, "to_folder", FOLDER, by_hand=by_hand) == inode(root, "a")
    assert opened(root, "to_file", FOLDER, by_hand=by_hand) == "ENOTDIR"
    assert opened(root, "etc", FOLDER, by_hand=by_hand) == "EXDEV"


@both_ways
def test_forty_links_are_followed_and_no_more(root: int, by_hand: bool) -> None:
    os.symlink("a/file", "l1", dir_fd=root)
    for n in range(2, MAX_LINKS + 2):
        os.symlink(f"l{n - 1}", f"l{n}", dir_fd=root)

    assert opened(root, f"l{MAX_LINKS}", by_hand=by_hand) == inode(root, "a/file")
    assert opened(root, f"l{MAX_LINKS + 1}", by_hand=by_hand) == "ELOOP"


@both_ways
def test_no_descriptor_is_left_open(root: int, by_hand: bool) -> None:
    before = sorted(os.listdir("/dev/fd"))

    for path in ("a/b/../file", "to_folder/b", "loop/x", "a/b/far_up", "out", "none/x", "a/b/none"):
        opened(root, path, by_hand=by_hand)

    assert sorted(os.listdir("/dev/fd")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has links that are more than their text")
@both_ways
@pytest.mark.parametrize("path", ["self/root/etc/hostname", "self/cwd", "self/fd/{}", "self/exe"])
def test_the_links_of_proc_lead_nowhere(root: int, path: str, by_hand: bool) -> None:
    proc = os.open("/proc", FOLDER)
    try:
        # The kernel says that it follows no such links, whatever keeping beneath a folder implies about them
        # today; the other way, that their text is absolute.
        assert opened(proc, path.format(root), by_hand=by_hand) == ("EXDEV" if by_hand else "ELOOP")
    finally:
        os.close(proc)


@pytest.mark.skipif(not has_openat2(), reason="paths are walked by hand here")
@pytest.mark.parametrize("number", [errno.EINTR, errno.EAGAIN])
@pytest.mark.parametrize("times", [1, 1_000_000], ids=["once", "always"])
def test_a_kernel_that_could_not_tell_is_asked_again_or_done_without(
    root: int, number: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, said = beneath._openat2(), iter(range(times))

    def openat2(*how: Any) -> int:
        if next(said, None) is not None:
            raise OSError(number, os.strerror(number))
        return ask(*how)

    monkeypatch.setattr(beneath, "_openat2", lambda: openat2)

    assert opened(root, "a/b/../file", by_hand=False) == inode(root, "a/file")
    assert opened(root, "a/b/far_up", by_hand=False) == "EXDEV"


_OPENS_A_TERMINAL = """
import os, sys
from placet.sandbox.beneath import FOLDER, open_beneath

open_beneath(os.open("/dev/pts", FOLDER), sys.argv[1], os.O_RDONLY, by_hand=sys.argv[2] == "True")
try:
    os.open("/dev/tty", os.O_RDONLY)
except OSError:
    print("no terminal")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere terminals have other paths")
@both_ways
def test_no_terminal_becomes_that_of_the_process(by_hand: bool) -> None:
    ours, other = os.openpty()
    name = os.path.basename(os.ttyname(other))

    # In a session of its own, which has no terminal yet.
    done = subprocess.run(
        [sys.executable, "-c", _OPENS_A_TERMINAL, name, str(by_hand)],
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )

    os.close(ours)
    os.close(other)
    assert (done.stdout, done.stderr) == ("no terminal\n", "")


@both_ways
def test_a_started_program_does_not_inherit_the_descriptor(root: int, by_hand: bool) -> None:
    fd = open_beneath(root, "a/file", os.O_RDONLY, by_hand=by_hand)

    assert not os.get_inheritable(fd)
    os.close(fd)
