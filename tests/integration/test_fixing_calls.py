"""Recipes about calls and effects: what "before" shows, the search for fixes ends and proves, or says honestly not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynalyze.rules.recipe import find_by_id
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="the cookbook speaks of torch 2.13 and later"
)

# Without those whose cause is another one's too.
ENDED = {
    "autograd-function": "clean-copy", "autograd-function-jvp": "without-jvp", "autograd-grad": "setting",
    "backward-hook": "setting", "c-special-method": "constant-expression", "call-stack": "own-name",
    "check-message": "constant-message", "disabling-call": "not-disabled-here",
    "import-inside": "imported-at-top", "list-comparison": "elements-compared", "out-argument": "no-out-argument",
    "random-fill": "randint", "tensor-data-assignment": "copy-into", "tensor-subclass": "tensor-given",
    "typed-dict": "dictionary", "unique": "size-known-when-run", "data-dependent-size": "number-known-when-run",
    "native-kernel": "custom-op", "open-file": "file-when-compiled",
    "break-in-context": "eager-only", "break-in-generator": "eager-only",
    "c-extension": "constant-result",
    "class-statement": "class-at-top", "clock": "eager-only",
    "context-manager": "eager-only-context", "debugger": "eager-only",
    "deepcopy": "clone", "disabled-function": "not-disabled", "explicit-break": "no-asked-break",
    "hash-digest": "constant-result", "logger": "eager-only", "logger-once": "eager-only",
    "operating-system": "constant-result", "print": "eager-only", "progress-bar": "no-progress-bar",
    "reconstruction": "eager-only-context", "recurrent-layer": "setting", "serialization": "constant-result",
    "warning": "eager-only",
}  # fmt: skip
# The change of these recipes does something else: it draws other numbers, leaves a lock to the caller, copies an input.
NOT_EQUAL = ("lock", "numpy-random", "python-random", "random-seed", "requires-grad", "sort-key", "tensor-text",
             "torch-generator")  # fmt: skip
# The function that computes in Python becomes an operator, whose size is what the data say.
OPERATORS = ("bytes", "group-by", "one-hot", "skipped-function", "sparse-tensor")


@pytest.mark.parametrize("recipe_id", mostly_slow(ENDED))
def test_the_breaks_of_a_recipe_end_and_that_is_proved(recipe_id: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    recipe = find_by_id(recipe_id)
    assert recipe is not None
    for name in recipe.requires:
        pytest.importorskip(name)
    found = search(recipe.before, recipe.inputs, tmp_path)
    assert found.before.breaks > 0
    assert found.after.breaks == 0
    assert [each.rewrite for each in found.proved] == [ENDED[recipe_id]]
    assert found.proved[0].evidence.outputs == "bitwise"


@pytest.mark.parametrize("recipe_id", mostly_slow(OPERATORS))
def test_the_function_that_breaks_is_made_an_operator(recipe_id: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    recipe = find_by_id(recipe_id)
    assert recipe is not None
    found = search(recipe.before, recipe.inputs, tmp_path)
    assert found.before.breaks > 0
    assert found.after.breaks == 0
    assert [(each.rewrite, each.evidence.outputs) for each in found.proved] == [("sized-by-data", "bitwise")]
    assert not found.settings


@pytest.mark.parametrize("recipe_id", mostly_slow(NOT_EQUAL))
def test_what_would_do_something_else_is_not_kept(recipe_id: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    recipe = find_by_id(recipe_id)
    assert recipe is not None
    for name in recipe.requires:
        pytest.importorskip(name)
    found = search(recipe.before, recipe.inputs, tmp_path)
    assert found.proved == []
    assert found.after.breaks == found.before.breaks > 0


def test_a_kernel_that_changes_its_input_is_no_operator_without_saying_so(tmp_path: Path) -> None:
    from fixing_in_process import search

    source = """
import ctypes
import torch


def moved(x):
    out = torch.empty_like(x)
    ctypes.memmove(out.data_ptr(), x.data_ptr(), x.numel() * x.element_size())
    ctypes.memset(x.data_ptr(), 0, x.numel() * x.element_size())
    return out


