"""A model's files from a URL, resumed where the server can do that.

What came is bound to the URL without its password and its query, which may change from one attempt to the
next, and to what the server says of the file's state.

Keep true:
1. What came before is touched only once an answer is known to be the rest of it, or all of a newer file.
2. Only what was announced with the right size is kept for the next attempt: the page of a hotel's network is
   not the beginning of a model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from placet.errors import InputError, ModelUnavailable
from placet.inference.local.sources import Filled, open_draft, without_secrets, wrong_size
from placet.inference.local.weights import WeightsFile, megabytes
from placet.safe_text import clean

if TYPE_CHECKING:
    import httpx2

_LONGEST = 400
_READ_S = 60.0
_CONNECT_S = 10.0
_MOST_STATE = 1000


class Url:
    """A file at a URL, or several below one under their names. Redirects are followed."""

    keeps = True
    beside = 0

    def __init__(self, url: str, *, is_folder: bool, say: Callable[[str], None]) -> None:
        from hashlib import sha256

        plain = without_secrets(url)
        self.tag = f"url-{sha256(plain.encode(errors='replace')).hexdigest()[:8]}"
        self._url = url
        self._is_folder = is_folder
        self._say = say

    def fill(self, file: WeightsFile, draft: Path, filled: Filled) -> None:
        """Go on where the last attempt ended, if the server can; else from the beginning."""
        url = f"{self._url.rstrip('/')}/{file.name}" if self._is_folder else self._url
        where = without_secrets(url)
        there = draft.stat().st_size if draft.exists() else 0
        if there == file.size:
            return
        if there > file.size:
            draft.unlink()
            there = 0
        state = _state_of(draft) if there else ""
        with _client(where) as client:
            for begin in dict.fromkeys((there, 0)):
                with _asked(client, url, begin, state, where) as answer:
                    if begin and answer.status_code == 416:
                        continue  # It has no such bytes: another file, perhaps. All of it, then.
                    self._take(answer, file, draft, there, state, where, filled)
                    return

    def _take(
        self,
        answer: httpx2.Response,
        file: WeightsFile,
        draft: Path,
        there: int,
        state: str,
        where: str,
        filled: Filled,
    ) -> None:
        """Write what comes: behind what is there, or into a second draft that then takes its place."""
        begin, announced = _announced(answer, there, where)
        if announced is not None and announced != file.size:
            raise InputError(wrong_size(where, file, announced))
        into = draft
        now = _state(answer)
        if begin:
            self._say(f"Going on at {megabytes(begin)}: {megabytes(file.size - begin)} are still to fetch.")
        elif there and state and now and now != state:
            self._say("The file at the URL has changed since the last attempt: from the beginning.")
            draft.unlink()
        elif there:
            self._say("The server cannot go on in the middle: from the beginning.")
            into = draft.with_suffix(".new.part")
        if announced is None and not begin:
            into = draft.with_suffix(".new.part")
        if not begin:
            into.unlink(missing_ok=True)
            _write_state(into, now)
        try:
            self._write(answer, file, into, begin, where, filled, is_kept=announced is not None)
        except BaseException as error:
            _give_up(into, draft, begin, is_kept=announced is not None and not isinstance(error, InputError))
            raise
        if into != draft:
            into.replace(draft)

    def _write(
        self,
        answer: httpx2.Response,
        file: WeightsFile,
        path: Path,
        begin: int,
        where: str,
        filled: Filled,
        *,
        is_kept: bool,
    ) -> None:
        import httpx2

        again = "Run it again to go on." if is_kept else "Nothing new is kept. Run it again."

        with open_draft(path) as into:
            into.seek(begin)
            into.truncate()
            try:
                for data in answer.iter_raw():
                    if into.tell() + len(data) > file.size:
                        raise InputError(wrong_size(where, file, None))
                    into.write(data)
                    filled(into.tell())
            except httpx2.HTTPError as error:
                raise _broken(where, error, again) from None
            if into.tell() != file.size:
                raise ModelUnavailable(f"{where} ended too early. {again}")


def state_path(draft: Path) -> Path:
    """Where it is noted what the server said of the file of a draft."""
    return draft.with_suffix(".state")


def _give_up(into: Path, draft: Path, begin: int, *, is_kept: bool) -> None:
    """Leave behind what the next attempt can use, and nothing else."""
    if not is_kept:
        if begin:
            os.truncate(into, begin)
        else:
            into.unlink(missing_ok=True)
            state_path(into).unlink(missing_ok=True)
    elif into != draft:
        if not draft.exists() or into.stat().st_size > draft.stat().st_size:
            state_path(into).replace(state_path(draft))
            into.replace(draft)
        else:
            into.unlink()
            state_path(into).unlink(missing_ok=True)


def _announced(answer: httpx2.Response, there: int, where: str) -> tuple[int, int | None]:
    """Where an answer begins, and how large it says that the whole file is.

    Raises:
        InputError: it is packed, so that nobody can say.
        ModelUnavailable: it is no answer with a file.
    """
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise InputError(f"{where} is sent packed, although that was not asked for. Name another URL.")
    length = _number(answer.headers.get("content-length", ""))
    if answer.status_code == 200:
        return 0, length
    if answer.status_code == 206 and there:
        stretch, _, total = answer.headers.get("content-range", "").partition("/")
        if stretch.startswith(f"bytes {there}-"):
            whole = _number(total)
            return there, whole if whole is not None else None if length is None else there + length
    raise ModelUnavailable(
        f"{where} cannot be fetched: status {answer.status_code}. Check the URL.", status=answer.status_code
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _state(answer: httpx2.Response) -> str:
    """What tells this state of the file from any other, as If-Range takes it; empty where nothing does."""
    mark: str = answer.headers.get("etag", "")
    if not mark.startswith('"'):
        mark = answer.headers.get("last-modified", "")  # A weak mark says nothing about single bytes.
    return mark if len(mark) <= _MOST_STATE and mark.isascii() and mark.isprintable() else ""


def _state_of(draft: Path) -> str:
    try:
        text = state_path(draft).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
    return text if text.isprintable() and len(text) <= _MOST_STATE else ""


def _write_state(draft: Path, state: str) -> None:
    with open_draft(state_path(draft)) as file:
        file.truncate()
        file.write(state.encode("ascii"))


@contextmanager
def _client(where: str) -> Iterator[httpx2.Client]:
    import httpx2

    try:
        client = httpx2.Client(follow_redirects=True, timeout=httpx2.Timeout(_READ_S, connect=_CONNECT_S))
    except (ImportError, ValueError, httpx2.InvalidURL, OSError) as error:
        raise InputError(
            f"{where} cannot be fetched with the proxy or the certificates that the environment names "
            f"({type(error).__name__}). Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
        ) from None
    with client:
        yield client


@contextmanager
def _asked(client: httpx2.Client, url: str, begin: int, state: str, where: str) -> Iterator[httpx2.Response]:
    import httpx2

    headers = {"Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
        if state:
            headers["If-Range"] = state
    try:
        answer = client.send(client.build_request("GET", url, headers=headers), stream=True)
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise _broken(where, error, "Check the URL, and run it again.") from None
    try:
        yield answer
    finally:
        answer.close()


def _broken(where: str, error: Exception, again: str) -> ModelUnavailable:
    problem = clean(str(error) or type(error).__name__, _LONGEST)
    return ModelUnavailable(f"{where} cannot be fetched: {problem}. {again}")
