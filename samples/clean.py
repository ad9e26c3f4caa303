"""A transformer block that compiles into one graph, with nothing to mend.

Try:

    dynalyze explain samples/clean.py
"""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Pre-norm self-attention and a feed-forward layer."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


def main() -> None:
    torch.manual_seed(0)
    block = torch.compile(Block().eval(), backend="aot_eager")
    with torch.no_grad():
        for _ in range(3):
            y = block(torch.randn(2, 8, 32))
    print("output", tuple(y.shape))


if __name__ == "__main__":
    main()
