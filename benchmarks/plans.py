"""How good the choice of `dynalyze plan` is: its total seconds against the best of an exhaustive measurement.

    .venv/bin/python benchmarks/plans.py
    .venv/bin/python benchmarks/plans.py --models convolutions --calls 1 1000 --budget 120

Three models: a transformer, a perceptron whose forward breaks the graph, and residual convolutions. The exhaustive
measurement is a plan without an end. Then a plan is made for
each number of calls, within its budget. "behind" is how much longer the chosen way takes than the best one, both by the
exhaustive measurement; "took" are the seconds of the plan. Others on the machine make it noisy: run it when it is idle.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dynalyze.bench.choice import Point, points_of
from dynalyze.report import Report
from dynalyze.report.document import from_json

CALLS = (1, 30, 1000, 100_000)
MODELS = {
    "transformer": """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.second(x)), approximate="tanh"))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 192)
        self.layers = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(192, 10)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))

def make():
    torch.manual_seed(0)
    return Net().eval(), (torch.randint(0, 1000, (1, 128)),)
""",
    "perceptron": """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.linear, self.scale = nn.Linear(width, width), nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = self.linear(x)
        return x + torch.tanh(y * self.scale) * torch.sigmoid(y) * torch.exp(-y * y)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(Layer() for _ in range(3)))
        self.last = nn.Sequential(*(Layer() for _ in range(3)))

    def forward(self, x):
        x = self.layers(x)
        if x.abs().max() > 1e4:
            x = x / 2
        return self.last(x)

def make():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(256, 512),)
""",
    "convolutions": """
import torch
from torch import nn

class Residual(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.first, self.second = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        y = nn.functional.silu(self.first(self.one(x)))
        return nn.functional.silu(x + self.second(self.two(y)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.blocks = nn.Sequential(*(Residual() for _ in range(3)))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))

def make():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 3, 64, 64),)
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--calls", nargs="+", type=int, default=list(CALLS))
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of each plan")
    parser.add_argument("--keep", type=Path, help="a folder for the reports, and for those of before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        for name in options.models:
            measure(name, options.calls, options.budget, folder)


def measure(name: str, calls: list[int], budget: float, folder: Path) -> None:
    (folder / f"{name}.py").write_text(MODELS[name])
    everything = folder / f"{name}.all.json"
    if not everything.exists():
        planned(folder, name, everything.name, "--budget", "7200")
    report = from_json(everything.read_bytes())
    points = points_of(report.measurements)
    warm = {point.name: point for point in points_of(report.measurements, warm=True)}
    print(f"\n{name}, exhaustive in {report.outcome.seconds:.0f} s:")
    for point in points:
        again = f"{warm[point.name].start_up:.2f} s warm" if point.name in warm else ""
        print(f"  {point.name:12} {point.start_up:6.2f} s, {again:12} {point.steady * 1000:7.3f} ms a call")
    print("\n| model | calls | chosen | best | behind | budget | took |\n|---|---|---|---|---|---|---|")
    for number in calls:
        report, seconds = planned(
            folder, name, f"{name}.{number}.json", "--calls", str(number), "--budget", str(budget)
        )
        chosen = report.plan.choice if report.plan is not None else ""
        told, behind = against(points, chosen, number)
        print(
            f"| {name} | {number:,} | {chosen} | {told} | {behind:.1%} | {budget:.0f} s | {seconds:.0f} s |", flush=True
        )


def against(points: list[Point], chosen: str, number: int) -> tuple[str, float]:
    """The best way, and how much longer the chosen one takes."""
    first = min(points, key=lambda point: point.total(number), default=None)
    own = next((point for point in points if point.name == chosen), None)
    if first is None or own is None:
        return "unknown", float("nan")
    return first.name, own.total(number) / first.total(number) - 1


def planned(folder: Path, name: str, file: str, *options: str) -> tuple[Report, float]:
    """The report of a plan, and the seconds it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "dynalyze", "plan", f"{name}.py:make", "--threads", "1", "--json", file, *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return from_json((folder / file).read_bytes()), time.monotonic() - began


if __name__ == "__main__":
    main()
