"""`dynalyze attach`: watch a process that runs already."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dynalyze.cli.options import Sectioned
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

_BEFORE_3_14 = (
    "attach needs Python 3.14 or later, here and in the process: sys.remote_exec. Before that be prepared: start the "
    "job with `dynalyze watch -- COMMAND`, or with `import dynalyze.auto` in the program and DYNALYZE_WATCH=DIR in its "
    "environment"
)


@click.command(cls=Sectioned)
@click.argument("pid", type=click.IntRange(1))
@click.option("--folder", metavar="DIR", help="Where the records go. [default: dynalyze-reports/PID.watch]")
def attach(pid: int, folder: str | None) -> int:
    """Begin to watch process PID, a Python program of yours that runs: follow it with `dynalyze watch DIR` then.

    Needs Python 3.14 or later on both sides. The process runs a few lines at its next safe point; what it compiled
    before is not seen.
    """
    from dynalyze.files.temporary import TemporaryFolder
    from dynalyze.watch.run import attaching_script

    remote_exec = getattr(sys, "remote_exec", None)
    if remote_exec is None:
        raise UsageError(_BEFORE_3_14)
    records = Path(folder or f"dynalyze-reports/{pid}.watch").resolve()
    with TemporaryFolder() as made:
        script, done = made / "attach.py", made / "done"
        script.write_text(attaching_script(records, done), encoding="utf-8")
        try:
            remote_exec(pid, str(script))
        except (OSError, RuntimeError, PermissionError) as error:
            raise UsageError(f"process {pid} cannot be attached to: {error}") from error
        _wait_for(done, pid)
    say(f"process {pid} is watched: dynalyze watch {records}")
    return 0


def _wait_for(done: Path, pid: int) -> None:
    """Until the process has run the script, which it reads when it comes to it."""
    import time

    deadline = time.monotonic() + 60
    while not done.exists():
        if time.monotonic() > deadline:
            raise UsageError(f"process {pid} ran nothing for 60 s: it may wait in native code; try again")
        time.sleep(0.1)
