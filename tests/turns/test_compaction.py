"""Room is made in a conversation without tearing it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.inference.messages import (
    Assistant,
    Carried,
    Image,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)
from placet.ir.json_value import show_json
from placet.runtime.observation import observe_text
from placet.runtime.spill import Spill
from placet.turns.compaction import IMAGE, KEPT_TURNS, Compacted, compacted, size_of
from placet.turns.conversation import Conversation
from tests.properties.effort import UNHURRIED, Tally, examples

RULES = System("Be brief.")
TASK = User("Do the job.")


def turn(number: int, *results: str, tool: str = "read", said: str = "") -> list[Message]:
    calls = [ToolCall(id=f"c{number}.{i}", name=tool, arguments={"n": i}) for i in range(len(results))]
    answers = [ToolResult(call_id=c.id, name=tool, text=text) for c, text in zip(calls, results, strict=True)]
    return [Assistant(text=said, calls=calls), *answers]


def conversation(*turns: list[Message]) -> list[Message]:
    return [RULES, TASK, *(message for each in turns for message in each)]


def compact(messages: list[Message], room: int) -> Compacted | None:
    return compacted(messages, [size_of(message) for message in messages], room)


def made(messages: list[Message], room: int) -> Compacted:
    found = compact(messages, room)
    assert found is not None
    return found


def texts(found: Compacted) -> list[str]:
    return [message.text for message in found.messages if isinstance(message, ToolResult)]


# Sizes


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (System("x" * 400), 104),
        (System(""), 4),
        (User("x" * 401), 105),
        (User([Text("x" * 40), Image(data=b"x" * 10_000)]), 14 + IMAGE),
        (Assistant(text="x" * 40), 14),
        (ToolResult(call_id="1", name="read", text="x" * 36), 14),
        (User("字" * 400), 304),
    ],
)
def test_a_token_is_about_four_bytes(message: Message, tokens: int) -> None:
    assert size_of(message) == tokens


def test_calls_and_what_a_provider_wants_back_take_room() -> None:
    call = ToolCall(name="write", arguments={"content": "x" * 4000})
    broken = ToolCall(name="write", problem="no JSON", raw="x" * 4000)
    signed = Assistant(calls=[], carried=Carried(format="f", data={"signature": "x" * 4000}))
    odd = ToolCall(name="write", arguments={"content": "\ud800" * 4000})

    for message in (Assistant(calls=[call]), Assistant(calls=[broken]), signed, Assistant(calls=[odd])):
        assert size_of(message) > 1000


# When


def test_where_there_is_room_nothing_is_done() -> None:
    messages = conversation(*(turn(n, "x" * 4000) for n in range(5)))

    assert compact(messages, 10_000) is None


def test_where_nothing_can_be_freed_nothing_is_done() -> None:
    assert compact([RULES, User("x" * 4000)], 100) is None
    assert compact(conversation(turn(1, "ok"), turn(2, "ok")), 10) is None
    assert compact([], 0) is None


# First, old results


def test_old_results_become_a_line_that_says_what_they_were() -> None:
    messages = conversation(*(turn(n, "x" * 4000) for n in range(6)))

    found = made(messages, 5_000)

    line = "[The result of read, 4,000 characters, was left out to make room.]"
    assert texts(found) == [line] * 4 + ["x" * 4000] * 2
    assert (found.left_out, found.dropped) == (4, 0)
    assert sum(found.sizes) <= 2_500
    assert [type(m) for m in found.messages] == [type(m) for m in messages]


def test_it_stops_as_soon_as_half_the_room_is_free() -> None:
    messages = conversation(*messages_of(10))

    found = made(messages, 10_000)

    assert [len(text) == 4000 for text in texts(found)] == [False] * 6 + [True] * 4
    assert 4_000 < sum(found.sizes) <= 5_000


def messages_of(count: int) -> list[list[Message]]:
    return [turn(n, "x" * 4000) for n in range(count)]


def test_what_a_line_does_not_shorten_stays() -> None:
    messages = conversation(turn(1, "ok", "x" * 4000), *messages_of(4))

    assert texts(made(messages, 4_000))[0] == "ok"


def test_whose_result_it_was_and_that_it_failed_is_kept() -> None:
    failed = ToolResult(call_id="c1", name="run", text="x" * 4000, is_error=True)
    messages = conversation([Assistant(calls=[ToolCall(id="c1", name="run")]), failed], *messages_of(2))

    stub = made(messages, 3_000).messages[3]

    assert isinstance(stub, ToolResult)
    assert (stub.call_id, stub.name, stub.is_error) == ("c1", "run", True)


def test_where_a_long_result_is_kept_is_still_told(tmp_path: Path) -> None:
    shown = observe_text("x" * 100_000, "a1", run_id="r", spill=Spill(tmp_path))
    place = shown.partition("all of it is in ")[2].partition(" …]")[0]
    assert place

    old = made(conversation(turn(1, shown), *messages_of(2)), 5_000)
    new = made(conversation(turn(1, shown)), 1_000)
    later = made([*old.messages, *(m for each in messages_of(3) for m in each)], 5_000)

    assert texts(old)[0].endswith(f"left out to make room; all of it is in {place}.]")
    assert f"all of it is in {place} …]" in texts(new)[0]
    assert texts(later)[0] == texts(old)[0]


@pytest.mark.parametrize("room", [0, 40, 150])
def test_a_long_place_is_neither_cut_nor_shortened_a_second_time(tmp_path: Path, room: int) -> None:
    spill = Spill(tmp_path, "p" * 120, "q" * 120)
    shown = observe_text("x" * 1_000_000, "a1", run_id="r", spill=spill)

    found = made(conversation(turn(1, shown)), room)

    assert "q" * 120 in texts(found)[0]
    assert texts(found)[0].startswith("xxx")
    assert compacted(found.messages, found.sizes, room) is None


def test_the_last_two_turns_stay_and_so_does_one_whose_results_are_not_all_there() -> None:
    under_way = turn(9, "x" * 4000, "x" * 4000)[:-1]
    messages = conversation(*messages_of(4), under_way)

    found = made(messages, 5_000)

    assert [len(text) == 4000 for text in texts(found)] == [False, False, True, True, True]


# Then, old turns


def chatter(count: int, tool: str = "read") -> list[list[Message]]:
    return [turn(n, "ok", tool=tool, said="y" * 2000) for n in range(count)]


def test_old_turns_go_whole_and_one_message_tells_what_they_were() -> None:
    messages = conversation(*chatter(3), *chatter(5, "write"), *chatter(2))

    found = made(messages, 4_000)

    assert found.dropped == 7
    assert found.messages[:2] == [RULES, TASK]
    note = found.messages[2]
    assert isinstance(note, User)
    assert note.content == (
        '[To make room, 7 earlier turns were left out here. Tools called in them: {"write":4,"read":3}.]'
    )
    assert found.messages[3:] == messages[2 + 7 * 2 :]


def test_a_second_time_the_message_is_replaced_by_one_that_counts_all() -> None:
    first = made(conversation(*chatter(8)), 3_500)
    longer = [*first.messages, *(message for each in chatter(8, "write") for message in each)]

    second = made(longer, 3_500)

    notes = [m.content for m in second.messages if isinstance(m, User)]
    turns = first.dropped + second.dropped
    told = show_json({"read": 8, "write": turns - 8})
    assert first.dropped > 0
    assert notes == [
        TASK.content,
        f"[To make room, {turns} earlier turns were left out here. Tools called in them: {told}.]",
    ]


def test_what_the_person_said_in_between_stays_in_its_place() -> None:
    stop, go = User("Stop."), User("Go on.")
    messages = conversation(*chatter(2), [stop], *chatter(2), [go], *chatter(2))

    found = made(messages, 2_500)

    kept = [m for m in found.messages if isinstance(m, User)]
    assert found.dropped == 4
    assert [kept[0], *kept[2:]] == [TASK, stop, go]


def test_one_turn_is_told_as_one() -> None:
    found = made(conversation(*chatter(3)), 1_200)

    assert found.messages[2] == User(
        '[To make room, 1 earlier turn was left out here. Tools called in it: {"read":1}.]'
    )


def test_a_note_that_takes_more_than_it_frees_is_not_made() -> None:
    messages = conversation(turn(1, "ok"), turn(2, "x" * 4000), turn(3, "x" * 4000))

    found = made(messages, 1_000)

    assert found.dropped == 0
    assert found.messages[2:4] == messages[2:4]


def test_many_names_and_names_that_steer_make_no_long_note() -> None:
    odd = [turn(n, "ok", tool=f'\x1b[31m"{n}' + "x" * 1000, said="y" * 2000) for n in range(60)]

    first = made(conversation(*odd), 2_500)
    note = first.messages[2]
    assert isinstance(note, User)
    assert isinstance(note.content, str)
    second = made([*first.messages, *(m for each in odd for m in each)], 2_500)

    assert "\x1b" not in note.content
    assert '"(others)":' in note.content
    assert size_of(note) < 800
    assert f"{first.dropped + second.dropped} earlier turns" in str(second.messages[2])
    assert sum(isinstance(m, User) for m in second.messages) == 2


# At last, the newest results


def test_the_middle_of_the_newest_results_goes_last() -> None:
    messages = conversation(*messages_of(3), turn(8, "a" + "x" * 50_000 + "z"), turn(9, "ok"))

    found = made(messages, 5_000)

    cut = texts(found)[-2]
    assert sum(found.sizes) <= 2_500
    assert cut.startswith("axxx")
    assert cut.endswith("xxxz")
    assert "50,002 bytes in all, the middle is left out; there was no room for it" in cut
    assert texts(found)[-1] == "ok"


def test_a_result_that_is_cut_much_is_cut_once() -> None:
    found = made(conversation(turn(1, "x" * 50_000), turn(2, "x" * 50_000)), 700)

    for text in texts(found):
        assert text.count("bytes in all") == 1
        assert "50,000 bytes in all" in text


def test_what_fits_without_it_is_not_cut() -> None:
    messages = conversation(*messages_of(3), turn(8, "x" * 12_000), turn(9, "x" * 4_000))

    found = made(messages, 5_000)

    assert texts(found)[-2:] == ["x" * 12_000, "x" * 4_000]
    assert 2_500 < sum(found.sizes) <= 5_000


# What calls were given


def written(number: int, *texts: Any, answered: int | None = None) -> list[Message]:
    """A turn that writes files, of which so many are written."""
    calls = [
        ToolCall(id=f"c{number}.{i}", name="write", arguments={"path": f"{i}.txt", "text": text})
        for i, text in enumerate(texts)
    ]
    answers = [ToolResult(call_id=c.id, name="write", text="ok") for c in calls[:answered]]
    return [Assistant(calls=calls), *answers]


def given_to(message: Message) -> list[Any]:
    assert isinstance(message, Assistant)
    return [call.arguments["text"] for call in message.calls]


LINE = "[4,000 characters were left out to make room]"


def test_what_old_calls_were_given_becomes_a_line_before_they_are_dropped() -> None:
    messages = conversation(*(written(n, "x" * 4_000, "short") for n in range(6)))

    found = made(messages, 5_000)

    said = [m for m in found.messages if isinstance(m, Assistant)]
    assert [given_to(m) for m in said] == [[LINE, "short"]] * 4 + [["x" * 4_000, "short"]] * 2
    assert [m.calls[0].arguments["path"] for m in said] == ["0.txt"] * 6
    assert (found.cut_calls, found.dropped, found.left_out) == (4, 0, 0)


def test_those_of_the_newest_turns_go_if_it_does_not_fit_otherwise() -> None:
    messages = conversation(written(1, "x" * 4_000), written(2, "x" * 4_000))

    found = made(messages, 1_500)

    assert [given_to(m) for m in found.messages if isinstance(m, Assistant)] == [[LINE], ["x" * 4_000]]
    assert found.cut_calls == 1
    assert sum(found.sizes) <= 1_500


def test_a_call_that_has_no_result_yet_keeps_what_it_was_given() -> None:
    messages = conversation(written(1, "x" * 4_000, "x" * 4_000, answered=1))

    found = made(messages, 100)

    assert given_to(found.messages[2]) == [LINE, "x" * 4_000]
    assert compact(conversation(written(1, "x" * 4_000, answered=0)), 100) is None


def test_objects_and_what_could_not_be_read_are_left_out_too() -> None:
    edits = [{"old": "x" * 150, "new": "y" * 150} for _ in range(9)]
    broken = ToolCall(id="b", name="edit", problem="no JSON", raw="{" + "x" * 4_000)
    answer = ToolResult(call_id="b", name="edit", text="no JSON")
    messages = conversation(written(1, edits), [Assistant(calls=[broken]), answer])

    found = made(messages, 300)

    (line,) = given_to(found.messages[2])
    assert str(line).endswith("characters were left out to make room]")
    cut = found.messages[4]
    assert isinstance(cut, Assistant)
    assert cut.calls[0].raw == '{"note":"[4,001 characters were left out to make room]"}'
    assert cut.calls[0].problem == "no JSON"


# At the very last, what people said


def test_the_oldest_messages_go_but_never_the_first_and_the_newest() -> None:
    said = [User(f"{n} " + "word " * 200) for n in range(10)]
    messages: list[Message] = [RULES]
    for each in said:
        messages += [each, Assistant(text="Noted.")]

    found = made(messages, 1_500)

    kept = [m for m in found.messages if m in said]
    assert kept[0] is said[0]
    assert kept[1:] == said[-len(kept) + 1 :]
    assert 2 <= len(kept) < 5
    assert found.unsaid == 10 - len(kept)
    assert sum(found.sizes) <= 1_500
    note = found.messages[2]
    assert isinstance(note, User)
    assert f"{found.dropped} earlier turns and {found.unsaid} messages were left out here. " in note.content


def test_messages_alone_are_told_and_counted_further() -> None:
    def words(n: int) -> list[Message]:
        return [User(f"{n}.{i} " + "word " * 200) for i in range(6)]

    first = made([RULES, *words(1)], 900)
    assert isinstance(first.messages[2], User)
    assert first.messages[2].content == f"[To make room, {first.unsaid} earlier messages were left out here.]"
    second = made([*first.messages, *words(2)], 900)

    both = first.unsaid + second.unsaid
    assert isinstance(second.messages[2], User)
    assert second.messages[2].content == f"[To make room, {both} earlier messages were left out here.]"
    assert sum(map(is_note, second.messages)) == 1


def test_what_is_being_worked_on_stays() -> None:
    task = User("task " * 300)
    messages = [User("first"), User("word " * 300), task, *turn(1, "ok"), User("You repeat yourself.")]
    sizes = [size_of(message) for message in messages]

    found = compacted(messages, sizes, 450, stays=task)

    assert found is not None
    assert found.unsaid == 1
    assert task in found.messages


def test_in_a_conversation_that_is_what_the_person_said_last() -> None:
    made_of = Conversation(900, 500)
    task = User("task " * 300)
    for each in (User("first"), User("word " * 300), User("word " * 300), task):
        made_of.hear(each)
    for each in (*turn(1, "ok"), User("You repeat yourself.")):
        made_of.add(each)

    found = made_of.make_room()

    assert found is not None
    assert found.unsaid == 2
    assert task in made_of.messages


def test_the_same_note_tells_of_turns_that_are_worth_dropping_only_then() -> None:
    """A short old turn is not worth a note of its own, but is once there is one."""
    messages: list[Message] = [User("first"), User("word " * 400), *turn(1, "ok"), *turn(2, "ok")]
    messages += [*turn(3, "ok"), User("last")]

    found = made(messages, 60)

    assert compacted(found.messages, found.sizes, 60) is None


# Properties

LENGTHS = st.sampled_from([0, 3, 60, 70, 400, 3_000, 20_000])
SHORTER = st.sampled_from([0, 3, 100, 900])


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(System("s" * draw(SHORTER)))
    if draw(st.booleans()):
        messages.append(User("u" * draw(SHORTER)))
    for number in range(draw(st.integers(0, 8))):
        results = ["é" * draw(LENGTHS) for _ in range(draw(st.integers(0, 3)))]
        messages += turn(number, *results, tool=draw(st.sampled_from("ab")), said="t" * draw(SHORTER))
        if draw(st.integers(0, 2)) == 0:
            given_texts = ["g" * draw(LENGTHS) for _ in range(draw(st.integers(1, 2)))]
            messages += written(200 + number, *given_texts)
        if draw(st.integers(0, 3)) == 0:
            messages.append(User("v" * draw(st.sampled_from([1, 100, 900]))))
    if messages and isinstance(messages[-1], ToolResult) and draw(st.booleans()):
        messages.pop()
    return messages


def shape(messages: list[Message]) -> list[Any]:
    """Every call with the results that stand behind it, before the next message of the model."""
    found: list[Any] = []
    for message in messages:
        if isinstance(message, Assistant):
            found.append(([call.id for call in message.calls], []))
        elif isinstance(message, ToolResult):
            found[-1][1].append(message.call_id)
    return found


def old_results(messages: list[Message]) -> list[int]:
    """Where results are that are none of the newest turns'."""
    turns = [at for at, message in enumerate(messages) if isinstance(message, Assistant)]
    newest = turns[-KEPT_TURNS - 1] if len(turns) > KEPT_TURNS else 0
    return [at for at, message in enumerate(messages[:newest]) if isinstance(message, ToolResult)]


