"""What it costs a call that its process refuses effects on the outside: contained processes against open ones.

    python benchmarks/containment.py [--pairs 8]

Pairs of processes take turns, as in `dynalyze bench`: one refuses effects, one does not, and both compile the same
calls. The control is two open ones. A ratio above 1 says that the contained process is slower.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from dataclasses import replace
from pathlib import Path

from dynalyze.bench import schedule, stats
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import WorkerPool
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.launch.spec import read_target
from dynalyze.launch.streams import Streams
from dynalyze.report.measurements import Pair

TARGETS = {
    "a small MLP": """
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
def make(): return model, (torch.randn(8, 64),)
""",
    "one with ten graph breaks": """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(10))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
            torch._dynamo.graph_break()
        return x
def make(): return Net(), (torch.randn(8, 64),)
""",
    "one that reads a file in each call": """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(64, 64)
    def forward(self, x):
        with open(__file__) as file:
            file.read()
        return self.lin(x)
def make(): return Net(), (torch.randn(8, 64),)
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8)
    asked = parser.parse_args()
    generator = random.Random(0)
    for name, source in TARGETS.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "m.py").write_text(source)
            target = read_target(f"{folder}/m.py:make", None, (), (), ())
            plan = Plan(source=rebuilt_source(target), configurations=(Configuration("default"),))
            contained = worker_request(plan, plan.works[0], Configuration("default"))
            opened = replace(contained, allow_effects=True)
            pairs: list[Pair] = []
            control: list[Pair] = []
            with WorkerPool(Streams("", quiet=True), 600.0) as pool:
                for _ in range(asked.pairs):
                    with schedule.SharedArm(pool, Arm(opened, None)) as first:
                        for request, samples in generator.sample([(contained, pairs), (opened, control)], 2):
                            samples.append(first.take_turns(Arm(request, None), 2.0, generator).pair)
        found = stats.speedup(pairs, control)
        assert found is not None
        low, ratio, high = (1 / each for each in (found.ratio.high, found.ratio.value, found.ratio.low))
        print(f"{name}: contained takes {ratio:.3f}x the time ({low:.3f} to {high:.3f}), {found.verdict}", flush=True)


if __name__ == "__main__":
    main()
