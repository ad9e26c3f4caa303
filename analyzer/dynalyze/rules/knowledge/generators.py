"""Generators as the thing that is compiled."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="compiled-generator",
        title="Compile what the generator calls, not the generator",
        gb_types=("Attempt to trace generator",),
        why=(
            "A function with `yield` hands out one value at a time and waits in between. A graph runs from "
            "start to end, so the compiler leaves such a function in eager mode."
        ),
        action=("Return a list or a stacked tensor instead of yielding, or compile the function that makes one value."),
        before="""\
import torch


def f(x):
    for shift in range(3):
        yield torch.relu(x - shift)
""",
        after="""\
import torch


def f(x):
    return [torch.relu(x - shift) for shift in range(3)]
""",
        inputs="(torch.arange(4.0),)",
        link=graph_break_page("GB0003"),
    ),
)
