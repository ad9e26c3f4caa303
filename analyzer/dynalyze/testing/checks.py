"""The assertions of the pytest fixture `dynalyze`, each for a function with its inputs or for a block of code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, overload

import torch

from dynalyze.capture.inputs import Inputs, calls_from
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.torch_private.compiled_calls import is_compiled_function, is_compiled_module
from dynalyze.capture.torch_private.trace import TRACE_LOGGER
from dynalyze.recording.recorder import Recording
from dynalyze.testing import failures

if TYPE_CHECKING:
    from dynalyze.report import Report

Judge = Callable[["Report", BaseException | None], str]
Function = Callable[..., Any]
# Graph breaks and recompiles are Dynamo's: no backend has to generate code for them.
_DYNAMO_ALONE = "eager"


@contextmanager
def quiet_trace() -> Iterator[None]:
    """Without pytest's own handlers on the logger of torch's trace, which is for programs; all others stay."""
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
    """`with` this the block is recorded, and judged at its end; `as seen` is the recording.

    An exception of the block's own goes on as it is. One of the compiler's is judged where `judges_errors`. With
    `clean` nothing that was compiled before serves the block, and nothing of the block stays.
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

    The compile state is clean before and after it (torch.compiler.reset()), so that no other test has a say, nor meets
    what was compiled here. A block of assert_no_recompiles alone resets nothing: it is about what is warm already.
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
        check = CompileCheck(failures.whole_graphs, judges_errors=True, clean=fn is None)
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
        The first `warmup` of them may compile as often as they want.
        """
        __tracebackhide__ = True
        if fn is None:
            return _block(CompileCheck(failures.no_recompiles), {"warmup": warmup} if warmup else {})
        made = [call for value in calls for call in calls_from(dict(value) if isinstance(value, Mapping) else value)]
        if len(made) <= warmup:
            raise TypeError("assert_no_recompiles(fn, *calls) needs the inputs of a call after warm-up")
        check = CompileCheck(failures.no_recompiles if warmup else failures.compiled_once)
        return self._checked(check, fn, made, warmup, backend=_DYNAMO_ALONE)

    @overload
    def assert_compiles(self, /, *, fullgraph: bool = True) -> CompileCheck: ...
    @overload
    def assert_compiles(self, fn: Function, /, *args: Any, fullgraph: bool = True, **kwargs: Any) -> Recording: ...
    def assert_compiles(self, fn: Function | None = None, /, *args: Any, fullgraph: bool = True, **kwargs: Any) -> Any:
        """`torch.compile(fn, fullgraph=fullgraph)(*args, **kwargs)` works, down to the backend."""
        __tracebackhide__ = True
        judge = failures.whole_graphs if fullgraph else failures.compiles
        check = CompileCheck(judge, judges_errors=True, clean=fn is None)
        if fn is None:
            return _block(check, kwargs)
        return self._checked(check, fn, [Inputs(args, kwargs)], fullgraph=fullgraph)

    def _checked(
        self, check: CompileCheck, fn: Function, calls: Sequence[Inputs], warmup: int = 0, **defaults: Any
    ) -> Recording:
        __tracebackhide__ = True
        # What torch.compile returned, or a module after `module.compile()`, keeps its own options.
        in_place = isinstance(fn, torch.nn.Module) and getattr(fn, "_compiled_call_impl", None) is not None
        compiles = in_place or is_compiled_function(fn) or is_compiled_module(fn)
        run = fn if compiles else torch.compile(fn, **{**defaults, **self._options})
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
    """The assertion for a `with` block; inputs without a function are a slip."""
    if arguments:
        raise TypeError(f"{', '.join(arguments)} given without a function: name the function first")
    return check
