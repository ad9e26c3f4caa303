"""A whole training run: data, model, loss, optimiser, schedule. The model looks at its own losses, which splits it.

Try:

    dynalyze explain samples/training.py
    dynalyze explain samples/training.py --stop-after 5 -- --epochs 100000
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    """Two moons, two classes. Returns the loss, as many training scripts like it."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2)
        )

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        losses = nn.functional.cross_entropy(self.net(points), labels, reduction="none")
        if losses.max() > 10:  # break: GB0170 split
            losses = losses.clamp(max=10)
        return losses.mean()


def moons(count: int) -> TensorDataset:
    labels = torch.arange(count) % 2
    angle = torch.rand(count) * torch.pi + labels * torch.pi
    points = torch.stack([angle.cos() + labels, angle.sin() + labels * 0.5], dim=1)
    return TensorDataset(points + 0.1 * torch.randn(count, 2), labels)


def train(epochs: int) -> None:
    torch.manual_seed(0)
    loader = DataLoader(moons(256), batch_size=64, shuffle=True)
    model = torch.compile(Classifier(), backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        total = 0.0
        for points, labels in loader:
            loss = model(points, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        schedule.step()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    train(parser.parse_args().epochs)
