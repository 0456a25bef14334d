"""Sources that a flow rule accepts: trusted tools, trusted fields, and sources that the person named.

A model that has read untrusted text may write anything. But a value that stands verbatim in the answer of the
address book was in the address book, whoever asked for it. Sources say which answers count for one rule.

Keep true:
1. A value counts only verbatim and as a whole: equal to a field, or between word boundaries in a longer text.
2. An answer does not count for a value that the model had written before it came: a tool that repeats its
   parameters proves nothing. Once a model that has read marked data has called a tool that may change
   something, no later answer counts: the value may have been stored in parts, or copied, and read back.
3. Only a person's own message names a source. The same name in the output of a tool does not.
4. A plan has no message and no values yet: there a source counts for a reference to it, by path alone.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from placet.errors import RuleError
from placet.ir.action import Action
from placet.ir.fields import ITEM, Steps, leaves_of, overlap, parse_field, values_at
from placet.ir.json_value import JsonValue, show_json
from placet.ir.tool_spec import Mark
from placet.policy.calls import Calls
from placet.policy.verbatim import says, spellings_in, spellings_of
from placet.validator import ToolFacts, Undecided

SHORTEST_QUOTE = 3
"""Characters that a value needs to be found inside a longer text: shorter ones stand in any text."""
SHORTEST_NAME = 2
"""Characters that the name of a source needs: a person writes 'a' without naming a file."""
_LONG = 6
"""From this length on, a value that occurs anywhere in what a model wrote was written by it."""

FieldMarks = Sequence[tuple[Steps, Mark]]
"""Marks on parts of an output."""


class ValueSource(Calls, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls whose answers a flow rule accepts as the origin of a value; every condition that is given must
    match.
    """

    fields: str | Sequence[str] | None = None
    """Only these fields of the answer, such as `from`, or `mails[].from` in each item of a list. `None`: all,
    except fields that are marked themselves if the person did not name the source."""
    named_param: str | None = None
    """Only calls where the person's message holds the value of this parameter, such as `path`."""
    named_field: str | None = None
    """Only records of the answer where the person's message holds the value of this field, such as
    `events[].title`. A record is one item of the innermost list of that path, or the whole answer."""
    only_match: str | None = None
    """Only answers that leave no choice: this regular expression finds exactly one text in them, or the same
    one several times, and that is the value. A bill to which somebody has added a second account does not
    count."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tool.strip("*") and self.risk is None and self.label is None:
            raise RuleError("a source needs 'tool', 'risk' or 'label'; otherwise any tool would be trusted")
        if self.named_param == "":
            raise RuleError("'named_param' is empty; name a parameter, or leave it out")
        if self.fields is not None and not self.fields:
            raise RuleError("'fields' is empty, so no answer would count; name a field, or leave it out")
        if self.only_match is not None and compiled_pattern(self.only_match) is None:
            raise RuleError("'only_match' is not a regular expression; write it in 'single quotes' in TOML")
        inside = self._record()
        for steps in self._fields():
            if steps[: len(inside)] != inside:
                record = "".join(f".{step}" if step != ITEM else step for step in inside).lstrip(".")
                raise RuleError(
                    f"'fields' and 'named_field' are of different records; begin each field with '{record}'"
                )

    def _fields(self) -> Sequence[Steps]:
        given = (self.fields,) if isinstance(self.fields, str) else self.fields or ()
        return [parse_field(path, "fields") for path in given]

    def _record(self) -> Steps:
        if self.named_field is None:
            return ()
        steps = parse_field(self.named_field, "named_field")
        return steps[: len(steps) - steps[::-1].index(ITEM)] if ITEM in steps else ()

    @property
    def is_named(self) -> bool:
        """Whether the person's message must name it."""
        return self.named_param is not None or self.named_field is not None

    # In a conversation

    def holds(self, answer: ToolAnswer, spellings: Sequence[str], mark: Mark, heard: Sequence[str]) -> bool:
        """Whether a part of the answer that counts holds a value, written in one of these ways.

        Args:
            answer: What a call has answered.
            spellings: The ways to write the value.
            mark: The mark that the rule is about.
            heard: The person's own messages.
        """
        if mark in answer.labelled or not self.fits(answer.action, answer.tool):
            return False
        if self.named_param is not None:
            named = answer.action.parameters.get(self.named_param)
            if not _is_said(named, heard):
                return False
        leaves = list(self._leaves(answer, mark, heard))
        if self.only_match is not None and not _is_only(self.only_match, leaves, spellings):
            return False
        return any(_is_leaf(leaf, spellings) for leaf in leaves)

    def _leaves(self, answer: ToolAnswer, mark: Mark, heard: Sequence[str]) -> Iterator[JsonValue]:
        inside, fields = self._record(), self._fields()
        records: Iterable[JsonValue] = (answer.output,)
        if self.named_field is not None:
            name = parse_field(self.named_field, "named_field")[len(inside) :]
            records = [
                record
                for record in values_at(answer.output, inside)
                if any(_is_said(value, heard) for value in values_at(record, name))
            ]
        # A person who names a source means all of it, whatever is marked there.
        marked = () if self.is_named else [steps for steps, each in answer.field_marks if each == mark]
        for record in records:
            if not fields:
                yield from leaves_of(record, marked)
            for steps in fields:
                for part in values_at(record, steps[len(inside) :]):
                    yield from leaves_of(part)

    # In a plan

    def covers(self, origin: Origin, used: Steps, mark: Mark) -> bool:
        """Whether a reference to this part of an output counts, whatever the output will be.

        Raises:
            Undecided: parameters of that call are not known yet, and its path decides.
        """
        if self.is_named or self.only_match is not None or not self.about(origin.action, origin.tool):
            return False
        if not self._covers_path(origin, used, mark) or origin.came.get(mark):
            return False
        if mark in origin.came:
            raise Undecided(f"depends on whether {mark} data gets into its source")
        if self.path is not None and origin.is_open:
            raise Undecided("depends on the path that its source reads")
        return self.fits_path(origin.action)

    def _covers_path(self, origin: Origin, used: Steps, mark: Mark) -> bool:
        fields = self._fields()
        if fields:
            return any(used[: len(steps)] == steps for steps in fields)
        return not any(each == mark and overlap(steps, used) for steps, each in origin.field_marks)


