"""Advice on the sizes and strides of tensors: which of them may vary, how to say so, and what makes one constant."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from dynalyze.facts.guards import SIZE
from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Example, Location, Recompile
from dynalyze.rules.recompile_advice.fixed_sizes import BUCKETS, asks_about, fixed_by, needs_number
from dynalyze.rules.recompile_advice.source import (
    DYNAMIC_PAGE,
    Expression,
    as_written,
    clipped,
    dynamic_sources,
    handed_over,
    plain_expression,
    read_source,
)
from dynalyze.rules.recompile_series import Series, is_zero_or_one
from dynalyze.text.amounts import listed

_AUTOMATIC = (
    "The first compile takes every size as fixed. Unless dynamic=False forbids it, torch makes a size that changed "
    "dynamic in the second compile; marked before the first call, there is no second one."
)
OR_DYNAMIC = "; or compile with `torch.compile(..., dynamic=True)`"
_ZERO_OR_ONE = "Sizes 0 and 1 always get code of their own, because a size of 1 broadcasts and one of 0 is empty."
_OFFSET = ".storage_offset()"
_MOST_NAMED = 3
_MOST_TENSORS = 5
_PARAMETER = re.compile(r"args\[\d+\]|[^.\[]*")
_STRIDE = re.compile(r"(?P<name>.+)\.stride\(\)\[\d+\]")


def shape(series: Series, source: Expression) -> Advice:
    """A size that the first compile took for fixed; first, where it cannot vary or should not."""
    if any(source.text.startswith(f"{name}.size()") for name in series.replaced):
        return _made_anew(series.replaced)
    if series.forced_by is not None:
        fixed = fixed_by(source, series.forced_by, dynamic=series.was_dynamic)
        return _met_first(series, series.forced_by) or fixed
    if series.asked is not None:
        return _asked(series, source, series.asked)
    if source.is_cache:
        return _static_cache()
    values = set(series.values)
    if source.is_parameter and series.changes == 1:  # The setting makes a size vary once it has changed.
        return Advice(
            f"Leave it: modules whose `{source.argument}` differs in size run this code, and each size is compiled "
            "once. Take a call of each in the warm-up.",
            "Modules of one class share their compiled code, and sizes of parameters are taken as fixed.",
            link=DYNAMIC_PAGE,
        )
    if source.is_parameter:
        return Advice(
            f"Take a call of each in the warm-up: modules whose `{source.argument}` differs in size run this code, and "
            "each size is compiled once.",
            "Modules of one class share their compiled code, and sizes of parameters are taken as fixed.",
            config="torch._dynamo.config.force_parameter_static_shapes = False",
            config_note="With it sizes of parameters vary, and one code has room for all: it can be slower than code "
            "for the size that a weight has.",
            link=DYNAMIC_PAGE,
        )
    if series.replaced:
        return _made_anew(series.replaced)
    if series.counted:
        return _of_list(series, source)
    sizes = _as_passed(changed_together(series), series)
    if series.lead.last_batch_of and series.changes == 1 and source.dimension == 0:
        return _last_batch(series, source, sizes.marks())
    small = {"0", "1"} & values
    # No other size came: a dynamic one would not fit either.
    if small and len(values) == 2 and source.dimension is not None:
        return _zero_or_one(sizes, source, min(small))
    return _let_vary(series, source, sizes)


def _let_vary(series: Series, source: Expression, sizes: Sizes) -> Advice:
    """How to make sizes dynamic before the first call, by who can mark them."""
    dimension, marks = source.dimension, sizes.marks()
    computed = dimension is None or series.lead.result_of is not None or (series.resumes and not series.whole_call)
    unnamed = source.is_numbered or not (marks or computed or series.apart)
    if unnamed and not series.resumes and not sizes.of_caller:
        return Advice(
            f"Compile with `torch.compile(..., dynamic=True)`; or give what is passed there a name, and mark "
            f"dimension {dimension} of it as dynamic before the call.",
            f"{_AUTOMATIC} {BUCKETS}",
            None,
            *dynamic_sources(",".join(sizes.dynamo_names)),
            link=DYNAMIC_PAGE,
        )
    if kept := [name for name in changed_together(series).dimensions if name.rpartition("[")[0] in series.filled]:
        return Advice(
            f"Compile with `torch.compile(..., dynamic=True)`: {listed([f'`{name}`' for name in kept])} "
            f"{'is' if len(kept) == 1 else 'are'} filled by the calls themselves: nothing is there to mark before the "
            "first one.",
            f"{_AUTOMATIC} {BUCKETS}",
            Example(f"torch.compile({source.call})", f"torch.compile({source.call}, dynamic=True)"),
            *dynamic_sources(",".join(sizes.dynamo_names)),
            link=DYNAMIC_PAGE,
        )
    if computed or series.apart or not marks:
        # What is to be done about a break that leaves the caller in eager stands before this. A line there, which
        # torch tries to trace, can mark nothing.
        other = ", or remove the graph break before this code and mark the input that the size comes from"
        if series.apart:
            other = f". Where `{source.argument}` is an input of the whole, mark it before the first call instead"
        size = f"`{source.shown}`" if source.shown else "The size"
        return Advice(
            f"Compile with `torch.compile(..., dynamic=True)`{other}.",
            f"{size} is computed inside the program, so the caller cannot mark it. {BUCKETS}"
            if computed
            else f"Who calls this function is not compiled with it, and a line there can mark nothing. {BUCKETS}",
            link=DYNAMIC_PAGE,
        )
    if package := library_of(series.first_call.file) if series.first_call is not None else "":
        return Advice(
            "Compile with `dynamic=True`, whatever compiles it: `torch.compile(..., dynamic=True)`, "
            "`model.compile(dynamic=True)`, `compile_repeated_blocks(dynamic=True)`.",
            f"{package} itself calls this function, so that the program cannot mark what it gets. {BUCKETS}",
            None,
            *dynamic_sources(",".join(sizes.dynamo_names)),
            link=DYNAMIC_PAGE,
        )
    if series.parts > 1:
        return _several_parts(series, source, marks)
    if sizes.numbers:
        return _with_numbers(sizes, source)
    return _mark(series, source, sizes)


def _mark(series: Series, source: Expression, sizes: Sizes) -> Advice:
    """The statements for the program, and where they stand."""
    marks, small = sizes.marks(), {"0", "1"} & set(series.values)
    call = f"{source.call}({', '.join(sizes.arguments)})"
    alone = " (one alone changes nothing where the others have to be as long)" if len(sizes.dynamo_names) > 1 else ""
    called = series.whole_call
    at = f", {called.short}" if called is not None else ""
    breaks = listed([f"{each.id} ({each.location.short})" for each in series.broke])
    naming = [f"{name} = {given}" for name, given in sizes.unnamed.items()]
    named = _quoted([clipped(each) for each in naming])
    mark = f"Name what is passed, {named}, and hand that over; then mark" if naming else "Mark"
    other = called is not None and called.code and not sizes.of_caller
    name = " (by the name that the call there has for it)" if other else ""
    first = f" Before that, end {breaks}: a dynamic size brings that about, marked in the first call." if breaks else ""
    others = [each.short for each in series.callers if called is not None and each.at != called.at]
    too = f" Mark what is passed at {listed(others, _MOST_NAMED)} too, where its sizes vary." if others else ""
    return Advice(
        f"{mark} {sizes.named}{name} as dynamic before the first call{at}: {_quoted(marks)}{alone}{OR_DYNAMIC}.{too}"
        f"{first}",
        f"{_AUTOMATIC} {_ZERO_OR_ONE if small else BUCKETS}",
        Example(call, "\n".join([*naming, *marks, call])),
        *dynamic_sources(",".join(sizes.dynamo_names)),
        link=DYNAMIC_PAGE,
    )


def _as_passed(sizes: Sizes, series: Series) -> Sizes:
    """The sizes by what the first call hands over, where that tells it for all of them."""
    line = series.first_call.code or "" if series.first_call is not None else ""
    dimensions: dict[str, list[int]] = {}
    unnamed: dict[str, str] = {}
    for name, at in sizes.dimensions.items():
        parameter = _PARAMETER.findall(name)[0]
        passed, expression = handed_over(parameter, series.lead.location, line)
        if not passed:
            return sizes
        if expression:
            unnamed[passed] = expression
        passed += name.removeprefix(parameter)
        dimensions[passed] = sorted({*dimensions.get(passed, ()), *at})
    complete = all(map(plain_expression, dimensions))
    return sizes._replace(dimensions=dimensions, unnamed=unnamed, of_caller=True, complete=complete)


def _met_first(series: Series, line: Location) -> Advice | None:
    """The size met that of an input that came for the first time; None where the line asks something about it."""
    sizes = changed_together(series)
    for name, dimension in series.met:
        at = sizes.dimensions.setdefault(name, [])
        at[:] = sorted({*at, dimension})
    if not series.met or not sizes.marks() or asks_about(line):
        return None
    names = listed([f"`{name}`" for name in dict(series.met)])
    way = f"Mark {sizes.named} as dynamic before the first call that has them: {_quoted(sizes.marks())}{OR_DYNAMIC}."
    if series.parts > 1:  # A mark reaches only the part before the first break.
        way = "Compile with `torch.compile(..., dynamic=True)`."
    return Advice(
        way,
        f"{names} came for the first time, and torch takes such a size as fixed. At {line.short} the size that "
        f"had become dynamic meets it, and is as fixed from there on. {BUCKETS}",
        link=DYNAMIC_PAGE,
    )


def _made_anew(names: list[str]) -> Advice:
    """A table that follows the size of the input is as much of a constant as the size that it was made for."""
    shown = list(dict.fromkeys(f"`{as_written(name)}`" for name in names))
    held = listed(shown, _MOST_NAMED)
    return Advice(
        f"Make {held} once, in the constructor, as large as {'it gets' if len(shown) == 1 else 'they get'}, and take "
        "the part that a call needs: `table[:n]`. A size of the input that changed becomes dynamic then. If it is a "
        "state carried from call to call, and no table, keep its size: pad, or drop a smaller last batch.",
        f"The module makes {held} anew for another size. A tensor that a module holds cannot be marked by the caller; "
        "marked dynamic, a size that is compared with it would raise an error.",
        link=DYNAMIC_PAGE,
    )


class Sizes(NamedTuple):
    """The dimensions that changed in one call, by tensor, each as the caller writes it and as Dynamo names it; and the
    whole numbers that did. `complete`: the caller can write all of them down; `of_caller`: with its names, of which
    `unnamed` are those that it has to give to what it passes, with that.
    """

    dimensions: dict[str, list[int]]
    dynamo_names: list[str]
    numbers: list[str]
    complete: bool
    unnamed: Mapping[str, str] = MappingProxyType({})
    of_caller: bool = False

    @property
    def arguments(self) -> list[str]:
        """What the caller hands over: `batch` for `batch['ids']`."""
        return list(dict.fromkeys(re.split(r"[.\[]", name)[0] for name in self.dimensions))

    @property
    def named(self) -> str:
        """ "dimension 1 of `ids` and dimensions 1 and 2 of `mask`"; the setting and the marks name all of many."""
        each = (
            f"dimension{'s' if len(at) > 1 else ''} {listed([str(number) for number in at])} of `{name}`"
            for name, at in self.dimensions.items()
        )
        return listed(list(each), _MOST_TENSORS)

    def marks(self) -> list[str]:
        """The statements that mark them, ready to paste; empty where not all can be written. Where a line makes a
        constant of one that nothing here told of, `mark_dynamic` would raise an error.
        """
        if not self.complete:
            return []
        return [
            f"torch._dynamo.maybe_mark_dynamic({name}, {at[0] if len(at) == 1 else tuple(at)})"
            for name, at in self.dimensions.items()
        ]


def changed_together(series: Series) -> Sizes:
    """All sizes that changed with that of the lead: a size that several inputs share, or follows from another's."""
    dimensions: dict[str, list[int]] = {}
    names: dict[str, None] = {}
    numbers: dict[str, None] = {}
    complete = True
    members = [each for each in series.members if each.location == series.lead.location]
    for recompile in [one for member in members for one in (member, *_others(member))]:
        source = read_source(recompile)
        if recompile.cause not in ("shape", "symbolic"):
            if recompile.cause == "value" and is_whole(recompile.expected) and is_whole(recompile.actual):
                numbers.setdefault(source.argument)
                names.setdefault(source.dynamo_name)
            continue
        if source.is_parameter or source.dimension is None or recompile.source in series.fixed:
            continue
        if source.argument.endswith("._base") and dimensions:  # What an input is a view of: nobody hands it over.
            continue
        complete &= source.is_name
        at = dimensions.setdefault(source.argument, [])
        if source.dimension not in at:
            at.append(source.dimension)
            at.sort()
        names.setdefault(source.dynamo_name)
    return Sizes(dimensions, [name for name in names if name], list(numbers), complete)


