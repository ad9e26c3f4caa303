"""A callback for the Trainer of transformers: `Trainer(..., callbacks=[DynalyzeCallback(html="compile.html")])`."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from dynalyze.integrations.training import RecordsTraining
from dynalyze.recording.recorder import Recording

if TYPE_CHECKING:
    from dynalyze.report import Report

_LIBRARIES = tuple(
    str(Path(transformers.__file__ or "").parent.parent / name) for name in ("transformers", "accelerate")
)
_log = logging.getLogger(__name__)


class DynalyzeCallback(RecordsTraining, TrainerCallback):  # type: ignore[misc]
    """Records what torch.compile does while a Trainer trains; its arguments are those of `RecordsTraining`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._trainer: weakref.ref[Any] | None = None

    def on_init_end(self, *_: Any, **kwargs: Any) -> None:
        """Notice how `train` ends: no event reports an exception."""
        self._find_trainer("train")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Begin to record; the model has been given to torch.compile by now, and nothing is compiled yet."""
        self._finish(None)
        if self._trainer is None:  # Added after the Trainer was made: `train` runs already.
            self._find_trainer("training_step")
        self._begin(state.global_step, _LIBRARIES, first=state.is_world_process_zero)
        if args.torch_compile and isinstance(
            self.seen, Recording
        ):  # Where Accelerate calls torch.compile for a Trainer.
            from accelerate import Accelerator

            line = inspect.getsourcelines(Accelerator.prepare_model)[1]
            self.seen.given(model, inspect.getsourcefile(Accelerator) or "", line)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._stepped(state.global_step):
            self._finish(None)

    def on_train_end(self, *_: Any, **kwargs: Any) -> None:
        self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        def tell(report: Report, counts: dict[str, int]) -> None:
            if (trainer := self._trainer() if self._trainer is not None else None) is None:
                return
            if report.outcome.status == "nothing_compiled" and not trainer.args.torch_compile:
                _log.warning(
                    "dynalyze recorded nothing: TrainingArguments(torch_compile=True) has the Trainer compile."
                )
            if error is None:
                trainer.log(counts)

        self._end(error, tell)

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
