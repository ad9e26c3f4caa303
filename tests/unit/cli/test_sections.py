"""The help of a command: its options in sections, on two screens, without the names that went."""

from __future__ import annotations

import click
import pytest

from dynalyze.cli.group import group


def help_of(command: str) -> str:
    known = group.get_command(click.Context(group), command)
    assert known is not None
    return known.get_help(click.Context(known, info_name=command))


def test_the_options_of_explain_stand_in_sections_on_two_screens() -> None:
    lines = help_of("explain").splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Target:", "Compile:", "Models of libraries:", "Output:", "Privacy:", "Limits:", "More:"]
    assert len(lines) <= 2 * 48


@pytest.mark.parametrize(
    ("command", "new", "old", "value"),
    [
        ("plan", "--bench-seconds", "--budget", 9.0), ("plan", "--lifetime", "--seconds", 9.0),
        ("plan", "--histogram", "--shapes", "9"), ("upgrade", "--bench-seconds", "--seconds", 9.0),
    ],
)  # fmt: skip
def test_an_older_name_works_and_is_not_shown(command: str, new: str, old: str, value: object) -> None:
    known = group.get_command(click.Context(group), command)
    assert known is not None
    option = next(each for each in known.params if new in each.opts)
    context = known.make_context(command, ["model.py", old, "9"])
    assert context.params[option.name or ""] == value
    assert f"  {new} " in help_of(command) and f"  {old} " not in help_of(command)
