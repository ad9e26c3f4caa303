"""Classes made while the model runs."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="class-statement",
        title="Define the class at module level",
        gb_types=("Invalid call to __build_class__", "LOAD_BUILD_CLASS bytecode not supported"),
        why=(
            "The `class` statement makes a new type each time the function runs. A graph cannot make types, "
            "and a class defined once would do."
        ),
        action="Move the class out of the function to the top of the file.",
        before="""\
def f(x):
    class Settings:
        scale = 2.0

    return x * Settings.scale
""",
        after="""\
class Settings:
    scale = 2.0


def f(x):
    return x * Settings.scale
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB8977"),
    ),
)
