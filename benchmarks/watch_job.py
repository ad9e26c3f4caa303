"""A job of two ranks for benchmarks/watch.py: a small transformer under DDP or FSDP2, and recompiles planted in it.

    torchrun --nproc-per-node 2 benchmarks/watch_job.py ddp 10000 PLANTS OUT

PLANTS is a JSON list of {"step", "rank", "cause"}. OUT gets what each rank measured itself, with no help from dynalyze:
its median step, and by how much each long one was longer.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

SWITCH = ""
DTYPES = (torch.float64, torch.int32, torch.int16, torch.int8, torch.bfloat16, torch.float16, torch.int64)


class Block(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return x + self.feed(x)


class Metric(nn.Module):
    """Compiled beside the model, and called by one rank alone where a change is planted: no collective is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.label = ""

    def forward(self, x: torch.Tensor, bias: torch.Tensor, name: str = "a") -> torch.Tensor:
        return (x * 1.5 + bias.to(x.dtype)).relu() + len(SWITCH) + len(self.label) + len(name)


def main(kind: str, steps: int, plants: Path, out: Path) -> None:
    global SWITCH
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 64
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    planted = {each["step"]: each["cause"] for each in json.loads(plants.read_text()) if each["rank"] == rank}
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(Block(), Block())
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        for block in model:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    run, metric = torch.compile(model), torch.compile(Metric())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    took, seen = [], dict.fromkeys(("shape", "dtype", "value", "attribute", "global", "grad"), 0)
    for step in range(steps):
        began = time.perf_counter()
        cause = planted.get(step, "")
        x, bias, name = torch.randn(4, 16), torch.ones(16), "a"
        if cause in seen:
            seen[cause] += 1
        if cause == "shape":
            x = torch.randn(*([2] * (seen[cause] + 1)), 16)
        elif cause == "dtype":
            bias = bias.to(DTYPES[seen[cause] - 1])
        elif cause == "value":
            name = "b" * (seen[cause] + 1)
        elif cause == "attribute":
            metric._orig_mod.label += "l"  # Numbers become dynamic at their first change, texts never.
        elif cause == "global":
            SWITCH += "s"
        mode = [torch.no_grad, torch.enable_grad, torch.enable_grad, torch.inference_mode][
            seen["grad"] * (cause == "grad")
        ]
        with mode():
            metric(x.requires_grad_(cause == "grad" and seen["grad"] == 2), bias, name)
        run(torch.randn(2, 8, 32)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        took.append(time.perf_counter() - began)
    usual = statistics.median(took)
    longer = {step: seconds - usual for step, seconds in enumerate(took) if seconds > usual + 0.05}
    out.with_suffix(f".{rank}").write_text(json.dumps({"usual": usual, "longer": longer, "all": sum(took)}))
    dist.barrier()
    # Gloo's process group now and then never comes to its end in torch 2.13: its destructor joins a thread that waits
    # for the interpreter's lock, which it holds itself.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
