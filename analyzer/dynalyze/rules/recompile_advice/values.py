"""Advice on Python values: arguments, attributes, globals, objects and containers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from dynalyze.facts.guards import MISSING, PRESENT
from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Example, FailedGuard, Recompile
from dynalyze.rules.recompile_advice.numbers import (
    BOUND,
    CONSTANT,
    counted,
    fraction,
    integer,
    kind_of,
    needed,
    of_bound_method,
)
from dynalyze.rules.recompile_advice.source import Expression, as_written, dynamic_sources
from dynalyze.rules.recompile_advice.state import AS_ONE
from dynalyze.rules.recompile_series import Series, spared_by_dynamic
from dynalyze.text.amounts import listed, whole_number

_DYNAMIC_INTEGERS = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
_DYNAMIC_INTEGERS_NOTE = (
    "With it an integer of a module that changed becomes dynamic in the second compile, which suits a size. It has no "
    "effect under dynamic=False."
)
# Of a group of an optimizer: `['betas'][0]`.
_LAST_KEY = re.compile(r"\['(?P<key>\w+)'\](?:\[\d+\])?$")
_VARIABLE = re.compile(r"(?<![\w*])(\*{1,2})(\w+)")
_CONTAINER = re.compile(r"^(?:len\((?P<name>.+)\)|list\(dict\.keys\((?P<keys>.+)\)\)(?:\[\d+\])?)$")


def value(series: Series, source: Expression) -> Advice:
    """A Python value, by what kind of value it is."""
    if source.text.endswith(".training"):
        return _training(source)
    if is_made_anew(series.lead):
        return _class_made_anew(series, source)
    if source.text == "fn" and "def " not in (series.lead.location.code or ""):
        return Advice(
            "Leave it, and take a call of each in the warm-up: each is compiled once and kept.",
            "Decorated functions and modules of torch's own run in one function of torch's, which is compiled for each "
            "of them. The recompile limit counts them together.",
        )
    if is_class(series.lead):
        return Advice(
            f"Take one call with each class of `{source.argument}` in the warm-up: each is compiled once and kept.",
            "The class of an object decides which code runs.",
        )
    if name := source.closed_over_by:
        return Advice(
            f"Make what `{name}` closes over an argument of it, as a tensor where it is a number.",
            f"`{name}` is made again and again around another value. {CONSTANT}",
        )
    if series.lead.actual == "Tensor object" and kind_of(series.lead.expected) in ("int", "float"):
        return Advice(
            f"Leave it: `{source.shown}` begins as {series.lead.expected} and is a tensor from then on. Where "
            "no gradient flows from call to call, a tensor in its place before the first call spares the compile.",
            "A number and a tensor are two programs, each compiled once. A tensor that has a gradient is a third.",
        )
    kinds = {kind_of(text) for text in (series.lead.expected, series.lead.actual)}
    if kinds <= {"int", "float"} and series.forced_by is not None:
        return needed(series, source)
    if kinds == {"int"}:
        return counted(series, source) if source.text.startswith("self.") else integer(source)
    if "None" in kinds:
        return Advice(
            f"Always pass `{source.argument}`: a neutral value, such as a mask of ones, where there was `None`. Or "
            "warm up both cases: they are two programs, compiled once each.",
            "With `None` the code takes another way, which is compiled by itself.",
        )
    if kinds <= {"int", "float"} and BOUND in source.text:
        return of_bound_method(source)
    if kinds <= {"int", "float"}:
        return fraction(source)
    if kinds <= {"str", "bool"}:
        return _choice(series, source, yes_or_no=kinds == {"bool"})
    return Advice(
        f"Keep `{source.shown}` the same from call to call, or compile one function for each of its few values.",
        CONSTANT,
    )


def module_attribute(series: Series, source: Expression) -> Advice:
    """An attribute of a module that the program changes."""
    if source.text.endswith(".training"):
        return _training(source)
    name, held, first = source.shown, source.shown.rpartition(".")[2], series.lead.expected
    if first in ("None", MISSING):
        made = listed([f"`{each}`" for each in dict.fromkeys([name, *_made_too(series)])])
        return Advice(
            f"Make {made} in the constructor: the first call found nothing there and made it, so its code fits that "
            "call alone.",
            f"{CONSTANT} `None` is one too.",
        )
    if series.differ:
        return _differs_between_modules(name, held, kind_of(first))
    if series.read_at is not None and _grows(series, held):
        return Advice(
            f"{_IN_EAGER}, with the largest input that will come: `{name}` grows with the inputs, and "
            f"{series.read_at.short} asks whether it is large enough.",
            CONSTANT,
        )
    if kind_of(first) not in ("int", "float"):
        once = "Leave it where it changes once: each value is compiled once and kept. Else s"
        return Advice(
            f"{once if series.changes == 1 else 'S'}et `{name}` once, before the first call, or keep one module for "
            "each of its few values.",
            CONSTANT,
        )
    example = Example(f"{name} = {first}", f'self.register_buffer("{held}", torch.tensor({first}))')
    is_own = held.isidentifier() and name == f"self.{held}"
    example_of_own = example if is_own else None
    once = f"{'register a buffer' if is_own else 'make it'} once, and write new values into it with `fill_`."
    if kind_of(first) == "float":
        return Advice(f"Keep `{name}` as a tensor: {once}", CONSTANT, example_of_own)
    return Advice(
        f"Keep `{name}` as a tensor, where it only takes part in arithmetic: {once}",
        f"{CONSTANT} For integers of a module torch never tries a dynamic one by itself.",
        example_of_own,
        _DYNAMIC_INTEGERS,
        _DYNAMIC_INTEGERS_NOTE,
    )


def _made_too(series: Series) -> Iterator[str]:
    """What else of the module the first call made: where `None` was, or no entry of a dictionary."""
    for each in series.lead.also:
        if each.cause == "module_attribute" and each.expected in ("None", MISSING):
            yield as_written(each.source or "")
        elif each.cause == "container" and each.source and " not in " in (each.expected or ""):
            yield as_written(f"{each.source}[{(each.expected or '').partition(' not in ')[0]}]")


_IN_EAGER = (
    "Before the first compiled call, call once in eager what was given to torch.compile, in `eval()` where training "
    "draws random numbers or moves statistics"
)


def comes_and_goes(lead: Recompile) -> bool:
    """Whether an attribute was there in one call and not in another."""
    return {lead.expected, lead.actual} == {MISSING, PRESENT}


def attribute(series: Series, source: Expression) -> Advice:
    """An attribute that code looks for with `hasattr`, as code does that makes it in its first call."""
    lead, line, name = series.lead, series.forced_by, source.shown
    asked = f"{line.short} asks" if line is not None else "The code asks"
    if lead.actual == MISSING:
        return Advice(
            f"Keep `{name}`: {asked} whether it is there, and between two calls it was deleted. Write an empty value "
            "into it that the code knows, or warm up both cases: they are two programs.",
            CONSTANT,
        )
    if lead.cause == "module_attribute" and not lead.library and not (line is not None and library_of(line.file)):
        return module_attribute(series, source)
    return Advice(
        f"{_IN_EAGER}: {asked} whether `{name}` is there, and the first call makes it. Or set it before that call.",
        "The first call is compiled for an object without that attribute, and its code fits that call alone.",
    )


def _grows(series: Series, name: str) -> bool:
    """Whether a number grew with the inputs, by more than a counter does: each was larger than the one before it, or a
    line asks whether it is large enough. What a line adds to is a counter.
    """
    line = series.lead.read_at.code or "" if series.lead.read_at is not None else ""
    if re.search(rf"\b{re.escape(name)} *\+=", line):
        return False
    values = [number for number in map(whole_number, series.values) if number is not None]
    asks = re.compile(rf"[<>]=? *[\w.]*\b{re.escape(name)}\b|\b{re.escape(name)} *[<>]")
    if asks.search(line):
        values = sorted(set(values))
    steps = [b - a for a, b in itertools.pairwise(values)] if len(values) > 2 else []
    return bool(steps) and min(steps) > 0 and max(steps) > 1


def inside_package(series: Series, source: Expression) -> Advice:
    """What a package alone can change, in a call that it makes by itself."""
    lead, name = series.lead, source.shown
    if lead.library and lead.cause in ("value", "module_attribute") and _grows(series, name.rpartition(".")[2]):
        return of_library(series, source)
    was = lead.expected or ""
    made = was in ("None", MISSING, "empty") or " not in " in was
    if made and series.changes == 1 and (name.startswith("self.") or "G['" in lead.guard):
        return Advice(
            f"{_IN_EAGER}: {series.package} makes `{_held(source)}` in its first call.",
            "The code of the first call is compiled for what was there then, and fits that call alone.",
        )
    if spared_by_dynamic(lead):
        return Advice(
            f"Compile with `torch.compile(..., dynamic=True)`, or leave it: {series.package} itself makes this call.",
            CONSTANT if lead.cause == "value" else "The first compile takes every size as fixed.",
        )
    return Advice(
        f"Leave it, and take a call of each kind in the warm-up: {series.package} itself makes this call, and each is "
        "compiled once.",
        CONSTANT if lead.cause in ("value", "module_attribute") else "Each kind is a program of its own.",
    )


def of_library(series: Series, source: Expression) -> Advice:
    """A value that an object of a library holds: neither its class nor its code is the user's to change."""
    name, owner, key = source.shown, series.lead.owner.rpartition(".")[2], _LAST_KEY.search(source.text)
    if name.endswith(".grad"):
        return Advice(
            f"Leave it, and take a call of each kind in the warm-up: `{name}` is `None` in one and a tensor in "
            "another, as before and after a backward. `zero_grad(set_to_none=False)` keeps it a tensor.",
            "With `None` the code takes another way, which is compiled by itself.",
        )
    if series.lead.library != "optimizer" and _grows(series, name.rpartition(".")[2]):
        return Advice(
            f"{_IN_EAGER}, with the largest input that will come: `{name}`, of `{owner}` in {series.lead.library}, "
            "grows with the inputs. Do not set it by hand: it says how much of a tensor of that class is filled.",
            CONSTANT,
        )
    if owner == "Dropout":
        return Advice(
            f"Keep `{name}` to a few values: each is compiled by itself. Where it follows a schedule, drop out in "
            "training with a rate that is a tensor: `x * (torch.rand_like(x) >= p) / (1 - p)`.",
            CONSTANT,
        )
    if series.lead.library != "optimizer":
        varies = "compile with `torch.compile(..., dynamic=True)`, or " if spared_by_dynamic(series.lead) else ""
        return Advice(
            f"Where `{name}` has few values, warm up each; else {varies}set it once before the first call, by a setter "
            f"of `{owner}` in {series.lead.library} where that writes into a tensor.",
            CONSTANT,
        )
    what = key["key"] if key else ""
    if what == "lr":
        return Advice(
            f"Give `{owner}` its learning rate as a tensor, `lr=torch.tensor(lr)`: a scheduler writes into that. "
            "`foreach=True` beside it needs `capturable=True`.",
            f"{CONSTANT} That holds for what an optimizer keeps in `param_groups`.",
            Example(f"{owner}(parameters, lr=lr)", f"{owner}(parameters, lr=torch.tensor(lr))"),
        )
    if what in ("betas", "momentum"):
        return Advice(
            f"Keep `{what}` of `{owner}` as it is: give the scheduler that moves it, OneCycleLR or CyclicLR, "
            f"`cycle_momentum=False`. `{what}` cannot be a tensor that changes.",
            f"{CONSTANT} That holds for what an optimizer keeps in `param_groups`.",
        )
    # One that a step counts up.
    varies = source.dynamo_name if kind_of(series.lead.expected) == "int" else ""
    held = f"`{what or name}` of `{owner}`"
    return Advice(
        f"Where you set {held} yourself, set it once; where the optimizer does, leave its `step` in eager: "
        "`torch.compiler.disable`.",
        f"{CONSTANT} That holds for what an optimizer keeps in `param_groups`.",
        None,
        *dynamic_sources(varies),
    )


