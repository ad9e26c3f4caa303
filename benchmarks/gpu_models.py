"""The models of `gpu.py`, as targets of `dynalyze bench`: built from code or config, with random weights."""

from __future__ import annotations

import torch
from torch import nn


class DenseLayer(nn.Module):
    """Norm, 1x1, norm, 3x3: what one layer adds to the channels of all before it."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.narrow = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False))
        self.grow = nn.Sequential(
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.grow(self.narrow(x))], dim=1)


class DenseNet(nn.Module):
    """DenseNet-121's layout (Huang et al., 2017): 6, 12, 24 and 16 layers that grow by 32 channels, 1,000 classes."""

    def __init__(self, blocks: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32, channels: int = 64) -> None:
        super().__init__()
        parts: list[nn.Module] = [
            nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]  # fmt: skip
        for number, layers in enumerate(blocks):
            for _ in range(layers):
                parts.append(DenseLayer(channels, growth))
                channels += growth
            if number < len(blocks) - 1:
                halved = nn.Conv2d(channels, channels // 2, 1, bias=False)
                parts += [nn.BatchNorm2d(channels), nn.ReLU(), halved, nn.AvgPool2d(2)]
                channels //= 2
        parts += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        self.features = nn.Sequential(*parts)
        self.classes = nn.Linear(channels, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        classes: torch.Tensor = self.classes(self.features(images))
        return classes


def densenet() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Batch 16 of 224 x 224 images."""
    return DenseNet().eval(), (torch.randn(16, 3, 224, 224),)


def llama() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The layout of Llama 3.2 1B, in bfloat16, on the GPU where there is one."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128_256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=4096, tie_word_embeddings=True,
    )  # fmt: skip
    device = "cuda" if torch.cuda.is_available() else "cpu"
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = LlamaForCausalLM(config).eval()
            return model, {"input_ids": torch.randint(0, config.vocab_size, (1, 128))}
    finally:
        torch.set_default_dtype(before)
