"""copy.deepcopy in compiled code."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="deepcopy",
        title="Clone the tensor instead of deep-copying it",
        gb_types=("Attempted to copy.deepcopy a tensor", "copy.deepcopy()"),
        why=(
            "`copy.deepcopy` copies Python objects with all that hangs on them, and the compiler has no "
            "rule for doing that to a tensor."
        ),
        action=(
            "Use `.clone()` (or `.detach().clone()`) in place of `{expression}`; copy modules outside the "
            "compiled code."
        ),
        before="""\
import copy


def f(x):
    kept = copy.deepcopy(x)
    x = x * 2
    return x - kept
""",
        after="""\
def f(x):
    kept = x.clone()
    x = x * 2
    return x - kept
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB4198"),
    ),
)
