"""Three different values where two compiles are allowed; then a reset, and compile ids begin again."""

import torch

torch._dynamo.config.recompile_limit = 2


@torch.compile(backend="eager", dynamic=False)
def styled(x, style):
    return x + len(style)


for style in ("a", "bb", "ccc", "dddd"):
    styled(torch.ones(4), style)
torch._dynamo.reset()
styled(torch.ones(4), "a")
