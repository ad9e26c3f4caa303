"""Custom operators whose registration promises what their kernel does not do."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Report
from dynalyze.report.audit import OperatorCheck, OperatorProblem
from dynalyze.rules.rule import Ranked, Rule

_WHAT: dict[str, tuple[str, str]] = {
    "test_faketensor": (
        "its fake is unlike its kernel",
        "Make the function under `register_fake` return what the kernel returns: sizes, strides, dtype and device. "
        "Where the strides of the kernel vary, let the kernel end with `.contiguous()`.",
    ),
    "test_schema": (
        "its kernel does what its schema does not say",
        "Name in `mutates_args` each argument that the kernel writes to, and return new tensors, no inputs or views.",
    ),
    "test_autograd_registration": (
        "its autograd formula is registered in a way that compiling does not see",
        "Register the backward with `torch.library.register_autograd`.",
    ),
    "test_aot_dispatch_dynamic": (
        "traced with sizes that change, it does otherwise than in eager",
        "Let the fake, and the backward, take sizes that are symbols: no `int()` of them and no branch on them.",
    ),
}
"""By the part of opcheck that fails, the first cause first: what is wrong, and what to do."""


def _worst(check: OperatorCheck) -> OperatorProblem:
    known = list(_WHAT)
    return min(check.problems, key=lambda each: known.index(each.test) if each.test in known else len(known))


@Rule(
    title="A custom operator is not what it is registered as",
    severity="error",
    rank=40,
    link="https://pytorch.org/docs/stable/library.html#torch.library.opcheck",
    description="`dynalyze audit` gives each custom operator that the calls reach to `torch.library.opcheck`, with the "
    "inputs that it had. A fake that says other sizes or strides than the kernel gives, or a kernel that writes where "
    "its schema does not say so, makes compiled code wrong or crash; eager never asks either.",
)
def custom_operator(report: Report) -> Iterator[Ranked]:
    for check in report.operators:
        if not check.problems:
            continue
        problem = _worst(check)
        fallback = "opcheck refuses it", "Do what the message says, and run `torch.library.opcheck` again."
        what, action = _WHAT.get(problem.test, fallback)
        yield custom_operator.finding(
            f"{check.name}: {what}",
            action,
            why=f"torch.library.opcheck, {problem.test}: {problem.message}",
            location=check.location,
        )