def _others(member: Recompile) -> list[Recompile]:
    """What failed beside it, each as a recompile of its own."""
    return [
        msgspec.structs.replace(
            member, cause=each.cause, source=each.source, guard=each.guard, expected=each.expected, actual=each.actual
        )
        for each in member.also
    ]


def is_whole(text: str | None) -> bool:
    return text is not None and text.lstrip("-").isdecimal()


def _quoted(statements: list[str]) -> str:
    return listed([f"`{each}`" for each in statements])


def _with_numbers(sizes: Sizes, source: Expression) -> Advice:
    """A number has no mark: a tensor that has to be as long would become a constant with it."""
    numbers = listed([f"`{name}`" for name in sizes.numbers])
    return Advice(
        f"Compile with `torch.compile(..., dynamic=True)`: {numbers} changed together with {sizes.named}, and a number "
        "cannot be marked.",
        f"{_AUTOMATIC} {BUCKETS}",
        Example(f"torch.compile({source.call})", f"torch.compile({source.call}, dynamic=True)"),
        *dynamic_sources(",".join(sizes.dynamo_names)),
        link=DYNAMIC_PAGE,
    )


def symbolic(series: Series, source: Expression) -> Advice:
    """A size that is dynamic already, and a condition on it that did not hold."""
    if stride_of := _STRIDE.fullmatch(source.text):
        # `contiguous()` leaves a view of a single row as it is.
        copied = f"{stride_of['name']}.clone(memory_format=torch.contiguous_format)"
        return Advice(
            f"Pass a copy with a layout of its own, `{copied}`: it is a slice of a larger tensor in one call, and "
            "whole in another.",
            "How far apart the rows of a tensor lie is a number that the compiler guards as it guards sizes, also "
            "where there is only one row.",
            _copied(source, stride_of["name"], copied),
        )
    if source.text.endswith(_OFFSET):
        name = source.text.removesuffix(_OFFSET)
        return Advice(
            f"Pass a copy, `{name}.clone()`: it is a slice of a larger tensor that begins at 0 in one call and "
            "further on in another, and each of the two is compiled.",
            "Where a slice begins in its storage is a number that the compiler guards as it guards sizes: 0 is another "
            "program than a place that varies. A copy begins at 0 always.",
            _copied(source, name, f"{name}.clone()"),
        )
    if source.dimension is not None and is_zero_or_one(series.lead):
        return _zero_or_one(changed_together(series), source, str(series.lead.actual))
    if series.replaced:
        return _made_anew(series.replaced)
    if series.forced_by is None and (other := equal_size(series.lead)):
        return _taken_for_one(source, other)
    return _asked(series, source, series.forced_by)


