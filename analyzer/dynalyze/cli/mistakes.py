"""What to say to a wrong call beyond what Click says: what the user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click

# What people type from the habit of other tools; here each output has an option of its own.
_ANY_OUTPUT = ("-o", "-O", "--out", "--outfile", "--out-file", "--output", "--output-file", "--output-path", "--save")
_WRITES = "Write "
_LOOKS_LIKE_TARGET = (".py", ".json", ".toml", ".log")


def advised(error: click.ClickException) -> str:
    """The message of Click's error, with what to do about it where that can be known."""
    message = error.format_message()
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return message
    context = error.ctx
    help_command = f"{context.command_path} --help"
    if error.option_name in _ANY_OUTPUT:
        return f"{error.message} {_outputs(context.command, help_command)}"
    told = f"{message} {help_command} lists what there is"
    takes_arguments = "[-- ARGS...]" in context.command.collect_usage_pieces(context)
    return f"{told}; what is for your program stands after --." if takes_arguments else f"{told}."


def unknown_command(name: str, commands: Sequence[str]) -> str:
    """What to say to a command that does not exist; a target without a command is meant for `explain`."""
    if name.startswith("hf:") or name.partition(":")[0].endswith(_LOOKS_LIKE_TARGET):
        verb = "report" if name.endswith((".json", ".log")) else "explain"
        return f"No such command {name!r}. Did you mean dynalyze {verb} {name}?"
    if near := difflib.get_close_matches(name, commands, n=1):
        return f"No such command {name!r}. Did you mean {near[0]!r}?"
    return f"No such command {name!r}. There are {', '.join(commands)}."


def _outputs(command: click.Command, help_command: str) -> str:
    """The options of a command that write something, the page's first."""
    found = [
        each for each in command.params if isinstance(each, click.Option) and (each.help or "").startswith(_WRITES)
    ]
    names = [f"{each.opts[0]} {each.metavar}" for each in found if each.metavar]
    if not names:
        return f"It writes no file: {help_command} lists what there is."
    names.sort(key=lambda name: not name.startswith("--html "))
    return f"Each output has its own: {', '.join(names)}."
