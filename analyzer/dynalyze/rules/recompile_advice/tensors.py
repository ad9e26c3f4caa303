"""Advice on tensors: sizes, strides and ranks, dtype, device, gradients, class, shared memory."""

from __future__ import annotations

import keyword
import re

from dynalyze.report import Advice, Example, Location, Recompile
from dynalyze.rules.recompile_advice.source import (
    DYNAMIC_PAGE,
    PRODUCTION,
    PRODUCTION_NOTE,
    RECOMPILATION_PAGE,
    Source,
    callee,
    dynamic_sources,
    named_place,
    plain_expression,
    read_source,
)
from dynalyze.rules.recompile_series import Series

_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2",
}  # fmt: skip
_DEVICES = {"CPU": "cpu", "CUDA": "cuda", "HIP": "cuda", "XPU": "xpu", "MPS": "mps", "Meta": "meta"}


def dtype(series: Series, source: Source) -> Advice:
    """Another type of numbers."""
    name, call = source.argument, callee(series.lead.location)
    wanted = _DTYPES.get(series.lead.expected or "")
    cast = f"{name}.to(torch.{wanted})" if wanted else f"{name}.to(dtype)"
    return Advice(
        action=f"Cast `{name}` to one dtype before the call: `{cast}`.",
        why="The kernels are made for one dtype, and `to` costs nothing where it is the right one already.",
        example=Example(f"{call}({name})", f"{call}({cast})") if source.is_name else None,
        config=PRODUCTION,
        config_note=PRODUCTION_NOTE,
        link=RECOMPILATION_PAGE,
    )


def device(series: Series, source: Source) -> Advice:
    """Another device."""
    name, call = source.argument, callee(series.lead.location)
    wanted = _DEVICES.get(series.lead.expected or "")
    moved = f'{name}.to("{wanted}")' if wanted else f"{name}.to(device)"
    return Advice(
        action=f"Bring `{name}` to one device before the call: `{moved}`. If the program really serves several "
        "devices, warm up each of them.",
        why="The code is compiled for the devices of the tensors that the first call had.",
        example=Example(f"{call}({name})", f"{call}({moved})") if source.is_name else None,
        config=PRODUCTION,
        config_note=PRODUCTION_NOTE,
        link=RECOMPILATION_PAGE,
    )


def requires_grad(series: Series, source: Source) -> Advice:
    """With gradients in one call, without in another."""
    name, call = source.argument, callee(series.lead.location)
    if source.is_parameter:
        return Advice(
            action=f"Freeze or unfreeze `{name}` before the first call, not between calls.",
            why="Whether a gradient is wanted decides which backward graph is made.",
            link=RECOMPILATION_PAGE,
        )
    return Advice(
        action="Nothing is wrong with it where both are meant, as with a GAN's discriminator, which gets samples with "
        f"a gradient and without: two programs, each compiled once and kept. Where no gradient of `{name}` is used, "
        f"pass `{name}.detach()` in every call.",
        why="Whether a gradient is wanted decides whether a backward graph is made, so each case is a compile.",
        example=Example(f"{call}({name})", f"{call}({name}.detach())") if source.is_name else None,
        link=RECOMPILATION_PAGE,
    )


def is_of_input(lead: Recompile) -> bool:
    """Whether an input came once with a gradient and once without, as some training loops mean it."""
    return lead.cause == "requires_grad" and not read_source(lead).is_parameter


def tensor_type(series: Series, source: Source) -> Advice:
    """A number or another class where a tensor was, or the other way round."""
    name, call = source.argument, callee(series.lead.location)
    actual = series.lead.actual or ""
    if actual.endswith(("'int'>", "'float'>", "'bool'>")):
        action = f"Pass `{name}` as a tensor in every call: `torch.as_tensor({name})`."
        example = Example(f"{call}({name})", f"{call}(torch.as_tensor({name}))") if source.is_name else None
    else:
        action = f"Pass `{name}` as an object of one class in every call{f'; here came {actual}' if actual else ''}."
        example = None
    return Advice(
        action=action,
        why="The class of an argument decides which code runs, so each class is compiled by itself.",
        example=example,
        link=RECOMPILATION_PAGE,
    )


