"""Operations whose result has a shape that depends on the data."""

from dynalyze.rules import written
from dynalyze.rules.recipe import Recipe, graph_break_page

_SHAPE = ("Dynamic shape operator", "Dynamic shape operator (no meta kernel)")
_NONZERO = r"(?m:^)aten\.nonzero\."  # Also what `where` with one argument and a mask as an index come to.
_CAPTURE = "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
_CAPTURE_NOTE = (
    "The size becomes an unknown in the graph. It removes this break; a backend that needs fixed sizes, such "
    "as CUDA graphs, still cannot use that part."
)


def _picks(code: written.Written) -> bool:
    """`x[mask]` or `torch.masked_select(x, mask)`."""
    return written.masked(code) is not None or code.calls_any("masked_select")


RECIPES = (
    Recipe(
        id="nonzero",
        title="Work with the mask instead of its indices",
        gb_types=_SHAPE,
        match=_NONZERO,
        shape=written.fills,
        why=(
            "How many rows the result has depends on the values inside the tensor. The compiler builds "
            "graphs for known shapes, so it stops before the operation; on a GPU the program also waits for "
            "the count."
        ),
        action=("Fill by the mask itself, with `masked_fill`, in place of the positions that `{expression}` gives."),
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
        match=rf"{_NONZERO}|aten\.masked_select\.",
        shape=lambda code: _picks(code) and written.reduces(code, "mean"),
        rank=1,
        why=(
            "`x[mask]` keeps only the chosen elements, so its length depends on the data. The compiler "
            "builds graphs for known shapes and stops here."
        ),
        action=(
            "Keep the shape: where the mask has that of the tensor, set the others to zero with `torch.where`, and "
            "divide "
            "the sum by `mask.sum()`, instead of taking the mean of `{expression}`."
        ),
        before="""\
def f(losses, mask):
    return losses[mask].mean()
""",
        after="""\
import torch


def f(losses, mask):
    return torch.where(mask, losses, 0.0).sum() / mask.sum()
""",
        inputs="(torch.arange(4.0), torch.tensor([True, False, True, True]))",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="boolean-mask-sum",
        title="Set the others to zero instead of indexing with the mask",
        gb_types=_SHAPE,
        match=rf"{_NONZERO}|aten\.masked_select\.",
        shape=lambda code: _picks(code) and written.reduces(code, "sum"),
        rank=1,
        why=(
            "`x[mask]` keeps only the chosen elements, so its length depends on the data. The compiler builds "
            "graphs for "
            "known shapes and stops here."
        ),
        action=(
            "Keep the shape: where the mask has that of the tensor, sum `torch.where(mask, x, 0)` instead of "
            "`{expression}`."
        ),
        before="""\
def f(losses):
    return losses[losses > 1].sum()
""",
        after="""\
import torch


def f(losses):
    return torch.where(losses > 1, losses, 0.0).sum()
""",
        inputs="(torch.arange(4.0),)",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="masked-update",
        title="Add zero elsewhere instead of updating through the mask",
        gb_types=_SHAPE,
        match=_NONZERO,
        shape=written.updates_masked,
        rank=1,
        why=(
            "`x[mask] += w` takes the chosen elements out, adds, and puts them back: in between is a tensor whose "
            "length "
            "depends on the data. The compiler builds graphs for known shapes and stops here."
        ),
        action=(
            "Update all of it, with zero where the mask does not hold: `x += torch.where(mask, w, 0)` in place of "
            "`{expression}`. A mask with fewer dimensions than `x` gets the others as `mask[:, None]`."
        ),
        before="""\
def f(x, mask, w):
    hidden = x * 2
    hidden[mask] += w
    return hidden
""",
        after="""\
import torch


def f(x, mask, w):
    hidden = x * 2
    hidden += torch.where(mask, w, 0)
    return hidden
""",
        inputs="(torch.arange(4.0), torch.tensor([True, False, True, True]), torch.tensor(3.0))",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="masked-copy",
        title="Choose with torch.where instead of copying through a mask",
        gb_types=_SHAPE,
        match=_NONZERO,
        shape=written.copies_masked,
        rank=1,
        why=(
            "`x[mask] = y[mask]` makes a tensor of the chosen elements in between, whose length depends on the "
            "data. The "
            "compiler builds graphs for known shapes and stops here."
        ),
        action=(
            "Choose between the two whole tensors: `x.copy_(torch.where(mask, y, x))` in place of going through "
            "`{expression}`. A mask with fewer dimensions gets the others as `mask[:, None]`."
        ),
        before="""\
def f(x, mask, y):
    hidden = x * 2
    hidden[mask] = y[mask]
    return hidden
""",
        after="""\
import torch


def f(x, mask, y):
    hidden = x * 2
    hidden.copy_(torch.where(mask, y, hidden))
    return hidden
""",
        inputs="(torch.arange(4.0), torch.tensor([True, False, True, True]), torch.ones(4))",
        config=_CAPTURE,
        config_note=_CAPTURE_NOTE,
        link=graph_break_page("GB0036"),
    ),
    Recipe(
        id="where-indices",
        title="Weight all rows instead of gathering some",
        gb_types=_SHAPE,
        match=_NONZERO,
        shape=written.gathers_and_adds,
        rank=2,
        why=(
            "`torch.where` with one argument returns the positions that are true, and how many there are "
            "depends on the data. Routing tokens to experts this way breaks the graph once for each expert."
        ),
        action=(
            "Compute every row and weight it by the condition, instead of gathering those of `{expression}` and adding "
            "them back."
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
        title="Sort and count neighbours that differ instead of unique",
        gb_types=_SHAPE,
        match=r"(?m:^)aten\._?unique",
        shape=lambda code: written.reduces(code, "numel"),
        rank=2,
        why=(
            "How many different values there are depends on the data, so the shape of the result is unknown "
            "while the graph is built."
        ),
        action=(
            "Count with a sort and a comparison of neighbours instead of `{expression}`, or do it once outside the "
            "model."
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
        match=r"(?m:^)aten\.bincount\.",
        shape=lambda code: all(len(call.args) == 1 for call in code.calls if written.called(call) == "bincount"),
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
        match=r"(?m:^)aten\.repeat_interleave\.",
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
