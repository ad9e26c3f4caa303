"""A callback for the Trainer of transformers: `Trainer(..., callbacks=[DynalyzeCallback(html="compile.html")])`."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import transformers
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from dynalyze.integrations import checked
from dynalyze.recording.recorder import Recording

_LIBRARIES = tuple(
    str(Path(transformers.__file__ or "").parent.parent / name) for name in ("transformers", "accelerate")
)
_log = logging.getLogger(__name__)


class DynalyzeCallback(TrainerCallback):  # type: ignore[misc]
    """Records what torch.compile does while a Trainer trains, and writes the report at its end, an error included.

    `html` and `json` name the files. `stop_after_steps`: record only that many steps; training goes on. The counts of
    graph breaks and recompiles go to the Trainer's log. The recording itself is `seen`. In a distributed job the first
    process records. Whatever goes wrong here is a warning: it never ends a training.
    """

    def __init__(
        self,
        *,
        html: str | os.PathLike[str] | None = None,
        json: str | os.PathLike[str] | None = None,
        stop_after_steps: int | None = None,
    ) -> None:
        self._files = [checked(Path(file), suffix) for file, suffix in ((html, ".html"), (json, ".json")) if file]
        self._stop_after_steps = stop_after_steps
        self._first_step = 0
        self._trainer: weakref.ref[Any] | None = None
        self._open = False
        self.seen: Recording | None = None

    def on_init_end(self, *_: Any, **kwargs: Any) -> None:
        """Notice how `train` ends: no event reports an exception."""
        self._find_trainer("train")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Begin to record; the model has been given to torch.compile by now, and nothing is compiled yet."""
        self._finish(None)
        if not state.is_world_process_zero:
            return
        if self._trainer is None:  # Added after the Trainer was made: `train` runs already.
            self._find_trainer("training_step")
        self._first_step = state.global_step
        self.seen = Recording(outside=_LIBRARIES).start()
        self._open = True
        if args.torch_compile:  # Where Accelerate calls torch.compile for a Trainer.
            from accelerate import Accelerator

            line = inspect.getsourcelines(Accelerator.prepare_model)[1]
            self.seen.given(model, inspect.getsourcefile(Accelerator) or "", line)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """End the recording after the steps that were asked for."""
        if self._stop_after_steps is not None and state.global_step - self._first_step >= self._stop_after_steps:
            self._finish(None)

    def on_train_end(self, *_: Any, **kwargs: Any) -> None:
        """Write the report."""
        self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        """End the recording and publish it; once for each."""
        if not self._open or self.seen is None:
            return
        self._open = False
        self.seen.stop(error)
        try:
            for file in self._files:
                self.seen.save(file)
            if (trainer := self._trainer() if self._trainer is not None else None) is None:
                return
            if self.seen.report.outcome.status == "nothing_compiled" and not trainer.args.torch_compile:
                _log.warning(
                    "dynalyze recorded nothing: TrainingArguments(torch_compile=True) has the Trainer compile."
                )
            if error is None:
                trainer.log({"graph_breaks": len(self.seen.graph_breaks), "recompiles": len(self.seen.recompiles)})
        except Exception as problem:
            _log.warning("dynalyze could not write its report: %s: %s", type(problem).__name__, problem)

    def _find_trainer(self, method: str) -> None:
        """The Trainer that calls this: no event names it. `method` is watched for exceptions."""
        frame = sys._getframe(1)
        while frame is not None and not isinstance(frame.f_locals.get("self"), Trainer):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            trainer = frame.f_locals["self"]
            self._trainer = weakref.ref(trainer)
            run = getattr(trainer, method)

            @functools.wraps(run)
            def watched(*args: Any, **kwargs: Any) -> Any:
                try:
                    return run(*args, **kwargs)
                except BaseException as error:
                    self._finish(error)
                    raise

            setattr(trainer, method, watched)
