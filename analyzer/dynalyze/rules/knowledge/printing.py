"""print() in compiled code."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="print",
        title="Take the print out of the compiled code",
        gb_types=("Failed to trace builtin operator",),
        match=r"builtin (operator )?`?print\b",
        why=(
            "Printing happens in Python, at the moment the line runs, and shows values that only exist "
            "then. A graph cannot hold that, so the compiler stops before the print and starts a second "
            "graph after it."
        ),
        action=("Return what you want to see and call `{expression}` outside the compiled function, or delete it."),
        before="""\
def f(x, weight):
    loss = (x @ weight).square().mean()
    print("loss", loss)
    return loss * 0.5
""",
        after="""\
def f(x, weight):
    loss = (x @ weight).square().mean()
    return loss * 0.5


def training_step(compiled, x, weight):
    loss = compiled(x, weight)
    print("loss", loss)  # outside the compiled function
    return loss
""",
        inputs="(torch.ones(2, 3), torch.ones(3, 2))",
        config="torch._dynamo.config.reorderable_logging_functions.add(print)",
        config_note=(
            "Keeps the print where it is written: its arguments become outputs of the graph and it is "
            "called after the graph has run. The arguments have to be tensors, constants or format strings."
        ),
        link=graph_break_page("GB0059"),
    ),
)
