"""`placet completion`: print the script with which a shell completes `placet`.

Keep true:
1. A script is text: it is printed for any shell, also where that shell is not installed, and reading it into
   a shell starts no program.
2. Completing calls `placet` once, which imports no more than `placet --help`.
"""

from __future__ import annotations

import click

from placet.cli.output import Output

PROGRAM = "placet"
_VARIABLE = "_PLACET_COMPLETE"
"""Click answers completion requests where this is set; it derives the same name from the program's."""
_INSTALL = {
    "bash": (
        "mkdir -p ~/.local/share/bash-completion/completions",
        "placet completion bash > ~/.local/share/bash-completion/completions/placet",
        "Without the package bash-completion: save it anywhere, and add `source FILE` to ~/.bashrc.",
        "It needs bash 4.4 or newer.",
    ),
    "zsh": (
        "mkdir -p ~/.zfunc",
        "placet completion zsh > ~/.zfunc/_placet",
        "Add to ~/.zshrc, before compinit: fpath+=~/.zfunc",
    ),
    "fish": (
        "mkdir -p ~/.config/fish/completions",
        "placet completion fish > ~/.config/fish/completions/placet.fish",
    ),
}


@click.command(short_help="Print the completion script for a shell.")
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script with which a shell completes commands, options and file names of `placet`.

    Save it where the shell finds it, and open a new shell. The commands for that are printed on stderr.

    Exit codes: 0 printed, 2 bad input.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    output: Output = context.obj
    made = get_completion_class(shell)
    assert made is not None
    # The base class alone: the one for bash would first start a bash, to ask for its version.
    script = ShellComplete.source(made(context.find_root().command, {}, PROGRAM, _VARIABLE))
    output.write(script)
    output.talk("\n".join(("To install it:", *(f"  {line}" for line in _INSTALL[shell]))))
    return 0
