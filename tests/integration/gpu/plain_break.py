"""A break that a change of source ends."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        y = self.linear(x)
        if y.mean() > 0:  # noqa: SIM108
            y = y * 2
        else:
            y = y - 1
        return torch.relu(y)


torch.manual_seed(0)
net = torch.compile(Net().cuda().eval())
with torch.no_grad():
    for _ in range(4):
        net(torch.randn(8, 64, device="cuda"))
