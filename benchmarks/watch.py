"""What `dynalyze watch` tells of planted recompiles, and what it costs the job.

    .venv/bin/python benchmarks/watch.py plants ddp --seed 1 --plants 20 --steps 3000
    .venv/bin/python benchmarks/watch.py overhead --pairs 6
    .venv/bin/python benchmarks/watch.py step --pairs 200
    .venv/bin/python benchmarks/watch.py ranks --seconds 60
    .venv/bin/python benchmarks/watch.py memory --minutes 60

plants    two ranks with gloo, as many recompiles of six causes planted at random late steps of random ranks: which were
          told with the right rank, step, line and values, how late, how near the other rank's wait came to what it
          measured itself; and whether torch's own log has as many recompiles.
overhead  the same single job with and without the watch, in turn: the ratio of its steps a second.
step      blocks of steps of one watched process, in turn with and without its step counter: what that costs a step.
ranks     64 simulated ranks that write 10 events a second each: the watcher's processor time and memory.
memory    a job that recompiles every 10 s: resident memory of the job and of the watcher, as a slope.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CAUSES = ("shape", "dtype", "value", "attribute", "global", "grad")
_TOLD = re.compile(r"rank (\d+), step ([\d,]+): recompiled (\S+) \((\S+):(\d+)\)")
LAUNCH = [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", "2", str(HERE / "watch_job.py")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("plants", "overhead", "step", "ranks", "memory"))
    parser.add_argument("kind", nargs="?", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plants", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        globals()[options.what](options, Path(folder))


def plants(options: argparse.Namespace, folder: Path) -> None:
    """Print each plant with what was told of it, and a sum."""
    draw = random.Random(options.seed)
    steps = sorted(draw.sample(range(100, options.steps - 20, 5), options.plants))
    causes = [CAUSES[number % len(CAUSES)] for number in range(options.plants)]
    draw.shuffle(causes)
    planted = [
        {"step": step, "rank": draw.randrange(2), "cause": cause} for step, cause in zip(steps, causes, strict=True)
    ]
    (folder / "plants.json").write_text(json.dumps(planted))
    arguments = [options.kind, str(options.steps), str(folder / "plants.json"), str(folder / "out")]
    command = _watch(folder, [*LAUNCH, *arguments])
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "TORCH_LOGS": "recompiles"},
    )  # fmt: skip
    assert job.stderr is not None and job.stdout is not None
    logged: list[str] = []
    reader = threading.Thread(target=lambda: logged.extend(job.stderr or ()))
    reader.start()
    lines = [(time.time(), line) for line in job.stdout]
    job.wait()
    reader.join()
    report = json.loads((folder / "job.json").read_text())
    notices = {(each["step"], each["ranks"][0]): each for each in report["job"]["notices"] if each["ranks"]}
    own = [json.loads((folder / f"out.{rank}").read_text())["longer"] for rank in (0, 1)]
    right, errors, delays = 0, [], []
    began = _began(folder / "records")
    for each in planted:
        notice = notices.pop((each["step"], each["rank"]), None)
        told = [
            at for at, line in lines if (found := _TOLD.match(line)) and _place(found) == (each["rank"], each["step"])
        ]
        if notice is None or not told:
            print(f"{each}: NOT TOLD")
            continue
        waited, measured = (
            notice["waited"].get(str(1 - each["rank"]), 0.0),
            own[1 - each["rank"]].get(str(each["step"]), 0.0),
        )
        delays.append(told[0] - (began + notice["at"] + notice["seconds"]))
        errors += [abs(waited - measured) / measured] if measured else []
        right += bool(notice["expected"] and notice["actual"] and notice["location"]["line"])
        print(
            f"{each}: {notice['what']}; told after {delays[-1]:.1f} s; waited {waited:.2f} s, by its own clock "
            f"{measured:.2f} s"
        )
    print(f"told {right} of {len(planted)} with rank, step, line, expected and actual; {len(notices)} others told")
    print(f"told within {max(delays, default=0):.1f} s of the end of the compile at most")
    print(f"wait off by {max(errors, default=0):.0%} at most, median {statistics.median(errors or [0]):.0%}")
    torch_says = sum("[__recompiles] Recompiling function" in line for line in logged)
    print(f"recompiles: {len(report['recompiles'])} in the report, {torch_says} in torch's own log")


def overhead(options: argparse.Namespace, folder: Path) -> None:
    """Print the ratio of each pair, watched by plain, and an interval."""
    (folder / "plants.json").write_text("[]")
    ratios = []
    for number in range(options.pairs):
        rates = {}
        for watched in (True, False) if number % 2 else (False, True):
            out = folder / f"out{number}{watched}"
            command = [*LAUNCH, options.kind, str(options.steps), str(folder / "plants.json"), str(out)]
            run = folder / f"run{number}{watched}"
            run.mkdir()
            subprocess.run(_watch(run, command) if watched else command, check=True, capture_output=True, cwd=run)
            rates[watched] = json.loads(out.with_suffix(".0").read_text())["usual"]
        ratios.append(rates[True] / rates[False])
        print(f"pair {number + 1}: {rates[False] * 1e3:.3f} ms a step, watched {rates[True] * 1e3:.3f} ms", flush=True)
    logs = [each - 1 for each in ratios]
    half = 2.57 * statistics.stdev(logs) / len(logs) ** 0.5 if len(logs) > 1 else float("nan")
    middle = statistics.mean(logs)
    print(f"a step takes {middle:+.2%} longer ({middle - half:+.2%} to {middle + half:+.2%})")


def step(options: argparse.Namespace, folder: Path) -> None:
    """Print what the counter of steps adds to a step of a small network, block against block in one process."""
    program = folder / "steps.py"
    program.write_text(_STEPS)
    environment = {**os.environ, "DYNALYZE_WATCH": str(folder / "records")}
    command = [sys.executable, str(program), str(options.pairs)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    with_it, without = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    added = [one - other for one, other in zip(with_it, without, strict=True)]
    half = 1.97 * statistics.stdev(added) / len(added) ** 0.5
    middle, usual = statistics.mean(added), statistics.median(without)
    print(f"a step of {usual * 1e6:.0f} us takes {middle * 1e6:+.2f} us ({(middle - half) * 1e6:+.2f} to "
          f"{(middle + half) * 1e6:+.2f}) more: {middle / usual:+.2%}")  # fmt: skip


def ranks(options: argparse.Namespace, folder: Path) -> None:
    """Print what the watcher takes to follow 64 ranks that write 640 events a second."""
    records = folder / "records"
    writer = threading.Thread(target=_simulate, args=(records, options.seconds), daemon=True)
    writer.start()
    time.sleep(1)
    watcher = subprocess.Popen(
        [sys.executable, "-m", "dynalyze", "watch", "--json", str(folder / "job.json"), str(records)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    samples = list(_memory_of(watcher, options.seconds - 5))
    assert watcher.stdout is not None
    cpu = _cpu_of(watcher.pid)
    writer.join()
    watcher.send_signal(2)
    lines = watcher.stdout.read().splitlines()
    watcher.wait()
    share, first, last = cpu / (options.seconds - 5), samples[0][1], samples[-1][1]
    print(f"{share:.1%} of a core; {first:.0f} to {last:.0f} MiB; {len(lines)} lines printed")


def memory(options: argparse.Namespace, folder: Path) -> None:
    """Print the resident memory of a job that recompiles every 10 s and of its watcher; then the slopes."""
    program = folder / "job.py"
    program.write_text(_RECOMPILES)
    command = _watch(folder, [sys.executable, str(program), str(options.minutes * 60)])
    watcher = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(20)
    children = Path(f"/proc/{watcher.pid}/task/{watcher.pid}/children").read_text().split()
    plain = subprocess.Popen([sys.executable, str(program), str(options.minutes * 60)], cwd=folder)
    pids = {"watcher": watcher.pid, "job": int(children[0]), "the same job unwatched": plain.pid}
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in pids}
    end = time.monotonic() + options.minutes * 60 - 40
    while time.monotonic() < end:
        for name, pid in pids.items():
            seen[name].append((time.monotonic() / 3600, _resident(pid)))
        print(", ".join(f"{name} {rows[-1][1]:.0f} MiB" for name, rows in seen.items()), flush=True)
        time.sleep(min(60.0, options.minutes * 3))
    watcher.wait()
    plain.wait()
    for name, rows in seen.items():
        half = rows[len(rows) // 3 :]
        slope = statistics.linear_regression([x for x, _ in half], [y for _, y in half]).slope
        print(f"{name}: {slope:+.1f} MiB an hour")


_STEPS = """
import dynalyze.auto
import json, random, sys, time, torch
from torch.optim import optimizer as hooks
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
run = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(64, 64)
def block(number):
    began = time.perf_counter()
    for _ in range(number):
        run(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return (time.perf_counter() - began) / number
block(200)
from dynalyze.watch.child import start
ours = dict(hooks._global_optimizer_post_hooks)
assert ours
def forget(*_):
    start._watching.steps._last = time.perf_counter()  # Else the next step that counts would be a slow one.
taken = {True: [], False: []}
for _ in range(int(sys.argv[1])):
    for counted in random.sample([True, False], 2):
        hooks._global_optimizer_post_hooks.clear()
        hooks._global_optimizer_post_hooks.update(ours if counted else {0: forget})
        taken[counted].append(block(20))
print(json.dumps(taken[True]))
print(json.dumps(taken[False]))
"""
_RECOMPILES = """
import sys, time, torch
torch._dynamo.config.recompile_limit = 1 << 30
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
@torch.compile(backend="aot_eager")
def run(x, name):
    return model(x).sum() + len(name)
end, number, last = time.monotonic() + float(sys.argv[1]), 0, 0.0
while time.monotonic() < end:
    if time.monotonic() - last > 10:
        number, last = number + 1, time.monotonic()
        if number % 8 == 0:
            torch._dynamo.reset()
    run(torch.randn(4, 8), f"name{number}").backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
"""


def _simulate(records: Path, seconds: float) -> None:
    """Be 64 ranks: steps and compiles, as files of theirs have them."""
    (records / "events").mkdir(parents=True)
    (records / "ranks").mkdir()
    names = [f"{10_000 + rank}-{rank}" for rank in range(64)]
    began, number = time.time(), 0
    for rank, name in enumerate(names):
        (records / "events" / f"{name}.0.jsonl").write_text(
            json.dumps({"event": "process", "at": began, "pid": os.getpid(), "rank": rank})
            + "\n" + json.dumps({"event": "watch_rank", "at": began, "host": f"node{rank // 8}", "world": 64}) + "\n"
        )  # fmt: skip
    while time.time() < began + seconds:
        number += 1
        for rank, name in enumerate(names):
            step = number * 20
            rows: list[dict[str, Any]] = [
                {"event": "watch_step", "number": step},
                {"event": "recompile", "id": f"{number % 50}/{number}", "text": f"{number}/0: x == {number}"},
                {
                    "event": "compile_start", "id": f"{number % 50}/{number}",
                    "code": {"file": "/job/model.py", "line": number % 50, "name": "forward"},
                },
                {"event": "compile_end", "id": f"{number % 50}/{number}",
                 "metrics": {"has_guarded_code": True, "dynamo_cumulative_compile_time_us": 4e5}},
                {"event": "watch_slow", "number": step, "took": 0.5, "usual": 0.1},
            ]  # fmt: skip
            if rank % 8 == number % 8:  # 10 events a second each, and all that belongs to one compile by one rank.
                with (records / "events" / f"{name}.0.jsonl").open("a") as file:
                    for _ in range(8 * 10 // (2 * len(rows))):
                        file.write(
                            "".join(json.dumps({"at": time.time(), **row}, sort_keys=False) + "\n" for row in rows)
                        )
                state = {
                    "pid": os.getpid(),
                    "rank": rank,
                    "world": 64,
                    "at": time.time(),
                    "steps": step,
                    "began": began,
                }
                (records / "ranks" / f"{name}.json").write_text(json.dumps(state))
        time.sleep(0.5)


def _watch(folder: Path, command: list[str]) -> list[str]:
    """The command of a job under the watch, with its records and its report in a folder."""
    words = [sys.executable, "-m", "dynalyze", "watch", "--folder", str(folder / "records")]
    return [*words, "--json", str(folder / "job.json"), "--", *command]


def _began(records: Path) -> float:
    """When the first event of a job was written."""
    first = (json.loads(path.open().readline())["at"] for path in (records / "events").iterdir())
    return min(first)


def _place(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2].replace(",", ""))


def _memory_of(process: subprocess.Popen[str], seconds: float) -> Iterator[tuple[float, float]]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(2)
        yield time.monotonic(), _resident(process.pid)


def _resident(pid: int) -> float:
    """MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
