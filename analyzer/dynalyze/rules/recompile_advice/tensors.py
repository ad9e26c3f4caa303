"""Advice on tensors but for their sizes: dtype, device, gradients, class, shared memory, number of dimensions."""

from __future__ import annotations

import re

from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Example, Recompile
from dynalyze.rules.recompile_advice.source import (
    DYNAMIC_PAGE,
    PRODUCTION,
    PRODUCTION_NOTE,
    Expression,
    as_written,
    plain_expression,
    read_source,
)
from dynalyze.rules.recompile_series import Series
from dynalyze.text.amounts import listed, whole_number

_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2",
}  # fmt: skip
_MOST_KEPT = 3
_DEVICES = {"CPU": "cpu", "CUDA": "cuda", "HIP": "cuda", "XPU": "xpu", "MPS": "mps", "Meta": "meta"}


def dtype(series: Series, source: Expression) -> Advice:
    """Another type of numbers."""
    wanted = _DTYPES.get(series.lead.expected or "")
    known = [_DTYPES[each] for each in (series.lead.expected, series.lead.actual) if each in _DTYPES]
    if len({re.sub(r"^[bu](?=float|int)|\d.*", "", each) for each in known}) > 1:  # float, int, bool, complex
        return Advice(
            "Leave it where both are meant, as where one function is called with values and with their mask: each "
            f"dtype of `{source.argument}` is compiled once and kept. Cast to the other, it would be another answer.",
            "The kernels are made for one dtype.",
        )
    cast = f"{source.argument}.to({f'torch.{wanted}' if wanted else 'dtype'})"
    return Advice(
        f"Cast `{source.argument}` to one dtype before the call: `{cast}`.",
        "The kernels are made for one dtype, and `to` costs nothing where it is the right one already.",
        source.passed_as(cast),
        PRODUCTION,
        PRODUCTION_NOTE,
    )


def device(series: Series, source: Expression) -> Advice:
    """Another device."""
    wanted = _DEVICES.get(series.lead.expected or "")
    moved = f'{source.argument}.to("{wanted}")' if wanted else f"{source.argument}.to(device)"
    return Advice(
        f"Bring `{source.argument}` to one device before the call: `{moved}`. If the program really serves several "
        "devices, warm up each of them.",
        "The code is compiled for the devices of the tensors that the first call had.",
        source.passed_as(moved),
        PRODUCTION,
        PRODUCTION_NOTE,
    )


def requires_grad(series: Series, source: Expression) -> Advice:
    """With gradients in one call, without in another."""
    name = source.argument
    if source.is_parameter:
        return Advice(
            f"Leave `{name}` as it is between calls: trainable where it trains at all, with `zero_grad()` for "
            "gradients that nobody wants; what never trains is frozen before the first call.",
            "Whether a gradient is wanted decides which backward graph is made.",
        )
    if _is_kept(source, series.lead):
        held = f"model.{name.partition('.')[2]}"
        if any(each.cause == "rank" and each.source == series.lead.source for each in series.lead.also):
            left = [each.source or "" for each in series.lead.also if each.cause == "rank"]
            kept = [f"`model.{as_written(each).partition('.')[2]}`" for each in dict.fromkeys(left)]
            it = "it" if len(kept) == 1 else "them"
            return Advice(
                f"Keep what {listed(kept, _MOST_KEPT)} held before the first call, and put {it} back before each: a "
                "call leaves another number of dimensions there too, so that `detach()` alone spares nothing. Leave "
                f"{it} where a call goes on from the one before.",
                "What a call leaves in a module is an input of the next one, and the code is compiled for its kind.",
            )
        return Advice(
            f"Between two calls take the gradient off what the last left there: `{held} = {held}.detach()`, outside "
            "of the compiled code. Leave it where a backward is meant to run through earlier calls: each case is "
            "compiled once.",
            "A result that is kept with its gradient keeps the graph of its call too: the next backward runs through "
            "that again, or fails at it.",
            Example("loss.backward()", f"loss.backward()\n{held} = {held}.detach()"),
        )
    first = series.lead.expected in ("0", "False")
    same = f" Where every later call has one, begin so: `{name}.requires_grad_()` in the first." if first else ""
    return Advice(
        "Expected where both are meant, as in a first layer and in those behind it, or with the two kinds of samples "
        "that a GAN's discriminator gets: two programs, each compiled once and kept. Where no gradient of "
        f"`{name}` is used, pass `{name}.detach()` in every call.{same}",
        "Whether a gradient is wanted decides whether a backward graph is made, so each case is a compile.",
        source.passed_as(f"{name}.detach()"),
    )