def f(x):
    return moved(x * 2) + 1
"""
    found = search(source, "(torch.ones(3),)", tmp_path)
    assert [each.status for each in found.attempts if each.rewrite == "custom-op"][:1] == ["rejected"]
    assert "opcheck" in found.attempts[0].reason


OPERATOR = """
import torch

library = torch.library.Library("dynalyze_{name}", "FRAGMENT")
if not hasattr(torch.ops.dynalyze_{name}, "make"):
    library.define("make(Tensor x) -> Tensor")
    library.impl("make", lambda x: {made}, "CPU")


def f(x):
    return torch.ops.dynalyze_{name}.make(x).sum() * 2
"""


@pytest.mark.parametrize(
    ("name", "made", "reason"),
    [
        ("like", "x.detach() + 1", ""),
        ("half", "x.detach()[: x.shape[0] // 2].clone()", "opcheck"),
        ("with_gradient", "x + 1", "gradient"),
    ],
)
def test_an_operator_without_a_fake_gets_one_where_it_makes_what_that_says(
    name: str, made: str, reason: str, tmp_path: Path
) -> None:
    from fixing_in_process import search

    found = search(OPERATOR.format(name=name, made=made), "(torch.ones(4),)", tmp_path)
    assert found.before.breaks and [each.rewrite for each in found.attempts] == ["operator-with-fake"]
    assert bool(found.proved) == (not reason) and reason in found.attempts[0].reason


def test_one_change_after_the_other_leaves_one_graph(tmp_path: Path) -> None:
    """What is behind a break shows once that is gone, at the lines that it has then."""
    from fixing_in_process import search

    source = """
import time
import warnings

import torch


@torch.compiler.disable
def part(x):
    start = time.time()
    y = torch.relu(x)
    print("took", time.time() - start > 60)
    return y


def f(x):
    y = part(x)
    warnings.warn("slow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = torch.sqrt(y)
    print(y.mean().item())
    return y
"""
    found = search(source, "(torch.ones(3),)", tmp_path)
    assert found.after.breaks == 0
    assert found.after.graphs == 1
    assert found.text.count("is_compiling()") == 6
    assert "if not torch.compiler.is_compiling():\n        if not" not in found.text


def test_sizes_that_the_caller_holds_need_no_setting(tmp_path: Path) -> None:
    from fixing_in_process import search

    source = """
import torch


def places(grid):
    counts = grid[:, 0] * grid[:, 1]
    ends = torch.repeat_interleave(counts.cumsum(0), counts)
    return ends - torch.arange(counts.sum())


def columns(grid):
    found = []
    for h, w in grid.tolist():
        found.append(torch.arange(w).repeat(h))
    return torch.cat(found)


def f(x, grid):
    place = places(grid)
    return x * (place + columns(grid))[:, None]
"""
    found = search(source, "(torch.randn(22, 3), torch.tensor([[2, 5], [3, 4]]))", tmp_path)
    assert found.before.breaks and not found.after.breaks and not found.settings
    assert "places(grid, size=x.shape[0])" in found.text and "columns(grid, size_0=x.shape[0])" in found.text


def test_what_a_function_was_given_is_known_where_the_name_is_something_else(tmp_path: Path) -> None:
    from fixing_in_process import search

    source = """
import torch


def positions(ids, seconds: torch.Tensor | None = None):
    places = torch.zeros(ids.shape[0], 3, dtype=ids.dtype)
    seconds = iter(seconds) if seconds is not None else iter([1] * ids.shape[0])
    for row, each in enumerate(ids):
        places[row, : int(each)] = int(next(seconds))
    return places


def f(x, ids):
    return x * positions(ids)
"""
    found = search(source, "(torch.randn(2, 3), torch.tensor([1, 3]))", tmp_path)
    assert found.before.breaks and not found.after.breaks and not found.settings


def test_paddings_that_are_kept_in_tensors_are_computed_as_numbers(tmp_path: Path) -> None:
    """Each layer has its own numbers, and the input may have another length."""
    from fixing_in_process import search

    source = """
import torch


class Causal(torch.nn.Module):
    def __init__(self, kernel, stride):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 2, kernel, stride)
        kernel = torch.tensor(self.conv.kernel_size[0])
        stride = torch.tensor(self.conv.stride[0])
        self.stride = torch.nn.Buffer(stride, persistent=False)
        self.total = torch.nn.Buffer(kernel - stride, persistent=False)

    def missing(self, x):
        frames = torch.ceil(x.shape[-1] / self.stride).to(torch.int64)
        return frames * self.stride - x.shape[-1]

    def forward(self, x):
        return self.conv(torch.nn.functional.pad(x, (self.total, self.missing(x))))


