"""One run as one HTML file."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from placet.events.event import Event
from placet.events.run_view import RunFold
from placet.render.run_page import run_page

NASTY = st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</pre></svg><iframe src='https://evil.example'>",
        "javascript:alert(1)",
        "\u202egnp.exe",
        "\x1b[31mred",
        "&lt;b&gt;",
    ]
)
KNOWN = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "dl", "dt", "dd", "pre", "div", "p"),
    *("svg", "path", "g", "rect", "text", "table", "thead", "tbody", "tr", "th", "td"),
}


class Seen(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.lists(NASTY, min_size=8, max_size=8))
def test_nothing_of_a_run_becomes_markup_or_is_fetched(texts: list[str]) -> None:
    tool, action, error, source, story, key, name, run = texts
    events = [
        Event(1, "proposal_received", 1.0, run, name, data={"source": source, "action_count": 1}),
        Event(2, "action_executing", 2.0, run, name, action, data={"tool": tool, "parameters": {key: error}}),
        Event(3, "policy_violation", 3.0, run, name, action, data={"error": error, "tool": tool}),
        Event(4, "proposal_ended", 4.0, run, name, data={"outcome": error, "error": error}),
    ]

    page = run_page(RunFold.of(run, events).view, [story], events, made_at=5.0)

    seen = Seen()
    seen.feed(page)
    assert seen.tags <= KNOWN
    assert not any(each.startswith("on") or each in ("src", "href", "action") for each in seen.attributes)
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert story.partition("\x1b")[0].partition("\u202e")[0] in seen.text


def test_page_forbids_itself_scripts_and_the_network() -> None:
    page = run_page(RunFold("r").view, [], [], made_at=0.0)

    assert "default-src 'none'" in page
    assert "script-src" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