def is_of_input(lead: Recompile) -> bool:
    """Whether an input came once with a gradient and once without, as some training loops mean it."""
    source = read_source(lead)
    return lead.cause == "requires_grad" and not (source.is_parameter or _is_kept(source, lead))


def _is_kept(source: Expression, lead: Recompile) -> bool:
    """Whether it is a tensor that the object of a method holds: `self.hidden`, a buffer."""
    method = re.match(r"\s*(?:async )?def \w+\((\w+)", lead.location.code or "")
    owner = method[1] if method is not None and "." in lead.location.function else "self"
    return "._buffers[" in source.text or source.text.startswith(f"{owner}.")


def tensor_type(series: Series, source: Expression) -> Advice:
    """A number or another class where a tensor was, or the other way round."""
    name, actual, example = source.argument, series.lead.actual or "", None
    if actual.endswith(("ordinary tensor", "inference tensor")):
        action = (
            f"Make `{name}` inside of `torch.inference_mode()` for every call, the warm-up too, or outside of it for "
            "every call."
        )
    elif actual.endswith(("'int'>", "'float'>", "'bool'>")):
        action = f"Pass `{name}` as a tensor in every call: `torch.as_tensor({name})`."
        example = source.passed_as(f"torch.as_tensor({name})")
    else:
        action = f"Pass `{name}` as an object of one class in every call{f'; here came {actual}' if actual else ''}."
    return Advice(
        action, "The class of an argument decides which code runs, so each class is compiled by itself.", example
    )


def aliasing(series: Series, source: Expression) -> Advice:
    """Two arguments that are one tensor."""
    names = [name.strip() for name in source.shown.split(",") if name.strip()]
    arguments, last = ", ".join(names), names[-1] if names else "it"
    cloned = ", ".join([*names[:-1], f"{last}.clone()"])
    if any("." in name for name in names):  # torch asks the same of objects that others hold.
        return Advice(
            f"Where they are objects and no tensors, leave it: both cases are programs, each compiled once. Of tensors "
            f"keep a copy: `{last}.clone()`.",
            "The compiled code knows which of what it was given are one object.",
        )
    return Advice(
        f"Pass different tensors in every call: `{last}.clone()` where `{arguments}` are one.",
        "The compiled code knows which inputs are the same tensor, because a write to one would change the other.",
        Example(f"{source.call}({arguments})", f"{source.call}({cloned})")
        if len(names) > 1 and all(map(plain_expression, names))
        else None,
    )


def rank(series: Series, source: Expression) -> Advice:
    """Another number of dimensions."""
    expected, actual = series.lead.expected, series.lead.actual
    dimensions = "1 dimension" if expected == "1" else f"{expected or 'the same number of'} dimensions"
    one_less = (whole_number(expected) or 0) - (whole_number(actual) or 0) == 1 and actual != "0"
    why = "The number of dimensions is never dynamic: each one is a program of its own, compiled once and kept."
    # A helper, as einops.rearrange, serves many lines; what a module of a package gets is for its caller to say.
    asking = series.lead.location if source.call != "model" else series.first_call
    if package := library_of(asking.file) if asking is not None else "":
        return Advice(f"Leave it as it is: this is called with both, in {package}.", why, link=DYNAMIC_PAGE)
    came = [each.source for each in series.lead.also if each.source and "None" in (each.expected, each.actual)]
    if came:
        named = listed([f"`{as_written(each)}`" for each in came])
        return Advice(
            f"Leave it, and take one call of each kind in the warm-up: {named} came or went in the same call, so that "
            "these are two programs.",
            why,
            link=DYNAMIC_PAGE,
        )
    return Advice(
        f"Give `{source.argument or 'the tensor'}` {dimensions} in every call, with `unsqueeze` or `reshape` before "
        "it, or take one call with each number in the warm-up.",
        f"{why} `unsqueeze` gives a size of 1, which is compiled by itself too: `repeat` gives the size of the others.",
        source.passed_as(f"{source.argument}.unsqueeze(0)") if one_less else None,
        link=DYNAMIC_PAGE,
    )
