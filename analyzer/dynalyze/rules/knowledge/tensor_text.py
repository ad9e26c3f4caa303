"""Text made of tensors."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="tensor-text",
        title="Make text of tensors outside the compiled code",
        gb_types=(
            "Failed to trace builtin operator",
            "repr() on tensor",
            "repr() on non-constant list-like",
            "repr() on non-constant dict",
            "torch.* op returned non-Tensor",
            "Attempted to a str() method implemented in C/C++",
            "str_impl not implemented",
            "Unsupported method call",
            "missing sq_concat",
            "Missing richcompare_impl override",
        ),
        match=(
            r"builtin (operator )?`?(str|repr|format|ascii)\b|repr\(\) on|str\(\) method|str_impl|"
            r"example_value type: str|StringFormatVariable|'str' and 'str'"
        ),
        rank=2,
        why=(
            "The text of a tensor shows its values. They are not known while the graph is built, so the "
            "compiler stops and lets Python make the text."
        ),
        action="Return the tensor and make the text in the caller instead of `{expression}`.",
        before="""\
history = []


def f(x):
    loss = x.square().mean()
    history.append("loss " + str(loss))
    return loss * 2
""",
        after="""\
history = []


def f(x):
    loss = x.square().mean()
    return loss * 2


def step(compiled, x):
    result = compiled(x)
    history.append("loss " + str(result / 2))
    return result
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0059"),
    ),
)
