"""Hooks on modules and tensors."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="backward-hook",
        title="Hook the tensor instead of the module",
        gb_types=(
            "Module-level backwards hooks require compiled autograd.",
            "Compilation of intermediate hooks requires compiled autograd",
        ),
        why=(
            "A backward hook on a module has to run in Python in the middle of the backward pass, which is "
            "one compiled graph. The compiler refuses to call the module."
        ),
        action=(
            "Hook the tensor that goes into or comes out of the module with `tensor.register_hook`, and "
            "keep the hook free of side effects, or remove the hook before compiling."
        ),
        before="""\
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(3, 3)


@layer.register_full_backward_hook
def limit(module, grad_input, grad_output):
    return tuple(grad.clamp(-0.1, 0.1) for grad in grad_input)


def f(x):
    hidden = torch.tanh(x)
    return layer(hidden).sum()
""",
        after="""\
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(3, 3)


def limit(grad):
    return grad.clamp(-0.1, 0.1)


def f(x):
    hidden = torch.tanh(x)
    hidden.register_hook(limit)
    return layer(hidden).sum()
""",
        inputs="(torch.ones(2, 3, requires_grad=True),)",
        config="torch._dynamo.config.compiled_autograd = True",
        config_note="Compiles the backward pass of the whole program, which costs compile time of its own.",
        link=graph_break_page("GB0083"),
    ),
    Recipe(
        id="hook-registration",
        title="Register module hooks before compiling",
        gb_types=(
            "setattr() on unsupported type",
            "Attempted to represent unregistered RemovableHandle",
            "Storing Tensor hook handle in globals",
            "Storing Tensor hook handle in globals (inline call)",
        ),
        match=r"RemovableHandle|hook",
        why=(
            "Registering a hook changes the module and a counter that belongs to all hooks. The compiler "
            "cannot put such a change of Python objects into a graph."
        ),
        action=(
            "Do `{expression}` once before the compiled function is called, or return the inner value "
            "instead of hooking it."
        ),
        before="""\
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(3, 3)


def f(x):
    seen = []
    handle = layer.register_forward_hook(lambda module, args, output: seen.append(output))
    y = torch.relu(layer(x))
    handle.remove()
    return y, seen[0]
""",
        after="""\
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(3, 3)


def f(x):
    inner = layer(x)
    return torch.relu(inner), inner
""",
        inputs="(torch.ones(2, 3),)",
        link=graph_break_page("GB0467"),
    ),
)