def _differs_between_modules(name: str, held: str, kind: str) -> Advice:
    """Modules of one class with other values: nothing changes between calls."""
    if kind not in ("int", "float"):
        return Advice(
            f"Nothing changes between calls: each value of `{name}` is compiled once. {AS_ONE}",
            f"Modules of one class share their compiled code. {CONSTANT}",
        )
    if kind == "int":
        return Advice(
            f"Nothing changes between calls: each value of `{name}` is compiled once. {AS_ONE}",
            f"Modules of one class share their compiled code. {CONSTANT}",
            None,
            _DYNAMIC_INTEGERS,
            _DYNAMIC_INTEGERS_NOTE,
        )
    buffer = f'self.register_buffer("{held}", torch.tensor({held}))'
    return Advice(
        f"Keep `{name}` as a tensor, where it only takes part in arithmetic: `{buffer}`. {AS_ONE}",
        f"Modules of one class share their compiled code. {CONSTANT}",
        Example(f"self.{held} = {held}", buffer) if name == f"self.{held}" else None,
    )


def global_variable(series: Series, source: Expression) -> Advice:
    """A global that the program changes."""
    name, call, kind = source.argument, source.call, kind_of(series.lead.expected)
    if series.lead.expected == "None" and (package := library_of(series.lead.location.file)):
        return Advice(f"{_IN_EAGER}: {package} sets `{name}` when it first needs it.", f"{CONSTANT} So is a global.")
    if kind == "int" and source.dynamo_name:
        return Advice(
            f"Keep `{name}` as a tensor, where it only takes part in arithmetic: "
            f"`torch.tensor({series.lead.expected})`. Where a line needs the number itself, as the length of a loop, "
            "warm up its few values.",
            f"{CONSTANT} That holds for a global as well, and for integers of globals torch never tries a dynamic one "
            "by itself, with `dynamic=True` neither.",
            None,
            *dynamic_sources(source.dynamo_name),
        )
    if kind in ("str", "bool"):
        return Advice(
            f"Take one call with each value of `{name}` in the warm-up, or set it once: each is compiled once and "
            "kept.",
            f"{CONSTANT} That holds for a global as well, and as an argument it would be the same.",
        )
    # A name for an argument: `scale` for `SETTINGS['scale']`, `gain` for `GAIN`.
    words = [word for word in re.sub(r"[^\w]", " ", name).split() if not word.isdigit()]
    parameter = words[-1].lower() if words else "value"
    passed = f"{parameter}=torch.tensor({name})" if kind == "float" else f"{parameter}={name}"
    return Advice(
        f"Hand `{name}` over as an argument of `{call}`{', as a tensor' if kind == 'float' else ''}: a global should "
        "not change between calls.",
        f"{CONSTANT} That holds for a global as well.",
        Example(f"{call}(...)", f"{call}(..., {passed})") if source.is_name else None,
    )


