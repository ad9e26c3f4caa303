"""Forward and backward of a linear layer: nothing breaks."""

import torch

layer = torch.nn.Linear(3, 2)
step = torch.compile(layer, backend="aot_eager")
step(torch.ones(4, 3)).sum().backward()
