"""`placet trust`: look at what a folder brings, and let it take effect; or take that back."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from placet.cli.inputs import folder_names, json_option, not_empty
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from placet.app.governance import Question

_SHOWN = 20
"""Files that are listed one by one."""


@click.command(short_help="Trust what a project's .placet folder brings.")
@click.argument("path", required=False, callback=not_empty, shell_complete=folder_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "is_list", is_flag=True, help="List trusted folders, and whether each is as it was.")
@click.option("--forget", "is_forget", is_flag=True, help="Take trust back; also from a folder that is gone.")
@json_option
@click.pass_obj
def trust(output: Output, path: str | None, yes: bool, is_list: bool, is_forget: bool, as_json: bool) -> int:
    """Show what the .placet folder in PATH brings and, if you agree, let it take effect.

    Needed for code that a project brings, and for permissions that are milder than your own; rules that deny
    apply without it. Trust is for what is there now: when a file changes, you are asked again. Without PATH:
    the nearest project above the working directory.

    Exit codes: 0 done, 1 you said no, 2 bad input, or nobody is there to be asked.
    """
    output.claim()
    from placet.app.governance import examine
    from placet.app.trust import is_trusted
    from placet.app.trust import trust as remember

    if is_list and (path is not None or yes or is_forget):
        raise click.UsageError("--list goes with --json only.")
    if is_forget and yes:
        raise click.UsageError("--forget and --yes do not go together.")
    if is_list:
        return _list(output, as_json)
    if is_forget:
        return _forget(output, _folder(path), as_json)
    question = examine(_folder(path), os.environ)
    was_trusted = is_trusted(question.seen, os.environ)
    is_agreed = was_trusted or yes or _agreed(output, question)
    if is_agreed and not was_trusted:
        remember(question.seen, os.environ)
    if as_json:
        output.show_json({**_as_data(question), "trusted": is_agreed})
        return 0 if is_agreed else 1
    if yes and not was_trusted:
        _show(output, question)
    words = "Not trusted: nothing was changed."
    if is_agreed:
        words = "It was trusted before, as it is now." if was_trusted else "Trusted, as it is now."
    output.talk(f"{question.folder}: {words}")
    return 0 if is_agreed else 1


def terminal_question(output: Output) -> Callable[[Question], bool] | None:
    """What asks the person in front of the terminal, for `gather`; None if there is nobody."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def confirm(question: Question) -> bool:
        with output.asking():
            _show(output, question)
            return click.confirm("Trust it, as it is now?", default=False, err=True)

    return confirm


def _agreed(output: Output, question: Question) -> bool:
    from placet.errors import TrustError

    confirm = terminal_question(output)
    if confirm is None:
        raise TrustError(
            str(question.folder),
            "is not trusted yet, and there is no terminal to ask on",
            "Look at what it brings, then add --yes.",
        )
    return confirm(question)


def _show(output: Output, question: Question) -> None:
    """What a person has to know to answer, beside the result."""
    from placet.render.text import count
    from placet.safe_text import clean

    files = question.seen.files
    changed = " It has changed since you trusted it." if question.is_changed else ""
    lines = [f"The folder {clean(question.folder)} brings {count(len(files), 'file')} in .placet:{changed}"]
    lines += [f"  {size(len(data)):>9}  {clean(name)}" for name, data in list(files.items())[:_SHOWN]]
    if len(files) > _SHOWN:
        lines.append(f"  and {len(files) - _SHOWN:,} more; --json names all")
    lines += [f"It {clean(want)}." for want in question.wants] or ["Nothing in it needs trust so far."]
    output.talk("\n".join(lines))


def size(number: int) -> str:
    """How much a file holds, as people say it.

    >>> size(12), size(2048), size(3 * 1024 * 1024)
    ('12 B', '2.0 kB', '3.0 MB')
    """
    if number < 1024:
        return f"{number} B"
    return f"{number / 1024:.1f} kB" if number < 1024**2 else f"{number / 1024**2:.1f} MB"


def _folder(path: str | None) -> Path:
    """The folder that holds `.placet`: the named one, or the nearest."""
    from pathlib import Path

    from placet.errors import InputError
    from placet.storage.location import PROJECT_FOLDER, project_folder

    if path is not None:
        named = Path(path)
        return named.parent if named.name == PROJECT_FOLDER else named
    found = project_folder(Path.cwd())
    if found is None:
        raise InputError(
            f"There is no {PROJECT_FOLDER} folder in {Path.cwd()}, nor above it. Name the project's folder, "
            "or create one with `placet init`."
        )
    return found.parent


def _forget(output: Output, folder: Path, as_json: bool) -> int:
    from placet.app.trust import forget, real

    was_trusted = forget(folder, os.environ)
    name = str(real(folder))
    if as_json:
        output.show_json({"folder": name, "forgotten": was_trusted})
    else:
        output.talk(f"{name}: {'No longer trusted.' if was_trusted else 'It was not trusted.'}")
    return 0


def _list(output: Output, as_json: bool) -> int:
    from pathlib import Path

    from placet.app.trust import trusted_folders

    found = [
        {"folder": name, "status": _status(Path(name)), "time": known.time, "digest": known.digest}
        for name, known in trusted_folders(os.environ).items()
    ]
    if as_json:
        output.show_json({"folders": found})
        return 0
    if not found:
        output.talk("No folder is trusted.")
        return 0
    from placet.render.path_table import path_table

    headings = {"folder": "folder", "status": "now", "time": "trusted (UTC)"}
    output.show(*path_table(found, headings, output.width))
    return 0


def _status(folder: Path) -> str:
    """How a trusted folder compares with what was trusted."""
    from placet.app.trust import is_trusted, snapshot
    from placet.errors import TrustError
    from placet.storage.location import PROJECT_FOLDER

    try:
        if not (folder / PROJECT_FOLDER).is_dir():
            return "gone"
        return "as trusted" if is_trusted(snapshot(folder), os.environ) else "changed"
    except (OSError, TrustError):
        return "unreadable"


def _as_data(question: Question) -> dict[str, Any]:
    files = [{"path": name, "bytes": len(data)} for name, data in question.seen.files.items()]
    return {
        "folder": str(question.folder),
        "digest": question.seen.digest,
        "files": files,
        "wants": list(question.wants),
        "changed": question.is_changed,
    }
