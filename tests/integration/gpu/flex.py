"""flex_attention with a block mask, once compiled and once not."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def past(batch, head, row, column):
    return row >= column


block_mask = create_block_mask(past, None, None, 256, 256, device="cuda")
q, k, v = (torch.randn(1, 4, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))


@torch.compile
def inside(q, k, v):
    return flex_attention(q, k, v, block_mask=block_mask)


with torch.no_grad():
    inside(q, k, v)
    inside(q, k, v)
