"""A model of a library, `hf:NAME` or `timm:NAME`, in the child: builds the model, runs it once in eager, then compiled.

What goes wrong before the compile is reported as such: a model that cannot be built, or that fails in eager already,
says nothing about torch.compile. The eager call leaves nothing behind but what the model keeps of it by itself.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from dynalyze.capture import libraries, program
from dynalyze.capture.compiling import compile_arguments, compile_parts, compiled
from dynalyze.capture.events import EagerCall, Emit, Ending, ModelBuilt, ObjectCall, ObjectStarted, StageFailed
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import Built, ModelRequest
from dynalyze.capture.settings import (
    LANGUAGE_PHASES,
    CompileOptions,
    ModelBuild,
    ModelOptions,
    Phase,
    Placement,
    settings_of,
)
from dynalyze.capture.torch_private import dynamo

if TYPE_CHECKING:
    from dynalyze.capture.bench.workload import Step, Workload

_LONGEST = 500
_LONGEST_VALUE = 60


def run(request: dict[str, Any], options: CompileOptions, emit: Emit, then: Callable[..., object]) -> Ending:
    """Run the target that `request` names to its end, and `then(workload, compiled)` if all went well. Raises Misuse
    where there is no such model, or the phase is not for it.
    """
    target = _Target(request, options, emit)
    ending, workload = program.end_of(target.prepare)
    return ending if workload is None else target.call_compiled(workload, then)


def workload_of(built: Built, phase: Phase, *, batch: int | None = None, **language: Any) -> Workload:
    """What is done with a model in one phase, with the inputs that were built, whose sizes are those asked for.

    `language` are further arguments of `LanguageWorkload`. Raises Misuse where the model does not have this phase.
    """
    from dynalyze.capture.bench.call_workload import workload_over

    workload = workload_over(built.model, built.calls, phase, **language)
    # A batch that the first input does not tell.
    if batch is not None and phase not in LANGUAGE_PHASES and workload.batch != batch:
        workload.batch, workload.items = batch, float(batch)
    return workload


def description(built: Built) -> str:
    """The model and what it is called with, in one sentence."""
    inputs = ", ".join(f"{name} {text}" for name, text in texts_of(built.calls[0], built.model).items())
    return f"{built.class_name} ({built.family}) with {built.parameters:,} parameters; its inputs: {inputs}."


def how_built(built: Built, weights: bool) -> str:
    """What a reader has to know about every number that is measured on the model."""
    if built.is_small:
        return "It was made small, with random weights: --full-size keeps the size of its configuration."
    how = "the weights of its checkpoint" if weights else "the size of its configuration and random weights"
    inputs = " Its inputs are small: --full-size keeps their size." if built.has_small_inputs else ""
    return f"It has {how}.{inputs}"


def texts_of(inputs: Inputs, model: Callable[..., Any]) -> dict[str, str]:
    """The inputs as texts, by their names: dtype and shape of tensors, and what else there is."""
    taken = inspect.signature(getattr(model, "forward", model)).parameters.values()
    names = [each.name for each in taken if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    names += [str(number) for number in range(len(names), len(inputs.args))]
    positional = dict(zip(names, inputs.args, strict=False))
    return {name: _text(value) for name, value in {**positional, **inputs.kwargs}.items()}


class _Target:
    """One model with one phase, in the order of what happens to it."""

    def __init__(self, request: dict[str, Any], options: CompileOptions, emit: Emit) -> None:
        self._name, self._library = request["name"], request["library"]
        self._asked = asked = ModelOptions(**request["asked"])
        self._options = options
        self._emit = emit
        self._phase: Phase = "train" if options.train and asked.phase == "forward" else asked.phase

    def prepare(self) -> Workload:
        began = time.perf_counter()
        options, asked = self._options, self._asked
        request = ModelRequest(
            self._name, self._library, batch=asked.batch, sequence=asked.sequence,
            **settings_of(asked, ModelBuild), **settings_of(replace(options, train=self._phase == "train"), Placement),
        )  # fmt: skip
        with self._stage("model"):
            built = libraries.library(self._library).build(request)
        notes = [how_built(built, asked.weights)]
        seconds, inputs = time.perf_counter() - began, texts_of(built.calls[0], built.model)
        self._emit(ModelBuilt(built.class_name, built.family, built.parameters, seconds, inputs, notes))
        with self._stage("eager"):
            workload = workload_of(
                built, self._phase, batch=asked.batch, new_tokens=asked.new_tokens, static_cache=asked.static_cache
            )
            if not asked.cold:
                self._eager(workload)
        return workload

    def _eager(self, workload: Workload) -> None:
        """The call as it is without torch.compile, also inside of libraries that compile parts of themselves."""
        import torch

        began = time.perf_counter()
        with torch.compiler.set_stance("force_eager"):
            for step in workload.steps(workload.model):
                self._make(step)
        if self._phase == "train":
            workload.model.zero_grad(set_to_none=True)  # type: ignore[attr-defined]
        self._emit(EagerCall(time.perf_counter() - began))

    def call_compiled(self, workload: Workload, then: Callable[..., object]) -> Ending:
        import torch

        placed = replace(self._options, device=None, dtype=None, train=None)  # The model was built so.
        # `generate` is a loop of the library's around the model: users compile the forward that it calls.
        model: Any = workload.model
        called = model.forward if self._phase == "generate" else model
        if regions := getattr(model, "compiled_regions", None):  # As its documentation compiles it: by parts.
            compile_parts(model, regions, lambda call: torch.compile(call, **compile_arguments(placed)))
        target = model if regions else compiled(called, placed)
        steps = workload.steps(target)
        self._emit(ObjectStarted(len(steps), workload.notes))
        for index, step in enumerate(steps):
            ending, _ = program.end_of(partial(self._one_call, index, step, workload))
            if ending.exit_status != 0:
                return ending
        then(workload, target)
        return Ending(exit_status=0)

    def _one_call(self, index: int, step: Step, workload: Workload) -> None:
        """One compiled call; a refusal under our own --fullgraph is a fact, not a failure."""
        refused = ""
        try:
            self._make(step)
        except Exception as error:
            if not (self._options.fullgraph and dynamo.is_refusal(error)):
                if self._asked.cold:  # It was the first call of all: where eager fails as well, that is the reason.
                    with self._stage("eager"):
                        self._eager(workload)
                raise
            refused = str(error).splitlines()[0][:_LONGEST]
        self._emit(ObjectCall(index, refused))

    def _make(self, step: Step) -> None:
        step.prepare()
        outputs = step.run()
        if self._phase == "train":
            from dynalyze.capture.bench.call_workload import loss_of

            loss_of(outputs).backward()

    @contextmanager
    def _stage(self, stage: str) -> Iterator[None]:
        """Report what the block raises as a failure of this stage, or of the one that the error names."""
        try:
            yield
        except (Misuse, program.SoftStop, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._emit(failure_of(error, stage))
            raise


def failure_of(error: BaseException, stage: str) -> StageFailed:
    """The event for an error that ended `stage`."""
    from dynalyze.capture.bench.failures import kind_of, one_line
    from dynalyze.capture.libraries.building import CannotBuild

    raised = error
    if isinstance(error, CannotBuild):
        stage, raised = error.stage, error.__cause__ or error
    message = str(error).splitlines()[0] if isinstance(error, CannotBuild) and str(error) else one_line(error)
    file, line = _place(raised)
    out_of_memory = kind_of(raised, "eager") == "out_of_memory"
    return StageFailed(stage, type(raised).__name__, message[:_LONGEST], file, line, out_of_memory)


def _place(error: BaseException) -> tuple[str, int]:
    """The innermost line of the model's own code that an error passed, else of its library, else of any library."""
    frames = [
        each for each in reversed(traceback.extract_tb(error.__traceback__)) if not program.is_plumbing(each.filename)
    ]
    packages = [libraries.library_facts(prefix).package for prefix in libraries.PREFIXES]
    models = ({"transformers_modules"}, *({package, "models"} for package in packages))
    for within in models, tuple({package} for package in packages):
        for frame in frames:
            if any(folders <= set(PurePath(frame.filename).parts) for folders in within):
                return frame.filename, frame.lineno or 0
    outside = (frame for frame in frames if "torch" not in PurePath(frame.filename).parts and frame.filename[:1] != "<")
    return next(((frame.filename, frame.lineno or 0) for frame in outside), ("", 0))


def _text(value: Any) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    if isinstance(value, (list, tuple)) and value:
        same = {_text(each) for each in value}
        return f"{len(value)} of {same.pop()}" if len(same) == 1 else f"{type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else type(value).__name__
