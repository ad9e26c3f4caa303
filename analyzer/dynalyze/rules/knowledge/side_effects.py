"""Changes of outer state inside a part that PyTorch may run twice, such as a checkpointed block."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="checkpoint-side-effect",
        title="Return the value instead of storing it from inside",
        gb_types=(
            "HOP: Unsafe side effect",
            "HigherOrderOperator: Mutating a variable not in the current scope (SideEffects)",
            "HOP: Non-nullified side effect",
        ),
        why=(
            "A checkpointed block, a gradient hook or the body of `torch.cond` becomes a graph of its own "
            "that may run twice or later. Changing a list, a dict or an attribute outside of it would then "
            "happen at the wrong time."
        ),
        action="Return the value from the inner function and store it in the caller, instead of `{expression}`.",
        before="""\
import torch
from torch.utils.checkpoint import checkpoint

activations = []


def block(x):
    hidden = torch.tanh(x)
    activations.append(hidden)
    return hidden * 2


def f(x):
    return checkpoint(block, x, use_reentrant=False)
""",
        after="""\
import torch
from torch.utils.checkpoint import checkpoint

activations = []


def block(x):
    hidden = torch.tanh(x)
    return hidden * 2, hidden


def f(x):
    result, hidden = checkpoint(block, x, use_reentrant=False)
    activations.append(hidden)
    return result
""",
        inputs="(torch.ones(3, requires_grad=True),)",
        link=graph_break_page("GB0067"),
    ),
)
