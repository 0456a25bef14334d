"""The environment that a command gets: what programs need to work, and nothing that is a secret.

The host's environment often holds keys and tokens. A list of what to take away would miss the next one, so
this is a list of what is passed on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

PASSED_ON: dict[str, str] = {
    "PATH": "where programs are",
    "HOME": "where programs look for their settings",
    "USER": "who runs it, for programs that ask by name",
    "LOGNAME": "the same, under its other name",
    "SHELL": "what a program starts when it wants a shell",
    "LANG": "language and encoding",
    "LANGUAGE": "languages for messages, in order",
    "TZ": "the time zone",
    "TMPDIR": "where temporary files go",
    "VIRTUAL_ENV": "the Python environment that PATH points into",
}
"""Names that are passed on from the host, each with its reason; and all that begin with LC_, as for LANG."""

ALWAYS: dict[str, str] = {
    "TERM": "dumb",  # No colours, no cursor: nobody looks at a terminal.
    "PAGER": "cat",  # A pager would wait for a key.
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",  # Nobody is there to type a password.
}
"""What every command is told, whatever the host has."""

_PATH = "/usr/local/bin:/usr/bin:/bin"


def clean_environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment for a command: a few names of the host's, and `more`, which goes before them.

    >>> clean_environment({"GREETING": "hello"})["GREETING"]
    'hello'
    """
    passed = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")
    }
    return {"PATH": _PATH, **passed, **ALWAYS, **more}
