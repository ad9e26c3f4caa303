"""What follows from an audit: the good combinations of an attention matrix, and wrong numbers in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import PurePath
from typing import Literal

from dynalyze.capture.bench.protocol import RIGHT
from dynalyze.report.audit import AttentionCell, AttentionMatrix, Bisection, CellStatus, stage_name
from dynalyze.report.measurements import Accuracy, BrokenContract, TensorAccuracy
from dynalyze.text.amounts import count_of

CellOutcome = Literal[
    "right", "untested", "suspicious", "breaks", "recompiles", "compile_error", "eager_error", "crash", "timeout",
    "not_here",
]  # fmt: skip
"""A status and the verdict on its numbers in one: right and untested are both `runs`."""

RAN: tuple[CellStatus, ...] = ("runs", "breaks", "recompiles")


def cell_name(cell: AttentionCell) -> str:
    """A combination in a sentence: "sdpa with bfloat16 and a static cache"."""
    cache = f" and a {cell.cache} cache" if cell.cache else ""
    return f"{cell.attention} with {cell.dtype}{cache}"


def outcome(cell: AttentionCell) -> CellOutcome:
    """The outcome of a combination: its status, and the verdict on its numbers."""
    if cell.status in RAN and cell.accuracy == "suspicious":
        return "suspicious"
    if cell.status == "runs":
        return "right" if cell.accuracy in RIGHT else "untested"
    return cell.status


def right(matrix: AttentionMatrix) -> list[AttentionCell]:
    """The combinations that run without breaks or recompiles, and whose numbers are right."""
    return [cell for cell in matrix.cells if outcome(cell) == "right"]


def is_own(cell: AttentionCell, matrix: AttentionMatrix) -> bool:
    """Whether it is the combination that the target has by itself."""
    own = (matrix.own_attention, matrix.own_dtype, matrix.own_cache)
    return (cell.attention, cell.dtype, cell.cache) == own


def fastest(cells: Iterable[AttentionCell]) -> list[AttentionCell]:
    """The fastest of those that were timed, with all that cannot be told from it; empty where nothing can be said.

    Cells are timed one after another, not in pairs: less than the noise floor of either is no difference.
    """
    timed = sorted((cell for cell in cells if cell.latency_ms), key=lambda cell: cell.latency_ms or 0.0)
    if len(timed) < 2 or any(_floor(cell) is None for cell in timed):
        return []
    best, floor = timed[0].latency_ms or 0.0, _floor(timed[0]) or 0.0
    return [cell for cell in timed if (cell.latency_ms or 0.0) <= best * (1 + max(_floor(cell) or 0.0, floor))]


def instead_of(cell: AttentionCell, good: Sequence[AttentionCell]) -> AttentionCell | None:
    """The good combination nearest to this one: the same dtype before the same attention, the fastest of equals."""

    def distance(other: AttentionCell) -> tuple[bool, bool, bool, float]:
        differs = (other.dtype != cell.dtype, other.cache != cell.cache, other.attention != cell.attention)
        return *differs, other.latency_ms or 0.0

    return min(good, key=distance, default=None)


def _floor(cell: AttentionCell) -> float | None:
    return cell.speedup.floor if cell.speedup is not None else None


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