def equal_size(lead: Recompile) -> str:
    """The size that a size has to be as long as; "" where another condition did not hold."""
    sizes = lead.source or "", lead.expected or ""
    return as_written(sizes[1]) if lead.cause == "symbolic" and all(map(SIZE.fullmatch, sizes)) else ""


def _taken_for_one(source: Expression, other: str) -> Advice:
    """Sizes that are equal in the call that is compiled get one symbol, unless they are marked (torch calls it duck
    shaping); no line has to ask.
    """
    mark = f"torch._dynamo.maybe_mark_dynamic({source.argument}, {source.dimension})"
    marked = f", or write `{mark}` before it" if source.is_name else ""
    return Advice(
        f"Make the first call with inputs in which `{source.shown}` and `{other}` differ{marked}: they were equally "
        "long in the call that was compiled, and torch took them for one size.",
        "Of sizes that may vary, those that are equal are one to the compiler, unless they are marked. Where the code "
        "itself asks whether they are equal, its two answers are two programs, each compiled once.",
        Example(f"{source.call}({source.argument})", f"{mark}\n{source.call}({source.argument})") if marked else None,
        *dynamic_sources(source.dynamo_name),
        link=DYNAMIC_PAGE,
    )


def _asked(series: Series, source: Expression, line: Location | None) -> Advice:
    """A line whose question about a size has another answer for the next one, or for any other."""
    if line is not None and (series.one_value or needs_number(line)):
        return fixed_by(source, line)
    limits = clipped(as_written(series.lead.expected or series.lead.guard))
    if re.search("[<>]", limits) and (line is None or library_of(line.file) == "torch"):
        return _chosen_by_torch(limits, line)
    condition = f"`{source.shown}`" if source.shown else "a size"
    at = f" at {line.short}" if line is not None else ""
    action = f"Move the decision on {condition}{at} out of the compiled function, or pad so that it always falls the"
    if line is not None and (package := library_of(line.file)):
        action = f"Pad so that the decision on {condition}{at}, in {package}, always falls the"
    return Advice(
        f"{action} same way.",
        "The size is dynamic, but the code asks something about it: an `if`, a modulo, a reshape that must divide. "
        f"The compiled code holds for one answer only. {BUCKETS}",
        link=DYNAMIC_PAGE,
    )


