"""Asking for gradients inside compiled code."""

from dynalyze.rules.recipe import Recipe, graph_break_page

_TRACE = "torch._dynamo.config.trace_autograd_ops = True"

RECIPES = (
    Recipe(
        id="backward",
        title="Call backward outside the compiled code",
        gb_types=(
            "Unsupported Tensor.backward() call",
            "backward() with non-leaf tensor",
            "backward() with empty inputs",
        ),
        why=(
            "The compiler already makes a backward graph for what it compiles. `backward()` inside the "
            "compiled function would have to run that graph while it is still being made."
        ),
        action="Compile the function that returns the loss and call `{expression}` in the training loop.",
        before="""\
def f(x, weight):
    loss = (x * weight).square().mean()
    loss.backward()
    return loss.detach()
""",
        after="""\
def f(x, weight):
    return (x * weight).square().mean()


def training_step(compiled, x, weight):
    loss = compiled(x, weight)
    loss.backward()
    return loss.detach()
""",
        inputs="(torch.ones(3), torch.ones(3, requires_grad=True))",
        config=_TRACE,
        config_note=(
            "New in torch 2.12 or so: puts the backward into the same graph. Look for this setting in your version."
        ),
        link=graph_break_page("GB0123"),
    ),
    Recipe(
        id="autograd-grad",
        title="Use torch.func.grad inside compiled code",
        gb_types=(
            "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`",
            "autograd.grad with external grad_fn",
            "autograd.grad with output that requires grad",
            "autograd.grad with compiled autograd",
        ),
        why=(
            "`torch.autograd.grad` walks the record of operations that eager mode keeps. While the compiler "
            "builds a graph there is no such record, so it stops at the call."
        ),
        action="Replace `{expression}` by `torch.func.grad` of a function that returns the loss.",
        before="""\
import torch


def f(x):
    energy = x.pow(3).sum()
    (force,) = torch.autograd.grad(energy, x)
    return -force
""",
        after="""\
import torch


def energy(x):
    return x.pow(3).sum()


def f(x):
    return -torch.func.grad(energy)(x)
""",
        inputs="(torch.arange(3.0, requires_grad=True),)",
        config=_TRACE,
        config_note="Puts the gradient into the same graph. Older versions of PyTorch do not have this setting.",
        link=graph_break_page("GB9186"),
    ),
)