def identity(series: Series, source: Expression) -> Advice:
    """Another object where one certain object was."""
    name, kind = source.shown.removesuffix(".__code__") or "the object", (series.lead.expected or "").rpartition(".")[0]
    # `Mode.A` of a class `Mode` is a member of an enumeration, which is made once in any case.
    if kind and re.search(rf"type=<class '(?:[\w.]+\.)?{re.escape(kind)}'>", series.lead.guard):
        return Advice(
            f"Take one call with each `{kind}` that comes in the warm-up: each is compiled once and kept.",
            "The object itself is built into the compiled code.",
        )
    return Advice(
        f"Create `{name}` once and pass the same object in every call. If the program needs a few different "
        "ones, compile a function for each.",
        "The code of a function that is called is built into the compiled code, so the guard asks for that very "
        "object. A function, class or object made anew for each call never fits.",
    )


def container(series: Series, source: Expression) -> Advice:
    """A list of another length, a dictionary with other keys."""
    # The `def` of the function. Where that goes on below, or is torch's own around a module, what such a one takes.
    code = series.lead.location.code or ""
    whole = code.lstrip().startswith(("def ", "async def ")) and code.count("(") == code.count(")")
    for stars, name in _VARIABLE.findall(code if whole else "def forward(*args, **kwargs):"):
        if source.text in (name, f"len({name})") or source.text.startswith(f"list(dict.keys({name})"):
            return _arguments(series, by_position=stars == "*")
    whose = "a global, and the first call fills it" if "G['" in series.lead.guard else "filled by the first call"
    held, was = _held(source), series.lead.expected or ""
    filled = Advice(
        f"{_IN_EAGER}: `{held}` is {whose}.",
        "The number of its entries and its keys are built into the compiled code, so the code of the first call fits "
        "that call alone.",
    )
    once = series.changes == 1 and _grew(series.lead)
    if once and ("G['" in series.lead.guard or (source.text.startswith("self.") and " not in " in was)):
        return filled
    if series.lead.library == "optimizer":
        return Advice(
            "Expected: the first step makes what the optimizer remembers of each parameter, so it is "
            "another program than those after it. Take two steps in the warm-up.",
            "The compiled code goes through a container entry by entry, so its length and its keys are built in.",
        )
    if series.lead.result_of is not None:
        return Advice(
            f"Compute `{held}` before the call and pass it in as one tensor, or have it give as many in every call: "
            f"it runs at the graph break at {series.lead.result_of.short}, and what follows takes each of them for "
            "an argument.",
            "How many there are is built into the compiled code, so each number is compiled by itself.",
        )
    line = series.lead.read_at
    adds = rf"\b{re.escape(held.rpartition('.')[2])}\.(?:append|appendleft|extend|insert)\("
    if line is not None and _grew(series.lead) and re.search(adds, line.code or ""):
        return Advice(
            f"Return what {line.short} adds to `{held}`, and add it there after the compiled call.",
            "The list is longer in each call, and its length is built into the compiled code.",
            Example("self.history.append(loss)\nreturn loss", "return loss  # the caller appends it"),
        )
    if series.changes > 1 and _grew(series.lead) and all(each.isdecimal() for each in series.values):
        return Advice(
            f"Add to `{held}` after the compiled call: it is longer in each one.",
            "The length of a list is built into the compiled code.",
        )
    if once and was == "empty" and source.text.startswith("self."):  # A list that is added to has its line, as a rule.
        return filled
    if held in series.of_texts:
        return _of_texts(held)
    return Advice(
        f"Give `{held}` the same entries in every call: fill what is missing, or stack the tensors of a list into one "
        "whose first dimension may vary; go through what are no tensors before the call. Where only a few sets of "
        "entries come, warm up each of them.",
        "The compiled code goes through a container entry by entry, so its length and its keys are built in.",
    )


