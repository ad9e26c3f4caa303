"""How the time of `dynalyze report` grows with the number of logs and ranks: ten times as many, in one run.

    .venv/bin/python benchmarks/many_logs.py [--count 10000] [--rounds 1]

The logs are copies of a recorded one, of a rank that met a graph break and compiled again: as files without ranks, as
ranks of one job, as ranks that each run a file of their own, and as ranks whose records alternate in one file. CPU
time of the whole command, page and JSON included; 10 is linear growth, and a little less is what starting costs.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LOG = ROOT / "tests" / "data" / "logs" / "ranks" / "dedicated_log_torch_trace_rank_1_recorded.log"
_RANK = re.compile(rb'"rank": 1(?=[,}])')
_HEAD = re.compile(rb"(?m)^([VI]\d{4} \S+) \d+ ")
_RECORD = re.compile(rb"(?m)^(?=[VI]\d{4} )")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    few = max(1, options.count // 10)
    for kind, write in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="dynalyze-many-") as name:
            folders = {number: Path(name) / str(number) for number in (few, options.count)}
            for number, folder in folders.items():
                folder.mkdir()
                write(folder, number, _LOG.read_bytes())
            runs = {number: [measure(folder) for _ in range(options.rounds)] for number, folder in folders.items()}
        seconds = {number: statistics.median(each for each, _ in found) for number, found in runs.items()}
        peak = max(memory for _, memory in runs[options.count])
        print(
            f"{kind:<34} {few:>6,}: {seconds[few]:6.1f} s   {options.count:>6,}: {seconds[options.count]:6.1f} s   "
            f"ratio {seconds[options.count] / seconds[few]:5.1f}   peak {peak:,.0f} MiB",
            flush=True,
        )


def files(folder: Path, count: int, log: bytes) -> None:
    for number in range(count):
        (folder / f"dedicated_log_torch_trace_{number:06}.log").write_bytes(_of(_RANK.sub(b'"x": 0', log), number))


def ranks(folder: Path, count: int, log: bytes) -> None:
    for number in range(count):
        own = _of(_RANK.sub(b'"rank": %d' % number, log), number)
        (folder / f"dedicated_log_torch_trace_rank_{number}_x.log").write_bytes(own)


def ranks_of_own_files(folder: Path, count: int, log: bytes) -> None:
    for number in range(count):
        own = _RANK.sub(b'"rank": %d' % number, log).replace(b"/job/", b"/job/%d/" % number)
        (folder / f"dedicated_log_torch_trace_rank_{number}_x.log").write_bytes(own)


def ranks_in_one_file(folder: Path, count: int, log: bytes) -> None:
    """Only the first records, which alternate: a container may give the same process id to every rank."""
    records = _RECORD.split(log)[1:12]
    with (folder / "dedicated_log_torch_trace_x.log").open("wb") as file:
        for record in records:
            file.writelines(_RANK.sub(b'"rank": %d' % number, record) for number in range(count))


KINDS: dict[str, Callable[[Path, int, bytes], None]] = {
    "files": files,
    "ranks": ranks,
    "ranks that run files of their own": ranks_of_own_files,
    "ranks in one file": ranks_in_one_file,
}


def measure(folder: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of reading a folder of logs."""
    with tempfile.TemporaryDirectory(prefix="dynalyze-many-") as name:
        outputs = ["--html", f"{name}/x.html", "--json", f"{name}/x.json"]
        words = [sys.executable, "-m", "dynalyze", "report", str(folder), *outputs]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"dynalyze report ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _of(log: bytes, number: int) -> bytes:
    return _HEAD.sub(rb"\g<1> %d " % (20_000 + number), log)


if __name__ == "__main__":
    main()