def aliasing(series: Series, source: Source) -> Advice:
    """Two arguments that are one tensor."""
    call = callee(series.lead.location)
    names = [name.strip() for name in source.shown.split(",") if name.strip()]
    arguments, last = ", ".join(names), names[-1] if names else "it"
    cloned = ", ".join([*names[:-1], f"{last}.clone()"])
    return Advice(
        action=f"Pass different tensors in every call: `{last}.clone()` where `{arguments}` are one.",
        why="The compiled code knows which inputs are the same tensor, because a write to one would change the other.",
        example=Example(f"{call}({arguments})", f"{call}({cloned})")
        if len(names) > 1 and all(map(plain_expression, names))
        else None,
        link=RECOMPILATION_PAGE,
    )


_BUCKETS = "Where only a few lengths matter, pad to the next of them: each is compiled once and runs at full speed."
_AUTOMATIC = (
    "The first compile takes every size as fixed. Unless dynamic=False forbids it, torch makes a size that changed "
    "dynamic in the second compile; marked before the first call, there is no second one."
)
_ZERO_OR_ONE = "Sizes 0 and 1 always get code of their own, because a size of 1 broadcasts and one of 0 is empty."
_OFFSET = ".storage_offset()"
_STRIDE = re.compile(r"(?P<name>.+)\.stride\(\)\[\d+\]")


def shape(series: Series, source: Source) -> Advice:
    """A size that the first compile took for fixed."""
    if series.forced_by is not None:
        return _made_constant(source, series.forced_by)
    if source.is_cache:
        return _static_cache(series)
    if source.is_parameter:
        return _parameter_size(source)
    if series.lead.last_batch_of and series.changes == 1 and source.dimension == 0:
        return _last_batch(series, source)
    if source.dimension is None or series.resumes or not source.is_name:
        return _computed_size(source)
    if series.parts > 1:
        return _several_parts(series, source)
    small = {"0", "1"} & set(series.values)
    if small and len(set(series.values)) == 2:  # No other size came: a mark would have spared nothing.
        return _zero_or_one(series, source, min(small))
    call = f"{callee(series.lead.location)}({source.argument})"
    marked = f"torch._dynamo.mark_dynamic({source.argument}, {source.dimension})"
    config, note = dynamic_sources(source.dynamo_name)
    where = "where it is set, before the first call" if source.is_attribute else "before the first call"
    return Advice(
        action=f"Mark dimension {source.dimension} of `{source.argument}` as dynamic {where}: `{marked}`; "
        "or compile with `torch.compile(..., dynamic=True)`.",
        why=f"{_AUTOMATIC} {_ZERO_OR_ONE if {'0', '1'} & set(series.values) else _BUCKETS}",
        example=Example(call, f"{marked}\n{call}"),
        config=config,
        config_note=note,
        link=DYNAMIC_PAGE,
    )


def symbolic(series: Series, source: Source) -> Advice:
    """A size that is dynamic already, and a condition on it that did not hold."""
    if stride_of := _STRIDE.fullmatch(source.text):
        return _other_stride(series, stride_of["name"])
    if source.text.endswith(_OFFSET):
        return _offset(series, source.text.removesuffix(_OFFSET))
    if source.dimension is None or not source.is_name:
        return _condition(source, series.forced_by)
    if series.zero_or_one:
        return _zero_or_one(series, source, str(series.lead.actual))
    return _condition(source, series.forced_by)


def _other_stride(series: Series, name: str) -> Advice:
    """A view whose rows lie further apart in one call; `contiguous()` leaves one of a single row as it is."""
    call = callee(series.lead.location)
    copied = f"{name}.clone(memory_format=torch.contiguous_format)"
    return Advice(
        action=f"Pass a copy with a layout of its own, `{copied}`: it is a slice of a larger tensor in one call, and "
        "whole in another.",
        why="How far apart the rows of a tensor lie is a number that the compiler guards as it guards sizes, also "
        "where there is only one row.",
        example=Example(f"{call}({name})", f"{call}({copied})")
        if name.isidentifier() and not keyword.iskeyword(name)
        else None,
        link=RECOMPILATION_PAGE,
    )


