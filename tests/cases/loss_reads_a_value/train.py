"""A training step, compiled with its loss; the loss keeps a running value as a Python float."""

import torch
from torch import nn


class FocalLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, logits, labels):
        entropy = nn.functional.cross_entropy(logits, labels)
        self.history.append(entropy.item())
        return (1 - (-entropy).exp()) * entropy


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
        self.loss = FocalLoss()

    def forward(self, x, labels):
        logits = self.body(x)
        return self.loss(logits, labels)


def main():
    torch.manual_seed(1)
    learner = Learner()
    step = torch.compile(learner, backend="aot_eager")
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        step(torch.randn(8, 6), torch.randint(0, 3, (8,))).backward()
        optimizer.step()
    print(learner.loss.history)


if __name__ == "__main__":
    main()
