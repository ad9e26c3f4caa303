"""Fuzzes every reader of dynalyze in turn, and says what it found.

    python tests/faults/fuzz_all.py --inputs 1000000 --seed 1 --workers 2
    python tests/faults/fuzz_all.py --only trace_log:1234 --seed 1      # one input again, with its traceback

A finding is an exception that no user's mistake explains, an input that takes over 5 s of CPU time, or a process that
needs over 1 GiB. Inputs are numbered; a number, the reader's name and the seed make the same input everywhere.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzz_readers import READERS, one

MILLION = 1_000_000
MOST_SECONDS = 5.0
OVER_TIME = f"over {MOST_SECONDS:.0f} s"
MOST_MEMORY = 1 << 30


@dataclass
class Found:
    """What one worker saw: inputs by reader, its slowest one, its peak memory in bytes, and the findings."""

    inputs: collections.Counter[str] = field(default_factory=collections.Counter)
    seconds: collections.Counter[str] = field(default_factory=collections.Counter)
    slowest: tuple[float, str] = (0.0, "")
    memory: int = 0
    findings: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        self.inputs += other.inputs
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.memory = max(self.memory, other.memory)
        for kind, (first, count) in other.findings.items():
            known = self.findings.get(kind, (first, 0))
            self.findings[kind] = (known[0], known[1] + count)

    def fail(self, kind: str, where: str) -> None:
        first, count = self.findings.get(kind, (where, 0))
        self.findings[kind] = (first, count + 1)


def fuzz(readers: list[str], seed: int, first: int, last: int, step: int = 1, speak: bool = False) -> Found:
    """Inputs `first` to `last` of each of the readers, every `step`th of them."""
    found = Found()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dynalyze-fuzz-") as name:
        for number in range(first, last, step):
            for reader in readers:
                _one(reader, seed, number, Path(name), found)
            if speak and number % (1000 * step) == first:
                _tell(found, time.monotonic() - began)
    unit = 1 if sys.platform == "darwin" else 1024
    found.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return found


def _one(reader: str, seed: int, number: int, folder: Path, found: Found) -> None:
    where = f"--only {reader}:{number} --seed {seed}"
    began = time.process_time()
    try:
        one(reader, seed, number, folder)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in at if "dynalyze" in frame.filename and "fuzz" not in frame.filename] or at
        what = str(error)[:80] if isinstance(error, AssertionError) else ""
        found.fail(f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno} {what}", where)
    seconds = time.process_time() - began
    found.inputs[reader] += 1
    found.seconds[reader] += seconds
    found.slowest = max(found.slowest, (seconds, where))
    if seconds > MOST_SECONDS:
        found.fail(f"{OVER_TIME}: {reader}", where)


def _tell(found: Found, seconds: float) -> None:
    print(f"{sum(found.inputs.values()):,} inputs in {seconds:.0f} s", flush=True)
    for kind, (first, count) in found.findings.items():
        print(f"{count:>7,} times {kind}   {first}", flush=True)


def fuzz_together(inputs: int, seed: int, workers: int, speak: bool = False) -> Found:
    """So many inputs, all readers alike, dealt out to processes that may hold so much memory and no more."""
    each = -(-inputs // len(READERS))
    whole = Found()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context, initializer=limit_memory) as pool:
        parts = [pool.submit(fuzz, list(READERS), seed, at, each, workers, speak and at == 0) for at in range(workers)]
        for part in parts:
            whole.add(part.result())
    if whole.memory > MOST_MEMORY:
        whole.fail(f"over {MOST_MEMORY >> 20} MiB of memory", f"--inputs {inputs} --seed {seed}")
    return whole


def limit_memory() -> None:
    """An input that asks for more than this ends in a MemoryError, which is a finding."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * MOST_MEMORY, 2 * MOST_MEMORY))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=MILLION)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", metavar="READER:NUMBER", help="one input again, with its traceback")
    options = parser.parse_args()
    if options.only:
        reader, _, number = options.only.partition(":")
        with tempfile.TemporaryDirectory(prefix="dynalyze-fuzz-") as name:
            began = time.process_time()
            one(reader, options.seed, int(number), Path(name))
            print(f"nothing found, {time.process_time() - began:.2f} s")
        return 0
    found = fuzz_together(options.inputs, options.seed, options.workers, speak=True)
    for reader, count in found.inputs.items():
        print(f"{reader:<18} {count:>9,} inputs {found.seconds[reader]:>9.1f} s")
    print(f"slowest {found.slowest[0]:.2f} s ({found.slowest[1]}), peak memory {found.memory >> 20} MiB")
    print(f"{len(found.findings)} kinds of findings")
    _tell(found, sum(found.seconds.values()))
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
