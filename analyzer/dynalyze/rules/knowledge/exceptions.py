"""Exceptions that leave the compiled function."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="raised-exception",
        title="Find out why the code raises",
        gb_types=("Observed exception", "Observed exception (EXCEPT_HANDLER)", "TypeError from user code"),
        why=(
            "While the compiler followed the code, an exception was raised and nothing in the function "
            "caught it. Either the program raises here by itself, or it met something that the compiler "
            "imitates incompletely."
        ),
        action=(
            "Run the function without `torch.compile`: if it raises too, fix that; if not, take "
            "`{expression}` out of the compiled function."
        ),
        before="""\
def f(x):
    label = f"{x.mean():8.2f}"
    return x * len(label)
""",
        after="""\
WIDTH = 8  # the format always gives that many characters


def f(x):
    return x * WIDTH
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0088"),
    ),
)
