"""Whether the price of a graph break is right: costs of known size are planted at random lines, and looked for.

    .venv/bin/python benchmarks/prices.py
    .venv/bin/python benchmarks/prices.py --plants 40 --seed 2
    .venv/bin/python benchmarks/prices.py --explain --targets
    .venv/bin/python benchmarks/prices.py --plants 0 --targets samples/breaks.py hf:BertModel

A plant keeps Python busy for 0.3 to 3 ms at a line that breaks the graph, in one of these places: the forward itself, a
helper that it calls, a module inside of it, a loop that leaves its function in eager. Beside each stands the same line
with nothing planted. A call that waited for a line may take longer after it too: threads have gone to sleep, others
have had the caches. So the truth of a plant is what a call of plain torch takes longer with it than without. Wanted:
each price within 10% of that, and no line without a plant above 5% of the smallest one. With `--explain` the plants are
in a program that compiles and calls the module, and priced by `dynalyze explain` as it is. With `--others` eager matrix
products at a break are held against the same products timed alone, and the guards on 2,000 objects against how much
longer a call takes with them than without. Of `--targets` the parts of a call are held against the call itself: within
5%.

`--recompiles 5` plants recompiles of random size: a function of many operations that an int is a constant in, beside
one that nothing changes. What a call with a new int takes beyond a warm one, by the clock of the program, is held
against the price of the recompile in the same process: within 10%, and no price at another line. All compiles together
are held against all first calls, within 5%. A run of the same program without dynalyze shows what that adds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

HEAD = """
import time
import torch
from torch import nn


OFF = set()


@torch.compiler.disable
def busy(ms):
    end = time.perf_counter() + (0 if ms in OFF else ms) / 1e3
    while time.perf_counter() < end:
        pass

"""
PER_PROGRAM = 5
MAIN = """

if __name__ == "__main__":
    model, inputs = build()
    compiled = torch.compile(model)
    with torch.no_grad():  # Beside autograd a break takes hundreds of microseconds of its own.
        for _ in range(4):
            compiled(*inputs)
"""


TRUTH = """
import random
import statistics
import sys
import time

import torch

sys.path.insert(0, sys.argv[1])
import planted

model, inputs = planted.build()
off, compiled = planted.OFF, torch.compile(model)
arms = [None, *map(float, sys.argv[2:])]
differences = {arm: [] for arm in arms[1:]}


def call():
    began = time.perf_counter()
    compiled(*inputs)
    return (time.perf_counter() - began) * 1e3


with torch.no_grad():
    for _ in range(200):
        taken = {}
        for arm in random.sample(arms, len(arms)):
            off.clear()
            off.add(arm)
            call()
            taken[arm] = call()
        for arm, found in differences.items():
            found.append(taken[None] - taken[arm])
