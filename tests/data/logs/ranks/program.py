"""Two ranks of one job. Rank 1 gets a batch of another size now and then, and reads a value on the way."""

import os
import sys

import torch
import torch.distributed as dist


@torch.compile(backend="eager")
def step(x, debug):
    y = x * 2
    if debug:
        y = y + y.sum().item()
    return y + 1


def main(rank):
    dist.init_process_group("gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=2)
    for batch in (4, 4) if rank == 0 else (4, 3):
        step(torch.ones(batch), rank == 1)
    dist.destroy_process_group()


main(int(sys.argv[1]))
