"""Is what another torch changes told, and nothing else? `dynalyze upgrade` against torch's own logs under each of two.

    .venv/bin/python benchmarks/upgrades.py --to NEW/bin/python              ten programs, this torch and another
    .venv/bin/python benchmarks/upgrades.py --from OLD/bin/python --to NEW/bin/python --only clocks
    .venv/bin/python benchmarks/upgrades.py --equal 10                       one interpreter on both sides, timed too

The truth is read from plain runs with TORCH_LOGS=graph_breaks,recompiles: for each line how many ids of graph breaks
it has, for each function how often it compiled again. Right is: what differs in them is told, and no break and no
recompile beside it. Between equals nothing at all may be told.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "cases"
PROGRAMS = {
    "breaks": ROOT / "samples" / "breaks.py",
    "recompiles": ROOT / "samples" / "recompiles.py",
    "clocks": CASES / "clocks_and_chance" / "profile_me.py",
    "copies": CASES / "numpy_and_copies" / "features.py",
    "recompiled_break": CASES / "recompiled_break" / "requests.py",
    "loss": CASES / "loss_reads_a_value" / "train.py",
    "two_reads": CASES / "two_reads_on_one_line" / "price.py",
    "recursion": CASES / "recursion" / "fold.py",
}
# What is planted depends on the torch that runs it: a line of its own, a helper that moved, a break more in a loop.
PLANTED = """
import torch

NEW = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15)


def noted(x):
    if NEW:
        print("new")
    return x + 1


def read(x):
    if not NEW:
        x = x * x.sum().item()
    return x.cos()


def sized(x, n):
    return x * (n if NEW else 2)


run = {name: torch.compile(f, backend="eager") for name, f in (("noted", noted), ("read", read), ("sized", sized))}
x = torch.ones(4)
run["noted"](x)
run["read"](x)
for n in ("a", "bb", "ccc"):
    run["sized"](x, len(n) + 0.5)
"""
SMALL = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256))
compiled = torch.compile(model)
for _ in range(3):
    compiled(torch.randn(64, 256)).sum().backward()
"""
_BREAK = re.compile(r"Graph break in user code at (?P<file>\S+):(?P<line>\d+)$", re.MULTILINE)
_ID = re.compile(r"/gb/(gb\d+)\.html")
_AGAIN = re.compile(r"Recompiling function (?P<name>\S+) in (?P<file>\S+):\d+")
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_\d+\Z")


def logged(python: str, program: Path) -> tuple[dict[str, set[str]], Counter[str]]:
    """Ids of breaks by line, and recompiles by function, in torch's own logs."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles", "TORCHINDUCTOR_CACHE_DIR": cache}
        ended = subprocess.run(
            [python, program.name], cwd=program.parent, env=environment, capture_output=True, text=True, check=False
        )
    text = ended.stderr
    breaks: dict[str, set[str]] = {}
    places = list(_BREAK.finditer(text))
    for number, found in enumerate(places):
        end = places[number + 1].start() if number + 1 < len(places) else len(text)
        # The first id is that of the cause; what follows from it comes after.
        ids = _ID.findall(text[found.end() : end])
        place = f"{Path(found['file']).name}:{found['line']}"
        breaks.setdefault(place, set()).add(ids[0] if ids else "without an id")
    again: Counter[str] = Counter()
    for found in _AGAIN.finditer(text):
        resumed = _RESUMED.match(found["name"])
        again[resumed["name"] if resumed else found["name"].rpartition(".")[2]] += 1
    return breaks, again


def differing(one: tuple[Any, Any], other: tuple[Any, Any]) -> Counter[str]:
    """By line how many breaks more there are, by function how many recompiles."""
    found: Counter[str] = Counter()
    for line in {*one[0], *other[0]}:
        found[f"break {line}"] = len(other[0].get(line, ())) - len(one[0].get(line, ()))
    for function in {*one[1], *other[1]}:
        found[f"recompile {function}"] = other[1][function] - one[1][function]
    return Counter({name: count for name, count in found.items() if count})


def told(found: dict[str, Any]) -> Counter[str]:
    """The same of what `dynalyze upgrade` tells."""
    counts: Counter[str] = Counter()
    breaks, recompiles = found["comparison"]["breaks"], found["comparison"]["recompiles"]
    for name, side, sign in (("new", "after", 1), ("fixed", "before", -1)):
        for change in breaks[name]:
            at = change[side]["location"]
            counts[f"break {Path(at['file']).name}:{at['line']}"] += sign
    for change in (*recompiles["new"], *recompiles["changed"], *recompiles["fixed"]):
        if change["cause"] != "limit":
            before, after = (change[side]["count"] if change[side] else 0 for side in ("before", "after"))
            counts[f"recompile {change['function'].rpartition('.')[2]}"] += after - before
    return Counter({name: count for name, count in counts.items() if count})


def upgrade(program: Path, *options: str) -> dict[str, Any]:
    """What the command writes."""
    command = [sys.executable, "-m", "dynalyze", "upgrade", str(program), "--quiet-target", "--json", "-", *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ended.stdout:
        raise SystemExit(ended.stderr)
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def between(old: str, new: str, programs: dict[str, Path]) -> int:
    """Print a row for each program; returns how many are wrong."""
    wrong = 0
    for name, program in programs.items():
        truth = differing(logged(old, program), logged(new, program))
        found = upgrade(program, "--from", old, "--to", new, "--no-bench")
        is_told = told(found)
        right = truth == is_told
        wrong += not right
        others = [f"{each['kind']}: {each['what']}" for each in found["comparison"]["regressions"]]
        others = [text for text in others if not text.startswith(("break", "recompile"))]
        print(f"{'right' if right else 'WRONG'}  {name}: {dict(truth) or 'nothing'} differs in the logs", flush=True)
        if not right:
            print(f"       told: {dict(is_told)}")
        if others:
            print(f"       and of what the logs do not hold: {others}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="old", default=sys.executable)
    parser.add_argument("--to", dest="new")
    parser.add_argument("--only", default="")
    parser.add_argument("--equal", type=int, default=0, metavar="RUNS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        planted, small = Path(folder, "planted.py"), Path(folder, "small.py")
        planted.write_text(PLANTED)
        small.write_text(SMALL)
        programs = {**PROGRAMS, "planted": planted, "small": small}
        if options.only:
            programs = {name: programs[name] for name in options.only.split(",")}
        wrong = 0
        if options.equal:
            for number in range(options.equal):
                name = list(programs)[number % len(programs)]
                found = upgrade(programs[name], "--from", options.old, "--to", options.old, "--pairs", "5")
                wrong += found["worse"]
                print(f"{'TOLD' if found['worse'] else 'nothing'}  {name}: {found['verdict']}", flush=True)
        else:
            wrong = between(options.old, options.new, programs)
        print(f"{wrong} wrong")
        raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
