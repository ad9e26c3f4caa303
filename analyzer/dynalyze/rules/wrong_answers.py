"""What is known of wrong answers, in words: for the rules on accuracy."""

from __future__ import annotations

from dynalyze.report import Advice, Location
from dynalyze.report.audit import Bisection, BisectStage, stage_name
from dynalyze.report.measurements import Accuracy

_WITHOUT: dict[BisectStage, str] = {
    "inductor": "`backend='aot_eager_decomp_partition'` gives right answers",
    "decompositions": "`backend='aot_eager'` gives right answers",
    "aot_autograd": "`backend='eager'` gives right answers",
    "backend": "`backend='aot_eager'` gives right answers",
}


def has_nan(test: Accuracy) -> bool:
    """Whether compiling made NaN or infinities in these answers."""
    return test.verdict == "suspicious" and any(tensor.nonfinite for tensor in test.tensors)


def place(found: Bisection | None) -> Location | None:
    """The line of the operation, or where the forward of the module begins."""
    if found is None or not found.file or not found.line:
        return None
    return Location(file=found.file, line=found.line, function=found.module_class)


def advice(found: Bisection | None) -> Advice:
    """One thing to do, how sure it is, and the script that shows it."""
    if found is None or not found.stage:
        return Advice(
            "Do not ship this configuration. `dynalyze audit` finds the stage of the compiler and the operation.",
            why="Measured against fp64 in this run; where it comes from was not searched for, or not found.",
        )
    action = "Do not ship this configuration before the cause is known."
    if found.repro:
        action = f"Run `python {found.repro}`: it shows the fault alone. Send it to whoever makes the {_maker(found)}."
    elif without := _WITHOUT.get(found.stage):
        action = f"{action} Until then {without}."
    elif found.stage == "dynamo":
        action = (
            f"Look in {found.module_class or 'the function'} for code that runs otherwise under compile "
            "(`torch.compiler.is_compiling()`, state that is changed outside of tensors); "
            "`torch.compiler.disable` on it gives eager's answers."
        )
    return Advice(action, why=_why(found))


def _maker(found: Bisection) -> str:
    return f"backend {stage_name(found)}" if found.stage == "backend" else "compiler, PyTorch"


def _why(found: Bisection) -> str:
    told = "Found by running it stage by stage"
    if found.op:
        told += f"; the operation was judged on the very inputs that it had in the compiled run ({found.why})"
    elif found.module:
        told += ", and with one module compiled at a time"
    return f"{told}. {found.reason}".strip().rstrip(".") + "."
