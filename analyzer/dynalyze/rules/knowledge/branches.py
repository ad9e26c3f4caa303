"""Python control flow that depends on the data: if, while, range, assert."""

import ast

from dynalyze.rules import written
from dynalyze.rules.recipe import Recipe, graph_break_page

_BRANCH = "Data-dependent branching"
_ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"

RECIPES = (
    Recipe(
        id="data-dependent-if",
        title="Choose with torch.where instead of if",
        gb_types=(_BRANCH, "Data-dependent branching with non-constant __bool__"),
        shape=written.chooses,
        why=(
            "Which way the `if` goes depends on the values inside a tensor. The compiler has no values "
            "while it builds the graph, so it stops at the `if` and Python decides at each call."
        ),
        action=(
            "Where both ways give tensors of one shape, compute both and choose with `torch.where`, or use "
            "`torch.cond`, "
            "in place of the Python decision on `{expression}`."
        ),
        before="""\
def f(x):
    if x.mean() > 0:
        return x * 2
    return x - 1
""",
        after="""\
import torch


def f(x):
    return torch.where(x.mean() > 0, x * 2, x - 1)
""",
        inputs="(torch.tensor([-1.0, 2.0, 3.0]),)",
        link="https://docs.pytorch.org/docs/stable/generated/torch.cond.html",
    ),
    Recipe(
        id="conditional-update",
        title="Compute the update always and choose with torch.where",
        gb_types=(_BRANCH,),
        shape=written.updates,
        why=(
            "Whether the update happens depends on the values inside a tensor. The compiler has no values while it "
            "builds the graph, so it stops at the `if` and Python decides at each call."
        ),
        action=(
            "Where the update keeps the shape, make it a choice: `x = torch.where(condition, updated, x)`, or "
            "`torch.cond`, "
            "in place of the Python decision on `{expression}`."
        ),
        before="""\
def step(x):
    return x * 0.5


def f(x, limit):
    if (x > limit).any():
        x = step(x)
    return x + 1
""",
        after="""\
import torch


def step(x):
    return x * 0.5


def f(x, limit):
    x = torch.where((x > limit).any(), step(x), x)
    return x + 1
""",
        inputs="(torch.tensor([1.0, 4.0]), 2.0)",
        link="https://docs.pytorch.org/docs/stable/generated/torch.cond.html",
    ),
    Recipe(
        id="overflow-clamp",
        title="Clamp always instead of looking for inf first",
        gb_types=(_BRANCH,),
        shape=written.repairs,
        rank=1,
        why=(
            "The code looks for inf or nan in a tensor before it repairs them. The look is a Python "
            "decision on data and cuts the graph; the repair itself is cheap and leaves ordinary values "
            "as they are."
        ),
        action=("Drop the question `{expression}` and always apply the repair (`torch.clamp`, `torch.nan_to_num`)."),
        before="""\
import torch


def f(hidden):
    if torch.isinf(hidden).any():
        limit = torch.finfo(hidden.dtype).max - 1000
        hidden = torch.clamp(hidden, min=-limit, max=limit)
    return hidden + 1
""",
        after="""\
import torch


def f(hidden):
    limit = torch.finfo(hidden.dtype).max - 1000
    hidden = torch.clamp(hidden, min=-limit, max=limit)
    return hidden + 1
""",
        inputs="(torch.tensor([1.0, float('inf')], dtype=torch.float16),)",
        link=graph_break_page("GB0170"),
    ),
    Recipe(
        id="data-dependent-while",
        title="Run a fixed number of steps and mask the rest",
        gb_types=(_BRANCH, _ITEM),
        shape=written.repeats,
        rank=3,
        why=(
            "How often the loop runs depends on the values inside a tensor, so the graph would have no "
            "fixed length. Where the loop cannot be cut either, the whole function runs in eager mode."
        ),
        action=(
            "Bound the number of steps and keep the finished result with `torch.where`, or use "
            "`while_loop`, instead of asking `{expression}` in Python."
        ),
        before="""\
def f(x):
    while x.abs().max() > 1:
        x = x / 2
    return x
""",
        after="""\
import torch

MAX_STEPS = 10


def f(x):
    for _ in range(MAX_STEPS):
        x = torch.where(x.abs().max() > 1, x / 2, x)
    return x
""",
        inputs="(torch.tensor([3.0, -20.0]),)",
        link=graph_break_page("GB0170"),
    ),
    Recipe(
        id="tensor-range",
        title="Loop over a number that Python knows",
        gb_types=(_ITEM, "Data dependent operator"),
        shape=written.counts,
        rank=3,
        why=(
            "The number of loop turns is read out of a tensor. The compiler unrolls loops while it builds "
            "the graph, and at that time the tensor has no values."
        ),
        action=(
            "Pass the count as a Python int, or loop to a fixed maximum and mask, instead of reading `{expression}`."
        ),
        before="""\
def f(x, steps):
    for _ in range(int(steps)):
        x = x * 0.5
    return x
""",
        after="""\
import torch

MAX_STEPS = 8


def f(x, steps):
    for step in range(MAX_STEPS):
        x = torch.where(step < steps, x * 0.5, x)
    return x
""",
        inputs="(torch.ones(3), torch.tensor(3))",
        link=graph_break_page("GB0124"),
    ),
    Recipe(
        id="tensor-assert",
        title="Write the assert so that it can go into the graph",
        gb_types=(_BRANCH, "assert with non-string message"),
        shape=lambda code: isinstance(code.statement, ast.Assert),
        rank=2,
        why=(
            "An assert on a tensor goes into the graph when its condition is the tensor itself and its "
            "message a plain string. With `not`, `and`, `or` or a formatted message it is a Python decision "
            "on data and cuts the graph."
        ),
        action=(
            "Give `assert` a tensor condition without `not`, and a plain string as its message, in place of "
            "`{expression}`."
        ),
        before="""\
import torch


def f(logits):
    assert not torch.isnan(logits).any(), f"bad logits {logits}"
    return logits.softmax(dim=-1)
""",
        after="""\
import torch


def f(logits):
    assert (~torch.isnan(logits)).all(), "bad logits"
    return logits.softmax(dim=-1)
""",
        inputs="(torch.ones(2, 3),)",
        link=graph_break_page("GB0170"),
    ),
    Recipe(
        id="data-dependent-raise",
        title="Decide about the input before the compiled code",
        gb_types=(_BRANCH,),
        shape=written.only_raises,
        rank=2,
        why=(
            "A check that looks at the values of a tensor and raises is decided in Python. The compiler has no values "
            "while it builds the graph, so it cuts the graph at the check."
        ),
        action=(
            "Check `{expression}` before the compiled function is called, or write the opposite as `assert` with a "
            "tensor "
            "condition: that raises an AssertionError."
        ),
        before="""\
def f(probabilities):
    if (probabilities < 0).any():
        raise ValueError("a probability is negative")
    return probabilities.log()
""",
        after="""\
def f(probabilities):
    assert (probabilities >= 0).all(), "a probability is negative"
    return probabilities.log()
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0170"),
    ),
)
