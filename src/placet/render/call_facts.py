"""What confines a call and what undoes it, in words.

Keep true:
1. A call that is not known to be confined is never called so, and the same holds for what is undone.
2. What comes from elsewhere is cleaned here: the words can be shown as they are.
"""

from __future__ import annotations

from placet.ir.call_facts import Confinement, Recovery
from placet.safe_text import clean

_LONG = 300
_ELSEWHERE = "; what it does elsewhere stays"
_UNCONFINED = {
    "program": "runs as you",
    "python": "runs as you, as a Python function in Placet's own process",
}
_HERE = {
    "model": "it is sent to the model and changes nothing here",
    "state": "it changes the state of its run and nothing else",
}


def format_confinement(found: Confinement) -> str:
    """Say what is enforced around a call.

    >>> sandbox = Confinement(runs_in="sandbox", isolation="process", by="bubblewrap", network="none")
    >>> format_confinement(sandbox)
    'confined: process (bubblewrap), no network'
    >>> format_confinement(Confinement(runs_in="program"))
    'not confined: runs as you'
    """
    runs_in = found.runs_in
    if runs_in == "unknown":
        return f"confinement not known: {clean(found.why, _LONG)}"
    if runs_in == "server":
        return f"not confined: {clean(found.why, _LONG)}"
    if runs_in in _UNCONFINED:
        copy = ", in a private copy of the files" if found.isolation == "changes" else ""
        return f"not confined: {_UNCONFINED[runs_in]}{copy}"
    if runs_in in _HERE:
        return f"confined: {_HERE[runs_in]}"
    network = _network(found)
    if runs_in == "placet":
        if found.folder is None:
            return f"confined: changes no files, {network}"
        return f"confined to the folder {clean(found.folder, _LONG)}, {network}"
    by = clean(found.by, 40)
    if found.isolation == "process":
        return f"confined: process ({by}), {network}"
    held = "writes only in its folder" if found.folder is not None else "may write anywhere"
    return f"not confined to the level process: {held}, {network} ({by})"


def _network(found: Confinement) -> str:
    match found.network:
        case "none":
            return "no network"
        case "any":
            return "any network"
        case _:
            hosts = [clean(each, 60) for each in found.hosts]
            if "*" in hosts:
                return "network: public hosts"
            return f"network: {', '.join(hosts[:5])}{' and more' if len(hosts) > 5 else ''}"


def format_recovery(found: Recovery) -> str:
    """Say how a call is undone.

    >>> format_recovery(Recovery(by="snapshot", command="/undo"))
    '/undo restores the folder, until the next message'
    >>> format_recovery(Recovery(by="none", why="git does not track this file"))
    'nothing undoes it: git does not track this file'
    """
    command, rest = clean(found.command, _LONG), _ELSEWHERE if found.scope == "folder" else ""
    match found.by:
        case "not_needed":
            return "nothing to undo"
        case "rollback":
            return "the state is rolled back if the plan is aborted"
        case "compensation":
            return f"'{command}' undoes it if the plan is aborted"
        case "snapshot" if command:
            return f"{command} restores the folder, until the next message{rest}"
        case "snapshot":
            return f"the folder is restored if the plan is aborted{rest}"
        case "git":
            return f"with git: {command}"
        case "delete":
            return f"delete the new file: {command}"
        case "copy":
            return f"it works in a private copy; your files change only when you publish it{rest}"
        case "declared":
            return "its tool declares that it can be undone, not how"
        case _:
            why = clean(found.why, _LONG)
            return f"nothing undoes it: {why}" if why else "nothing undoes it"


def is_safe(confinement: Confinement | None, recovery: Recovery | None) -> tuple[bool, bool]:
    """Whether a call is known to be confined, and to be undone: what is not is to be seen at a glance."""
    is_confined = confinement is not None and format_confinement(confinement).startswith("confined")
    return is_confined, recovery is not None and recovery.by != "none"
