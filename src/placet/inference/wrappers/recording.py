"""Every answer of a model into a file, to be replayed later.

Keep true:
1. What a turn costs, in bytes and in work, depends on what is new in it, not on how long the conversation is.
2. An answer is in the file before it is handed on. One that could not be written is an error: a recording
   with a gap would be found out much later.
3. Cancelling is about the moment, not about the model: a request that was called off leaves no line.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from threading import Lock

import msgspec

from placet.errors import ModelCancelled, ModelError
from placet.inference.model import Model, Piece, Request, Result, stream
from placet.inference.wrappers.digests import Digests, Place
from placet.inference.wrappers.record_file import Answer, Failure, Line, RecordFile, Settings, Tools
from placet.inference.wrappers.wrapped import Wrapped


class _Asked(msgspec.Struct, frozen=True):
    """A request as it was when it was asked: whoever asks may go on with the same list of messages."""

    place: Place
    tools: str
    tools_data: bytes
    settings: str
    settings_data: bytes


class Recording(Wrapped):
    """Wrapper that writes every answer and every error to a file."""

    def __init__(self, model: Model, path: str | PathLike[str]) -> None:
        """Open the file. A new file is readable by its owner only; an existing recording is continued.

        Args:
            model: The inner model.
            path: The file.

        Raises:
            InputError: the file cannot be written, or is not a recording.
        """
        super().__init__(model)
        self.path: Path = Path(path)
        """The file."""
        self._file = RecordFile(self.path)
        self._digests = Digests()
        self.answers = 0
        """How many answers, and errors, were written so far."""
        self.last_was_answer = False
        """Whether the newest of them was no error."""
        self._written: set[str] = set()
        """Which lists of tools, and which settings."""
        self._lock = Lock()

    @property
    def encoded(self) -> int:
        """How many messages were encoded so far."""
        return self._digests.encoded

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes; kept as its result.

        Raises:
            RequestRefused: it cannot be recorded, because JSON cannot carry it; nothing was asked.
            InputError: the answer cannot be written.
        """
        asked = self._ask(request)
        is_written = False
        try:
            async with aclosing(stream(self.model, request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Result):
                        self._write(asked, result=piece)
                        is_written = True
                    yield piece
        except ModelError as error:
            if not is_written:
                self._fail(asked, error)
            raise

    async def close(self) -> None:
        """Close the file, and the model."""
        self._file.close()
        await super().close()

    def _ask(self, request: Request) -> _Asked:
        with self._lock:
            place = self._digests.place(request.messages)
            return _Asked(place, *self._digests.tools(request.tools), *self._digests.settings(request))

    def _fail(self, asked: _Asked, error: ModelError) -> None:
        if not isinstance(error, ModelCancelled):
            self._write(asked, error=Failure.of(error))

    def _write(self, asked: _Asked, *, result: Result | None = None, error: Failure | None = None) -> None:
        with self._lock:
            lines: list[Line] = []
            if asked.tools not in self._written:
                lines.append(Tools(asked.tools, msgspec.Raw(asked.tools_data)))
            if asked.settings not in self._written:
                lines.append(Settings(asked.settings, msgspec.Raw(asked.settings_data)))
            new = self._digests.unwritten(asked.place)
            before = new[0].parent if new else asked.place
            lines.append(
                Answer(
                    after=before.digest if before is not None else "",
                    messages=[msgspec.Raw(each.data or b"null") for each in new],
                    at=asked.place.digest,
                    tools=asked.tools,
                    settings=asked.settings,
                    result=result,
                    error=error,
                )
            )
            self._file.append(lines)
            self.answers += 1
            self.last_was_answer = result is not None
            self._written.update((asked.tools, asked.settings))
            for each in new:
                each.data = None
