"""Progress bars in compiled code."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="progress-bar",
        title="Keep the progress bar outside the compiled code",
        gb_types=(
            "Attempted to call function marked as skipped",
            "Attempted to inline function marked as skipped",
            "Unsupported method call",
            "Unsupported context manager",
        ),
        match=r"\btqdm\b|\brich\.progress\b|\bprogressbar\b",
        place=r"[/\\](tqdm|progressbar)[/\\]|[/\\]rich[/\\]progress",
        rank=4,
        why=(
            "A progress bar reads the clock and writes to the terminal at each turn. The compiler does not "
            "enter it, and because it sits in a loop the whole function runs in eager mode, even with "
            "`disable=True`."
        ),
        action=(
            "Loop without the bar inside the compiled function; put `{expression}` around the outer loop that calls it."
        ),
        before="""\
import torch
from tqdm import tqdm


def f(x, steps):
    for step in tqdm(range(steps), disable=True):
        x = torch.tanh(x + step)
    return x
""",
        after="""\
import torch


def f(x, steps):
    for step in range(steps):
        x = torch.tanh(x + step)
    return x
""",
        inputs="(torch.ones(3), 3)",
        link=graph_break_page("GB0008"),
        requires=("tqdm",),
    ),
)