def _chosen_by_torch(limits: str, line: Location | None) -> Advice:
    """Limits of a size that no line of the program is known to ask for: torch may take other code beyond them."""
    asks = (
        "torch may choose by it, as for a convolution on a CPU; where a line of yours asks it, move that out of the "
        "compiled function."
    )
    if line is not None:
        asks = f"torch chooses by it at {line.short}."
    return Advice(
        f"Take a call on each side of `{limits}` in the warm-up, each is compiled once: {asks}",
        f"The compiled code holds for sizes within these limits. {BUCKETS}",
        link=DYNAMIC_PAGE,
    )


def _copied(source: Expression, name: str, copied: str) -> Example | None:
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return Example(f"{source.call}({name})", f"{source.call}({copied})") if plain else None


def stride(series: Series, source: Expression) -> Advice:
    """The same sizes in another layout of memory."""
    if source.is_cache:
        return _static_cache()
    name = source.argument
    return Advice(
        f"Bring `{name}` into one layout before the call: `{name} = {name}.contiguous()`.",
        "A transposed, sliced or channels-last tensor has other strides, and the kernels are made for the strides "
        "of the first call. `contiguous()` copies only where the layout differs.",
        source.passed_as(f"{name}.contiguous()"),
    )


def dynamic_marking(series: Series, source: Expression) -> Advice:
    """One call with a marked tensor, another without."""
    call = source.call
    return Advice(
        f"Call `torch._dynamo.mark_dynamic` in every call of `{call}`, or in none: before the first one at the latest.",
        "A tensor that is marked does not fit code that was compiled for an unmarked one.",
        Example(
            f"{call}(first)\ntorch._dynamo.mark_dynamic(second, 0)\n{call}(second)",
            f"torch._dynamo.mark_dynamic(first, 0)\n{call}(first)\n"
            f"torch._dynamo.mark_dynamic(second, 0)\n{call}(second)",
        ),
        link=DYNAMIC_PAGE,
    )


