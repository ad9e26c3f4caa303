"""Asks torch to raise at every recompile."""

import torch
import torch._dynamo

torch._dynamo.config.error_on_recompile = True


@torch.compile(backend="eager")
def paint(canvas, style):
    if style == "bold":
        canvas = canvas + 1
    return canvas * 2


if __name__ == "__main__":
    for style in ("thin", "bold", "thin", "dashed"):
        try:
            paint(torch.ones(2), style)
        except torch._dynamo.exc.RecompileError:
            print("refused", style)
