"""A style name for every call, where the recompile limit may raise: torch is asked for that in five ways."""

import torch
import torch._dynamo
from torch._dynamo import error_on_graph_break

torch._dynamo.config.recompile_limit = 2


def paint(canvas, style):
    if style == "bold":
        canvas = canvas + 1
    return canvas * 2


def print_it(canvas, style):
    return canvas.tanh() + len(style)


def engrave(canvas, style):
    return canvas.sin() + len(style)


@error_on_graph_break(True)
def emboss(canvas, style):
    return canvas.cos() + len(style)


def frame(canvas, style):
    return emboss(canvas, style) - 1


def every_style(work):
    for style in ("thin", "bold", "dashed", "dotted1"):
        try:
            work(torch.ones(2), style)
        except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
            print(style, type(error).__name__)


if __name__ == "__main__":
    with error_on_graph_break(True):
        every_style(torch.compile(paint, backend="eager", dynamic=False))
    every_style(torch.compile(print_it, backend="eager", dynamic=False, fullgraph=True))
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    every_style(torch.compile(engrave, backend="eager", dynamic=False))
    torch._dynamo.config.fail_on_recompile_limit_hit = False
    every_style(torch.compile(frame, backend="eager", dynamic=False))
