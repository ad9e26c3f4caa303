"""Writes the parts of docs/reference that say what the code says: `make docs`.

    python docs/make_reference.py            write them
    python docs/make_reference.py --check    exit status 1 where a page is not what the code says

Options come from the commands, the report's keys from its types, rules from their declarations. What stands outside of
the two markers of a page is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from dynalyze.cli import options
from dynalyze.cli.group import group
from dynalyze.render import brief
from dynalyze.report import Report
from dynalyze.rules.rule import rules

REFERENCE = Path(__file__).resolve().parent / "reference"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
SHARED = {
    "Target": options.target_options,
    "Sandbox": options.sandbox_option,
    "Compiling": options.compile_options,
    "Model": options.model_options,
    "Calls": options.library_options,
    "Report": options.report_options,
    "Formats": options.output_options,
}
"""Options that most commands have, told once; each was given to a command by this decorator."""
ABOUT_BRIEF = """\
`explain`, `report`, `fix` and `verify` write this smaller document with `--json FILE --brief`: one line of a few kB, at
most 20 kB. What is empty is left out. Everything that comes from the program stands below a key `program`: it is data,
never an instruction. `‹1›` in a sentence stands for the first of `program.quotes` beside it."""
_DEFAULT = re.compile(r"\s*\[default: (.+)\]$")
_Row = tuple[str, str, str]


def pages() -> dict[Path, str]:
    """The text that each page should have."""
    parts = {"options.md": command_options, "report-json.md": report_keys, "rules.md": rule_list}
    told = {REFERENCE / name: _between_markers((REFERENCE / name).read_text(), part()) for name, part in parts.items()}
    return {**told, REFERENCE / "report.schema.json": schema()}


def _between_markers(page: str, generated: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{generated.strip()}\n\n{END}{rest.partition(END)[2]}"


def command_options() -> str:
    """The shared options, then for each command those of its own."""
    rows_of: dict[str, list[_Row]] = {}
    for title, decorator in SHARED.items():
        above = [row for rows in rows_of.values() for row in rows]
        rows_of[title] = [row for row in _rows(_decorated(decorator)) if row not in above]
    lines = [line for title, rows in rows_of.items() for line in (f"## {title}", "", *_table(rows), "")]
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        lines += [*_of_command(name, list(_rows(command)), rows_of), ""]
    return "\n".join(lines)


def _of_command(name: str, mine: list[_Row], rows_of: dict[str, list[_Row]]) -> Iterator[str]:
    """Which shared options a command has, and a table of the others."""
    own, groups = list(mine), []
    for title, shared in rows_of.items():
        common = [row for row in shared if row in own]
        if len(common) * 2 > len(shared):
            own = [row for row in own if row not in common]
            absent = [f"`{row[0].split()[0]}`" for row in shared if row not in common]
            groups.append(f"[{title}](#{title.lower()}){' without ' + ', '.join(absent) if absent else ''}")
    if mine:
        yield from (f"## dynalyze {name}", "")
    if groups:
        yield from (f"Takes {', '.join(groups)}{', and' if own else '.'}", "")
    yield from _table(own) if own else ()


def _decorated(decorator: Callable[..., Any]) -> click.Command:
    return click.command()(decorator(lambda: None))


def _rows(command: click.Command) -> list[_Row]:
    """Option, default, what it does."""
    found = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        says = " ".join((option.help or "").split())
        if given := _DEFAULT.search(says):
            default, says = given[1], _DEFAULT.sub("", says)
        else:
            default = str(option.default) if option.show_default and option.default is not None else ""
        names = "`, `".join(option.opts) + ("`/`" + option.secondary_opts[0] if option.secondary_opts else "")
        metavar = option.make_metavar(click.Context(command)).strip("[]").replace("INTEGER RANGE", "N")
        takes = "" if option.is_flag else f" {metavar}"
        found.append((f"{names}{takes}", default.removesuffix(".0"), says))
    return found


def _table(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield "|option|default|what it does|"
    yield "|-|-|-|"
    for name, default, says in rows:
        # No spaces beside the bars: they would be words of the documents' count.
        yield f"|`{_escaped(name)}`|{_escaped(default)}|{_escaped(says)}|"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def report_keys() -> str:
    """The top-level keys of the report, each with what it holds and the fields of that; then those of --brief."""
    hints = typing.get_type_hints(Report)
    lines = ["## Keys", "", _text(Report), ""]
    lines += [_key(name, next(_structs(hints[name]), None)) for name in Report.__struct_fields__]
    lines += ["", "## `--brief`", "", ABOUT_BRIEF, ""]
    inside: dict[str, type[msgspec.Struct]] = {
        "the document": brief.Brief,
        "`findings[]`": brief.BriefFinding,
        "`fixes[]`": brief.BriefFix,
        "`stays[]`": brief.BriefStay,
        "`left_out`": brief.LeftOut,
        "`program`": brief.OfProgram,
    }
    return "\n".join([*lines, *(f"- {name}: {_text(kind)} {_fields(kind)}".rstrip() for name, kind in inside.items())])


def _key(name: str, struct: type[msgspec.Struct] | None) -> str:
    return (
        f"- `{name}`"
        if struct is None
        else f"- `{name}`: {_text(struct)} {_fields(struct)}".replace("  ", " ").rstrip()
    )


def _text(struct: type[msgspec.Struct]) -> str:
    return _in_json(struct.__dict__.get("__doc__") or "")


def _in_json(text: str) -> str:
    """A docstring on one line, in the words of JSON."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


def _fields(struct: type[msgspec.Struct]) -> str:
    """Each field that its text does not name, or that has few values, with these."""
    hints, text = typing.get_type_hints(struct), _text(struct)
    told = {name: _values(hints[name]) for name in struct.__struct_fields__}
    told = {name: values for name, values in told.items() if values or f"`{name}`" not in text}
    return f"Fields: {', '.join(f'`{name}`{values}' for name, values in told.items())}." if told else ""


def _values(kind: object) -> str:
    found = [each for each in _literals(kind) if each]
    return f" ({', '.join(f'`{each}`' for each in found)})" if len(found) > 1 else ""


def _literals(kind: object) -> Iterator[str]:
    if typing.get_origin(kind) is typing.Literal:
        yield from typing.get_args(kind)
        return
    for argument in typing.get_args(kind):
        yield from _literals(argument)


def _structs(kind: object) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for argument in typing.get_args(kind):
        yield from _structs(argument)


def schema() -> str:
    """The whole report as JSON Schema, with what each type says of its fields."""
    found = msgspec.json.schema(Report)
    for each in found["$defs"].values():
        if "description" in each:
            each["description"] = _in_json(each["description"])
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def rule_list() -> str:
    lines = ["|rule|severity|finding|", "|-|-|-|"]
    lines += [f"|`{rule_id}`|{rule.severity}|{_escaped(rule.title)}|" for rule in rules() for rule_id in rule.ids]
    return "\n".join(lines)


def stale() -> list[Path]:
    """The pages that are not what the code says."""
    return [path for path, text in pages().items() if not path.exists() or path.read_text() != text]


def main() -> int:
    if "--check" in sys.argv[1:]:
        print(
            "\n".join(f"{path.relative_to(REFERENCE.parents[1])}: run `make docs`" for path in stale()) or "up to date"
        )
        return int(bool(stale()))
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
