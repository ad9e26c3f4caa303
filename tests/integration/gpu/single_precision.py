"""float32 products, TF32 off."""

import torch

net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda().eval()
fast = torch.compile(net)
with torch.no_grad():
    for _ in range(3):
        fast(torch.randn(256, 512, device="cuda"))
