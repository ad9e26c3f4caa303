"""Does the accuracy test call a clean model wrong? Architectures of transformers, in float32 and bfloat16.

    .venv/bin/python benchmarks/clean_answers.py                          44 architectures on aot_eager
    .venv/bin/python benchmarks/clean_answers.py --backend inductor --only BertModel,GPT2Model
    .venv/bin/python benchmarks/clean_answers.py --keep answers.jsonl     those that are there are not asked again

Each is made small, as `hf:NAME` does it, and its forward in evaluation and a training step are compared with eager,
with fp64 and by contract, in a process of its own, by the process that `audit` and `bench` ask. On the backends
"eager" and "aot_eager" the kernels are eager's own, so that whatever is suspicious is an alarm to look into: a fault
of torch, of the model, or ours.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "analyzer"))

NAMES = (
    "LlamaModel", "MistralModel", "MixtralModel", "Qwen2Model", "Qwen3Model", "GemmaModel", "Gemma2Model", "PhiModel",
    "Phi3Model", "GPT2Model", "GPTNeoModel", "GPTNeoXModel", "GPTJModel", "OPTModel", "BloomModel", "FalconModel",
    "StableLmModel", "CohereModel", "OlmoModel", "Starcoder2Model", "MambaModel", "BertModel", "RobertaModel",
    "DistilBertModel", "AlbertModel", "ElectraModel", "DebertaV2Model", "MPNetModel", "ModernBertModel", "T5Model",
    "BartModel", "PegasusModel", "MarianModel", "WhisperModel", "Wav2Vec2Model", "HubertModel", "ViTModel",
    "DeiTModel", "SwinModel", "ConvNextModel", "ResNetModel", "Dinov2Model", "BeitModel", "CLIPModel",
)  # fmt: skip
DTYPES = ("float32", "bfloat16")
PHASES = ("forward", "train")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, with commas")
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--keep", type=Path, help="a file for the answers, a line each")
    asked = parser.parse_args()
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")
    import torch
    import transformers  # noqa: F401  # Both are shared by all that is forked.

    torch.set_num_threads(1)
    names = asked.only.split(",") if asked.only else NAMES
    known = {tuple(each["of"]): each for each in _kept(asked.keep)}
    verdicts: Counter[str] = Counter()
    for case in product([asked.backend], names, DTYPES, PHASES):
        found = known.get(case) or judged(*case)
        if asked.keep and case not in known:
            with asked.keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"of": case, **found}) + "\n")
        verdicts[found["verdict"]] += 1
        if found["verdict"] not in ("equal", "benign"):
            print(*case, found["verdict"], found["reason"][:300], flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()), f"of {verdicts.total()}")
    return int(verdicts["suspicious"] > 0)


def _kept(file: Path | None) -> Iterator[dict[str, Any]]:
    if file is not None and file.exists():
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def judged(backend: str, name: str, dtype: str, phase: str) -> dict[str, Any]:
    """The verdict on one case, in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(write, "w") as file:
            json.dump(_asked(backend, name, dtype, phase), file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return dict(json.loads(text)) if text else {"verdict": "died", "reason": ""}


def _asked(backend: str, name: str, dtype: str, phase: str) -> dict[str, Any]:
    from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
    from dynalyze.capture.bench.worker import MeasuringSession

    began = time.monotonic()
    source = {"kind": "transformers", "name": name, "full_size": False, "weights": False, "trust_remote_code": False,
              "init": "fast", "attn_implementation": None}  # fmt: skip
    request = WorkerRequest(
        source=source, configuration=Configuration("default", backend=backend), phase=phase, dtype=dtype,
        train=phase == "train",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        session = MeasuringSession(request, Path(folder))
        answer = session.handle({"do": "load"})
        if answer["ok"]:
            answer = session.handle({"do": "accuracy"})
    if not answer["ok"]:
        return {"verdict": "not asked", "reason": answer["error"]["message"]}
    broken = [f"{each['contract']}: {each['what']}" for each in answer.get("contracts", ())]
    return {
        "verdict": answer["verdict"], "reason": answer.get("reason", ""), "contracts": broken,
        "same_bits": answer.get("same_bits"), "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
