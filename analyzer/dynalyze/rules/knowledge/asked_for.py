"""Breaks that somebody wrote into the program: graph_break() and disable()."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="explicit-break",
        title="Remove the call that asks for a graph break",
        gb_types=(
            "Call to `torch._dynamo.graph_break()`",
            "Call to `torch._dynamo.skip_frame()`",
            "Call to `torch._dynamo.step_unsupported()`",
            "ComptimeContext graph break",
        ),
        why=(
            "The program itself asks the compiler to stop here. Such calls are mostly left over from the "
            "search for a compiler problem."
        ),
        action=("Delete `{expression}`; if the code after it does not compile yet, disable that function and say why."),
        before="""\
import torch


def f(x):
    hidden = torch.relu(x)
    torch._dynamo.graph_break()
    return hidden.sum()
""",
        after="""\
import torch


def f(x):
    hidden = torch.relu(x)
    return hidden.sum()
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0025"),
    ),
    Recipe(
        id="disabled-function",
        title="Let the disabled function be compiled, or move it to the edge",
        gb_types=(
            "Skip calling `torch.compiler.disable()`d function",
            "Skip inlining `torch.compiler.disable()`d function",
        ),
        why=(
            "The function carries `torch.compiler.disable`, so the compiler stops before each call of it "
            "and starts again after it. In the middle of a model that makes two graphs of one."
        ),
        action=(
            "Remove the decorator from the function that `{expression}` calls and see whether it compiles "
            "now; if it must stay, call it before or after the compiled model."
        ),
        before="""\
import torch


@torch.compiler.disable
def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def f(x, cos, sin):
    return x * cos + rotate_half(x) * sin
""",
        after="""\
import torch


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def f(x, cos, sin):
    return x * cos + rotate_half(x) * sin
""",
        inputs="(torch.ones(2, 4), torch.ones(4), torch.ones(4))",
        link=graph_break_page("GB0098"),
    ),
)
