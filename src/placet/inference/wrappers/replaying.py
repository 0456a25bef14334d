"""Answers out of a recording, and no model.

A request is found by what it says, not by its number, so runs whose requests interleave differently find
their answers all the same. A request that was asked several times is answered as it was then, in order.

Keep true:
1. Nothing is asked of anybody: no network, no clock.
2. A request that is not in the recording is an error, never a similar answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from os import PathLike
from pathlib import Path

import msgspec

from placet.errors import ReplayDiverged
from placet.inference.model import Piece, Request, Result, StreamingModel
from placet.inference.passage import Passage
from placet.inference.scripted import in_pieces
from placet.inference.wrappers.digests import Digests, digest_of, settings_today, tools_today
from placet.inference.wrappers.divergence import Recorded, divergence
from placet.inference.wrappers.record_file import Answer, Failure, Settings, Told, Tools, read_lines
from placet.safe_text import clean


class _Settings(msgspec.Struct):
    passage: Passage | None = None


class Replaying(StreamingModel):
    """A model that gives the answers of a recording."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Read the recording.

        Args:
            path: The file.

        Raises:
            InputError: there is no such file, it is not a recording, or it is too large.
        """
        self.path: Path = Path(path)
        """The file."""
        self.name: str = f"replay:{path}"
        """`replay:` and the path."""
        self.notes: list[str] = []
        """Parts of the file that could not be read."""
        self.reads_passages = False
        """Whether the model that was recorded was asked to."""
        self._recorded = Recorded()
        self._left: dict[tuple[str, str, str], deque[Result | Failure]] = {}
        self._digests = Digests(keeps_data=False)
        self._asked = 0
        self._read()

    @property
    def unused(self) -> int:
        """Number of answers that were not asked for yet."""
        return sum(map(len, self._left.values()))

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it was recorded, in pieces.

        Raises:
            ReplayDiverged: there is none; says what is asked otherwise than it was.
            ModelError: that is what was recorded.
        """
        self._asked += 1
        place = self._digests.place(request.messages)
        tools, tools_data = self._digests.tools(request.tools)
        settings, settings_data = self._digests.settings(request)
        answers = self._left.get((place.digest, tools, settings))
        if not answers:
            problem = divergence(self._recorded, request, tools_data, settings_data)
            raise ReplayDiverged(
                f"Request {self._asked} is not in the recording {clean(self.path)}: {problem}. "
                "Record it anew, or ask as it was asked then."
            )
        answer = answers.popleft()
        if isinstance(answer, Failure):
            raise answer.error()
        for piece in in_pieces(answer):
            yield piece

    def _read(self) -> None:
        tools: dict[str, bytes] = {}
        settings: dict[str, bytes] = {}
        for number, line in read_lines(self.path):
            match line:
                case Tools():
                    tools[line.id] = tools_today(bytes(line.tools))
                case Settings():
                    settings[line.id] = settings_today(bytes(line.settings))
                    self.reads_passages |= _has_passage(settings[line.id])
                case Answer():
                    problem = self._keep(line, tools, settings)
                    if problem:
                        self.notes.append(f"Line {number} is passed over: {problem}.")
                case Told():
                    pass  # A run is more than its answers, and here only those are wanted.
                case None:
                    self.notes.append(f"Line {number} is passed over: it was not written to its end.")
                case _:
                    self.notes.append(f"Line {number} is passed over: it is a second header.")

    def _keep(self, line: Answer, tools: Mapping[str, bytes], settings: Mapping[str, bytes]) -> str:
        """Remember an answer; returns why that cannot be done."""
        answer = line.result if line.result is not None else line.error
        if answer is None:
            return "it holds neither a result nor an error"
        if line.tools not in tools or line.settings not in settings:
            return "what it was asked with stands on a line that is lost"
        if line.after not in self._recorded.written:
            return "the conversation that it continues stands on a line that is lost"
        if isinstance(answer, Result) and not answer.calls:
            # As it was: no calls are an empty tuple wherever a result is made.
            answer = msgspec.structs.replace(answer, calls=())
        end = self._recorded.add(line, tools[line.tools], settings[line.settings])
        key = (end, digest_of("", tools[line.tools]), digest_of("", settings[line.settings]))
        self._left.setdefault(key, deque()).append(answer)
        return ""


def _has_passage(settings: bytes) -> bool:
    try:
        return msgspec.json.decode(settings, type=_Settings).passage is not None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
