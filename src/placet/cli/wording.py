"""Words that only the command line can find: the runtime does not know which option was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.errors import InputError
    from placet.ir.result import ProposalResult
    from placet.verify.report import Report

_NO_TOOLS = "it is not built in; add --tools FILE"


def say_no_tools(text: str) -> str:
    """What is said of an unknown tool, where only those are known that come with Placet.

    >>> say_no_tools("unknown tool 'x': no tool here has that name")
    "unknown tool 'x': it is not built in; add --tools FILE"
    """
    from placet.errors import NO_SUCH_TOOL

    return text.replace(NO_SUCH_TOOL, _NO_TOOLS) if "unknown tool '" in text else text


def say_no_tools_in_report(report: Report) -> Report:
    """The report, with that in every finding."""
    from msgspec.structs import replace

    return replace(
        report, issues=[replace(issue, message=say_no_tools(issue.message)) for issue in report.issues]
    )


def say_no_tools_in_result(result: ProposalResult) -> ProposalResult:
    """The result, with that in every error."""
    from msgspec.structs import replace

    return replace(
        result,
        error=None if result.error is None else say_no_tools(result.error),
        results=[
            found if found.error is None else replace(found, error=say_no_tools(found.error))
            for found in result.results
        ],
    )


def no_events(run: str, db: str | None) -> InputError:
    """What is said of a run that is kept, and of which nothing can be told."""
    from placet.errors import InputError
    from placet.render.advice import db_words, name_words

    return InputError(
        f"Run '{run}' is kept, but none of its events are: they were pruned, or its process died before the "
        f"first was on disk. See: placet runs show {name_words(run)}{db_words(db)}"
    )
