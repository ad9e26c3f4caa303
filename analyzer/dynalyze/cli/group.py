"""The group of commands. A new command is a module here with a click command called like it."""

from __future__ import annotations

import importlib
import sys

import click

from dynalyze import __version__, notices
from dynalyze.cli import mistakes
from dynalyze.errors import DynalyzeError

_COMMANDS = ("explain", "bench", "audit", "sweep", "report", "diff", "doctor", "rules")
_INTERRUPTED = 130


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
            raise click.UsageError(mistakes.unknown_command(args[0], _COMMANDS), ctx)
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
    """Run one command; returns the exit status of the contract."""
    try:
        result = group.main(arguments, prog_name="dynalyze", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        return _INTERRUPTED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except click.ClickException as error:
        _complain(mistakes.advised(error))
        return error.exit_code
    except DynalyzeError as error:
        _complain(str(error))
        return error.exit_status
    except BrokenPipeError:
        sys.stderr.close()  # The reader went away; there is nobody to tell.
        return 0
    return result if isinstance(result, int) else 0


def _complain(message: str) -> None:
    notices.say(" ".join(message.split()))