def _held(source: Expression) -> str:
    """The container behind `len(parts)` or `list(dict.keys(options))[0]`."""
    found = _CONTAINER.match(source.shown)
    return (found["name"] or found["keys"]) if found else source.shown


def _grew(lead: Recompile) -> bool:
    """Whether a container has more in it than the code was compiled for."""
    before, after = whole_number(lead.expected), whole_number(lead.actual)
    if before is not None and after is not None:
        return before < after
    return lead.expected == "empty" or " not in " in (lead.expected or "")


def _arguments(series: Series, *, by_position: bool) -> Advice:
    """The same arguments, in one call by position and in another by keyword; or another number of either."""
    lead = series.lead
    # What the user calls: `Linear` for its `forward`, however that is wrapped.
    called = f"`{lead.location.function.rpartition('.')[0] or lead.location.function}`"
    if by_position:
        action = f"Pass the same arguments in every call of {called} by position, and the same by keyword."
    else:
        key = (lead.actual or "").partition(" ")[0].strip("'") if " in " in (lead.actual or "") else ""
        which = f": `{key}` in all of them or in none" if key.isidentifier() else ""
        action = f"Pass the same keywords in every call of {called}{which}."
    if "/transformers/" in lead.location.file.replace("\\", "/"):
        action += " `generate` passes keywords of its own: a call beside it stays another program, so warm up both."
    return Advice(
        action,
        "How many arguments come by position, and which by keyword, is built into the compiled code: the same "
        "values handed over in another way do not fit.",
    )