def _offset(series: Series, name: str) -> Advice:
    """A slice of a larger tensor that begins elsewhere."""
    call = callee(series.lead.location)
    return Advice(
        action=f"Pass a copy, `{name}.clone()`: it is a slice of a larger tensor that begins at 0 in one call and "
        "further on in another, and each of the two is compiled.",
        why="Where a slice begins in its storage is a number that the compiler guards as it guards sizes: 0 is another "
        "program than a place that varies. A copy begins at 0 always.",
        example=Example(f"{call}({name})", f"{call}({name}.clone())")
        if name.isidentifier() and not keyword.iskeyword(name)
        else None,
        link=RECOMPILATION_PAGE,
    )


def rank(series: Series, source: Source) -> Advice:
    """Another number of dimensions."""
    name = source.argument or "the tensor"
    call = callee(series.lead.location)
    expected = _dimensions(series.lead.expected)
    more = _number(series.lead.actual) - _number(series.lead.expected)
    example = Example(f"{call}({name})", f"{call}({name}.unsqueeze(0))") if more == -1 and source.is_name else None
    return Advice(
        action=f"Give `{name}` {expected} in every call, with `unsqueeze` or `reshape` before it.",
        why="The number of dimensions is never dynamic: each one is a program of its own.",
        example=example,
        link=DYNAMIC_PAGE,
    )


def stride(series: Series, source: Source) -> Advice:
    """The same sizes in another layout of memory."""
    if source.is_cache:
        return _static_cache(series)
    name = source.argument
    call = callee(series.lead.location)
    return Advice(
        action=f"Bring `{name}` into one layout before the call: `{name} = {name}.contiguous()`.",
        why=(
            "A transposed, sliced or channels-last tensor has other strides, and the kernels are made for the strides "
            "of the first call. `contiguous()` copies only where the layout differs."
        ),
        example=Example(f"{call}({name})", f"{call}({name}.contiguous())") if source.is_name else None,
        link=RECOMPILATION_PAGE,
    )


def dynamic_marking(series: Series, _: Source) -> Advice:
    """One call with a marked tensor, another without."""
    call = callee(series.lead.location)
    return Advice(
        action=f"Call `torch._dynamo.mark_dynamic` in every call of `{call}`, or in none: before the first one at the "
        "latest.",
        why="A tensor that is marked does not fit code that was compiled for an unmarked one.",
        example=Example(
            f"{call}(first)\ntorch._dynamo.mark_dynamic(second, 0)\n{call}(second)",
            f"torch._dynamo.mark_dynamic(first, 0)\n{call}(first)\n"
            f"torch._dynamo.mark_dynamic(second, 0)\n{call}(second)",
        ),
        link=DYNAMIC_PAGE,
    )


def _last_batch(series: Series, source: Source) -> Advice:
    """What a dataset leaves over for the last batch, where its size is no multiple of the batch."""
    whole, left = series.lead.expected, series.lead.actual
    marked = f"`torch._dynamo.mark_dynamic({source.argument}, 0)`"
    every = f"{marked} before the first call" if source.is_name else "`torch.compile(..., dynamic=True)`"
    return Advice(
        action=f"The last batch of `{series.lead.last_batch_of}` is smaller, {left} of {whole}: give its DataLoader "
        f"`drop_last=True` where these may be left out, as in training; where every sample counts, {every}.",
        why=f"Every other batch has {whole}. {_AUTOMATIC}",
        example=Example(
            f"DataLoader(dataset, batch_size={whole})", f"DataLoader(dataset, batch_size={whole}, drop_last=True)"
        ),
        link=DYNAMIC_PAGE,
    )


