"""Two breaks that somebody asked for: a disabled callback and an explicit graph_break."""

import torch
import torch._dynamo
from torch import nn


@torch.compiler.disable(reason="talks to the metrics server")
def publish(value):
    return value.mean()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        level = publish(h)
        h = self.b(h * level)
        torch._dynamo.graph_break()
        return h.relu()


if __name__ == "__main__":
    model = torch.compile(Model().eval(), backend="eager")
    with torch.no_grad():
        print(model(torch.randn(2, 4)).shape)
