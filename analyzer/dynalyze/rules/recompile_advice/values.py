"""Advice on Python values: arguments, attributes, globals, objects and containers."""

from __future__ import annotations

import ast
import re

from dynalyze.report import Advice, Example
from dynalyze.rules.recompile_advice.source import RECOMPILATION_PAGE, Source, callee, dynamic_sources
from dynalyze.rules.recompile_series import Series

_CONSTANT = "To the compiler a Python value is a constant: it is built into the code, and another one does not fit."

_VARIABLE = re.compile(r"(?<![\w*])(\*{1,2})(\w+)")
_LET_INTEGERS_VARY = "Set `torch._dynamo.config.allow_unspec_int_on_nn_module = True`: that is the way for a size. Or"


def value(series: Series, source: Source) -> Advice:
    """A Python value, by what kind of value it is."""
    if source.text.endswith(".training"):
        return _training(source)
    if source.closed_over_by:
        return _closed_over(source)
    kinds = {_kind(text) for text in (series.lead.expected, series.lead.actual)}
    if kinds == {"int"}:
        return _integer(series, source)
    if "None" in kinds:
        return _none(series, source)
    if kinds <= {"int", "float"}:
        return _float(series, source)
    if kinds <= {"str", "bool"}:
        return _choice(series, source, yes_or_no=kinds == {"bool"})
    return Advice(
        action=f"Keep `{source.shown}` the same from call to call, or compile one function for each of its few values.",
        why=_CONSTANT,
        link=RECOMPILATION_PAGE,
    )


def module_attribute(series: Series, source: Source) -> Advice:
    """An attribute of a module that the program changes."""
    if source.text.endswith(".training"):
        return _training(source)
    name = source.shown
    held = name.rpartition(".")[2]
    if _kind(series.lead.expected) not in ("int", "float"):
        return Advice(
            action=f"Set `{name}` once, before the first call, or keep one module for each of its few values.",
            why=_CONSTANT,
            link=RECOMPILATION_PAGE,
        )
    is_int = _kind(series.lead.expected) == "int"
    how = f"{_LET_INTEGERS_VARY} keep" if is_int else "Keep"
    return Advice(
        action=f"{how} `{name}` as a tensor{', where it only takes part in arithmetic' if is_int else ''}: "
        "register a buffer once, and write new values into it with `fill_`.",
        why=f"{_CONSTANT} For integers of a module torch never tries a dynamic one by itself." if is_int else _CONSTANT,
        example=Example(
            f"{name} = {series.lead.expected}",
            f'self.register_buffer("{held}", torch.tensor({series.lead.expected}))',
        )
        if name == f"self.{held}"
        else None,
        config="torch._dynamo.config.allow_unspec_int_on_nn_module = True" if is_int else "",
        config_note="Then an integer that changed becomes dynamic in the second compile. It has no effect under "
        "dynamic=False."
        if is_int
        else "",
        link=RECOMPILATION_PAGE,
    )


def global_variable(series: Series, source: Source) -> Advice:
    """A global that the program changes."""
    name, call = source.argument, callee(series.lead.location)
    parameter = _parameter(name)
    number = _kind(series.lead.expected) in ("int", "float")
    passed = f"{parameter}=torch.tensor({name})" if number else f"{parameter}={name}"
    return Advice(
        action=f"Hand `{name}` over as an argument of `{call}`{', as a tensor' if number else ''}: a global should not "
        "change between calls.",
        why=f"{_CONSTANT} That holds for a global as well.",
        example=Example(f"{call}(...)", f"{call}(..., {passed})") if source.is_name else None,
        link=RECOMPILATION_PAGE,
    )


def identity(series: Series, source: Source) -> Advice:
    """Another object where one certain object was."""
    name = source.shown.removesuffix(".__code__") or "the object"
    return Advice(
        action=f"Create `{name}` once and pass the same object in every call. If the program needs a few different "
        "ones, compile a function for each.",
        why=(
            "The code of a function that is called is built into the compiled code, so the guard asks for that very "
            "object. A function, class or object made anew for each call never fits."
        ),
        link=RECOMPILATION_PAGE,
    )


def container(series: Series, source: Source) -> Advice:
    """A list of another length, a dictionary with other keys."""
    if parameters := _VARIABLE.findall(_signature(series)):
        for stars, name in parameters:
            if source.text in (name, f"len({name})") or source.text.startswith(f"list(dict.keys({name})"):
                return _by_position(series) if stars == "*" else _by_keyword(series)
    name = source.container
    return Advice(
        action=f"Give `{name}` the same entries in every call: fill what is missing, or stack the tensors of a list "
        "into one whose first dimension may vary.",
        why="The compiled code goes through a container entry by entry, so its length and its keys are built in.",
        link=RECOMPILATION_PAGE,
    )


def _signature(series: Series) -> str:
    """The `def` of the function. Where that goes on below, or is torch's own around a module, what such a one takes."""
    code = series.lead.location.code or ""
    whole = code.lstrip().startswith(("def ", "async def ")) and code.count("(") == code.count(")")
    return code if whole else "def forward(*args, **kwargs):"


def _by_position(series: Series) -> Advice:
    """The same arguments, in one call by position and in another by keyword; or another number of them."""
    counts = (series.lead.expected, series.lead.actual)
    if "0" in counts:
        number = next((count for count in counts if count != "0"), None)
        given = {"1": "one argument", None: "arguments"}.get(number, f"{number} arguments")
        them = "it" if number == "1" else "them"
        action = (
            f"Pass {them} by keyword in both calls, or by position in both: one call of {_called(series)} hands over "
            f"{given} by position, another none."
        )
    else:
        action = f"Hand over the same arguments in the same way in every call of {_called(series)}: {_numbers(counts)}."
    return _one_way(series, action)