def is_left_over(series: Series, source: Expression) -> bool:
    """Whether it is a value on Python's stack where a graph broke, which no caller can hand over in another way.

    A size follows from one that the caller does hand over, unless a line made a constant of it.
    """
    lead = series.lead
    known = lead.result_of is not None or "___stack" in source.text
    return known and (
        lead.cause in ("value", "stride", "symbolic", "identity", "other")
        or (lead.cause == "shape" and lead.forced_by is not None)
    )


def left_over(series: Series, source: Expression) -> Advice:
    """What a graph break leaves behind: it ends with the break."""
    place, at = series.lead.result_of, series.lead.location
    made = f"`{source.shown}`" if "___" not in source.shown else "It"
    where = f"at {place.short}" if place is not None else f"before {at.short}"
    kept = " Kept in a tensor, the value may change; a size cannot be kept so." if series.lead.cause == "value" else ""
    return Advice(
        f"End the graph break {where}; this recompile ends with it. {made} is what the break leaves behind, "
        f"and the code after it is compiled for that{' value' if series.lead.cause == 'value' else ''}.{kept}",
        CONSTANT if series.lead.cause == "value" else "What follows a graph break takes its results for arguments.",
    )


def is_made_anew(lead: Recompile) -> bool:
    """Whether an object came whose class has the name of the one before it, and is another class."""
    same_name = lead.actual == f"{(lead.expected or '').rpartition('.')[2]} object"
    return same_name and lead.guard.startswith("___check_type_id(")