def is_note(message: Message) -> bool:
    return isinstance(message, User) and str(message.content).startswith("[To make room, ")


def keep_promises(messages: list[Message], room: int) -> Compacted | None:
    before = copy.deepcopy(messages)
    sizes = [size_of(message) for message in messages]

    found = compacted(messages, sizes, room)

    assert messages == before
    assert found == compacted(messages, sizes, room)
    if found is None:
        return None
    after = found.messages
    assert found.sizes == [size_of(message) for message in after]
    assert sum(found.sizes) < sum(sizes)
    # Whole turns go, from the oldest on, and never the newest; of the others every call and result is there.
    turns = shape(messages)
    assert found.dropped <= max(len(turns) - KEPT_TURNS, 0)
    assert shape(after) == turns[found.dropped :]
    # What people said is there, the same objects in the same order, but some between the first and the newest
    # where nothing else is left; and one note where something has gone.
    fixed = [id(m) for m in messages if isinstance(m, System)]
    assert [id(m) for m in after if isinstance(m, System)] == fixed
    said = [id(m) for m in messages if isinstance(m, User) and not is_note(m)]
    still = [id(m) for m in after if isinstance(m, User) and not is_note(m)]
    gone = found.unsaid
    assert still == said[:1] + said[1 + gone :]
    assert not gone or (len(said) - gone >= 2 and not any(found.sizes[at] > 300 for at in old_results(after)))
    has_gone = found.dropped > 0 or gone > 0
    assert sum(map(is_note, after)) == (has_gone or any(map(is_note, messages)))
    # A call is the same, or was given less; one without a result is the same.
    asked = {m.calls[0].id: m for m in messages if isinstance(m, Assistant) and m.calls}
    cut = 0
    for message, (_, answered) in zip(
        (m for m in after if isinstance(m, Assistant)), shape(after), strict=True
    ):
        if message.calls and message is not (before_it := asked[message.calls[0].id]):
            assert size_of(message) < size_of(before_it)
            assert message.text == before_it.text
            for at, (now, was) in enumerate(zip(message.calls, before_it.calls, strict=True)):
                assert (now.id, now.name, now.arguments.keys()) == (was.id, was.name, was.arguments.keys())
                assert now is was or at < len(answered)
                cut += now is not was
    assert cut == found.cut_calls
    # A result is the same, or shorter.
    results = {m.call_id: m for m in messages if isinstance(m, ToolResult)}
    changed = 0
    for message in after:
        if isinstance(message, ToolResult):
            old = results[message.call_id]
            changed += message is not old
            assert message is old or size_of(message) < size_of(old)
            assert (message.name, message.is_error) == (old.name, old.is_error)
    assert changed == found.left_out
    # A second time there is nothing left to do.
    assert compacted(after, found.sizes, room) is None
    return found


