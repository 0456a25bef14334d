"""`placet serve`: the local server with its page."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from placet.cli.inputs import Subject, db_option, folder_names, json_option
from placet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placet.server.mcp_http import McpEndpoint
    from placet.server.tokens import Right, Tokens

_PORT = 8765


@click.group(cls=Subject, short_help="Serve the page and the API, and manage who may use them.")
def serve() -> None:
    """See runs, decide what waits, and start work in a browser. Without a command: start the server."""


@serve.command(short_help="Start the server.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="0: any free one."
)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--folder",
    "folders",
    metavar="PATH",
    multiple=True,
    shell_complete=folder_names,
    help="A folder in which work may be started from the page. May be repeated. Default: none.",
)
@click.option(
    "--host-name",
    "names",
    metavar="NAME",
    multiple=True,
    help="A further name under which browsers reach the server, as name or name:port. May be repeated.",
)
@click.option("--allow-remote", is_flag=True, help="Allow --host to be reachable from other machines.")
@click.option("--cert", metavar="FILE", type=click.Path(dir_okay=False), help="Certificate for TLS, as PEM.")
@click.option("--key", metavar="FILE", type=click.Path(dir_okay=False), help="Its private key, as PEM.")
@click.option(
    "--trusted-proxy",
    "proxies",
    metavar="ADDRESS",
    multiple=True,
    help="IP address or network of a proxy that has TLS; others are refused then. May be repeated.",
)
@click.option(
    "--mcp",
    "serves_mcp",
    is_flag=True,
    help="Offer the tools of the first --folder to MCP clients, at /mcp with a token.",
)
@click.option("--run", metavar="RUN", help="A run that the link shows.")
@click.option("--open/--no-open", "opens", default=None, help="Open the page in a browser.")
@db_option
@click.pass_obj
def start(
    output: Output,
    port: int,
    host: str,
    folders: Sequence[str],
    names: Sequence[str],
    allow_remote: bool,
    cert: str | None,
    key: str | None,
    proxies: Sequence[str],
    serves_mcp: bool,
    run: str | None,
    opens: bool | None,
    db: str | None,
) -> int:
    """Serve the page and the JSON API over the database, on this machine alone.

    The link that is printed opens the page, once; the browser stays logged in. Programs use the token in the
    file that is named, as `Authorization: Bearer TOKEN`. What the command line does is seen on the page at
    once, and what is decided there is known to the command line.

    Other machines reach the server only with --allow-remote and TLS (--cert, --key) or a proxy that has it
    (--trusted-proxy).

    Exit codes: 0 stopped, 2 bad input.
    """
    _look_for_the_library()
    from urllib.parse import quote

    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key belong together. Give both.")
    from placet.app.app import known_secrets, open_records
    from placet.app.governance import own_settings
    from placet.redaction import Redactor
    from placet.server.asgi import make_app, make_site
    from placet.server.running import addresses, check_address, listen, make_server, page_origin

    check_address(host, allow_remote=allow_remote, has_tls=cert is not None, proxies=proxies)
    tokens = open_tokens()
    secret = tokens.owner()
    redactor = Redactor([*known_secrets(os.environ), secret])
    opened = listen(host, port)
    port = opened.getsockname()[1]
    is_secure = cert is not None or bool(proxies)
    notify = own_settings(os.environ).notify
    hosts, origins = addresses(host, port, names, is_secure=is_secure)
    page = page_origin(host, port, names, is_secure=is_secure, is_proxied=bool(proxies))
    if notify is not None and notify.url is not None:
        # Links lead there, so that is another name of ours.
        hosts.append(notify.url.partition("://")[2].partition("/")[0])
        origins.append(notify.url)
    named = _folders(folders)
    if serves_mcp and not named:
        raise click.UsageError("--mcp offers the tools of a folder. Name it with --folder.")
    is_new = _is_missing(db)
    with (
        ExitStack() as stack,
        open_records(db, create=True, writes=True, redactor=redactor) as records,
    ):
        shown = records.journal.find(run) if run is not None else None
        site = make_site(
            records,
            tokens,
            redactor,
            folders=named,
            db=db,
            notify=notify,
            url=page,
        )
        app = make_app(
            site,
            hosts=hosts,
            origins=origins,
            cookie=f"placet_{port}",
            is_secure=is_secure,
            trusted_proxies=proxies,
            mcp=_mcp(stack, named[0], db) if serves_mcp else None,
        )
        server = make_server(app, cert=cert, key=key, on_exit=site.drain)
        # A browser keeps what follows the # where it is sent on.
        place = f"#/runs/{quote(shown.run_id, safe='')}" if shown is not None else ""
        link = f"{page}/login?code={tokens.code()}{place}"
        # Flushed at once: whoever started this may read it to find the server.
        output.write(f"{link}\n")
        output.talk(
            f"The link opens the page, once, within ten minutes. Token for programs: {tokens.owner_file}"
        )
        if is_new:
            output.talk("The database was not there, and has been created. It is empty.")
        output.talk(f"Database: {records.database.name}. Ctrl-C ends the server.")
        if not folders:
            output.talk("No work can be started from the page: name folders with --folder.")
        if opens if opens is not None else sys.stdout.isatty():
            import webbrowser

            webbrowser.open(link)
        server.run([opened])
    return 0


def _is_missing(db: str | None) -> bool:
    """Whether the database is a file that is not there."""
    from placet.app.app import NOWHERE, database_url
    from placet.storage.location import is_server, sqlite_path

    url = database_url(db)
    file = sqlite_path(url) if url != NOWHERE and not is_server(url) else None
    return file is not None and not file.exists()


def _mcp(stack: ExitStack, folder: str, db: str | None) -> McpEndpoint:
    """The tools of a folder, for MCP clients."""
    from placet.app.app import open_app
    from placet.app.options import RunOptions
    from placet.errors import UsageError
    from placet.extras import install_command, is_installed

    if not is_installed("mcp"):
        raise UsageError(f"MCP needs the extra `mcp`. Install it with: {install_command('mcp')}")
    app = stack.enter_context(open_app(RunOptions(folder=folder), db=db))
    from placet.server.mcp_http import McpEndpoint

    return McpEndpoint(app, db=db)


def _look_for_the_library() -> None:
    from placet.errors import UsageError
    from placet.extras import install_command, is_installed

    if not is_installed("server"):
        raise UsageError(f"The server needs the extra `server`. Install it with: {install_command('server')}")


def _folders(given: Sequence[str]) -> list[str]:
    from pathlib import Path

    from placet.errors import UsageError

    found = []
    for each in given:
        if not Path(each).is_dir():
            raise UsageError(f"--folder {each}: there is no such folder.")
        found.append(str(Path(each).resolve()))
    return found


def open_tokens() -> Tokens:
    """The tokens of this person."""
    from placet.server.tokens import Tokens
    from placet.storage.location import user_folder

    return Tokens(user_folder(os.environ) / "server")


@serve.group(cls=Subject, short_help="List tokens, make, rotate or revoke one.")
def token() -> None:
    """Who may use the server. Without a command: all tokens."""


@token.command("list", short_help="All tokens.")
@json_option
@click.pass_obj
def list_tokens(output: Output, as_json: bool) -> int:
    """List the tokens, without the tokens themselves.

    Exit codes: 0 listed, 2 they cannot be read.
    """
    import msgspec
    from rich.text import Text

    from placet.render.text import moment
    from placet.safe_text import clean

    _look_for_the_library()
    found = open_tokens().listed()
    if as_json:
        kept = [
            {k: v for k, v in msgspec.to_builtins(each).items() if k not in ("digest", "of")}
            for each in found
        ]
        output.show_json({"tokens": kept}, is_declaration=True)
        return 0
    for each in found:
        whose = f"tenant {clean(each.tenant, 80)}" if each.tenant is not None else "all tenants"
        rights = ", ".join(each.rights)
        output.show(Text(f"{clean(each.name, 80)}  {rights}  {whose}  since {moment(each.created_at)}"))
    if not found:
        output.talk("There is none yet: the server makes yours when it starts.")
    return 0


@token.command(short_help="Make one.")
@click.argument("name")
@click.option(
    "--right",
    "rights",
    type=click.Choice(["see", "decide", "start", "admin"]),
    multiple=True,
    default=("see",),
    show_default=True,
    help="What it allows. May be repeated.",
)
@click.option("--tenant", metavar="NAME", help="The only tenant that it sees. Default: all.")
@json_option
@click.pass_obj
def add(output: Output, name: str, rights: Sequence[Right], tenant: str | None, as_json: bool) -> int:
    """Make a token for the person or program NAME, and print it. It is not kept, and cannot be shown again.

    Exit codes: 0 made, 2 bad input.
    """
    _look_for_the_library()
    secret = open_tokens().add(name, tenant=tenant, rights=rights)
    if as_json:
        output.show_json({"token": secret, "rights": list(rights)}, is_declaration=True)
        return 0
    _print(output, secret, as_json=False)
    output.talk(f"It allows: {', '.join(rights)}. Another token allows more with --right RIGHT.")
    return 0


@token.command(short_help="Replace one by a new one.")
@click.argument("name")
@json_option
@click.pass_obj
def rotate(output: Output, name: str, as_json: bool) -> int:
    """Put a new token in the place of the token NAME, and print it; the old one and its browsers end.

    Exit codes: 0 replaced, 2 there is none.
    """
    _look_for_the_library()
    return _print(output, open_tokens().rotate(name), as_json=as_json)


@token.command(short_help="End one.")
@click.argument("name")
@json_option
@click.pass_obj
def revoke(output: Output, name: str, as_json: bool) -> int:
    """End the token NAME, and the browsers that use it.

    Exit codes: 0 ended, 2 there is none.
    """
    _look_for_the_library()
    open_tokens().revoke(name)
    if as_json:
        output.show_json({"revoked": name})
    else:
        output.talk(f"Revoked: {name}")
    return 0


def _print(output: Output, secret: str, *, as_json: bool) -> int:
    if as_json:
        output.show_json({"token": secret}, is_declaration=True)
    else:
        output.write(f"{secret}\n")
        output.talk("Shown once. Send it as `Authorization: Bearer TOKEN`.")
    return 0
