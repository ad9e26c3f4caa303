"""A transformer-like encoder with everything that only looks dangerous, called with one shape: one graph."""

import math

import torch
from torch import nn

from positions import sinusoids


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None], float("-inf"))
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(mixed)


class Encoder(nn.Module):
    def __init__(self, width=8, heads=2, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.register_buffer("positions", sinusoids(16, width))

    def forward(self, x, *, lengths):
        assert x.dim() == 3, "expects batch, time, width"
        x = x + self.positions[: x.shape[1]]
        mask = torch.arange(x.shape[1]) >= lengths[:, None]
        outputs = {}
        for number, layer in enumerate(self.layers):
            x = layer(x, mask)
            outputs[f"layer{number}"] = x.mean()
        with torch.no_grad():
            outputs["norm"] = x.norm()
        return outputs


if __name__ == "__main__":
    encoder = torch.compile(Encoder().eval(), backend="eager")
    for _ in range(3):
        outputs = encoder(torch.randn(2, 5, 8), lengths=torch.tensor([5, 3]))
    print({name: value.item() for name, value in outputs.items()})
