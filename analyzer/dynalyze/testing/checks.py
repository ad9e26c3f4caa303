"""The assertions of the pytest fixture `dynalyze`, each for a function with its inputs or for a block of code. Failures
name lines of code, causes and fixes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, overload

import torch

from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.call_workload import CallsWorkload
from dynalyze.capture.bench.contracts import Broken
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.environment import compile_disabled
from dynalyze.capture.inputs import Inputs, calls_from
from dynalyze.capture.nested_values import leaves
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.torch_private.compiled_calls import is_compiled_function, is_compiled_module
from dynalyze.capture.torch_private.trace import TRACE_LOGGER
from dynalyze.recording.recorder import Recording
from dynalyze.render.console import Summary, one_line
from dynalyze.render.terminal import add_findings
from dynalyze.report import Finding, GraphBreak, Location, Recompile, Report
from dynalyze.text.amounts import count_of
from dynalyze.text.escape import visible

Judge = Callable[[Report, BaseException | None], str]
Function = Callable[..., Any]
# Graph breaks and recompiles are Dynamo's: no backend has to generate code for them.
_DYNAMO_ALONE = "eager"
_MOST = 10
_LONGEST = 600
_WIDTH = 100


@contextmanager
def quiet_trace() -> Iterator[None]:
    """Without pytest's handlers on the logger of torch's trace, whose records are for programs."""
    logger = logging.getLogger(TRACE_LOGGER)
    set_aside = [handler for handler in logger.handlers if type(handler).__module__.startswith("_pytest.")]
    for handler in set_aside:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in set_aside:
            logger.addHandler(handler)


class CompileCheck:
    """A `with` block that is recorded, and judged at its end; `as seen` is the recording.

    The block's own exceptions pass; those of the compiler are judged where `judges_errors`. With `clean` the compile
    state is reset before and after the block.
    """

    def __init__(self, judge: Judge, *, judges_errors: bool = False, clean: bool = False) -> None:
        self._judge = judge
        self._judges_errors = judges_errors
        self._clean = clean
        self._recording = Recording()
        self._around = ExitStack()

    def __enter__(self) -> Recording:
        self._around.enter_context(quiet_trace())
        if self._clean:
            torch.compiler.reset()
            self._around.callback(torch.compiler.reset)
        return self._recording.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        __tracebackhide__ = True
        self._recording.stop(error)
        self._around.close()
        if error is not None and not (self._judges_errors and dynamo.is_compile_error(error)):
            return
        failure = self._judge(self._recording.report, error)
        if failure:
            raise AssertionError(failure) from None


class CompileChecks:
    """Each assertion takes a function or module, which it compiles and calls; or none, as the head of a `with` block.

    It resets the compile state before and after (torch.compiler.reset()), so that tests do not affect each other. Only
    a block of assert_no_recompiles does not: it is about what is warm already.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def compiled_with(self, **options: Any) -> CompileChecks:
        """The same assertions with these arguments of torch.compile, such as backend, mode or dynamic."""
        return CompileChecks(**{**self._options, **options})

    def record(self) -> Recording:
        """`dynalyze.record()`, for tests that look at the report themselves."""
        return Recording()

    @overload
    def assert_no_graph_breaks(self, /) -> CompileCheck: ...
    @overload
    def assert_no_graph_breaks(self, fn: Function, /, *args: Any, **kwargs: Any) -> Recording: ...
    def assert_no_graph_breaks(self, fn: Function | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """`fn(*args, **kwargs)` compiles without a graph break; with backend "eager" unless you choose one."""
        __tracebackhide__ = True
        check = CompileCheck(whole_graphs, judges_errors=True, clean=fn is None)
        if fn is None:
            return _block(check, kwargs)
        return self._checked(check, fn, [Inputs(args, kwargs)], backend=_DYNAMO_ALONE)

    @overload
    def assert_no_recompiles(self, /) -> CompileCheck: ...
    @overload
    def assert_no_recompiles(self, fn: Function, /, *calls: Any, warmup: int = 0) -> Recording: ...
    def assert_no_recompiles(self, fn: Function | None = None, /, *calls: Any, warmup: int = 0) -> Any:
        """None of these calls, one after the other, makes torch compile `fn` again.

        A call is a tuple of positional inputs, a dict of keyword inputs, or the single input; a list is several calls.
        The first `warmup` of them may compile.
        """
        __tracebackhide__ = True
        if fn is None:
            return _block(CompileCheck(no_recompiles), {"warmup": warmup} if warmup else {})
        made = [call for value in calls for call in calls_from(dict(value) if isinstance(value, Mapping) else value)]
        if len(made) <= warmup:
            raise TypeError("assert_no_recompiles(fn, *calls) needs the inputs of a call after warm-up")
        check = CompileCheck(no_recompiles if warmup else compiled_once)
        return self._checked(check, fn, made, warmup, backend=_DYNAMO_ALONE)

    @overload
    def assert_compiles(self, /, *, fullgraph: bool = True) -> CompileCheck: ...
    @overload
    def assert_compiles(self, fn: Function, /, *args: Any, fullgraph: bool = True, **kwargs: Any) -> Recording: ...
    def assert_compiles(self, fn: Function | None = None, /, *args: Any, fullgraph: bool = True, **kwargs: Any) -> Any:
        """`torch.compile(fn, fullgraph=fullgraph)(*args, **kwargs)` works, down to the backend."""
        __tracebackhide__ = True
        judge = whole_graphs if fullgraph else compiles
        check = CompileCheck(judge, judges_errors=True, clean=fn is None)
        if fn is None:
            return _block(check, kwargs)
        return self._checked(check, fn, [Inputs(args, kwargs)], fullgraph=fullgraph)

    def assert_same_answers(self, fn: Function, /, *args: Any, gradients: bool = False, **kwargs: Any) -> None:
        """Compiled answers `fn(*args, **kwargs)` as eager does, by the accuracy test of `dynalyze bench`: values,
        measured from fp64, and what is no number, such as strides, shared memory, exceptions and side effects. With
        `gradients` these are compared too.
        """
        __tracebackhide__ = True
        torch.compiler.reset()
        with quiet_trace():
            failure = wrong_here(fn, Inputs(args, kwargs), self._options, gradients=gradients)
        if failure:
            raise AssertionError(f"compiled answers otherwise than eager\n\n{visible(failure)}") from None

    def _checked(
        self, check: CompileCheck, fn: Function, calls: Sequence[Inputs], warmup: int = 0, **defaults: Any
    ) -> Recording:
        __tracebackhide__ = True
        # What is compiled keeps its own options.
        run = fn if compiled_already(fn) else torch.compile(fn, **{**defaults, **self._options})
        torch.compiler.reset()
        try:
            with quiet_trace():
                for call in calls[:warmup]:
                    run(*call.args, **call.kwargs)
            with check as seen:
                for call in calls[warmup:]:
                    run(*call.args, **call.kwargs)
            return seen
        finally:
            torch.compiler.reset()


def _block(check: CompileCheck, arguments: Mapping[str, Any]) -> CompileCheck:
    """The assertion for a `with` block. Raises TypeError for inputs without a function."""
    if arguments:
        raise TypeError(f"{', '.join(arguments)} given without a function: name the function first")
    return check


def fact_failure(report: Report, facts: Sequence[GraphBreak | Recompile], noun: str) -> str:
    """The number of these graph breaks or recompiles, with the findings on them, the most urgent first; "" for none."""
    ids = {fact.id for fact in facts}
    findings = [finding for finding in report.findings if ids & set(finding.evidence)]
    head = f"{count_of(len(facts), noun)}, expected none"
    return _text(report, head, facts[0].location, findings) if facts else ""


def compiles(report: Report, error: BaseException | None) -> str:
    """Why not something compiled, and all of it; "" where it did."""
    failed = [each for each in report.compilations if each.status == "failed"]
    if not failed and error is None:
        return nothing_checked(report)
    findings = [each for each in report.findings if each.severity == "error"]
    place = failed[0].location if failed else None
    text = _text(report, "it does not compile", place, findings)
    if error is None:
        return text
    # The first paragraph of torch's message, without hints: the rest is about the compiler's own code.
    lines = str(error).strip().partition("\n\n")[0].splitlines()
    message = "\n".join(visible(line) for line in lines if not line.lstrip().startswith("Hint:"))
    return f"{text}\n\n{type(error).__name__}: {message[:_LONGEST]}"


def nothing_checked(report: Report) -> str:
    """Why the report shows nothing: nothing was compiled, or not all of it recorded; "" where it does."""
    why = {
        "incomplete": "some compilations were not recorded, so the result is not certain",
        "nothing_compiled": "nothing was compiled, so nothing was checked",
    }.get(report.outcome.status)
    return f"{why}\n\n{one_line(report.outcome.message)}" if why else ""


def _text(report: Report, head: str, place: Location | None, findings: list[Finding]) -> str:
    if findings and findings[0].location is not None:
        place = findings[0].location
    summary = Summary(color=False, width=_WIDTH)
    add_findings(summary, report, findings[:_MOST])
    if len(findings) > _MOST:
        summary.line(f"{len(findings) - _MOST} more.")
    at = f" ({one_line(Path(place.file).name)}:{place.line} in {one_line(place.function)})" if place is not None else ""
    return f"{head}{at}\n\n{summary.text()}".rstrip()


def whole_graphs(report: Report, error: BaseException | None) -> str:
    """Why not each function compiled as one graph; "" where it did."""
    return fact_failure(report, report.graph_breaks, "graph break") or compiles(report, error)


def compiled_once(report: Report, error: BaseException | None) -> str:
    """What compiled twice, or that nothing compiled; "" where all is well."""
    return fact_failure(report, report.recompiles, "recompile") or nothing_checked(report)


def no_recompiles(report: Report, error: BaseException | None) -> str:
    """What recompiled, or that torch.compile is switched off; "" where all is well."""
    failure = fact_failure(report, report.recompiles, "recompile")
    return failure or (nothing_checked(report) if compile_disabled() else "")


def wrong_here(fn: Callable[..., Any], call: Inputs, options: Mapping[str, Any], *, gradients: bool) -> str:
    """Why compiled outputs of a call do not match eager, by the accuracy test of `dynalyze bench`; "" where they do.
    `options` are those of torch.compile; a compiled function keeps its own. Raises AssertionError where outputs cannot
    be compared.
    """
    __tracebackhide__ = True
    given = fn if compiled_already(fn) else torch.compile(fn, **options)
    workload = CallsWorkload(
        dynamo.wrapped_by_compile(fn) or fn, [call], phase="train" if gradients else "forward", grad=gradients
    )
    tensors = (each for each in leaves(tuple(call), objects=True) if isinstance(each, torch.Tensor))
    device = next((each.device.type for each in tensors), "cpu")
    # The test needs the configuration only to know whether it is Inductor, whose rounding can be set.
    backend = options.get("backend", "inductor")
    configuration = Configuration("tested", backend=backend if isinstance(backend, str) else "its own")
    answer = accuracy(workload, lambda: given, configuration, device)
    why = _why_wrong(answer)
    contracts = [str(Broken(**each)) for each in answer.get("contracts", ())]
    return "\n".join([why, *(text for text in contracts if text.lower() not in why.lower())]) if why else ""


def compiled_already(fn: Callable[..., Any]) -> bool:
    """Whether torch.compile returned it, or it is a module after `module.compile()`."""
    in_place = isinstance(fn, torch.nn.Module) and getattr(fn, "_compiled_call_impl", None) is not None
    return in_place or is_compiled_function(fn) or is_compiled_module(fn)


def _why_wrong(answer: Mapping[str, Any]) -> str:
    __tracebackhide__ = True
    reason = str(answer.get("reason", ""))
    if answer["verdict"] not in ("equal", "benign", "rounding only", "suspicious"):
        raise AssertionError(f"not comparable: {reason}")
    return (reason or "suspicious") if answer["verdict"] == "suspicious" else ""
