"""What recording costs: a cold Inductor compile of the tiny Llama, three ways, alternating in one run.

    .venv/bin/python benchmarks/overhead.py --rounds 6

    plain    python samples/llama.py
    recorded the same program in dynalyze's child, listening
    explain  dynalyze explain samples/llama.py --no-bench, rendering included

Every run is a new process with new cache folders. The figures are medians and ratios of wall time, and of CPU time of
all processes of the run, which other work on the machine disturbs less. What torch itself counts as time spent in
structured logging is shown beside them: it is the direct cost of recording.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHILD = ROOT / "analyzer" / "dynalyze" / "capture" / "start.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--program", default=str(ROOT / "samples" / "llama.py"))
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"plain": [], "recorded": [], "explain": []}
    cpu: dict[str, list[float]] = {"plain": [], "recorded": [], "explain": []}
    logging: list[float] = []
    for number in range(options.rounds):
        order = list(seconds)[number % 3 :] + list(seconds)[: number % 3]
        for arm in order:
            before = cpu_of_children()
            taken, spent = run(arm, options.program)
            seconds[arm].append(taken)
            cpu[arm].append(cpu_of_children() - before)
            logging += [] if spent is None else [spent]
            print(f"round {number + 1} {arm:<9} {taken:6.2f} s, {cpu[arm][-1]:6.2f} s CPU", file=sys.stderr, flush=True)
    show("wall", seconds)
    show("CPU", cpu)
    share = statistics.median(logging) / statistics.median(seconds["plain"])
    print(f"torch's structured logging with our handler: {statistics.median(logging):.3f} s, {share:.1%} of plain")


def cpu_of_children() -> float:
    """CPU seconds of all processes that this one started and that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arm: str, program: str) -> tuple[float, float | None]:
    """Run one arm in a fresh process with fresh caches; wall seconds, and torch's own logging seconds."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/t"}
        command = {
            "plain": [sys.executable, program],
            "recorded": [sys.executable, str(CHILD), "explain", str(prepared(Path(folder) / "run", program))],
            "explain": [
                sys.executable,
                "-m",
                "dynalyze",
                "explain",
                program,
                "--no-bench",
                "--html",
                f"{folder}/p.html",
            ],
        }[arm]
        began = time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken = time.perf_counter() - began
        return taken, logging_seconds(Path(folder) / "run") if arm == "recorded" else None


def prepared(folder: Path, program: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    request = {"mode": "script", "spec": program, "path": program, "module": None, "name": None}
    (folder / "request.json").write_text(json.dumps({**request, "arguments": [], "inputs": [], "compile": {}}))
    return folder


def logging_seconds(folder: Path) -> float:
    """Time inside torch's structured logging, our handler included, summed over all compiles."""
    events = (json.loads(line) for path in folder.glob("events/*.jsonl") for line in path.open())
    ends = (event["metrics"] for event in events if event["event"] == "compile_end")
    return sum(metrics.get("structured_logging_overhead_us", 0) for metrics in ends) / 1e6


def show(what: str, seconds: dict[str, list[float]]) -> None:
    medians = {arm: statistics.median(values) for arm, values in seconds.items()}
    for arm, values in seconds.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        ratio = medians[arm] / medians["plain"]
        print(f"{what:<5} {arm:<9} median {medians[arm]:6.2f} s  ({spread})  {ratio:.3f} of plain")


if __name__ == "__main__":
    main()
