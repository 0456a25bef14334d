"""What a model thought, apart from what it said, where both come in the text.

Models write `<think>...</think>` before their answer, some `<thinking>`. Only blocks at the beginning are
taken: further on, the tags belong to what the answer is about. A block that is never closed goes on to the
end. Some chat templates write the opening tag themselves, so that the text begins inside of the block. Of a
server that may do so (`swallows_opening`), and of no other, a closing tag alone on its line, with no opening
one before it, ends that block: to anybody else such a line is part of the answer.

Keep true:
1. The result does not depend on how a stream was cut.
2. Nothing is lost: every character but the tags, and the blanks around them, is in the text or the reasoning.
3. What is held back of a stream is no longer than a tag, and the blanks before the first word.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import msgspec

from placet.inference.model import Model, Piece, Request, Result, Thought, Words, stream
from placet.inference.wrappers.wrapped import Wrapped

_CLOSING = {"<think>": "</think>", "<thinking>": "</thinking>"}
_OPENING = tuple(_CLOSING)
_ALONE = re.compile(r"^[ \t]*</think(?:ing)?>[ \t]*\r?$", re.MULTILINE)


class ReasoningApart(Wrapped):
    """A model whose reasoning is in `Result.reasoning`, wherever it wrote it.

    With `swallows_opening` an answer may begin inside of a block, which is seen only at its end. The first
    such stream has handed its thoughts out as words by then, and its result alone has them apart. A stream
    that follows is taken to begin as the last answer did; where it does not think after all, its words come
    at the end.
    """

    def __init__(self, model: Model, *, swallows_opening: bool = False) -> None:
        super().__init__(model)
        self._swallows_opening = swallows_opening
        self._begins_inside = False
        """Whether the last answer did."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer as it comes, reasoning as `Thought`."""
        begins_inside = self._begins_inside
        splitter = _Splitter(_CLOSING["<think>"] if begins_inside else "")
        async with aclosing(stream(self.model, request)) as pieces:
            async for piece in pieces:
                match piece:
                    case Words(text):
                        for part in splitter.feed(text):
                            yield part
                    case Result():
                        for part in splitter.finish():
                            yield part
                        result = self._apart(piece)
                        if begins_inside and splitter.is_inside and result.text:
                            # It did not think this time: what went out as thoughts is the answer.
                            yield Words(result.text)
                        yield result
                    case _:
                        yield piece

    def _apart(self, result: Result) -> Result:
        if result.text:
            # Of every answer anew: one alone must not decide how all that follow are read.
            self._begins_inside = self._swallows_opening and _begins_inside(result.text) is not None
        if "<think" not in result.text and "</think" not in result.text:
            return result
        text, reasoning = split(result.text, swallows_opening=self._swallows_opening)
        if text == result.text:
            return result
        both = [each for each in (result.reasoning, reasoning) if each]
        return msgspec.structs.replace(result, text=text, reasoning="\n\n".join(both))


def split(text: str, *, swallows_opening: bool = False) -> tuple[str, str]:
    """What a text says, and the reasoning in front of it.

    >>> split("<think>\\nTwo and two.\\n</think>\\n\\nFour.")
    ('Four.', 'Two and two.')
    """
    closing = _begins_inside(text) if swallows_opening else None
    if closing is not None:
        return text[closing.end() :].lstrip(), text[: closing.start()].strip()
    splitter = _Splitter()
    parts = [*splitter.feed(text), *splitter.finish()]
    said = "".join(part.text for part in parts if isinstance(part, Words))
    return said, "".join(part.text for part in parts if isinstance(part, Thought)).strip()


def _begins_inside(text: str) -> re.Match[str] | None:
    """The tag that closes what was never opened."""
    closing = _ALONE.search(text)
    opening = text.find("<think")
    return closing if closing is not None and not 0 <= opening < closing.start() else None


class _Splitter:
    """Takes blocks off the beginning of a text that comes in pieces."""

    def __init__(self, closing: str = "") -> None:
        """`closing` is the tag that ends the block in which the text begins, if it does."""
        self._closing = closing
        self._held = ""
        """Of what came, that which may be the beginning of a tag."""
        self._blanks: list[str] = []
        """Before the first word, as long as a block may follow."""
        self._is_after_block = False
        self._is_in_text = False

    @property
    def is_inside(self) -> bool:
        """Whether a block is open."""
        return bool(self._closing)

    def feed(self, text: str) -> Iterator[Words | Thought]:
        """What is certain now."""
        text = self._held + text
        self._held = ""
        while text:
            if self._is_in_text:
                yield Words(text)
                return
            if self._closing:
                thought, found, rest = text.partition(self._closing)
                if not found:
                    kept = _beginning(text, self._closing)
                    self._held = text[len(text) - kept :]
                    thought = text[: len(text) - kept]
                if thought:
                    yield Thought(thought)
                if not found:
                    return
                self._closing = ""
                self._is_after_block = True
                text = rest
                continue
            word = text.lstrip()
            if not self._is_after_block:
                self._blanks.append(text[: len(text) - len(word)])
            opening = next((tag for tag in _OPENING if word.startswith(tag)), None)
            if opening is not None:
                if self._is_after_block:
                    yield Thought("\n\n")
                self._closing = _CLOSING[opening]
                self._blanks.clear()
                text = word[len(opening) :]
            elif not word or any(tag.startswith(word) for tag in _OPENING):
                self._held = word
                return
            else:
                self._is_in_text = True
                text = "".join(self._blanks) + word
                self._blanks.clear()

    def finish(self) -> Iterator[Words | Thought]:
        """What was held back: it was no tag."""
        held, self._held = self._held, ""
        if self._closing:
            if held:
                yield Thought(held)
            return
        text = "".join(self._blanks) + held
        self._blanks.clear()
        if text:
            yield Words(text)


def _beginning(text: str, tag: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    longest = min(len(tag) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(tag[:n])), 0)
