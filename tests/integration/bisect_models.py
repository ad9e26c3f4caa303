"""Small models in bf16 for the search after planted faults."""

from __future__ import annotations

import torch


class Attention(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = torch.nn.Linear(width, width)
        self.key = torch.nn.Linear(width, width)
        self.value = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        weights = torch.softmax(query @ key.transpose(-1, -2) / x.shape[-1] ** 0.5, -1)
        return weights @ value


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = Attention(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Blocks(torch.nn.Module):
    """Some equal blocks one after the other."""

    def __init__(self, count: int = 4, width: int = 64) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(width) for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def blocks(count: int = 4) -> tuple[Blocks, torch.Tensor]:
    torch.manual_seed(0)
    return Blocks(count).bfloat16().eval(), torch.randn(2, 32, 64).bfloat16()
