"""A callback for the Trainer of Lightning: `Trainer(callbacks=[DynalyzeCallback(html="compile.html")])`."""

from __future__ import annotations

import importlib.util
import logging
import os
from pathlib import Path
from typing import Any

from dynalyze.integrations import checked
from dynalyze.recording.recorder import Recording

if importlib.util.find_spec("lightning") is not None:  # The package of two names.
    import lightning.pytorch as lightning
else:
    import pytorch_lightning as lightning

_LIBRARIES = tuple(
    str(Path(lightning.__file__ or "").parents[above] / name)
    for above, name in ((0, ""), (1, "fabric"), (1, "lightning_fabric"))
)
_log = logging.getLogger(__name__)


class DynalyzeCallback(lightning.Callback):  # type: ignore[misc]
    """Records what torch.compile does in `fit`, and writes the report at its end, an error included.

    `html` and `json` name the files. `stop_after_steps`: record only that many steps; training goes on. The counts of
    graph breaks and recompiles go to the Trainer's logger. The recording itself is `seen`. In a distributed job the
    first process records. A report that cannot be written is a warning: it never ends a training.
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
        self._open = False
        self.seen: Recording | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to record: nothing of the model has been called yet."""
        self._finish(trainer, None)
        if trainer.is_global_zero:
            self._first_step = trainer.global_step
            self.seen = Recording(outside=_LIBRARIES).start()
            self._open = True

    def on_train_batch_end(self, trainer: Any, *_: Any, **kwargs: Any) -> None:
        """End the recording after the steps that were asked for."""
        if self._stop_after_steps is not None and trainer.global_step - self._first_step >= self._stop_after_steps:
            self._finish(trainer, None)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the report."""
        self._finish(trainer, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write the report of a training that failed."""
        self._finish(trainer, exception)

    def _finish(self, trainer: Any, error: BaseException | None) -> None:
        """End the recording and publish it; once for each."""
        if not self._open or self.seen is None:
            return
        self._open = False
        self.seen.stop(error)
        try:
            for file in self._files:
                self.seen.save(file)
            counts = {"graph_breaks": len(self.seen.graph_breaks), "recompiles": len(self.seen.recompiles)}
            for logger in trainer.loggers:
                logger.log_metrics(counts, step=trainer.global_step)
        except Exception as problem:
            _log.warning("dynalyze could not write its report: %s: %s", type(problem).__name__, problem)
