"""The section on the memory of a training step: what it keeps for backward line by line, compiled and in eager."""

from __future__ import annotations

from collections import Counter

from dynalyze.render.view.measurements import Table
from dynalyze.report import Report
from dynalyze.report.measurements import KeptLine, KeptTensor, StepMemory
from dynalyze.text.amounts import listed, size
from dynalyze.text.visible import clipped
from dynalyze.words import bench as words
from dynalyze.words.report import line_words

_MOST_ROWS = 30
_MOST_OPS, _MOST_TENSORS = 6, 3


class StepMemoryView:
    """Every configuration whose training step was looked at; falsy where there is none."""

    def __init__(self, report: Report) -> None:
        found = [each for each in report.measurements if each.step_memory is not None]
        self.problems = [
            f"{each.configuration}: {each.step_memory.problem}"
            for each in found
            if each.step_memory and each.step_memory.problem
        ]
        self.parts = [
            (words.capital(f"{words.workload_name(each)}: {words.step_memory(each)}."), table, left)
            for each in found
            if each.step_memory and not each.step_memory.problem
            for table, left in [_table(each.step_memory, each.configuration)]
        ]

    def __bool__(self) -> bool:
        return bool(self.parts or self.problems)


def _table(found: StepMemory, configuration: str) -> tuple[Table, int]:
    peaks = f"Peak (eager in the {found.eager_peak_in}, compiled in the {found.compiled_peak_in})"
    totals = [
        [what, size(eager), size(compiled), _more(compiled - eager), ""]
        for what, eager, compiled in (
            ("Kept for backward", found.eager_kept, found.compiled_kept),
            (peaks, found.eager_peak, found.compiled_peak),
        )
    ]
    rows = [
        [
            _where(line),
            _tensors(line.eager_bytes, line.eager),
            _tensors(line.compiled_bytes, line.compiled),
            _more(line.compiled_bytes - line.eager_bytes),
            _ops(line.recomputed),
        ]
        for line in found.lines[:_MOST_ROWS]
    ]
    heads = ["Line", "Eager", "Compiled", "Difference", "Computed again in backward"]
    left = max(0, len(found.lines) - _MOST_ROWS) + found.lines_omitted
    return Table(f"Memory of a training step of {configuration}", heads, [*totals, *rows]), left


def _where(line: KeptLine) -> str:
    if line.place is None:
        return "unknown line"
    code = f": {clipped(line.place.code, 80)}" if line.place.code else ""
    return f"{line_words(line.place)}{code}"


def _tensors(amount: int, tensors: list[KeptTensor]) -> str:
    """ "4.2 MB: exp [1024, 512], mul [1024, 512]"; the module in the place of the operation, in eager."""
    if not amount:
        return ""
    names = [f"{each.op.removeprefix('aten.') or each.module} {each.shape}".strip() for each in tensors]
    return f"{size(amount)}: {clipped(listed(names, _MOST_TENSORS), 120)}"


def _ops(ops: list[str]) -> str:
    counted = Counter(op.removeprefix("aten.") for op in ops).most_common()
    return listed([f"{count} {name}" if count > 1 else name for name, count in counted], _MOST_OPS)


def _more(difference: int) -> str:
    return f"{'+' if difference > 0 else '−'}{size(abs(difference))}" if difference else "same"
