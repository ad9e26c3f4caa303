"""Custom autograd.Function classes."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="autograd-function-jvp",
        title="Drop jvp and vjp from the autograd.Function",
        gb_types=("Unsupported custom jvp", "Unsupported custom vjp"),
        why=(
            "The compiler traces the `forward` and `backward` of an `autograd.Function`. One that also "
            "defines its own `jvp` or `vjp` has a second way to be differentiated, which it does not "
            "support."
        ),
        action="Remove `jvp` from the class behind `{expression}` if nobody uses forward-mode gradients.",
        before="""\
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * x * tangent


def f(x):
    return Square.apply(x).sum()
""",
        after="""\
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def f(x):
    return Square.apply(x).sum()
""",
        inputs="(torch.ones(3, requires_grad=True),)",
        link=graph_break_page("GB0144"),
    ),
    Recipe(
        id="autograd-function",
        title="Use only plain features of autograd.Function",
        gb_types=(
            "Unsupported autograd.Function context `mark_dirty`",
            "Unsupported autograd.Function context method",
            "Unsupported autograd.Function context `save_for_backward`",
            "Unsupported autograd.Function method",
            "autograd.Function.apply: mark_dirty input not returned",
            "autograd.Function.apply: non-function or method forward",
            "autograd.Function.apply: _materialize_non_diff_grads mutation",
            "autograd.Function.apply: non-function or method backward",
            "autograd.Function.apply: non-function or method backward (2)",
            "autograd.Function.apply: duplicate tensor input",
            "autograd_function_kwonly_args",
            "Non-function or method in subclass of torch.autograd.Function",
            "AutogradFunctionContextVariable escaped Dynamo-traced region",
        ),
        why=(
            "The compiler follows an `autograd.Function` that saves tensors and returns new ones. Changing "
            "inputs in place (`ctx.mark_dirty`) and other special features of the context are not followed."
        ),
        action="Return a new tensor from the function behind `{expression}` and keep to `save_for_backward`.",
        before="""\
import torch


class AddOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, grad):
        return grad


def f(x):
    return AddOne.apply(x * 2) * 3
""",
        after="""\
import torch


class AddOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


def f(x):
    return AddOne.apply(x * 2) * 3
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB2019"),
    ),
)
