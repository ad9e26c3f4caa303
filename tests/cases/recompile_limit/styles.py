"""A style name for every call: the limit of recompiles is reached, after which the function runs in eager."""

import torch
import torch._dynamo

torch._dynamo.config.recompile_limit = 3


@torch.compile(backend="eager")
def paint(canvas, style):
    canvas = canvas * 2
    if style == "bold":
        canvas = canvas + 1
    return canvas.tanh()


if __name__ == "__main__":
    for style in ("thin", "bold", "dashed", "dotted", "double", "thin"):
        paint(torch.ones(2), style)
