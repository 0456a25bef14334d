"""list_dir, find_files and grep: what they show, what they leave out, and what cannot stop them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placet import Runtime, ToolError
from placet.sandbox.workspace import Workspace
from placet.testing import action, proposal
from placet.tools.builtin.matching.globs import MOST_CHARACTERS, compile_glob
from placet.tools.builtin.matching.lines import MOST_FILE_BYTES, MOST_LINE, Search
from placet.tools.builtin.matching.needles import find_needles, is_plain
from placet.tools.builtin.matching.walk import SKIPPED, Walk
from placet.tools.builtin.search import MOST_LISTED, search_tools
from tests.servers.programs import program

BACKTRACKS = "(a+)+$"
"""On a row of a's and then a b, each further a doubles the time."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def call(folder: Path) -> Callable[..., Any]:
    """Call one of the tools, on the folder: `call("list_dir", path="src")`."""
    tools = {made.name: made for made in search_tools(Workspace(folder), time_s=60)}

    def call(name: str, /, **args: Any) -> Any:
        made = tools[name]
        problem = made.validate(args)
        assert problem is None, problem
        answer = asyncio.run(made.fn(**args)) if made.is_async else made.fn(**args)  # type: ignore[misc]
        json.dumps(answer, ensure_ascii=False).encode()
        return answer

    return call


def put(path: Path, data: str | bytes = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def found_in(answer: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(match["path"], match["line"], match["text"]) for match in answer["matches"]]


# list_dir


def test_a_folder_is_listed_with_kinds_and_sizes_folders_first(folder: Path, call: Any) -> None:
    put(folder / "b.txt", "12345")
    put(folder / "z" / "inner.txt")
    put(folder / ".git" / "config")
    (folder / "a").symlink_to("/etc")
    os.mkfifo(folder / "pipe")

    answer = call("list_dir")

    assert answer == {
        "entries": [
            {"name": ".git", "kind": "folder"},
            {"name": "z", "kind": "folder"},
            {"name": "a", "kind": "link"},
            {"name": "b.txt", "kind": "file", "size": 5},
            {"name": "pipe", "kind": "other"},
        ],
        "truncated": False,
    }


def test_a_full_folder_is_listed_in_part_and_says_so(folder: Path, call: Any) -> None:
    for n in range(MOST_LISTED + 7):
        (folder / f"{n:05}").touch()

    answer = call("list_dir")

    assert len(answer["entries"]) == MOST_LISTED
    assert answer["truncated"] is True
    assert answer["note"].startswith("7 more ")


@pytest.mark.parametrize("name", ["list_dir", "find_files", "grep"])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("gone", "no such file or directory"),
        ("..", "outside the workspace"),
        ("/etc", "outside the workspace"),
        ("out", "outside the workspace"),
        ("out/etc", "outside the workspace"),
        ("file.txt/x", "where a folder must be"),
        (".placet/data", "keeps its records"),
    ],
)
def test_a_path_that_cannot_be_searched_is_refused(
    folder: Path, call: Any, name: str, path: str, says: str
) -> None:
    put(folder / "file.txt")
    put(folder / ".placet/data/runs.db")
    (folder / "out").symlink_to("/")

    with pytest.raises(ToolError, match=says) as raised:
        call(name, path=path, **({} if name == "list_dir" else {"pattern": "x"}))

    assert raised.value.retry is False


@pytest.mark.parametrize("name", ["list_dir", "find_files"])
def test_a_file_is_no_folder(folder: Path, call: Any, name: str) -> None:
    put(folder / "file.txt")

    with pytest.raises(ToolError, match="not a directory"):
        call(name, path="file.txt", **({} if name == "list_dir" else {"pattern": "x"}))


def test_a_pipe_is_not_waited_for(folder: Path, call: Any) -> None:
    os.mkfifo(folder / "pipe")

    with pytest.raises(ToolError, match="neither a file nor a folder"):
        call("grep", pattern="x", path="pipe")
    assert call("grep", pattern="x")["files_searched"] == 0


