"""NumPy in compiled code: what Dynamo cannot turn into tensor operations."""

from dynalyze.rules import written
from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="numpy-function",
        title="Use the torch operation instead of the NumPy one",
        gb_types=(
            "attempted to trace numpy function unsupported by PyTorch",
            "attempted to trace numpy.* function as a method",
            "numpy function that produces a const collection type encountered non-const arguments",
            "Unsupported ndarray method call",
            "Unsupported ndarray attribute access",
        ),
        why=(
            "The compiler turns many NumPy functions into tensor operations, but it has none for this one. "
            "Leaving the graph for NumPy also copies the data to the CPU."
        ),
        action="Write `{expression}` with torch operations, or prepare its result outside the model.",
        before="""\
import numpy as np
import torch

KNOTS = [0.0, 1.0, 3.0]
VALUES = [0.0, 2.0, 4.0]


def f(x):
    return torch.from_numpy(np.interp(x.numpy(), KNOTS, VALUES)).float()
""",
        after="""\
import torch

KNOTS = torch.tensor([0.0, 1.0, 3.0])
VALUES = torch.tensor([0.0, 2.0, 4.0])


def f(x):
    left = (torch.searchsorted(KNOTS, x, right=True) - 1).clamp(0, len(KNOTS) - 2)
    part = ((x - KNOTS[left]) / (KNOTS[left + 1] - KNOTS[left])).clamp(0, 1)
    return torch.lerp(VALUES[left], VALUES[left + 1], part)
""",
        inputs="(torch.tensor([-1.0, 0.5, 2.0, 9.0]),)",
        link=graph_break_page("GB0294"),
        requires=("numpy",),
    ),
    Recipe(
        id="numpy-random",
        title="Draw random numbers with torch, not NumPy",
        gb_types=(
            "Unsupported method call",
            "attempted to trace torch._numpy.random function with config.use_numpy_random_stream=True",
            "Attempted to call function marked as skipped",
        ),
        match=r"of class `(Generator|RandomState)`|numpy\.random|np\.random|use_numpy_random_stream",
        rank=2,
        why=(
            "NumPy's generator keeps its own state outside the graph. The compiler cannot carry that state "
            "along, so each draw is left to Python."
        ),
        action=(
            "Draw with `torch.rand`, `torch.randn` or `torch.randint` instead of `{expression}`, or pass "
            "the numbers in."
        ),
        before="""\
import numpy as np

generator = np.random.default_rng(0)


def f(x, strength):
    return x + strength * generator.normal()
""",
        after="""\
import torch


def f(x, strength):
    return x + strength * torch.randn((), device=x.device)
""",
        inputs="(torch.ones(3), 0.0)",
        link=graph_break_page("GB0156"),
        requires=("numpy",),
    ),
    Recipe(
        id="tensor-through-numpy",
        title="Stay in torch instead of going through NumPy",
        gb_types=(
            "Data dependent operator",
            "Tensor.numpy() with trace_numpy=False",
            "Tensor.numpy() without NumPy installed",
        ),
        shape=lambda code: code.calls_any("numpy") and written.computes(code),
        rank=1,
        why=(
            "The tensor becomes an array and the array a Python number. That number depends on the data, "
            "which the compiler does not have while it builds the graph."
        ),
        action="Compute `{expression}` with torch operations and keep the result a tensor.",
        before="""\
def f(x):
    peak = float(x.detach().cpu().numpy().max())
    return x / peak
""",
        after="""\
def f(x):
    peak = x.detach().max()
    return x / peak
""",
        inputs="(torch.arange(1.0, 5.0),)",
        config="torch._dynamo.config.capture_scalar_outputs = True",
        config_note=("The number becomes an unknown in the graph; NumPy calls that torch has no twin for still break."),
        link=graph_break_page("GB0033"),
        requires=("numpy",),
    ),
)