def _last_batch(series: Series, source: Expression, marks: list[str]) -> Advice:
    """What a dataset leaves over for the last batch, where its size is no multiple of the batch."""
    whole, left = series.lead.expected, series.lead.actual
    # A mark reaches only the part before the first break.
    marked = marks and series.parts == 1
    every = f"{_quoted(marks)} before the first call" if marked else "`torch.compile(..., dynamic=True)`"
    return Advice(
        f"The last batch of `{series.lead.last_batch_of}` is smaller, {left} of {whole}: give its DataLoader "
        f"`drop_last=True` where these may be left out, as in training; where every sample counts, {every}.",
        f"Every other batch has {whole}. {_AUTOMATIC}",
        Example(f"DataLoader(dataset, batch_size={whole})", f"DataLoader(dataset, batch_size={whole}, drop_last=True)"),
        link=DYNAMIC_PAGE,
    )


def _of_list(series: Series, source: Expression) -> Advice:
    """One entry of a list for each sample, as the targets of a detector: its length is a constant."""
    names = listed([f"`{as_written(name)}`" for name in series.counted])
    whole, left = series.lead.expected, series.lead.actual
    last = f", or give its DataLoader `drop_last=True`: the last batch of `{series.lead.last_batch_of}` is smaller"
    return Advice(
        f"Pad the batch to {whole} ({left} came){last if series.lead.last_batch_of else ''}; or make one tensor of "
        f"{names}, whose first dimension may vary.",
        f"{names} has as many entries as {source.shown} says, and the length of a list is a constant of the compiled "
        "code, so that the size cannot vary, with `dynamic=True` neither.",
        link=DYNAMIC_PAGE,
    )


