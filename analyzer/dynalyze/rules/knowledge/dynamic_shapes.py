"""Operations whose result has a shape that depends on the data."""

from dynalyze.rules.recipe import Recipe, graph_break_page

_SHAPE = ("Dynamic shape operator", "Dynamic shape operator (no meta kernel)")
_CAPTURE = "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
_CAPTURE_NOTE = (
    "The size becomes an unknown in the graph. It removes this break; a backend that needs fixed sizes, such "
    "as CUDA graphs, still cannot use that part."
)

RECIPES = (
    Recipe(
        id="nonzero",
        title="Work with the mask instead of its indices",
        gb_types=_SHAPE,
        why=(
            "How many rows the result has depends on the values inside the tensor. The compiler builds "
            "graphs for known shapes, so it stops before the operation; on a GPU the program also waits for "
            "the count."
        ),
        action=(
            "Replace `{expression}` by operations on the whole tensor and a mask, such as `masked_fill` or "
            "`torch.where`."
        ),
        before="""\
import torch


def f(x):
    rows = torch.nonzero(x > 2).squeeze(-1)
    return x.index_fill(0, rows, 0.0)
""",
        after="""\
def f(x):
    return x.masked_fill(x > 2, 0.0)
""",
        inputs="(torch.arange(5.0),)",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="boolean-mask",
        title="Multiply by the mask instead of indexing with it",
        gb_types=_SHAPE,
        match=r"nonzero[\s\S]*\n[^\n]*\w\[[^\]\n]*([<>]|==|!=|mask|valid|keep|~)[^\]\n]*\]|masked_select",
        rank=1,
        why=(
            "`x[mask]` keeps only the chosen elements, so its length depends on the data. The compiler "
            "builds graphs for known shapes and stops here."
        ),
        action=(
            "Keep the shape: multiply by the mask or use `torch.where`, and divide by `mask.sum()` for a "
            "mean, instead of `{expression}`."
        ),
        before="""\
def f(losses, mask):
    return losses[mask].mean()
""",
        after="""\
def f(losses, mask):
    return (losses * mask).sum() / mask.sum()
""",
        inputs="(torch.arange(4.0), torch.tensor([True, False, True, True]))",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="where-indices",
        title="Weight all rows instead of gathering some",
        gb_types=_SHAPE,
        match=r"nonzero[\s\S]*\bwhere\(",
        rank=2,
        why=(
            "`torch.where` with one argument returns the positions that are true, and how many there are "
            "depends on the data. Routing tokens to experts this way breaks the graph once for each expert."
        ),
        action=(
            "Use the three-argument `torch.where`, or compute every row and weight it by the mask, instead "
            "of `{expression}`."
        ),
        before="""\
import torch


def f(tokens, choice, expert):
    result = torch.zeros_like(tokens)
    rows = torch.where(choice == 1)[0]
    result.index_add_(0, rows, tokens[rows] @ expert)
    return result
""",
        after="""\
def f(tokens, choice, expert):
    chosen = (choice == 1).unsqueeze(-1)
    return (tokens @ expert) * chosen
""",
        inputs="(torch.ones(3, 2), torch.tensor([0, 1, 1]), torch.ones(2, 2))",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="unique",
        title="Sort and compare neighbours instead of unique",
        gb_types=_SHAPE,
        match=r"unique",
        rank=2,
        why=(
            "How many different values there are depends on the data, so the shape of the result is unknown "
            "while the graph is built."
        ),
        action=(
            "Replace `{expression}` by a sort and a comparison of neighbours, or compute it once outside the model."
        ),
        before="""\
import torch


def f(labels):
    return torch.unique(labels).numel()
""",
        after="""\
def f(labels):
    ordered = labels.sort().values
    return (ordered[1:] != ordered[:-1]).sum() + 1
""",
        inputs="(torch.tensor([3, 1, 3, 2]),)",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="bincount",
        title="Count with scatter_add into a known number of bins",
        gb_types=_SHAPE,
        match=r"bincount",
        rank=2,
        why=(
            "`torch.bincount` makes as many bins as the largest value needs, and that value is not known "
            "while the graph is built."
        ),
        action="Replace `{expression}` by `scatter_add` into a tensor with a bin for each possible value.",
        before="""\
import torch

CLASSES = 4


def f(labels):
    return torch.bincount(labels, minlength=CLASSES)
""",
        after="""\
import torch

CLASSES = 4


def f(labels):
    counts = torch.zeros(CLASSES, dtype=torch.int64, device=labels.device)
    return counts.scatter_add(0, labels, torch.ones_like(labels))
""",
        inputs="(torch.tensor([0, 2, 2, 3]),)",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="repeat-interleave",
        title="Tell repeat_interleave the size of its result",
        gb_types=_SHAPE,
        match=r"repeat_interleave",
        rank=2,
        why=(
            "With a tensor of repeats the length of the result is their sum, which is not known while the "
            "graph is built unless you say it."
        ),
        action="Give `{expression}` the argument `output_size=`, a Python int.",
        before="""\
import torch


def f(x, repeats):
    return torch.repeat_interleave(x, repeats, dim=0).cumsum(0)
""",
        after="""\
import torch

LENGTH = 4


def f(x, repeats):
    return torch.repeat_interleave(x, repeats, dim=0, output_size=LENGTH).cumsum(0)
""",
        inputs="(torch.ones(3), torch.tensor([1, 2, 1]))",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="one-hot",
        title="Tell one_hot the number of classes",
        gb_types=("Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape",),
        why=(
            "Without a number of classes, `one_hot` makes as many columns as the largest label needs, and "
            "the labels are not known while the graph is built."
        ),
        action="Give `{expression}` the argument `num_classes=`.",
        before="""\
import torch.nn.functional as F


def f(labels):
    return F.one_hot(labels).float().mean(dim=0)
""",
        after="""\
import torch.nn.functional as F

CLASSES = 3


def f(labels):
    return F.one_hot(labels, num_classes=CLASSES).float().mean(dim=0)
""",
        inputs="(torch.tensor([0, 2, 2]),)",
        link=graph_break_page("GB0246"),
    ),
)
