"""What a run began with, for whoever goes on with it: found again by what was kept, and judged anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from placet.durable.sql import RunSummary
    from placet.ir.json_value import JsonValue
    from placet.sandbox.isolation import Level


class Beginning(NamedTuple):
    """How a run was set up; what is named anew goes before it."""

    tools: str | None
    policies: str | None
    permissions: str | None
    model: str | None
    isolation: Level | None
    """What it had to have."""
    folder: Path | None
    """Where it began: the rules and settings of that folder hold. None where that is gone."""


def beginning_of(
    summary: RunSummary,
    *,
    say: Callable[[str], None],
    tools: str | None,
    policies: str | None,
    model: str | None,
    db: str | None,
) -> Beginning:
    """How a run was set up, with what is named anew. `say` is told of what is not as it was.

    Raises:
        UsageError: its file of tools has changed, and was not named anew.
    """
    from placet.app.app import digest_of
    from placet.errors import UsageError
    from placet.render.advice import db_words, name_words
    from placet.sandbox.isolation import LEVELS

    context = summary.context
    began_with = _text(context.get("tools")) if tools is None else None
    if began_with is not None and digest_of(began_with) not in (None, context.get("tools_sha256")):
        # Loading it runs it, and whoever changed it may have been the run itself.
        raise UsageError(
            f"{began_with} is not what it was when the run began. Look at it, then name it: "
            f"placet resume {name_words(summary.run_id)} --tools {name_words(began_with)}{db_words(db)}"
        )
    return Beginning(
        tools=tools or began_with,
        policies=policies or _text(context.get("policies")),
        permissions=_text(context.get("permissions")),
        model=model or _text(context.get("model")),
        isolation=next((level for level in LEVELS if level == context.get("isolation")), None),
        folder=_folder(say, _text(context.get("folder"))),
    )


def _folder(say: Callable[[str], None], began: str | None) -> Path | None:
    from pathlib import Path

    if began is None or Path(began).is_dir():
        return Path(began) if began is not None else None
    say(f"Note: the folder that the run began in is gone ({began}); the rules of this one hold.")
    return None


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
