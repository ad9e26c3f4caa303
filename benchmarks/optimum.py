"""The same tiny Llama through optimum-benchmark and through `dynalyze bench`: do they say the same?

    python -m venv /tmp/optimum
    /tmp/optimum/bin/pip install torch "transformers==4.49.0" optimum-benchmark   # 0.6 needs an older transformers
    python benchmarks/optimum.py --python /tmp/optimum/bin/python

Both run in that environment, on the CPU in eager mode with the same threads, batch, prompt and number of new tokens.
For `generate`, prefill (ours to the end of a `generate` of one token, theirs to its first logits) and each further
token it prints the median of each, the spread between the processes of each, and whether the two spreads meet.
optimum-benchmark runs several times, before, between and after ours: the machine is not equally fast all the time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BATCH, PROMPT, NEW = 1, 64, 16

SAVE = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
LlamaForCausalLM(LlamaConfig(vocab_size=2048, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=4)).save_pretrained(sys.argv[1])
"""

THEIRS = f"""
import json, sys
from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, InlineConfig, PyTorchConfig
threads = int(sys.argv[2])
backend = PyTorchConfig(model=sys.argv[1], device="cpu", task="text-generation", library="transformers",
    torch_dtype="float32", intra_op_num_threads=threads)
scenario = InferenceConfig(latency=True, memory=False, duration=10, iterations=30, warmup_runs=5,
    input_shapes={{"batch_size": {BATCH}, "sequence_length": {PROMPT}, "num_choices": 1}},
    generate_kwargs={{"max_new_tokens": {NEW}, "min_new_tokens": {NEW}}})
config = BenchmarkConfig(name="llama", launcher=InlineConfig(), backend=backend, scenario=scenario)
found = Benchmark.launch(config).to_dict()
print(json.dumps({{name: [1000 * float(each) for each in found[name]["latency"]["values"]]
    for name in ("generate", "prefill", "per_token")}}))
"""

TARGET = """
from transformers import LlamaForCausalLM


def llama():
    import torch
    model = LlamaForCausalLM.from_pretrained({folder!r}).eval()
    return model, {{"input_ids": torch.randint(0, 2048, ({batch}, {prompt}))}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter with torch, transformers and optimum-benchmark")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dynalyze-optimum-") as name:
        folder = Path(name)
        model = folder / "model"
        subprocess.run([options.python, "-c", SAVE, str(model)], check=True, stderr=subprocess.DEVNULL)
        target = folder / "target.py"
        target.write_text(TARGET.format(folder=str(model), batch=BATCH, prompt=PROMPT))
        other = [theirs(options, model), theirs(options, model)]
        whole = ours(options, target, NEW)
        other += [theirs(options, model), theirs(options, model)]
        first = ours(options, target, 1)
        other += [theirs(options, model), theirs(options, model)]
    show("generate", [run["generate"] for run in other], whole)
    show("prefill", [run["prefill"] for run in other], first)
    per_token = [(one - two) / (NEW - 1) for one, two in zip(whole, first, strict=True)]
    show("per token", [run["per_token"] for run in other], per_token)


def theirs(options: argparse.Namespace, model: Path) -> dict[str, float]:
    """The median milliseconds of one process of optimum-benchmark."""
    command = [options.python, "-c", THEIRS, str(model), str(options.threads)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, list[float]] = json.loads(ended.stdout.splitlines()[-1])
    return {name: statistics.median(samples) for name, samples in found.items()}


def ours(options: argparse.Namespace, target: Path, new_tokens: int) -> list[float]:
    """The median milliseconds of each eager process."""
    command = [
        sys.executable,
        "-m",
        "dynalyze",
        "bench",
        f"{target}:llama",
        "--configs",
        "eager",
        "--phase",
        "generate",
    ]
    command += ["--new-tokens", str(new_tokens), "--threads", str(options.threads), "--python", options.python]
    command += ["--no-accuracy", "--no-memory", "--json", "-"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(ended.stdout)
    (eager,) = report["measurements"]
    if eager["status"] != "valid":
        raise SystemExit(f"not measured: {eager['reason']}")
    return [statistics.median(arm) for pair in eager["samples"] for arm in (pair["eager"], pair["compiled"])]


def show(name: str, theirs: list[float], ours: list[float]) -> None:
    meet = min(theirs) <= max(ours) and min(ours) <= max(theirs)
    sides = [f"{each} {spread(values)}" for each, values in (("optimum-benchmark", theirs), ("dynalyze", ours))]
    print(f"{name:<10} {'   '.join(sides)}   {'they meet' if meet else 'they do not meet'}")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f} ms ({min(values):.2f} to {max(values):.2f}, {len(values)} processes)"


if __name__ == "__main__":
    main()
