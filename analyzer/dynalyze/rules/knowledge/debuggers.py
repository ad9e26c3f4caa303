"""Debuggers and questions to the person at the keyboard."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="debugger",
        title="Remove the breakpoint",
        gb_types=("Failed to trace builtin operator", "Attempted to call function marked as skipped"),
        match=r"builtin (operator )?`?(breakpoint|input)\b|\bi?pdb\b|set_trace",
        rank=3,
        why=(
            "The program waits for a person here. A graph cannot wait, so the compiler stops before the "
            "line and the rest runs as another graph."
        ),
        action=(
            'Delete `{expression}`; to debug with the compiler off, use `torch.compiler.set_stance("force_eager")`.'
        ),
        before="""\
import sys

import torch

sys.breakpointhook = lambda *args, **kwargs: None  # what PYTHONBREAKPOINT=0 does


def f(x):
    hidden = torch.relu(x)
    breakpoint()
    return hidden.sum()
""",
        after="""\
import torch


def f(x):
    hidden = torch.relu(x)
    return hidden.sum()
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0059"),
    ),
)
