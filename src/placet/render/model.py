"""Models for people: what is on this machine, who else could be asked, and how a trial went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.render.text import duration
from placet.safe_text import clean

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_MB = 1_000_000


def model_lines(found: Mapping[str, Any]) -> Iterable[RenderableType]:
    """All models that are known of: those of this machine, providers, and which one would answer."""
    from rich.text import Text

    yield Text("on this machine", style="dim")
    for model in found["models"]:
        yield from _on_machine(model)
    yield Text()
    yield _providers(found["providers"])
    yield Text()
    if found["roles"]:
        yield Text("roles, from your settings", style="dim")
        for each in found["roles"]:
            yield from _role(each)
        yield Text()
    chosen = found["chosen"]
    if chosen is None:
        yield Text(clean(found["advice"], 600), style="yellow")
    else:
        line = Text("chosen: ")
        line.append(clean(chosen["name"], 200), style="bold")
        line.append(f" ({clean(chosen['because'], 200)})")
        yield line
        yield from _problem(chosen)


def _role(role: Mapping[str, Any]) -> Iterable[Text]:
    from rich.text import Text

    line = Text("  ")
    line.append(f"{role['role']:<9}", style="bold")
    line.append(", then ".join(clean(each["name"], 200) for each in role["models"]))
    yield line
    for each in role["models"]:
        yield from _problem(each, of=f"{clean(each['name'], 200)}: ")


def _problem(model: Mapping[str, Any], *, of: str = "") -> Iterable[Text]:
    from rich.text import Text

    if model["problem"]:
        yield Text(f"         {of}it cannot be asked: {clean(model['problem'], 600)}", style="yellow")


def _on_machine(model: Mapping[str, Any]) -> Iterable[Text]:
    from rich.text import Text

    line = Text("  ")
    line.append(f"{model['name']:<7}", style="bold")
    line.append("there" if model["there"] else "not there", style="green" if model["there"] else "yellow")
    line.append(
        f", {clean(model['title'])}, {megabytes(model['size'])} on the disk, "
        f"{megabytes(model['memory'])} of memory, {clean(model['licence'])}"
    )
    if model["serving"]:
        line.append(", running")
    yield line
    yield Text(f"         Good for {clean(model['good_for'], 300)}.")
    if not model["there"]:
        if model["here"]:
            here = f"{megabytes(model['here'])} of {megabytes(model['size'])} are here"
            yield Text(f"         {here}. Go on: placet model pull {model['name']}")
        else:
            fetch = f"Fetch it ({megabytes(model['download'])})"
            yield Text(f"         {fetch}: placet model pull {model['name']}")
    if model["install"]:
        yield Text(f"         It needs the extra `{model['extra']}`. Install it with:")
        yield Text(f"         {clean(model['install'], 600)}")
    for path in model["paths"] if model["there"] else ():
        yield Text(f"         {clean(path, 600)}", style="dim")


def _providers(providers: Sequence[Mapping[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("provider", "key", "at"):
        # An address is copied, so that the words about the key give way.
        table.add_column(heading, no_wrap=heading != "key", overflow="fold")
    for each in providers:
        variables = " or ".join(clean(name) for name in each["variables"])
        if not each["needs_key"]:
            key = Text(f"{each['variable_set']} is set" if each["variable_set"] else "none needed")
        elif each["variable_set"]:
            key = Text(f"{clean(each['variable_set'])} is set", style="green")
        else:
            key = Text(f"{variables} is not set", style="yellow")
        table.add_row(Text(clean(each["name"])), key, Text(clean(each["url"], 300)))
    return table


def trial_lines(trial: Mapping[str, Any]) -> Iterable[RenderableType]:
    """How each question went, and what it took."""
    from rich.text import Text

    title = Text(clean(trial["model"], 200), style="bold")
    if trial["answered_by"] and trial["answered_by"] != trial["model"]:
        title.append(f" (calls itself {clean(trial['answered_by'], 200)})", style="none")
    yield title
    for each in trial["tries"]:
        line = Text("  ")
        line.append("right" if each["is_right"] else "wrong", style="green" if each["is_right"] else "red")
        line.append(f"  {each['what']:<18}")
        line.append(clean(each["problem"] or each["came"] or "(nothing)", 300))
        yield line
        if took := _took(each):
            yield Text(f"         {took}", style="dim")
    cost = trial["cost"]
    yield Text(f"cost: {'not known' if cost is None else f'${cost:.6f}'}")


def _took(each: Mapping[str, Any]) -> str:
    words = [duration(each["latency_ms"])] if each["latency_ms"] is not None else []
    usage = each["usage"] or {}
    for name, verb in (("input", "read"), ("output", "written")):
        if usage.get(name) is not None:
            words.append(f"{usage[name]:,} tokens {verb}")
    if each["tokens_per_s"] is not None:
        words.append(f"{each['tokens_per_s']:.1f} tokens a second")
    return ", ".join(words)


def megabytes(count: int) -> str:
    """A number of bytes for people.

    >>> megabytes(1_117_320_768), megabytes(231_508)
    ('1,117 MB', '0.2 MB')
    """
    return f"{count / _MB:,.1f} MB" if count < 10 * _MB else f"{count / _MB:,.0f} MB"
