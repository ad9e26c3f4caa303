"""The program `dynalyze`, also as `python -m dynalyze`."""

from __future__ import annotations

import contextlib
import io
import os
import sys


def main() -> None:
    """Run the command line; whatever happens is one line on standard error and an exit status of the contract."""
    _open_streams()
    from dynalyze.cli.group import run
    from dynalyze.files.temporary import remove_all

    try:
        status = run(sys.argv[1:])
    finally:
        remove_all()
    _close_streams()
    sys.exit(status)


def _open_streams() -> None:
    """Give each of the three streams a descriptor: the next file that is opened would become one that is closed.

    Writing to a closed standard output fails, as it does for the commands of a shell; what goes to a closed standard
    error is dropped. What their encoding has no sign for is spelled, and ends nothing.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # It gets the lowest number that is free.
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _close_streams() -> None:
    """Python would end with a status of its own where it cannot write what is left."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    # As for the command `dynalyze`: `python -m` puts the working directory first, where a program of the user's may lie
    # beside a `logging.py` or a `random.py`.
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    main()
