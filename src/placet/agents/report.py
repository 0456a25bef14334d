"""What came of an agent's scenarios, as data: for people, as JSON, and as JUnit XML.

Keep true:
1. A scenario counts as passed if all its runs passed: pass^k. One that never ran has not passed.
2. Whatever a model wrote, the XML parses: what XML cannot hold is shown as an escape.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import msgspec

from placet.inference.usage import Usage
from placet.ir.json_value import JsonValue
from placet.safe_text import clean

SHOWN = 300
"""Characters of an answer that a report has."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one scenario."""

    number: int
    """From 1 to k."""
    passed: bool
    failures: tuple[str, ...] = ()
    """What was expected and what came."""
    status: str
    """How the agent's run ended."""
    output: str = ""
    """The last answer, cut."""
    called: tuple[str, ...] = ()
    turns: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    run_id: str = ""


class ScenarioReport(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one scenario."""

    name: str
    input: str
    """The first message, cut."""
    trials: tuple[Trial, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all runs passed."""
        return bool(self.trials) and all(trial.passed for trial in self.trials)

    @property
    def times(self) -> int:
        """How many runs passed."""
        return sum(trial.passed for trial in self.trials)

    @property
    def failures(self) -> list[str]:
        """What went wrong, each thing once, in order."""
        return list(dict.fromkeys(each for trial in self.trials for each in trial.failures))


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all scenarios of an agent."""

    agent: str
    k: int
    model: str = ""
    scenarios: tuple[ScenarioReport, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> int:
        """How many scenarios passed in all their runs."""
        return sum(each.passed for each in self.scenarios)

    @property
    def all_passed(self) -> bool:
        """Whether every scenario did, and there is one."""
        return bool(self.scenarios) and self.passed == len(self.scenarios)

    @property
    def tokens(self) -> int | None:
        """What all answers took; None where one does not say."""
        return summed([trial.tokens for each in self.scenarios for trial in each.trials])

    @property
    def cost_usd(self) -> float | None:
        """What they cost; None where that is not known of one."""
        costs = [trial.cost_usd for each in self.scenarios for trial in each.trials]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost)

    @property
    def failures(self) -> list[str]:
        """What went wrong, scenario by scenario."""
        return [f"scenario '{each.name}': {why}" for each in self.scenarios for why in each.failures]

    def as_json(self) -> dict[str, JsonValue]:
        """The same as JSON, with what follows from it."""
        data: dict[str, JsonValue] = msgspec.to_builtins(self)
        for each, made in zip(self.scenarios, data["scenarios"], strict=True):
            made |= {"passed": each.passed, "times": each.times}
        return data | {
            "passed": self.passed,
            "of": len(self.scenarios),
            "all_passed": self.all_passed,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
        }


def summed(numbers: Sequence[int | None]) -> int | None:
    """All together; None where one is not known."""
    return None if any(each is None for each in numbers) else sum(each for each in numbers if each)


def tokens_of(usage: Usage | None) -> int | None:
    """What an answer took, read and written; None where nobody says."""
    return usage.total if usage is not None else None


def junit(reports: Sequence[Report]) -> str:
    """Reports as JUnit XML: a suite for each agent, a case for each run of a scenario."""
    top = ElementTree.Element("testsuites", name="placet agents")
    totals = [0, 0, 0.0]
    for report in reports:
        suite = ElementTree.SubElement(top, "testsuite", name=_xml(report.agent))
        tests = failed = 0
        for each in report.scenarios:
            for trial in each.trials:
                several = f" [{trial.number} of {report.k}]" if report.k > 1 else ""
                case = ElementTree.SubElement(
                    suite,
                    "testcase",
                    classname=_xml(report.agent),
                    name=_xml(each.name + several),
                    time=f"{trial.seconds:.3f}",
                )
                tests += 1
                if not trial.passed:
                    failed += 1
                    said = trial.failures or ("it did not pass",)
                    failure = ElementTree.SubElement(
                        case, "failure", message=_xml(said[0]), type=trial.status
                    )
                    failure.text = _xml("\n".join(said))
                if trial.output:
                    ElementTree.SubElement(case, "system-out").text = _xml(trial.output)
        _count(suite, tests, failed, report.seconds)
        totals = [totals[0] + tests, totals[1] + failed, totals[2] + report.seconds]
    _count(top, int(totals[0]), int(totals[1]), totals[2])
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"


def _count(element: ElementTree.Element, tests: int, failed: int, seconds: float) -> None:
    for name, value in (("tests", tests), ("failures", failed), ("errors", 0), ("skipped", 0)):
        element.set(name, str(value))
    element.set("time", f"{seconds:.3f}")


def _xml(text: str) -> str:
    """A text that XML can hold: neither controls, nor half characters, nor the two that XML leaves out."""
    plain = clean(text, lines=True, tabs=True)
    return "".join(
        f"\\u{ord(each):04x}" if 0xD800 <= ord(each) <= 0xDFFF or ord(each) in (0xFFFE, 0xFFFF) else each
        for each in plain
    )