print(*(statistics.median(found) for found in differences.values()))
"""


def truths(file: Path, plants: list[tuple[str, float]]) -> dict[float, float]:
    """Milliseconds that a call of plain torch takes longer with each plant than without it, by what was planted."""
    lines = [ms / 2 if place == "loop" else ms for place, ms in plants]
    command = [sys.executable, "-c", TRUTH, str(file.parent), *map(str, lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip([ms for _, ms in plants], map(float, done.stdout.split()), strict=True))


def program(plants: list[tuple[str, float]]) -> str:
    """A module with these plants (place, ms), in this order; the comment of a line says what is planted there."""
    modules, methods, body, made = [], [], ["x = self.first(x)"], ["self.first = nn.Linear(64, 64)"]
    for number, (place, ms) in enumerate(plants):
        if place == "forward":
            body += [f"busy({ms})  # plant: {ms}", "x = torch.relu(x) + 1", "busy(0)  # plant: 0", "x = x * 2"]
        elif place == "helper":
            methods.append(
                f"def helper_{number}(self, x):\n    x = x + 1\n    busy({ms})  # plant: {ms}\n    return torch.sin(x)"
            )
            body += [f"x = self.helper_{number}(x)", "x = x * 2"]
        elif place == "module":
            modules.append(
                f"class Inner{number}(nn.Module):\n    def forward(self, x):\n        x = torch.cos(x)\n"
                f"        busy({ms})  # plant: {ms}\n        return x + 1\n"
            )
            made.append(f"self.inner_{number} = Inner{number}()")
            body += [f"x = self.inner_{number}(x)", "x = x * 2"]
        else:
            methods.append(
                f"def loop_{number}(self, x):\n    for _ in range(2):\n        x = x * 2\n"
                f"        busy({ms / 2})  # plant: {ms}\n    return x"
            )
            body += [f"x = self.loop_{number}(x)", "x = x + 2"]
    init = "\n".join(["def __init__(self):", "    super().__init__()", *(f"    {line}" for line in made)])
    forward = "\n".join(["def forward(self, x):", *(f"    {line}" for line in [*body, "return x"])])
    text = "\n\n".join([init, *methods, forward])
    tail = "\n\ndef build():\n    return Planted().eval(), (torch.randn(8, 64),)\n" + MAIN
    return HEAD + "\n\n".join(modules) + "\n\nclass Planted(nn.Module):\n" + textwrap.indent(text, "    ") + tail


def measured(target: str, *options: str) -> dict[str, Any]:
    """The prices of a target, by the command itself: `bench`, or `explain` where the target is a program."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        program = target.endswith(".py")
        words = [] if program else ["--prices", "--no-memory", "--no-accuracy", "--pairs", "1", "--seconds", "4"]
        command = [sys.executable, "-m", "dynalyze", "explain" if program else "bench", target, *words,
                   "--quiet-target", *options, "--json", str(file)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not file.exists():
            raise SystemExit(f"{target}: {done.stderr[-2000:]}")
        report = json.loads(file.read_text())
        rows = report["measurements"]
    found = next((row for row in rows if row["prices"] is not None), None)
    if found is None:
        told = [*(row["reason"] for row in rows), *report["capture"]["notes"]]
        return {"problem": f"nothing was priced: {told}", "breaks": []}
    return dict(found["prices"])


def plant(count: int, seed: int, options: list[str], *, explain: bool = False) -> tuple[list[float], list[float]]:
    """The error of each plant's price, and what lines without a plant have of the smallest plant, as shares."""
    generator = random.Random(seed)
    errors, strays = [], []
    for first in range(0, count, PER_PROGRAM):
        plants = [
            (generator.choice(("forward", "helper", "module", "loop")), round(generator.uniform(0.3, 3.0), 2))
            for _ in range(min(PER_PROGRAM, count - first))
        ]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "planted.py"
            file.write_text(program(plants))
            truth = truths(file, plants)
            prices = measured(str(file) if explain else f"{file}:build", *options)
            lines = file.read_text().splitlines()
        if prices["problem"]:
            print(f"withheld: {prices['problem']}")
            errors += [1.0] * len(plants)
            continue
        found = {each["place"]["line"]: each["ms"]["value"] for each in prices["breaks"]}
        least = min(ms for _, ms in plants)
        for number, line in enumerate(lines, 1):
            if "# plant: " not in line:
                continue
            wanted, got = float(line.partition("# plant: ")[2]), found.pop(number, 0.0)
            if wanted:
                true = truth[wanted]
                errors.append(abs(got / true - 1))
                print(f"{line.strip():42} {got:7.3f} ms, in truth {true:.3f} ms  {100 * (got / true - 1):+6.1f} %")
            else:
                strays.append(got / least)
        strays += [ms / least for ms in found.values()]
    return errors, strays


OTHERS = """
import time
import torch
from torch import nn

torch.manual_seed(0)
WEIGHT = torch.randn(256, 256)


@torch.compiler.disable
def products(x):
    for _ in range(8):
        x = x @ WEIGHT
    return x


class Config:
    def __init__(self, value):
        self.value = value


class Gap(nn.Module):
    def forward(self, x):
        x = products(torch.relu(x))  # the gap
        return x + 1


class Guarded(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.configs = [Config(value) for value in range(count)]

    def forward(self, x):
        return x + sum(each.value for each in self.configs)


def gap():
    return Gap().eval(), (torch.randn(256, 256),)


def guarded():
    return Guarded(2000).eval(), (torch.randn(8, 8),)


def median_ms(call, rounds=300):
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1e3)
    return sorted(taken[rounds // 3:])[rounds // 3]


if __name__ == "__main__":
    x, times = torch.relu(torch.randn(256, 256)), []
    with torch.no_grad():
        times.append(median_ms(lambda: products(x)))
        for count in (2000, 0):
            model = torch.compile(Guarded(count).eval(), backend="eager")
            small = torch.randn(8, 8)
            times.append(median_ms(lambda: model(small)))
    print(times[0], times[1] - times[2])
"""


def others() -> None:
    """Eager work at a break and guards on many objects, each against a timing of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "others.py"
        file.write_text(OTHERS)
        alone = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True).stdout.split()
        gap = measured(f"{file}:gap", "--backend", "eager")
        guarded = measured(f"{file}:guarded", "--backend", "eager")
    found = {
        "eager products": (sum(each["gap_ms"] for each in gap["breaks"]), float(alone[0])),
        "2,000 guarded objects": (sum(each["us"] for each in guarded["guards"]) / 1e3, float(alone[1])),
    }
    for name, (price, truth) in found.items():
        print(f"{name}: {price:.3f} ms, {truth:.3f} ms alone, {100 * (price / truth - 1):+.1f} %")
    for each in guarded["guards"]:
        print(f"  {each['count']} guards, by source: {[(g['source'], round(g['share'], 2)) for g in each['groups']]}")


RECOMPILED = """
import json
import sys
import time

import torch


@torch.compile(dynamic=False)
def steady(x):
    return torch.cos(x) + 1


@torch.compile(dynamic=False)
def changing(x, number):
    for step in range({operations}):
        x = torch.sin(x @ x) * number if step % 8 == 0 else torch.tanh(x) + number
    return x.sum()


def call(function, *arguments):
    began = time.perf_counter()
    function(torch.randn({size}, {size}, requires_grad=True), *arguments).sum().backward()
    return time.perf_counter() - began


taken = {{}}
for name, arguments in [("steady", (steady,)), ("first", (changing, 2)), ("again", (changing, 7))]:
    first, *warm = [call(*arguments) for _ in range(6)]
    taken[name] = first - min(warm)
with open(sys.argv[1], "w") as file:
    json.dump(taken, file)
"""


def recompiles(count: int, seed: int) -> None:
    """The price of planted recompiles against the clock of the program that makes them."""
    generator, errors = random.Random(seed), []
    for _ in range(count):
        operations, size = generator.randint(8, 96), generator.choice((16, 32, 64))
        with tempfile.TemporaryDirectory() as folder:
            program, report, clock = (Path(folder) / name for name in ("again.py", "report.json", "clock.json"))
            program.write_text(RECOMPILED.format(operations=operations, size=size))
            plain = _timed([sys.executable, str(program), str(clock)], f"{folder}/plain", clock)
            explain = [sys.executable, "-m", "dynalyze", "explain", "--no-bench", "--json", str(report), str(program)]
            taken = _timed([*explain, str(clock)], f"{folder}/explained", clock)
            found = json.loads(report.read_text())
        prices = {each["location"]["function"]: each["impact"] for each in found["findings"] if each["impact"]}
        price = prices.pop("changing")["compile_seconds"]
        spans = [span for each in found["compilations"] for span in (each, *each["backward"])]
        whole = sum(sum(span["exclusive"].values()) for span in spans)
        errors.append(abs(price / taken["again"] - 1))
        print(
            f"{operations} operations: {price:.3f} s, the call {taken['again']:.3f} s, "
            f"{100 * (price / taken['again'] - 1):+.1f} %; all phases {whole:.2f} s, all first calls "
            f"{sum(taken.values()):.2f} s, {100 * (whole / sum(taken.values()) - 1):+.1f} %; without dynalyze "
            f"{plain['again']:.3f} s; prices elsewhere: {prices or 'none'}"
        )
    print(
        f"{sum(error <= 0.1 for error in errors)} of {count} recompiles within 10%, {100 * max(errors):.1f} % at most"
    )


def _timed(command: list[str], caches: str, clock: Path) -> dict[str, float]:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches}
    subprocess.run(command, env=environment, capture_output=True, check=True)
    return dict(json.loads(clock.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plants", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--explain", action="store_true", help="by explain, not bench")
    parser.add_argument("--others", action="store_true", help="eager products and guards as well")
    parser.add_argument("--recompiles", type=int, default=0, help="planted recompiles")
    parser.add_argument("--targets", nargs="*", default=["samples/breaks.py"])
    parser.add_argument("--options", nargs="*", default=[], help="more options of bench, e.g. --backend=eager")
    given = parser.parse_args()
    errors, strays = plant(given.plants, given.seed, given.options, explain=given.explain) if given.plants else ([], [])
    if given.others:
        others()
    if given.recompiles:
        recompiles(given.recompiles, given.seed)
    for target in given.targets:
        prices = measured(target, *given.options)
        call, parts = prices["call_ms"], sum(part["ms"] for part in prices["parts"])
        if prices["problem"]:
            print(f"{target}: withheld: {prices['problem']}")
        else:
            off = 100 * (parts / call["value"] - 1)
            print(f"{target}: a call {call['value']:.4g} ms, its parts {parts:.4g} ms, {off:+.1f} %")
    if errors:
        close = sum(error <= 0.1 for error in errors)
        print(f"{close} of {len(errors)} prices within 10%, the worst {100 * max(errors):.1f} % off; "
              f"lines without a plant at most {100 * max(strays, default=0):.1f} % of the smallest plant")  # fmt: skip


if __name__ == "__main__":
    main()
