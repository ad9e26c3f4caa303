"""torch's own random state."""

from dynalyze.rules.recipe import Recipe, graph_break_page

_SKIPPED = "Attempted to call function marked as skipped"

RECIPES = (
    Recipe(
        id="random-seed",
        title="Set the seed before the compiled code",
        gb_types=(_SKIPPED, "torch.* op returned non-Tensor", "Unsupported context manager"),
        match=r"manual_seed|[gs]et_rng_state|fork_rng|initial_seed|torch\.random",
        rank=3,
        why=(
            "The state of the random generator lives outside the graph. Reading or setting it is a change "
            "of Python's world that the compiler leaves to Python."
        ),
        action="Do `{expression}` once, before the compiled function is called.",
        before="""\
import torch


def f(x):
    torch.manual_seed(0)
    return torch.relu(x)
""",
        after="""\
import torch


def f(x):
    return torch.relu(x)


def reproducible(compiled, x):
    torch.manual_seed(0)
    return compiled(x)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="torch-generator",
        title="Use the default generator, or draw outside",
        gb_types=(
            "Failed to convert args/kwargs to proxy",
            "torch.Generator method",
            "An opaque object was created in the middle of the program.",
        ),
        match=r"Generator",
        why=(
            "A `torch.Generator` is an object with a state that changes at each draw. The compiler can "
            "follow the default generator, but not one that you pass in."
        ),
        action=("Drop `generator=` from `{expression}`, or draw outside the compiled function and pass the tensor in."),
        before="""\
import torch

generator = torch.Generator()


def f(x, strength):
    noise = torch.randn(x.shape, generator=generator)
    return x + strength * noise
""",
        after="""\
import torch


def f(x, strength):
    noise = torch.randn_like(x)
    return x + strength * noise
""",
        inputs="(torch.ones(3), 0.0)",
        link=graph_break_page("GB0055"),
    ),
)
