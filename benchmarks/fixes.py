"""How many graph breaks `dynalyze fix` ends, by cause: over a list of targets that break.

    python benchmarks/fixes.py hf:ReformerModel hf:LongformerModel path/to/train.py
    python benchmarks/fixes.py --list targets.txt --keep reports/
    python benchmarks/fixes.py --cookbook

Each target is fixed in a process of its own; a line of the list is what stands behind `dynalyze fix`. `--cookbook` adds
the examples of all recipes, as they are before the change that the recipe tells of. A distinct break counts once,
however many targets meet it, by the text of its statement and its type: transformers copies the code of one model into
the files of many. "by source" counts those that changes of source alone end, "with settings" those with settings of
Dynamo too.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dynalyze.rules.recipe import recipes

SECONDS = 1800


def fixed(target: str, keep: Path, seconds: float) -> dict[str, Any]:
    """The report of `dynalyze fix` on a target; with `error` in the place of breaks where there is none."""
    report = (keep / re.sub(r"[^\w.-]+", "_", target)[-120:]).with_suffix(".json")
    took = 0.0
    if not report.exists():
        began = time.monotonic()
        command = [sys.executable, "-m", "dynalyze", "fix", "--no-bench", "--quiet-target", "--json", str(report),
                   *shlex.split(target)]  # fmt: skip
        done = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, told = done.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            done.send_signal(signal.SIGTERM)  # What was verified until then is told.
            _, told = done.communicate()
        if not report.exists():
            said = told.strip().splitlines()
            return {"error": said[-1][:160] if said else f"exit {done.returncode}"}
        took = time.monotonic() - began
    return {**json.loads(report.read_text()), "seconds": took}


def cookbook(folder: Path) -> list[str]:
    """The examples of the recipes as targets, written into this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = []
    for recipe in recipes():
        if recipe.kind == "cause":
            file = folder / f"{recipe.id.replace('-', '_')}.py"
            file.write_text(recipe.before)
            targets.append(f"{file}:f --input={shlex.quote(recipe.inputs)}")
    return targets


HOW = ("source", "setting", "stays")
"""How a break may end, the least change first."""


def cause_of(found: dict[str, Any]) -> tuple[str, str]:
    """What makes a break the same as another: its statement, else its place, and its type."""
    where = found["location"]
    code = " ".join((where.get("code") or "").split())
    return code or f"{where['file']}:{where['line']}", found["gb_type"]


def kind_of(fix: dict[str, Any]) -> str:
    return str(fix["kind"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--list", type=Path, help="a file with a target a line")
    parser.add_argument("--keep", type=Path, help="a folder for the reports; those that are there are not made again")
    parser.add_argument("--cookbook", action="store_true", help="the examples of all recipes too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the most that a target may take")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at once")
    options = parser.parse_args()
    targets = [*options.targets, *(options.list.read_text().split("\n") if options.list else [])]
    keep = options.keep or Path(tempfile.mkdtemp())
    keep.mkdir(exist_ok=True)
    if options.cookbook:
        targets += cookbook(keep / "cookbook")
    kinds: dict[tuple[str, str], set[str]] = defaultdict(set)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    met = Counter[str]()
    whole, broken = list[str](), list[str]()
    targets = list(filter(None, map(str.strip, targets)))
    pool = ThreadPoolExecutor(options.jobs)
    reports = pool.map(lambda target: fixed(target, keep, options.seconds), targets)
    for target, report in zip(targets, reports, strict=True):
        if "error" in report:
            print(f"{target}: {report['error']}", flush=True)
            continue
        if not report["graph_breaks"]:
            ended = report["outcome"]
            print(f"{target}: {'no graph break' if ended['status'] == 'complete' else ended['message']}", flush=True)
            continue
        broken.append(target)
        verified = [each for each in report["fixes"] if each["status"] == "verified"]
        ends = {name: kind_of(each) for each in verified for name in each["breaks"]}
        stays = {each["break_id"] for each in report["fixed"]["unfixed"]}
        for each in report["graph_breaks"]:
            if each["id"] not in ends and each["id"] not in stays:
                continue  # The program's calls, made again, do not meet it: there was nothing to end.
            kinds[cause_of(each)].add(ends.get(each["id"], "stays"))
            met[ends.get(each["id"], "stays")] += 1
        told = report["fixed"]
        for each in told["unfixed"]:
            reasons[each["gb_type"]][each["reason"].partition(":")[0][:90]] += 1
        left = len(told["unfixed"])  # Of `hf:NAME` no whole program is run, and nothing is counted after the change.
        if not left:
            whole.append(target)
        seconds, status = report["seconds"], report["outcome"]["status"]
        print(f"{target}: {told['before']['breaks']} -> {left} breaks, {Counter(ends.values())}, "
              f"{seconds:.0f} s, {status}", flush=True)  # fmt: skip
    table(kinds)
    print(f"\nbreaks of all targets, each in each: {met.total()}, {', '.join(f'{how} {met[how]}' for how in HOW)}")
    print(f"{len(whole)} of {len(broken)} targets end without a break: {', '.join(whole)}")
    for gb_type, counted in reasons.items():
        print(f"\n{gb_type}")
        for reason, count in counted.most_common(5):
            print(f"  {count:3d} {reason}")
    return 0


def table(kinds: dict[tuple[str, str], set[str]]) -> None:
    """Distinct breaks by type: how many there are, how many end by source, with settings. One counts
    as the most that it takes in any target that meets it.
    """
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for (_, gb_type), found in kinds.items():
        rows[gb_type][max(found, key=HOW.index)] += 1
    total = sum(rows.values(), Counter[str]())
    print("\n| cause | distinct breaks | by source | with settings |")
    print("|---|---|---|---|")
    ordered = sorted(rows.items(), key=lambda row: -row[1].total())
    for name, row in [*ordered, ("all", total)]:
        so_far = [sum(row[how] for how in HOW[:end]) for end in range(1, len(HOW))]
        shares = " | ".join(f"{ended} ({ended / (row.total() or 1):.0%})" for ended in so_far)
        print(f"| {name} | {row.total()} | {shares} |")


if __name__ == "__main__":
    sys.exit(main())
