"""Operators of torch that run functions as they are, as source. The gradient of one is another operator, which runs
the function once more and goes back through it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dynalyze.fix.sites import Site

_LONG = 60
_NEW_SIZE = '''

def _new_size(tensor, least=0):
    """A size that torch.compile learns when the operator runs, whatever its settings."""
    shape_env = getattr(getattr(tensor, "fake_mode", None), "shape_env", None)
    if shape_env is None:
        return torch.library.get_ctx().new_dynamic_size(min=least)
    size = shape_env.create_unbacked_symint()
    torch._check(size >= least)
    return size
'''
"""What a fake calls for a size that only the data know. `new_dynamic_size` makes none unless the setting
`capture_dynamic_output_shape_ops` is on; the symbol is the same (as in torch's own `distributed/_ops/device_mesh.py`).
"""


def in_lines(parts: list[str], depth: int = 0, between: str = ", ") -> str:
    """What stands between brackets, one below the other where there are more than a few."""
    text = between.join(parts)
    inner, outer = f"\n{'    ' * (depth + 1)}", f"\n{'    ' * depth}"
    if len(text) < _LONG:
        return text
    word = between.strip()
    lines = [f"{each}," for each in parts] if word == "," else [parts[0], *(f"{word} {each}" for each in parts[1:])]
    return inner + inner.join(lines) + outer


def new_size(torch: str) -> str:
    """The function that a fake calls for a size, as source, where the file calls torch so."""
    return in_file(_NEW_SIZE, torch)


def in_file(source: str, torch: str) -> str:
    """What is written with `torch` for a file that calls it otherwise; torch.compile keeps its name."""
    return re.sub(r"\btorch\.(?!compile\b)", f"{torch}.", source)


def space_of(site: Site) -> str:
    """The namespace of operators that are made for a file."""
    return re.sub(r"\W", "_", Path(site.broken.location.file).stem) or "program"


class Taken(NamedTuple):
    """An argument: its type as an annotation, and whether it has a gradient."""

    name: str
    annotation: str
    is_tensor: bool
    has_gradient: bool


def gradient_of(
    function: str, qualname: str, takes: Sequence[Taken], sized: Sequence[str], results: int, torch: str
) -> str:
    """The source that gives the operator `_{function}_op`, which runs `_{function}_of`, a gradient for its arguments;
    `sized` are those that the function does not take. Every result must be of a floating dtype. It has no second
    derivative.
    """
    moved = [each.name for each in takes if each.has_gradient]
    tensors = [each.name for each in takes if each.is_tensor]
    others = [each.name for each in takes if not each.is_tensor]
    grads = ["grad"] if results == 1 else [f"grad_{number}" for number in range(results)]
    tensor = f"{torch}.Tensor"
    returns = tensor if len(moved) == 1 else f"tuple[{', '.join([tensor] * len(moved))}]"
    annotated = [*(f"{each}: {tensor}" for each in grads), *(f"{each.name}: {each.annotation}" for each in takes)]
    found = [f"found[{place}].clone(memory_format={torch}.contiguous_format)" for place in range(len(moved))]
    empty = [f"{torch}.empty_like({each}, memory_format={torch}.contiguous_format)" for each in moved]
    name = f"_{function}_backward"
    kept = "".join(f"    ctx.{each} = {each}\n" for each in others)
    read = f"    {', '.join(tensors)}{',' * (len(tensors) == 1)} = ctx.saved_tensors\n"
    given = in_lines([*grads, *(each.name if each.is_tensor else f"ctx.{each.name}" for each in takes)], 1)
    gradients = iter([f"found[{place}]" for place in range(len(moved))] if len(moved) > 1 else ["found"])
    back = [*(next(gradients) if each.has_gradient else "None" for each in takes), *("None" for _ in sized)]
    inputs = [*(each.name for each in takes), *sized]
    return (
        f"\n\n@{torch}.library.custom_op(\n"
        f'    "{qualname}_backward", mutates_args=(), tags={torch}.Tag.cudagraph_unsafe\n)\n'
        f"def {name}_op({in_lines(annotated)}) -> {returns}:\n"
        f"    def again({', '.join(moved)}):\n"
        f"        return _{function}_of({in_lines([each.name for each in takes], 2)})\n\n"
        f"    _, pull = {torch}.func.vjp(again, {', '.join(moved)})\n"
        f"    found = pull({grads[0] if results == 1 else f'({in_lines(grads, 1)})'})\n"
        f"    return {found[0] if len(moved) == 1 else f'({in_lines(found, 1)})'}\n\n\n"
        f"@{name}_op.register_fake\ndef {name}_op_fake({in_lines([*grads, *(each.name for each in takes)])}):\n"
        f"    return {empty[0] if len(moved) == 1 else f'({in_lines(empty, 1)})'}\n\n\n"
        f"def {name}(ctx, {in_lines(grads)}):\n{read}"
        f"    found = {name}_op({given})\n"
        f"    return {in_lines(back, 1) if len(back) == 1 else f'({in_lines(back, 1)})'}\n\n\n"
        f"def _{function}_saved(ctx, inputs, output):\n"
        f"    {', '.join(inputs)}{',' * (len(inputs) == 1)} = inputs\n{kept}"
        f"    ctx.save_for_backward({', '.join(tensors)})\n\n\n"
        f"_{function}_op.register_autograd({name}, setup_context=_{function}_saved)\n"
    )
