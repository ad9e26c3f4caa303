"""What compiling gains on a GPU, measured by `dynalyze bench`, beside the figures that others published.

    python benchmarks/gpu.py densenet            # reduce-overhead on a DenseNet-121, batch 16
    python benchmarks/gpu.py prefill decode      # the layout of Llama 3.2 1B in bf16, static cache, full and regional

Each case takes under 10 minutes on one GPU and needs torch, transformers (for the Llama) and dynalyze. Nothing is
downloaded: weights are random. The tables go to standard output as Markdown, the reports to `--out`.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

MODELS = Path(__file__).with_name("gpu_models.py")
LLAMA = ["--static-cache", "--sequence", "128", "--new-tokens", "16", "--configs", "default,regional"]
CASES: dict[str, list[str]] = {
    "densenet": [f"{MODELS}:densenet", "--configs", "reduce-overhead,default"],
    "prefill": [f"{MODELS}:llama", "--phase", "prefill", *LLAMA],
    "decode": [f"{MODELS}:llama", "--phase", "decode", *LLAMA],
    "decode-graphs": [f"{MODELS}:llama", "--phase", "decode", *LLAMA[:-1], "reduce-overhead"],
}
PUBLISHED = {
    "densenet": "Seed article, densenet121, batch 16, reduce-overhead: first call 67.5 s, second 0.70 s, then 8.16 ms "
    "against 15.86 ms: 1.94x.",
    "prefill": "Seed article, Llama 3.2 3B on an A100: prefill gains a little.",
    "decode": "Accelerate, Llama-3.2-1B, fp16, sequence 128, batch 1: eager 18.3 ms, full 6.3 ms (compile 10.7 s), "
    "regional 9.7 ms (compile 2.0 s).",
    "decode-graphs": "Seed article, Llama 3.2 3B on an A100: decode nearly doubles, +200 MB.",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pairs", default="5")
    parser.add_argument("--seconds", default="10")
    parser.add_argument("--timeout", default="580", help="seconds of each process [default: 580]")
    parser.add_argument("--out", type=Path, default=Path("gpu-reports"))
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for case in options.cases or CASES:
        print(f"\n## {case}\n\n{PUBLISHED[case]}\n", flush=True)
        show(measure(case, options))


def measure(case: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one case; its report."""
    file = options.out / f"{case}.json"
    command = [sys.executable, "-m", "dynalyze", "bench", *CASES[case], "--device", options.device]
    command += ["--pairs", options.pairs, "--seconds", options.seconds, "--timeout", options.timeout]
    command += ["--json", str(file), "--html", str(file.with_suffix(".html"))]
    print(f"    {' '.join(command)}\n", flush=True)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            process.wait()
        except KeyboardInterrupt:  # It writes what it has.
            process.send_signal(signal.SIGINT)
            process.wait()
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def show(report: dict[str, Any]) -> None:
    print(f"torch {report['environment'].get('torch')}, {report['environment'].get('device_name') or 'no GPU name'}\n")
    print("| configuration | ms | speedup | first call | compile peak | steady peak | answers |")
    print("|---|---|---|---|---|---|---|")
    verdicts = {each["configuration"]: each["verdict"] for each in report["accuracy"]}
    for row in report["measurements"]:
        print(f"| {' | '.join(cells(row, verdicts.get(row['configuration'], '')))} |")


def cells(row: dict[str, Any], verdict: str) -> list[str]:
    name = f"{row['configuration']}, {row['phase']}"
    if row["status"] != "valid":
        return [name, row["status"], row["reason"], "", "", "", ""]
    speed, startup, memory = row["speedup"], row["startup"] or {}, row["memory"] or {}
    ratio = speed and "{value:.2f} ({low:.2f} to {high:.2f})".format(**speed["ratio"])
    first = (startup.get("cold_calls_ms") or [None])[0]
    return [
        name,
        f"{row['latency_ms']['p50']:.2f}" if row["latency_ms"] else "",
        f"{ratio}, {speed['verdict']}" if speed else "",
        f"{first / 1000:.1f} s" if first else "",
        *(f"{memory[key] / 2**20:,.0f} MiB" if memory.get(key) else "" for key in ("compile_peak", "steady_peak")),
        verdict,
    ]


if __name__ == "__main__":
    main()
