"""Grep answers the same with ripgrep, without it, and as a plain loop; globs fit what a slow matcher fits."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from placet.tools.builtin.matching.globs import compile_glob
from placet.tools.builtin.matching.lines import Search
from placet.tools.builtin.matching.walk import SKIPPED, shown
from tests.properties.effort import FIFTH, UNHURRIED, Tally, examples
from tests.servers.programs import program

pytestmark = UNHURRIED

# Words that contain each other, differ by case only, or have letters whose case leads out of ASCII.
WORDS = [
    "needle",
    "Needle",
    "NEEDLE",
    "kiss",
    "KISS",
    "\u212ai\u017f\u017f",
    "k\u0131ss",
    "K\u0130SS",
    "größe",
    "GRÖSSE",
]
BITS = [*WORDS, "need", "le", " ", "x", "\t", "-e", "*.", "\r", "\x0b", "\u2028", "(", "é"]
RAW = [b"\xff", b"\xc3", b"\xe2\x84", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\n\n"]

words = st.sampled_from(WORDS).map(str.encode)
others = st.one_of(st.sampled_from(BITS).map(str.encode), st.sampled_from(RAW))
data = st.lists(st.one_of(words, words, words, st.just(b"\n"), others), min_size=4, max_size=16).map(b"".join)
names = st.sampled_from(
    [b"a", b"b.py", b"c.txt", b"-e", b".hidden.py", b"bad\xff.py", b"two\nlines.txt", "ü.py".encode(), b"rc"]
)
folders = st.sampled_from([b"src", b"Src", b".git", b"venv", b"node_modules", b".dot", b"bad\xfe"])
trees = st.dictionaries(
    st.tuples(st.lists(folders, max_size=2), names).map(lambda parts: b"/".join([*parts[0], parts[1]])),
    data,
    min_size=3,
    max_size=8,
)

short = ["needle", "NEED", "kiss", "KISS", "größe", "le"]
literals = st.sampled_from([re.escape(word) for word in [*short, *short, *BITS] if word != "\r"])
classes = st.sampled_from([r"\w", r"\s", ".", "[a-n]", r"\b", "^", "$", "[^x]", r"\W"])
atoms = st.one_of(literals, literals, literals, classes)


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "{2}", "{0}", "+?", "{1,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda each: f"(?i:{each})"),
        inner.map(lambda each: f"(?={each})"),
        inner.map(lambda each: f"(?!{each})"),
        inner.map(lambda each: f"(?>{each})"),
        inner.map(lambda each: f"({each})"),
    )


patterns = st.tuples(
    st.sampled_from(["", "", "", "(?i)", "(?a)", "(?s)"]),
    st.one_of(literals, st.recursive(atoms, grow, max_leaves=5)),
).map("".join)
globs = st.sampled_from([None, None, "*.py", "**/*.py", "*.txt", "src/**", "/*", "[bc]*", "*.{py,txt}"])


def plant(folder: Path, tree: Mapping[bytes, bytes]) -> None:
    for name, held in tree.items():
        path = os.fsencode(folder) + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(held)
    (folder / "link.py").symlink_to("b.py")
    (folder / "linked").symlink_to("src")


def files_of(folder: Path, before: str = "") -> Iterator[tuple[str, bytes]]:
    """In the order of a walk: by name, a folder where its own name stands."""
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if path.is_symlink():
            continue
        if path.is_file():
            yield before + name, path.read_bytes()
        elif name not in SKIPPED:
            yield from files_of(path, f"{before}{name}/")


def plain_grep(folder: Path, pattern: str, flags: int, glob: str | None) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    fits = compile_glob(glob) if glob else lambda path: True
    for path, held in files_of(folder):
        if not fits(path) or b"\0" in held[:8192]:
            continue
        text = held.decode("utf-8", "replace")
        text = text[1:] if text[:1] == "\ufeff" else text
        lines = text[:-1].split("\n") if text.endswith("\n") else text.split("\n") if text else []
        for number, line in enumerate(lines, 1):
            line = line[:-1] if line.endswith("\r") else line
            if re.search(pattern, line, flags):
                found.append((shown(path), number, line))
    return found


def test_grep_is_the_same_with_ripgrep_without_it_and_as_a_plain_loop() -> None:
    installed = program("rg")
    tally = Tally()

    @examples(150)
    @given(
        trees,
        patterns,
        globs,
        st.sampled_from([False, False, True]),
        st.booleans(),
        st.integers(0, 2),
        st.sampled_from([3, 1000]),
    )
    def check(
        tree: Mapping[bytes, bytes],
        pattern: str,
        glob: str | None,
        fixed: bool,
        ignore_case: bool,
        after: int,
        most: int,
    ) -> None:
        answers: list[dict[str, object]] = []
        needles = False
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folder = Path(name)
            plant(folder, tree)
            start = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                for program in ("", installed):
                    search = Search(
                        pattern=pattern,
                        fixed=fixed,
                        ignore_case=ignore_case,
                        glob=glob,
                        max_matches=most,
                        ripgrep=program,
                        ripgrep_after=after,
                    )
                    needles = bool(search._needles)
                    search.beneath(start)
                    answers.append({key: value for key, value in vars(search).items() if key[0] != "_"})
            finally:
                os.close(start)
            flags = re.IGNORECASE if ignore_case else re.NOFLAG
            plain = plain_grep(folder, re.escape(pattern) if fixed else pattern, flags, glob)

        without, with_ripgrep = answers
        assert with_ripgrep == without
        matches: list[dict[str, object]] = without["matches"]  # type: ignore[assignment]
        assert [(each["path"], each["line"], each["text"]) for each in matches] == plain[:most]
        assert without["is_stopped"] is (len(plain) > most)
        tally.add(found=bool(plain), needles=needles, found_by_needles=needles and bool(plain))

    check()

    tally.require({"found": FIFTH, "needles": FIFTH, "found_by_needles": 0.1})


def slow_fit(glob: str, path: str) -> bool:
    """Every way to lay stars over a path: slow, short, and another way than the tool's."""
    if glob == path == "":
        return True
    if glob.startswith("**/"):
        rest = glob[3:]
        starts = [0, *(at + 1 for at, c in enumerate(path) if c == "/")]
        return any(slow_fit(rest, path[at:]) for at in starts)
    if glob.startswith("*"):
        end = path.find("/")
        longest = len(path) if end < 0 else end
        return any(slow_fit(glob[1:], path[at:]) for at in range(longest + 1))
    return (
        bool(glob and path)
        and (glob[0] == path[0] or (glob[0] == "?" and path[0] != "/"))
        and slow_fit(glob[1:], path[1:])
    )


segment = st.text("ab*?", min_size=1, max_size=5).map(lambda part: re.sub(r"\*+", "*", part))
whole_globs = st.lists(st.one_of(segment, segment, st.just("**")), min_size=2, max_size=5)
paths = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5).map("/".join)


def test_a_glob_fits_what_a_slow_matcher_fits() -> None:
    tally = Tally()

    @examples(400)
    @given(whole_globs, st.lists(paths, min_size=20, max_size=20))
    def check(parts: list[str], some: list[str]) -> None:
        glob = "/".join(parts)
        spelled = glob + "/*" if parts[-1] == "**" else glob
        fits = compile_glob(glob)

        seen = {path: fits(path) for path in some}

        assert seen == {path: slow_fit(spelled, path) for path in some}
        tally.add(fits=any(seen.values()), fits_not=not all(seen.values()))

    check()

    tally.require({"fits": FIFTH, "fits_not": FIFTH})
