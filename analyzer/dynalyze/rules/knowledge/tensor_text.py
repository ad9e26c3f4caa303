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
            r"builtin (str|repr|format|ascii) \[[^\n]*Tensor|repr\(\) on|str\(\) method|str_impl|"
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
    Recipe(
        id="number-text",
        title="Make text of changing numbers outside the compiled code",
        gb_types=("Failed to trace builtin operator", "BUILD_STRING type error"),
        match=r"builtin (str|repr|format|ascii) \[[^\n]*SymNode|(?m:^)SymNodeVariable\(\)$",
        rank=3,
        why=(
            "A size or an integer that changed between calls is dynamic from then on: the graph is for all its values, "
            "and text can only be made of one. The compiler stops and lets Python make the text."
        ),
        action=(
            "Pass the text instead of making `{expression}` inside, or use the number itself where it is a key, or "
            "compile "
            "with `dynamic=False`, once for each number."
        ),
        before="""\
scales = {"level2": 0.5, "level3": 0.25}


def f(x, level):
    return x * scales["level" + str(level)]
""",
        after="""\
scales = {("level", 2): 0.5, ("level", 3): 0.25}


def f(x, level):
    return x * scales["level", level]
""",
        inputs="(torch.ones(3), 3)",
        link=graph_break_page("GB0059"),
    ),
)
