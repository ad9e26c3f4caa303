"""Reading a tensor's value into Python: item, tolist, float, and comparisons that give a Python bool."""

from dynalyze.rules import written
from dynalyze.rules.recipe import Recipe, graph_break_page

_ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
_DATA = "Data dependent operator"
_CAPTURE = "torch._dynamo.config.capture_scalar_outputs = True"

RECIPES = (
    Recipe(
        id="tensor-item",
        title="Keep the value in a tensor",
        gb_types=(_ITEM,),
        shape=written.computes,
        why=(
            "`.item()`, `int()`, `float()` and `bool()` turn a tensor into a Python number. That number is "
            "not known while the graph is built, and on a GPU the program also has to wait for it."
        ),
        action="Compute with the tensor itself instead of the Python number that `{expression}` asks for.",
        before="""\
def f(x):
    scale = x.abs().max().item()
    return x / scale
""",
        after="""\
def f(x):
    scale = x.abs().max()
    return x / scale
""",
        inputs="(torch.arange(1.0, 5.0),)",
        config=_CAPTURE,
        config_note=(
            "The number becomes an unknown in the graph. It helps where you only compute with it; an `if` "
            "or a shape that depends on it can still break."
        ),
        link=graph_break_page("GB0124"),
    ),
    Recipe(
        id="tensor-tolist",
        title="Replace the list of numbers by a mask",
        gb_types=(_DATA, "Tensor.tolist() with non-integer tensor"),
        shape=lambda code: code.calls_any("tolist") and written.sums_rows(code),
        why=(
            "`.tolist()` reads all values of a tensor into Python. They are not known while the graph is "
            "built, and neither are the shapes and the number of loop turns that depend on them."
        ),
        action=(
            "Replace `{expression}` by tensor operations, such as a mask made with `torch.arange(n) < "
            "lengths[:, None]`."
        ),
        before="""\
def f(x, lengths):
    total = x.new_zeros(())
    for row, length in zip(x, lengths.tolist()):
        total = total + row[:length].sum()
    return total
""",
        after="""\
import torch


def f(x, lengths):
    keep = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x * keep).sum()
""",
        inputs="(torch.ones(2, 4), torch.tensor([1, 3]))",
        link=graph_break_page("GB0033"),
    ),
    Recipe(
        id="data-dependent-slice",
        title="Mask instead of cutting to a computed length",
        gb_types=(_ITEM, "Dynamic slicing with Tensor arguments"),
        shape=written.slice_is_summed,
        rank=2,
        why=(
            "The length of the slice is a value inside a tensor, so the shape of the result is unknown "
            "while the graph is built. Everything after the slice would have an unknown shape too."
        ),
        action=("Keep the full length and mask what `{expression}` would cut off, or pass the length as a Python int."),
        before="""\
def f(x, length):
    return x[: length.item()].sum()
""",
        after="""\
import torch


def f(x, length):
    keep = torch.arange(x.shape[0], device=x.device) < length
    return torch.where(keep, x, 0.0).sum()
""",
        inputs="(torch.ones(5), torch.tensor(3))",
        config=_CAPTURE,
        config_note=("The slice then has a shape that is only known at run time, which not every operation accepts."),
        link=graph_break_page("GB0124"),
    ),
    Recipe(
        id="data-dependent-size",
        title="Make the tensor with a size known beforehand",
        gb_types=(_ITEM, _DATA),
        shape=written.compares_positions,
        rank=1,
        why=(
            "The size of the new tensor is a value inside another tensor, so its shape is unknown while the "
            "graph is built. Reading the value also makes a GPU program wait."
        ),
        action=(
            "Compare as many positions as the tensor that is masked has, such as `x.shape[1]`, instead of reading the "
            "number in `{expression}`."
        ),
        before="""\
import torch


def f(x, lengths):
    keep = torch.arange(lengths.max().item()) < lengths[:, None]
    return (x * keep).sum(dim=1)
""",
        after="""\
import torch


def f(x, lengths):
    keep = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x * keep).sum(dim=1)
""",
        inputs="(torch.ones(2, 4), torch.tensor([2, 4]))",
        link=graph_break_page("GB0124"),
    ),
    Recipe(
        id="tensor-index-of-list",
        title="Stack the list and index the stack",
        gb_types=(_ITEM,),
        shape=written.indexes,
        why=(
            "A Python list is indexed by a tensor, so which entry is taken depends on the "
            "data. The graph would have to be another one for each entry."
        ),
        action=(
            "Where the entries are tensors or numbers of one shape, stack them once and select with the tensor, "
            "instead of "
            "`{expression}`; else index with a Python int."
        ),
        before="""\
import torch

scales = [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(4.0)]


def f(x, level):
    return x * scales[level]
""",
        after="""\
import torch

scales = torch.tensor([1.0, 2.0, 4.0])


def f(x, level):
    return x * scales[level]
""",
        inputs="(torch.ones(3), torch.tensor(2))",
        link=graph_break_page("GB0124"),
    ),
    Recipe(
        id="data-dependent-result",
        title="Keep the comparison in a tensor",
        gb_types=(_DATA,),
        match=r"(?m:^)aten\.(allclose|equal)\.",
        shape=lambda code: written.asks_call(code, "allclose", "equal"),
        why=(
            "The operation gives a Python value (a bool or a number) that depends on what is inside the "
            "tensors. The compiler has no data while it builds the graph, so it cannot know the value."
        ),
        action=(
            "Compare into a tensor, `torch.isclose(a, b).all()` or `(a == b).all()`, and choose with `torch.where` "
            "where "
            "both ways give tensors of one shape, instead of asking `{expression}`."
        ),
        before="""\
import torch


def f(x, previous):
    if torch.allclose(x, previous):
        return x
    return (x + previous) / 2
""",
        after="""\
import torch


def f(x, previous):
    same = torch.isclose(x, previous).all()
    return torch.where(same, x, (x + previous) / 2)
""",
        inputs="(torch.ones(3), torch.zeros(3))",
        link=graph_break_page("GB0033"),
    ),
)
