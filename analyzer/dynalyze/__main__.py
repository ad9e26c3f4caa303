"""The program `dynalyze`, also as `python -m dynalyze`."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command line; errors of the user are one line on standard error."""
    from dynalyze.cli.group import run

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # What its encoding has no sign for is spelled, and ends nothing.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
