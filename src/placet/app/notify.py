"""Tell a person somewhere else that something waits: by a command, a webhook, or a POST as ntfy takes it.

    [notify]
    command = ["notify-send"]                    # gets the title and the link as its last two arguments
    webhook = "https://chat.example.org/hook"    # gets JSON: title, link, kind, run_id, expires_at
    ntfy = "https://ntfy.example.org/my-topic"   # gets the title as text, and the link as the header Click
    url = "https://box.example.org"              # where the server is reached from there

Keep true:
1. Off unless a person's own settings name a way.
2. What is sent says what waits in a line, without secrets; what it is about is behind the link.
3. A way that fails changes nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from placet.safe_text import clean

_TIMEOUT_S = 20.0


class NotifySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a person is told."""

    command: tuple[str, ...] = ()
    """A program and its first arguments."""
    webhook: str | None = None
    """An address that takes JSON."""
    ntfy: str | None = None
    """An address that takes text, as ntfy does."""
    url: str | None = None
    """The address under which the server is reached. `None`: that on this machine."""

    @property
    def is_on(self) -> bool:
        """Whether anybody is told."""
        return bool(self.command or self.webhook or self.ntfy)


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is told."""

    title: str
    link: str
    kind: str
    run_id: str
    expires_at: float


def is_web_address(text: str) -> bool:
    """Whether a text is an address of the web."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text
    )


async def send(settings: NotifySettings, note: Notification) -> list[str]:
    """Tell the person in every way that is set; returns what went wrong, in words."""
    ways = []
    if settings.command:
        ways.append(_run(settings.command, note))
    if settings.webhook is not None:
        ways.append(_post(settings.webhook, json=note))
    if settings.ntfy is not None:
        ways.append(_post(settings.ntfy, text=note))
    found = await asyncio.gather(*ways, return_exceptions=True)
    return [f"{type(each).__name__}: {each}" for each in found if isinstance(each, BaseException)]


async def _run(command: Sequence[str], note: Notification) -> None:
    started = await asyncio.create_subprocess_exec(
        *command,
        clean(note.title),
        note.link,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = await asyncio.wait_for(started.wait(), _TIMEOUT_S)
    except TimeoutError:
        started.kill()
        await started.wait()
        raise
    if code:
        raise OSError(f"{command[0]} ended with exit code {code}")


async def _post(url: str, *, json: Notification | None = None, text: Notification | None = None) -> None:
    import httpx2

    async with httpx2.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False) as client:
        if json is not None:
            data = msgspec.json.encode(json)
            found = await client.post(url, content=data, headers={"content-type": "application/json"})
        else:
            assert text is not None
            headers = {"Title": "Placet", "Click": text.link, "Tags": "question"}
            found = await client.post(url, content=clean(text.title).encode(), headers=headers)
        found.raise_for_status()
