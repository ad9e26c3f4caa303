"""Five calls under CUDA graphs, with nothing against them."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda().eval()
fast = torch.compile(net, mode="reduce-overhead")
with torch.no_grad():
    for _ in range(5):
        fast(torch.randn(8, 64, device="cuda"))
