"""Every command and option says what it does, and says it without importing torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from program import dynalyze

from dynalyze.cli.group import group
from limits import WALL_SECONDS


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(group)
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [(name, command) for name, command in found if command is not None]


def test_every_command_and_option_has_help() -> None:
    for name, command in commands():
        assert command.help and command.get_short_help_str(limit=200), name
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help and (option.is_flag or "." in option.help), f"{name} {option.opts[0]}"


HELPS = """
import io, sys
from contextlib import redirect_stdout
from dynalyze.cli.group import run
for arguments in ([*command.split(), flag] for command in sys.argv[1:] for flag in ("-h", "--help")):
    with redirect_stdout(io.StringIO()) as shown:
        assert run(arguments) == 0, arguments
    assert shown.getvalue().startswith("Usage: dynalyze"), arguments
print({"torch", "numpy", "jinja2", "pygments"} & set(sys.modules))
"""


def test_help_of_every_command_answers_without_torch() -> None:
    command = [sys.executable, "-c", HELPS, "", *(name for name, _ in commands())]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "set()\n"


def test_the_version(tmp_path: Path) -> None:
    from dynalyze import __version__

    assert dynalyze("--version", cwd=tmp_path).stdout.split()[-1] == __version__


def test_installed_command_and_module_are_one_program(tmp_path: Path) -> None:
    installed = Path(sys.executable).with_name("dynalyze")
    if not installed.exists():
        pytest.skip("dynalyze is not installed beside this interpreter")
    environment = {**os.environ, "COLUMNS": "80"}

    def help_of(*command: str | Path) -> bytes:
        asked = [*command, "--help"]
        return subprocess.run(
            asked, capture_output=True, env=environment, cwd=tmp_path, timeout=WALL_SECONDS, check=True
        ).stdout

    assert help_of(installed) == help_of(sys.executable, "-m", "dynalyze") != b""
