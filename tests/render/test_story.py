"""`tell` makes one run a story: order, decisions, undoing, advice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placet.events.event import Event
from placet.render.advice import advise
from placet.render.history import History, Repeat, split_runs
from placet.render.story import tell, together
from placet.render.timeline import draw_timeline

MakeEvents = Callable[..., list[Event]]


def _told(events: list[Event], **options: str) -> str:
    return "\n".join(line.plain for line in tell(events, **options))


def test_an_aborted_run_is_told_from_its_beginning_to_the_next_command(aborted: list[Event]) -> None:
    story = _told(aborted, log="my run.jsonl")

    for words in (
        "Run run1 of proposal 'p1', proposed by 'planner', for caller 'ada'",
        "it counts as run in this order: look, book, mail, extra, after, pay.",
        "It was aborted: action 'pay' failed: card declined",
        "attempt 1 failed (busy); tried again after 100 ms",
        "extra (luxury) was rejected: policy 'modest': no luxury",
        "after (lounge) was skipped: dependency 'extra' was rejected",
        "pay (charge) failed after 100 ms: card declined",
        "status = \"booked\"  (by 'book', later undone)",
        "book was taken back with cancel",
        "the state was put back: 'status'",
        "! mail (mail) stays done: it took effect; the abort does not undo it",
        "'mail' stays done, and the abort does not undo it",
        "A policy denied 'extra'",
        "placet run PLAN.json --tools TOOLS.py --policies POLICIES --state STATE.json --log 'my run.jsonl'",
    ):
        assert words in story, words


def test_what_cannot_be_undone_is_told_as_staying_and_not_to_be_repeated(aborted: list[Event]) -> None:
    story = _told(aborted)

    assert "mail (mail) succeeded in 30 ms; it stays done" in story
    assert "book (book) succeeded in 30 ms; it" not in story
    assert "what stays done would be done twice" in story


def test_an_unknown_effect_is_not_told_as_one_that_took_place(make_events: MakeEvents) -> None:
    story = _told(
        make_events(
            ("action_unknown", "send", {"error": "timed out"}),
            ("proposal_ended", None, {"outcome": "aborted", "irreversible": ["send"]}),
        )
    )

    assert "it is not known whether it took effect" in story
    assert "stays done" not in story


@pytest.mark.parametrize("outcome", ["aborted", "partial", "canceled", "refused"])
def test_every_command_that_runs_or_checks_again_names_the_policies(
    make_events: MakeEvents, outcome: str
) -> None:
    story = _told(
        make_events(
            ("policy_violation", "a", {"error": "policy 'p': no"}),
            ("action_rejected", "b", {"error": "parameter 'x'"}),
            ("proposal_ended", None, {"outcome": outcome}),
        )
    )

    commands = [line.strip() for line in story.splitlines() if line.startswith("      placet ")]
    assert len(commands) >= 2
    for command in commands:
        if command.startswith("placet resume"):
            continue  # The run knows them itself.
        assert "--tools TOOLS.py --policies POLICIES --state STATE.json" in command


def test_a_story_counts_what_is_only_there_to_take_back_apart(make_events: MakeEvents) -> None:
    received = {"action_count": 3, "actions": [{"id": "a"}, {"id": "b"}, {"id": "c"}], "order": ["a", "b"]}

    assert "2 actions, 1 more only to take back." in _told(make_events(("proposal_received", None, received)))


def test_what_overlapped_is_told_as_at_once(aborted: list[Event]) -> None:
    story = _told(aborted)

    assert "2 at once:\n    ✓ book (book)" in story
    assert "book.compensation" not in story, "a compensation is told where it belongs"


def test_steps_that_follow_each_other_are_not_at_once(make_events: MakeEvents) -> None:
    history = History.of(
        make_events(
            ("action_executing", "a", {}),
            ("action_succeeded", "a", {}),
            ("action_executing", "b", {}),
            ("action_executing", "c", {}),
            ("action_succeeded", "b", {}),
            ("action_succeeded", "c", {}),
        )
    )
    assert history.last is not None

    assert [[s.id for s in group] for group in together(list(history.last.steps.values()))] == [
        ["a"],
        ["b", "c"],
    ]


def test_a_log_that_ends_in_the_middle_says_so_and_names_what_was_in_flight(make_events: MakeEvents) -> None:
    story = _told(
        make_events(
            ("proposal_received", None, {"action_count": 2, "actions": [{"id": "a"}, {"id": "b"}]}),
            ("action_executing", "a", {"attempt": 1}),
        )
    )

    assert "The log ends before the run does" in story
    assert "1 action had not begun: 'b'" in story
    assert "'a' may or may not have taken effect" in story


def test_nobody_has_to_find_out_why_a_canceled_action_failed(make_events: MakeEvents) -> None:
    story = _told(
        make_events(
            ("action_failed", "a", {"error": "canceled: tea; it was stopped in flight"}),
            ("action_failed", "b", {"error": "no such host"}),
            ("proposal_ended", None, {"outcome": "canceled", "error": "canceled: tea"}),
        )
    )

    assert "why 'b' failed" in story
    assert "1 other" not in story


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ("succeeded", "Nothing is left to do"),
        ("partial", "What succeeded stays"),
        ("aborted", "The state is as it was before"),
        ("refused", "Nothing ran, so nothing has to be undone"),
        ("canceled", "What had been done stays"),
        ("budget", "The budget was spent"),
        ("waiting", "The run goes on when"),
        ("something new", "To run the plan again"),
    ],
)
def test_every_outcome_has_advice(make_events: MakeEvents, outcome: str, says: str) -> None:
    story = _told(make_events(("proposal_ended", None, {"outcome": outcome})))

    assert "What to do next" in story
    assert says in story


def test_unknown_outcomes_and_failed_compensations_come_first(make_events: MakeEvents) -> None:
    story = _told(
        make_events(
            ("action_unknown", "send", {"error": "timed out", "left_behind": "a thread goes on"}),
            ("compensation_started", "book", {"tool": "cancel"}),
            ("compensation_failed", "book", {"tool": "cancel", "error": "line is dead"}),
            (
                "proposal_ended",
                None,
                {
                    "outcome": "aborted",
                    "waiting": [{"kind": "unknown_outcome", "action_id": "send", "reason": "?"}],
                },
            ),
        )
    )

    advice = story[story.index("What to do next") :].splitlines()
    assert "Look outside whether 'send' took effect" in advice[1]
    assert "Take 'book' back by hand" in advice[2]
    assert "taking it back with cancel failed: line is dead" in story
    assert "a thread goes on" in story
    assert "Settle 'send'" not in story, "said once is enough"


def test_what_waits_is_asked_about_and_not_decided_beforehand(make_events: MakeEvents) -> None:
    def waits(*names: str) -> History:
        waiting = [{"kind": "unknown_outcome", "action_id": n, "reason": "?"} for n in names]
        waiting[0]["needs_output"] = True  # type: ignore[assignment]
        unknown = [("action_unknown", name, {"error": "?"}) for name in names]
        ended = ("proposal_ended", None, {"outcome": "waiting", "waiting": waiting})
        return History.of(make_events(*unknown, ended))

    _, one, used, *_ = advise(waits("pay"), db="my runs.db")
    _, many, *_ = advise(waits("pay", "send"), db="postgresql://me:hush@host/db")

    assert one.sentence.startswith("Then say of it what became of it: done (it took effect), retry ")
    assert one.command == "placet resume run1 --db 'my runs.db' --decide pay=CHOICE"
    assert used.sentence == ("Others use what 'pay' answered: say done:JSON, such as 'pay=done:{\"id\": 5}'.")
    assert many.sentence.startswith("Then say of each what became of it")
    assert many.command == "placet resume run1 --db URL --decide pay=CHOICE --decide send=CHOICE"


def test_a_cached_and_a_deduplicated_answer_are_told_apart(make_events: MakeEvents) -> None:
    story = _told(
        make_events(
            ("action_deduplicated", "b", {"of": "a"}),
            ("action_succeeded", "b", {"duration_ms": 0.0, "cached": True}),
            ("action_succeeded", "c", {"duration_ms": 0.0, "cached": True}),
        )
    )

    assert "b succeeded, with the answer of 'a'; no second call was made" in story
    assert "c succeeded, answered from the cache" in story


def test_a_long_run_is_summed_up_but_its_trouble_is_told(make_events: MakeEvents) -> None:
    items = [("action_succeeded", f"a{i}", {}) for i in range(500)]
    story = _told(make_events(*items, ("action_failed", "bad", {"error": "broken"}), *items))

    assert "… and 460 more: 460 succeeded" in story
    assert "bad failed" in story
    assert len(story.splitlines()) < 100


def test_replans_are_told_plan_by_plan(make_events: MakeEvents) -> None:
    first = make_events(
        ("proposal_received", None, {}),
        ("action_failed", "a", {"error": "no"}),
        ("proposal_ended", None, {"outcome": "aborted"}),
        ("replan_attempted", None, {"attempt": 1}),
        ("replan_rejected", None, {"errors": ["a: unknown tool 'x'"]}),
    )
    second = make_events(
        ("proposal_received", None, {}), ("proposal_ended", None, {"outcome": "succeeded"}), proposal="p2"
    )

    story = _told([*first, *second])

    assert "Plan 1: 'p1'" in story
    assert "Plan 2: 'p2'" in story
    assert "the new plan was not accepted: a: unknown tool 'x'" in story
    assert "It succeeded." in story


def test_no_events_make_a_short_story() -> None:
    assert _told([]) == "Nothing happened: there are no events."


def test_runs_in_one_log_are_kept_apart(make_events: MakeEvents) -> None:
    events = make_events(("proposal_received", None, {}), run="one")
    events += make_events(("proposal_received", None, {}), run="two")
    events += [Event(9, "sink_failed", 1.0)]

    assert {run: len(found) for run, found in split_runs(events).items()} == {"one": 1, "two": 1}


# A bound folder


def _bound(make_events: MakeEvents, isolation: str, **restored: object) -> list[Event]:
    """Two actions of which one ran a command, in a folder that was restored."""
    said = {"folder": "/w", "changed": 2, "removed": 1, "brought_back": 0, "problems": [], **restored}
    return make_events(
        ("action_executing", "run", {"tool": "shell"}),
        ("command_ran", "run", {"program": "sh", "isolation": "process"}),
        ("command_ran", "run", {"program": "sh", "isolation": isolation}),
        ("action_succeeded", "run", {}),
        ("action_executing", "mail", {"tool": "mail"}),
        ("action_succeeded", "mail", {}),
        ("workspace_restored", None, said),
        ("proposal_ended", None, {"outcome": "aborted", "irreversible": ["run", "mail"]}),
    )


def test_of_a_command_in_a_restored_folder_only_what_it_did_elsewhere_stays(make_events: MakeEvents) -> None:
    story = _told(_bound(make_events, "process"))

    assert "run (shell) succeeded in 300 ms; what it did in the folder was taken back" in story
    assert "the folder /w was restored: 2 changed, 1 removed" in story
    assert "'run': what it did outside of the folder, if anything, stays done" in story
    # A tool that ran no command need not have worked in the folder at all.
    assert "! mail (mail) stays done: it took effect; the abort does not undo it" in story
    assert "'mail' stays done, and the abort does not undo it" in story
    assert (
        "The state and the folder are as they were before, but what stays done would be done twice" in story
    )


@pytest.mark.parametrize(("isolation", "is_urgent"), [("process", False), ("none", True)])
def test_what_was_not_kept_in_by_the_kernel_has_to_be_looked_at(
    make_events: MakeEvents, isolation: str, is_urgent: bool
) -> None:
    history = History.of(_bound(make_events, isolation))

    [advice] = [each for each in advise(history) if "'run' did in the folder" in each.sentence]

    assert advice.is_urgent == is_urgent


def test_a_folder_that_was_not_restored_wholly_leaves_commands_done(make_events: MakeEvents) -> None:
    story = _told(_bound(make_events, "process", problems=["/w/x: permission denied"]))

    assert "! run (shell) stays done" in story
    assert "✗ /w/x: permission denied" in story
    assert "The state is as it was before, but" in story


def test_a_run_is_repeated_with_the_options_that_it_had(make_events: MakeEvents) -> None:
    events = make_events(
        ("policy_violation", "a", {"error": "policy 'p': no"}),
        ("proposal_ended", None, {"outcome": "aborted"}),
    )
    history = History.of(events)
    history.repeat = Repeat("my.json", "--tools t.py", "--workspace /w")

    commands = [advice.command for advice in advise(history, db="x.db") if advice.command]

    assert commands == [
        "placet verify my.json --tools t.py",
        "placet run my.json --tools t.py --workspace /w --db x.db",
    ]


def test_of_a_file_only_the_folder_of_a_bound_run_is_known(make_events: MakeEvents) -> None:
    story = _told(_bound(make_events, "process"), log="run.jsonl")

    options = "--tools TOOLS.py --policies POLICIES --state STATE.json --workspace /w --log run.jsonl"
    assert f"placet run PLAN.json {options}" in story


def test_a_timeline_tells_what_became_of_a_folder(make_events: MakeEvents) -> None:
    events = make_events(
        (
            "isolation_lowered",
            None,
            {"required": "process", "lowered_to": "none", "until": "u", "because": "b"},
        ),
        ("workspace_snapshot", None, {"folder": "/w", "files": 3, "left_out": ["a", "b", "c", "d"]}),
        ("workspace_restored", None, {"folder": "/w", "brought_back": 1, "problems": ["no\x1b[31m"]}),
    )

    lines = [line.plain for line in draw_timeline(events)]

    assert lines[1].endswith("from 'process' to 'none' until u: b")
    assert lines[2].endswith("/w: 3 files; left out: a, b, c and 1 more")
    assert "/w: 1 brought back, 1 problem; no" in lines[3]
    assert "\x1b" not in lines[3]
