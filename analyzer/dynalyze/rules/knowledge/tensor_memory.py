"""The memory behind a tensor: its address, its storage, its .data."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="data-pointer",
        title="Do not use the tensor's address in compiled code",
        gb_types=("Observed exception", "Data pointer comparison"),
        shape=lambda code: code.calls_any("data_ptr"),
        rank=2,
        why=(
            "`data_ptr()` is the address of the memory. While the graph is built the tensor has no memory, "
            "and at run time the compiler may use other memory than you expect."
        ),
        action="Ask about the tensor itself instead of `{expression}`, or ask outside the compiled function.",
        before="""\
def f(x):
    aligned = x.data_ptr() % 4 == 0
    return x * 2 if aligned else x.clone() * 2
""",
        after="""\
def f(x):
    return x * 2
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0088"),
    ),
    Recipe(
        id="tensor-data-assignment",
        title="Copy into the tensor instead of replacing its .data",
        gb_types=(
            "Failed to mutate tensor data attribute",
            "Failed to mutate tensor data attribute to different dtype",
            "Failed to set tensor attribute",
            "Unsupported Tensor.set_() call",
        ),
        why=(
            "Assigning `.data` puts other memory under an existing tensor, behind the back of autograd. The "
            "compiler cannot follow a tensor that changes what it is."
        ),
        action="Use `copy_` under `torch.no_grad()`, or a new variable, in place of `{expression}`.",
        before="""\
def f(x, update):
    state = x * 0.9
    state.data = update
    return state + 1
""",
        after="""\
import torch


def f(x, update):
    state = x * 0.9
    with torch.no_grad():
        state.copy_(update)
    return state + 1
""",
        inputs="(torch.ones(3), torch.zeros(3))",
        link=graph_break_page("GB0056"),
    ),
    Recipe(
        id="tensor-resize",
        title="Make a new tensor instead of resizing one",
        gb_types=(
            "Unsupported Tensor.resize_() call",
            "Unsupported Tensor.resize_as_() call",
            "Unsupported Tensor.sparse_resize_() call",
        ),
        why=(
            "`resize_` changes the size of memory that other tensors may share. The compiler has to know "
            "every shape while it builds the graph and does not follow such a change."
        ),
        action="Slice, pad or allocate a new tensor instead of `{expression}`.",
        before="""\
def f(x):
    head = x * 2
    head.resize_(2)
    return head + 1
""",
        after="""\
def f(x):
    head = (x * 2)[:2]
    return head + 1
""",
        inputs="(torch.arange(4.0),)",
        link=graph_break_page("GB0126"),
    ),
    Recipe(
        id="sparse-tensor",
        title="Keep sparse tensors outside the compiled code",
        gb_types=(
            "Attempted to wrap sparse Tensor",
            "Attempted to wrap sparse Tensor with VariableTracker",
            "Sparse tensor creation not supported",
            "sparse_grad_accumulate_grad",
        ),
        why=(
            "`torch.compile` has no rules for sparse tensors: how many values they hold depends on the "
            "data. Functions that touch one run in eager mode."
        ),
        action=(
            "Use a dense tensor with a mask, or gather and `index_add`, instead of `{expression}`; else do it outside."
        ),
        before="""\
def f(x, adjacency):
    return (adjacency.to_sparse() @ x) * 2
""",
        after="""\
def f(x, adjacency):
    return (adjacency @ x) * 2
""",
        inputs="(torch.ones(3, 2), torch.eye(3))",
        link=graph_break_page("GB0015"),
    ),
)
