"""Steps of training, whose forward asks the GPU for a number."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(256, 256), torch.nn.Linear(256, 256)

    def forward(self, x):
        x = torch.relu(self.first(x))
        if x.sum().item() > 0:
            x = x * 2
        return self.second(x)


torch.manual_seed(0)
net = Net().cuda()
fast = torch.compile(net)
optimizer = torch.optim.AdamW(net.parameters())
for step in range(6):
    x = torch.randn(128, 256, device="cuda")
    loss = fast(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(loss.item(), 3))
