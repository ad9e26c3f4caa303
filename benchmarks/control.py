"""Whether `dynalyze bench` can be fooled on this machine: equals must not be told apart, a planted 1.3x must be.

    .venv/bin/python benchmarks/control.py --pairs 5
    .venv/bin/python benchmarks/control.py --together 1
    .venv/bin/python benchmarks/control.py --equal 2 --together 2 --planted 1 --pairs 5
    .venv/bin/python benchmarks/control.py --planted 0 --seconds 1 --load
    .venv/bin/python benchmarks/control.py --equal 0 --explain

A run is a whole benchmark by `run_bench`, as the command makes it, with a control of its own. In runs of equals the
measured configurations are eager itself, built again in processes of their own: `--together` of them in each run share
its control, as the configurations of any benchmark do. In a planted run the model does 26 layers in eager and 20 when
compiled; the backend is "eager", so nothing else changes. Memory and accuracy are left out, and so few seconds are
timed that most of the time goes into starting processes. With `--explain` the planted model is a program that
`dynalyze explain` runs as it is. With `--load` the machine is made busy and quiet again, by as
many processes as it has cores or fewer, for 1 to 20 seconds at a time.

Wanted: at most 1 in 20 equals told apart, and at least 9 in 10 planted differences found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec

from dynalyze.bench import DEFAULT_PAIRS
from dynalyze.bench.plan import Plan
from dynalyze.bench.run import run_bench
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.report import Report
from dynalyze.report.measurements import Measurement

BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
WANTED = {"equal": "no difference shown", "planted": "faster"}
MODEL = textwrap.dedent(
    """
    import torch
    from torch import nn

    class Planted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(256, 256)

        def forward(self, x):
            for _ in range(20 if torch.compiler.is_compiling() else 26):
                x = self.layer(x)
            return x

    def build():
        return Planted().eval(), (torch.randn(64, 256),)

    if __name__ == "__main__":
        model, inputs = build()
        compiled = torch.compile(model, backend="eager")
        for _ in range(4):
            compiled(*inputs)
    """
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equal", type=int, default=40, help="how many equals to measure")
    parser.add_argument("--together", type=int, default=4, help="equals in one run")
    parser.add_argument("--planted", type=int, default=10, help="runs with the planted difference")
    parser.add_argument("--pairs", type=int, default=DEFAULT_PAIRS, help="most process pairs of a configuration")
    parser.add_argument("--seconds", type=float, default=2.0, help="timed seconds of a configuration")
    parser.add_argument("--load", action="store_true", help="other work that comes and goes")
    parser.add_argument("--explain", action="store_true", help="the planted ones by explain")
    parser.add_argument("--threads", type=int, help="as --threads of dynalyze bench")
    options = parser.parse_args()
    planted = Configuration("planted 1.3x", backend="eager")
    equals = [Configuration(f"eager again {number + 1}", compile=False) for number in range(options.equal)]
    runs = [equals[start : start + options.together] for start in range(0, len(equals), options.together)]
    with tempfile.TemporaryDirectory() as folder, changing_load() if options.load else nullcontext():
        target = Path(folder, "planted.py")
        target.write_text(MODEL)
        series("equal", runs, target, options)
        series("planted", [[planted]] * options.planted, target, options)


@contextmanager
def changing_load() -> Iterator[None]:
    """Other work beside the block, more and less of it in turn, by a fixed seed."""
    process = multiprocessing.get_context("spawn").Process(target=come_and_go, daemon=False)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def come_and_go() -> None:
    generator = random.Random(0)
    cores = os.cpu_count() or 1
    while True:
        seconds = generator.uniform(1, 20)
        commands = [[sys.executable, "-c", BUSY.format(seconds)]] * generator.randint(0, cores)
        for process in [subprocess.Popen(command) for command in commands]:
            process.wait()
        time.sleep(0 if commands else seconds)


def series(kind: str, runs: list[list[Configuration]], target: Path, options: argparse.Namespace) -> None:
    """Runs of one kind, each told as it ends, and how many configurations came out as they should."""
    started = time.monotonic()
    verdicts = []
    for seed, configurations in enumerate(runs):
        for found in measured(configurations, target, options, seed):
            verdicts.append(found.speedup.verdict if found.speedup else found.status)
            print(f"{kind} {len(verdicts)}: {told(found)}", flush=True)
    if verdicts:
        right = verdicts.count(WANTED[kind])
        seconds = time.monotonic() - started
        print(f"{kind}: {right} of {len(verdicts)} {WANTED[kind]!r}, {seconds:.0f} s\n", flush=True)


def measured(
    configurations: list[Configuration], target: Path, options: argparse.Namespace, seed: int
) -> list[Measurement]:
    """What one benchmark says of each configuration; the row of eager itself is left out."""
    plan = Plan(
        source={"kind": "object", "path": str(target), "module": None, "name": "build", "inputs": [], "arguments": []},
        configurations=tuple(configurations),
        pairs=options.pairs,
        seconds=options.seconds,
        threads=options.threads,
        seed=seed,
        memory=False,
        accuracy=False,
    )
    if options.explain:
        return explained(target)
    names = {each.name for each in configurations}
    return [each for each in run_bench(plan, progress=lambda _: None).measurements if each.configuration in names]


def explained(target: Path) -> list[Measurement]:
    """The same by the command, of the target run as a program."""
    file = target.with_suffix(".json")
    command = [sys.executable, "-m", "dynalyze", "explain", str(target), "--json", str(file)]
    subprocess.run(command, capture_output=True, check=True)
    found = msgspec.json.decode(file.read_bytes(), type=Report)
    return [each for each in found.measurements if each.configuration != "eager"]


def told(found: Measurement) -> str:
    if found.speedup is None:
        return f"{found.status} {found.reason}"
    ratio, floor = found.speedup.ratio, found.speedup.floor
    shown = "unknown" if floor is None else f"{100 * floor:.1f} %"
    return (
        f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}), floor {shown}, "
        f"{found.speedup.pairs} pairs: {found.speedup.verdict}"
    )


if __name__ == "__main__":
    main()
