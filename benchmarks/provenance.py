"""What `--provenance` adds to a compile: the same Inductor compile with it and without, alternating in one run.

    .venv/bin/python benchmarks/provenance.py --rounds 3
    .venv/bin/python benchmarks/provenance.py --tracking-only --rounds 10

The program is a training step of a small network. By default every run is a new process of `dynalyze explain` with a
new cache folder. Shown are medians, and the median of the ratios within each round, of: wall time, CPU time of all
processes (on a CPU most of it is the C++ compiler's, which tracking does not touch), and the CPU time of the compiling
process alone, where the tracking is done.

`--tracking-only` compiles again and again in one process, with torch's graph caches off and the C++ compiled before,
and switches the tracking itself: CPU time of torch's Python alone, the least favourable figure.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ARMS = {"without": [], "with": ["--provenance"]}
FIGURES = ("wall", "CPU", "CPU of the compiling process")
NETWORK = textwrap.dedent(
    """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(32)
            self.inner = nn.Linear(32, 64)
            self.outer = nn.Linear(64, 32)

        def forward(self, x):
            return x + self.outer(nn.functional.gelu(self.inner(self.norm(x)))).softmax(-1)

    model = torch.compile(nn.Sequential(*(Block() for _ in range(8))))
    model(torch.randn(4, 32)).sum().backward()
    """
)
# Printed last by the program itself, which is the process that compiles.
_OWN_CPU = "import resource as _r; _u = _r.getrusage(_r.RUSAGE_SELF); print('own', _u.ru_utime + _u.ru_stime)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tracking-only", action="store_true")
    options = parser.parse_args()
    if options.tracking_only:
        tracking_only(options.rounds)
    else:
        whole_runs(options.rounds)


def whole_runs(rounds: int) -> None:
    taken: dict[str, list[tuple[float, ...]]] = {arm: [] for arm in ARMS}
    for number in range(rounds):
        for arm in ARMS if number % 2 == 0 else reversed(ARMS):
            taken[arm].append(measure(NETWORK, ARMS[arm]))
            shown = ", ".join(f"{value:.2f} s" for value in taken[arm][-1])
            print(f"round {number + 1} {arm:<8} {shown}", file=sys.stderr, flush=True)
    for index, figure in enumerate(FIGURES):
        show(figure, *([figures[index] for figures in taken[arm]] for arm in ARMS))


def tracking_only(rounds: int) -> None:
    """CPU seconds of one compile, forward and backward, with everything cached that is not torch's Python."""
    os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    import torch
    from torch._inductor import config

    names: dict[str, object] = {}
    taken: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory(prefix="dynalyze-provenance-") as name:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = name
        for number in range(rounds + 1):
            for arm in ARMS if number % 2 == 0 else reversed(ARMS):
                torch._dynamo.reset()
                config.trace.provenance_tracking_level = int(arm == "with")
                began = time.process_time()
                exec(compile(NETWORK, "network.py", "exec"), names)
                if number:  # The first round compiles the C++.
                    taken[arm].append(time.process_time() - began)
    show("torch's Python, CPU", *(taken[arm] for arm in ARMS))


def show(figure: str, plain: list[float], tracked: list[float]) -> None:
    ratios = [one / other for one, other in zip(tracked, plain, strict=True)]
    print(
        f"{figure:<29} without {statistics.median(plain):6.2f} s   with {statistics.median(tracked):6.2f} s   "
        f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    )


def measure(text: str, extra: list[str]) -> tuple[float, ...]:
    """One cold run: wall seconds, CPU seconds of all its processes, and of the one that compiles."""
    with tempfile.TemporaryDirectory(prefix="dynalyze-provenance-") as name:
        program, report = Path(name) / "program.py", Path(name) / "report.json"
        program.write_text(text + _OWN_CPU, encoding="utf-8")
        command = [sys.executable, "-m", "dynalyze", "explain", str(program), *extra, "--json", str(report)]
        before, began = cpu_of_children(), time.perf_counter()
        ended = subprocess.run(
            command, env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(Path(name) / "cache")}, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wall, cpu = time.perf_counter() - began, cpu_of_children() - before
        how = {kernel["provenance"] for kernel in json.loads(report.read_text(encoding="utf-8"))["kernels"]}
    if ("inductor" in how) != bool(extra):
        raise SystemExit(f"tracked where it should not be, or not where it should: {how}")
    own = next(line.split()[1] for line in reversed(ended.stderr.splitlines()) if line.startswith("own "))
    return wall, cpu, float(own)


def cpu_of_children() -> float:
    """CPU seconds of all processes that this one started and that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
