"""How long `dynalyze --help` takes, in CPU seconds, against a bare `python -c pass`, alternating in one run.

.venv/bin/python benchmarks/help.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

ROUNDS = 15
ARMS = {"bare python": ["-c", "pass"], "dynalyze --help": ["-m", "dynalyze", "--help"]}


def cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    taken: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for _ in range(ROUNDS):
        for arm, arguments in ARMS.items():
            taken[arm].append(cpu_seconds(arguments))
    for arm, values in taken.items():
        print(f"{arm:<16} median {statistics.median(values) * 1000:.0f} ms CPU")


if __name__ == "__main__":
    main()