def test_names_that_are_no_utf8_or_hold_controls_are_shown(folder: Path, call: Any) -> None:
    put(Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.txt")), "needle")
    put(folder / "two\nlines.txt", "needle")
    put(folder / "bell\a ü.txt", "needle")

    names = ["bad\\xff.txt", "bell\a ü.txt", "two\nlines.txt"]
    assert [entry["name"] for entry in call("list_dir")["entries"]] == names
    assert call("find_files", pattern="*.txt")["files"] == names
    assert [path for path, _, _ in found_in(call("grep", pattern="needle"))] == names


# find_files


def test_files_are_found_by_glob_with_paths_for_the_other_tools(folder: Path, call: Any) -> None:
    for name in ("top.py", "src/a.py", "src/deep/b.py", "src/deep/c.txt"):
        put(folder / name)

    assert call("find_files", pattern="*.py")["files"] == ["src/a.py", "src/deep/b.py", "top.py"]
    assert call("find_files", pattern="deep/*", path="src")["files"] == ["src/deep/b.py", "src/deep/c.txt"]
    assert call("find_files", pattern="/*.py")["files"] == ["top.py"]
    assert call("find_files", pattern="*.rs") == {"files": [], "links": [], "truncated": False}


def test_a_link_is_told_as_a_link_and_not_followed(folder: Path, tmp_path: Path, call: Any) -> None:
    put(tmp_path / "outside" / "secret.txt", "secret")
    put(folder / "real" / "a.txt", "secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "inner").symlink_to("real")
    (folder / "secret.txt").symlink_to(tmp_path / "outside" / "secret.txt")

    found = call("find_files", pattern="**")

    assert found == {"files": ["real/a.txt"], "links": ["inner", "link", "secret.txt"], "truncated": False}
    assert found_in(call("grep", pattern="secret")) == [("real/a.txt", 1, "secret")]
    # A link may be where a search begins, as long as it leads to a folder beneath the workspace.
    assert call("find_files", pattern="**", path="inner")["files"] == ["inner/a.txt"]


@pytest.mark.parametrize("name", sorted(SKIPPED))
def test_folders_made_by_programs_are_searched_only_from_within(folder: Path, call: Any, name: str) -> None:
    put(folder / "sub" / name / "x" / "a.txt", "needle")
    put(folder / "sub" / "b.txt", "needle")

    inside = f"sub/{name}"
    assert call("find_files", pattern="*.txt")["files"] == ["sub/b.txt"]
    assert [path for path, _, _ in found_in(call("grep", pattern="needle"))] == ["sub/b.txt"]
    for start in (inside, f"{inside}/x"):
        assert call("find_files", pattern="*.txt", path=start)["files"] == [f"{inside}/x/a.txt"]


def test_a_file_of_such_a_name_is_found(folder: Path, call: Any) -> None:
    """In a linked worktree `.git` is a file."""
    put(folder / ".git", "gitdir: elsewhere")

    assert call("find_files", pattern=".git")["files"] == [".git"]
    assert found_in(call("grep", pattern="gitdir")) == [(".git", 1, "gitdir: elsewhere")]


def test_records_of_runs_are_hidden_whatever_the_start(folder: Path, call: Any) -> None:
    put(folder / ".placet/data/runs.txt", "needle")
    put(folder / ".placet/data/spill/long.txt", "needle")
    put(folder / ".placet/policy.txt", "needle")

    for start, seen in (
        (".placet", ".placet/policy.txt"),
        (".placet/data/spill", ".placet/data/spill/long.txt"),
    ):
        assert call("find_files", pattern="**", path=start)["files"] == [seen]
        assert [path for path, _, _ in found_in(call("grep", pattern="needle", path=start))] == [seen]


@pytest.mark.parametrize("above", ["sub", "a/b/c"])
def test_records_of_projects_further_down_are_hidden_too(folder: Path, call: Any, above: str) -> None:
    put(folder / above / ".placet/data/runs.txt", "needle")
    put(folder / above / ".placet/policy.txt", "needle")
    put(folder / above / "data/mine.txt", "needle")
    put(folder / above / "linked/real/data/runs.txt", "needle")
    (folder / above / "linked/.placet").symlink_to("real")

    for start, seen in (
        (f"{above}/.placet", [f"{above}/.placet/policy.txt"]),
        (f"{above}/linked/real", []),
        (".", [f"{above}/data/mine.txt"]),
    ):
        assert call("find_files", pattern="*.txt", path=start)["files"] == seen
        assert [path for path, _, _ in found_in(call("grep", pattern="needle", path=start))] == seen
    for name in ("list_dir", "find_files", "grep"):
        with pytest.raises(ToolError, match="keeps its records"):
            call(name, path=f"{above}/.placet/data", **({} if name == "list_dir" else {"pattern": "x"}))


def test_files_that_are_closed_are_not_searched(folder: Path) -> None:
    put(folder / "runs.txt", "needle")
    put(folder / "sub/open.txt", "needle")
    tools = {made.name: made for made in search_tools(Workspace(folder, closed=[folder / "runs.txt"]))}

    answer = asyncio.run(tools["grep"](pattern="needle"))

    assert found_in(answer) == [("sub/open.txt", 1, "needle")]
    assert answer["files_searched"] == 1


def test_too_many_files_are_found_in_part(folder: Path, call: Any) -> None:
    for n in range(12):
        (folder / f"{n:02}.txt").touch()

    assert call("find_files", pattern="*", max_results=12)["truncated"] is False
    answer = call("find_files", pattern="*", max_results=11)

    assert answer["files"] == [f"{n:02}.txt" for n in range(11)]
    assert answer["truncated"] is True
    assert "more than 11" in answer["note"]


@pytest.fixture
def opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_walk_ends_after_so_many_names(folder: Path, opened: int) -> None:
    for n in range(30):
        put(folder / f"{n % 3}" / f"{n}.txt")

    walk = Walk(opened, most=20)
    seen = [path for path, _, _, _ in walk]

    assert walk.looked_at == 20
    assert walk.is_cut_short
    assert 0 < len(seen) < 20
    assert not Walk(opened, most=33).is_cut_short


def test_a_walk_goes_only_so_deep_and_leaves_no_descriptor(folder: Path, opened: int) -> None:
    here = folder
    for _ in range(130):
        here = here / "d"
    here.mkdir(parents=True)
    put(here / "bottom.txt")
    put(folder / "top.txt")
    before = len(os.listdir("/proc/self/fd"))

    walk = Walk(opened)
    seen = [path for path, _, _, _ in walk]
    for _ in Walk(opened):
        break

    assert seen == ["top.txt"]
    assert walk.is_cut_short
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("glob", "fit", "unfit"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "py"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("./*.py", ["a.py"], ["x/a.py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py", "x/src/a.py"]),
        ("**/src/*.py", ["src/a.py", "x/src/a.py", "x/y/src/a.py"], ["src/x/a.py"]),
        ("src/**/a.py", ["src/a.py", "src/x/a.py", "src/x/y/a.py"], ["a.py", "src/a.pyc", "xsrc/a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "x/src/a"]),
        ("**", ["a", "x/y/z"], []),
        ("**/a/**/b", ["a/b", "x/a/y/a/z/b"], ["b", "a", "a/b/c"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/b/c"], ["a/c", "b/a/c"]),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("?.txt", ["a.txt", "x/ü.txt"], [".txt", "ab.txt"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x", "x"]),
        ("[!a-c]x", ["dx"], ["ax", "x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]]x", ["]x"], ["x"]),
        ("[!]]x", ["ax"], ["]x"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[z-a]", [], ["z", "a", "-"]),
        ("[!z-a]", ["q"], []),
        ("[[a]", ["[", "a"], ["[a"]),
        ("[a&&b~~c||d--e]", ["&", "~", "|", "e"], ["d", "-"]),
        ("[abc", ["[abc"], ["a"]),
        ("[", ["["], ["a"]),
        ("a[", ["a["], ["a"]),
        (r"\[id\].tsx", ["[id].tsx"], ["i.tsx"]),
        (r"a\*", ["a*"], ["ab"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.js", "a.{ts,tsx}"]),
        ("{src,lib}/**/*.{c,h}", ["src/a.c", "lib/x/a.h"], ["doc/a.c"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["d", "ad"]),
        ("{a,x/b}", ["a", "y/a", "x/b"], ["b"]),
        ("{one}", ["{one}"], ["one"]),
        ("a.b+c(d)", ["a.b+c(d)"], ["aXb+c(d)"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*\n*", ["a\nb"], ["ab"]),
    ],
)
def test_what_a_glob_fits(glob: str, fit: list[str], unfit: list[str]) -> None:
    fits = compile_glob(glob)

    assert [path for path in fit if not fits(path)] == []
    assert [path for path in unfit if fits(path)] == []


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        ("/", "it is empty"),
        ("../*.py", "'..'"),
        ("src/", "ends in a slash"),
        ("x" * (MOST_CHARACTERS + 1), "longer than"),
        ("{a,b}" * 10, "braces stand for more"),
    ],
)
def test_a_glob_that_means_nothing_is_refused(folder: Path, call: Any, glob: str, says: str) -> None:
    with pytest.raises(ToolError, match=re.escape(says)):
        call("find_files", pattern=glob)
    with pytest.raises(ToolError, match=re.escape(says)):
        call("grep", pattern="x", glob=glob)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "glob",
    [
        "*a" * 30 + "*b",
        "*a*a*a*a*a*b",
        "**/a/" * 60 + "b",
        "*?" * 60 + "b",
        "*[a-b]" * 60 + "c",
        "{*a,*}" * 5 + "b",
    ],
)
def test_a_glob_full_of_stars_answers_at_once(glob: str) -> None:
    fits = compile_glob(glob)

    for path in ("a" * 255, "/".join(["a" * 255] * 15), "a/" * 2000 + "a"):
        assert not fits(path)


# grep


def test_lines_that_match_are_told_with_their_place(folder: Path, call: Any) -> None:
    put(folder / "b.txt", "one\ntwo\nthree\n")
    put(folder / "a" / "c.txt", "x two\r\n\r\ntwo")

    answer = call("grep", pattern="^two|two$")

    assert found_in(answer) == [("a/c.txt", 1, "x two"), ("a/c.txt", 3, "two"), ("b.txt", 2, "two")]
    assert (answer["files_searched"], answer["truncated"]) == (2, False)
    assert "note" not in answer


def test_one_file_can_be_searched(folder: Path, call: Any) -> None:
    put(folder / "x" / "a.txt", "needle")
    put(folder / "x" / "b.txt", "needle")

    answer = call("grep", pattern="needle", path=str(folder / "x" / "a.txt"))

    assert found_in(answer) == [("x/a.txt", 1, "needle")]
    assert answer["files_searched"] == 1


def test_options_of_grep(folder: Path, call: Any) -> None:
    put(folder / "a.py", "1\n2\nNeedle (x)\n4\n5\n")
    put(folder / "a.md", "needle (x)\n")

    assert found_in(call("grep", pattern="needle")) == [("a.md", 1, "needle (x)")]
    assert len(call("grep", pattern="needle", ignore_case=True)["matches"]) == 2
    assert found_in(call("grep", pattern="(x)", fixed=True, glob="*.py")) == [("a.py", 3, "Needle (x)")]
    [match] = call("grep", pattern="Needle", context_lines=3)["matches"]
    assert (match["before"], match["after"]) == (["1", "2"], ["4", "5"])
    assert call("grep", pattern="[1-5]", max_matches=1)["truncated"] is True


def test_python_syntax_is_understood(folder: Path, call: Any) -> None:
    put(folder / "a.txt", "abab\nprice: 12€\nfoobar\nfoobaz\n")

    def lines(pattern: str) -> list[int]:
        return [line for _, line, _ in found_in(call("grep", pattern=pattern))]

    assert lines(r"(?P<two>ab)(?P=two)\Z") == [1]
    assert lines(r"(?<=: )\d+€") == [2]
    assert lines(r"foo(?!bar)") == [4]
    assert lines(r"(?i)FOO(?-i:bar)") == [3]
    assert lines(r"(?x) foo  # a comment") == [3, 4]
    assert lines("[[a]b") == [1]  # `re` warns of a change to come; the answer is not disturbed


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(a", "missing ), unterminated subpattern at position 0"),
        ("ab[c", "unterminated character set at position 2"),
        ("a{99999999999}", "repetition number is too large"),
    ],
)
def test_a_pattern_that_is_none_is_refused(call: Any, pattern: str, says: str) -> None:
    with pytest.raises(ToolError, match=re.escape(says)) as raised:
        call("grep", pattern=pattern)

    assert raised.value.retry is False
    assert call("grep", pattern=pattern, fixed=True)["matches"] == []


async def test_a_pattern_nested_too_deep_is_refused(folder: Path) -> None:
    """Longer than a model may write one."""
    grep = search_tools(Workspace(folder))[2]

    with pytest.raises(ToolError, match="maximum recursion depth"):
        await grep(pattern="(" * 5000 + ")" * 5000)


def test_long_lines_are_cut_around_the_match(folder: Path, call: Any) -> None:
    put(folder / "a.txt", "x" * 5000 + "needle" + "y" * 5000 + "\nneedle" + "z" * 5000)

    first, second = (text for _, _, text in found_in(call("grep", pattern="needle")))

    assert "xneedley" in first
    assert (first[0], first[-1], len(first)) == ("…", "…", MOST_LINE + 2)
    assert (second[:7], second[-1], len(second)) == ("needlez", "…", MOST_LINE + 1)


def test_an_answer_has_a_largest_size(folder: Path, call: Any) -> None:
    put(folder / "a.txt", ("x" * 600 + "\n") * 10_000)

    answer = call("grep", pattern="x", context_lines=10, max_matches=1000)

    assert len(json.dumps(answer)) < 400_000
    assert 0 < len(answer["matches"]) < 1000
    assert answer["truncated"] is True
    assert f"more than these {len(answer['matches'])}" in answer["note"]


@pytest.mark.parametrize("ripgrep_after", [0, 256])
async def test_binary_files_and_large_ones_are_left_out(folder: Path, ripgrep_after: int) -> None:
    grep = search_tools(Workspace(folder), ripgrep_after=ripgrep_after)[2]
    put(folder / "binary", b"needle\0")
    put(folder / "late", b"x" * 9000 + b"\n\0 needle")
    put(folder / "latin", "nä needle".encode("latin-1"))
    put(folder / "utf16", "needle".encode("utf-16"))
    put(folder / "bom", b"\xef\xbb\xbfneedle")
    for n in range(12):
        with (folder / f"large{n:02}").open("wb") as file:
            file.write(b"needle\n")
            file.truncate(MOST_FILE_BYTES + 1)

    answer = await grep("^.*needle")

    assert found_in(answer) == [
        ("bom", 1, "needle"),
        ("late", 2, "\0 needle"),
        ("latin", 1, "n\ufffd needle"),
    ]
    assert answer["files_searched"] == 5
    assert "large00, large01," in answer["note"]
    assert "large09 and 2 more" in answer["note"]
    assert "large00" in (await grep("needle", "large00"))["note"]


def test_what_may_not_be_read_is_counted(folder: Path, opened: int) -> None:
    put(folder / "closed.txt", "needle")
    (folder / "closed.txt").chmod(0)
    (folder / "shut").mkdir(mode=0)
    search = Search(pattern="needle")

    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)  # Root may read everything.
    try:
        search.beneath(opened)
    finally:
        os.seteuid(was)

    assert search.matches == []
    assert search.unreadable == 2


def users_of(folder: Path) -> set[int]:
    """The processes that have something beneath the folder open, except this one."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            links = [os.readlink(each) for each in (entry / "fd").iterdir()]
        except OSError:
            continue
        if any(link.startswith(str(folder)) for link in links):
            found.add(int(entry.name))
    return found


async def test_a_pattern_that_backtracks_for_ever_is_ended_and_the_runtime_goes_on(folder: Path) -> None:
    put(folder / "a.txt", "a" * 60 + "b")
    runtime = Runtime(tools=search_tools(Workspace(folder), time_s=1))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    result = await runtime.execute(proposal(action("a1", "grep", parameters={"pattern": BACKTRACKS})))
    ticking.cancel()

    [only] = result.results
    assert only.status == "failed"
    assert "took more than 1 s and was ended" in str(only.error)
    assert ticks > 1
    assert users_of(folder) == set()


async def test_a_cancelled_grep_leaves_nothing_running(folder: Path) -> None:
    put(folder / "a.txt", "a" * 60 + "b")
    grep = search_tools(Workspace(folder))[2]

    running = asyncio.ensure_future(grep(pattern=BACKTRACKS))
    while not users_of(folder):  # noqa: ASYNC110 - another process has no event to wait for
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert users_of(folder) == set()


def test_all_three_only_read(folder: Path) -> None:
    assert {made.schema.risk for made in search_tools(Workspace(folder))} == {"read_only"}


# What spares reading


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        ("needle", [b"needle"]),
        ("ab", []),
        ("foo|barbar", [b"foo", b"barbar"]),
        ("foo|b", []),
        ("(foo|barbar)?bazbaz", [b"bazbaz"]),
        ("(?:needle)+x", [b"needle"]),
        ("(?:needle)*x", []),
        ("(?>needle)x", [b"needle"]),
        (r"\bdef \w+_handler\(", [b"_handler("]),
        (r"größe_total", [b"e_total"]),
        (r"(?=needle)x", []),
        (r"(?!needle)abc", [b"abc"]),
        (r"abc\ndefg", [b"defg"]),
    ],
)
def test_needles_are_in_every_match(pattern: str, needles: list[bytes]) -> None:
    assert find_needles(pattern, ignore_case=False) == (needles, False)


@pytest.mark.parametrize("pattern", ["(?i)LICENSE", "(?i:LICENSE)", "(?si:L)ICENSE"])
def test_letters_with_kin_outside_ascii_are_in_no_needle_without_case(pattern: str) -> None:
    assert find_needles(pattern, ignore_case=False) == ([b"cen"], True)


def test_no_other_letter_has_kin_outside_ascii() -> None:
    """Proof of `is_plain`, on every character that there is."""
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))

    for code in range(0x80):
        fitting = re.findall(re.escape(chr(code)), everything, re.IGNORECASE)
        if is_plain(code, folded=True):
            assert "".join(fitting).isascii(), chr(code)
        elif chr(code).isalpha():
            assert not "".join(fitting).isascii(), chr(code)


def test_ripgrep_from_the_workspace_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program("rg")
    put(folder / "bin" / "rg", f"#!/bin/sh\ntouch {folder}/was-run\nexit 1\n")
    (folder / "bin" / "rg").chmod(0o755)
    put(folder / "a.txt", "needle")
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    grep = search_tools(Workspace(folder), ripgrep_after=0)[2]

    answer = asyncio.run(grep(pattern="needle"))

    assert [match["path"] for match in answer["matches"]] == ["a.txt"]
    assert not (folder / "was-run").exists()


@pytest.mark.parametrize("exit_code", [0, 2])
def test_a_broken_ripgrep_is_asked_and_its_failure_hides_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int
) -> None:
    put(tmp_path / "bin" / "rg", f"#!/bin/sh\ntouch {tmp_path}/was-run\nexit {exit_code}\n")
    (tmp_path / "bin" / "rg").chmod(0o755)
    put(folder / "a.txt", "needle")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    grep = search_tools(Workspace(folder), ripgrep_after=0)[2]

    answer = asyncio.run(grep(pattern="needle"))

    assert (tmp_path / "was-run").exists()
    # Exit code 0 says that nothing was missed, and nothing was named: that proves it was listened to.
    assert len(answer["matches"]) == (1 if exit_code else 0)
