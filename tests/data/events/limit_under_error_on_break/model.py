"""Under error_on_graph_break the recompile limit raises, and raises again at the next call."""

import torch

torch._dynamo.config.recompile_limit = 2


@torch.compile(backend="eager", dynamic=False)
def styled(x, style):
    return x + len(style)


for style in ("a", "bb", "ccc", "dddd"):
    try:
        with torch._dynamo.error_on_graph_break(True):
            styled(torch.ones(4), style)
    except torch._dynamo.exc.Unsupported:
        pass
