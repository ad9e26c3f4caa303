"""Answers that are wrong beyond rounding, NaN that eager does not have, operators that are not as registered."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from dynalyze.facts.audit import (
    asking_place,
    reduced_to,
    right_without,
    search_of,
    wrong_answers,
    wrong_operation,
    wrong_part,
)
from dynalyze.report import Advice, Location, Report
from dynalyze.report.audit import Bisection, OperatorCheck, OperatorProblem, stage_name
from dynalyze.report.measurements import Accuracy
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import listed

_MASKS = re.compile(r"transformers[/\\]masking_utils\.py$")


def _has_nan(test: Accuracy) -> bool:
    """Whether compiling made NaN or infinities in these answers."""
    return test.verdict == "suspicious" and any(tensor.nonfinite for tensor in test.tensors)


def _place_of(found: Bisection | None) -> Location | None:
    """The line that asks, or of the operation."""
    if found is None or not found.file or not found.line:
        return None
    if found.asks:
        return Location(file=found.file, line=found.line, function=found.asks[0].function, code=found.asks[0].code)
    return Location(file=found.file, line=found.line, function=found.module_class)


def _advice_on(found: Bisection | None) -> Advice:
    """One thing to do, how sure it is, and the script that shows it."""
    if found is None or not found.stage:
        return Advice(
            "Do not ship this configuration. `dynalyze audit` finds the stage of the compiler and the operation.",
            why="Measured against fp64 in this run; where it comes from was not searched for, or not found.",
        )
    if found.stage == "program":
        return _advice_on_own_code(found)
    action = "Do not ship this configuration before the cause is known."
    if found.repro:
        maker = f"backend {stage_name(found)}" if found.stage == "backend" else "compiler, PyTorch"
        action = f"Run `python {found.repro}`: it shows the fault alone. Send it to whoever makes the {maker}."
    elif without := right_without(found):
        action = f"{action} Until then {without} gives right answers."
    elif found.stage == "dynamo":
        action = (
            "Look for code that runs otherwise under compile "
            "(`torch.compiler.is_compiling()`, state that is changed outside of tensors); "
            "`torch.compiler.disable` on it gives eager's answers."
        )
    why = "Found by running it stage by stage"
    if small := reduced_to(found):
        why += f"; the script is reduced from {small}"
    if part := wrong_part(found):
        why += f"; the answers are right without {part}"
    if found.why:
        why += f"; the operation was judged on the very inputs that it had in the compiled run ({found.why})"
    elif found.op:
        why += "; the operation is the last of the smallest program that shows it"
    return Advice(action, f"{why}. {found.reason}".strip().rstrip(".") + ".")


def _advice_on_own_code(found: Bisection) -> Advice:
    """It is no fault of the compiler: which of the two branches is meant is the program's to say."""
    place, asks = found.asks[0], len(found.asks)
    here = f"{place.function} ({asking_place(found)})" if place.function else asking_place(found)
    action = "The compiler is not at fault: the program takes another branch when it is compiled. "
    if _MASKS.search(place.file):
        action += (
            "Give the model the mask that you mean, with four dimensions, or choose an attention that always gets one "
            '(`attn_implementation="eager"`): then there is no shortcut to take or not to take.'
        )
    else:
        action += f"Make both branches of {here} compute the same, or take the question out of it."
    why = (
        f"{here} asks whether it is compiled{f': `{place.code}`' if place.code else ''}. "
        f"Told in plain eager that it is, the program gives compiled's answers"
        f"{f'; it takes these {asks} places' if asks > 1 else ', and this place alone makes the difference'}. "
        "Which of the two is right is the program's to say: fp64 took the branch of eager"
    )
    return Advice(action, f"{why}. {found.reason}".strip().rstrip(".") + ".")


def _wrong(rule: Rule, test: Accuracy, report: Report, reason: str) -> Ranked:
    found = search_of(test, report.bisections)
    advice = _advice_on(found)
    own = found is not None and found.stage == "program"
    if own:  # Its errors are measured from the branch that eager takes.
        reason = ""
    return rule.finding(
        f"{test.configuration}, {test.phase}: {wrong_answers(test, found)}",
        msgspec.structs.replace(advice, action=f"{reason} {advice.action}".strip()),
        location=_place_of(found),
        rule="accuracy-program" if own else "",
    )