torch.manual_seed(0)
model = torch.nn.Sequential(Causal(7, 1), Causal(8, 4), Causal(4, 2))


def f(x):
    return model(x)
"""
    found = search(source, "(torch.randn(1, 2, 37),)", tmp_path)
    assert found.before.breaks and not found.after.breaks and not found.settings
    fixed: dict[str, Any] = {}
    exec(compile(found.text, "fixed.py", "exec"), fixed)
    was: dict[str, Any] = {}
    exec(compile(source, "was.py", "exec"), was)
    compiled = torch.compile(fixed["f"], backend="eager", fullgraph=True)
    for length in (37, 38, 64, 5):
        x = torch.randn(1, 2, length)
        assert torch.equal(compiled(x), was["f"](x))


def test_boxes_that_overlap_are_found_in_an_operator(tmp_path: Path) -> None:
    """How often its loop goes round only the values say, and no gradient goes through places."""
    from fixing_in_process import search

    source = """
import torch


def kept(boxes, scores, limit):
    order = scores.argsort(descending=True)
    found = []
    while order.numel() > 0:
        first, rest = order[0], order[1:]
        found.append(first)
        least = torch.maximum(boxes[first, 0], boxes[rest, 0])
        most = torch.minimum(boxes[first, 1], boxes[rest, 1])
        order = rest[(most - least).clamp(min=0) < limit]
    return torch.stack(found)


def f(x, scores):
    ends = torch.stack([x, x + x.abs()], -1)
    return ends[kept(ends, scores, 0.5)].sum()
"""
    found = search(source, "(torch.randn(9, requires_grad=True), torch.randn(9))", tmp_path)
    assert found.before.breaks and not found.after.breaks
    assert not found.settings
    assert "_kept_op(" in found.text


def test_a_match_that_numpy_finds_is_an_operator(tmp_path: Path) -> None:
    """As a loss of detection matches boxes: rows and columns are as many, which compiled code is told."""
    from fixing_in_process import search

    source = """
import numpy as np
import torch

torch.manual_seed(0)
head = torch.nn.Linear(16, 4)


def cheapest(cost):
    cost = cost.copy()
    rows, columns = [], []
    for _ in range(min(cost.shape)):
        row, column = np.unravel_index(np.argmin(cost), cost.shape)
        rows.append(int(row))
        columns.append(int(column))
        cost[row, :] = np.inf
        cost[:, column] = np.inf
    return np.array(rows), np.array(columns)


def match(pred, target):
    cost = torch.cdist(pred, target, p=1)
    rows, columns = cheapest(cost.detach().cpu().numpy())
    return torch.as_tensor(rows, dtype=torch.int64), torch.as_tensor(columns, dtype=torch.int64)


def f(x, target):
    pred = head(x)
    rows, columns = match(pred, target)
    return torch.nn.functional.l1_loss(pred[rows], target[columns])
"""
    found = search(source, "(torch.randn(5, 16), torch.randn(3, 4))", tmp_path)
    assert found.before.breaks and not found.after.breaks
    assert "tell torch which sizes are the same" in found.attempts[-1].title


def test_crops_of_a_size_that_values_say_are_an_operator_with_a_gradient(tmp_path: Path) -> None:
    """No setting is enough: what is done to a row hangs on how long it is."""
    from fixing_in_process import search

    source = """
import torch

torch.manual_seed(0)
proj = torch.nn.Linear(6, 6)


