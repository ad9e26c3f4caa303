"""A forward that declares a small result class each time it runs."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.logits = nn.Linear(5, 3)

    def forward(self, x):
        logits = self.logits(x)

        class Result:
            def __init__(self, logits, labels):
                self.logits = logits
                self.labels = labels

        return Result(logits, logits.argmax(-1))


if __name__ == "__main__":
    head = Head().eval()
    head.compile(backend="eager")
    with torch.no_grad():
        print(head(torch.randn(2, 5)).labels)