@Rule(
    title="Answers that rounding does not explain",
    severity="error",
    rank=1,
    description="The compiled answers, or gradients, are further from fp64 than those of eager, and not by rounding; "
    "or they have another dtype or shape; or compiled breaks a contract: strides, shared memory, Python values, an "
    "exception that eager raises. The stage of the compiler and the operation, with its line, are named where "
    "a search found them. accuracy-operation, a warning, is one operation that is wrong while the answers are not: "
    "what comes after it rounds more. accuracy-program is no fault of the compiler: the program asks whether it is "
    "compiled and does otherwise then.",
    more_ids=("accuracy-operation", "accuracy-program"),
)
def accuracy_suspicious(report: Report) -> Iterator[Ranked]:
    for test in report.accuracy:
        if test.verdict == "suspicious" and not _has_nan(test):
            yield _wrong(accuracy_suspicious, test, report, test.reason)
    for found in report.bisections:
        if not found.hidden or not found.op:
            continue
        advice = _advice_on(found)
        errors = ""
        if found.eager_rmse is not None and found.compiled_rmse is not None:
            errors = f" Its error against fp64 is {found.compiled_rmse:.3g}, that of eager {found.eager_rmse:.3g}."
        action = f"{advice.action}{errors} Other inputs or weights may not hide it."
        yield accuracy_suspicious.finding(
            f"{found.configuration}, {found.phase}: {wrong_operation(found)}",
            msgspec.structs.replace(advice, action=action),
            rank=60,
            rule="accuracy-operation",
            severity="warning",
            location=_place_of(found),
        )


@Rule(
    title="Wrong answers to other inputs",
    severity="warning",
    rank=50,
    description="`--vary-inputs` gives the program its own inputs in another form: other strides, sizes, special "
    "values, with gradients, or one tensor as several. Eager takes them, and compiled answers otherwise, beyond "
    "rounding, or breaks a contract. The inputs that the program really had may be answered rightly.",
)
def accuracy_inputs(report: Report) -> Iterator[Ranked]:
    for test in report.accuracy:
        wrong = [variant for variant in test.variants if variant.verdict == "suspicious"]
        if wrong:
            names = listed([variant.name for variant in wrong])
            yield accuracy_inputs.finding(
                f"{test.configuration}, {test.phase}: wrong answers to inputs that are varied: {names}",
                Advice(
                    "Where the program may get such inputs, keep what answers them in eager: `torch.compiler.disable`.",
                    why=f"Eager takes these inputs. {wrong[0].name}: {wrong[0].reason}",
                ),
            )


@Rule(
    title="Compiling makes NaN or infinities",
    severity="error",
    description="Eager's values are finite and the compiled ones are not. That is an error whatever else was measured: "
    "it spreads through all that is computed from them.",
)
def compile_makes_nan(report: Report) -> Iterator[Ranked]:
    for test in filter(_has_nan, report.accuracy):
        worst = max(test.tensors, key=lambda tensor: tensor.nonfinite)
        what = f"{'the gradient of ' if worst.kind == 'gradient' else ''}{worst.name}"
        what = f"argument {what}" if what.endswith(" after the call") else what
        yield _wrong(compile_makes_nan, test, report, f"{worst.nonfinite:,} values of {what} are NaN or infinite.")


_OTHERWISE = "Nothing is known of its answers. Compare them by what your task counts, the loss or a score."
# What the reason says, and what helps.
_ADVICE = (
    ("random numbers", "Switch dropout and sampling off (`model.eval()`), or draw the noise outside of the model."),
    ("each time", "Eager gives something else each time: seed it, or test a part of the model that draws nothing."),
    ("same way twice", "Eager gives something else each time: seed it, or test a part that draws nothing."),
    ("near tie", "Test `--phase prefill` or `decode`: they compare logits, not tokens."),
    ("memory", "Test a smaller batch, fewer layers, or a machine with more memory: fp64 needs 2 to 4 times as much."),
    ("far from fp64", "In this dtype eager itself is not near the exact answer: test it in float32."),
)  # fmt: skip


@Rule(
    title="Answers that could not be compared",
    severity="info",
    rank=700,
    description="Whether compiled is as right as eager cannot be told here: other random numbers were drawn, eager "
    "differs from itself, memory ran out, or a run failed. The reason is with the finding.",
)
def accuracy_not_comparable(report: Report) -> Iterator[Ranked]:
    for test in report.accuracy:
        if test.verdict == "not comparable":
            action = next((advice for words, advice in _ADVICE if words in test.reason), _OTHERWISE)
            yield accuracy_not_comparable.finding(
                f"{test.configuration}, {test.phase}: the answers could not be compared",
                f"{test.reason} {action}".strip(),
                why="The test ran and could not decide; this says nothing against the answers.",
            )


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
