"""Messages of conversations that are going on, to be searched when they were left out to make room.

They are held in memory as long as the process lives; a run that is resumed brings them again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from placet.inference.messages import Assistant, Message, System, Text, ToolResult, User
from placet.ir.json_value import show_json
from placet.ir.provenance import Labels, joined
from placet.memory.analysis import Indexed, query_terms, terms_of
from placet.memory.scoring import importance, text_score
from placet.truncation import truncate

SEARCH = "conversation.search"
"""Name of the tool that searches a conversation."""
_MOST_RUNS = 64
_MOST_MESSAGES = 5_000
_SHOWN = 1_000
"""Characters of a message in an answer."""


class FoundMessage(NamedTuple):
    """A message that was found."""

    position: int
    role: str
    text: str


class Conversations:
    """Messages by run, the newest runs only."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, list[tuple[str, str]]] = OrderedDict()
        self._labels: dict[str, Labels] = {}

    def add(self, run_id: str, message: Message, labels: Labels) -> None:
        """A message was added to the conversation of a run, which has these labels by now."""
        if run_id not in self._runs and len(self._runs) >= _MOST_RUNS:
            gone, _ = self._runs.popitem(last=False)
            self._labels.pop(gone, None)
        role, text = _plain(message)
        messages = self._runs.setdefault(run_id, [])
        if text.strip() and len(messages) < _MOST_MESSAGES:
            messages.append((role, text))
        self._labels[run_id] = joined(self._labels.get(run_id, {}), labels)

    def labels(self, run_id: str) -> Labels:
        """The labels of what is in a conversation, each with its path."""
        return self._labels.get(run_id, {})

    def search(self, run_id: str, query: str, limit: int) -> list[FoundMessage]:
        """Messages that hold words of the query, the best first."""
        messages = self._runs.get(run_id, [])
        terms = query_terms(query)
        texts = [tuple(terms_of(text)) for _, text in messages]
        counts = {term: sum(term in text for text in texts) for term in terms}
        weights = {term: importance(term, counts, len(texts)) for term in terms}
        scored = []
        for place, own in enumerate(texts):
            around = tuple(
                term for near in texts[max(0, place - 1) : place + 2] if near is not own for term in near
            )
            score, matched = text_score(Indexed(own, (), around), weights)
            if matched:
                scored.append((-score, -place))
        found = [-place for _, place in sorted(scored)[:limit]]
        return [
            FoundMessage(place, messages[place][0], truncate(messages[place][1], _SHOWN, "…"))
            for place in found
        ]


def _plain(message: Message) -> tuple[str, str]:
    match message:
        case System():
            return "system", ""
        case User():
            return "user", "\n".join(part.text for part in message.parts if isinstance(part, Text))
        case Assistant():
            # A search is no part of what was said: it would find itself first.
            calls = (
                f"{call.name}({show_json(dict(call.arguments))})"
                for call in message.calls
                if call.name != SEARCH
            )
            return "assistant", "\n".join((message.text, *calls))
        case ToolResult():
            return "tool", "" if message.name == SEARCH else message.text