def _by_keyword(series: Series) -> Advice:
    """Other keywords, or another number of them."""
    lead = series.lead
    key = (lead.actual or "").partition(" ")[0].strip("'") if " in " in (lead.actual or "") else ""
    told = f": `{key}` in all of them or in none" if key.isidentifier() else ""
    return _one_way(series, f"Pass the same keywords in every call of {_called(series)}{told}.")


def _one_way(series: Series, action: str) -> Advice:
    generates = "/transformers/" in series.lead.location.file.replace("\\", "/")
    also = " `generate` passes keywords of its own: a call beside it stays another program, so warm up both."
    return Advice(
        action=f"{action}{also if generates else ''}",
        why="How many arguments come by position, and which by keyword, is built into the compiled code: the same "
        "values handed over in another way do not fit.",
        link=RECOMPILATION_PAGE,
    )


def _numbers(counts: tuple[str | None, str | None]) -> str:
    return " and ".join(count for count in counts if count is not None) + " came by position" if any(counts) else ""


def _called(series: Series) -> str:
    """What the user calls: `Linear` for its `forward`, however that is wrapped."""
    function = series.lead.location.function
    return f"`{function.rpartition('.')[0] or function}`"


def _integer(series: Series, source: Source) -> Advice:
    name, call = source.argument, callee(series.lead.location)
    config, note = dynamic_sources(source.dynamo_name)
    return Advice(
        action=f"Pass `{name}` as a tensor, `torch.tensor({name})`, where it only takes part in arithmetic. Where it "
        "is a size, compile with `torch.compile(..., dynamic=True)`.",
        why=(
            f"{_CONSTANT} An integer becomes dynamic when it changes, unless dynamic=False forbids it or the code "
            "needs its value: as the length of a loop, an index into a list, or in a comparison. 0 and 1 are always "
            "constants."
        ),
        example=Example(f"{call}({name})", f"{call}(torch.tensor({name}))") if source.is_name else None,
        config=config,
        config_note=note,
        link=RECOMPILATION_PAGE,
    )


def _float(series: Series, source: Source) -> Advice:
    name, call = source.argument, callee(series.lead.location)
    if name.endswith(".item()"):
        tensor = name.removesuffix(".item()")
        return Advice(
            action=f"Compute with the tensor `{tensor}` and leave `.item()` out: then its value may change.",
            why=f"{_CONSTANT} `.item()` makes such a value of a tensor.",
            link=RECOMPILATION_PAGE,
        )
    return Advice(
        action=f"Pass `{name}` as a tensor: `torch.tensor({name})`. Where it has to stay a number, compile without "
        "`dynamic=False`: a float that changed becomes dynamic then.",
        why=_CONSTANT,
        example=Example(f"{call}({name})", f"{call}(torch.tensor({name}))") if source.is_name else None,
        link=RECOMPILATION_PAGE,
    )


def _choice(series: Series, source: Source, *, yes_or_no: bool) -> Advice:
    name, call = source.argument, callee(series.lead.location)
    values = [text for text in dict.fromkeys(series.values) if _kind(text) in ("str", "bool")][:2]
    example = None
    if source.argument.isidentifier() and len(values) > 1:
        functions = [f"{call}_{_suffix(text, name)}" for text in values]
        table = ", ".join(f"{text}: {function}" for text, function in zip(values, functions, strict=True))
        example = Example(f"{call}(x, {name})", f"{call}s = {{{table}}}  # each one compiled\n{call}s[{name}](x)")
    kept = "It compiles twice at most." if yes_or_no else "Keep the set of values small: each one is compiled."
    return Advice(
        action=f"Decide on `{name}` outside: write and compile one function for each of its values. {kept}",
        why=_CONSTANT,
        example=example,
        link=RECOMPILATION_PAGE,
    )


def _none(series: Series, source: Source) -> Advice:
    name = source.argument
    return Advice(
        action=f"Always pass `{name}`: a neutral value, such as a mask of ones, where there was `None`. Or warm up "
        "both cases: they are two programs, compiled once each.",
        why="With `None` the code takes another way, which is compiled by itself.",
        link=RECOMPILATION_PAGE,
    )


def _training(source: Source) -> Advice:
    owner = source.shown.removesuffix(".training")
    return Advice(
        action=f"Call `train()` or `eval()` on `{owner}` once before the calls, not between them. A program that needs "
        "both modes pays for two compiles: do both in the warm-up.",
        why="Dropout, batch normalisation and your own code ask for the mode, so each mode is a program of its own.",
        link=RECOMPILATION_PAGE,
    )


def _closed_over(source: Source) -> Advice:
    name = source.closed_over_by
    return Advice(
        action=f"Make what `{name}` closes over an argument of it, as a tensor where it is a number.",
        why=f"`{name}` is made again and again around another value. {_CONSTANT}",
        link=RECOMPILATION_PAGE,
    )


def _kind(text: str | None) -> str:
    """The type of a Python value, from its text: "int", "str", "None"; "" for an object."""
    try:
        read = ast.literal_eval(text or "")
    except (SyntaxError, ValueError):
        return ""
    return "None" if read is None else type(read).__name__


def _parameter(name: str) -> str:
    """A name for an argument: `scale` for `SETTINGS['scale']`, `gain` for `GAIN`."""
    words = [
        word for word in "".join(c if c.isalnum() or c == "_" else " " for c in name).split() if not word.isdigit()
    ]
    return words[-1].lower() if words else "value"


def _suffix(text: str, name: str) -> str:
    """A word for a value, to be part of a function's name."""
    if text in ("True", "False"):
        return name if text == "True" else f"without_{name}"
    word = "".join(c if c.isalnum() else "_" for c in text.strip("'\"")).strip("_")
    return word[:20] or "empty"
