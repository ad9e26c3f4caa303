"""The group of commands. A new command is a module here with a click command called like it."""

from __future__ import annotations

import importlib
import os
import signal
import sys

import click

from dynalyze import __version__
from dynalyze.cli import errors
from dynalyze.cli.files import drop_standard_output
from dynalyze.launch.interrupts import EndedBySignal, as_exceptions, first_signal
from dynalyze.text.errors import DynalyzeError
from dynalyze.text.visible import say

_COMMANDS = ("explain", "bench", "audit", "sweep", "report", "diff", "doctor", "rules")
_COMPLETION = "_DYNALYZE_COMPLETE"  # Click's variable for what a shell completes.


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(f"dynalyze.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in _COMMANDS:
            raise click.UsageError(errors.unknown_command(args[0], _COMMANDS), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dynalyze")
def group() -> None:
    """Explain what torch.compile did to your model: what broke the graph and on which line, what made it compile
    again, and what to do first.

    \b
    Start with:
      dynalyze explain model.py
    """


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit status of the contract, whatever happens."""
    with as_exceptions():
        try:
            return _result_of(arguments)
        except (EndedBySignal, KeyboardInterrupt, click.Abort):
            return 128 + (first_signal() or signal.SIGINT)
        except click.ClickException as error:
            message = errors.usage_message(error)
        except DynalyzeError as error:
            message = str(error)
        except BrokenPipeError:  # The reader of what Click itself prints went away.
            drop_standard_output()
            return 0
        except Exception as error:
            message = errors.unforeseen_message(error)
        say(" ".join(message.split()))
    return 2


def _result_of(arguments: list[str]) -> int:
    """As `group.main` without its handling of errors, which ends with 1 where a pipe was closed."""
    if _COMPLETION in os.environ:
        group.main(arguments, prog_name="dynalyze")
    try:
        with group.make_context("dynalyze", list(arguments)) as context:
            result = group.invoke(context)
    except click.exceptions.Exit as leaving:
        result = leaving.exit_code
    sys.stdout.flush()
    return result if isinstance(result, int) else 0
