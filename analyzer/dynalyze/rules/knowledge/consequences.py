"""What a break does to the code around it. The cause is another break, always to be fixed first."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="break-in-loop",
        kind="consequence",
        title="Fix the break inside the loop first",
        gb_types=("graph break in loop",),
        why=(
            "The compiler cannot stop in the middle of a `for` or `while` and go on with the next turn. A "
            "break inside a loop therefore sends the whole function to eager mode, the code before and "
            "after the loop too."
        ),
        action=(
            "Remove the break at `{expression}`; if that cannot be done, put the body of the loop into a "
            "function of its own, so that only the body breaks."
        ),
        before="""\
import torch


def f(x, weights):
    for number, weight in enumerate(weights):
        x = torch.relu(x @ weight)
        print("layer", number)
    return x
""",
        after="""\
import torch


def f(x, weights):
    for weight in weights:
        x = torch.relu(x @ weight)
    return x
""",
        inputs="(torch.ones(2, 2), [torch.ones(2, 2), torch.ones(2, 2)])",
        link=graph_break_page("GB7000"),
    ),
    Recipe(
        id="break-in-context",
        kind="consequence",
        title="Fix the break inside the with block first",
        gb_types=("Graph break under GenericContextWrappingVariable",),
        why=(
            "Inside a `with` on your own context manager the compiler cannot stop and go on, because it "
            "does not know how to leave and enter the block again. A break there sends the whole function "
            "to eager mode."
        ),
        action=(
            "Remove the break at `{expression}`; if that cannot be done, move the line or the `with` out of "
            "the compiled function."
        ),
        before="""\
import torch


class Section:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def f(x):
    with Section():
        hidden = torch.relu(x)
        print("hidden is", tuple(hidden.shape))
    return hidden.sum()
""",
        after="""\
import torch


class Section:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def f(x):
    with Section():
        hidden = torch.relu(x)
    return hidden.sum()
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0066"),
    ),
    Recipe(
        id="break-in-try",
        kind="consequence",
        title="Fix the break inside the try block first",
        gb_types=(),
        why=(
            "The compiler cannot stop inside a `try` and go on there, because the rest of the block would "
            "need its `except` or `finally` again. A break inside it sends the whole function to eager "
            "mode."
        ),
        action="Remove the break at `{expression}`, or move that line out of the `try` block.",
        before="""\
import torch


def f(x):
    try:
        y = torch.log(x)
        print("minimum", y.min())
    except ValueError:
        y = torch.zeros_like(x)
    return y + 1
""",
        after="""\
import torch


def f(x):
    try:
        y = torch.log(x)
    except ValueError:
        y = torch.zeros_like(x)
    return y + 1
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0059"),
    ),
    Recipe(
        id="break-in-generator",
        kind="consequence",
        title="Fix the break inside the generator first",
        gb_types=(),
        why=(
            "A generator that is half way through cannot be handed from the graph to Python. A break inside "
            "its body, or while it is being read, sends the whole function that reads it to eager mode."
        ),
        action="Remove the break at `{expression}`, or build a list first and loop over that.",
        before="""\
import torch


def stages(x):
    for number in range(3):
        print("stage", number)
        yield torch.relu(x - number)


def f(x):
    return sum(stages(x))
""",
        after="""\
import torch


def stages(x):
    return [torch.relu(x - number) for number in range(3)]


def f(x):
    return sum(stages(x))
""",
        inputs="(torch.arange(4.0),)",
        link=graph_break_page("GB0059"),
    ),
    Recipe(
        id="reconstruction",
        kind="consequence",
        title="Do not carry helper objects across the break",
        gb_types=(
            "Reconstruction failure",
            "Reconstruction failure: source.reconstruct not implemented",
            "Reconstruction failure (self-referential)",
            "Generator reconstruction with mutations",
        ),
        why=(
            "At a graph break everything that is still needed is handed back to Python. The compiler made "
            "this object while it traced and cannot hand it over, so the function runs in eager mode."
        ),
        action=(
            "Fix the earlier break in this function first; else do not keep or return the object made at "
            "`{expression}`."
        ),
        before="""\
import warnings

import torch


def f(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sqrt(x)
""",
        after="""\
import torch


def f(x):
    return torch.sqrt(x)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0092"),
    ),
)