def _several_parts(series: Series, source: Expression, marks: list[str]) -> Advice:
    """What follows a graph break takes its sizes from tensors made inside, which the caller cannot mark."""
    members = [one for member in series.members for one in (member, *_others(member))]
    names = [read_source(member).dynamo_name for member in members if member.cause == "shape"]
    return Advice(
        f"Compile with `torch.compile(..., dynamic=True)`, or remove the graph breaks: {_quoted(marks)} "
        f"{'reach' if len(marks) > 1 else 'reaches'} only the part before the first.",
        f"Each part around a graph break is compiled by itself, so one new size compiles all of them. {_AUTOMATIC}",
        Example(f"torch.compile({source.call})", f"torch.compile({source.call}, dynamic=True)"),
        *dynamic_sources(",".join(dict.fromkeys(filter(None, names)))),
        link=DYNAMIC_PAGE,
    )


def _static_cache() -> Advice:
    return Advice(
        'Generate with a cache of fixed size: `model.generate(..., cache_implementation="static")`.',
        "The default cache grows by one position with each token, so its keys and values never keep their shape. A "
        "static cache is allocated once for the longest sequence: it takes that memory from the first token on.",
        Example(
            "output = model.generate(**inputs)", 'output = model.generate(**inputs, cache_implementation="static")'
        ),
        link="https://huggingface.co/docs/transformers/kv_cache",
    )


def _zero_or_one(sizes: Sizes, source: Expression, size: str) -> Advice:
    """No mark is advised: one for every size, `mark_unbacked`, breaks a graph that asks anything about the size."""
    where = sizes.named if source.is_name else f"`{source.shown}`"
    where = "the input that this size comes from" if "___" in where else where
    return Advice(
        f"Keep size {size} away from {where}: pad to 2 or more, or accept one compile for it and do it in the warm-up.",
        f"{_ZERO_OR_ONE} `dynamic=True` changes nothing about that.",
        link=DYNAMIC_PAGE,
    )
