"""The program `dynalyze`, also as `python -m dynalyze`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors of the user are one line on standard error."""
    from dynalyze.cli.group import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
