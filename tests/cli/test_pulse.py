"""The sign of life while a model is asked."""

from __future__ import annotations

from placet.cli.pulse import Pulse


class Screen:
    """A terminal's line, as it stands after all that was written."""

    def __init__(self) -> None:
        self.line = ""
        self.written = ""

    def write(self, text: str) -> None:
        self.written += text
        for piece in text:
            self.at = 0 if piece == "\r" else getattr(self, "at", 0)
            if piece != "\r":
                self.line = self.line[: self.at] + piece + self.line[self.at + 1 :]
                self.at += 1


def pulse_on(screen: Screen, *, is_terminal: bool) -> Pulse:
    pulse = Pulse(screen.write, is_terminal=is_terminal, is_dim=False)
    pulse.model = "local\x1b[2J"
    return pulse


def test_on_a_terminal_it_comes_soon_and_is_gone_when_something_else_comes() -> None:
    screen = Screen()
    pulse = pulse_on(screen, is_terminal=True)

    pulse.ask(now=100.0)
    pulse.look(101.5)
    assert screen.written == ""
    pulse.look(112.0)
    assert screen.line.rstrip() == "asking local\\e[2J, 12 s"
    pulse.think()
    pulse.look(113.0)
    assert screen.line.rstrip() == "thinking: local\\e[2J, 13 s"
    pulse.stop()

    assert screen.line.strip() == ""
    pulse.look(200.0)
    assert screen.line.strip() == ""


def test_without_a_terminal_it_is_one_line_each_time_that_it_takes_long() -> None:
    screen = Screen()
    pulse = pulse_on(screen, is_terminal=False)

    for begun in (0.0, 100.0):
        pulse.ask(now=begun)
        for passed in (1.0, 5.0, 20.0, 30.0, 60.0):
            pulse.look(begun + passed)
    pulse.stop()

    assert screen.written == "asking local\\e[2J, 20 s so far\n" * 2


def test_any_wait_is_told_within_two_seconds_and_counts_on() -> None:
    screen = Screen()
    pulse = pulse_on(screen, is_terminal=True)

    pulse.wait("running the check x", now=100.0)
    pulse.look(101.9)
    assert screen.line.rstrip() == "running the check x, 2 s"
    pulse.look(104.0)
    assert screen.line.rstrip() == "running the check x, 4 s"
    pulse.ask(now=104.0)
    pulse.look(106.0)

    assert screen.line.rstrip() == "asking local\\e[2J, 2 s"


def test_a_model_that_is_loaded_first_is_said_to_be_once() -> None:
    screen = Screen()
    pulse = pulse_on(screen, is_terminal=True)
    pulse.is_to_load = True

    for begun in (0.0, 10.0):
        pulse.ask(now=begun)
        pulse.look(begun + 2.0)

    assert "loading and asking" in screen.written
    assert screen.line.startswith("asking ")


def test_while_a_person_is_asked_it_is_quiet() -> None:
    screen = Screen()
    pulse = pulse_on(screen, is_terminal=True)
    pulse.wait("something", now=0.0)
    pulse.look(2.0)

    with pulse.pause():
        pulse.look(3.0)
        assert screen.line.strip() == ""
    pulse.look(4.0)

    assert screen.line.rstrip() == "something, 4 s"
