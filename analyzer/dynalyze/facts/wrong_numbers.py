"""Wrong numbers in one sentence, the same wherever they are told of: the verdict, the findings, the page."""

from __future__ import annotations

from itertools import takewhile
from pathlib import PurePath

from dynalyze.report.audit import Bisection, stage_name
from dynalyze.report.measurements import Accuracy, BrokenContract, TensorAccuracy
from dynalyze.text.amounts import count_of

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


_PARTS = {"lowerings": "lowering of", "decomposition": "decomposition of"}


def search_of(test: Accuracy, bisections: list[Bisection]) -> Bisection | None:
    """The search after the place of these answers; None where none was made."""
    key = test.configuration, test.phase
    return next((each for each in bisections if (each.configuration, each.phase) == key and not each.hidden), None)


def right_without(found: Bisection) -> str:
    """A setting that was tried and gives right answers: without the pass at fault, or the last backend on the way to
    the wrong stage whose answers were right; "" where there was none.
    """
    if found.workaround:
        return f"`{found.workaround}`"
    before = list(takewhile(lambda run: run.verdict != "suspicious", found.stages))
    right = next((run.backend for run in reversed(before) if run.verdict != "not comparable"), "")
    return f"`backend='{right}'`" if right else ""


def wrong_part(found: Bisection) -> str:
    """`the pass remove_noop_ops`, `the lowering of div`, `the decomposition of aten.silu.default`; "" where no part of
    the stage is known.
    """
    if not found.applied:
        return found.part.replace("_", " ")
    return f"the {_PARTS.get(found.part, 'pass')} {found.applied}"


def reduced_to(found: Bisection) -> str:
    """`31 operations to 2, 6,344 elements of the inputs to 2`; "" where the script is of no smaller program."""
    small = found.reduced
    if small is None:
        return ""
    operations = f"{count_of(small.operations_before, 'operation')} to {small.operations:,}"
    return f"{operations}, {count_of(small.elements_before, 'element')} of the inputs to {small.elements:,}"


def wrong_tensor(test: Accuracy) -> TensorAccuracy | None:
    """The one to tell of: the first with NaN that compiling made, else the worst."""
    wrong = [tensor for tensor in test.tensors if tensor.verdict == test.verdict]
    return next((tensor for tensor in wrong if tensor.nonfinite), None) or next(iter(wrong), None)


def asking_place(found: Bisection) -> str:
    """`masking_utils.py:295`, and how many more, of a difference that is the program's own."""
    first, others = found.asks[0], len(found.asks) - 1
    more = f" (and {others} more)" if others else ""
    return f"{PurePath(first.file).name}:{first.line}{more}"


def wrong_answers(test: Accuracy, found: Bisection | None) -> str:
    """`bf16 output of torch.softmax in layers.3.attention is wrong beyond rounding, stage: Inductor`.

    Where no number is wrong it is the first broken contract: `output has stride (6, 1), while in eager it has (1, 2)`.
    """
    tensor = wrong_tensor(test)
    what, how = "the output", "is wrong beyond rounding"
    if tensor is None and test.contracts:
        what, how = _broken(test.contracts[0])
    elif found is not None and (found.op or found.module):
        what = _found(found, tensor.dtype if tensor is not None else "")
    elif tensor is not None and tensor.kind == "gradient":
        what = f"{_dtype(tensor.dtype)}gradient of {tensor.name}"
    elif tensor is not None:
        what = f"{_dtype(tensor.dtype)}output {tensor.name.removeprefix('output')}".rstrip()
    if tensor is not None and tensor.nonfinite:
        how = "is NaN or infinite where eager's is not"
    elif tensor is not None and tensor.compiled_dtype and tensor.dtype and tensor.compiled_dtype != tensor.dtype:
        how = f"is {tensor.compiled_dtype} where eager's is {tensor.dtype}"
    if found is not None and found.stage == "program":
        return f"{what} is another one than eager's, because {asking_place(found)} asks whether it is compiled"
    return f"{what} {how}{f', stage: {stage_name(found)}' if found is not None and found.stage else ''}"


def wrong_operation(found: Bisection) -> str:
    """The same of an operation that the answers hide."""
    what, stage = _found(found, found.dtype), stage_name(found)
    return f"{what} is wrong beyond rounding, though the answers hide it, stage: {stage}"


def _broken(fault: BrokenContract) -> tuple[str, str]:
    if fault.contract == "exception":
        return "compiled", f"gives an answer where eager raises {fault.eager}"
    return fault.place, f"{fault.compiled}, while in eager it {fault.eager}"


def _found(found: Bisection, dtype: str) -> str:
    kind = "gradient" if found.gradient else "output"
    owner = f"{found.op} in {found.module}" if found.op and found.module else found.op or found.module
    return f"{_dtype(found.dtype or dtype)}{kind} of {owner}"


def _dtype(name: str) -> str:
    return f"{_SHORT.get(name, name)} " if name else ""
