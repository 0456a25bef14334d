"""Name the command that adds an optional extra to this installation of Placet.

Keep true:
1. No command asks a package index for Placet itself: it is not published, and the name could be a stranger's.
2. A command works as printed, in a shell, for the Python that is running.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping

DISTRIBUTION = "placet"
EXTRAS: Mapping[str, str] = {
    "durable": "dbos",
    "embed": "onnxruntime",
    "local": "xllamacpp",
    "mcp": "mcp",
    "otel": "opentelemetry.exporter.otlp.proto.http",
    "postgres": "psycopg",
    "server": "uvicorn",
    "temporal": "temporalio",
}
"""Each extra, and the module by which it is known to be installed."""


def is_installed(extra: str) -> bool:
    """Return whether an extra is installed. Nothing of it is imported."""
    return has_module(EXTRAS[extra])


def has_module(name: str) -> bool:
    """Return whether a module can be imported, without importing it. (Its packages are.)"""
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def install_command(extra: str) -> str:
    """Return the shell command that installs an extra from where this Placet came from.

    That is a clone, a wheel or sdist file, or a version control address. Where this is not recorded, or no
    longer there, the command is the one to type in a clone, and says so.
    """
    pip = [sys.executable or "python", "-m", "pip", "install"]
    found = _requirement(extra)
    if found is None:
        return f"{shlex.join([*pip, f'.[{extra}]'])} (in a clone of Placet)"
    return shlex.join([*pip, *found])


def _requirement(extra: str) -> list[str] | None:
    """Return pip's arguments for the recorded origin of this installation, None if there is none."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "null")
        url = origin["url"]
    except (PackageNotFoundError, ValueError, TypeError, KeyError):
        return None
    named = f"{DISTRIBUTION}[{extra}] @ "
    if vcs := origin.get("vcs_info"):
        return [f"{named}{vcs['vcs']}+{url}@{vcs['commit_id']}"]
    address = urlsplit(url)
    path = Path(unquote(address.path))
    if address.scheme == "file" and not path.exists():
        return None
    if "dir_info" in origin:
        return [*(["-e"] if origin["dir_info"].get("editable") else []), f"{path}[{extra}]"]
    return [f"{named}{url}"]
