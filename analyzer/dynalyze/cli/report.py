"""`dynalyze report`: renders a saved report again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dynalyze.cli.options import check_fail_on, output_options
from dynalyze.errors import UsageError
from dynalyze.report import Report


@click.command()
@click.argument("source", metavar="INPUT")
@output_options
def report(source: str, **options: Any) -> int:
    """Render INPUT, a report JSON that `dynalyze explain --json` wrote. Needs no torch.

    Its facts are judged anew, by the rules of this version.
    """
    from dynalyze.cli.outputs import Outputs

    check_fail_on(options["fail_on"])
    path = Path(source)
    outputs = Outputs.from_options(options, path.stem.removesuffix(".dynalyze"), source)
    return outputs.publish(_read(path))


def _read(path: Path) -> Report:
    import msgspec

    from dynalyze.report import from_json

    try:
        return from_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{path} is not a report of dynalyze: {error}") from error
