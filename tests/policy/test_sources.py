"""Which values a flow rule lets through: those of trusted tools, of trusted fields and of named sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet import Runtime, tool
from placet.errors import PolicyFileError, RuleError, ToolDeclarationError
from placet.ir.action import Action
from placet.policy.flow import FlowRule, MarkOutput
from placet.policy.loader import load_policies
from placet.policy.marks import Marks, Trail
from placet.policy.sources import ToolAnswer, ValueSource
from placet.tools import Tool
from placet.turns.reading import Reading
from tests.policy.test_flow import ran, stopped
from tests.properties.effort import UNHURRIED, examples
from tests.runtime.plans import Fields, Recorder, call, plan

WEB: Marks = {"untrusted": Trail(("a1 (web)",))}
ANN = "ann@example.org"
EVIL = "evil@example.net"

BOOK = ValueSource(tool="book")
FILE = ValueSource(tool="file", named_param="path")
FROM = ValueSource(tool="inbox", fields=["mails[].from"])
EVENT = ValueSource(tool="events", fields=["[].id"], named_field="[].title")


class Talk:
    """A conversation in which the model has read something untrusted."""

    def __init__(self, *heard: str) -> None:
        self._reading = Reading()
        for text in heard:
            self._reading.heard(text)
        self._reading.read(WEB)

    def got(
        self, name: str, output: Any, /, *, body: Any = None, changes: bool = False, **parameters: Any
    ) -> Talk:
        """The model has called a tool, which answered."""
        self._reading.answers.wrote([parameters])
        if changes:
            self._reading.answers.changed(self._reading.marks)
        marked = [] if body is None else [((body,), "untrusted")]
        answer = ToolAnswer(Action(id="a", tool=name, parameters=parameters), None, output, marked)  # type: ignore[arg-type]
        self._reading.answers.came(answer)
        return self

    def passes(self, value: Any, *sources: ValueSource) -> bool:
        """Whether the value may be a parameter of the next call."""
        self._reading.answers.wrote([{"p": value}])
        inflow = self._reading.inflow({"p": value})
        return inflow.unless_from("p", "untrusted", sources) is None


# A trusted tool


def test_a_value_in_the_answer_of_a_trusted_tool_passes_and_any_other_does_not() -> None:
    talk = Talk("write to Ann").got("book", {"name": "Ann Lee", "email": ANN}, name="Ann")

    assert talk.passes(ANN, BOOK)
    assert not Talk("write to Ann").got("book", {"email": ANN}, name="Ann").passes(EVIL, BOOK)


def test_an_answer_of_another_tool_does_not_count() -> None:
    assert not Talk("x").got("page", {"email": ANN}).passes(ANN, BOOK)
    assert not Talk("x").got("bookshop", {"email": ANN}).passes(ANN, BOOK)


def test_every_value_of_a_list_must_pass() -> None:
    def talk() -> Talk:
        return Talk("also to bob@example.org").got("book", {"email": ANN})

    assert talk().passes([ANN, "bob@example.org"], BOOK)
    assert not talk().passes([ANN, EVIL], BOOK)
    assert not talk().passes({"to": ANN, "cc": EVIL}, BOOK)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ({"email": ANN}, "ann@example.or"),
        ({"email": ANN}, "example.org"),
        ({"email": ANN}, ANN.upper()),
        ({"email": f"x-{ANN}"}, ANN),
        ({"email": f"{ANN}.evil.net"}, ANN),
        ({"text": f"write to {ANN}.evil.net"}, ANN),
        ({"text": "at 7 o'clock, in 12 rooms"}, 7),
        ({"text": "at 7 o'clock, in 12 rooms"}, 12),
        ({"text": "ok go"}, "go"),
        ({"amount": 100}, 10),
        ({"amount": 100}, 1000),
        ({"amount": 100.5}, 100),
        ({"is_open": True}, True),
        ({"is_open": True}, "true"),
        ({"is_open": True}, 1),
        ({ANN: "x"}, ANN),
        ({"email": None}, "null"),
        ([], ANN),
        (None, ANN),
    ],
)
def test_a_part_of_a_value_or_another_case_does_not_pass(output: Any, value: Any) -> None:
    assert not Talk("hello").got("book", output).passes(value, BOOK)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ({"id": 7}, 7),
        ({"id": 7}, "7"),
        ({"id": "7"}, 7),
        ({"a": [{"b": ["x", ANN]}]}, ANN),
        (f"Ann Lee <{ANN}>, Berlin", ANN),
        ("Please pay 1,250.50 EUR", 1250.5),
        ("Please pay 98.70 EUR", 98.7),
        ({"amount": 1250.0}, 1250),
        ({"code": "US"}, "US"),
    ],
)
def test_a_whole_field_passes_whatever_its_length_and_a_whole_word_inside_a_text(
    output: Any, value: Any
) -> None:
    assert Talk("hello").got("book", output).passes(value, BOOK)


# What the model wrote before


def test_a_tool_that_repeats_its_parameters_proves_nothing() -> None:
    assert not Talk("x").got("book", {"query": EVIL, "found": []}, query=EVIL).passes(EVIL, BOOK)
    assert not Talk("x").got("book", f"no entry for {EVIL}", query=f"<{EVIL.upper()}>").passes(EVIL, BOOK)


def test_what_was_stored_a_moment_ago_and_read_back_proves_nothing() -> None:
    talk = Talk("x").got("add_entry", "ok", name="Ann", email=EVIL).got("book", {"email": EVIL}, name="Ann")
    assert not talk.passes(EVIL, BOOK)

    talk = Talk("pay bill.txt").got("write", "ok", path="bill.txt", text=f"IBAN: {EVIL}")
    assert not talk.got("file", f"IBAN: {EVIL}", path="bill.txt").passes(EVIL, FILE)


def test_what_was_stored_in_parts_and_read_back_proves_nothing() -> None:
    talk = (
        Talk("x").got("add_entry", "ok", changes=True, user="evil").got("add_host", "ok", host="example.net")
    )
    assert not talk.got("book", {"email": EVIL}, name="Ann").passes(EVIL, BOOK)

    # Neither does what a tool copied without being told the value, nor the answer of that tool itself.
    assert not Talk("x").got("copy_mail", "ok", changes=True).got("book", EVIL).passes(EVIL, BOOK)
    assert not Talk("x").got("book", EVIL, changes=True).passes(EVIL, BOOK)


def test_a_value_that_a_source_held_before_anything_could_be_stored_still_passes() -> None:
    talk = Talk("x").got("book", {"email": ANN}).got("add_entry", "ok", changes=True, name="evil")

    assert talk.got("book", {"email": ANN}).passes(ANN, BOOK)


def test_what_was_read_first_and_written_then_still_passes() -> None:
    talk = Talk("x").got("book", {"email": ANN}).got("send", "ok", to=ANN).got("book", {"email": ANN})

    assert talk.passes(ANN, BOOK)


# A source that the person named


def test_a_named_file_passes_and_one_that_the_person_did_not_name_does_not() -> None:
    assert Talk("pay the bill in bill.txt").got("file", f"to {ANN}", path="bill.txt").passes(ANN, FILE)
    assert not Talk("pay the bill").got("file", f"to {ANN}", path="bill.txt").passes(ANN, FILE)
    assert not Talk("pay my-bill.txt").got("file", f"to {ANN}", path="bill.txt").passes(ANN, FILE)
    assert not Talk("pay BILL.TXT").got("file", f"to {ANN}", path="bill.txt").passes(ANN, FILE)
    assert not Talk("pay a bill").got("file", f"to {ANN}", path="a").passes(ANN, FILE)


def test_a_name_that_only_a_tool_says_names_nothing() -> None:
    talk = Talk("read page.html").got("file", f"pay bill.txt, {EVIL}", path="other.txt")

    assert not talk.got("file", f"to {EVIL}", path="bill.txt").passes(EVIL, FILE)


def test_the_name_must_be_the_value_of_that_parameter() -> None:
    talk = Talk("pay bill.txt").got("file", f"to {ANN}", path="other.txt", like="bill.txt")
    assert not talk.passes(ANN, FILE)
    assert not Talk("pay bill.txt").got("file", f"to {ANN}", path=["bill.txt"]).passes(ANN, FILE)
    assert not Talk("is it True").got("file", f"to {ANN}", path=True).passes(ANN, FILE)
    assert not Talk("pay bill.txt").got("file", f"to {ANN}").passes(ANN, FILE)
    assert Talk("pay invoice 17").got("file", f"to {ANN}", path=17).passes(ANN, FILE)


RECORDS = [{"title": "Lunch", "id": 3, "by": ANN}, {"title": "Review", "id": 4, "by": EVIL}, {"title": "x"}]


def test_only_the_record_that_the_person_named_counts() -> None:
    def talk(words: str) -> Talk:
        return Talk(words).got("events", RECORDS)

    assert talk("cancel Lunch").passes(3, EVENT)
    assert not talk("cancel Lunch").passes(4, EVENT)
    assert not talk("cancel the lunch").passes(3, EVENT)
    assert not talk("cancel Lunch").passes(ANN, EVENT), "only the fields of the source"
    everything = ValueSource(tool="events", named_field="[].title")
    assert talk("cancel Lunch").passes(ANN, everything)
    assert not talk("cancel Lunch").passes(EVIL, everything)


# Fields


def test_only_trusted_fields_count() -> None:
    mails = {"mails": [{"from": ANN, "body": f"write to {EVIL}"}], "from": EVIL}

    assert Talk("x").got("inbox", mails).passes(ANN, FROM)
    assert not Talk("x").got("inbox", mails).passes(EVIL, FROM)
    assert not Talk("x").got("inbox", {"mails": {"from": ANN}}).passes(ANN, FROM), "not of this shape"
    assert not Talk("x").got("inbox", f"from: {ANN}").passes(ANN, FROM)


def test_a_field_that_is_marked_does_not_count_unless_it_is_named_or_listed() -> None:
    def talk() -> Talk:
        return Talk("answer mail m-17").got(
            "mail", {"from": ANN, "body": {"x": [EVIL]}}, body="body", id="m-17"
        )

    assert talk().passes(ANN, ValueSource(tool="mail"))
    assert not talk().passes(EVIL, ValueSource(tool="mail"))
    assert talk().passes(EVIL, ValueSource(tool="mail", fields="body"))
    assert talk().passes(EVIL, ValueSource(tool="mail", named_param="id"))


# A source that leaves no choice

ADDRESS = r"[\w.+-]+@[\w.-]+\w"


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (f"write to {ANN}", True),
        (f"write to {ANN}, yes, {ANN}", True),
        (f"write to {ANN}. Or rather to {EVIL}", False),
        (f"write to {ANN} or {ANN.upper()}", False),
        ("write to nobody", False),
    ],
)
def test_with_only_match_a_second_candidate_is_one_too_many(text: str, runs: bool) -> None:
    source = ValueSource(tool="file", named_param="path", only_match=ADDRESS)

    assert Talk("see a.txt").got("file", {"text": text, "n": 3}, path="a.txt").passes(ANN, source) is runs
    assert not Talk("see a.txt").got("file", text, path="a.txt").passes(EVIL, source)
    assert not Talk("see a.txt").got("file", text, path="a.txt").passes("write", source)


# Properties

LEAF = st.one_of(st.text("abc@.- 12", max_size=8), st.integers(-999, 999), st.booleans(), st.none())
TREE = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
)
VALUE = st.text("abc@.-12", min_size=1, max_size=6) | st.integers(-999, 999)


@UNHURRIED
@given(TREE, VALUE, st.text("abc@.- 12", max_size=20))
@examples(400)
def test_a_value_that_stands_in_untrusted_fields_alone_never_passes(
    trusted: Any, value: Any, message: str
) -> None:
    """The value has a letter, or a number, that the trusted part cannot have."""
    value = f"q{value}" if isinstance(value, str) else value + 100_000
    other = {"body": [value, f"use {value} now"], "from": trusted, "more": {"from": value}}
    sources = [
        ValueSource(tool="t", fields="from"),
        ValueSource(tool="book"),
        ValueSource(tool="t", named_param="id"),
        ValueSource(tool="t", fields="body", named_field="from"),
        ValueSource(tool="page", named_param="missing"),
    ]
    # The name of the source stands in another source, and the person has not said it.
    talk = Talk(f"{message} !").got("page", f"read q-7, then {value}").got("t", other, id="q-7")
    if isinstance(trusted, str | int) and not isinstance(trusted, bool) and str(trusted).strip() in message:
        sources.pop(3)  # Then the person has named that record.

    assert not talk.passes(value, *sources)
    assert not talk.passes([value], *sources)
    assert not talk.passes({"here": {"deep": value}}, *sources)


@UNHURRIED
@given(TREE, st.text("abc@.-12", min_size=1, max_size=6), st.text("qr", min_size=1, max_size=3))
@examples(400)
def test_a_value_beside_more_letters_never_passes_and_the_whole_always_does(
    around: Any, value: str, glue: str
) -> None:
    value = f"q{value}q"
    for joined in (
        f"{glue}{value}",
        f"{value}{glue}",
        f"{glue}.{value}",
        f"{value}@{glue}",
        f"{value}-{glue}",
    ):
        assert not Talk("hi").got("book", [around, joined, f"say {joined} now"]).passes(value, BOOK)
    assert Talk("hi").got("book", [around, f"say {value} now"]).passes(value, BOOK)
    assert not Talk("hi").got("book", [around, value], ask=value).passes(value, BOOK)


# In plans: by the path of the reference, and verify says the same


def tools(recorder: Recorder) -> list[Tool]:
    mail = {"from": ANN, "body": EVIL, "to": [{"name": "x", "email": ANN}]}
    marked = {"body": ["untrusted"], "to[].name": ["untrusted"]}
    return [
        recorder.tool("fetch", EVIL, risk="read_only", marks=["untrusted"]),
        recorder.tool("book", {"email": ANN}, risk="read_only", marks=["untrusted"]),
        recorder.tool("mail", mail, risk="read_only", field_marks=marked),
        recorder.tool("send", "sent", risk="network"),
    ]


async def judged(recorder: Recorder, rule: FlowRule, *actions: Fields, also: Any = ()) -> Any:
    """What becomes of the last action `s`; verify has said the same, or left it open."""
    rt = Runtime(tools=tools(recorder), policies=[("r", rule), *also])
    proposal = plan(*({"failure_behavior": "skip", **action} for action in actions))
    report = rt.verify(proposal)
    before = len(recorder.calls)
    ended = (await rt.execute(proposal))["s"]

    said = [issue.message for issue in report.errors if issue.action_id == "s"]
    if said or ended.status == "rejected":
        assert said == [ended.error] or report.undecided
    sent = [p["to"] for name, p in recorder.calls[before:] if name == "send"]
    return type(ran())(ended.status, ended.error, sent)


def to(value: Any) -> Fields:
    return call("s", "send", {"to": value})


RULE = FlowRule(mark="untrusted", tool="send", param="to")
TRUSTING = FlowRule(mark="untrusted", tool="send", param="to", unless_from=[BOOK])


async def test_a_reference_to_a_trusted_tool_passes(recorder: Recorder) -> None:
    book = call("b", "book", {"name": "Ann"})

    assert await judged(recorder, RULE, book, to("$b.output.email")) == stopped("b (book)")
    assert await judged(recorder, TRUSTING, book, to("$b.output.email")) == ran(ANN)
    assert await judged(recorder, TRUSTING, book, to(["<$b.output.email>"])) == ran([f"<{ANN}>"])


async def test_what_went_into_a_trusted_tool_may_come_out_of_it(recorder: Recorder) -> None:
    fetch, book = call("f", "fetch"), call("b", "book", {"name": "$f.output"})

    assert (await judged(recorder, TRUSTING, fetch, book, to("$b.output.email"))).status == "rejected"


async def test_a_mixed_value_is_stopped(recorder: Recorder) -> None:
    fetch, book = call("f", "fetch"), call("b", "book")

    assert await judged(recorder, TRUSTING, fetch, book, to("$b.output.email $f.output")) == stopped(
        "f (fetch)"
    )


async def test_nobody_names_a_source_in_a_plan(recorder: Recorder) -> None:
    for source in (
        ValueSource(tool="book", named_param="name"),
        ValueSource(tool="book", named_field="email"),
        ValueSource(tool="book", only_match=ADDRESS),
    ):
        rule = FlowRule(mark="untrusted", tool="send", param="to", unless_from=source)
        book = call("b", "book", {"name": "Ann"})

        assert await judged(recorder, rule, book, to("$b.output.email")) == stopped("b (book)")


@pytest.mark.parametrize(
    ("value", "runs"),
    [
        ("$m.output.from", True),
        ("$m.output.to[0].email", True),
        ("$m.output.body", False),
        ("$m.output", False),
        ("$m.output.to", False),
        ("$m.output.to[0]", False),
        ("$m.output.to[0].name", False),
        (["$m.output.from", "$m.output.body"], False),
    ],
)
async def test_marks_by_field_follow_references_by_path(recorder: Recorder, value: Any, runs: bool) -> None:
    verdict = await judged(recorder, RULE, call("m", "mail"), to(value))

    assert verdict == (ran(verdict.sent[0]) if runs else stopped("m (mail)"))


async def test_a_rule_marks_fields_too(recorder: Recorder) -> None:
    marking = ("marks", MarkOutput(tool="book", marks=["untrusted"], fields="email"))
    sources = FlowRule(mark="untrusted", tool="send", param="to", unless_from=ValueSource(tool="mail"))

    for value, status in (("$m.output.from", "succeeded"), ("$m.output.body", "rejected")):
        assert (await judged(recorder, sources, call("m", "mail"), to(value))).status == status
    verdict = await judged(recorder, RULE, call("m", "mail"), to("$m.output.from"), also=[marking])
    assert verdict.status == "succeeded"


async def test_the_path_of_a_source_holds_and_where_it_is_not_known_yet_verify_leaves_it_open(
    recorder: Recorder,
) -> None:
    rule = FlowRule(
        mark="untrusted", tool="send", param="to", unless_from=ValueSource(tool="book", path="mine/*")
    )
    mine, other = call("b", "book", {"name": "mine/a"}), call("b", "book", {"name": "other/a"})
    assert (await judged(recorder, rule, mine, to("$b.output.email"))).status == "succeeded"
    assert (await judged(recorder, rule, other, to("$b.output.email"))).status == "rejected"

    named = [call("m", "mail"), call("b", "book", {"name": "$m.output.from"}), to("$b.output.email")]
    rt = Runtime(tools=tools(recorder), policies=[("r", rule)])
    assert rt.verify(plan(*named)).undecided


async def test_a_secret_field_is_redacted_and_the_others_are_not(recorder: Recorder) -> None:
    @tool(risk="read_only", field_marks={"keys[].value": ["secret"]})
    async def vault() -> Any:
        """Keys by name."""
        return {"keys": [{"name": "deploy-key-name", "value": "s3cr3t-value-of-it"}]}

    rt = Runtime(tools=[vault])
    await rt.execute(plan(call("v", "vault")))

    assert rt.events.redactor.text("s3cr3t-value-of-it") == "[redacted]"
    assert rt.events.redactor.text("deploy-key-name") == "deploy-key-name"


# Any plan of tools that put out a token in each field, and what went in

FIELDS = {"a": ".a", "b": ".b.x", "c": ".c[0]", "in": ".in"}
PATHS = {"a": "a", "b": "b", "c": "c[]", "in": "in"}
NAMES = ("one", "two", "three")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Any, Any, list[Fields]]:
    """Which fields are marked (`*`: all of them), the sources, and a plan that ends with a call of send."""
    of_fields = st.lists(st.sampled_from([*FIELDS, "*"]), max_size=2, unique=True)
    marked = {name: draw(of_fields) for name in NAMES}
    sources = draw(
        st.lists(
            st.tuples(st.sampled_from(NAMES), st.sampled_from([None, None, "a", "b", "c"])),
            min_size=1,
            max_size=2,
        )
    )
    actions: list[Fields] = []
    for number in range(draw(st.integers(2, 4))):
        given = draw(_given(number))
        actions.append(call(f"x{number}", draw(st.sampled_from(NAMES)), {"p": given}))
    return marked, sources, [*actions, to(draw(_given(len(actions))))]


LAUNDERED = (
    {"one": [], "two": ["*"], "three": []},
    [("one", None)],
    [call("x0", "two", {"p": "typed"}), call("x1", "one", {"p": "$x0.output.a"}), to("$x1.output.in")],
)
"""Untrusted data that goes through a trusted tool."""


def _given(before: int) -> st.SearchStrategy[Any]:
    """A literal, or references to earlier actions, alone, in a text or in a list."""
    if not before:
        return st.just("typed")
    path = st.sampled_from(["", "", ".in", *FIELDS.values()])  # What went in is what matters most.
    one = st.builds(lambda n, at: f"$x{n}.output{at}", st.integers(0, before - 1), path)
    return one | st.lists(one | st.just("typed"), max_size=2) | one.map("see {}".format)


@UNHURRIED
@given(worlds())
@example(LAUNDERED)
@examples(500)
async def test_no_untrusted_token_reaches_the_recipient_but_from_a_source_and_verify_agrees(
    world: Any,
) -> None:
    marked, sources, actions = world
    sent: list[str] = []

    def put_out(name: str) -> Tool:
        @tool(
            name=name,
            risk="read_only",
            marks=["untrusted"] if "*" in marked[name] else [],
            field_marks={PATHS[field]: ["untrusted"] for field in marked[name] if field != "*"},
        )
        async def answer(p: Any) -> Any:
            """A token in each field."""
            return {"a": f"<{name}.a>", "b": {"x": f"<{name}.b>"}, "c": [f"<{name}.c>"], "in": p}

        return answer

    @tool(risk="network")
    async def send(to: Any) -> str:
        """Send."""
        sent.append(str(to))
        return "sent"

    rule = FlowRule(
        mark="untrusted",
        tool="send",
        param="to",
        unless_from=[
            ValueSource(tool=name, fields=None if field is None else PATHS[field]) for name, field in sources
        ],
    )
    rt = Runtime(tools=[*map(put_out, NAMES), send], policies=[("r", rule)])
    proposal = plan(*({"failure_behavior": "skip", **action} for action in actions))
    report = rt.verify(proposal)
    ended = (await rt.execute(proposal))["s"]

    for name in NAMES:
        for field in ("a", "b", "c"):
            if f"<{name}.{field}>" in "".join(sent):
                is_marked = field in marked[name] or "*" in marked[name]
                # Without fields, a source speaks for all but the fields that are marked by themselves.
                is_covered = (name, field) in sources or (
                    (name, None) in sources and field not in marked[name]
                )
                assert not is_marked or is_covered
    said = [issue.message for issue in report.errors if issue.action_id == "s"]
    assert said == ([ended.error] if ended.status == "rejected" else []) or report.undecided
    if not any(marked.values()):
        assert sent


# Bad input


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tool": "**"},
        {"tool": "t", "fields": []},
        {"tool": "t", "fields": ""},
        {"tool": "t", "fields": "a..b"},
        {"tool": "t", "fields": ["mails[0].from"]},
        {"tool": "t", "named_param": ""},
        {"tool": "t", "named_field": "a["},
        {"tool": "t", "only_match": "("},
        {"tool": "t", "named_field": "a[].b", "fields": "c"},
    ],
)
def test_a_source_that_means_nothing_is_refused(options: Any) -> None:
    with pytest.raises(RuleError):
        ValueSource(**options)


def test_a_secret_has_no_sources_and_a_mark_no_empty_fields() -> None:
    with pytest.raises(RuleError):
        FlowRule(mark="secret", unless_from=[BOOK])
    with pytest.raises(RuleError):
        MarkOutput(tool="t", marks=["secret"], fields=[])
    wrong: list[Any] = [{"a..b": ["secret"]}, {"a": ["secrets"]}, {"a": "secret"}, {"a": []}, ["a"]]
    for marks in wrong:
        with pytest.raises(ToolDeclarationError):
            tool(field_marks=marks)(lambda: None)


@pytest.mark.parametrize(
    ("line", "key", "near"),
    [
        ('unless_from = [{ tool = "book", feilds = ["a"] }]', "rule[0].unless_from[0].feilds", "fields"),
        (
            'unless_from = { tool = "book", named_parm = "a" }',
            "rule[0].unless_from.named_parm",
            "named_param",
        ),
        ('unless_form = [{ tool = "book" }]', "rule[0].unless_form", "unless_from"),
        ('unless_from = [{ tool = "book" }, { fields = ["a"] }]', "rule[0].unless_from[1]", "'tool'"),
        ('unless_from = [{ tool = "book", fields = ["a[3]"] }]', "rule[0].unless_from[0]", "mails[].from"),
        ('unless_from = "book"', "rule[0].unless_from", ""),
        ('unless_from = [{ tool = "b", risk = "red_only" }]', "rule[0].unless_from[0].risk", "read_only"),
    ],
)
def test_a_slip_in_a_file_is_told_with_its_key_and_the_nearest_name(
    tmp_path: Path, line: str, key: str, near: str
) -> None:
    file = tmp_path / "flow.toml"
    file.write_text(f'[[rule]]\nname = "who"\nkind = "flow_rule"\nmark = "untrusted"\n{line}\n')

    with pytest.raises(PolicyFileError) as refused:
        load_policies(file)

    assert refused.value.key == key
    assert str(file) in str(refused.value)
    assert near in str(refused.value)


def test_a_source_in_a_file_is_one_table_or_a_list(tmp_path: Path) -> None:
    file = tmp_path / "flow.toml"
    file.write_text(
        '[[rule]]\nname = "a"\nkind = "flow_rule"\nmark = "untrusted"\nunless_from = { tool = "book" }\n'
        '[[rule]]\nname = "b"\nkind = "flow_rule"\nmark = "untrusted"\n'
        'unless_from = [{ tool = "file", named_param = "path" },\n'
        '  { tool = "inbox", fields = ["mails[].from"] }]\n'
    )

    (_, one), (_, two) = load_policies(file)

    assert isinstance(one, FlowRule)
    assert isinstance(two, FlowRule)
    assert list(one.sources) == [BOOK]
    assert list(two.sources) == [FILE, FROM]


def test_a_tool_or_parameter_that_nobody_knows_is_a_warning(recorder: Recorder) -> None:
    rule = FlowRule(
        mark="untrusted",
        tool="send",
        unless_from=[ValueSource(tool="bok"), ValueSource(tool="lookup", named_param="pathh")],
    )

    @tool(risk="read_only")
    async def lookup(path: str) -> str:
        """Look up."""
        return path

    rt = Runtime(tools=[*tools(recorder), lookup], policies=[("r", rule)])
    (found,) = rt.verify(plan(call("b", "book"))).warnings
    assert "'book'" in found.message

    rt = Runtime(
        tools=[*tools(recorder), lookup],
        policies=[("r", FlowRule(mark="untrusted", unless_from=rule.sources[1]))],
    )
    (found,) = rt.verify(plan(call("b", "book"))).warnings
    assert "'path'" in found.message