def _several_parts(series: Series, source: Source) -> Advice:
    """What follows a graph break takes its sizes from tensors made inside, which the caller cannot mark."""
    names = [read_source(member).dynamo_name for member in series.members if member.cause == "shape"]
    config, note = dynamic_sources(",".join(dict.fromkeys(name for name in names if name)))
    call = callee(series.lead.location)
    return Advice(
        action="Compile with `torch.compile(..., dynamic=True)`, or remove the graph breaks: "
        f"`torch._dynamo.mark_dynamic({source.argument}, {source.dimension})` reaches only the part before the first.",
        why=f"Each part around a graph break is compiled by itself, so one new size compiles all of them. {_AUTOMATIC}",
        example=Example(f"torch.compile({call})", f"torch.compile({call}, dynamic=True)"),
        config=config,
        config_note=note,
        link=DYNAMIC_PAGE,
    )


def _static_cache(series: Series) -> Advice:
    return Advice(
        action='Generate with a cache of fixed size: `model.generate(..., cache_implementation="static")`.',
        why=(
            "The default cache grows by one position with each token, so its keys and values never keep their shape. A "
            "static cache is allocated once for the longest sequence: it takes that memory from the first token on."
        ),
        example=Example(
            "output = model.generate(**inputs)",
            'output = model.generate(**inputs, cache_implementation="static")',
        ),
        link="https://huggingface.co/docs/transformers/kv_cache",
    )


def _parameter_size(source: Source) -> Advice:
    return Advice(
        action=f"Compile modules whose `{source.argument}` differs in size one by one, or let sizes of parameters vary "
        "with the setting below.",
        why="Modules of one class share their compiled code, and sizes of parameters are taken as fixed.",
        config="torch._dynamo.config.force_parameter_static_shapes = False",
        config_note="Code for any size of a weight can be slower than code for the one that it has.",
        link=DYNAMIC_PAGE,
    )


def _computed_size(source: Source) -> Advice:
    what = f"`{source.shown}`" if source.shown else "The size"
    return Advice(
        action="Compile with `torch.compile(..., dynamic=True)`, or remove the graph break before this code and mark "
        "the input that the size comes from.",
        why=f"{what} is computed inside the program, so the caller cannot mark it. {_BUCKETS}",
        link=DYNAMIC_PAGE,
    )


def _zero_or_one(series: Series, source: Source, size: str) -> Advice:
    name, dimension = source.argument, source.dimension
    call = f"{callee(series.lead.location)}({name})"
    marked = f"torch._dynamo.decorators.mark_unbacked({name}, {dimension})"
    return Advice(
        action=f"Keep size {size} away from dimension {dimension} of `{name}`: pad it to 2 or more, or accept one "
        f"compile for it and do it in the warm-up. Where the code allows it, `{marked}` covers every size.",
        why=_ZERO_OR_ONE,
        example=Example(call, f"{marked}\n{call}"),
        link=DYNAMIC_PAGE,
    )


def _made_constant(source: Source, line: Location) -> Advice:
    """torch had made the size dynamic; marking it once more cannot help."""
    size = f"`{source.shown}`" if source.shown else "the size"
    return Advice(
        action=f"Let {named_place(line)} take any size: it makes a constant of {size}. Or pad, so that the size stays "
        "the same.",
        why=(
            "The size is dynamic for torch until that line needs its exact value: an `if` that compares it with a "
            "number, a Python loop or list of that length, `int()`, or a tensor of fixed size that it meets. Marking "
            f"it dynamic cannot help before that line changes. {_BUCKETS}"
        ),
        link=DYNAMIC_PAGE,
    )


def _condition(source: Source, line: Location | None) -> Advice:
    condition = f"`{source.shown}`" if source.shown else "a size"
    asked = f" that {named_place(line)} takes" if line is not None else ""
    return Advice(
        action=f"Take the decision on {condition}{asked} out of the compiled function, or pad so that it always falls "
        "the same way.",
        why=(
            "The size is dynamic, but the code asks something about it: an `if`, a modulo, a reshape that must divide. "
            f"The compiled code holds for one answer only. {_BUCKETS}"
        ),
        link=DYNAMIC_PAGE,
    )


def _dimensions(number: str | None) -> str:
    return "1 dimension" if number == "1" else f"{number or 'the same number of'} dimensions"


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
