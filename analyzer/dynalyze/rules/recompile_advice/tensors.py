"""Advice on what a tensor is beside its shape: dtype, device, gradients, class, shared memory."""

from __future__ import annotations

from dynalyze.report import Advice, Example, Recompile
from dynalyze.rules.recompile_advice.source import Source, plain_expression, read_source
from dynalyze.rules.recompile_advice.writing import PRODUCTION, PRODUCTION_NOTE, RECOMPILATION_PAGE, callee
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
