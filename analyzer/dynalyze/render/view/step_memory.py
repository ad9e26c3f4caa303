"""The section on the memory of a training step: what it keeps for backward line by line, compiled and in eager."""

from __future__ import annotations

from collections import Counter

from dynalyze.render.view.links import Index, Place
from dynalyze.render.words import bench as words
from dynalyze.report import Report
from dynalyze.report.measurements import KeptLine, KeptTensor, Measurement, StepMemory
from dynalyze.text.amounts import exact_size, listed

_MOST_ROWS = 30
_MOST = 6


class StepMemoryView:
    """Every configuration whose training step was looked at; falsy where there is none."""

    def __init__(self, report: Report, links: Index) -> None:
        found = [(each, each.step_memory) for each in report.measurements if each.step_memory is not None]
        self.problems = [f"{each.configuration}: {memory.problem}" for each, memory in found if memory.problem]
        self.parts = [StepView(each, memory, links) for each, memory in found if not memory.problem]

    def __bool__(self) -> bool:
        return bool(self.parts or self.problems)


class StepView:
    """One configuration. `totals` are rows of what, eager, compiled and the difference; `omitted` lines have no row."""

    def __init__(self, measured: Measurement, memory: StepMemory, links: Index) -> None:
        self.name = words.workload_name(measured)
        self.lead = f"{words.capital(self.name)}: {words.step_memory(measured)}."
        where = f"Peak, in the {memory.compiled_peak_in}"
        if memory.eager_peak_in != memory.compiled_peak_in:
            where += f" (eager's in the {memory.eager_peak_in})"
        self.totals = [
            (what, exact_size(eager), exact_size(compiled), _more(compiled - eager))
            for what, eager, compiled in (
                ("Kept for backward", memory.eager_kept, memory.compiled_kept),
                (where, memory.eager_peak, memory.compiled_peak),
            )
        ]
        self.lines = [KeptLineView(each, links) for each in memory.lines[:_MOST_ROWS]]
        self.omitted = len(memory.lines) - len(self.lines) + memory.lines_omitted


class KeptLineView:
    """One line. `tensors` say of each side what is kept there."""

    def __init__(self, line: KeptLine, links: Index) -> None:
        self.place: Place | None = None if line.place is None else links.place(line.place)
        self.code = "" if line.place is None else line.place.code or ""
        self.eager, self.compiled = (
            exact_size(amount) if amount else "" for amount in (line.eager_bytes, line.compiled_bytes)
        )
        self.tensors = [
            f"{side}: {_counted([_name(each) for each in tensors])}"
            for side, tensors in (("eager", line.eager), ("compiled", line.compiled))
            if tensors
        ]
        self.more = _more(line.compiled_bytes - line.eager_bytes)
        self.again = _counted([op.removeprefix("aten.") for op in line.recomputed])


def _name(tensor: KeptTensor) -> str:
    """A tensor by what made it; in eager by the module that ran."""
    return f"{tensor.op.removeprefix('aten.') or tensor.module} {tensor.dtype} {tensor.shape}".strip()


def _counted(names: list[str]) -> str:
    """ "3 mul, exp and 4 more"."""
    counted = Counter(names).most_common()
    return listed([f"{count} {name}" if count > 1 else name for name, count in counted], _MOST)


def _more(difference: int) -> str:
    return f"{'+' if difference > 0 else '−'}{exact_size(abs(difference))}" if difference else "same"
