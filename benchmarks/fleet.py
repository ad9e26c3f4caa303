"""How many models a minute `dynalyze sweep` does, against a runner that starts one process a model.

    .venv/bin/python benchmarks/fleet.py
    .venv/bin/python benchmarks/fleet.py --workers 1 BertModel ViTModel

The other runner is what people write first, in plain torch and transformers: for each model a new process that imports
both, builds the class from its default configuration with two layers and its own initialisation, calls it once in
eager, then compiled with the backend "eager", and counts graph breaks. Both do the same list with the same number of
workers, one after the other, in one run; the statuses are compared. The sweep's time is that of the whole command: it
asks for names, imports, writes a report and a page for each model, and an index.

CPU seconds are those of all processes below. Where other programs share the machine, they tell more than the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

MODELS = (
    "BertModel", "RobertaModel", "ElectraModel", "DistilBertModel", "GPT2Model", "OPTModel", "LlamaModel",
    "MistralModel", "Qwen2Model", "PhiModel", "BartModel", "ViTModel", "DeiTModel", "ConvNextModel",
    "LongformerModel", "ReformerModel", "CLIPModel", "WhisperModel",
)  # fmt: skip

PLAIN = """
import sys
import torch, torch._dynamo, transformers
from torch._dynamo.utils import counters

torch.manual_seed(0)
name = sys.argv[1]
try:
    model_class = getattr(transformers, name)
    config = model_class.config_class()
    for layers in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"):
        # What a vision backbone calls layers are stages, each with a width of its own.
        if isinstance(getattr(config, layers, None), int) and not hasattr(config, "stage_names"):
            setattr(config, layers, 2)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:2]
    if name == "ReformerModel":  # its own defaults are longer than any text here
        config.attn_layers, config.axial_pos_embds = ["local", "lsh"], False
        config.local_attn_chunk_length = config.lsh_attn_chunk_length = 16
    if name == "LongformerModel":
        config.attention_window = [512] * 2
    for part in ("text_config", "vision_config"):
        if hasattr(config, part):
            getattr(config, part).num_hidden_layers = 2
    model = model_class(config).eval()
    ids = torch.randint(3, min(1000, getattr(config, "vocab_size", 1000)), (2, 64))
    if model.main_input_name == "pixel_values":
        size = getattr(config, "image_size", 224)
        inputs = {"pixel_values": torch.randn(2, 3, size, size)}
    elif model.main_input_name == "input_features":
        length = 2 * config.max_source_positions
        inputs = {"input_features": torch.randn(2, config.num_mel_bins, length)}
    else:
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if hasattr(config, "vision_config"):
        size = config.vision_config.image_size
        inputs["pixel_values"] = torch.randn(2, 3, size, size)
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :16]
except Exception as error:
    print("create_error", repr(error)[:200])
    sys.exit()
with torch.no_grad():
    try:
        model(**inputs)
    except Exception as error:
        print("eager_error", repr(error)[:200])
        sys.exit()
    try:
        torch.compile(model, backend="eager")(**inputs)
    except Exception as error:
        print("compile_error", repr(error)[:200])
        sys.exit()
print("graph_break" if counters["graph_break"] else "full_graph")
"""


class Side(NamedTuple):
    """What one of the two did with the list."""

    seconds: float
    cpu: float
    statuses: dict[str, str]


def one_process_a_model(models: list[str], workers: int) -> Side:
    env = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // workers))}

    def status(name: str) -> str:
        command = [sys.executable, "-c", PLAIN, name]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        lines = ended.stdout.strip().splitlines()
        return lines[-1] if lines else f"crash {ended.returncode}"

    before, began = _cpu(), time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        statuses = dict(zip(models, pool.map(status, models), strict=True))
    return Side(time.monotonic() - began, _cpu() - before, statuses)


def sweep(models: list[str], workers: int, *more: str) -> Side:
    with tempfile.TemporaryDirectory() as folder:
        targets = [f"hf:{name}" for name in models]
        out, document = Path(folder) / "out", Path(folder) / "rows.json"
        command = ["sweep", *targets, "--workers", str(workers), "--out", str(out), "--json", str(document), *more]
        before, began = _cpu(), time.monotonic()
        subprocess.run([sys.executable, "-m", "dynalyze", *command], stdout=subprocess.DEVNULL, check=True)
        seconds, cpu = time.monotonic() - began, _cpu() - before
        rows = json.loads(document.read_text(encoding="utf-8"))["items"]
    return Side(seconds, cpu, {row["target"].removeprefix("hf:"): row["status"] for row in rows})


def _cpu() -> float:
    """CPU seconds of all processes below that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    models: list[str] = options.models
    plain = one_process_a_model(models, options.workers)
    ours = sweep(models, options.workers)
    print(f"{'model':24} {'one process a model':24} dynalyze sweep")
    for name in models:
        same = "" if plain.statuses[name].split()[0] == ours.statuses[name] else "  <- differs"
        print(f"{name:24} {plain.statuses[name]:24} {ours.statuses[name]}{same}")
    for title, side in (("one process a model", plain), ("dynalyze sweep", ours)):
        rate = len(models) * 60 / side.seconds
        cost = f"{side.cpu / len(models):7.1f} CPU s a model"
        print(f"{title:20} {side.seconds:7.1f} s {rate:7.1f} models a minute {cost}")
    print(f"ratio: {plain.seconds / ours.seconds:.1f}x by the clock, {plain.cpu / ours.cpu:.1f}x by CPU time")


if __name__ == "__main__":
    main()
