"""Switching gradients of a tensor on or off in compiled code."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="requires-grad",
        title="Set requires_grad before the compiled code",
        gb_types=("Unsupported Tensor.requires_grad_() call", "setattr() on Tensor.requires_grad"),
        why=(
            "Whether a tensor needs a gradient decides how the graph and its backward are built. Changing "
            "it half way would need another graph, so the compiler stops there."
        ),
        action=(
            "Do `{expression}` once before the compiled function is called; inside, use `.detach()` to stop a gradient."
        ),
        before="""\
def f(x, weight):
    weight.requires_grad_(False)
    return (x * weight).sum()
""",
        after="""\
def f(x, weight):
    return (x * weight.detach()).sum()
""",
        inputs="(torch.ones(3), torch.ones(3, requires_grad=True))",
        link=graph_break_page("GB0125"),
    ),
    Recipe(
        id="requires-grad-of-result",
        title="Make the new leaf tensor outside the compiled code",
        gb_types=(
            "requires_grad_() intermediate leaked as output",
            "returning intermediate with requires_grad_()",
            "Attempted to use tensor creation function with requires_grad=True",
        ),
        why=(
            "A tensor computed inside is turned into a new leaf for gradients and then leaves the compiled "
            "code. Gradients that arrive later could not find it inside the graph."
        ),
        action="Return the plain tensor and do `{expression}` on it in the caller.",
        before="""\
def f(x):
    points = x.detach() * 2
    points.requires_grad_(True)
    return points + 1
""",
        after="""\
def f(x):
    points = x.detach() * 2
    return points + 1


def differentiable(compiled, x):
    return compiled(x).requires_grad_(True)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB8985"),
    ),
)
