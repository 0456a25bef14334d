"""How an assistant's run ended, in words for the terminal, with what can be done next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.app.stories import Asked
    from placet.turns.ending import Ending

_WORDS = {
    "success": ("✓", "done"),
    "max_turns": ("◐", "out of turns"),
    "cancelled": ("■", "stopped"),
    "error": ("✗", "failed"),
    "stuck": ("✗", "stuck"),
    "budget": ("■", "out of budget"),
    "waiting": ("?", "waiting for a person"),
    "unmet": ("◐", "goal not met"),
    "unsupported": ("!", "answered without support"),
}
_LONG = 600
_NAMES = 5
_MOST = 20
"""Of more that is waited for, the rest is counted."""


def exit_code(ending: Ending, signal: int = 0) -> int:
    """The number that says how it ended; `signal` is what stopped it."""
    if ending.status == "success":
        return 0
    if signal:
        return 128 + signal
    return 4 if ending.status == "waiting" else 1


def spent_words(ending: Ending) -> str:
    """How much it took.

    >>> from placet.inference.usage import Usage
    >>> from placet.turns.ending import Ending
    >>> spent_words(Ending(status="success", summary="", turns=2, usage=Usage(input=1200, output=30)))
    '2 turns, 1,200 tokens read, 30 written'
    """
    from placet.render.text import count

    # Where it only waits, the turns before are not counted anew: none is not what there were.
    facts = [count(ending.turns, "turn")] if ending.turns or ending.status != "waiting" else []
    usage = ending.usage
    if usage is not None and usage.input is not None:
        facts.append(f"{count(usage.input, 'token')} read")
    if usage is not None and usage.output is not None:
        facts.append(f"{usage.output:,} written")
    if ending.cost_usd:
        facts.append(f"${ending.cost_usd:.4f}")
    return ", ".join(facts)


def ending_lines(
    ending: Ending,
    *,
    db: str | None,
    is_kept: bool,
    goes_on: str,
    in_flight: Mapping[str, Asked] | None = None,
) -> Iterator[str]:
    """How it ended and what to do next. `goes_on` is the command that goes on with it, without the id;
    `in_flight` are the calls of which it is not known what became of them."""
    from placet.render.advice import db_words, name_words
    from placet.safe_text import clean

    sign, word = _WORDS[ending.status]
    why = f": {clean(ending.error, 1000)}" if ending.error else ""
    spent = spent_words(ending)
    yield f"{sign} {word}{refused_words(ending)}{why}{f' ({spent})' if spent else ''}"
    if rests := basis_words(ending):
        yield f"  {rests}"
    if ending.is_cut_off:
        yield "  The answer ran into the limit on its length, and is cut off."
    yield from unasked_lines(ending)
    if not is_kept:
        return
    run, place = name_words(ending.run_id), db_words(db)
    yield from waiting_lines(ending, run, place, goes_on, in_flight or {})
    if ending.status in ("cancelled", "error"):
        yield f"  go on: {goes_on} {run}{place}"
    yield f"  story: placet explain {run}{place}"


def unasked_lines(ending: Ending) -> Iterator[str]:
    """What needed an approval when nothing was kept, so that nobody could be asked; and which tools the
    required isolation withheld."""
    from placet.safe_text import clean

    if ending.withheld:
        kept_back = [clean(name, 40) for name in ending.withheld[:_NAMES]]
        trusted = ", ".join(f'"{name}"' for name in kept_back)
        yield f"  Not offered, because it runs outside of every sandbox: {', '.join(kept_back)}."
        yield f"  To trust it: trusted_tools = [{trusted}] under [isolation] in your own settings.toml"
    if not ending.unasked:
        return
    needs = [f"{clean(name, 40)} needs {tier or 'an approval'}" for name, tier in ending.unasked.items()]
    more = f" and {len(needs) - _NAMES:,} more" if len(needs) > _NAMES else ""
    posture = "full_access" if "full_access" in ending.unasked.values() else "sandbox_edit"
    yield f"  Nobody could be asked: {', '.join(needs[:_NAMES])}{more}."
    is_enough = "" not in ending.unasked.values()
    allow = f" To allow it without being asked: --yes-to {posture}" if is_enough else ""
    yield f"  To be asked, leave out --db none.{allow}"


def basis_words(ending: Ending) -> str:
    """On which calls the answer rests.

    >>> from placet.turns.ending import Ending
    >>> basis_words(Ending(status="success", summary="", looked=("t1c1", "t2c1"), ran=("t3c1",)))
    'rests on 3 calls: looked 2 (t1c1, t2c1), ran 1 (t3c1)'
    >>> basis_words(Ending(status="success", summary=""))
    'rests on no calls'
    """
    from placet.render.text import basis_text

    if ending.status not in ("success", "unsupported", "max_turns"):
        return ""
    return f"rests on {basis_text(ending.looked, ending.changed, ending.ran)}"


def refused_words(ending: Ending) -> str:
    """That calls were refused, where the model says that it was done.

    >>> from placet.turns.ending import Ending
    >>> refused_words(Ending(status="success", summary="", refused=("shell", "shell")))
    '; 2 calls were refused (shell)'
    """
    from placet.render.text import count
    from placet.safe_text import clean

    if ending.status not in ("success", "unsupported") or not ending.refused:
        return ""
    names = [clean(name, 40) for name in dict.fromkeys(ending.refused)]
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    were = count(len(ending.refused), "call was", "calls were")
    return f"; {were} refused ({', '.join(names[:_NAMES])}{more})"


def decide_lines(approval: str, place: str) -> Iterator[str]:
    """How to answer one question; `place` is the option that names the database."""
    from placet.render.advice import name_words

    name = name_words(approval)
    yield f"    see it:   placet approvals show {name}{place}"
    yield f"    allow it: placet approvals approve {name}{place}"
    yield f"    deny it:  placet approvals deny {name}{place} --reason TEXT"


def waiting_lines(
    ending: Ending, run: str, place: str, goes_on: str, in_flight: Mapping[str, Asked]
) -> Iterator[str]:
    """What has to be decided, and how."""
    import shlex

    from placet.render.calls import given_words
    from placet.safe_text import clean

    unknown = [each.action_id for each in ending.waiting if each.kind == "unknown_outcome"]
    asked = [each for each in ending.waiting if each.kind == "approval"]
    for each in asked[:_MOST]:
        name = each.approval or "ID"
        yield f"  decide about {clean(each.action_id, 60)}: {clean(each.reason, 300)}"
        yield from decide_lines(name, place)
    if len(asked) > _MOST:
        yield f"  and {len(asked) - _MOST:,} more: placet approvals list --run {run}{place}"
    if unknown:
        names = ", ".join(clean(name, 60) for name in unknown[:_MOST])
        yield f"  It is not known whether {names} took effect."
        for name in unknown[:_MOST]:
            if name in in_flight:
                tool, parameters = in_flight[name]
                words = clean(given_words(parameters), _LONG)
                yield f"    {clean(name, 60)}: {clean(tool, 60)}{f' with {words}' if words else ''}"
        yield "  Look, then say: done (it did), retry (do it again) or fail (it did not, and shall not)."
        given = " ".join(f"--decide {shlex.quote(f'{clean(name)}=CHOICE')}" for name in unknown[:_MOST])
        yield f"  go on: placet resume {run}{place} {given}"
    elif asked:
        yield f"  then go on: {goes_on} {run}{place}"