TALLY = Tally()


@UNHURRIED
@given(conversations(), st.sampled_from([0, 3, 10, 25, 50, 80]))
@examples(800)
def check_every_promise(messages: list[Message], percent: int) -> None:
    room = sum(map(size_of, messages)) * percent // 100
    found = keep_promises(messages, room)
    more = [m for number in range(100, 104) for m in turn(number, "x" * 2000, said="t" * 300)]
    again = keep_promises([*found.messages, *more], room) if found is not None else None
    TALLY.add(
        done=found is not None,
        again=again is not None,
        left_out=found is not None and found.left_out > 0,
        dropped=found is not None and found.dropped > 0,
        dropped_again=again is not None and again.dropped > 0,
        fits=found is not None and sum(found.sizes) <= room,
        tight=found is not None and sum(found.sizes) > room,
        cut=found is not None and found.cut_calls > 0,
        unsaid=found is not None and found.unsaid > 0,
        unsaid_again=again is not None and again.unsaid > 0,
    )


def test_every_promise_holds_for_any_conversation() -> None:
    check_every_promise()

    shares = {"done": 0.5, "again": 0.3, "left_out": 0.3, "dropped": 0.2, "fits": 0.2, "tight": 0.1}
    TALLY.require({**shares, "dropped_again": 0.2, "cut": 0.1, "unsaid": 0.03, "unsaid_again": 0.004})


def test_a_long_run_in_a_small_room_stays_whole_and_is_compacted_rarely() -> None:
    """A thousand turns in 4,000 tokens: the beginning is the same object for object between compactions."""
    messages: list[Message] = [RULES, TASK]
    sizes = [size_of(message) for message in messages]
    compactions = dropped = 0
    for number in range(1_000):
        for message in turn(number, "x" * (number * 37 % 900)):
            messages.append(message)
            sizes.append(size_of(message))
        if (found := compacted(messages, sizes, 4_000)) is not None:
            messages, sizes = found.messages, found.sizes
            compactions += 1
            dropped += found.dropped
        assert sum(sizes) <= 4_000

    assert messages[0] is RULES
    assert messages[1] is TASK
    assert compactions < 120
    notes = [m.content for m in messages[2:] if isinstance(m, User)]
    assert len(notes) == 1
    assert f"{dropped} earlier turns" in notes[0]
    assert f'{{"read":{dropped}}}' in notes[0]
