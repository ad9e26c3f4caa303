"""autocast around a model that is in bfloat16 already."""

import torch

net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)).cuda().bfloat16().eval()
fast = torch.compile(net)
with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
    for _ in range(3):
        fast(torch.randn(8, 64, device="cuda", dtype=torch.bfloat16))