class Crops(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 4
        self.scale = torch.nn.Parameter(torch.rand(6))

    def forward(self, x, lengths):
        made = []
        for row, n in zip(x, lengths.tolist()):
            part = row[:n] - row[:n].mean(0)
            if n > 2:
                part = part * self.scale.abs()
            made.append(torch.nn.functional.interpolate(part.T[None], size=self.size, mode="linear")[0].T)
        return torch.stack(made)


crops = Crops()


def f(x, lengths):
    return proj(crops(proj(x), lengths)).sum()
"""
    found = search(source, "(torch.randn(3, 5, 6, requires_grad=True), torch.tensor([4, 2, 5]))", tmp_path)
    assert found.before.breaks and not found.after.breaks and found.after.graphs == 1
    assert not found.settings and "lengths.tolist()" in found.text
    assert "_crops_op.register_autograd(" in found.text and "_crops_op(x, lengths, self." in found.text
    fixed: dict[str, Any] = {}
    exec(compile(found.text, "fixed.py", "exec"), fixed)
    was: dict[str, Any] = {}
    exec(compile(source, "was.py", "exec"), was)
    with torch._dynamo.config.patch(found.settings):
        compiled = torch.compile(fixed["f"], backend="aot_eager", fullgraph=True)
        for lengths in ([4, 2, 5], [1, 3, 3], [5, 5, 2]):
            x = torch.randn(3, 5, 6, requires_grad=True)
            wanted, got = was["f"](x, torch.tensor(lengths)), compiled(x, torch.tensor(lengths))
            torch.testing.assert_close(got, wanted)
            slopes = torch.autograd.grad(got, [x, fixed["crops"].scale])
            torch.testing.assert_close(slopes, torch.autograd.grad(wanted, [x, was["crops"].scale]))


def test_a_matcher_takes_a_list_of_numbers_and_gives_a_list_of_pairs(tmp_path: Path) -> None:
    """As that of DETR: the best target of each query, for each image."""
    from fixing_in_process import search

    source = """
import numpy as np
import torch


class Matcher(torch.nn.Module):
    @torch.no_grad()
    def forward(self, outputs, targets):
        cost = torch.cdist(outputs.flatten(0, 1), torch.cat([each["boxes"] for each in targets]))
        cost = cost.view(*outputs.shape[:2], -1).cpu()
        sizes = [len(each["boxes"]) for each in targets]
        found = [np.lexsort(part[number].numpy().T[::-1]) for number, part in enumerate(cost.split(sizes, -1))]
        return [(torch.as_tensor(each[:size]), torch.arange(size)) for each, size in zip(found, sizes)]


matcher = Matcher()


def f(outputs, targets):
    loss = 0.0
    for number, (query, target) in enumerate(matcher(outputs, targets)):
        loss = loss + (outputs[number][query] - targets[number]["boxes"][target]).abs().mean()
    return loss
"""
    inputs = '(torch.randn(2, 6, 4, requires_grad=True), [{"boxes": torch.randn(n, 4)} for n in (3, 2)])'
    found = search(source, inputs, tmp_path, training=True)
    assert found.before.breaks and not found.after.breaks and not found.settings
    assert "the sizes of its results are those in sizes" in found.proved[-1].title


def test_keywords_are_changed_in_a_copy_where_a_signature_is_bound_below(tmp_path: Path) -> None:
    from fixing_in_process import search

    source = """
import inspect

import torch


def scaled(function):
    signature = inspect.signature(function)

    def wrapper(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return function(*args, **kwargs) * bound.arguments["scale"]

    return wrapper


@scaled
def part(x, scale=2, **kwargs):
    return x + 1


def f(x, **kwargs):
    kwargs.pop("unused", None)
    kwargs["scale"] = 3
    return part(x, **kwargs)
"""
    found = search(source, "(torch.randn(4),)", tmp_path)
    assert found.before.breaks and not found.after.breaks and "    kwargs = {**kwargs}\n" in found.text


def test_sizes_that_the_model_is_given_are_numbers_of_python_as_the_last_thing_tried(tmp_path: Path) -> None:
    """As LLaVA takes the padding away: which side has any, the sizes say."""
    from fixing_in_process import search

    source = """
import torch

torch.manual_seed(0)
proj = torch.nn.Linear(3, 3)


def unpadded(image, size):
    height, width = size.tolist() if isinstance(size, torch.Tensor) else size
    if width / height > image.shape[-1] / image.shape[-2]:
        return image[:, : int(round(height * image.shape[-1] / width, 7))].flatten(1).T
    return image[:, :, : int(round(width * image.shape[-2] / height, 7))].flatten(1).T


def f(x, sizes):
    return torch.cat([proj(unpadded(image, size)) for image, size in zip(x, sizes)])
"""
    found = search(source, "(torch.randn(2, 3, 12, 8), torch.tensor([[12, 4], [6, 8]]))", tmp_path)
    assert found.before.breaks and not found.after.breaks
    assert found.settings == {"arguments_as_numbers": ["sizes"]}
    assert found.proved[-1].kind == "setting"


def test_flags_of_cudnn_are_left_to_gpus_and_a_repeat_is_as_long_as_what_it_is_added_to(tmp_path: Path) -> None:
    from fixing_in_process import search

    source = """
import torch

torch.manual_seed(0)
conv = torch.nn.Conv1d(3, 4, 3)


def f(x, counts):
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=False):
        y = conv(x)
    length = x.shape[-1]
    index = torch.arange(length) + torch.repeat_interleave(torch.arange(counts.shape[0]), counts)
    return y.sum() + index
"""
    found = search(source, "(torch.randn(1, 3, 10), torch.tensor([2, 5, 3]))", tmp_path)
    assert found.before.breaks and not found.after.breaks and not found.settings
    assert "nullcontext() if torch.compiler.is_compiling() and not x.is_cuda else" in found.text
    assert "output_size=length if torch.compiler.is_compiling() else None" in found.text


def test_numbers_are_given_beside_a_tensor_that_is_needed_as_well(tmp_path: Path) -> None:
    """As the vision tower of LFM3-VL reshapes each frame to its grid."""
    from fixing_in_process import search

    source = """
import torch

torch.manual_seed(0)
proj = torch.nn.Linear(3, 3)


def frame(part, height, width):
    part = part.view(height, width, 3)
    return part.transpose(0, 1) if height > width else part


def f(x, grid):
    ends = grid.prod(1).cumsum(0)
    sizes = grid.tolist()
    parts = x.split([height * width for height, width in sizes])
    made = [proj(frame(part, height, width)).reshape(-1, 3) for part, (height, width) in zip(parts, sizes)]
    return torch.cat(made) * ends[-1] + grid[:, 0].sum()
"""
    found = search(source, "(torch.randn(10, 3), torch.tensor([[2, 3], [4, 1]]))", tmp_path)
    assert found.before.breaks and not found.after.breaks
    assert found.settings == {"arguments_as_numbers": ["grid_numbers=grid"]}
    assert "def f(x, grid, *, grid_numbers=None):" in found.text


def test_an_operator_runs_a_function_that_catches_and_leaves_loops(tmp_path: Path) -> None:
    """As the positions of HunYuan-VL: which rows an image takes, its grid says."""
    from fixing_in_process import search

    source = """
import torch


def positions(ids, grid):
    found = torch.zeros(ids.shape[0], ids.shape[1], dtype=torch.long)
    left = iter(grid)
    last = []
    for row, each in enumerate(ids):
        for place, one in enumerate(each.tolist()):
            if one != 1:
                continue
            try:
                size = next(left)
            except StopIteration as error:
                raise ValueError("more images than grids") from error
            found[row, place] = size[0] * size[1]
        last.append(found[row].max())
    return found, torch.tensor(last)


def f(ids, grid):
    found, last = positions(ids, grid)
    return found + last.unsqueeze(1)
"""
    inputs = "(torch.tensor([[1, 0, 0], [0, 1, 1]]), torch.tensor([[2, 3], [4, 1], [2, 2]]))"
    found = search(source, inputs, tmp_path)
    assert found.before.breaks and not found.after.breaks and not found.settings
    assert "custom_op" in found.text
