"""The conversation of a loop: it only grows, and is made shorter before it no longer fits.

Keep true:
1. Adding a message costs what that message costs; nobody copies or walks the whole.
2. Between two shortenings the beginning stays as it is: providers keep it, and charge less for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placet.inference.messages import Message, User
from placet.inference.usage import Usage
from placet.turns.compaction import Compacted, compacted, size_of

_FULL = 0.85
"""How much of what a model can read may be filled: the sizes are estimates."""
_ANSWER_TOKENS = 1024
"""Room for an answer whose length is not limited."""
_WILD = 4.0
"""No provider counts more, or less, than so many times our estimate."""
_WORTH = 0.1
"""How much of the room a conversation must have gained since the last time, to be made shorter once more:
where less can be freed, each turn would throw away what the provider keeps."""


class Conversation:
    """Messages, and how long they are."""

    def __init__(self, context_tokens: int | None, answer_tokens: int | None) -> None:
        self.messages: list[Message] = []
        self._sizes: list[int] = []
        self._total = 0
        self._scale = 1.0
        """How many tokens the provider counts for one of ours."""
        self._heard: User | None = None
        """The newest message of a person."""
        self.on_message: Callable[[Message], None] | None = None
        """Gets each message that is added; it stays known there when it is left out here."""
        self._left = 0
        """What the last shortening has left; 0 if there was none."""
        self._room: float | None = None
        self._limit = 0.0
        """What does not fit into this does not fit, however good the estimates."""
        if context_tokens is not None:
            answer = answer_tokens or _ANSWER_TOKENS
            self._room = max(context_tokens * _FULL - answer, context_tokens / 4)
            self._limit = max(context_tokens - answer, self._room)

    def add(self, message: Message) -> None:
        """One more."""
        size = size_of(message)
        self.messages.append(message)
        self._sizes.append(size)
        self._total += size
        if self.on_message is not None:
            self.on_message(message)

    def hear(self, message: User) -> None:
        """One more, of a person: until the next one it stays, whatever has to go."""
        self._heard = message
        self.add(message)

    def take_back(self, message: User) -> None:
        """As if it had not been said, unless something has come of it."""
        if self.messages and self.messages[-1] is message:
            self.messages = self.messages[:-1]
            self._total -= self._sizes.pop()

    def counted(self, usage: Usage | None) -> None:
        """What the provider says of how long it was when it answered, before that answer was added."""
        if usage is not None and usage.input and self._total:
            self._scale = min(max(usage.input / self._total, 1 / _WILD), _WILD)

    def make_room(self) -> Compacted | None:
        """Make it shorter if it will not fit; what was left out, or None if nothing was."""
        if self._room is None or self._total * self._scale <= self._room:
            return None
        return self._shorten(int(self._room / self._scale)) if self._is_worth_it(self._room) else None

    def make_much_room(self) -> Compacted | None:
        """Make it shorter because it did not fit, whatever we thought."""
        return self._shorten(self._total // 2)

    def _is_worth_it(self, room: float) -> bool:
        """Whether there may be enough to free by now."""
        before, now = self._left * self._scale, self._total * self._scale
        return not before or now - before >= room * _WORTH or before <= self._limit < now

    def _shorten(self, room: int) -> Compacted | None:
        made = compacted(self.messages, self._sizes, room, stays=self._heard)
        if made is not None:
            self.messages, self._sizes = list(made.messages), list(made.sizes)
            self._total = sum(self._sizes)
        self._left = self._total
        return made

    @property
    def newest(self) -> Sequence[Message]:
        """The last message, if there is one."""
        return self.messages[-1:]
