"""How fast `dynalyze report` and tlparse read a large TORCH_TRACE log, alternating in one run.

    python -m venv /tmp/tlparse && /tmp/tlparse/bin/pip install tlparse
    .venv/bin/python benchmarks/logs.py --tlparse /tmp/tlparse/bin/tlparse --megabytes 1000 --rounds 3

The log is a real one, of a tiny Llama under Inductor (`--log FILE` takes another), repeated until it is as large as
asked for. Each copy has frame ids of its own, so every compile id is unique. Figures are medians: throughput, the
ratio of the two, the peak memory of each process and the size of what it wrote.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FRAME_ID = re.compile(rb'(?<="frame_id": )\d+')
_COMPILE_ID = re.compile(rb'(?<="compile_id": ")(\d+)(?=/\d+")')
_REPLACED = re.compile(rb"\d+(?=/\d+: )")


@dataclass
class Run:
    """One reading of the log: seconds, peak memory in MiB, bytes and files written."""

    seconds: float
    peak: float
    written: int
    files: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tlparse", help="its program; without it dynalyze is measured alone")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, help="a log to repeat, instead of recording the tiny Llama")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dynalyze-logs-") as name:
        folder = Path(name)
        log = folder / "dedicated_log_torch_trace_large.log"
        copies = enlarge(options.log or record(folder), log, options.megabytes * 10**6)
        print(f"log: {log.stat().st_size / 1e6:,.0f} MB, {copies} copies", flush=True)
        arms = ["dynalyze", *(["tlparse"] if options.tlparse else [])]
        runs: dict[str, list[Run]] = {arm: [] for arm in arms}
        for number in range(options.rounds):
            for arm in arms if number % 2 == 0 else reversed(arms):
                found = measure(command(arm, log, folder / "out", options.tlparse), folder / "out")
                runs[arm].append(found)
                print(f"round {number + 1} {arm:<9} {found.seconds:7.2f} s", file=sys.stderr, flush=True)
        show(runs, log.stat().st_size)


def record(folder: Path) -> Path:
    """A log of a cold Inductor compile of the tiny Llama."""
    environment = {
        **os.environ,
        "TORCH_TRACE": str(folder / "trace"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    program = ROOT / "samples" / "llama.py"
    subprocess.run([sys.executable, str(program)], env=environment, check=True, stdout=subprocess.DEVNULL)
    (log,) = (folder / "trace").glob("*.log")
    return log


def enlarge(log: Path, large: Path, size: int) -> int:
    """Write copies of a log behind each other until they reach `size`; returns how many."""
    lines = log.read_bytes().splitlines(keepends=True)
    step = 1 + max((int(found) for line in lines for found in _FRAME_ID.findall(line)), default=0)
    copies = 0
    with large.open("wb") as file:
        while file.tell() < size:
            file.writelines(shifted(line, copies * step) for line in lines)
            copies += 1
    return copies


def shifted(line: bytes, by: int) -> bytes:
    """A line whose compile ids belong to later frames; those stand in first lines, and where recompiles name them."""
    if line.startswith(b"\t"):
        return _REPLACED.sub(lambda found: b"%d" % (int(found[0]) + by), line) if line[1:2].isdigit() else line
    line = _FRAME_ID.sub(lambda found: b"%d" % (int(found[0]) + by), line)
    return _COMPILE_ID.sub(lambda found: b"%d" % (int(found[0]) + by), line)


def command(arm: str, log: Path, out: Path, tlparse: str) -> list[str]:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    if arm == "tlparse":
        return [tlparse, str(log), "-o", str(out), "--overwrite", "--no-browser"]
    return [sys.executable, "-m", "dynalyze", "report", str(log), "--html", str(out / "page.html")]


def measure(words: list[str], out: Path) -> Run:
    """Run a command to its end; its own peak memory, as the kernel counted it."""
    began = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{words[0]} ended with status {process.returncode}")
    written = [path for path in out.rglob("*") if path.is_file()]
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Run(seconds, usage.ru_maxrss / unit, sum(path.stat().st_size for path in written), len(written))


def show(runs: dict[str, list[Run]], size: int) -> None:
    speeds = {arm: size / 1e6 / statistics.median(run.seconds for run in each) for arm, each in runs.items()}
    for arm, each in runs.items():
        spread = f"{min(run.seconds for run in each):.2f} to {max(run.seconds for run in each):.2f} s"
        peak = max(run.peak for run in each)
        print(
            f"{arm:<9} {speeds[arm]:7.1f} MB/s ({spread}), peak {peak:,.0f} MiB, "
            f"wrote {each[-1].written / 1e6:,.2f} MB in {each[-1].files:,} files"
        )
    if "tlparse" in speeds:
        print(f"dynalyze reads {speeds['dynalyze'] / speeds['tlparse']:.1f} times as fast")


if __name__ == "__main__":
    main()
