"""The group of commands, and its usage errors and crash reports: one line each, and a file for an issue where the
fault is ours. A new command is a module here with a click command called like it.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

import dynalyze
from dynalyze import __version__, registry
from dynalyze.capture.libraries import prefix_of
from dynalyze.cli.files import drop_standard_output, print_summary
from dynalyze.files.paths import working_folder
from dynalyze.launch.interrupts import EndedBySignal, as_exceptions, first_signal
from dynalyze.text.errors import DynalyzeError, first_line
from dynalyze.text.escape import say

_OF_SPINE = {
    "Diagnose": {"explain": "Run a model; say what broke and recompiled.", "bench": "Measure what compiling gains."},
    "Change": {"plan": "Choose what to compile, and how."},
    "Many": {"sweep": "Run many models, and write one index."},
    "Jobs": {},
    "Reports": {"report": "Render a saved report, or torch's own log.", "diff": "Compare two reports."},
    "Reference": {"rules": "List the findings, or explain one.", "mcp": "Serve a coding agent over MCP."},
}
_SECTIONS = {title: own | registry.commands_in(title) for title, own in _OF_SPINE.items()}
"""The commands as `--help` lists them. Their modules are not imported for it: that takes longer than Python's start."""
_COMMANDS = tuple(name for section in _SECTIONS.values() for name in section)
_RUN_NO_TARGET = ("report", "diff", "rules")
_COMPLETION = "_DYNALYZE_COMPLETE"  # Click's variable for what a shell completes.


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(f"dynalyze.cli.{name}"), name)
        assert isinstance(command, click.Command)
        if name not in _RUN_NO_TARGET and not hasattr(os, "fork"):
            command.callback = _not_on_windows
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, _COMMANDS))
        for title, commands in filter(lambda each: each[1], _SECTIONS.items()):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), what) for name, what in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in _COMMANDS:
            raise click.UsageError(_unknown_command(args[0], _COMMANDS), ctx)
        return super().resolve_command(ctx, args)


def _not_on_windows(**_: object) -> None:
    raise click.UsageError(
        f"{click.get_current_context().info_name} runs programs, which dynalyze does on Linux and macOS: "
        f"on Windows call it inside of WSL. {', '.join(_RUN_NO_TARGET)} run here."
    )


def _print_skill(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        print_summary((Path(dynalyze.__file__).parent / "data" / "SKILL.md").read_text(encoding="utf-8"))
        context.exit()


@click.group(cls=_LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dynalyze")
@click.option(
    "--skill", is_flag=True, is_eager=True, expose_value=False, callback=_print_skill,
    help="Print what to tell a coding agent, a SKILL.md, and exit.",
)  # fmt: skip
@click.pass_context
def group(context: click.Context) -> None:
    """Explain what torch.compile did to your model: what broke the graph and on which line, what made it compile
    again, and what to do first.

    \b
    Start with:
      dynalyze explain model.py
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit status of the contract, whatever happens."""
    with as_exceptions():
        try:
            return _result_of(arguments)
        except (EndedBySignal, KeyboardInterrupt, click.Abort):
            return 128 + (first_signal() or signal.SIGINT)
        except click.ClickException as error:
            message = _usage_message(error)
        except DynalyzeError as error:
            message = str(error)
        except BrokenPipeError:  # The reader of what Click itself prints went away.
            drop_standard_output()
            return 0
        except Exception as error:
            message = _unforeseen_message(error)
        say(" ".join(message.split()))
    return 2


def _result_of(arguments: list[str]) -> int:
    """`group.main` without its handling of errors, which exits with 1 where a pipe was closed."""
    if _COMPLETION in os.environ:
        group.main(arguments, prog_name="dynalyze")
    try:
        with group.make_context("dynalyze", list(arguments)) as context:
            result = group.invoke(context)
    except click.exceptions.Exit as leaving:
        result = leaving.exit_code
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


_LOOKS_LIKE_TARGET = (".py", ".json", ".toml", ".log")


def _usage_message(error: click.ClickException) -> str:
    """The message of Click's error, with a hint where there is one."""
    message = error.format_message()
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return message
    context = error.ctx
    text = f"{message} {context.command_path} --help lists what there is"
    takes_arguments = "[-- ARGS...]" in context.command.collect_usage_pieces(context)
    return f"{text}; what is for your program stands after --." if takes_arguments else f"{text}."


def _unknown_command(name: str, commands: Sequence[str]) -> str:
    """The message for an unknown command; a target without a command is meant for `explain`."""
    hint = f"There are {', '.join(commands)}."
    if prefix_of(name) or name.partition(":")[0].endswith(_LOOKS_LIKE_TARGET):
        hint = f"Did you mean dynalyze {'report' if name.endswith(('.json', '.log')) else 'explain'} {name}?"
    elif near := difflib.get_close_matches(name, commands, n=1):
        hint = f"Did you mean {near[0]!r}?"
    return f"No such command {name!r}. {hint}"


def _unforeseen_message(error: Exception) -> str:
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, MemoryError):
        return "memory ran out"
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # From pathlib, before Python 3.13.
        return str(error)
    what = "nested too deeply" if isinstance(error, RecursionError) else first_line(error)
    from dynalyze.cli.fault import kept  # Not for every `--help`: it imports all records of a report.

    return f"a fault of dynalyze: {what}; {kept(error)}"


def _of_system(error: OSError) -> str:
    reason = error.strerror or first_line(error)
    if error.filename is None:
        # What Click prints itself, as a help text.
        if any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
            return f"standard output cannot be written: {reason}"
        if error.errno == errno.ENOENT and not working_folder():
            return "the current folder is gone; change to one that is there"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"{reason}; temporary files are in {tempfile.gettempdir()} (TMPDIR)"
        return reason
    named = [name for name in (error.filename, error.filename2) if name]
    names = [os.fsdecode(name) if isinstance(name, bytes) else str(name) for name in named]
    return f"{' and '.join(names) or '(a file without a name)'}: {reason}"