class ToolAnswer(NamedTuple):
    """What one call of a conversation has answered."""

    action: Action
    """As it ran."""
    tool: ToolFacts | None
    output: JsonValue
    field_marks: FieldMarks = ()
    labelled: Container[Mark] = ()
    """The marks that the tool has put on this answer itself, such as an agent by what it had read."""


class Origin(NamedTuple):
    """Where the output of an action of a plan comes from."""

    action: Action
    """As it ran, or, in a rehearsal, as far as it is known."""
    tool: ToolFacts | None
    field_marks: FieldMarks = ()
    came: Mapping[Mark, bool] = {}
    """The marks of what went into the call, since that may come out again; each with whether it is sure."""
    is_open: bool = False
    """Whether some of its parameters are still to be filled in."""


class ToolAnswers:
    """What the calls of one conversation have answered, and what the model had written by then."""

    __slots__ = ("_answers", "_trusted", "_written")

    def __init__(self) -> None:
        self._answers: list[tuple[ToolAnswer, int]] = []
        """Each with how much of `_written` came before it."""
        self._written: list[str] = []
        self._trusted: dict[Mark, int] = {}
        """By mark, how many answers came before a call that may have changed what the later ones say."""

    def wrote(self, calls: Iterable[Mapping[str, JsonValue]]) -> None:
        """The model has written the parameters of these calls, in one turn."""
        for parameters in calls:
            for value in parameters.values():
                self._written += {text.casefold() for all_of in spellings_in(value) for text in all_of}

    def changed(self, marks: Iterable[Mark]) -> None:
        """A call that may change something was made, by a model that had read data with these marks. The
        answer of that call comes afterwards."""
        for mark in marks:
            self._trusted.setdefault(mark, len(self._answers))

    def came(self, answer: ToolAnswer) -> None:
        """A call has answered."""
        self._answers.append((answer, len(self._written)))

    def vouch(
        self, spellings: Sequence[str], sources: Sequence[ValueSource], mark: Mark, heard: Sequence[str]
    ) -> bool:
        """Whether an answer that one of the sources accepts holds a value that the model had neither written
        nor been able to store before."""
        if not spellings:
            return False
        first = self._first_written(spellings)
        return any(
            source.holds(answer, spellings, mark, heard)
            for answer, before in self._answers[: self._trusted.get(mark)]
            if before <= first
            for source in sources
        )

    def _first_written(self, spellings: Sequence[str]) -> int:
        folded = [text.casefold() for text in spellings]
        for position, written in enumerate(self._written):
            if any(text in written and (len(text) >= _LONG or says(written, text)) for text in folded):
                return position
        return len(self._written)


def _is_said(value: JsonValue, heard: Sequence[str]) -> bool:
    """Whether a text or number stands in a person's message as a whole."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    spellings = (value,) if isinstance(value, str) else spellings_of(value)
    return any(
        len(text.strip()) >= SHORTEST_NAME and says(message, text) for text in spellings for message in heard
    )


def _is_only(pattern: str, leaves: Iterable[JsonValue], spellings: Sequence[str]) -> bool:
    """Whether the value is the one thing that a pattern finds."""
    compiled = compiled_pattern(pattern)
    assert compiled is not None
    texts = (leaf if isinstance(leaf, str) else show_json(leaf) for leaf in leaves)
    found = {match.group() for text in texts for match in compiled.finditer(text)}
    return len(found) == 1 and found <= set(spellings)


@lru_cache(maxsize=256)
def compiled_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern, or `None` if it is none."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _is_leaf(leaf: JsonValue, spellings: Sequence[str]) -> bool:
    """Whether a leaf of an answer is the value, or a longer text that holds it as a whole."""
    if isinstance(leaf, bool):
        return False
    if isinstance(leaf, int | float):
        return not set(spellings_of(leaf)).isdisjoint(spellings)
    if not isinstance(leaf, str):
        return False
    return leaf in spellings or any(
        len(text.strip()) >= SHORTEST_QUOTE and says(leaf, text) for text in spellings
    )
