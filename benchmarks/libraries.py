"""Whether models of timm and diffusers break and recompile as torch's own log says, on names drawn at random.

    python benchmarks/libraries.py timm:40 diffusers:20 diffusers:FluxPipeline [--seed 46]

The targets are swept, and compiled by torch alone in a process whose log is counted. A model of timm is made there by
`create_model` in its full size, called with an image of its own size. A model class of diffusers has the configuration
and the inputs that dynalyze makes; a pipeline is compiled by `compile_repeated_blocks`, or by `compile` where its model
has no repeated blocks, and called with two sizes.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import traceback
from typing import Any

SIZES = (16, 32)
_MARK = "=== "


def main(words: list[str]) -> int:
    seed = int(words.pop(words.index("--seed") + 1)) if "--seed" in words else 46
    targets = [target for word in words if word != "--seed" for target in drawn(word, seed)]
    pipelines = [each for each in targets if each.endswith("Pipeline")]
    sizes = [word for size in SIZES for word in ("--size", str(size))]
    ours = {**swept([each for each in targets if each not in pipelines]), **swept(pipelines, *sizes)}
    torchs, same = by_torch(targets), 0
    for target in targets:
        equal = ours[target] == torchs[target]
        same += equal
        print(f"{target}: dynalyze {ours[target]}, torch {torchs[target]}{'' if equal else '  DIFFERENT'}")
    print(f"{same} of {len(targets)} have the same lines that break and the same number of recompiles")
    return same != len(targets)


def drawn(word: str, seed: int) -> list[str]:
    """`timm:40` is so many names of timm."""
    prefix, _, name = word.partition(":")
    if not name.isdecimal():
        return [word]
    from dynalyze.capture.libraries import library

    names = library(prefix).listed("all")
    return [f"{prefix}:{each}" for each in random.Random(seed).sample(names, int(name))]


def swept(targets: list[str], *options: str) -> dict[str, Any]:
    if not targets:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dynalyze", "sweep", *targets, *options, "--out", folder, "--json", "-"]
        rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)["items"]
    return {row["target"]: counts(row) for row in rows}


def counts(row: dict[str, Any]) -> Any:
    if row["status"] not in ("full_graph", "graph_break"):
        return row["error"].removeprefix("eager: ")
    return len({(each["file"], each["line"]) for each in row["breaks"]}), row["recompiles"]


def by_torch(targets: list[str]) -> dict[str, Any]:
    env = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles", "PYTHONWARNINGS": "ignore"}
    found: dict[str, Any] = {}
    while left := [each for each in targets if each not in found]:  # Once, but for each model at which a process ends.
        ran = subprocess.run([sys.executable, __file__, "--alone", *left], stderr=subprocess.PIPE, text=True, env=env)
        target = left[0]
        for part in ran.stderr.split(_MARK)[1:]:
            target, _, log = part.partition("\n")
            lines = set(re.findall(r"Graph break in user code at (\S+:\d+)", log))
            failed = re.search(r"^FAILED (.*)", log, re.MULTILINE)
            found[target] = failed[1] if failed else (len(lines), log.count("Recompiling function"))
        if ran.returncode:
            found[target] = f"the process ended with {ran.returncode}"
    return found


def compile_alone(target: str) -> None:
    from dynalyze.capture.libraries import library
    from dynalyze.capture.libraries.building import ModelRequest

    prefix, _, name = target.partition(":")
    made = library(prefix)
    import torch

    if prefix == "timm":
        import timm

        model = timm.create_model(name).eval()
        torch.compile(model, backend="eager")(torch.randn(2, *model.pretrained_cfg["input_size"]))
        return
    is_pipeline = name.endswith("Pipeline")
    built = made.build(ModelRequest(name, prefix, size=SIZES if is_pipeline else ()))
    with torch.compiler.set_stance("force_eager"):
        for call in built.calls:
            built.model(**call.kwargs)
    called = built.model if is_pipeline else torch.compile(built.model, backend="eager")
    if is_pipeline:
        denoiser = built.model.denoiser
        (denoiser.compile_repeated_blocks if denoiser._repeated_blocks else denoiser.compile)(backend="eager")
    for call in built.calls:
        called(**call.kwargs)


def all_alone(targets: list[str]) -> None:
    import torch

    for target in targets:
        print(f"{_MARK}{target}", file=sys.stderr, flush=True)
        torch._dynamo.reset()
        try:
            with torch.no_grad():
                compile_alone(target)
        except Exception as error:
            print(f"FAILED {traceback.format_exception_only(error)[-1].strip()[:200]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--alone":
        all_alone(sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
