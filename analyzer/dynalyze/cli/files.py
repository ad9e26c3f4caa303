"""Files that a command writes: checked before anything runs, written whole or not at all; documents are UTF-8.

And the report JSON that another one reads.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.text.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.report import Report


def check_writable(option: str, file: str, source: str | None = None) -> None:
    """Raise UsageError for a file that cannot be written, or is `source`, which the command reads."""
    if file == "-":
        raise UsageError(f"{option} needs a file; standard output carries the summary, or --json -")
    if not file:
        raise UsageError(f"{option} needs the name of a file")
    path = Path(file).resolve()
    if source is not None and path == Path(source).resolve():
        raise UsageError(f"{option} {file} would overwrite what is read; name another file")
    if path.is_dir():
        raise UsageError(f"{option} {file}: that is a directory; name a file in it")
    if path.exists() and not path.is_file():  # A pipe or a device needs no folder of ours.
        writable = os.access(path, os.W_OK)
    elif not path.parent.is_dir():
        named = Path(file).parent  # A link may lead elsewhere: then the folder it leads to is the one that lacks.
        raise UsageError(f"{option} {file}: no such directory: {path.parent if named.is_dir() else named}")
    else:
        writable = os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    if not writable:
        raise UsageError(f"{option} {file}: not writable")


def check_outputs(files: Iterable[tuple[str, str | None]], *sources: str | None) -> None:
    """Raise UsageError for files that cannot be written, that are one of `sources`, or each other. `--json -` and None
    are no files.
    """
    named = [(option, file) for option, file in files if file is not None and (option, file) != ("--json", "-")]
    for option, file in named:
        for source in sources or (None,):
            check_writable(option, file, source)
    for (option, file), (other, second) in combinations(named, 2):
        if Path(file).resolve() == Path(second).resolve():  # Links followed.
            raise UsageError(f"{option} and {other} both name {file}")


def write_whole(path: Path, text: str | bytes) -> None:
    """`write_whole_file`, which raises UsageError where it fails."""
    from dynalyze.files.read_write import write_whole_file

    try:
        write_whole_file(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def write_json(file: str | None, text: str) -> bool:
    """Write a document; returns whether that was to standard output, which then carries nothing else."""
    if file == "-":
        print_document(text)
    elif file is not None:
        write_whole(Path(file), text)
    return file == "-"


def check_found(options: Mapping[str, Any], *sources: str | None) -> None:
    check_outputs([("--json", options["json_file"]), ("--html", options["html_file"])], *sources)


def write_found(
    options: Mapping[str, Any], page: Callable[[], str], document: Callable[[], str], summary: Callable[..., str]
) -> None:
    """Write what a command has found as --html and --json say, and the summary, which gets the `files`."""
    json_file, html_file = options["json_file"], options["html_file"]
    if html_file is not None:
        write_whole(Path(html_file), page())
    if not write_json(json_file, document() if json_file else ""):
        files = [(name, file) for name, file in (("Page", html_file), ("JSON", json_file)) if file is not None]
        print_summary(summary(files=files))


def print_document(text: str) -> None:
    """Write a document to standard output, in UTF-8 whatever the terminal's encoding."""
    with _standard_output():
        sys.stdout.flush()
        if (binary := getattr(sys.stdout, "buffer", None)) is None:  # A stream of text in memory.
            sys.stdout.write(text)
        else:
            binary.write(text.encode(errors="backslashreplace"))
        sys.stdout.flush()


def print_summary(text: str) -> None:
    with _standard_output():
        click.echo(text, nl=False)
        sys.stdout.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    """A reader that went away (`| head`) is no error. Raises UsageError where standard output is closed or full."""
    try:
        yield
    except OSError as error:
        drop_standard_output()
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"standard output cannot be written: {error.strerror}") from error


def drop_standard_output() -> None:
    """Discard further output, buffered text included, which Python would try to write at its end."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def read_report(path: Path, kind: str = "a report of dynalyze", hint: str = "") -> Report:
    """The report in a file. Raises UsageError where it cannot be read, or is not `kind`, with `hint` at its end."""
    from dynalyze.files.read_write import read_input
    from dynalyze.report.document import from_json

    try:
        return from_json(read_input(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not {kind}: {error}{hint}") from error
