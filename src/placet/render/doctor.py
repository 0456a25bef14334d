"""What a machine enforces and what is set up, for people: facts, a table of protections, and what to do.

Keep true: each protection has a sentence for when it holds and one for when it does not, so that nobody has
to know what its name means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placet.render.text import duration
from placet.safe_text import clean

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_STYLES = {"kernel": "green", "watchdog": "yellow", "no": "red"}
_HELD = {
    "fs_write": "Nothing outside the workspace is changed.",
    "fs_read": "Home folders, other projects and what other processes hold are not read.",
    "net": "Nothing is sent to a host that was not allowed.",
    "unix_sockets": "No socket of another program is spoken to, such as Docker or ssh-agent.",
    "proc_kill": "No process outside is signalled or traced.",
    "pids": "No more processes run than are allowed.",
    "memory": "No more memory is used than is allowed.",
    "disk": "No more is written than is allowed.",
}
_OPEN = {
    "fs_write": "Commands can change whatever you can change.",
    "fs_read": "Commands can read whatever you can read, also keys.",
    "net": "Commands can speak to every host.",
    "unix_sockets": "Commands can speak to other programs, such as Docker or ssh-agent.",
    "proc_kill": "Commands can end or trace your other processes.",
    "pids": "Commands can start as many processes as you can.",
    "memory": "Commands can use all memory.",
    "disk": "Commands can fill the disk.",
}


def doctor_lines(found: Mapping[str, Any]) -> Iterable[RenderableType]:
    """A diagnosis: the facts around it, what is enforced, the other means, how to get more."""
    from rich.text import Text

    yield from _around(found)
    yield Text()
    line = Text("isolation: ")
    line.append(found["isolation"], style=_STYLES["kernel" if found["isolation"] == "process" else "no"])
    line.append(f", {_meaning(found)} ({_how(found)})")
    yield line
    yield from _required(found["required"])
    yield Text()
    yield _table(found["enforced"])
    yield Text()
    yield Text("means", style="dim")
    for means in found["means"]:
        yield _means(means)
    if found["remedies"]:
        yield Text()
        yield Text("to get more", style="dim")
        for words in found["remedies"]:
            yield Text(f"  - {clean(words, 1000)}")


def _around(found: Mapping[str, Any]) -> Iterable[Text]:
    from rich.text import Text

    rows = {
        "placet": found["placet"],
        "python": found["python"],
        "platform": f"{found['platform']}, as {found['user']}",
        "git": _program(found["git"]),
        "bubblewrap": _program(found["bubblewrap"]),
        "node": _node(found["node"], found["npx"]),
        "folder": found["folder"],
    }
    for name, words in rows.items():
        yield _row(name, words)
    yield Text()
    yield _row("project", *_project(found["project"]))
    yield _row("database", *_database(found["database"]))
    yield _row("model", *_model(found["models"]))
    yield from _extras(found["extras"])


def _row(name: str, words: str, style: str = "none") -> Text:
    from rich.text import Text

    line = Text(f"{name:<12}", style="dim")
    line.append(clean(words, 900), style=style)
    return line


def _node(node: Mapping[str, str], npx: Mapping[str, str]) -> str:
    if not node["path"]:
        return "not found; MCP servers that are started with npx need it"
    return f"{_program(node)}, npx {'(' + npx['path'] + ')' if npx['path'] else 'not found'}"


def _project(project: Mapping[str, Any]) -> tuple[str, str]:
    """What counts as the project, and how far it is trusted; and the style of that."""
    if project["problem"]:
        return f"cannot be read. {project['problem']}", "yellow"
    outer = f"; rules of {', '.join(project['outer'])} apply too" if project["outer"] else ""
    match project["by"]:
        case "":
            return (
                f"none: no .placet folder and no git repository here (create one: placet init){outer}",
                "none",
            )
        case "git":
            return (
                f"{project['folder']} (a git repository without .placet; create it: placet init){outer}",
                "none",
            )
    wants = "; ".join(f"it {want}" for want in project["wants"])
    words = {
        "nothing": ("nothing in it needs trust", "none"),
        "trusted": (f"trusted as it is now: {wants}", "none"),
        "changed": (
            f"changed since you trusted it, so this waits: {wants}. Look at it: placet trust",
            "yellow",
        ),
        "unknown": (f"not trusted, so this waits: {wants}. Look at it: placet trust", "yellow"),
    }
    said, style = words[project["trust"]]
    return f"{project['folder']} (has .placet), {said}{outer}", style


def _database(database: Mapping[str, Any]) -> tuple[str, str]:
    """Where runs are recorded, and whether that works; and the style of that."""
    by = {"PLACET_DB": "named by PLACET_DB", "project": "of the project", "user": "in your data folder"}
    where = f"{database['name']} ({by[database['source']]})".lstrip()
    if database["problem"]:
        return f"{where}: {database['problem']}", "yellow"
    if database["kind"] == "none":
        return "none: PLACET_DB says that nothing is recorded", "none"
    if database["kind"] == "postgres":
        return f"{where}; a server, which was not connected to", "none"
    if not database["exists"]:
        return f"{where}; the first run creates it", "none"
    parts = ", ".join(f"{part} {version}" for part, version in database["schema"].items()) or "empty"
    states = {
        "older": ("; older tables, which the next run brings up to date", "none"),
        "newer": ("; tables of a newer Placet, which this one cannot use", "yellow"),
    }
    said, style = states.get(database["schema_state"], ("", "none"))
    return f"{where}; opens, schema: {parts}{said}", style


def _model(models: Mapping[str, Any]) -> tuple[str, str]:
    """Which model would answer, and why; and the style of that."""
    chosen = models["chosen"]
    if models["problem"]:
        return f"not known. {models['problem']}", "yellow"
    if chosen is None:
        return models["advice"], "yellow"
    problem = f"; it cannot be asked: {chosen['problem']}" if chosen["problem"] else ""
    return f"{chosen['name']}, because {chosen['because']}{problem}", "yellow" if problem else "none"


def _extras(extras: Sequence[Mapping[str, Any]]) -> Iterable[Text]:
    from rich.text import Text

    there = [each["name"] for each in extras if each["installed"]]
    missing = [each for each in extras if not each["installed"]]
    words = ", ".join(there) or "none"
    yield _row(
        "extras", words + (f"; not installed: {', '.join(e['name'] for e in missing)}" if missing else "")
    )
    for each in missing:
        yield Text(f"            {each['name']}: {clean(each['install'], 600)}")


def _program(program: Mapping[str, str]) -> str:
    if not program["path"]:
        return "not found"
    return f"{program['version'] or 'no version told'} ({program['path']})"


def _meaning(found: Mapping[str, Any]) -> str:
    if found["isolation"] == "process":
        return f"commands are kept from what is outside the workspace, by {clean(found['by'])}"
    if found["by"] == "nothing":
        return "commands can do what you can do"
    return f"{clean(found['by'])} is used, and does not hold all that 'process' is made of"


def _how(found: Mapping[str, Any]) -> str:
    if found["found"] == "remembered":
        return f"remembered from {clean(found['found_at'])}; --again tries anew"
    return f"tried just now, in {duration(found['took_ms'])}"


def _required(required: Mapping[str, Any]) -> Iterable[Text]:
    from rich.text import Text

    if required["problem"]:
        yield Text(f"required here: not known. {clean(required['problem'], 600)}", style="yellow")
    elif required["level"] == "none":
        yield Text("required here: nothing")
    else:
        yield Text(f"required here: {required['level']}, by {clean(required['source'], 300)}")
    if required["lowered_to"] is not None:
        words = f"lowered to {required['lowered_to']} until {clean(required['until'])}"
        yield Text(f"  {words}; see: placet isolation list", style="yellow")


def _table(enforced: Mapping[str, str]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("protection", "held by", "that is"):
        table.add_column(heading, no_wrap=heading != "that is", overflow="fold")
    for name, how in enforced.items():
        table.add_row(Text(name), Text(how, style=_STYLES.get(how, "")), Text(_sentence(name, how)))
    return table


def _sentence(name: str, how: str) -> str:
    """What it means that a protection is held so.

    >>> _sentence("memory", "watchdog")
    'No more memory is used than is allowed, but for a moment: whatever exceeds it is seen and ended.'
    """
    if how == "no":
        return _OPEN.get(name, "")
    held = _HELD.get(name, "")
    if how == "watchdog":
        return f"{held.rstrip('.')}, but for a moment: whatever exceeds it is seen and ended."
    return held


def _means(means: Mapping[str, Any]) -> Text:
    from rich.text import Text

    line = Text("  ")
    line.append(f"{clean(means['by']):<11}", style="bold" if means["used"] else "")
    words = "used" if means["used"] else "not used"
    if means["tried"]:
        words += f", holds '{means['isolation']}'"
    line.append(f"{words}{': ' + clean(means['why'], 600) if means['why'] else ''}")
    return line