def _class_made_anew(series: Series, source: Expression) -> Advice:
    name = source.argument
    return Advice(
        f"Hand over `{name}` as an object of one and the same class: every `{series.lead.expected}` that came here is "
        "of a class of its own, made anew under that name. Where a library patches a module to put other weights into "
        "it, make these an argument of the compiled function, and call the module as it was: "
        "`torch.func.functional_call(module, weights, (x,))`.",
        "Compiled code fits one class, by its identity and not by its name, so no call after it can use what was "
        "compiled before.",
    )


def is_class(found: Recompile | FailedGuard) -> bool:
    """Whether an object of another class came."""
    return found.guard.startswith("___check_type_id(") and (found.actual or "").endswith(" object")


def of_other_class(lead: Recompile) -> bool:
    """Whether the module whose code this is has another class or other parts, whatever else changed with it."""
    failed: list[Recompile | FailedGuard] = [lead, *lead.also]
    parts = (each.cause == "container" and (each.source or "").endswith("._modules") for each in failed)
    return any(parts) or any(is_class(each) and each.source == "self" for each in failed)


def classes(series: Series, source: Expression) -> Advice:
    """Modules that are made differently and run code which they share, or that a graph break cut off from them."""
    return Advice(
        f"Nothing changes between calls: modules of several kinds run this code, and each is compiled once. {AS_ONE}",
        "Compiled code fits modules of one class, with the same parts.",
    )


def of_entries(series: Series, source: Expression) -> Advice:
    """A value of each entry of a list, as the flags of the samples of a batch."""
    each = as_written(series.entries)
    return Advice(
        f"Make one tensor of `{each}` before the call, `torch.tensor([...])`, and pass that in the place of the list: "
        "every combination of these values is compiled by itself.",
        "A Python value in a list is built into the compiled code, one guard for each entry.",
    )


_FEW_TEXTS = 3


def _choice(series: Series, source: Expression, *, yes_or_no: bool) -> Advice:
    name, call = source.argument, source.call
    values = [text for text in dict.fromkeys(series.values) if kind_of(text) in ("str", "bool")]
    if len(values) > _FEW_TEXTS and len(values) > series.changes:
        return _of_texts(name)
    values, example = values[:2], None
    if name.isidentifier() and len(values) > 1:
        table = ", ".join(f"{text}: {call}_{_suffix(text, name)}" for text in values)
        example = Example(f"{call}(x, {name})", f"{call}s = {{{table}}}  # each one compiled\n{call}s[{name}](x)")
    kept = "It compiles twice at most." if yes_or_no else "Keep the set of values small: each one is compiled."
    return Advice(
        f"Decide on `{name}` outside: write and compile one function for each of its values. {kept}", CONSTANT, example
    )


def _of_texts(name: str) -> Advice:
    """Texts that are data: each call brings others."""
    return Advice(
        f"Turn `{name}` into numbers before the call, the ids or hashes that the code makes of a text, and pass them "
        "as a tensor: every text is compiled by itself.",
        f"{CONSTANT} So is a text.",
    )


def _training(source: Expression) -> Advice:
    owner = source.shown.removesuffix(".training")
    return Advice(
        f"Call `train()` or `eval()` on `{owner}` once before the calls, not between them. A program that needs "
        "both modes pays for two compiles: do both in the warm-up.",
        "Dropout, batch normalisation and your own code ask for the mode, so each mode is a program of its own.",
    )


def _suffix(text: str, name: str) -> str:
    """A word for a value, to be part of a function's name."""
    if text in ("True", "False"):
        return name if text == "True" else f"without_{name}"
    word = "".join(c if c.isalnum() else "_" for c in text.strip("'\"")).strip("_")
    return word[:20] or "empty"
