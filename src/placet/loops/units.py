"""The text of a unit file, so that a machine starts the scheduler by itself: for systemd, and for launchd.

Keep true: whatever a path or an argument holds, it is that one argument to the program, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

from placet.errors import UsageError
from placet.truncation import truncate

Kind = Literal["systemd", "launchd"]
_PLAIN = re.compile(r"[A-Za-z0-9_./:=@+,-]+")


def unit_name(repository: Path) -> str:
    """What the unit of a repository is called.

    >>> unit_name(Path("/home/ann/My Project"))
    'placet-loops-my-project'
    """
    last = re.sub(r"[^a-z0-9]+", "-", repository.name.lower()).strip("-")
    return f"placet-loops-{last or 'all'}"


def unit_text(
    kind: Kind, argv: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> str:
    """A unit that runs `argv` in `folder` from when the person logs in, and again if it dies.

    Raises:
        UsageError: something in it cannot be written there.
    """
    for text in (*argv, str(folder), *(environment or {}).values()):
        if any(ord(character) < 32 for character in text) or "\x7f" in text:
            raise UsageError(f"{truncate(text, 80)!r} has characters that no unit file can hold. Rename it.")
    make = _systemd if kind == "systemd" else _launchd
    return make(argv, folder, environment or {})


def _systemd(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    name = unit_name(folder)
    settings = "".join(f"Environment={_quoted(f'{key}={value}')}\n" for key, value in environment.items())
    return f"""\
# Put this into ~/.config/systemd/user/{name}.service, then:
#   systemctl --user daemon-reload && systemctl --user enable --now {name}
# To let it run while you are not logged in: loginctl enable-linger
[Unit]
Description=Placet loops of {_percent(folder.name)}

[Service]
Type=exec
WorkingDirectory={_percent(str(folder))}
ExecStart={" ".join(_quoted(each) for each in argv)}
{settings}# The first signal lets running rounds end; what runs longer is taken up at the next start.
KillMode=mixed
TimeoutStopSec=120
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""


def _percent(text: str) -> str:
    # A percent sign begins a placeholder there.
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """One word of a systemd command line."""
    if _PLAIN.fullmatch(text):
        return text
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_percent(inner)}"'


def _launchd(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    name = unit_name(folder)
    words = "\n".join(f"    <string>{escape(each)}</string>" for each in argv)
    settings = "".join(
        f"    <key>{escape(key)}</key>\n    <string>{escape(value)}</string>\n"
        for key, value in environment.items()
    )
    more = f"  <key>EnvironmentVariables</key>\n  <dict>\n{settings}  </dict>\n" if settings else ""
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- Put this into ~/Library/LaunchAgents/{name}.plist, then:
     launchctl load -w ~/Library/LaunchAgents/{name}.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{escape(name)}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>WorkingDirectory</key>
  <string>{escape(str(folder))}</string>
{more}  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ExitTimeOut</key>
  <integer>120</integer>
</dict>
</plist>
"""
